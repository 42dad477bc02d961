from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvrescue import events, rle
from kvrescue.trace import MOST_BYTES, TraceError, parse_trace, read_trace, recorded

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def small_stream(text: str = "so\n\n", run: str = "r") -> list[events.AnyEvent]:
    info = events.ModelInfo(
        id="m", architecture="llama", parameters=1, layers=1, kv_heads=1, query_heads=1, head_dim=1, vocab=1, dtype="float32", device="cpu"
    )
    rest = [
        (events.Header, dict(app_version="0", problem=text, config={}, models={"base": info}, scorer="nobody")),
        (events.StepBegin, dict(step=0)),
        (events.Tokens, dict(step=0, source="base", rows=[events.TokenRow(cand=0, tokens=2, text=text, ent=[0.5, 1.25], gzip=[(16, 0.61)])])),
        (events.Candidate, dict(step=0, source="base", cand=0, tokens=2, finish="delimiter")),
        (events.Commit, dict(step=0, source="base", cand=0, score=None, text=text, tokens=2, pieces=[text, ""], ended="delimiter")),
        (events.End, dict(reason="max_steps", totals={"base": events.SourceCount(generated=2, committed=2, steps=1)})),
    ]
    return [kind(seq=i, run=run, **fields) for i, (kind, fields) in enumerate(rest)]


def as_bytes(stream: list[events.AnyEvent]) -> bytes:
    return "".join(events.to_line(event) + "\n" for event in stream).encode()


@given(texts)
def test_events_round_trip_whatever_the_text(text):
    stream = small_stream(text)
    assert parse_trace(as_bytes(stream)) == stream
    assert all("\n" not in events.to_line(event) for event in stream)


def test_a_trace_is_written_as_it_comes(tmp_path):
    file = io.StringIO()
    passing = recorded(small_stream(), file)
    next(passing)
    assert file.getvalue().count("\n") == 1
    path = tmp_path / "trace.ndjson"
    path.write_bytes(as_bytes(small_stream()))
    assert read_trace(path) == small_stream()


def test_broken_traces_are_refused_in_one_sentence(tmp_path):
    whole = small_stream()

    def says(data: bytes, part: str) -> None:
        with pytest.raises(TraceError, match=part):
            parse_trace(data)

    says(b"", "does not begin with a header")
    says(as_bytes(whole[1:]), "does not begin with a header")
    says(as_bytes(whole[:-1]), "does not end with one end or error")
    says(as_bytes([*whole[:2], *whole[3:]]), "event 2 is missing")
    says(as_bytes(whole) + b"not json\n", "Line 7 of the trace is no valid event")
    says(as_bytes(whole).replace(b'"type":"commit"', b'"type":"comet"'), "Line 5")
    says(as_bytes([*whole[:-1], whole[-1].model_copy(update={"run": "other"})]), "belongs to another run")
    wrong = whole[-1].model_copy(update={"totals": {"base": events.SourceCount(generated=3, committed=2)}})
    says(as_bytes([*whole[:-1], wrong]), "do not add up")
    newer = whole[0].model_copy(update={"schema_version": 99})
    says(as_bytes([newer, *whole[1:]]), "schema version 99")
    large = tmp_path / "large.ndjson"
    with large.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(TraceError, match="at most"):
        read_trace(large)


@given(st.floats(0, 1e6))
def test_signals_keep_three_digits(value):
    assert events.quantise(value) == pytest.approx(value, rel=5.1e-3, abs=1e-300)
    assert events.quantise(value) == float(f"{value:.2e}")


@given(st.lists(st.integers(0, 15), max_size=300))
def test_memory_map_round_trip(levels):
    assert rle.decode(rle.encode(levels)) == levels


@pytest.mark.parametrize("bad", ["g", "f-1", "f  0", "fz zz", "f00", "1zzzzzz", "?"])
def test_bad_memory_maps_are_refused(bad):
    with pytest.raises(ValueError):
        rle.decode(bad)


def test_memory_map_table():
    import json
    from pathlib import Path

    for case in json.loads((Path(__file__).parent / "data" / "rle_cases.json").read_text()):
        assert rle.encode(case["levels"]) == case["text"] and rle.decode(case["text"]) == case["levels"]


@pytest.mark.parametrize(("held", "slots", "level"), [(0, 90, 0), (1, 90, 1), (45, 90, 8), (89, 90, 14), (90, 90, 15), (1, 1, 15)])
def test_only_nothing_is_zero_and_only_everything_is_full(held, slots, level):
    assert rle.level(held, slots) == level
