"""Invariants of the loop and its event stream, on tiny random models."""

from __future__ import annotations

import itertools

import pytest
import torch

from kvrescue import events
from kvrescue.config import METHODS, RECO_METHODS, SINGLE_CHAIN_METHODS, ConfigError, make_config
from kvrescue.engine import run as loop
from kvrescue.engine.methods import PARTS
from kvrescue.engine.proposer import Candidate, prompt_ids
from kvrescue.models.load import Pair
from kvrescue.rewards.base import Reward
from kvrescue.stop import Stop
from tests.cache.test_evicting import plain_logits
from tests.tiny import make_tiny

PROBLEM = "Tom has 3 apples and buys 4 more. How many apples has he?"
SMALL = {"budget": 24, "buffer": 8, "n": 3, "max_step_tokens": 24, "max_tokens": 60, "delimiter": " ", "tau_ent": 19.0, "tau_cmp": 0.01}
TIMES = {"t_ms", "run"}


def pair(helper_seed: int = 1, kind: str = "llama") -> Pair:
    base = make_tiny(kind, seed=0)
    helper = make_tiny(kind, seed=helper_seed) if helper_seed else base
    return Pair(name="tiny", base=base, helper=helper, note="")


@pytest.fixture(scope="module")
def two() -> Pair:
    return pair()


def collect(models: Pair, stop: Stop | None = None, **settings) -> list[events.AnyEvent]:
    return list(loop.run(PROBLEM, make_config(**{**SMALL, **settings}), models, stop))


def untimed(stream: list[events.AnyEvent]) -> list[dict]:
    rows = []
    for event in stream:
        row = event.model_dump(mode="json")
        rows.append({key: value for key, value in row.items() if key not in TIMES and not key.endswith("seconds")})
    return rows


def of(kind: type, stream: list[events.AnyEvent]) -> list:
    return [event for event in stream if isinstance(event, kind)]


def check_stream(stream: list[events.AnyEvent]) -> None:
    assert [event.seq for event in stream] == list(range(len(stream)))
    assert isinstance(stream[0], events.Header)
    assert isinstance(stream[-1], events.End | events.Error)
    assert len({event.run for event in stream}) == 1
    assert sum(isinstance(event, events.End | events.Error) for event in stream) == 1
    closing = stream[-1]
    for source, count in closing.totals.items():
        assert count.committed + count.discarded + count.aborted == count.generated
        assert count.discarded >= 0
        written = sum(len(row.ent) for event in of(events.Tokens, stream) if event.source == source for row in event.rows)
        assert count.generated == written
        assert count.committed == sum(event.tokens for event in of(events.Commit, stream) if event.source == source)
        aborted = {(event.step, event.cand) for event in of(events.Abort, stream) if event.source == source}
        finished = {(event.step, event.cand): event for event in of(events.Candidate, stream) if event.source == source}
        assert count.aborted == sum(finished[key].tokens for key in aborted)
    for event in stream:
        assert events.from_line(events.to_line(event)) == event


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("early_exit", [True, False])
@pytest.mark.parametrize("scorer", ["likelihood", "rule"])
def test_every_method_yields_a_complete_stream(two, method, early_exit, scorer):
    stream = collect(two, method=method, early_exit=early_exit, scorer=scorer)
    check_stream(stream)
    assert stream[-1].type == "end"
    sources = set(stream[-1].totals)
    assert sources == set(PARTS[method].sources)
    per_step = len(sources) * (1 if method in SINGLE_CHAIN_METHODS else 3)
    for step in range(stream[-1].steps):
        assert len([c for c in of(events.Candidate, stream) if c.step == step]) == per_step
    for kv in of(events.Kv, stream):
        if kv.budget is not None:
            assert kv.resident <= 32
        elif method not in RECO_METHODS:
            assert kv.resident == kv.seen


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_same_seed_same_trace(kind):
    models = pair(kind=kind)
    assert untimed(collect(models, seed=5)) == untimed(collect(models, seed=5))
    assert untimed(collect(models, seed=5)) != untimed(collect(models, seed=6))


