"""ReCo in the loop: what happens between two steps when a controller is plugged in (kvrescue/reco decides, this carries out)."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from kvrescue import events
from kvrescue.reco.controller import Controller
from kvrescue.reco.early_exit import PROBE_TOKENS, accepted, closing_text

if TYPE_CHECKING:
    from kvrescue.engine.run import _Run


def after_step(run: _Run, control: Controller, step: int, reward: float | None, asks: bool = True) -> Generator[Any, None, bool]:
    """ReCo after a step: perhaps ask for the answer, then decide about memory and the next step's penalty. True ends the run.

    ``asks`` is False for steps of an earlier run: their answers were not accepted then.
    """
    cache = run.memory.cache
    run.directive = control.after_step(reward, cache.seen, cache.resident, cache.seen - run.grown_from)
    if asks and run.directive.probe and (yield from ask(run, step)):
        return True
    decision = run.directive.retention
    if decision is not None:
        before, run.grown_from = cache.resident, cache.seen
        run.memory.retain(decision.target)
        yield run.event(events.Retain, step=step, before=before, after=cache.resident, **vars(decision))
        yield from run.evictions(run.memory, step, "control")
        yield run.kv(step)
    return False


def set_penalty(run: _Run) -> float:
    """The directive's penalty on every source; none behind the end of thinking."""
    thought = run.opening + run.text
    penalty = 0.0 if "</think>" in thought else run.directive.penalty
    for proposer in run.proposers.values():
        proposer.penalty = penalty
    return penalty


def ask(run: _Run, step: int) -> Generator[Any, None, bool]:
    """Probe the base for an answer. Accepted, it becomes the last step; rejected, nothing has changed."""
    began = time.perf_counter()
    closing = closing_text(run.config.closing_prompt, run.opening + run.text)
    ids = list(run.memory.loaded.tokenizer.encode(closing, add_special_tokens=False))
    probed = run.memory.probe(ids, PROBE_TOKENS, run.config.tau_p)
    seconds = time.perf_counter() - began
    run.totals.probes += 1
    run.totals.probe_seconds += seconds
    fine = accepted(probed.answer, probed.perplexity, run.config.tau_p)
    candidate = probed.candidate
    yield run.event(
        events.Probe,
        step=step,
        text=candidate.text,
        answer=probed.answer or None,
        perplexity=probed.perplexity,
        threshold=run.config.tau_p,
        accepted=fine,
        tokens=probed.written,
        seconds=seconds,
    )
    if not fine:
        run.totals.probe_tokens += probed.written
        return False
    source, last = candidate.source, step + 1
    run.totals.generate(source, len(candidate.ids))
    yield run.event(events.StepBegin, step=last)
    row = events.TokenRow(cand=0, tokens=len(candidate.ids), text=candidate.text, ent=[events.quantise(one) for one in candidate.entropies])
    yield run.event(events.Tokens, step=last, source=source, rows=[row])
    yield run.finished(last, candidate, [])
    yield from run.commit(last, candidate, None)
    run.totals.answer = probed.answer
    yield run.event(events.Answer, step=last, source=source, text=probed.answer)
    return True
