"""The page without a browser: settings, streaming limits, sessions, and its API through Gradio's own client."""

from __future__ import annotations

import base64
import contextvars
import itertools
import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from gradio import Error
from gradio_client import Client
from gradio_client.exceptions import AppError
from hypothesis import given, settings
from hypothesis import strategies as st

from kvrescue import presets
from kvrescue.backend import ModelBackend
from kvrescue.config import POLICIES, ConfigError, RunConfig, assumptions, make_config
from kvrescue.presets import MODEL_SETS, check_language, default_config, default_settings
from kvrescue.stop import Stop
from kvrescue.trace import parse_trace
from kvrescue.ui import sessions as store
from kvrescue.ui import settings as form
from kvrescue.ui.listeners import Page, assumptions_table, plain_error
from kvrescue.ui.page import build_page, launch_options
from kvrescue.ui.sessions import Sessions
from kvrescue.ui.stream import UPDATE_BYTES, UPDATE_SECONDS, paced, slowed, split
from kvrescue.ui.viewer import routes
from kvrescue.ui.words import table, translated, words
from tests.ui.fake_backend import HOSTILE, FakeBackend

DEFAULTS = default_config("smollm2").model_dump()
NOBODY = SimpleNamespace(session_hash="nobody", headers={})
KOREAN = SimpleNamespace(session_hash="korean", headers={"accept-language": "ko-KR,ko;q=0.9,en;q=0.8"})
DEFAULTS_LAB = default_config("lab")


# --- settings ---------------------------------------------------------------------------------------------------------------------


def test_every_setting_is_on_the_page():
    assert set(form.FIELDS) == set(RunConfig.model_fields)
    assert set(form.POLICIES) == set(POLICIES)


@pytest.mark.parametrize("control", [*form.BASIC, *form.ADVANCED], ids=lambda control: control.field)
def test_every_input_is_interactive_and_within_the_rules(control):
    component = form.build(control, DEFAULTS[control.field])
    assert component.interactive is True and component.label
    for name in ("minimum", "maximum"):
        edge = getattr(component, name, None)
        if edge is not None and control.field not in ("budget", "kernel"):
            make_config(**{**DEFAULTS, "method": "full", control.field: edge})


def test_values_from_sliders_become_settings():
    values = {**{name: DEFAULTS[name] for name in form.FIELDS}, "budget": 64.0, "n": 3.0}
    assert form.to_config(values).budget == 64
    assert form.to_config({**values, "delimiter": "\\n##"}).delimiter == "\n##", "a line break is typed as a backslash and n"
    with pytest.raises(ConfigError, match="n is 2.5"):
        form.to_config({**values, "n": 2.5})
    with pytest.raises(ConfigError, match="seed is None"):
        form.to_config({**values, "seed": None})


def test_changes_are_named():
    values = {name: DEFAULTS[name] for name in form.FIELDS}
    assert form.changes(values, DEFAULTS, words("en")) == ""
    assert form.changes({**values, "budget": 128}, DEFAULTS, words("en")) == "Changed: budget 128 (default 64)"


@pytest.mark.parametrize("example", presets.load_examples(), ids=lambda example: example["id"])
def test_examples_fill_valid_settings(example):
    models = example["models"]
    make_config(**{**default_settings(models), **example["settings"]})
    check_language(models, example["problem"])
    page = Page(FakeBackend(models))
    assert example in page.examples_of(models)
    filled = page.fill_example(models, example["id"])
    assert filled[0] == example["problem"] and example["answer"] in filled[1] and len(filled) == 2 + len(form.FIELDS)


def test_model_sets_have_valid_defaults():
    for name in MODEL_SETS:
        assert default_config(name)


def test_visitors_text_is_never_markdown():
    page = Page(FakeBackend())
    values = {name: DEFAULTS[name] for name in form.FIELDS}
    changed, _ = page.explain(NOBODY, "smollm2", *{**values, "system_prompt": "![x](http://evil.example/x)"}.values())
    assert changed == "Changed: system_prompt"
    evil = "`x` ![x](http://evil.example/x) | \\boxed{"
    changed, table = page.explain(NOBODY, "smollm2", *{**values, "closing_prompt": evil, "reflection_words": evil}.values())
    assert changed == "Changed: reflection_words, closing_prompt"
    assert "| closing_prompt | `" in table and table.count("`") % 2 == 0 and "`x`" not in table
    wrong, _ = page.explain(NOBODY, "smollm2", *{**values, "policy": "![x](http://evil.example) `<b>`"}.values())
    assert wrong.startswith("⚠ `policy is '![x]") and wrong.count("`") == 2


def test_toasts_show_hostile_text_literally():
    assert "<img" not in str(plain_error("policy is '<img onerror=1>'").message)