def step_texts(stream: list[events.AnyEvent], step: int) -> dict[tuple[str, int], str]:
    texts: dict[tuple[str, int], str] = {}
    for event in of(events.Tokens, stream):
        if event.step == step:
            for row in event.rows:
                texts[event.source, row.cand] = texts.get((event.source, row.cand), "") + row.text
    return texts


def test_candidate_i_is_the_same_whatever_n_is(two):
    few, many = (step_texts(collect(two, n=n, max_steps=1), 0) for n in (2, 5))
    assert len(few) == 4 and len(many) == 10
    assert {key: many[key] for key in few} == few


def watched(models: Pair, monkeypatch, **settings) -> tuple[loop._Run, list[Candidate]]:
    """A run that is not started yet, and a list that its winners will be put in."""
    live = loop._Run(PROBLEM, make_config(**{**SMALL, **settings}), models, Stop())
    winners: list[Candidate] = []
    commit = live.commit

    def spy(step, winner, score):
        winners.append(winner)
        yield from commit(step, winner, score)

    monkeypatch.setattr(live, "commit", spy)
    return live, winners


def take_turns(monkeypatch) -> None:
    """Let base and helper win alternately: random models would leave the choice to chance."""
    turns = itertools.cycle(["base", "helper"])

    def choose(candidates, rewards, sources):
        wanted = next(turns)
        return next((candidate for candidate in candidates if candidate.source == wanted), candidates[0])

    monkeypatch.setattr(loop, "select", choose)


def test_models_agree_on_the_committed_ids_after_every_commit(two, monkeypatch):
    """The helper's and the scorer's next-token logits equal a plain forward over everything committed."""
    live, winners = watched(two, monkeypatch, scorer_model="helper", seed=2)
    take_turns(monkeypatch)
    steps = 0
    for event in live.stream():
        if isinstance(event, events.Kv) and event.step is not None:
            committed = live.prompts["helper"] + [token for winner in winners for token in winner.ids]
            plain = plain_logits(two.helper, committed)[-1]
            torch.testing.assert_close(live.proposers["helper"].next_logits[0], plain, rtol=1e-3, atol=1e-3)
            torch.testing.assert_close(live.scorer.reader._last[0], plain, rtol=1e-3, atol=1e-3)
            assert live.proposers["base"].cache.seen == live.proposers["helper"].cache.seen == live.scorer.reader.cache.seen == len(committed)
            steps += 1
    assert steps >= 2 and {winner.source for winner in winners} == {"base", "helper"}


def test_the_base_ends_as_if_it_had_read_every_committed_token_one_by_one(two, monkeypatch):
    live, winners = watched(two, monkeypatch, seed=2)
    take_turns(monkeypatch)
    for _ in live.stream():
        pass
    base, fresh = live.proposers["base"], watched(two, monkeypatch)[0].proposers["base"]
    for token in live.prompts["base"] + [token for winner in winners for token in winner.ids]:
        fresh.ingest([token])
    for layer in range(2):
        assert torch.equal(base.cache.kept_positions(layer), fresh.cache.kept_positions(layer))
    torch.testing.assert_close(base.next_logits, fresh.next_logits, rtol=1e-3, atol=1e-3)


def test_guards_abort_the_base_and_only_flag_the_helper(two):
    stream = collect(two, tau_ent=0.5, ent_window=4, max_step_tokens=12, delimiter="\n\n")
    check_stream(stream)
    aborts, flags = of(events.Abort, stream), of(events.Flag, stream)
    assert aborts and {event.source for event in aborts} == {"base"}
    assert flags and {event.source for event in flags} == {"helper"}
    assert all(event.value > event.threshold == 0.5 and event.position == 4 for event in aborts)
    ended = {(c.step, c.source, c.cand): c.finish for c in of(events.Candidate, stream)}
    assert all(ended[a.step, a.source, a.cand] == "aborted" for a in aborts)
    scored = {(scores.step, score.source) for scores in of(events.Scores, stream) for score in scores.scores}
    assert {source for _, source in scored} == {"helper"}, "an aborted candidate never reaches the scorer"


