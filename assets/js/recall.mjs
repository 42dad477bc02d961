// What a memory map means. Pure.

import { decode } from "./rle.mjs";

/** Five visible classes of the sixteen levels; only 0 is "forgotten" and only 15 is "everywhere". */
export const shade = (level) => (level === 0 ? 0 : level < 6 ? 1 : level < 11 ? 2 : level < 15 ? 3 : 4);

export const FULL = 15;
const HALF = 8;
const decoded = new WeakMap();

/**
 * Levels of a memory event, decoded once; a broken map counts as no map.
 * @param {number} [group] of which layers; -1 for all of them together
 * @returns {number[]}
 */
export function levelsOf(kv, group = -1) {
  if (!decoded.has(kv)) decoded.set(kv, new Map());
  const known = decoded.get(kv);
  if (!known.has(group)) {
    let levels = [];
    try {
      levels = decode(group < 0 ? kv.map : kv.layers[group]);
    } catch {
      // The text stays readable without shades.
    }
    known.set(group, levels);
  }
  return known.get(group);
}

/** How many groups of layers have a map of their own. */
export const groupsOf = (kv) => (Array.isArray(kv?.layers) ? Math.min(kv.layers.length, MOST_GROUPS) : 0);
const MOST_GROUPS = 64;

/** Levels of a group of layers; of all of them where nothing is lost yet, so that groups have no maps of their own. */
export const levelsIn = (kv, group) => levelsOf(kv, group < groupsOf(kv) ? group : -1);

/** Behind which step (from 0; -1: the problem) a token came to be held at `most` or less; null while it is held more. */
export function droppedSince(kvs, last, { group, position, most }) {
  let since = null;
  for (let i = last; i >= 0 && levelsIn(kvs[i], group)[position] <= most; i--) since = kvs[i].step;
  return since;
}

/** What counts as held: the share as it is, or a token that any head, at least half of them, or every head holds. */
export const HELD_BY = ["share", "any", "half", "all"];

/** @param {number[]} levels @param {string} by one of HELD_BY */
export function heldBy(levels, by) {
  const least = { any: 1, half: HALF, all: FULL }[by];
  return least ? levels.map((level) => (level >= least ? FULL : 0)) : levels;
}

/** The newest memory (`at` null), or the one after step `at`; the newest when that step has none. */
export function memoryAt(kvs, at) {
  const newest = kvs[kvs.length - 1] ?? null;
  return at === null ? newest : (kvs.find((kv) => kv.step === at) ?? newest);
}

/** How many tokens a run's policy never drops: first ones (its sinks) and newest ones (its window). Others choose among all. */
export function alwaysKept({ policy, window, sinks, protect_sink: protectedSinks }) {
  const first = { "streaming-llm": sinks, keydiff: protectedSinks, knorm: protectedSinks }[policy];
  const newest = ["snapkv", "snapkv-decode", "rkv", "keydiff", "knorm"].includes(policy) ? window : 0;
  return { first: Number(first) || 0, newest: Number(newest) || 0 };
}

const hasDigit = (piece) => /\p{Nd}/u.test(piece);

/**
 * Numbers of the prompt that are gone at `kvs[last]`, with the step (from 0; -1: the prompt itself) behind which each was gone first.
 * @param {{group?: number, by?: string}} [held] of which layers, and what counts as held
 */
export function forgottenSince(kvs, last, pieces, { group = -1, by = "share" } = {}) {
  const since = new Map();
  const gone = (kv) => forgottenNumbers(pieces, heldBy(levelsIn(kv, group), by));
  kvs.slice(0, last + 1).forEach((kv) => {
    for (const number of gone(kv)) if (!since.has(number)) since.set(number, kv.step);
  });
  const now = new Set(gone(kvs[last]));
  return [...since].filter(([number]) => now.has(number));
}

/** A grid for a canvas: per group of layers the mean level in each of at most `columns` equal parts of the `seen` positions. */
export function gridOf(kv, columns) {
  const groups = groupsOf(kv);
  const rows = groups ? Array.from({ length: groups }, (_, i) => levelsOf(kv, i)) : [levelsOf(kv)];
  const width = Math.max(1, Math.min(columns, kv.seen));
  return rows.map((levels) =>
    Array.from({ length: width }, (_, column) => {
      const part = levels.slice(Math.floor((column * kv.seen) / width), Math.max(Math.floor((column * kv.seen) / width) + 1, Math.floor(((column + 1) * kv.seen) / width)));
      return part.length ? part.reduce((sum, level) => sum + level, 0) / part.length / FULL : 0;
    }),
  );
}

/** Different numbers (runs of digit tokens) that no head holds any more, wherever they stand. @param {string[]} pieces @param {number[]} levels @returns {string[]} */
export function forgottenNumbers(pieces, levels) {
  const [lost, held] = [new Set(), new Set()];
  for (let i = 0; i < pieces.length; ) {
    let end = i + 1;
    // "120" may be three tokens; a token that begins with a space begins another number.
    while (hasDigit(pieces[i]) && end < pieces.length && /^\p{Nd}/u.test(pieces[end])) end++;
    if (hasDigit(pieces[i]) && end <= levels.length) (levels.slice(i, end).every((level) => level === 0) ? lost : held).add(pieces.slice(i, end).join("").trim());
    i = end;
  }
  return [...lost].filter((number) => !held.has(number));
}
