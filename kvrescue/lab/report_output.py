"""The report for people: Markdown tables, the README's blocks, and a page of its own."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvrescue.bench.output import percent, put_between
from kvrescue.config import ConfigError
from kvrescue.lab.report import EVALUATED_POLICY

COLUMNS = {
    "accuracy": "share of problems with the right answer, 95 % Wilson interval",
    "unfinished": "share of runs without an answer",
    "degenerate": "share of runs without an answer, or whose text as a whole trips a detector (loops, incoherence)",
    "base_tokens": "tokens the base wrote per problem: committed, discarded and aborted",
    "helper_share": "share of the committed steps that the helper wrote",
    "recovery": "(accuracy - evicted) / (full - evicted), same policy and budget; none when eviction lost less than half a problem",
    "saving": "base tokens spared against evicted-stepwise with the same number of samples a step",
    "recall_errors": "share of runs whose first wrong step misremembers; likewise arithmetic_errors and form_errors",
    "seconds": "per problem, one thread",
}


def markdown(rows: Sequence[dict[str, Any]]) -> str:
    """The README's table, from rows as :func:`as_json` gives them."""
    return _reco_markdown(rows) if rows and "retention_mean" in rows[0] else _rescue_markdown(rows)


def _reco_markdown(rows: Sequence[dict[str, Any]]) -> str:
    head = "method|policy|N|right (95 %)|tokens|mean KV|peak KV|retention|probes|suppressed|s"
    lines = ["|" + head + "|", "|" + "---|" * len(head.split("|"))]
    for row in rows:
        cells = [
            f"`{row['method']}`",
            row["policy"] or "–",
            row["n"],
            f"{percent(row['accuracy'])} ({100 * row['ci_low']:.0f}–{100 * row['ci_high']:.0f})",
            f"{row['tokens']:.0f}",
            f"{row['mean_kv']:.0f}",
            f"{row['peak_kv']:.0f}",
            percent(row["retention_mean"]),
            f"{row['probes']:.1f}",
            f"{row['penalised']:.1f}",
            f"{row['seconds']:.1f}",
        ]
        lines.append("|" + "|".join(str(cell) for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def _rescue_markdown(rows: Sequence[dict[str, Any]]) -> str:
    head = "method|policy|B|N|right (95 %)|recovery|degenerate|recall / sum / form errors|helper's steps|base tokens|saving|s"
    lines = ["|" + head + "|", "|" + "---|" * len(head.split("|"))]
    for row in rows:
        cells = [
            f"`{row['method']}`",
            row["policy"] or "–",
            row["budget"] or "all",
            row["n"],
            f"{percent(row['accuracy'])} ({100 * row['ci_low']:.0f}–{100 * row['ci_high']:.0f})",
            percent(row["recovery"]),
            percent(row["degenerate"]),
            " / ".join(f"{100 * row[name]:.0f}" for name in ("recall_errors", "arithmetic_errors", "form_errors")),
            percent(row["helper_share"]),
            f"{row['base_tokens']:.0f}",
            percent(row["saving"]),
            f"{row['seconds']:.1f}",
        ]
        lines.append("|" + "|".join(str(cell) for cell in cells) + "|")
    return "\n".join(lines) + "\n"


def write(rows: Sequence[dict[str, Any]], about: dict[str, Any], folder: Path) -> None:
    """``rows.json``, ``table.md`` and ``report.html`` (with Plotly inside, so that it asks no host for anything)."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rows.json").write_text(json.dumps({"about": about, "rows": list(rows)}, indent=1) + "\n", encoding="utf-8")
        (folder / "table.md").write_text(markdown(rows), encoding="utf-8")
        (folder / "report.html").write_text(page(rows, about), encoding="utf-8")
    except OSError as error:
        raise ConfigError("out", f"The folder {folder} cannot be written: {error.strerror}.") from None


README_MARKS = {"rescue": "lab-table", "reco": "reco-table"}


def readme_block(suite: str, about: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    """What stands between a README's marks: where the figures come from, and the rows of the policy that all methods were measured with."""
    shown = [row for row in rows if suite != "rescue" or row["policy"] in (None, EVALUATED_POLICY)]
    torch, device = about.get("torch", ""), about.get("device", "")
    told = f"{about['problems']} fresh {about['difficulty']} problems of seed {about['seed']} a row, torch {torch} on {device}, one thread each."
    return f"{told}\n\n{markdown(shown)}"


def write_readme(file: Path, suite: str, about: dict[str, Any], rows: Sequence[dict[str, Any]]) -> None:
    """Replace the suite's table in a README. ConfigError when its marks are not there."""
    put_between(file, README_MARKS[suite], readme_block(suite, about, rows))


def page(rows: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    import plotly.graph_objects as go
    from plotly.io import to_html

    charts = []
    if rows and "retention_mean" in rows[0]:
        names = [f"{row['method']} {row['policy'] or ''} N={row['n']}" for row in rows]
        for title, column in (("Right answers", "accuracy"), ("Committed tokens", "tokens"), ("Mean KV (tokens)", "mean_kv")):
            figure = go.Figure(layout={"title": title, "template": "plotly_white"})
            figure.add_bar(x=names, y=[row[column] for row in rows])
            charts.append(to_html(figure, include_plotlyjs=False, full_html=False))
        return _document(charts, rows, about)
    for title, column in (("Right answers", "accuracy"), ("Degenerate runs", "degenerate"), ("Steps by the helper", "helper_share")):
        axes = {"yaxis": {"range": [0, 1.02], "tickformat": ".0%"}, "xaxis": {"title": "KV budget (tokens)"}}
        figure = go.Figure(layout={"title": title, "template": "plotly_white", **axes})
        lines: dict[str, list[dict[str, Any]]] = {}
        for row in rows:
            if row.get("budget") and row.get(column) is not None:
                lines.setdefault(f"{row['method']} {row['policy']} N={row['n']}", []).append(row)
        for name, points in lines.items():
            points = sorted(points, key=lambda row: row["budget"])
            error = {"array": [p["ci_high"] - p["accuracy"] for p in points], "arrayminus": [p["accuracy"] - p["ci_low"] for p in points]}
            bars = {"error_y": {"type": "data", **error}} if column == "accuracy" else {}
            figure.add_scatter(x=[p["budget"] for p in points], y=[p[column] for p in points], name=name, mode="lines+markers", **bars)
        if column == "accuracy":
            for row in rows:
                if row["method"] in ("full", "helper"):
                    figure.add_hline(row["accuracy"], line_dash="dot", annotation_text=row["method"])
        charts.append(to_html(figure, include_plotlyjs=False, full_html=False))
    return _document(charts, rows, about)


def _document(charts: Sequence[str], rows: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    from plotly.offline import get_plotlyjs

    names = list(rows[0]) if rows else []
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(str(row[name]))}</td>" for name in names) + "</tr>" for row in rows)
    told = "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>" for name, text in COLUMNS.items())
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>kvrescue: lab report</title>"
        "<style>body{font:16px system-ui;margin:2rem;max-width:1100px}td,th{padding:2px 8px;text-align:right;font-variant-numeric:tabular-nums}"
        "table{border-collapse:collapse;display:block;overflow-x:auto}tr:nth-child(even){background:#f3f4f6}dt{font-weight:600}</style>"
        f"<script>{get_plotlyjs()}</script><h1>The lab, measured</h1><p>{html.escape(json.dumps(about))}</p>{''.join(charts)}"
        f"<table><tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>{cells}</table><dl>{told}</dl></html>"
    )
