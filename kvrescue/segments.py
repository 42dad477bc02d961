"""One run out of several calls: each goes on from the committed steps of the one before, and together they are the run that nobody interrupted.

A GPU that is lent for seconds at a time (ZeroGPU) cannot hold a run of minutes. A call ends between two steps with reason ``paused``; the
next one reads the committed steps again and writes on. The stream that comes out has one header, one end and no gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from kvrescue.config import ConfigError
from kvrescue.events import AnyEvent, Commit, End, Error, Evict, Header, Kv, Resumed, SourceCount
from kvrescue.opening import Opening, opening_of
from kvrescue.stop import Stopped

MOST_CALLS = 200
_ADDED = (
    "aborted_candidates",
    "flagged_candidates",
    "evictions",
    "propose_seconds",
    "score_seconds",
    "evict_seconds",
    "probes",
    "probe_tokens",
    "probe_seconds",
    "suppressed",
)
"""Counts of the closing event that add up over calls."""


def joined(call: Callable[[Opening | None], Iterator[AnyEvent]], opening: Opening | None = None) -> Iterator[AnyEvent]:
    """The events of a run whose calls ``call`` makes, each from where the last one stopped; ``opening``: steps that the whole run goes on from.

    A call that breaks off after the first step (no GPU left, say) ends the run with an ``error`` event that keeps what was written. One that
    breaks off before anything was written raises. ``Stopped`` from a call ends the run as a stop does.
    """
    began = time.monotonic()
    seq, run_id = 0, ""
    kept: list[AnyEvent] = []
    """Header, commits and memory maps: what the next call goes on from."""
    before: dict[str, Any] | None = None
    for _ in range(MOST_CALLS):
        replaying, replayed_evictions = before is not None, 0
        ended: End | Error | None = None
        try:
            for event in call(opening_of(kept) if before is not None else opening):
                if isinstance(event, (End, Error)):
                    ended = event
                    break
                if replaying:
                    replayed_evictions += isinstance(event, Evict)
                    if not isinstance(event, Resumed):
                        continue
                    replaying = False
                    if event.exact is not False:
                        continue  # as if nobody had interrupted
                run_id = run_id or event.run
                event = event.model_copy(update={"seq": seq, "run": run_id, "t_ms": int(1000 * (time.monotonic() - began))})
                seq += 1
                if isinstance(event, (Header, Commit, Kv)):
                    kept.append(event)
                yield event
        except Stopped as stopped:
            ms = int(1000 * (time.monotonic() - began))
            yield End(seq=seq, run=run_id, t_ms=ms, reason=stopped.reason, **_closing(kept, before))
            return
        except Exception as error:
            if before is None and not any(isinstance(event, Commit) for event in kept):
                raise
            lost = str(error) if isinstance(error, ConfigError) else f"The run lost its processor ({type(error).__name__})"
            message = f"{lost.rstrip('.')}; what it wrote so far is kept."
            yield Error(seq=seq, run=run_id, t_ms=int(1000 * (time.monotonic() - began)), code="call", message=message, **_closing(kept, before))
            return
        assert ended is not None, "a stream ends with end or error"
        before = _together(before, ended, replayed_evictions)
        if not (isinstance(ended, End) and ended.reason == "paused"):
            fields = {**before, "seq": seq, "run": run_id, "t_ms": int(1000 * (time.monotonic() - began)), "seconds": time.monotonic() - began}
            yield ended.model_copy(update=fields)
            return
    raise RuntimeError("a run took more calls than any run needs")


def _together(before: dict[str, Any] | None, ended: End | Error, replayed_evictions: int) -> dict[str, Any]:
    """The closing counts of all calls so far. The newest one's committed steps include those that it read again."""
    fields: dict[str, Any] = {
        name: getattr(ended, name) for name in (*_ADDED, "totals", "peak_resident", "peak_kv_bytes", "mean_retention", "steps", "answer")
    }
    if before is None:
        return {**fields, "replayed": ended.replayed}
    fields["evictions"] -= replayed_evictions
    for name in _ADDED:
        fields[name] += before[name]
    for name in ("peak_resident", "peak_kv_bytes"):
        fields[name] = max(fields[name], before[name])
    totals = {}
    for source in dict.fromkeys([*before["totals"], *ended.totals]):
        old, new = before["totals"].get(source, SourceCount()), ended.totals.get(source, SourceCount())
        discarded, aborted = old.discarded + new.discarded, old.aborted + new.aborted
        generated = new.committed + discarded + aborted
        totals[source] = SourceCount(generated=generated, committed=new.committed, discarded=discarded, aborted=aborted, steps=new.steps)
    return {**fields, "totals": totals, "replayed": before["replayed"]}


def _closing(kept: list[AnyEvent], before: dict[str, Any] | None) -> dict[str, Any]:
    """Counts of a run that broke off: what was committed is known; what the last call discarded is not, and is left out."""
    commits = [event for event in kept if isinstance(event, Commit)]
    old = before["totals"] if before else {}
    totals = {}
    for source in dict.fromkeys([*old, *(event.source for event in commits)]):
        mine = [event for event in commits if event.source == source]
        was = old.get(source, SourceCount())
        written = sum(event.tokens for event in mine)
        totals[source] = SourceCount(
            generated=written + was.discarded + was.aborted, committed=written, discarded=was.discarded, aborted=was.aborted, steps=len(mine)
        )
    known = {name: value for name, value in (before or {}).items() if name not in ("totals", "answer", "steps")}
    return {**known, "totals": totals, "steps": len(commits)}
