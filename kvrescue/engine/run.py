"""The loop: propose, guard, score, select, commit. One step per turn, one event stream, the same for every method."""

from __future__ import annotations

import logging
import math
import time
import traceback
import uuid
from collections.abc import Generator, Iterator, Sequence
from typing import Any, TypeVar

from kvrescue import __version__, events
from kvrescue.config import RunConfig, Source, assumptions, check_problem
from kvrescue.engine import control, replay
from kvrescue.engine.batching import TokenBatches
from kvrescue.engine.memory_map import memory_maps
from kvrescue.engine.proposer import Candidate, Growth, Proposer, eos_ids, pieces
from kvrescue.engine.setup import Setup
from kvrescue.engine.steps import boxed_answer
from kvrescue.engine.totals import Totals
from kvrescue.events import ModelInfo
from kvrescue.models.load import Loaded, Pair, environment
from kvrescue.models.weights import out_of_memory
from kvrescue.opening import Opening
from kvrescue.presets import MODEL_SETS
from kvrescue.reco.controller import Directive
from kvrescue.rewards.base import Reward, Scorer, Step
from kvrescue.stop import Stop, Stopped

log = logging.getLogger(__name__)
E = TypeVar("E", bound=events.Event)


def run(
    problem: str, config: RunConfig, pair: Pair, stop: Stop | None = None, scorer: Scorer | None = None, opening: Opening | None = None
) -> Iterator[events.AnyEvent]:
    """Solve ``problem``; yields events from ``header`` to ``end`` or ``error``. ``scorer`` judges instead of the one that ``config`` names;
    ``opening`` are steps of an earlier run that this one continues.

    Bad input raises ConfigError here, before any compute. After that nothing is raised: a run that dies yields ``error``.
    """
    return _Run(check_problem(problem), config, pair, stop or Stop(), scorer, opening).stream()


def select(candidates: Sequence[Candidate], rewards: dict[tuple[Source, int], Reward], sources: Sequence[Source]) -> Candidate:
    """The winner: highest reward (no number counts as the lowest), then base before helper, then the lower index."""

    def rank(candidate: Candidate) -> tuple[float, int, int]:
        reward = rewards.get((candidate.source, candidate.index))
        value = -math.inf if reward is None or reward.value is None else reward.value
        return -value, sources.index(candidate.source), candidate.index

    return min(candidates, key=rank)


