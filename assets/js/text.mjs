// Cutting text without breaking characters, and quoting it without turning what follows. Positions are UTF-16 units, as JavaScript strings count.

const isLow = (unit) => unit >= 0xdc00 && unit <= 0xdfff;
const isHigh = (unit) => unit >= 0xd800 && unit <= 0xdbff;
const splitsPair = (text, at) => at > 0 && at < text.length && isHigh(text.charCodeAt(at - 1)) && isLow(text.charCodeAt(at));

/** The nearest position at or before `at` that does not cut a surrogate pair in two. */
export const safeCut = (text, at) => (splitsPair(text, at) ? at - 1 : Math.max(0, Math.min(at, text.length)));

/** The first `most` units, whole characters only. */
export const clip = (text, most) => (text.length <= most ? text : text.slice(0, safeCut(text, most)));

/** The last `most` units, whole characters only. */
export function tail(text, most) {
  if (text.length <= most) return text;
  const from = text.length - most;
  return text.slice(splitsPair(text, from) ? from + 1 : from);
}

/** Where the UTF-8 form of `text` up to `end` has at most `bytes` bytes left: the beginning of a byte window. */
export function bytesBefore(text, end, bytes) {
  let at = Math.min(end, text.length);
  let left = bytes;
  while (at > 0) {
    const pair = at > 1 && isLow(text.charCodeAt(at - 1)) && isHigh(text.charCodeAt(at - 2));
    const unit = text.charCodeAt(at - 1);
    const size = pair ? 4 : unit < 0x80 ? 1 : unit < 0x800 ? 2 : 3;
    if (size > left) break;
    left -= size;
    at -= pair ? 2 : 1;
  }
  return at;
}

// Letters that are written from right to left, and characters that turn the direction.
const TURNS = /[\u0590-\u08ff\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** Text of a model, a file or a visitor as a part of a sentence of ours: its direction stays its own. (An isolate of its own could end ours.) */
export const isolated = (text) => (TURNS.test(text) ? `\u2068${text.replace(/[\u2066-\u2069]/g, "")}\u2069` : text);
