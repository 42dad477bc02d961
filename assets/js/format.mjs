// Numbers and short names as text.

/** @param {string} [locale] */
export function formats(locale = "en") {
  const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 3 });
  const digits = [0, 1, 2, 3].map((n) => new Intl.NumberFormat(locale, { minimumFractionDigits: n, maximumFractionDigits: n }));
  const fixed = (value, n = 2) => (Number.isFinite(value) ? digits[n].format(value) : "–");
  return {
    /** Counts and settings as they are: 1,234 or 2.5. @param {number} value */
    number: (value) => (Number.isFinite(value) ? whole.format(value) : "–"),
    fixed,
    /** @param {number} share 0..1 */
    percent: (share) => `${fixed(100 * share, 0)} %`,
    /** @param {number} value */
    seconds: (value) => `${fixed(value, value < 10 ? 1 : 0)} s`,
    /** @param {number} value */
    bytes(value) {
      const units = ["B", "kB", "MB", "GB", "TB"];
      let size = value;
      let unit = 0;
      while (size >= 1024 && unit < units.length - 1) {
        size /= 1024;
        unit++;
      }
      return `${fixed(size, unit && size < 10 ? 1 : 0)} ${units[unit]}`;
    },
  };
}

export const SOURCES = {
  base: { letter: "B", mark: "■" },
  helper: { letter: "H", mark: "●" },
};

/** Short name of a candidate, counted from 1: "B1", "H3". */
export const label = (source, cand) => `${SOURCES[source]?.letter ?? "?"}${cand + 1}`;
