"""Results for people and programs: CSV, Parquet, Markdown, and pages that need no network."""

from __future__ import annotations

import html
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvrescue.bench.pages import page, problem_page, write_viewer
from kvrescue.bench.store import digest, write_whole
from kvrescue.config import ConfigError

COLUMNS = {
    "accuracy": "share of runs with the right answer; an interval of 95 %, bootstrapped over problems",
    "unfinished": "share of runs without an answer, which are never right",
    "unparsed": "share of runs whose answer could not be read",
    "degenerate": "share of runs without an answer, or whose text as a whole trips a detector",
    "aborted": "share of the base's candidates that a detector ended",
    "tokens": "committed per run",
    "base_tokens": "that the base wrote per run: committed, discarded and aborted; likewise helper_tokens",
    "helper_share": "share of the committed steps that the helper wrote; helper_share_tokens is its share of the tokens",
    "recovery": "(accuracy - evicted) / (full - evicted), same policy and budget; none when eviction lost less than half a problem; over several "
    "sets the mean of theirs, and recovery_of_means that of the mean accuracies",
    "saving": "base tokens spared against evicted-stepwise with as many samples a step",
    "retention": "held tokens over seen tokens, mean over the steps",
    "peak_kv": "most tokens that a layer and head of the evicted model held; peak_kv_bytes from tensor sizes",
    "pass_at_all": "share of problems with a right run, when there are several seeds",
    "seconds": "per run",
}


def percent(value: float | None) -> str:
    """Whole percent; a dash for what is not defined."""
    return "–" if value is None else f"{round(100 * value) or 0} %"


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    several = len({row["set"] for row in rows}) > 1
    head = (
        "set|" * several
        + "method|policy|B|N|problems|right (95 %)|recovery|degenerate|unfinished|helper's steps|base tokens|saving|retention|peak KV|s"
    )
    lines = ["|" + head + "|", "|" + "---|" * len(head.split("|"))]
    for row in rows:
        recovered = percent(row["recovery"])
        if row["recovery_low"] is not None:
            recovered += f" ({100 * row['recovery_low']:.0f}–{100 * row['recovery_high']:.0f})"
        right = percent(row["accuracy"]) + ("" if row["ci_low"] is None else f" ({100 * row['ci_low']:.0f}–{100 * row['ci_high']:.0f})")
        cells = [
            *([row["set"]] if several else []),
            f"`{row['method']}`",
            row["policy"] or "–",
            row["budget"] or "–",
            row["n"],
            row["problems"],
            right,
            recovered,
            percent(row["degenerate"]),
            percent(row["unfinished"]),
            percent(row["helper_share"]),
            f"{row['base_tokens']:.0f}",
            percent(row["saving"]),
            percent(row["retention"]),
            row["peak_kv"],
            f"{row['seconds']:.1f}",
        ]
        lines.append("|" + "|".join(str(cell) for cell in cells) + "|")
    return "\n".join(lines) + "\n"


README_MARK = "bench-table"


