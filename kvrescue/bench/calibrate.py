"""``python -m kvrescue calibrate``: detector thresholds for a model, from its own healthy runs (algorithms.md 5.4).

Healthy is the base with its full cache. tau_ent is the 99.9th percentile of the windowed entropy of its steps, tau_cmp the 0.1st of their gzip
ratios. What they would do is then told for the same kind of steps of an evicted base.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kvrescue.bench.problems import Problem
from kvrescue.config import RunConfig, make_config
from kvrescue.engine.run import run
from kvrescue.guards import rejudge
from kvrescue.models.load import Pair

HIGH, LOW = 99.9, 0.1


@dataclass
class Signals:
    """Of one step: token entropies in nats, and (tokens so far, gzip ratio) of its checks."""

    entropies: list[float] = field(default_factory=list)
    ratios: list[tuple[int, float]] = field(default_factory=list)

    def averages(self, window: int) -> list[float]:
        """Of every full window."""
        values = self.entropies
        return [sum(values[end - window : end]) / window for end in range(window, len(values) + 1)]


@dataclass
class Watched:
    """One run: its committed steps, and whether it found an answer."""

    steps: list[Signals]
    answered: bool


def watch(pair: Pair, problem: Problem, config: RunConfig) -> Watched:
    writing: dict[int, Signals] = {}
    steps: list[Signals] = []
    closing: Any = None
    for event in run(problem.text, config, pair):
        if event.type == "step_begin":
            writing = {}
        elif event.type == "tokens":
            for row in event.rows:
                one = writing.setdefault(row.cand, Signals())
                one.entropies += row.ent
                one.ratios += row.gzip
        elif event.type == "commit":
            steps.append(writing.get(event.cand, Signals()))
        closing = event
    return Watched(steps, closing.answer is not None)


@dataclass(frozen=True)
class Thresholds:
    """None where the text was always shorter than a window, so that there is nothing to judge by."""

    tau_ent: float | None
    tau_cmp: float | None


def thresholds(healthy: Sequence[Watched], window: int) -> Thresholds:
    averages = [value for one in healthy for step in one.steps for value in step.averages(window)]
    ratios = [ratio for one in healthy for step in one.steps for _, ratio in step.ratios]
    return Thresholds(
        round(float(np.percentile(averages, HIGH)), 4) if averages else None,
        round(float(np.percentile(ratios, LOW)), 4) if ratios else None,
    )


def tripped(runs: Sequence[Watched], found: Thresholds, config: RunConfig) -> tuple[float, float]:
    """(share of steps, share of runs with at least one step) that the thresholds end."""
    inf = float("inf")
    limits = {"tau_ent": found.tau_ent if found.tau_ent is not None else inf, "tau_cmp": found.tau_cmp if found.tau_cmp is not None else -inf}
    ended = [[rejudge(step.entropies, step.ratios, ent_window=config.ent_window, **limits) is not None for step in one.steps] for one in runs]
    flat = [one for steps in ended for one in steps]
    return (sum(flat) / len(flat) if flat else 0.0, sum(map(any, ended)) / len(ended) if ended else 0.0)


def calibrate(pair: Pair, problems: Sequence[Problem], defaults: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields ``{"done", "total"}`` after every run and at last the result."""
    plain = {"scorer": "none", "early_exit": False}
    runs: dict[str, list[Watched]] = {"full": [], "evicted": []}
    for number, problem in enumerate(problems):
        for offset, (method, into) in enumerate(runs.items()):
            config = make_config(**{**defaults, **plain, "method": method, "greedy_first": False, "seed": number})
            into.append(watch(pair, problem, config))
            yield {"done": 2 * number + offset + 1, "total": 2 * len(problems)}
    usual = make_config(**{**defaults, "method": "evicted", **plain})
    found = thresholds(runs["full"], usual.ent_window)
    capped = [one for one in runs["evicted"] if not one.answered]
    false_steps, _ = tripped(runs["full"], found, usual)
    hit_steps, _ = tripped(runs["evicted"], found, usual)
    _, hit_runs = tripped(capped, found, usual)
    yield {
        "model": pair.base.info.id,
        "tau_ent": found.tau_ent,
        "tau_cmp": found.tau_cmp,
        "settings": {name: getattr(usual, name) for name in ("ent_window", "cmp_window", "cmp_stride", "temperature", "top_p", "budget", "policy")},
        "problems": len(problems),
        "full_steps": sum(len(one.steps) for one in runs["full"]),
        "false_aborts": round(false_steps, 5),
        "evicted_steps": sum(len(one.steps) for one in runs["evicted"]),
        "evicted_aborts": round(hit_steps, 5),
        "evicted_unanswered": len(capped),
        "evicted_unanswered_hit": round(hit_runs, 5) if capped else None,
        "distributions": {
            method: {
                "entropy": [round(value, 4) for one in watched for step in one.steps for value in step.averages(usual.ent_window)],
                "gzip": [round(ratio, 4) for one in watched for step in one.steps for _, ratio in step.ratios],
            }
            for method, watched in runs.items()
        },
    }


def page(result: dict[str, Any]) -> str:
    """The two distributions, with the thresholds drawn into them. Plotly is inside: it asks no host."""
    import html

    import plotly.graph_objects as go
    from plotly.io import to_html
    from plotly.offline import get_plotlyjs

    charts = []
    for name, limit, title in (("entropy", "tau_ent", "Windowed entropy (nats)"), ("gzip", "tau_cmp", "gzip ratio")):
        figure = go.Figure(layout={"title": title, "barmode": "overlay", "template": "plotly_white", "yaxis": {"type": "log", "title": "windows"}})
        for method, values in result["distributions"].items():
            figure.add_histogram(x=values[name], name=f"{method} KV" if method == "full" else method, opacity=0.6, nbinsx=80)
        if result[limit] is not None:
            figure.add_vline(result[limit], line_dash="dash", annotation_text=f"{limit} = {result[limit]:g}")
        charts.append(to_html(figure, include_plotlyjs=False, full_html=False))
    told = {name: value for name, value in result.items() if name != "distributions"}
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>kvrescue: detector thresholds</title><script>{get_plotlyjs()}</script>"
        f"<h1>Detector thresholds of {html.escape(result['model'])}</h1>{''.join(charts)}"
        f"<pre>{html.escape(json.dumps(told, indent=1))}</pre></html>\n"
    )


def write(result: dict[str, Any], file: Path) -> None:
    """The values as JSON, and the page beside it."""
    from kvrescue.bench.store import write_whole

    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, json.dumps({name: value for name, value in result.items() if name != "distributions"}, indent=1) + "\n")
    write_whole(file.with_suffix(".html"), page(result))
