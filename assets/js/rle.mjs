// Codec of the memory map; the same as kvrescue/rle.py. A run is one hex digit (level 0..15) and, when longer than one, its
// length in base 36; runs are joined by spaces: "f2o 03 a".

/** @param {string} text @returns {number[]} one level per position; throws on anything else */
export function decode(text) {
  const levels = [];
  for (const run of text ? text.split(" ") : []) {
    if (!/^[0-9a-f][0-9a-z]*$/.test(run)) throw new Error("bad run in the memory map");
    const length = run.length > 1 ? parseInt(run.slice(1), 36) : 1;
    if (length < 1 || levels.length + length > 1 << 20) throw new Error("a run of the memory map has an impossible length");
    const level = parseInt(run[0], 16);
    for (let i = 0; i < length; i++) levels.push(level);
  }
  return levels;
}

/** @param {number[]} levels @returns {string} */
export function encode(levels) {
  const runs = [];
  for (let i = 0; i < levels.length; ) {
    let end = i + 1;
    while (end < levels.length && levels[end] === levels[i]) end++;
    runs.push(levels[i].toString(16) + (end - i > 1 ? (end - i).toString(36) : ""));
    i = end;
  }
  return runs.join(" ");
}