def test_only_the_viewer_its_recordings_and_plotly_are_served():
    assert sorted(route.path for route in routes(dict)) == ["/kvrescue/assets", "/kvrescue/health", "/kvrescue/plotly.min.js", "/kvrescue/traces"]
    options = launch_options(build_page(FakeBackend()))
    assert options["run_history"] is False and options["ssr_mode"] is False and "allowed_paths" not in options


def test_steps_of_fast_models_are_held_back_and_a_stop_is_not():
    backend = FakeBackend("lab")
    backend.steps = 4
    stop = Stop()
    events = slowed(backend.run("p", DEFAULTS_LAB, stop), 0.1, stop)
    times = [time.monotonic() for event in events if event.type == "commit"]
    assert len(times) == 4 and all(later - sooner >= 0.09 for sooner, later in itertools.pairwise(times[1:]))
    stop = Stop()
    threading.Timer(0.2, stop.set).start()
    began = time.monotonic()
    list(slowed(backend.run("p", DEFAULTS_LAB, stop), 30.0, stop))
    assert time.monotonic() - began < 5


# --- words ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"problem": ""},
        {"problem": "p" * 9000},
        {"problem": "\ud800"},
        {"n": 99},
        {"n": 1.5},
        {"tau_ent": -1},
        {"kernel": 4},
        {"budget": 8, "window": 8},
        {"policy": "streaming-llm", "window": 4, "budget": 5, "sinks": 16},
        {"policy": "knorm", "window": 8, "budget": 9, "protect_sink": 4},
        {"scorer": "none"},
        {"method": "reco", "tau_l": 0.9, "tau_h": 0.1},
        {"method": "reco", "delta": 0.9, "retention_ratio": 0.3},
        {"method": "reco", "reco_every": 4},
    ],
    ids=str,
)
def test_errors_are_told_in_the_visitors_language(change):
    page = Page(FakeBackend())
    values = {**{name: DEFAULTS[name] for name in form.FIELDS}, **change}
    problem = values.pop("problem", "a problem")
    told = {}
    for visitor in (NOBODY, KOREAN):
        with pytest.raises(Error) as refused:
            page.start(visitor, "smollm2", problem, *values.values())
        told[visitor.session_hash] = refused.value.message
    assert re.search("[가-힣]{2}", told["korean"]) and not re.search("[가-힣]", told["nobody"])
    numbers = [set(re.findall(r"\d[\d,.]*\d|\d", text)) for text in told.values()]
    assert numbers[0] == numbers[1], "the same values in both"


def test_every_sentence_with_holes_is_found_again_by_its_template():
    for key, text in table("en").items():
        if key.startswith(("error.", "said.")):
            filled = re.sub(r"\{(\w+)\}", r"<\1>", text)
            expected = re.sub(r"\{(\w+)\}", r"<\1>", table("ko")[key])
            assert translated(filled, "ko") == expected, key
    assert translated("A sentence that nobody knows.", "ko") == "A sentence that nobody knows."


def test_what_model_sets_say_about_themselves_is_translated():
    for chosen in MODEL_SETS.values():
        assert re.search("[가-힣]", translated(chosen.note, "ko")), chosen.title


def test_the_page_asks_only_for_words_that_exist():
    known = {re.sub(r"\.(one|other)$", "", key) for key in table("en")}
    for file in Path("kvrescue/ui").glob("*.py"):
        for key in re.findall(r'(?:say|label)\("([\w.]+)"', file.read_text(encoding="utf-8")):
            assert key in known, (file.name, key)
    for name in form.FIELDS[1:]:
        assert f"field.{name}" in known


def test_a_visitor_hears_how_many_runs_come_first_and_how_long_one_takes():
    page = Page(FakeBackend())
    values = [DEFAULTS[name] for name in form.FIELDS]
    assert page.start(NOBODY, "smollm2", "p", *values)[4] == "waiting for the model"
    page.times["smollm2", "kv-rescue", DEFAULTS["n"]].extend([3.0, 5.0, 90.0])
    assert page.start(KOREAN, "smollm2", "p", *values)[4] == "앞에 실행 1개가 있습니다; 보통 5초 걸립니다"
    assert page.health()["waiting"] == 2
    list(page.run(NOBODY, "smollm2", "p", "", None, *values))
    assert page.health()["waiting"] == 1 and page.health()["finished"] == 1


def test_old_traces_are_forgotten(monkeypatch):
    sessions = Sessions()
    sessions.finish("old", sessions.begin("old"), "r", "text")
    monkeypatch.setattr(store, "MOST_SECONDS", -1.0)
    sessions.begin("new")
    assert sessions.trace_file("old") is None


