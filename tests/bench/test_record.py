"""What counts as degenerate, by hand: events as a run makes them, without a model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kvrescue.bench.record import Watcher
from kvrescue.config import make_config

CONFIG = make_config(ent_window=4, tau_ent=1.0, tau_cmp=0.3, cmp_window=256)


def degenerate(*steps: tuple[str, str, list[float]], answer: str | None = "7") -> bool:
    """``steps``: (source, text, entropies)."""
    watcher = Watcher(CONFIG)
    events: list[Any] = []
    for source, text, entropies in steps:
        events.append(SimpleNamespace(type="step_begin"))
        events.append(SimpleNamespace(type="tokens", source=source, rows=[SimpleNamespace(cand=0, ent=entropies)]))
        events.append(SimpleNamespace(type="commit", source=source, cand=0, text=text, score=0.5))
    counts = {"base": SimpleNamespace(generated=1, committed=1)}
    closing = dict.fromkeys(("peak_resident", "aborted_candidates", "probes", "suppressed", "seconds", "peak_kv_bytes", "evictions"), 0)
    events.append(SimpleNamespace(type="end", answer=answer, totals=counts, mean_retention=1.0, reason="answer", **closing))
    for event in events:
        watcher.see(event)
    return watcher.record(True).degenerate


def test_calm_text_with_an_answer_is_not():
    assert not degenerate(("base", "one", [0.1] * 6), ("helper", "two", [0.1] * 6))


def test_no_answer_is():
    assert degenerate(("base", "one", [0.1] * 6), answer=None)


def test_an_incoherent_base_is_and_an_unsure_helper_is_not():
    assert degenerate(("base", "one", [2.0] * 4))
    assert not degenerate(("helper", "one", [2.0] * 40))


def test_a_window_runs_on_over_the_bases_steps_but_not_over_a_helpers():
    assert degenerate(("base", "one", [2.0] * 2), ("base", "two", [2.0] * 2))
    assert not degenerate(("base", "one", [2.0] * 2), ("helper", "x", [2.0] * 9), ("base", "two", [2.0] * 2))


def test_loops_are_whoever_writes_them():
    assert degenerate(("helper", "again and " * 40, [0.1]))
    assert degenerate(("base", "again and " * 40, [0.1]))
