"""A page per problem: what each method wrote, side by side, and the app's viewer over the same runs. It opens from disk, without a server."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvrescue.bench.store import write_whole
from kvrescue.export import ASSETS, plotly_js

STYLE = """
:root{color-scheme:light dark;--base:#1d4ed8;--helper:#c2410c;--line:#8884;--bad:#b91c1c}
@media(prefers-color-scheme:dark){:root{--base:#93b4ff;--helper:#fdba74;--bad:#fca5a5}}
body{font:16px/1.45 system-ui,sans-serif;margin:1.5rem auto;max-width:1680px;padding:0 1rem}
.results{border-collapse:collapse;display:block;overflow-x:auto;font-variant-numeric:tabular-nums}
.results :is(td,th){padding:2px 8px;text-align:right;border-bottom:1px solid var(--line)}
.results :is(td,th):first-child{text-align:left}
.lanes{display:grid;grid-template-columns:repeat(auto-fill,minmax(280px,1fr));gap:1rem}
.lane{border:1px solid var(--line);border-radius:6px;padding:.6rem;overflow-wrap:anywhere;min-width:0}
.lane h2{font-size:1rem;margin:0 0 .4rem}.step{white-space:pre-wrap;border-left:4px solid;padding:.1rem .5rem;margin:.35rem 0}
.base{border-color:var(--base)}.helper{border-color:var(--helper);border-left-style:double}
.note{opacity:.8;font-size:.85rem}.wrong{color:var(--bad)}dt{font-weight:600}
.show{
position:sticky;top:0;z-index:1;padding:.6rem;background:Canvas;border-bottom:1px solid var(--line);margin:0}
#show{font:inherit;padding:.2rem .8rem}
"""

MOST_SHOWN = 3
"""Runs that a page's viewer begins with."""


def viewer_script() -> str:
    """The viewer's modules in one classic script; they name each other ``kvrescue/NAME``."""
    texts = {}
    for file in sorted([*(ASSETS / "js").glob("*.mjs"), ASSETS / "i18n" / "en.json"]):
        texts[f"kvrescue/{file.name}"] = re.sub(r'from "\.{1,2}/(?:i18n/)?([\w.]+)"', r'from "kvrescue/\1"', file.read_text("utf-8"))
    loader = (ASSETS / "js" / "from_disk.js").read_text("utf-8")
    return f"(() => {{\nconst MODULES = {json.dumps(texts)};\n{loader}}})();\n"


def write_viewer(folder: Path) -> None:
    """What the pages share: the viewer, its style sheet and Plotly, in ``folder``."""
    folder.mkdir(exist_ok=True)
    write_whole(folder / "viewer.js", viewer_script())
    write_whole(folder / "trace_view.css", (ASSETS / "css" / "trace_view.css").read_text("utf-8"))
    write_whole(folder / "plotly.min.js", plotly_js().read_text("utf-8"))


def page(title: str, body: str, head: str = "") -> str:
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width,initial-scale=1'>"
        f"<title>{html.escape(title)}</title><style>{STYLE}</style>{head}<h1>{html.escape(title)}</h1>{body}</html>\n"
    )


def problem_page(problem: str, told: dict[str, Any], records: Sequence[dict[str, Any]], traces: Path, command: Sequence[str]) -> str:
    """The lanes of one problem; ``traces`` holds the files that the records name, ``command`` is bench's own."""
    lanes, packed, shown = "", "", _first_shown(records)
    for at, one in enumerate(records):
        for number, steps in enumerate(one["lanes"]):
            lanes += f"<section class=lane><h2>{html.escape(_title(one['cell']))}{f', run {number + 1}' if len(one['lanes']) > 1 else ''}</h2>"
            if number == 0:
                lanes += _verdict(one["record"])
            if number < len(one["traces"]):
                name = one["traces"][number]
                checked = " checked" if (at, number) in shown else ""
                lanes += f"<p class=note><label><input type=checkbox data-run={at}-{number}{checked}> in the viewer</label>, "
                lanes += f"<a href='../traces/{html.escape(name)}' download>trace</a></p>"
                packed += f"<script type=text/plain id=run-{at}-{number}>{base64.b64encode((traces / name).read_bytes()).decode()}</script>"
            lanes += "".join(_step(step) for step in steps) + "</section>"
    body = f"<p>{html.escape(told.get('text', ''))}</p><p><b>Answer: {html.escape(told.get('answer', ''))}</b></p>"
    head = ""
    if packed:
        head = "<link rel=icon href='data:,'><link rel=stylesheet href='../viewer/trace_view.css'><script src='../viewer/viewer.js'></script>"
        made_by = html.escape(f"python -m kvrescue {shlex.join(command)}")
        body += f"<div id=view data-command='{made_by}'></div>{packed}"
        body += "<p class=show><button id=show>Show the ticked runs</button> up to four, side by side</p>"
    note = "Base: single line. Helper: double line. A trace has every event of its run, one JSON object a line, gzipped."
    return page(problem, f"{body}<div class=lanes>{lanes}</div><p class=note>{note}</p>", head)


def _first_shown(records: Sequence[dict[str, Any]]) -> set[tuple[int, int]]:
    """The full cache, the evicted one and its rescue, where the grid has them; else the first methods."""
    order = ("full", "evicted", "kv-rescue")
    first: dict[str, int] = {}
    for at, one in enumerate(records):
        first.setdefault(one["cell"]["method"], at)
    ranked = sorted(first, key=lambda method: order.index(method) if method in order else len(order))
    return {(first[method], 0) for method in ranked[:MOST_SHOWN]}


def _title(cell: dict[str, Any]) -> str:
    budget = cell["budget"] and f"B={cell['budget']}"
    return " ".join(str(part) for part in (cell["method"], cell["policy"], budget, f"N={cell['n']}", f"seed {cell['seed']}") if part)


def _verdict(record: dict[str, Any]) -> str:
    verdict = "right" if record["right"] else "wrong"
    said = "no answer" if record["answer"] is None else record["answer"]
    return f"<p class='{verdict}'>{html.escape(said)} ({verdict}, {html.escape(record['reason'])})</p>"


def _step(step: dict[str, Any]) -> str:
    notes = [] if step["score"] is None else [f"reward {step['score']:.2f}"]
    if step["aborted"]:
        notes.append(f"{len(step['aborted'])} base candidates ended by {', '.join(sorted(set(step['aborted'])))}")
    told = f"<div class=note>{html.escape(step['source'])}{html.escape(': ' + ', '.join(notes) if notes else '')}</div>"
    return f"<div class='step {html.escape(step['source'])}'>{html.escape(step['text'].strip())}{told}</div>"