# --- streaming --------------------------------------------------------------------------------------------------------------------


def events_of(backend: FakeBackend, config: RunConfig | None = None, stop: Stop | None = None) -> Iterator:
    return backend.run("a problem", config or make_config(n=2), stop or Stop())


def test_updates_are_small_and_few():
    began, pieces = time.monotonic(), []
    for piece in paced(events_of(FakeBackend(text=" word" * 400, steps=12))):
        pieces.append((time.monotonic() - began, piece))
    assert parse_trace("".join(piece for _, piece in pieces).encode())
    assert max(len(piece.encode()) for _, piece in pieces) <= UPDATE_BYTES
    gaps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(pieces)]
    assert min(gaps) >= UPDATE_SECONDS * 0.95


def test_what_is_written_is_shown_although_the_engine_is_busy():
    def slow() -> Iterator:
        yield from list(events_of(FakeBackend()))[:3]
        time.sleep(1.5)

    began = time.monotonic()
    stream = paced(slow())
    assert "header" in next(stream)
    assert time.monotonic() - began < 1
    list(stream)


def test_an_engine_that_raises_still_delivers_what_it_wrote():
    def broken() -> Iterator:
        yield from list(events_of(FakeBackend()))[:3]
        raise RuntimeError("broken")

    text = ""
    with pytest.raises(RuntimeError):
        for piece in paced(broken()):
            text += piece
    assert text.count("\n") == 3


@given(st.text(alphabet="a한🎈\n", max_size=200), st.integers(4, 64))
@settings(deadline=None)
def test_splitting_loses_nothing(text, most):
    pieces, rest = [], text
    while rest:
        piece, rest = split(rest, most)
        assert 0 < len(piece.encode()) <= most
        pieces.append(piece)
    assert "".join(pieces) == text


# --- sessions ---------------------------------------------------------------------------------------------------------------------


def test_a_visitor_only_ever_gets_their_own_trace(tmp_path):
    sessions = Sessions()
    one, two = sessions.begin("one"), sessions.begin("two")
    sessions.finish("one", one, "run1", "trace of one")
    assert sessions.trace_file("two") is None and sessions.trace_file("nobody") is None
    sessions.finish("two", two, "run2", "trace of two")
    with open(sessions.trace_file("one"), encoding="utf-8") as file:
        assert file.read() == "trace of one"
    sessions.forget("one")
    assert sessions.trace_file("one") is None


def test_a_new_run_stops_the_old_one_and_keeps_its_own_trace():
    sessions = Sessions()
    old = sessions.begin("me")
    new = sessions.begin("me")
    with pytest.raises(Exception, match="stopped"):
        old.check()
    sessions.finish("me", old, "old", "old trace")
    assert sessions.trace_file("me") is None
    sessions.finish("me", new, "new", "new trace")
    assert sessions.trace_file("me").endswith("kvrescue-new.ndjson")


def test_stop_while_waiting_in_the_queue_calls_the_run_off():
    sessions = Sessions()
    sessions.expect("me")
    sessions.stop("me")
    with pytest.raises(Exception, match="stopped"):
        sessions.begin("me").check()
    sessions.expect("me")
    sessions.begin("me").check()


def test_downloads_do_not_pile_up():
    sessions = Sessions()
    first = sessions.begin("me")
    sessions.finish("me", first, "run1", "x")
    path = Path(sessions.trace_file("me"))
    assert path.stat().st_mode & 0o077 == 0
    sessions.begin("me")
    assert not path.exists()


def test_the_store_is_bounded(monkeypatch):
    monkeypatch.setattr(store, "MOST_SESSIONS", 3)
    sessions = Sessions()
    stops = [sessions.begin(str(i)) for i in range(5)]
    with pytest.raises(Exception, match="stopped"):
        stops[0].check()
    stops[4].check()
    monkeypatch.setattr(store, "MOST_BYTES", 10)
    sessions.finish("4", stops[4], "r", "x" * 100)
    sessions.begin("5")
    assert sessions.trace_file("4") is None


# --- the running app --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served():
    backend = FakeBackend()
    page = build_page(backend, FakeBackend("lab"))
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, server_port=None, **launch_options(page))
    yield backend, url
    page.close()