def readme_block(about: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    """What stands between a README's marks: the command, where it ran, and the rows, but for other ways to choose among whole trajectories."""
    where = about["environment"]
    told = f"`{shlex.join(about['command'])}`, torch {where['torch']} on {where['device']}."
    return f"{told}\n\n{markdown([row for row in rows if '/' not in row['method']])}"


def put_between(file: Path, mark: str, text: str) -> None:
    """Replace what stands between the marks of a README. ConfigError with field ``readme`` when they are not there."""
    try:
        before, rest = file.read_text(encoding="utf-8").split(f"<!-- {mark} -->\n", 1)
        after = rest.split(f"<!-- /{mark} -->", 1)[1]
        file.write_text(f"{before}<!-- {mark} -->\n{text}<!-- /{mark} -->{after}", encoding="utf-8")
    except OSError as error:
        raise ConfigError("readme", f"The file {file} cannot be rewritten: {error.strerror}.") from None
    except (ValueError, IndexError):
        raise ConfigError("readme", f"The file {file} lacks the marks <!-- {mark} --> and <!-- /{mark} -->.") from None


def write(folder: Path, rows: Sequence[dict[str, Any]], records: Sequence[dict[str, Any]], about: dict[str, Any], texts: dict[str, Any]) -> None:
    """All files of a results folder beside its records. ``records`` are the store's values, ``texts`` problems by id."""
    import pandas as pd

    write_whole(folder / "table.md", markdown(rows))
    write_whole(folder / "table.json", json.dumps({"about": about, "rows": list(rows)}, indent=1) + "\n")
    flat = [_flat(one) for one in records]
    frame = pd.DataFrame(flat)
    write_whole(folder / "results.csv", frame.to_csv(index=False))
    fresh = folder / "results.parquet.new"
    frame.to_parquet(fresh, index=False)
    fresh.replace(folder / "results.parquet")
    pages = folder / "problems"
    pages.mkdir(exist_ok=True)
    if any(one["traces"] for one in records):
        write_viewer(folder / "viewer")
    links = {}
    for problem in dict.fromkeys(one["problem"] for one in records):
        name = f"{digest(problem)}.html"
        links[problem] = f"problems/{name}"
        mine = [one for one in records if one["problem"] == problem]
        write_whole(pages / name, problem_page(problem, texts.get(problem, {}), mine, folder / "traces", about["command"]))
    write_whole(folder / "report.html", _report(rows, about, links, records))


def _flat(one: dict[str, Any]) -> dict[str, Any]:
    """One row of the CSV: plain columns; lists and tables as JSON text."""
    row = {**one["cell"], "problem": one["problem"], **one["record"]}
    return {name: json.dumps(value) if isinstance(value, dict | list) else value for name, value in row.items()}


# --- the report -----------------------------------------------------------------------------------------------------------


def _report(rows: Sequence[dict[str, Any]], about: dict[str, Any], links: dict[str, str], records: Sequence[dict[str, Any]]) -> str:
    from plotly.offline import get_plotlyjs

    sets: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        sets.setdefault(row["set"], []).append(row)
    body = "".join(f"<h2>{html.escape(name)}</h2>{''.join(_charts(found))}" for name, found in sets.items())
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(_shown(row.get(name)))}</td>" for name in names) + "</tr>" for row in rows)
    body += f"<h2>Table</h2><table class=results><tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>{cells}</table>"
    right: dict[str, list[bool]] = {}
    for one in records:
        right.setdefault(one["problem"], []).append(one["record"]["right"])
    listed = "".join(
        f"<li><a href='{html.escape(links[problem])}'>{html.escape(problem)}</a>: {sum(found)} of {len(found)} right</li>"
        for problem, found in right.items()
    )
    body += f"<h2>Problems</h2><ol>{listed}</ol>"
    body += "<h2>Columns</h2><dl>" + "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>" for name, text in COLUMNS.items()) + "</dl>"
    body += f"<h2>Settings</h2><pre>{html.escape(json.dumps(about, indent=1))}</pre>"
    return page("kvrescue: results", body, f"<script>{get_plotlyjs()}</script>")


def _shown(value: Any) -> str:
    return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


_CHARTS = (
    ("Right answers", "accuracy", ".0%"),
    ("Recovery of what eviction lost", "recovery", ".0%"),
    ("Degenerate runs", "degenerate", ".0%"),
    ("Base tokens per run", "base_tokens", ".0f"),
    ("Base tokens spared", "saving", ".0%"),
    ("Steps by the helper", "helper_share", ".0%"),
    ("Retention", "retention", ".0%"),
    ("Peak KV (tokens)", "peak_kv", ".0f"),
    ("Seconds per run", "seconds", ".2f"),
)


def _charts(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Each figure against the budget; rows without one are level lines."""
    import plotly.graph_objects as go
    from plotly.io import to_html

    made = []
    for title, column, form in _CHARTS:
        figure = go.Figure(layout={"title": title, "template": "plotly_white", "height": 380, "xaxis": {"title": "KV budget (tokens)"}})
        figure.update_yaxes(tickformat=form, rangemode="tozero")
        lines: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            if row["budget"] is not None and row[column] is not None:
                lines.setdefault(f"{row['method']} {row['policy']} N={row['n']}", []).append(row)
        for name, points in lines.items():
            points = sorted(points, key=lambda row: row["budget"])
            figure.add_scatter(
                x=[p["budget"] for p in points], y=[p[column] for p in points], name=name, mode="lines+markers", error_y=_bars(points, column)
            )
        level = [row for row in rows if row["budget"] is None and row[column] is not None]
        for row in level:
            title = row["method"] + (f" N={row['n']}" if row["n"] > 1 else "")
            figure.add_hline(row[column], line_dash="dot", annotation_text=title)
        if lines or level:
            made.append(to_html(figure, include_plotlyjs=False, full_html=False))
    return made


def _bars(points: Sequence[dict[str, Any]], column: str) -> dict[str, Any] | None:
    low, high = {"accuracy": ("ci_low", "ci_high"), "recovery": ("recovery_low", "recovery_high")}.get(column, ("", ""))
    if not low or any(point[low] is None for point in points):
        return None
    return {"type": "data", "array": [p[high] - p[column] for p in points], "arrayminus": [p[column] - p[low] for p in points]}