def test_without_early_exit_the_base_is_flagged_and_goes_on(two):
    stream = collect(two, tau_ent=0.5, ent_window=4, early_exit=False)
    assert not of(events.Abort, stream)
    assert {event.source for event in of(events.Flag, stream)} == {"base", "helper"}


def test_when_every_candidate_is_aborted_the_run_says_so(two):
    stream = collect(two, method="evicted-stepwise", tau_ent=0.1, ent_window=2, delimiter="\n\n")
    check_stream(stream)
    assert stream[-1].reason == "no_candidate"
    assert stream[-1].totals["base"].aborted == stream[-1].totals["base"].generated


def test_duplicates_are_scored_once(two):
    stream = collect(two, temperature=0.0, max_steps=1)
    twins = [c for c in of(events.Candidate, stream) if c.duplicate_of]
    assert {(c.source, c.cand) for c in twins} >= {("helper", 1), ("helper", 2)}
    scores = {(s.source, s.cand): s.score for s in of(events.Scores, stream)[0].scores}
    for twin in twins:
        assert scores[twin.source, twin.cand] == scores[twin.duplicate_of]


def test_stop_takes_effect_within_16_tokens_and_keeps_the_trace(two):
    stop = Stop()
    seen, after = [], 0
    for event in loop.run(PROBLEM, make_config(**{**SMALL, "delimiter": "\n\n"}), two, stop):
        seen.append(event)
        if isinstance(event, events.Tokens):
            if len(of(events.Tokens, seen)) == 6:
                stop.set()
            elif len(of(events.Tokens, seen)) > 6:
                after += max(len(row.ent) for row in event.rows)
    check_stream(seen)
    assert seen[-1].reason == "stopped"
    assert after <= 16
    assert "stopped" in {c.finish for c in of(events.Candidate, seen)}


def test_deadline_ends_the_run(two):
    stream = collect(two, deadline_s=1e-6)
    check_stream(stream)
    assert stream[-1].reason == "deadline"


@pytest.mark.parametrize("broken", ["propose", "score", "commit"])
def test_a_run_that_dies_ends_with_an_error_event_and_no_visitor_text(two, monkeypatch, caplog, broken):
    calls = itertools.count()

    def explode(*_args, **_kwargs):
        raise RuntimeError("secret: " + PROBLEM)

    extend = loop.Proposer._extend

    def explode_later(*args):
        return extend(*args) if next(calls) < 6 else explode()

    target = {"propose": "Proposer._extend", "score": "make.RuleScorer.score", "commit": "Proposer.adopt"}[broken]
    module = "kvrescue.rewards." if broken == "score" else "kvrescue.engine.proposer."
    monkeypatch.setattr(module + target, explode_later if broken == "propose" else explode)
    stream = collect(two, scorer="rule", method="evicted-stepwise")
    check_stream(stream)
    assert stream[-1].type == "error" and stream[-1].code == "engine"
    assert "apples" not in stream[-1].message and "apples" not in caplog.text and "RuntimeError" in caplog.text


def test_out_of_memory_is_told_apart(two, monkeypatch):
    def explode(*_args, **_kwargs):
        raise MemoryError

    monkeypatch.setattr("kvrescue.engine.proposer.Proposer._extend", explode)
    assert collect(two)[-1].code == "out_of_memory"


@pytest.mark.parametrize(
    ("problem", "settings", "field"),
    [
        ("", {}, "problem"),
        (" \n", {}, "problem"),
        ("x" * 8_001, {}, "problem"),
        ("word " * 1_500, {}, "problem"),
        (PROBLEM, {"protect_prompt": True}, "budget"),
    ],
)
def test_bad_input_is_refused_before_any_compute(two, monkeypatch, problem, settings, field):
    monkeypatch.setattr("kvrescue.engine.proposer.forward", None)
    with pytest.raises(ConfigError) as caught:
        loop.run(problem, make_config(**{**SMALL, **settings}), two)
    assert caught.value.field == field