def test_solve_through_the_api(served):
    _, url = served
    client = Client(url, verbose=False)
    result = client.predict("a problem " + HOSTILE, n=2, seed=3, api_name="/solve")
    assert result["summary"]["type"] == "end" and result["trace"][0]["problem"].endswith(HOSTILE)
    assert result["trace"][0]["config"]["seed"] == 3 and result["text"]
    assert [name for name in client.view_api(return_format="dict")["named_endpoints"]] == ["/solve"], "everything else is private"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"problem": ""}, "problem is empty"),
        ({"problem": "p", "n": 0}, "n is 0; allowed: a whole number from 1 to 16"),
        ({"problem": "p", "policy": "zip"}, "policy is 'zip'; allowed"),
        ({"problem": "p", "budget": 4}, "larger than the window"),
        ({"problem": "p", "settings": {"tau_ent": -1}}, "tau_ent is -1"),
        ({"problem": "p", "settings": {"what": 1}}, "no setting called 'what'"),
        ({"problem": "too long for the model"}, "reads at most 8,000"),
        ({"problem": "p", "models": "magic"}, "models is 'magic'; allowed: smollm2, lab."),
        ({"problem": "A ferry?", "models": "lab"}, "know only the words of their stories and numbers from 0 to 99, not: ferry."),
    ],
)
def test_bad_input_through_the_api_gets_the_same_sentences(served, arguments, sentence):
    with pytest.raises(AppError) as caught:
        Client(served[1], verbose=False).predict(**arguments, api_name="/solve")
    assert sentence in str(caught.value)


def test_one_model_serves_one_run_at_a_time(served):
    backend, url = served
    backend.pause, backend.most_running = 0.005, 0
    clients = [Client(url, verbose=False) for _ in range(2)]
    results = []
    threads = [
        threading.Thread(target=lambda c=c, i=i: results.append(c.predict("p", n=1, seed=i, api_name="/solve"))) for i, c in enumerate(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    backend.pause = 0.0
    assert sorted(result["summary"]["run"] for result in results) == ["fake0", "fake1"]
    assert backend.most_running == 1


def test_a_reco_method_brings_what_its_models_want_and_another_takes_it_back():
    page = Page(FakeBackend("lab"))
    assert page.suit("lab", "reco") == ["snapkv-decode", 32, True, "\n\n"]
    assert page.suit("lab", "kv-rescue") == [page.defaults["lab"][name] for name in form.SUITED] == ["rkv", 32, False, "\n\n"]
    assert all(isinstance(one, dict) for one in page.suit("smollm2", "reco")), "left as they are"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!!",
        "e30",
        base64.urlsafe_b64encode(b'{"problem": "a", "settings": [1]}').decode(),
        base64.urlsafe_b64encode(b'{"problem": 3, "settings": {}}').decode(),
        "A" * 99_999,
    ],
)
def test_a_damaged_link_is_refused_in_a_sentence(text):
    with pytest.raises(ConfigError):
        form.from_link(text)


def test_a_link_is_read_back_and_its_settings_are_checked():
    def link(methods=None, **values):
        given = {"models": "lab", "problem": "Wie viele? \u00df", "reference": "80", "settings": values, "methods": methods}
        return base64.urlsafe_b64encode(json.dumps(given).encode()).decode().rstrip("=")

    read = form.from_link(link(budget=96))
    assert (read.models, read.problem, read.reference, read.values["budget"]) == ("lab", "Wie viele? \u00df", "80", 96)
    assert read.methods is None
    assert form.from_link(link(["kv-rescue", {}, "full", "rm -rf"])).methods == ["full", "kv-rescue"]
    with pytest.raises(ConfigError, match="budget is 2"):
        form.from_link(link(budget=2))
    with pytest.raises(ConfigError, match="damaged"):
        form.from_link(link("full"))


def test_large_sets_give_way_to_one_another_and_small_ones_stay():
    sets = {name: FakeBackend(name) for name in ("lab", "smollm2", "qwen3-8b", "r1-qwen-7b")}
    page = Page(*sets.values())
    page.switch(NOBODY, "qwen3-8b")
    page.switch(NOBODY, "r1-qwen-7b")
    assert {name: backend.released for name, backend in sets.items()} == {"lab": 0, "smollm2": 0, "qwen3-8b": 1, "r1-qwen-7b": 1}


def test_what_the_papers_leave_open_is_told_in_every_language():
    config = make_config(**DEFAULTS)
    english, korean = (assumptions_table(config, language) for language in ("en", "ko"))
    notes = {row["note"] for row in assumptions(config)}
    assert all(note in english and note not in korean for note in notes)
    assert len(english.splitlines()) == len(korean.splitlines()) > 15


def test_health_tells_which_models_were_never_asked_for():
    states = build_page(ModelBackend("lab"), FakeBackend()).health()["models"]
    assert states == {"lab": "not loaded", "smollm2": "ready"}


def test_the_engine_has_the_visitors_context():
    """ZeroGPU finds in it whose seconds a call uses."""
    visitor = contextvars.ContextVar("visitor", default="nobody")
    visitor.set("somebody")
    seen = []

    def events():
        seen.append(visitor.get())
        yield from ()

    assert list(paced(events())) == [] and seen == ["somebody"]
