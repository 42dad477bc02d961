// Other thresholds on recorded signals: who would have died, and what that would have saved. What the models would have written instead
// cannot be known from a recording. Pure, and a small panel.

import { el, put, setText } from "./dom.mjs";
import { label } from "./format.mjs";
import { winnerOf } from "./state.mjs";

const MOST_LISTED = 8;
/** Methods whose base candidates are ended by the detectors. */
const ENDING = ["kv-rescue", "evicted-stepwise", "reco+rescue"];

/** Where a candidate's signals first pass a limit (tokens so far), or null. @param {import("./state.mjs").Candidate} one */
export function tripAt(one, { tau_ent, tau_cmp }) {
  const entropy = one.average.findIndex((value) => value !== null && value > tau_ent);
  const loop = one.gzip.find(([, ratio]) => ratio < tau_cmp);
  const places = [entropy < 0 ? null : [entropy + 1, "entropy"], loop ? [loop[0], "gzip"] : null].filter(Boolean);
  if (!places.length) return null;
  const [position, guard] = places.reduce((a, b) => (b[0] < a[0] ? b : a));
  return { position, guard };
}

/**
 * What other limits would have done to the base's candidates of a run.
 * @returns {{killed: {step: number, name: string, position: number, guard: string, saved: number, chosen: boolean}[], spared: {step: number, name: string}[],
 *   saved: number, known: number|null}} `known`: steps (from 0) before this one are the same either way; null when all are
 */
export function whatIf(state, limits) {
  const killed = [];
  const spared = [];
  for (const step of state.steps) {
    const winner = winnerOf(step);
    for (const one of step.candidates.values()) {
      if (one.source !== "base") continue;
      const trip = tripAt(one, limits);
      const name = label(one.source, one.cand);
      if (trip && (!one.abort || trip.position < one.abort.position)) {
        killed.push({ step: step.index, name, ...trip, saved: Math.max(0, one.tokens - trip.position), chosen: one === winner });
      } else if (!trip && one.abort) spared.push({ step: step.index, name });
    }
  }
  const turning = [...killed.filter((one) => one.chosen), ...spared].map((one) => one.step);
  return { killed, spared, saved: killed.reduce((sum, one) => sum + one.saved, 0), known: turning.length ? Math.min(...turning) : null };
}

/** @param {{t: import("./i18n.mjs").Translator}} options */
export function createWhatIf({ t }) {
  const root = el("details", "kvr-whatif");
  const limits = { tau_ent: 0, tau_cmp: 0 };
  const sliders = { tau_ent: slider("tau_ent", 0.05, 8, 0.05), tau_cmp: slider("tau_cmp", 0.01, 1, 0.01) };
  const told = el("p", "kvr-strong");
  const turning = el("p", "kvr-note");
  const list = el("ul", "kvr-whatif-list");
  put(root, el("summary", "", t("whatif.title")), el("p", "kvr-note", t("whatif.about")), ...Object.values(sliders).map(({ row }) => row), told, turning, list);
  let state = null;
  let seen = null;
  root.hidden = true;
  root.addEventListener("toggle", () => root.open && tell());

  function slider(name, min, max, step) {
    const input = el("input", "kvr-range");
    Object.assign(input, { type: "range", min, max, step });
    const value = el("output", "kvr-value");
    input.addEventListener("input", () => {
      limits[name] = Number(input.value);
      setText(value, t.fixed(limits[name]));
      tell();
    });
    return { row: put(el("label", "kvr-replay-row"), el("span", "kvr-whatif-name", t(`whatif.${name}`)), input, value), input, value };
  }

  function tell() {
    if (!state) return;
    const found = whatIf(state, limits);
    setText(told, found.killed.length ? t("whatif.killed", { n: found.killed.length, saved: found.saved }) : t("whatif.none"));
    const words = found.known === null ? t("whatif.same") : t("whatif.turn", { step: found.known + 1 });
    setText(turning, found.spared.length ? `${t("whatif.spared", { n: found.spared.length })} ${words}` : words);
    const rows = found.killed.slice(0, MOST_LISTED).map((one) => t(`whatif.row.${one.guard}`, { who: one.name, step: one.step + 1, position: one.position, saved: one.saved }));
    if (found.killed.length > MOST_LISTED) rows.push("…");
    list.replaceChildren(...rows.map((row) => el("li", "", row)));
  }

  return {
    root,
    reset() {
      [state, seen] = [null, null];
      root.hidden = true;
    },
    update(now) {
      const { header } = now;
      // A single chain is only flagged: no limit would have ended it.
      const guarded = header?.config.early_exit && ENDING.includes(header.config.method) && now.steps.some((step) => [...step.candidates.values()].some((one) => one.source === "base"));
      root.hidden = !guarded;
      if (!guarded) return;
      state = now;
      if (seen !== header) {
        seen = header;
        for (const [name, { input, value }] of Object.entries(sliders)) {
          limits[name] = Number(header.config[name]) || 0;
          input.value = String(limits[name]);
          setText(value, t.fixed(limits[name]));
        }
      }
      if (root.open) tell();
    },
  };
}
