"""Many runs by several visitors: no event is lost, nobody's text is kept for long, memory stays flat."""

from __future__ import annotations

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from kvrescue.presets import default_config
from kvrescue.trace import parse_trace
from kvrescue.ui import settings, stream
from kvrescue.ui.listeners import Page
from tests.ui.fake_backend import FakeBackend

VISITORS, RUNS = 5, 10


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_fifty_runs_of_five_visitors_lose_nothing_and_leave_nothing(monkeypatch):
    monkeypatch.setattr(stream, "UPDATE_SECONDS", 0.0)
    page = Page(FakeBackend(text=" synthetic words" * 20, steps=12))
    values = [default_config("smollm2").model_dump()[name] for name in settings.FIELDS]
    turn = threading.Lock()  # one model: runs take turns, as in the page's queue

    def visit(visitor: int, runs: int) -> None:
        request = SimpleNamespace(session_hash=f"visitor{visitor}")
        for _ in range(runs):
            page.start(request, "smollm2", f"problem of {visitor}", *values)
            with turn:
                text = [piece for piece, _ in page.run(request, "smollm2", f"problem of {visitor}", "", None, *values)][-1]
            trace = parse_trace(text.encode())
            assert trace[0].problem == f"problem of {visitor}" and trace[-1].type == "end"
            page.offer_trace(request)

    def all_visit(runs: int) -> int:
        with ThreadPoolExecutor(VISITORS) as pool:
            list(pool.map(lambda visitor: visit(visitor, runs), range(VISITORS)))
        gc.collect()
        return resident_bytes()

    warm = all_visit(2)
    after = all_visit(RUNS - 2)
    assert after <= 1.1 * warm, (warm, after)
    health = page.health()
    assert health["begun"] == health["finished"] == VISITORS * RUNS and health["running"] == health["waiting"] == 0
    for visitor in range(VISITORS):
        page.forget(SimpleNamespace(session_hash=f"visitor{visitor}"))
    assert page.health()["trace_bytes"] == 0 and page.health()["visitors"] == 0
    assert not list(Path(page.sessions._files.name).iterdir())
