"""Look at the viewer on a SYNTHETIC stream: screenshots at two widths in both themes, how far a page lags behind a fast stream, and how long the
slider takes in a long trace.

python tests/web/look.py shots OUT_FOLDER
python tests/web/look.py lag
python tests/web/look.py seek
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plotly
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
SHOTS = {"end": "steps=8", "open": "open&steps=6", "hostile": "hostile&steps=3", "empty": "empty"}
EVENTS, UPDATES_PER_SECOND = 3_000, 8
SEEKS = [i * 37 % 101 / 100 for i in range(101)]
"""Shares of a trace, each once, far forward and farther back in turns."""
MOST_SEEK_MS = 50

# Feeds a growing string at a fixed pace; lag is how late the page's own clock ticks while it works, and how long after the last
# piece the page is idle again.
LAG = """async ({ events, rate }) => {
  const all = [...window.synthetic({ steps: 60, n: 4, repeat: 6, run: "lag", batch: 5 })].slice(0, events);
  const text = window.lines(all);
  const cuts = Math.ceil(events / 10);
  let worst = 0, longest = 0, expected = performance.now() + 20;
  const clock = setInterval(() => { const now = performance.now(); worst = Math.max(worst, now - expected); expected = now + 20; }, 20);
  const began = performance.now();
  for (let i = 1; i <= cuts; i++) {
    const at = performance.now();
    window.view.update(text.slice(0, Math.floor(text.length * i / cuts)));
    longest = Math.max(longest, performance.now() - at);
    await new Promise((done) => setTimeout(done, Math.max(0, began + i * 1000 / rate - performance.now())));
  }
  const sent = performance.now();
  await new Promise((done) => requestIdleCallback(done));
  clearInterval(clock);
  return { events: all.length, bytes: text.length, steps: document.querySelectorAll(".kvr-card").length, worst_lag_ms: Math.round(worst),
    longest_update_ms: Math.round(longest), idle_after_ms: Math.round(performance.now() - sent), seconds: Math.round((sent - began) / 100) / 10,
    heap_mb: Math.round((performance.memory?.usedJSHeapSize ?? 0) / 1e6) };
}"""

# Opens a trace of at least so many events.
LONG = """async (events) => {
  let steps = 0, all;
  do all = window.synthetic({ steps: (steps += 10) }); while (all.length < events);
  const began = performance.now();
  window.view.replay(window.lines(all), { name: "long.ndjson" });
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return { events: all.length, steps, opened_ms: performance.now() - began };
}"""
# From the slider's event to the end of the layout, and to the second frame after it, which comes when the first was drawn.
SEEK = """async ({ seeks, pause }) => {
  const range = document.querySelector(".kvr-run .kvr-replay .kvr-range"), found = { layout: [], painted: [] };
  const frame = () => new Promise(requestAnimationFrame);
  for (const share of seeks) {
    const began = performance.now();
    range.value = String(Math.round(Number(range.max) * share));
    range.dispatchEvent(new Event("input"));
    document.body.offsetHeight;
    found.layout.push(performance.now() - began);
    await frame();
    await frame();
    found.painted.push(performance.now() - began);
    await new Promise((done) => setTimeout(done, pause));
  }
  return found;
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def translate_path(self, path: str) -> str:
        return str(PLOTLY) if path.startswith("/plotly.min.js") else super().translate_path(path)

    def log_message(self, *_: object) -> None:
        pass


def open_harness(browser, url: str, query: str, width: int, height: int = 900) -> Page:
    page = browser.new_page(viewport={"width": width, "height": height})
    page.on("console", lambda message: print("console:", message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: print("page error:", error))
    page.on("request", lambda request: None if request.url.startswith((url, "data:", "blob:")) else print("foreign:", request.url))
    page.goto(f"{url}/tests/web/harness.html?{query}")
    page.wait_for_function("window.view && window.Plotly")
    page.wait_for_timeout(700)
    return page


def shots(browser, url: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, query in SHOTS.items():
        for theme in ("light", "dark"):
            for width in (1280, 390):
                page = open_harness(browser, url, f"{query}&{theme}", width)
                for opener in page.locator(".kvr-expand").all()[:1]:
                    opener.click()
                page.locator(".kvr-list").evaluate("(list) => (list.scrollTop = 0)")
                if width < 700:
                    page.click(".kvr-fold")
                    page.wait_for_timeout(700)
                overflow = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                print(name, theme, width, f"sideways overflow {overflow}" if overflow > 0 else "ok", page.evaluate("window.hacked") or "")
                page.screenshot(path=str(folder / f"{name}-{theme}-{width}.png"), full_page=True)
                page.close()


@contextlib.contextmanager
def served() -> Iterator[tuple[Browser, str]]:
    handler = functools.partial(Quiet, directory=str(ROOT))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-background-networking"])
        yield browser, f"http://127.0.0.1:{server.server_port}"
        browser.close()
    server.shutdown()


def lag() -> dict[str, Any]:
    with served() as (browser, url):
        page = open_harness(browser, url, "empty", 1280)
        found: dict[str, Any] = page.evaluate(LAG, {"events": EVENTS, "rate": UPDATES_PER_SECOND})
        return found


def seek() -> dict[str, Any]:
    """A long trace is opened and moved through: slowly, then as fast as it goes; the heap in MB after each, without what may be freed."""
    with served() as (browser, url):
        page = open_harness(browser, url, "empty", 1280)
        tools = page.context.new_cdp_session(page)
        found: dict[str, Any] = page.evaluate(LONG, EVENTS)
        page.wait_for_timeout(2000)
        found["heap_mb"] = []
        for pause in (300, 0):
            times = page.evaluate(SEEK, {"seeks": SEEKS, "pause": pause})
            tools.send("HeapProfiler.collectGarbage")
            found["heap_mb"].append(round(tools.send("Runtime.getHeapUsage")["usedSize"] / 1e6, 1))
            if pause:
                found |= times
        return found


if __name__ == "__main__":
    if sys.argv[1] in ("lag", "seek"):
        print(lag() if sys.argv[1] == "lag" else seek())
    else:
        with served() as (chromium, address):
            shots(chromium, address, Path(sys.argv[2]))
