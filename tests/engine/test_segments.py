"""A run in several GPU calls is the run that nobody interrupted."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator

import pytest

from kvrescue import events, trace, zero
from kvrescue.backend import ModelBackend
from kvrescue.config import ConfigError, RunConfig, make_config
from kvrescue.engine.run import run
from kvrescue.lab.story import held_out
from kvrescue.models.load import load_pair
from kvrescue.presets import default_settings, named_set, offered
from kvrescue.segments import joined
from kvrescue.stop import Stop, Stopped

STORY = held_out(4_000, 3, "medium").text


@pytest.fixture(scope="module")
def lab():
    return load_pair("lab")


class Pauses(Stop):
    """Pauses after so many steps, whatever the clock says."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.left = steps

    def check_pause(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Stopped("paused")


def config_of(method: str, **more) -> RunConfig:
    return make_config(**{**default_settings("lab", method), "method": method, "seed": 3, "n": 2, "greedy_first": False, **more})


def said(stream) -> list[tuple]:
    """All that is the same in two runs: neither times nor names, nor what is told about the reading of the prompt."""
    times = {"t_ms", "run", "seq", "seconds", "propose_seconds", "score_seconds", "evict_seconds", "probe_seconds", "replayed", "mean_retention"}
    return [{name: value for name, value in event.model_dump().items() if name not in times} for event in stream]


@pytest.mark.parametrize("method", ["full", "evicted", "evicted-stepwise", "kv-rescue", "reco", "reco+rescue"])
@pytest.mark.parametrize("steps", [1, 4])
def test_calls_of_some_steps_are_one_run(lab, method, steps):
    config = config_of(method)
    whole = list(run(STORY, config, lab))
    calls = []

    def call(opening) -> Iterator[events.AnyEvent]:
        calls.append(opening)
        return run(STORY, config, lab, Pauses(steps), opening=opening)

    together = list(joined(call))
    trace.check(together)
    assert len(calls) > 1 and calls[0] is None
    assert not [event for event in together if event.type == "resumed"]
    theirs, ours = said(whole), said(together)
    assert len(theirs) == len(ours)
    for wanted, got in zip(theirs, ours, strict=True):
        assert same(wanted, got), (wanted, got)


def same(one: object, other: object) -> bool:
    """Equal, but for the last digits: a memory that reads a step at once adds in another order than one that wrote it."""
    if isinstance(one, float) and isinstance(other, float):
        return one == pytest.approx(other, rel=0.02, abs=1e-5)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return one == other


def test_a_stop_between_calls_ends_the_run_with_what_was_written(lab):
    config = config_of("kv-rescue")
    stop = Stop()

    def call(opening):
        if opening is not None:
            raise Stopped("stopped")
        return run(STORY, config, lab, Pauses(2), opening=opening)

    stream = list(joined(call))
    trace.check(stream)
    assert stream[-1].type == "end" and stream[-1].reason == "stopped" and stream[-1].steps == 3
    assert not stop._flag.is_set()


def test_a_call_that_gets_no_gpu_leaves_a_whole_trace_without_anybodys_text(lab):
    config = config_of("kv-rescue")

    def call(opening):
        if opening is not None:
            raise RuntimeError(f"quota, {STORY}")
        return run(STORY, config, lab, Pauses(2), opening=opening)

    stream = list(joined(call))
    trace.check(stream)
    assert stream[-1].type == "error" and "RuntimeError" in stream[-1].message and STORY[:20] not in stream[-1].message
    with pytest.raises(RuntimeError):
        list(joined(lambda _opening: (_ for _ in ()).throw(RuntimeError("no GPU at all"))))


# --- ZeroGPU's decorator ------------------------------------------------------------------------------------------------------------


class Spaces:
    """What ``spaces.GPU`` does to a generator as far as it matters here: arguments and yields are pickled, the duration is asked first."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def GPU(self, duration):
        def wrap(task):
            def call(*given):
                self.asked.append(duration(*given))
                for piece in task(*pickle.loads(pickle.dumps(given))):
                    yield pickle.loads(pickle.dumps(piece))

            return call

        return wrap


def test_a_run_on_lent_seconds_passes_plain_text_only(lab, monkeypatch):
    spaces = Spaces()
    monkeypatch.setattr(zero, "_call", zero.decorated(spaces))
    monkeypatch.setattr(zero, "SEGMENT_SECONDS", 0.05)
    monkeypatch.setattr(zero, "BATCH_SECONDS", 0.01)
    zero.serve("lab", lab)
    config = config_of("kv-rescue")
    stream = list(zero.run_in_segments("lab", STORY, config, Stop()))
    trace.check(stream)
    assert [event.text for event in stream if event.type == "commit"] == [event.text for event in run(STORY, config, lab) if event.type == "commit"]
    assert len(spaces.asked) > 1 and all(0 < seconds <= 80 for seconds in spaces.asked), "a visitor without an account can ask for 80 s"


def test_a_stop_is_felt_within_a_segment(lab, monkeypatch):
    monkeypatch.setattr(zero, "BATCH_SECONDS", 0.0)
    zero.serve("lab", lab)
    stop = Stop()
    stream = []
    for event in zero.run_in_segments("lab", STORY, config_of("kv-rescue"), stop):
        stream.append(event)
        if event.type == "commit" and event.step == 1:
            stop.set()
    trace.check(stream)
    assert stream[-1].reason == "stopped" and stream[-1].steps == 2


def test_spaces_is_asked_for_only_where_it_is():
    assert zero.ACTIVE is False and zero._call is zero.segment


def test_seconds_are_asked_for_by_what_a_run_may_take():
    """A short run asks for little; nobody asks for more than a visitor without an account may."""
    config = config_of("kv-rescue", max_tokens=32, max_step_tokens=32)
    short = zero.duration("", "", config.model_dump_json(), "", 25.0)
    long = zero.duration("", "", make_config(max_tokens=16_384, max_step_tokens=1_024).model_dump_json(), "x" * 60_000, 25.0)
    assert short <= 15 < long == zero.MOST_SECONDS <= 80


@pytest.mark.parametrize("said", ["You have exceeded your GPU quota (60s left)", "Space app has reached its GPU limit. Run the examples instead"])
def test_used_up_time_is_told_in_our_words_whenever_it_comes(lab, monkeypatch, said):
    zero.serve("lab", lab)
    calls = []

    def call(*given):
        calls.append(given)
        if len(calls) > first:
            raise RuntimeError(said)
        yield from zero.segment(*given[:4], 0.02)

    monkeypatch.setattr(zero, "_call", call)
    first = 0
    with pytest.raises(ConfigError, match="free GPU time does not suffice"):
        list(zero.run_in_segments("lab", STORY, config_of("kv-rescue"), Stop()))
    calls, first = [], 1
    stream = list(zero.run_in_segments("lab", STORY, config_of("kv-rescue"), Stop()))
    trace.check(stream)
    assert stream[-1].type == "error" and "free GPU time does not suffice" in stream[-1].message and stream[-1].steps > 0


def test_where_the_gpu_is_lent_models_load_in_the_thread_that_starts_them(monkeypatch):
    monkeypatch.setattr(zero, "ACTIVE", True)
    threads = []
    monkeypatch.setattr(ModelBackend, "_load", lambda self: threads.append(threading.current_thread()))
    backend = ModelBackend("qwen-math-7b")
    backend.start()
    assert threads == [threading.main_thread()] and backend.lent and not backend.release()
    assert not ModelBackend("lab").lent, "the lab runs on the CPU and borrows nothing"


def test_a_lent_gpu_has_one_set_and_a_space_without_one_shows_the_lab(monkeypatch):
    monkeypatch.setenv("SPACES_ZERO_GPU", "1")
    assert offered() == ["lab", "lab-wordy", "qwen-math-7b"] and offered("qwen3-8b")[-1] == "qwen3-8b"
    monkeypatch.delenv("SPACES_ZERO_GPU")
    monkeypatch.setenv("KVRESCUE_MODELS", "qwen-math-7b")
    assert named_set() is None or "qwen-math-7b" in offered()
