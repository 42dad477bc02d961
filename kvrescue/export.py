"""What leaves this folder for the web: the viewer with the recorded runs as plain files, which any web server can show, and a Space."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from kvrescue.config import ConfigError

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "assets"
TRACES = ROOT / "examples" / "traces"
VIEWER_PARTS = ("css", "js", "i18n")
"""Of assets/, what the viewer needs."""

INDEX = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>kvrescue: recorded runs</title>
<meta name="description" content="Watch a model forget, and see it rescued step by step.">
<meta http-equiv="Content-Security-Policy" content="default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="assets/css/trace_view.css">
<link rel="stylesheet" href="site.css">
</head>
<body>
<main>
<h1>kvrescue</h1>
<p id="claim">A language model forgets when its KV cache is evicted. Watch it lose the thread, and see a small helper bring it back, step by step.</p>
<nav id="recordings" aria-label="Recordings"></nav>
<div id="view"></div>
</main>
<script type="module" src="site.mjs"></script>
<noscript>The viewer needs JavaScript.</noscript>
</body>
</html>
"""

SITE_CSS = """body {
  margin: 0; padding: 16px; background: #f7f8fa; color: #111827; font-family: system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif;
}
body.dark { background: #0f0f11; color: #f3f4f6; }
main { max-width: 1680px; margin: 0 auto; }
h1 { margin: 0; font-size: 26px; }
nav { display: flex; flex-wrap: wrap; gap: 4px 20px; margin: 8px 0 16px; }
nav a { color: inherit; line-height: 1.8; }
"""

SITE_JS = """import { boot } from "./assets/js/boot.mjs";
import { inLanguage, languageOf, languages } from "./assets/js/language.mjs";

const asked = new URLSearchParams(location.search);
const dark = asked.get("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
document.body.classList.toggle("dark", dark === "dark");
const base = new URL("./", import.meta.url);
boot(document.getElementById("view"), { base }).then((view) => { window.kvrescue = view; });
const read = async (path) => (await fetch(new URL(path, base))).json();
const list = await read("traces/index.json");
const language = languageOf();
const words = await read(`assets/i18n/${language}.json`);
document.documentElement.lang = language;
document.getElementById("claim").textContent = words["page.claim"];
document.querySelector("main").prepend(languages(language));
document.getElementById("recordings").setAttribute("aria-label", words["site.recordings"]);
document.getElementById("recordings").append(...list.map(({ id, title }) => {
  const link = document.createElement("a");
  const trace = `?trace=${encodeURIComponent(id)}`;
  link.href = asked.has("lang") ? inLanguage(language, trace) : trace;
  link.textContent = words[`example.${id}.title`] ?? title;
  return link;
}));
"""

README = """---
title: kvrescue, recorded
emoji: 🛟
colorFrom: blue
colorTo: yellow
sdk: static
pinned: false
license: apache-2.0
short_description: Recorded runs of a model that forgets, and is rescued
---

# kvrescue: recorded runs

The viewer and its recorded runs as plain files, written by `python -m kvrescue export-static`. Serve the folder with any web server, for example
`python3 -m http.server --directory .`, or push it to a static Space.
"""


SPACE_PARTS = ("app.py", "kvrescue", "assets", "examples", "LICENSE", "README.md")


def export_space(out: Path) -> int:
    """Write what a Gradio Space needs into ``out``, with the requirements of its runtimes; returns how many bytes it has."""
    _empty(out)
    try:
        for part in SPACE_PARTS:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, out / part, ignore=shutil.ignore_patterns("__pycache__", "images", "report"))
            else:
                shutil.copyfile(ROOT / part, out / part)
        shutil.copyfile(ROOT / "requirements-space.txt", out / "requirements.txt")
    except OSError as error:
        raise ConfigError("out", f"out is {str(out)!r}, which cannot be written: {error.strerror}.") from None
    return _size(out)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _empty(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        filled = any(out.iterdir())
    except OSError as error:
        raise ConfigError("out", f"out is {str(out)!r}, which cannot be written: {error.strerror}.") from None
    if filled:
        raise ConfigError("out", f"out is {str(out)!r}, which is not empty; name a new or an empty folder.")


def plotly_js() -> Path:
    """Plotly's own script, from the installed package."""
    import plotly

    return Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


def export_site(out: Path) -> int:
    """Write the site into ``out``, a new or empty folder; returns how many bytes it has. ConfigError when the folder holds anything."""
    _empty(out)
    try:
        for part in VIEWER_PARTS:
            shutil.copytree(ASSETS / part, out / "assets" / part)
        shutil.copytree(TRACES, out / "traces")
        shutil.copyfile(plotly_js(), out / "plotly.min.js")
        for name, text in {"index.html": INDEX, "site.css": SITE_CSS, "site.mjs": SITE_JS, "README.md": README}.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError("out", f"out is {str(out)!r}, which cannot be written: {error.strerror}.") from None
    return _size(out)


def recordings() -> int:
    return len(json.loads((TRACES / "index.json").read_text(encoding="utf-8")))
