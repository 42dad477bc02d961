// The viewer in a page that is opened from disk, with no server. Such a page may load classic scripts, but neither modules nor other files:
// so the modules travel inside this script, as MODULES (name to text, put before it when it is written), and become an import map.

const TYPES = { mjs: "text/javascript", json: "application/json" };
const imports = {};
for (const [name, text] of Object.entries(MODULES)) imports[name] = `data:${TYPES[name.split(".").pop()]},${encodeURIComponent(text)}`;
const map = document.createElement("script");
map.type = "importmap";
map.textContent = JSON.stringify({ imports });
document.currentScript.after(map);
addEventListener("DOMContentLoaded", async () => {
  const node = document.getElementById("view");
  const show = document.getElementById("show");
  if (!node || !show) return;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paint = () => document.body.classList.toggle("dark", dark.matches);
  dark.addEventListener("change", paint);
  paint();
  const { mount, MOST_RUNS } = await import("kvrescue/stage.mjs");
  const { unpacked } = await import("kvrescue/gzip.mjs");
  const loadPlotly = () => window.Plotly ? Promise.resolve(window.Plotly) : new Promise((done, failed) => {
    const script = document.createElement("script");
    Object.assign(script, { src: "../viewer/plotly.min.js", onload: () => done(window.Plotly), onerror: failed });
    document.head.append(script);
  });
  let view = null;
  const boxes = [...document.querySelectorAll("input[data-run]")];
  const chosen = () => boxes.filter((box) => box.checked);
  const count = () => {
    show.disabled = !chosen().length;
    for (const box of boxes) box.disabled = !box.checked && chosen().length >= MOST_RUNS;
  };
  const open = async () => {
    const texts = await Promise.all(chosen().map(async (box) => {
      const bytes = Uint8Array.from(atob(document.getElementById(`run-${box.dataset.run}`).textContent), (letter) => letter.charCodeAt(0));
      return unpacked(new Blob([bytes]));
    }));
    view ??= mount(node, { loadPlotly });
    view.replay(texts.join(""), { title: document.title, command: node.dataset.command });
    window.kvrescue = view;
  };
  boxes.forEach((box) => box.addEventListener("change", count));
  show.addEventListener("click", async () => { await open(); node.scrollIntoView(); });
  count();
  if (chosen().length) await open();
});
