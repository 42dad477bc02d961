// What a memory map means. Pure.

import { decode } from "./rle.mjs";

/** Five visible classes of the sixteen levels; only 0 is "forgotten" and only 15 is "everywhere". */
export const shade = (level) => (level === 0 ? 0 : level < 6 ? 1 : level < 11 ? 2 : level < 15 ? 3 : 4);

const decoded = new WeakMap();

/** Levels of a memory event, decoded once; a broken map counts as no map. @returns {number[]} */
export function levelsOf(kv) {
  if (!decoded.has(kv)) {
    let levels = [];
    try {
      levels = decode(kv.map);
    } catch {
      // The text stays readable without shades.
    }
    decoded.set(kv, levels);
  }
  return decoded.get(kv);
}

/** The newest memory (`at` null), or the one after step `at`; the newest when that step has none. */
export function memoryAt(kvs, at) {
  const newest = kvs[kvs.length - 1] ?? null;
  return at === null ? newest : (kvs.find((kv) => kv.step === at) ?? newest);
}

const hasDigit = (piece) => /\p{Nd}/u.test(piece);

/** Different numbers (runs of digit tokens) none of whose tokens any head holds. @param {string[]} pieces @param {number[]} levels @returns {string[]} */
export function forgottenNumbers(pieces, levels) {
  const lost = new Set();
  for (let i = 0; i < pieces.length; ) {
    let end = i + 1;
    // "120" may be three tokens; a token that begins with a space begins another number.
    while (hasDigit(pieces[i]) && end < pieces.length && /^\p{Nd}/u.test(pieces[end])) end++;
    if (hasDigit(pieces[i]) && end <= levels.length && levels.slice(i, end).every((level) => level === 0)) lost.add(pieces.slice(i, end).join("").trim());
    i = end;
  }
  return [...lost];
}
