// Words and numbers for people: one table of sentences per language, English when a sentence is missing.

import ENGLISH from "../i18n/en.json" with { type: "json" };
import { formats } from "./format.mjs";
import { isolated } from "./text.mjs";

/** @typedef {ReturnType<typeof translator>} Translator */

/**
 * @param {Record<string, string>|null} [strings] a table like assets/i18n/en.json; its "locale" also sets how numbers are written
 * @returns {((key: string, values?: Record<string, any>) => string) & ReturnType<typeof formats>}
 *   `t(key, values)`: a number called `n` picks the plural form (`key.one`, `key.other`)
 */
export function translator(strings) {
  const table = { ...ENGLISH, ...strings };
  const locale = known(table.locale);
  const plurals = new Intl.PluralRules(locale);
  const tools = formats(locale);
  // One pass only: a value that looks like a placeholder (model text may) is left as it is.
  const fill = (text, values) =>
    text.replace(/\{(\w+)\}/g, (whole, name) => {
      if (!Object.hasOwn(values, name)) return whole;
      return typeof values[name] === "number" ? tools.number(values[name]) : isolated(String(values[name]));
    });
  const t = (key, values = {}) => {
    const form = typeof values.n === "number" ? table[`${key}.${plurals.select(values.n)}`] ?? table[`${key}.other`] : undefined;
    return fill(String(form ?? table[key] ?? isolated(key)), values);
  };
  return Object.assign(t, tools, { locale });
}

function known(locale) {
  try {
    return Intl.getCanonicalLocales(locale)[0] ?? "en";
  } catch {
    return "en";
  }
}