def test_step_tokens_and_total_tokens_are_capped(two):
    stream = collect(two, method="full", delimiter="@@", max_step_tokens=7, max_tokens=17, scorer="none")
    assert [commit.tokens for commit in of(events.Commit, stream)] == [7, 7, 3]
    assert stream[-1].reason == "max_tokens"
    assert collect(two, method="full", delimiter="@@", max_step_tokens=3, max_steps=2)[-1].reason == "max_steps"


def test_pieces_joined_are_the_text(two):
    stream = collect(two)
    prompt = of(events.Prompt, stream)[0]
    assert PROBLEM in "".join(prompt.pieces) and len(prompt.pieces) == prompt.tokens
    for commit, kv in zip(of(events.Commit, stream), of(events.Kv, stream)[1:], strict=True):
        assert kv.seen >= prompt.tokens + len(commit.pieces)


def test_selection_order():
    base0, base1, helper0 = Candidate("base", 0), Candidate("base", 1), Candidate("helper", 0)
    everyone = [helper0, base1, base0]

    def rewards(**values):
        return {(name[:-1], int(name[-1])): Reward(value) for name, value in values.items()}

    order = ("base", "helper")
    assert loop.select(everyone, rewards(base0=0.1, base1=0.2, helper0=0.3), order) is helper0
    assert loop.select(everyone, rewards(base0=0.3, base1=0.3, helper0=0.3), order) is base0
    assert loop.select(everyone, rewards(base0=0.1, base1=0.3, helper0=0.3), order) is base1
    assert loop.select(everyone, rewards(base0=None, base1=None, helper0=0.0), order) is helper0
    assert loop.select([base1], {}, order) is base1


def test_different_tokenizers_travel_as_text(monkeypatch):
    base, helper = make_tiny("llama", seed=0), make_tiny("qwen2", seed=1, extra_tokens=["apples", " has"])
    models = Pair(name="mixed", base=base, helper=helper)
    live, winners = watched(models, monkeypatch)
    stream = list(live.stream())
    check_stream(stream)
    assert stream[0].commit_by == "text"
    for source, loaded in (("base", base), ("helper", helper)):
        read = [w.ids if w.source == source else loaded.tokenizer.encode(w.text, add_special_tokens=False) for w in winners]
        assert live.proposers[source].cache.seen == len(live.prompts[source]) + sum(map(len, read))


def test_first_tokens_arrive_alone():
    stream = collect(pair())
    first = of(events.Tokens, stream)[0]
    assert [row.tokens for row in first.rows] == [1, 1, 1]
    assert all(len(list(group)) for _, group in itertools.groupby(stream, key=lambda event: event.type))


def test_a_chat_template_without_a_system_turn_gets_it_in_the_users():
    loaded = make_tiny("llama", extra_tokens=["<no-system>"])
    loaded.tokenizer.chat_template = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}[{{ m.content }}]{% endfor %}"
    )
    text = loaded.tokenizer.decode(prompt_ids(loaded, "How many?", "Be brief."))
    assert text == "[Be brief.\n\nHow many?]"


def test_an_instruction_stands_behind_the_problem():
    loaded = make_tiny("llama")
    loaded.tokenizer.chat_template = "{% for m in messages %}[{{ m.role }} {{ m.content }}]{% endfor %}"
    assert loaded.tokenizer.decode(prompt_ids(loaded, "How many?", "", "Box it.")) == "[user How many?\n\nBox it.]"
    loaded.tokenizer.chat_template = None
    assert loaded.tokenizer.decode(prompt_ids(loaded, "How many?", "Brief.", "Box it.")) == "Brief.\n\nHow many?\n\nBox it.\n\n"


def test_a_single_chain_is_flagged_and_never_aborted(two):
    stream = collect(two, method="evicted", tau_ent=0.1, ent_window=2)
    assert of(events.Flag, stream) and not of(events.Abort, stream)
    assert stream[-1].reason != "no_candidate"