class _Run(Setup):
    def __init__(self, problem: str, config: RunConfig, pair: Pair, stop: Stop, scorer: Scorer | None = None, opening: Opening | None = None) -> None:
        super().__init__(problem, config, pair, stop, scorer)
        self.id = uuid.uuid4().hex[:12]
        self.directive = Directive()
        """ReCo's, after the newest step."""
        self.totals = Totals()
        self.text = ""
        self.grown_from = 0
        """Tokens seen at ReCo's last decision about memory."""
        self.last_map = ""
        """Of the newest ``kv`` event."""
        self.continues = opening
        self._judging = False
        self._replayed = replay.check_opening(self, opening) if opening else []
        self._seq = 0
        self._began = time.perf_counter()

    # --- the stream ---------------------------------------------------------------------------------------------------------

    def event(self, kind: type[E], **fields: Any) -> E:
        event = kind(seq=self._seq, t_ms=int(1000 * (time.perf_counter() - self._began)), run=self.id, **fields)
        self._seq += 1
        return event

    def stream(self) -> Iterator[Any]:
        """header ... end | error, whatever happens in between."""
        self._began = time.perf_counter()
        self.stop.start_clock(self.config.deadline_s)
        try:
            yield self._header()
            yield from self._prefill()
            reason: events.EndReason = yield from self._steps()
        except Stopped as stopped:
            reason = stopped.reason
        except Exception as error:  # the boundary: a dead run still delivers its trace
            yield self._failure(error)
            return
        yield self.event(events.End, reason=reason, **self._closing())

    def _closing(self) -> dict[str, Any]:
        bytes_per_token = self.memory.cache.shape.bytes_per_token
        self.totals.peak_resident = max(self.totals.peak_resident, self.memory.cache.peak)
        return self.totals.closing(self.parts.sources, bytes_per_token, time.perf_counter() - self._began)

    def _failure(self, error: Exception) -> events.Error:
        # Only names and places: an exception's own message could quote the visitor's text.
        places = "".join(traceback.format_tb(error.__traceback__))
        log.error("run %s died of %s\n%s", self.id, type(error).__name__, places)
        no_memory = out_of_memory(error)
        message = (
            "The models ran out of memory; lower N, the budget or the token limits."
            if no_memory
            else f"The run failed inside the engine ({type(error).__name__}); what it wrote so far is kept."
        )
        return self.event(events.Error, code="out_of_memory" if no_memory else "engine", message=message, **self._closing())

    def _header(self) -> events.Header:
        return self.event(
            events.Header,
            app_version=__version__,
            problem=self.problem,
            config=self.config.model_dump(),
            model_set=self.pair.name if self.pair.name in MODEL_SETS else "",
            models=self._infos(),
            same_weights=self.pair.same_weights and len(self.parts.sources) > 1,
            scorer=self.scorer.label if self.scorer else "nobody",
            commit_by="ids" if self.by_ids else "text",
            reflection=self.memory.reflection,
            assumptions=assumptions(self.config),
            environment=environment(),
        )

    def _infos(self) -> dict[str, ModelInfo]:
        """Who takes part, under the name of the part; a judge that is one of the sources is not named twice."""
        infos = {str(source): self._loaded(source).info for source in self.parts.sources}
        judge = self.pair.prm.loaded if self.config.scorer == "prm" and self.pair.prm else self.judge
        if judge and judge.info not in infos.values():
            infos["prm" if self.config.scorer == "prm" else self.config.scorer_model] = judge.info
        return infos

    def _prefill(self) -> Iterator[events.Event]:
        for source, proposer in self.proposers.items():
            ids = self.prompts[source]
            shown = pieces(proposer.loaded, ids) if proposer is self.memory else []
            yield self.event(events.Prompt, source=source, tokens=len(ids), pieces=shown)
            for done in proposer.feed(ids):
                yield self.event(events.Status, phase="prefill", source=source, done=done, total=len(ids))
                yield from self.evictions(proposer, None, "prefill")
        yield self.kv(None)

    def _steps(self) -> Generator[Any, None, events.EndReason]:
        """Turns until the run is over; returns the end reason."""
        first = (yield from replay.replay(self, self.continues, self._replayed)) if self.continues else 0
        for step in range(first, self.config.max_steps):
            if step > first:  # a call that pauses has written something, or it would pause for ever
                self.stop.check_pause()
            yield self.event(events.StepBegin, step=step, penalty=control.set_penalty(self), band=self.directive.band)
            candidates: list[Candidate] = []
            yield from self._propose(step, candidates)
            eligible = [candidate for candidate in candidates if candidate.eligible]
            if not eligible:
                return "no_candidate"
            rewards: dict[tuple[Source, int], Reward] = {}
            yield from self._score(step, eligible, rewards)
            winner = select(eligible, rewards, self.parts.sources)
            reward = rewards.get((winner.source, winner.index))
            yield from self.commit(step, winner, reward.value if reward else None)
            for candidate in candidates:
                candidate.branch = None
            reason = self._over(winner)
            if self.totals.answer is not None:
                yield self.event(events.Answer, step=step, source=winner.source, text=self.totals.answer)
            if reason:
                return reason
            if self.control and (yield from control.after_step(self, self.control, step, reward.value if reward else None)):
                return "early_exit"
        return "max_steps"

    def _over(self, winner: Candidate) -> events.EndReason | None:
        self.totals.answer = boxed_answer(self.opening + self.text)
        if self.totals.answer is not None:
            return "answer"
        if winner.finish == "eos":
            return "eos"
        return "max_tokens" if self.totals.committed_tokens >= self.token_limit else None

    # --- propose and guard --------------------------------------------------------------------------------------------------

    def _propose(self, step: int, candidates: list[Candidate]) -> Iterator[events.Event]:
        """All sources take turns, one forward each, so that their candidates race."""
        limit = min(self.config.max_step_tokens, self.token_limit - self.totals.committed_tokens)
        streams: dict[Source, Iterator[list[Growth]]] = {}
        batches: dict[Source, TokenBatches] = {}
        finished: list[Candidate] = []
        for source, proposer in self.proposers.items():
            mine = [Candidate(source, index) for index in range(self.config.candidates)]
            candidates += mine
            streams[source], batches[source] = proposer.propose(step, mine, limit), TokenBatches()
        try:
            while streams:
                for source in list(streams):
                    grown = self._next_round(source, streams)
                    yield from self.evictions(self.proposers[source], step, "propose")
                    yield from self._report(step, source, grown, batches[source], finished)
        except Exception:
            yield from self._cut_off(step, candidates, batches, finished)
            raise

    def _next_round(self, source: Source, streams: dict[Source, Iterator[list[Growth]]]) -> list[Growth]:
        began = time.perf_counter()
        grown = next(streams[source], [])
        self.totals.propose_seconds += time.perf_counter() - began
        self.totals.generate(source, len(grown))
        if all(growth.candidate.finish for growth in grown):
            del streams[source]
        return grown

    def _report(self, step: int, source: Source, grown: list[Growth], batch: TokenBatches, finished: list[Candidate]) -> Iterator[events.Event]:
        rows = batch.add(grown)
        if rows:
            yield self.event(events.Tokens, step=step, source=source, rows=rows)
        self.totals.suppressed += sum(growth.suppressed is not None for growth in grown)
        for growth in grown:
            if growth.verdict is not None:
                kind = events.Abort if growth.candidate.finish == "aborted" else events.Flag
                yield self.event(kind, step=step, source=source, cand=growth.candidate.index, **vars(growth.verdict))
            if growth.candidate.finish:
                yield self.finished(step, growth.candidate, finished)

    def finished(self, step: int, candidate: Candidate, finished: list[Candidate]) -> events.Candidate:
        self.totals.finish(candidate)
        if candidate.eligible:
            candidate.duplicate_of = self._twin(candidate, finished)
        finished.append(candidate)
        return self.event(
            events.Candidate,
            step=step,
            source=candidate.source,
            cand=candidate.index,
            tokens=len(candidate.ids),
            finish=candidate.finish,
            duplicate_of=candidate.duplicate_of,
            empty=candidate.empty,
        )

    def _twin(self, candidate: Candidate, finished: list[Candidate]) -> tuple[Source, int] | None:
        """An earlier finished candidate that says the same, whichever source wrote it."""
        for other in finished:
            same = other.ids == candidate.ids if self.by_ids else other.text == candidate.text
            if same and other.eligible and other.duplicate_of is None:
                return other.source, other.index
        return None

    def _cut_off(
        self, step: int, candidates: list[Candidate], batches: dict[Source, TokenBatches], finished: list[Candidate]
    ) -> Iterator[events.Event]:
        """A stop or a failure in mid-step: what the candidates wrote so far is kept and counted as discarded."""
        for source, batch in batches.items():
            rows = batch.flush()
            if rows:
                yield self.event(events.Tokens, step=step, source=source, rows=rows)
        for candidate in candidates:
            if candidate.finish is None:
                candidate.finish = "stopped"
                yield self.finished(step, candidate, finished)

    # --- score --------------------------------------------------------------------------------------------------------------

    def _score(self, step: int, eligible: list[Candidate], rewards: dict[tuple[Source, int], Reward]) -> Iterator[events.Event]:
        if self.scorer is None:
            return
        yield self.event(events.Status, phase="score", step=step, total=len(eligible))
        began = time.perf_counter()
        self.begin_judging()
        unique = [candidate for candidate in eligible if candidate.duplicate_of is None]
        found = self.scorer.score([self._step_for_scorer(candidate) for candidate in unique])
        rewards.update({(candidate.source, candidate.index): reward for candidate, reward in zip(unique, found, strict=True)})
        for candidate in eligible:
            if candidate.duplicate_of is not None:
                rewards[candidate.source, candidate.index] = rewards[candidate.duplicate_of]
        seconds = time.perf_counter() - began
        self.totals.score_seconds += seconds
        scores = [
            events.Score(source=source, cand=cand, score=None if reward.value is None else round(reward.value, 6), detail=reward.detail)
            for (source, cand), reward in sorted(rewards.items())
        ]
        yield self.event(events.Scores, step=step, scorer=self.scorer.name, scores=scores, seconds=seconds)

    def begin_judging(self) -> None:
        if self.scorer is not None and not self._judging:
            self._judging = True
            self.scorer.begin(self.problem, self.judge_prompt, self.stop)

    def _step_for_scorer(self, candidate: Candidate) -> Step:
        if self.judge is None:
            return Step(candidate.text, ())
        ids = self._ids_for(self.judge, candidate)
        return Step(candidate.text, tuple(ids) or (min(eos_ids(self.judge), default=0),))

    def _ids_for(self, loaded: Loaded, candidate: Candidate) -> list[int]:
        """The candidate's step in ``loaded``'s vocabulary."""
        if loaded is self._loaded(candidate.source) or (self.by_ids and (loaded is not self.judge or self.judge_by_ids)):
            return candidate.ids
        return list(loaded.tokenizer.encode(candidate.text, add_special_tokens=False))

    # --- commit -------------------------------------------------------------------------------------------------------------

    def commit(self, step: int, winner: Candidate, score: float | None) -> Iterator[events.Event]:
        """Every model now has the same committed step: its writer adopts it, the others read it."""
        if self.scorer is not None:
            self.scorer.commit(self._step_for_scorer(winner))
        self.totals.commit(winner)
        self.text += winner.text
        shown = self._ids_for(self.memory.loaded, winner)
        yield self.event(
            events.Commit,
            step=step,
            source=winner.source,
            cand=winner.index,
            score=score,
            text=winner.text,
            tokens=len(winner.ids),
            pieces=pieces(self.memory.loaded, shown),
            ids=winner.ids,
            ended=winner.finish,
        )
        for source, proposer in self.proposers.items():
            if source == winner.source and winner.branch is not None:
                proposer.adopt(winner)
            else:
                proposer.ingest(self._ids_for(proposer.loaded, winner))
            yield from self.evictions(proposer, step, "commit")
        yield self.kv(step)

    def evictions(self, proposer: Proposer, step: int | None, during: str) -> Iterator[events.Event]:
        self.totals.evict(proposer.evictions)
        for compaction in proposer.evictions:
            yield self.event(events.Evict, step=step, during=during, policy=self.config.policy, **vars(compaction))
        proposer.evictions.clear()

    def kv(self, step: int | None) -> events.Kv:
        cache = self.memory.cache
        retention = cache.resident / max(1, cache.seen)
        self.totals.retentions.append(retention)
        self.last_map, layers = memory_maps(cache)
        return self.event(
            events.Kv,
            step=step,
            seen=cache.seen,
            resident=cache.resident,
            peak=max(cache.peak, self.totals.peak_resident),
            budget=self.config.budget if self.parts.evicting and not self.control else None,
            bytes=cache.bytes,
            retention=round(retention, 6),
            map=self.last_map,
            layers=layers,
        )
