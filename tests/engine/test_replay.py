"""A run that continues another: forks and segments."""

from __future__ import annotations

import pytest

from kvrescue import events, trace
from kvrescue.config import ConfigError, make_config
from kvrescue.engine import run as loop
from kvrescue.models.load import Pair
from kvrescue.opening import make_opening, opening_of
from kvrescue.stop import Stop
from tests.engine.test_run import PROBLEM, collect, of, pair
from tests.engine.test_run import SMALL as USUAL

SMALL = {**USUAL, "max_step_tokens": 8}


@pytest.fixture(scope="module")
def two() -> Pair:
    return pair()


def written(stream: list[events.AnyEvent]) -> list[tuple]:
    return [(event.source, event.cand, event.ids, event.score) for event in of(events.Commit, stream)]


def fork(models: Pair, parent: list[events.AnyEvent], steps: int, **settings) -> list[events.AnyEvent]:
    config = make_config(**{**SMALL, **settings})
    return list(loop.run(PROBLEM, config, models, opening=opening_of(parent, steps)))


@pytest.mark.parametrize("method", ["full", "evicted", "evicted-stepwise", "kv-rescue", "reco", "reco+rescue"])
def test_a_fork_with_the_same_settings_writes_what_the_parent_wrote(two, method):
    settings = {"method": method, "reco_every": 12, "window": 8, "retention_ratio": 0.5, "tau_p": 0, "max_step_tokens": 8}
    runs = ((seed, collect(two, seed=seed, **settings)) for seed in range(20))
    settings["seed"], parent = next((seed, stream) for seed, stream in runs if len(of(events.Commit, stream)) >= 4)
    steps = len(of(events.Commit, parent))
    child = fork(two, parent, steps - 1, **settings)
    trace.check(child)
    (resumed,) = of(events.Resumed, child)
    assert resumed.exact and resumed.steps == steps - 1 and resumed.parent == parent[0].run
    assert [row[:3] for row in written(child)] == [row[:3] for row in written(parent)]
    assert [row[3] for row in written(child)] == pytest.approx([row[3] for row in written(parent)], rel=1e-4)
    assert [event.map for event in of(events.Kv, child)] == [event.map for event in of(events.Kv, parent)]
    assert child[-1].replayed == resumed.tokens == sum(event.tokens for event in of(events.Commit, parent)[: steps - 1])


def test_a_fork_with_another_budget_says_that_its_memory_is_another(two):
    parent = collect(two, max_step_tokens=8, method="evicted", seed=5)
    child = fork(two, parent, 3, method="evicted", seed=5, budget=40)
    assert of(events.Resumed, child)[0].exact is False
    assert written(child)[:3] == written(parent)[:3]


def test_a_fork_may_change_the_method(two):
    parent = collect(two, max_step_tokens=8, method="kv-rescue", seed=3)
    child = fork(two, parent, 2, method="evicted")
    trace.check(child)
    assert written(child)[:2] == written(parent)[:2]
    assert sum(count.steps for count in child[-1].totals.values()) == child[-1].steps


def test_text_of_other_tokens_is_read_as_text(two):
    opening = make_opening({"run": "x", "steps": [{"source": "base", "text": "Tom has ", "ids": [1, 2, 99_999]}]})
    stream = list(loop.run(PROBLEM, make_config(**{**SMALL, "method": "full"}), two, opening=opening))
    first = of(events.Commit, stream)[0]
    assert first.text == "Tom has " and first.ids == two.base.tokenizer.encode("Tom has ", add_special_tokens=False)
    assert of(events.Resumed, stream)[0].exact is None


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"run": "x", "steps": []}, "not valid"),
        ({"run": "x" * 65, "steps": [{"source": "base", "text": "a"}]}, "not valid"),
        ({"run": "x", "steps": [{"source": "nobody", "text": "a"}]}, "not valid"),
        ({"run": "x", "steps": [{"source": "base", "text": "a\ud800"}]}, "not valid"),
        ("steps", "not valid"),
    ],
)
def test_bad_openings_are_refused_in_a_sentence(given, sentence):
    with pytest.raises(ConfigError, match=sentence):
        make_opening(given)


@pytest.mark.parametrize(
    ("text", "settings", "field"),
    [("The answer is \\boxed{4}. ", {}, "opening"), ("a " * 40, {}, "max_tokens"), ("a ", {"max_steps": 1}, "max_steps"), ("", {}, "opening")],
)
def test_nothing_is_computed_when_nothing_is_left_to_write(two, text, settings, field):
    opening = make_opening({"run": "x", "steps": [{"source": "base", "text": text}]})
    with pytest.raises(ConfigError) as refused:
        loop.run(PROBLEM, make_config(**{**SMALL, **settings}), two, opening=opening)
    assert refused.value.field == field


def test_more_steps_than_a_trace_has_are_refused(two):
    with pytest.raises(ConfigError, match="committed steps"):
        opening_of(collect(two, max_step_tokens=8, method="full"), 99)


def test_a_paused_run_ends_between_steps(two):
    stop = Stop()
    stop.pause_after(0.0)
    stream = list(loop.run(PROBLEM, make_config(**SMALL), two, stop))
    assert stream[-1].reason == "paused"
    # One step at least: a run that pauses before it has written anything would never get on.
    assert len(of(events.StepBegin, stream)) == len(of(events.Commit, stream)) == 1


def test_maps_of_layer_groups_come_with_an_evicted_memory_only(two):
    for method, groups in (("full", 0), ("evicted", 2)):
        newest = of(events.Kv, collect(two, max_step_tokens=8, method=method))[-1]
        assert len(newest.layers) == groups
