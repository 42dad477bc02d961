"""A scripted engine with SYNTHETIC events: it tests the page, it never stands for a model."""

from __future__ import annotations

import time
from collections.abc import Iterator

from kvrescue import events
from kvrescue.config import ConfigError, RunConfig
from kvrescue.opening import Opening
from kvrescue.presets import check_language
from kvrescue.stop import Stop, Stopped
from kvrescue.ui.backend import BackendStatus

INFO = events.ModelInfo(
    id="synthetic-model", architecture="llama", parameters=1, layers=2, kv_heads=2, query_heads=4, head_dim=8, vocab=9, dtype="float32", device="cpu"
)


class FakeBackend:
    """``text`` is what every candidate writes; ``pause`` seconds pass between two events; ``die`` ends a run in an error."""

    def __init__(self, model_set: str = "smollm2", *, text: str = " synthetic words", steps: int = 3, pause: float = 0.0, die: bool = False) -> None:
        self.base: str | None = None
        self.model_set, self.text, self.steps, self.pause, self.die = model_set, text, steps, pause, die
        self.opening: Opening | None = None
        self.running = self.released = 0
        self.most_running = 0

    def start(self) -> None:
        pass

    def release(self) -> bool:
        self.released += 1
        return True

    def check(self, problem: str) -> None:
        check_language(self.model_set, problem)

    def status(self) -> BackendStatus:
        return BackendStatus(True, "ready", models="synthetic-model", note="A scripted engine.", device="cpu")

    def count_tokens(self, problem: str) -> int:
        return len(problem.split())

    def run(self, problem: str, config: RunConfig, stop: Stop, opening: Opening | None = None) -> Iterator[events.AnyEvent]:
        self.opening = opening
        if "too long for the model" in problem:
            raise ConfigError("problem", "The problem takes 9,999 tokens; the base reads at most 8,000.")
        return self._run(problem, config, stop)

    def _run(self, problem: str, config: RunConfig, stop: Stop) -> Iterator[events.AnyEvent]:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            for seq, event in enumerate(self._script(problem, config, stop)):
                if self.pause:
                    time.sleep(self.pause)
                yield event.model_copy(update={"seq": seq, "t_ms": seq, "run": f"fake{config.seed}"})
        finally:
            self.running -= 1

    def _script(self, problem: str, config: RunConfig, stop: Stop) -> Iterator[events.AnyEvent]:
        models = {"base": INFO, "helper": INFO}
        yield events.Header(app_version="0", problem=problem, config=config.model_dump(), models=models, same_weights=True, scorer="a scripted judge")
        yield events.Prompt(source="base", tokens=4, pieces=["Problem", " with", " 42", " words"])
        yield events.Kv(step=None, seen=4, resident=4, peak=4, budget=config.budget, bytes=64, retention=1.0, map="f4")
        seen, reason, done = 4, "max_steps", 0
        try:
            for step in range(self.steps):
                for event in self._step(step, config, seen):
                    stop.check()
                    yield event
                    done += event.tokens if isinstance(event, events.Commit) else 0
                seen += 8
                if self.die and step == 1:
                    yield events.Error(code="engine", message="The run failed inside the engine (Scripted); what it wrote so far is kept.")
                    return
        except Stopped as stopped:
            reason = stopped.reason
        totals = {"base": events.SourceCount(), "helper": events.SourceCount(generated=done, committed=done, steps=done // 8)}
        yield events.End(reason=reason, totals=totals, steps=done // 8)

    def _step(self, step: int, config: RunConfig, seen: int) -> Iterator[events.AnyEvent]:
        yield events.StepBegin(step=step)
        for at in range(4, 20, 4):
            for source in ("base", "helper"):
                rows = [
                    events.TokenRow(cand=i, tokens=at, text=self.text, ent=[0.4] * 4, gzip=[(16, 0.7)] if at == 16 else []) for i in range(config.n)
                ]
                yield events.Tokens(step=step, source=source, rows=rows)
        last = config.n - 1
        yield events.Abort(step=step, source="base", cand=last, guard="entropy", position=16, value=3.1, threshold=2.5)
        for source in ("base", "helper"):
            for i in range(config.n):
                finish = "aborted" if source == "base" and i == last else "delimiter"
                yield events.Candidate(step=step, source=source, cand=i, tokens=16, finish=finish)
        scores = [events.Score(source="helper", cand=i, score=0.8 - 0.1 * i) for i in range(config.n)]
        yield events.Scores(step=step, scorer="scripted", scores=scores, seconds=0.0)
        yield events.Commit(
            step=step, source="helper", cand=0, score=0.8, text=f"{self.text} {step}", tokens=8, pieces=[" synth"] * 8, ended="delimiter"
        )
        total = seen + 8
        yield events.Kv(step=step, seen=total, resident=8, peak=9, budget=config.budget, bytes=64, retention=8 / total, map=f"0{total - 8:x} f8")


HOSTILE = (
    "<img src=x onerror=\"window.hacked=1\"> ${window.hacked=2} {{constructor.constructor('window.hacked=3')()}} `x` \\frac{1}{2} \\underline{a} "
    "<script>window.hacked=4</script> \u202eevil\u202c 한국어 🎈 javascript:window.hacked=5"
)
