// Who wrote it, as glyph and word.

import { el, glyph, put } from "./dom.mjs";
import { SOURCES, label } from "./format.mjs";

/** @param {"base"|"helper"} source @param {number} [cand] */
export function badge(source, t, cand) {
  const node = el("span", `kvr-badge kvr-${source}`);
  const name = t(`source.${source}`);
  return put(node, glyph(SOURCES[source].mark), el("span", "", cand === undefined ? name : `${label(source, cand)} ${name}`));
}
