// Numbers and names as words.

const whole = new Intl.NumberFormat("en");

/** @param {number} value */
export const count = (value) => whole.format(value);
/** @param {number} value @param {number} digits */
export const fixed = (value, digits = 2) => (Number.isFinite(value) ? value.toFixed(digits) : "–");
/** @param {number} share 0..1 */
export const percent = (share) => `${Math.round(100 * share)} %`;
/** @param {number} value */
export const seconds = (value) => (value < 10 ? `${value.toFixed(1)} s` : `${Math.round(value)} s`);
/** @param {number} n @param {string} word */
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

/** @param {number} value */
export function bytes(value) {
  if (value < 1024) return `${value} B`;
  const units = ["kB", "MB", "GB"];
  let size = value / 1024;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit++;
  }
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

export const SOURCES = {
  base: { letter: "B", name: "base", mark: "■" },
  helper: { letter: "H", name: "helper", mark: "●" },
};
export const label = (source, cand) => `${SOURCES[source]?.letter ?? "?"}${cand + 1}`;

export const END_REASONS = {
  answer: "it wrote a boxed answer",
  eos: "the model ended its text",
  max_tokens: "the token limit was reached",
  max_steps: "the step limit was reached",
  stopped: "it was stopped",
  deadline: "the time limit was reached",
  no_candidate: "every candidate was aborted or empty",
};
