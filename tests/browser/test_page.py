"""The page in a real browser, on a scripted engine with synthetic events."""

from __future__ import annotations

import functools
import gzip
import http.server
import json
import re
import threading
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from kvrescue.export import export_site
from kvrescue.lab.grade import read_story
from kvrescue.presets import default_config
from kvrescue.trace import read_runs, read_trace
from tests.ui.fake_backend import HOSTILE

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def calm(served):
    backend, _ = served
    backend.text, backend.steps, backend.pause, backend.die = " synthetic words", 3, 0.0, False


def ask(page: Page, problem: str = "How many words?") -> None:
    expect(page.locator("#kvr-models")).to_contain_text("ready on")
    page.fill("#kvr-problem textarea", problem)
    page.click("#kvr-run")


def finished(page: Page) -> None:
    expect(page.locator(".kvr-end")).to_be_visible(timeout=20_000)
    expect(page.locator("#kvr-run")).to_be_enabled()


def test_a_run_shows_steps_candidates_charts_and_memory(served, visit):
    page = visit(served[1])
    ask(page)
    finished(page)
    expect(page.locator(".kvr-card")).to_have_count(3)
    expect(page.locator(".kvr-card").first).to_contain_text("H1 helper")
    expect(page.locator(".kvr-card").first).to_contain_text("reward 0.80")
    expect(page.locator(".kvr-plot .main-svg").first).to_be_visible()
    expect(page.locator(".kvr-plot .main-svg")).not_to_have_count(0)
    expect(page.locator(".kvr-memory")).to_contain_text("8 of 28 tokens")
    expect(page.locator(".kvr-run .kvr-memory-text .kvr-lost-number").first).to_have_text(" 42")
    expect(page.locator(".kvr-lost-list")).to_contain_text("42 (since step 1)")
    expect(page.locator("#kvr-status-line")).to_contain_text("finished")
    expect(page.get_by_role("status").first).to_be_attached()


def test_rejected_candidates_say_why(served, visit):
    page = visit(served[1])
    ask(page)
    finished(page)
    button = page.locator(".kvr-expand").first
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    panel = page.locator(".kvr-rejected").first
    expect(panel).to_contain_text("aborted: entropy at token 16 (3.10 > 2.5 nats)")
    expect(panel).to_contain_text("lower score")
    expect(panel.locator(".kvr-tripped-entropy")).to_be_visible()
    button.focus()
    page.keyboard.press("Enter")
    expect(panel).to_be_hidden()


def test_an_open_panel_stays_open_while_steps_arrive(served, visit):
    backend, url = served
    backend.steps, backend.pause = 8, 0.02
    page = visit(url)
    ask(page)
    page.locator(".kvr-expand").first.click()
    expect(page.locator(".kvr-card")).to_have_count(8, timeout=20_000)
    expect(page.locator(".kvr-rejected").first).to_be_visible()
    expect(page.locator(".kvr-expand").first).to_have_attribute("aria-expanded", "true")
    finished(page)


def test_stop_is_felt_within_a_second_and_the_trace_is_kept(served, visit, tmp_path):
    backend, url = served
    backend.steps, backend.pause = 200, 0.03
    page = visit(url)
    ask(page)
    expect(page.locator(".kvr-card")).not_to_have_count(0, timeout=10_000)
    expect(page.locator("#kvr-run")).to_be_disabled()
    began = time.monotonic()
    page.click("#kvr-stop")
    expect(page.locator(".kvr-header")).to_contain_text("finished: it was stopped")
    assert time.monotonic() - began < 1.0
    cards = page.locator(".kvr-card").count()
    page.wait_for_timeout(1000)
    assert page.locator(".kvr-card").count() == cards
    finished(page)
    with page.expect_download() as download:
        page.click("#kvr-download")
    download.value.save_as(tmp_path / "trace.ndjson")
    stream = read_trace(tmp_path / "trace.ndjson")
    assert stream[-1].reason == "stopped" and download.value.suggested_filename == "kvrescue-fake0.ndjson"


def test_a_run_that_dies_says_so_and_keeps_what_it_wrote(served, visit):
    served[0].die = True
    page = visit(served[1])
    ask(page)
    expect(page.locator(".kvr-end")).to_contain_text("The run failed")
    expect(page.locator(".kvr-card")).to_have_count(2)
    expect(page.get_by_text("(run fake0)").first).to_be_visible()
    expect(page.locator("#kvr-download")).to_be_enabled()


def test_hostile_text_is_shown_literally_and_never_runs(served, visit):
    backend, url = served
    backend.text = HOSTILE
    page = visit(url)
    ask(page, HOSTILE)
    finished(page)
    page.locator(".kvr-expand").first.click()
    expect(page.locator(".kvr-run .kvr-problem")).to_have_text(HOSTILE)
    expect(page.locator(".kvr-card .kvr-text").first).to_contain_text("<script>window.hacked=4</script>")
    expect(page.locator(".kvr-rejected").first).to_contain_text("${window.hacked=2}")
    page.locator(".kvr-plot").first.hover()
    assert page.evaluate("window.hacked") is None
    assert page.locator("#kvr-view img, #kvr-view script").count() == 0


@pytest.mark.parametrize(
    ("problem", "change", "sentence"),
    [
        ("   ", None, "The problem is empty"),
        ("fine", ("#kvr-budget input[type=number]", "6"), "larger than the window"),
        ("too long for the model", None, "reads at most 8,000"),
        ("<img src=x onerror=alert(1)> too long for the model", None, "reads at most 8,000"),
    ],
)
def test_bad_input_gets_a_sentence_and_the_buttons_come_back(served, visit, problem, change, sentence):
    page = visit(served[1])
    if change:
        page.fill(*change)
        page.keyboard.press("Tab")
    ask(page, problem)
    expect(page.get_by_text(sentence).first).to_be_visible()
    expect(page.locator("#kvr-run")).to_be_enabled()
    expect(page.locator(".kvr-card")).to_have_count(0)


def test_ctrl_enter_runs(served, visit):
    page = visit(served[1])
    expect(page.locator("#kvr-models")).to_contain_text("ready on")
    page.fill("#kvr-problem textarea", "How many?")
    page.locator("#kvr-problem textarea").press("Control+Enter")
    finished(page)
    expect(page.locator(".kvr-run .kvr-problem")).to_have_text("How many?")


def test_examples_fill_problem_and_settings(served, visit):
    page = visit(served[1])
    page.click("#kvr-example input")
    page.get_by_role("option", name="Only sinks and the newest tokens").click()
    expect(page.locator("#kvr-problem textarea")).to_have_value(re.compile("A train leaves with 240 passengers"))
    expect(page.get_by_label("Known answer")).to_have_value("180")
    expect(page.locator("#kvr-changed")).to_contain_text("budget 32 (default 64)")
    expect(page.locator("#kvr-budget input[type=number]")).to_have_value("32")


def test_thresholds_are_drawn_before_any_run_and_follow_the_slider(served, visit):
    page = visit(served[1])
    expect(page.get_by_text("abort above 2.5 nats")).to_be_visible()
    page.fill("#kvr-tau_ent input[type=number]", "4")
    page.keyboard.press("Tab")
    expect(page.get_by_text("abort above 4 nats")).to_be_visible()


def test_step_and_chart_are_tied(served, visit):
    page = visit(served[1])
    ask(page)
    finished(page)
    page.locator(".kvr-step-title").nth(1).click()
    expect(page.locator("li.kvr-selected")).to_have_count(1)
    expect(page.locator(".kvr-memory")).to_contain_text("Memory after step 2")
    page.locator(".kvr-plot").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".kvr-memory")).to_contain_text("Memory after step 3")
    page.locator(".kvr-list > li").first.hover()
    expect(page.locator(".kvr-memory")).to_contain_text("Memory after step 1")


def test_zoom_survives_new_data(served, visit):
    backend, url = served
    backend.steps, backend.pause = 10, 0.03
    page = visit(url)
    ask(page)
    expect(page.locator(".kvr-card")).not_to_have_count(0, timeout=10_000)
    page.evaluate("window.Plotly.relayout(document.querySelector('.kvr-plot'), {'xaxis.range': [0.5, 1.5]})")
    finished(page)
    assert page.evaluate("document.querySelector('.kvr-plot').layout.xaxis.range") == [0.5, 1.5]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390, 320])
def test_nothing_scrolls_sideways_and_text_is_readable(served, visit, width, theme):
    page = visit(served[1], width=width, theme=theme)
    ask(page)
    finished(page)
    if width < 700:
        page.click(".kvr-fold")
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    low = page.evaluate(CONTRAST)
    assert not low, low


CONTRAST = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const [r, g, b, a = 1] = parse(getComputedStyle(node).backgroundColor);
      if (a === 1) return [r, g, b];
    }
    return document.body.classList.contains("dark") ? [15, 15, 17] : [255, 255, 255];
  };
  const low = [];
  for (const node of document.querySelectorAll(".kvr *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || !node.offsetParent || node.closest("svg") || node.closest(".kvr-later")) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push(`${node.className}: ${ratio.toFixed(2)} ${node.textContent.slice(0, 20)}`);
  }
  return low;
}"""


def test_two_visitors_do_not_see_each_other(served, visit):
    backend, url = served
    backend.pause = 0.01
    one, two = visit(url), visit(url)
    ask(one, "problem of visitor one")
    ask(two, "problem of visitor two")
    finished(one)
    finished(two)
    expect(one.locator(".kvr-run .kvr-problem")).to_have_text("problem of visitor one")
    expect(two.locator(".kvr-run .kvr-problem")).to_have_text("problem of visitor two")


def test_the_race_can_be_watched(served, visit):
    backend, url = served
    backend.steps, backend.pause = 2, 0.1
    page = visit(url)
    ask(page)
    expect(page.locator(".kvr-lane")).to_have_count(4, timeout=10_000)
    expect(page.locator(".kvr-lane").first).to_contain_text("B1 base")
    expect(page.locator(".kvr-lane").last).to_contain_text("writing")
    finished(page)
    expect(page.locator(".kvr-lanes")).to_be_hidden()


def test_other_models_bring_their_examples_settings_and_problems(served, visit):
    page = visit(served[1])
    problem = page.locator("#kvr-problem textarea")
    before = problem.input_value()
    expect(page.locator("#kvr-new")).to_be_hidden()
    page.click("#kvr-set input")
    page.get_by_role("option", name="Lab").click()
    expect(page.locator("#kvr-new")).to_be_visible()
    expect(problem).not_to_have_value(before)
    expect(page.locator("#kvr-n input[type=number]")).to_have_value(str(default_config("lab").n))
    first = problem.input_value()
    page.click("#kvr-difficulty input")
    page.get_by_role("option", name="hard").click()
    page.click("#kvr-new")
    expect(problem).not_to_have_value(first)
    told = read_story(problem.input_value())
    expect(page.get_by_label("Known answer")).to_have_value(str(told.answer))
    assert len(told.facts) == 7
    page.fill("#kvr-problem textarea", "How many ferries cross the sea?")
    page.click("#kvr-run")
    expect(page.get_by_text("switch the models to SmolLM2")).to_be_visible()
    expect(page.locator("#kvr-run")).to_be_enabled()
    page.click("#kvr-set input")
    page.get_by_role("option", name="SmolLM2").click()
    expect(page.locator("#kvr-new")).to_be_hidden()
    expect(problem).to_have_value(before)


# --- recorded runs --------------------------------------------------------------------------------------------------------------------


def test_a_recorded_run_is_there_before_anything_runs(served, visit):
    page = visit(served[1], recorded=True)
    expect(page.locator(".kvr-run .kvr-replay-what")).to_contain_text(
        "Recorded run: Rescued step by step. Made by: python -m kvrescue run example:lab-rescue"
    )
    expect(page.locator(".kvr-end")).to_be_visible()
    assert page.locator(".kvr-card").count() > 8
    page.locator(".kvr-run .kvr-replay .kvr-range").fill("3")
    expect(page.locator(".kvr-card")).to_have_count(3)
    expect(page.locator(".kvr-end")).to_be_hidden()
    expect(page.locator(".kvr-run .kvr-place")).to_contain_text("step 3 of")
    page.locator(".kvr-run .kvr-replay .kvr-range").focus()
    page.keyboard.press("End")
    expect(page.locator(".kvr-end")).to_be_visible()
    page.keyboard.press("Home")
    expect(page.locator(".kvr-run .kvr-place")).to_have_text("after the problem")
    expect(page.locator(".kvr-card")).to_have_count(0)
    page.keyboard.press("ArrowRight")
    expect(page.locator(".kvr-run .kvr-place")).to_contain_text("step 1 of")
    page.keyboard.press("Shift+ArrowRight")  # into the next step, while its candidates are written
    expect(page.locator(".kvr-run .kvr-place")).to_contain_text("in step 2 of")
    expect(page.locator(".kvr-card")).to_have_count(1)
    expect(page.locator(".kvr-run .kvr-lanes")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".kvr-run .kvr-place")).to_contain_text("step 1 of")
    page.locator(".kvr-run .kvr-replay .kvr-range").fill("2.5")
    expect(page.locator(".kvr-run .kvr-place")).to_contain_text("in step 3 of")


def test_a_recorded_run_plays_and_jumps_to_aborts(served, visit):
    page = visit(served[1], recorded=True)
    whole = page.locator(".kvr-card").count() or page.locator(".kvr-end").wait_for() or page.locator(".kvr-card").count()
    page.locator(".kvr-run .kvr-replay .kvr-range").focus()
    page.keyboard.press("Home")
    page.keyboard.press("]")
    aborted = int(page.locator(".kvr-run .kvr-replay .kvr-range").input_value())
    assert 0 < aborted <= whole
    expect(page.locator(".kvr-card").last).to_contain_text("aborted")
    page.keyboard.press("Home")
    page.select_option(".kvr-run .kvr-speed", "8")
    page.click(".kvr-run .kvr-play")
    expect(page.locator(".kvr-end")).to_be_visible(timeout=20_000)
    expect(page.locator(".kvr-run .kvr-play")).to_have_text("Play")
    expect(page.locator(".kvr-card")).to_have_count(whole)


def test_an_example_brings_its_recording_and_a_run_replaces_it(served, visit):
    page = visit(served[1], recorded=True)
    page.wait_for_selector(".kvr-end")
    page.evaluate("window.kvrescue.recorded('lab-derails')")
    expect(page.locator(".kvr-run .kvr-replay-what")).to_contain_text("example:lab-derails")
    ask(page)
    expect(page.locator(".kvr-run .kvr-replay-what")).to_contain_text("run of the moment", timeout=20_000)
    finished(page)
    expect(page.locator(".kvr-card")).to_have_count(3)
    page.locator(".kvr-run .kvr-replay .kvr-range").fill("1")
    expect(page.locator(".kvr-card")).to_have_count(1)


def test_the_address_may_name_a_recording_and_a_step(served, visit):
    page = visit(served[1], recorded=True)
    page.goto(f"{served[1]}?trace=lab-easy&step=2")
    expect(page.locator(".kvr-run .kvr-replay-what")).to_contain_text("example:lab-easy")
    expect(page.locator(".kvr-run .kvr-place")).to_contain_text("step 2 of")
    expect(page.locator(".kvr-card")).to_have_count(2)


def test_a_trace_from_disk_is_opened_and_hostile_text_in_it_is_text(served, visit, tmp_path):
    lines = (ROOT / "examples" / "traces" / "lab-easy.ndjson").read_text(encoding="utf-8")
    (tmp_path / "mine.ndjson").write_text(
        lines.replace("At first there are", json.dumps(HOSTILE)[1:-1]).replace("Early on Yuna", json.dumps(f"\x00{HOSTILE}")[1:-1]), encoding="utf-8"
    )
    (tmp_path / "not.ndjson").write_text("<script>alert(1)</script>", encoding="utf-8")
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "bomb.jsonl.gz").write_bytes(gzip.compress(bytes(11_000_000)))
    page = visit(served[1], recorded=True)
    page.wait_for_selector(".kvr-end")
    page.set_input_files(".kvr-replay input[type=file]", tmp_path / "mine.ndjson")
    expect(page.locator(".kvr-run .kvr-replay-what")).to_contain_text("Opened from mine.ndjson; it stays in this browser.")
    expect(page.locator(".kvr-card").first).to_contain_text(HOSTILE.strip()[:20])
    assert page.evaluate("document.querySelectorAll('.kvr img, .kvr script').length") == 0
    page.locator(".kvr-run .kvr-share summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Charts (SVG)").click()
    assert "<img src=x" in " ".join(ElementTree.fromstring(Path(download.value.path()).read_text(encoding="utf-8")).itertext())
    page.set_input_files(".kvr-replay input[type=file]", tmp_path / "not.ndjson")
    expect(page.get_by_role("alert").filter(has_text="no trace")).to_be_visible()
    page.set_input_files(".kvr-replay input[type=file]", tmp_path / "bomb.jsonl.gz")
    expect(page.get_by_role("alert").filter(has_text="larger than 10 MB")).to_be_visible()
    expect(page.locator(".kvr-run .kvr-replay-what")).to_contain_text("mine.ndjson")
    page.set_input_files(".kvr-replay input[type=file]", tmp_path / "packed.jsonl.gz")
    expect(page.locator(".kvr-run .kvr-replay-what")).to_contain_text("packed.jsonl.gz")


LEFT_TO_RIGHT = """(words) => {
  const walk = document.createTreeWalker(document.querySelector(".kvr-run"), NodeFilter.SHOW_TEXT);
  const left = (node, at) => {
    const range = document.createRange();
    range.setStart(node, at);
    range.setEnd(node, at + 1);
    return range.getBoundingClientRect().left;
  };
  for (let node; (node = walk.nextNode()); ) {
    const at = node.data.indexOf(words);
    if (at >= 0 && node.parentElement.offsetParent) return left(node, at) < left(node, at + words.length - 1);
  }
  return null;
}"""


def test_text_that_turns_the_direction_does_not_turn_our_sentences(served, visit, tmp_path):
    turning = "\u202emoc"
    events = [json.loads(line) for line in (ROOT / "examples" / "traces" / "lab-easy.ndjson").read_text(encoding="utf-8").splitlines()]
    events[0].update(scorer=turning, reference=turning)
    events[0]["config"].update(policy=turning)
    events[-1].update(reason=turning, answer=turning, correct=False)
    (tmp_path / "turning.ndjson").write_text("".join(f"{json.dumps(event)}\n" for event in events), encoding="utf-8")
    page = visit(served[1], recorded=True)
    page.wait_for_selector(".kvr-end")
    page.set_input_files(".kvr-run .kvr-replay input[type=file]", tmp_path / "turning.ndjson")
    expect(page.locator(".kvr-run .kvr-replay-what")).to_contain_text("turning.ndjson")
    for words in ("finished", "judged", "budget", "wrong", "ended after", "Answer"):
        assert page.evaluate(LEFT_TO_RIGHT, words) is True, words


@pytest.mark.parametrize("runs", [1, 2])
def test_a_recording_that_ends_in_the_middle_says_so(served, visit, tmp_path, runs):
    lines = (ROOT / "examples" / "traces" / "lab-easy.ndjson").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "cut.ndjson").write_text("".join(lines * (runs - 1) + lines[:-9]), encoding="utf-8")
    page = visit(served[1], recorded=True)
    page.wait_for_selector(".kvr-end")
    page.set_input_files(".kvr-run .kvr-replay input[type=file]", tmp_path / "cut.ndjson")
    frame = page.locator(".kvr-run" if runs == 1 else ".kvr-compare")
    expect(frame.locator(".kvr-replay-what")).to_contain_text("The recording is unfinished: it ends without a result.")
    places = frame.get_by_text("unfinished: the recording ends here")
    expect(places).to_have_count(1)
    frame.locator(".kvr-replay .kvr-range").fill("1")
    expect(places).to_have_count(0)
    frame.locator(".kvr-replay .kvr-range").focus()
    page.keyboard.press("End")
    expect(places).to_have_count(1)
    page.evaluate("window.kvrescue.recorded('lab-easy')")
    expect(page.locator(".kvr-run .kvr-replay-what")).to_contain_text("Recorded run")
    expect(page.locator(".kvr-run")).not_to_contain_text("unfinished")


def test_the_memory_is_the_same_whichever_way_the_slider_came(served, visit):
    page = visit(served[1], recorded=True)
    page.wait_for_selector(".kvr-end")
    slider = page.locator(".kvr-run .kvr-replay .kvr-range")

    def seen() -> list:
        look = "[...document.querySelectorAll('.kvr-run .kvr-part > *')].map((node) => [node.textContent, node.className, node.title])"
        return page.evaluate(look)

    whole = seen()
    slider.fill("3")
    third = seen()
    for place in ("0", "9", "3"):
        slider.fill(place)
    assert seen() == third != whole
    slider.fill(slider.get_attribute("max"))
    assert seen() == whole


@pytest.mark.parametrize("width", [320, 390])
def test_the_replay_bar_fits_a_phone(served, visit, width):
    page = visit(served[1], width=width, recorded=True)
    page.wait_for_selector(".kvr-end")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for one in page.locator(".kvr-run .kvr-replay button:visible, .kvr-run .kvr-replay input[type=range]").all():
        assert one.bounding_box()["height"] >= 24


def test_a_run_is_saved_as_tables(served, visit):
    page = visit(served[1], recorded=True)
    page.wait_for_selector(".kvr-end")
    rows = page.locator(".kvr-card").count()
    page.locator(".kvr-run .kvr-replay .kvr-range").fill("2")
    page.locator(".kvr-run .kvr-share summary").click()
    for button, least in (("Steps (CSV)", rows), ("Signals (CSV)", 100)):
        with page.expect_download() as download:
            page.get_by_role("button", name=button).click()
        lines = Path(download.value.path()).read_text(encoding="utf-8").strip().split("\n")
        assert download.value.suggested_filename.endswith(".csv") and lines[0].startswith("schema,run,step")
        assert len(lines) - 1 == rows if least == rows else len(lines) > least


def test_a_run_can_be_taken_away(served, visit, tmp_path):
    page = visit(served[1], recorded=True)
    page.wait_for_selector(".kvr-end")
    expect(page.locator(".kvr-plot .main-svg").first).to_be_visible()
    page.locator(".kvr-run .kvr-replay .kvr-range").fill("2")  # what is taken is the whole run
    page.locator(".kvr-run .kvr-share summary").click()
    taken = {}
    for button in ("Trace (NDJSON)", "Settings (JSON)", "Charts (PNG)", "Charts (SVG)", "Summary (Markdown)"):
        with page.expect_download() as download:
            page.get_by_role("button", name=button).click()
        taken[button] = tmp_path / download.value.suggested_filename
        download.value.save_as(taken[button])
    again, kept = read_trace(taken["Trace (NDJSON)"]), read_trace(ROOT / "examples" / "traces" / "lab-rescue.ndjson")
    assert again == kept
    assert json.loads(taken["Settings (JSON)"].read_text(encoding="utf-8")) == kept[0].config
    assert taken["Charts (PNG)"].read_bytes().startswith(b"\x89PNG") and taken["Charts (PNG)"].stat().st_size > 20_000
    drawing = ElementTree.fromstring(taken["Charts (SVG)"].read_text(encoding="utf-8"))
    assert len(drawing.findall("{http://www.w3.org/2000/svg}svg")) == 4
    written = " ".join(drawing.itertext())
    steps = sum(event.type == "commit" for event in kept)
    for words in ("Today Sue brings 9 sacks", f"run {kept[0].run} · all of its {steps} steps", "committed", "helper candidate", "aborted"):
        assert words in written
    assert drawing.find(".//{http://www.w3.org/2000/svg}rect") is not None, "it has a ground of its own"
    assert str(steps) in drawing.find("{http://www.w3.org/2000/svg}svg").itertext(), "the axis goes on to the last step"
    assert "| 1 | " in taken["Summary (Markdown)"].read_text(encoding="utf-8")
    page.get_by_role("button", name="Copy Python call").click()
    code = page.locator(".kvr-run .kvr-copy").input_value()
    compile(code, "call", "exec")
    assert 'models="lab"' in code and served[1].rstrip("/") in code


def test_a_link_fills_the_form_and_starts_nothing(served, visit):
    page = visit(served[1])
    page.fill("#kvr-budget input[type=number]", "96")
    page.keyboard.press("Tab")
    ask(page, HOSTILE)
    finished(page)
    page.locator(".kvr-run .kvr-share summary").click()
    page.get_by_role("button", name="Copy link").click()
    link = page.locator(".kvr-run .kvr-copy").input_value()
    assert "?settings=" in link
    page.goto(link)
    expect(page.locator("#kvr-problem textarea")).to_have_value(HOSTILE)
    expect(page.locator("#kvr-budget input[type=number]")).to_have_value("96")
    expect(page.locator(".kvr-card")).to_have_count(0)
    assert page.evaluate("window.hacked") is None


def test_a_link_to_a_recording_keeps_step_view_and_a_settings_link_the_answer(served, visit):
    page = visit(served[1], recorded=True)
    page.wait_for_selector(".kvr-end")
    page.locator(".kvr-run .kvr-memory select").first.select_option("grid")
    page.locator(".kvr-run .kvr-replay .kvr-range").focus()
    page.keyboard.press("Home")
    page.locator(".kvr-run .kvr-share summary").click()
    page.get_by_role("button", name="Copy link").click()
    link = page.locator(".kvr-run .kvr-copy").input_value()
    assert link.endswith("&step=0&view=grid")
    page.goto(link)
    expect(page.locator(".kvr-run .kvr-grid-canvas")).to_be_visible()
    expect(page.locator(".kvr-run .kvr-place")).to_have_text("after the problem")
    page.goto(f"{served[1]}?trace=none")
    page.wait_for_selector(".kvr-header")
    expect(page.locator("#kvr-models")).to_contain_text("ready on")
    page.fill("#kvr-problem textarea", "How many?")
    expect(page.get_by_label("Known answer")).to_have_value("")
    page.get_by_label("Known answer").fill("80")
    page.click("#kvr-run")
    finished(page)
    page.locator(".kvr-run .kvr-share summary").click()
    page.get_by_role("button", name="Copy link").click()
    page.goto(page.locator(".kvr-run .kvr-copy").input_value())
    expect(page.locator("#kvr-problem textarea")).to_have_value("How many?")
    expect(page.get_by_label("Known answer")).to_have_value("80")


def test_memory_by_layers_and_as_a_grid(served, visit):
    page = visit(served[1], recorded=True)
    page.wait_for_selector(".kvr-end")
    memory = page.locator(".kvr-memory")
    memory.get_by_label("layers").select_option("2")
    memory.get_by_label("shade").select_option("all")
    assert memory.locator(".kvr-shade-2").count() <= 1  # the legend's
    memory.get_by_label("view").select_option("grid")
    expect(memory.get_by_role("img")).to_have_accessible_name(re.compile("3 groups of layers"))
    assert memory.locator("canvas").bounding_box()["height"] > 60
    expect(memory.locator(".kvr-grid-rows > span")).to_have_text(["layer 1", "layer 2", "layer 3"])
    cell = memory.locator(".kvr-grid-cell")
    expect(cell).to_contain_text("use the arrow keys")
    memory.locator("canvas").focus()
    page.keyboard.press("ArrowRight")
    expect(cell).to_contain_text("Token 1, “Today”, layer 1: ")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    expect(cell).to_contain_text("“<end>”, layer 2: every head holds it.")
    memory.locator("canvas").hover(position={"x": 40, "y": 60})
    expect(cell).to_contain_text("layer 3: ")
    expect(cell).to_contain_text("dropped it after")
    expect(memory.locator(".kvr-memory-text")).to_be_hidden()


def test_the_forgotten_numbers_are_those_of_the_choice(served, visit):
    page = visit(served[1], recorded=True)
    page.goto(f"{served[1]}?trace=lab-easy")
    memory = page.locator(".kvr-run .kvr-memory")
    lost = memory.locator(".kvr-lost-list")
    expect(lost).to_have_text("Numbers of the prompt that no head holds any more: 58 (since step 12)")
    memory.get_by_label("layers").select_option("1")
    expect(lost).to_contain_text("no head in layer 2 holds any more: ")
    memory.get_by_label("shade").select_option("all")
    expect(lost).to_contain_text("not every head in layer 2 holds: 18 (since the problem)")
    memory.get_by_label("view").select_option("grid")
    expect(lost).to_have_text("Numbers of the prompt that no head holds any more: 58 (since step 12)")


def test_other_limits_are_judged_on_what_was_recorded(served, visit):
    page = visit(served[1], recorded=True)
    page.wait_for_selector(".kvr-end")
    panel = page.locator(".kvr-whatif")
    panel.locator("summary").click()
    expect(panel).to_contain_text("No candidate would have been aborted earlier.")
    panel.get_by_label("entropy limit").fill("0.05")
    expect(panel).to_contain_text("would have been aborted earlier, saving")
    expect(panel).to_contain_text("the run could have gone another way")


# --- comparison, continuation, lessons -------------------------------------------------------------------------------------------------


def test_a_recorded_comparison_shows_its_lanes_on_one_slider(served, visit):
    page = visit(served[1], recorded=True)
    page.get_by_role("button", name="Compare methods").click()
    lanes = page.locator(".kvr-compare-lane")
    expect(lanes).to_have_count(4)
    table = page.locator(".kvr-verdicts")
    expect(table.locator("tbody tr")).to_have_count(4)
    expect(table.locator("tbody tr").nth(1)).to_contain_text("wrong")
    expect(table.locator("tbody tr").nth(2)).to_contain_text("right")
    expect(page.locator(".kvr-parting")).to_contain_text("differ from step")
    expect(lanes.nth(1).locator(".kvr-tag")).to_have_text("first difference")
    page.locator(".kvr-compare .kvr-range").fill("2")
    for lane in range(4):
        expect(lanes.nth(lane).locator(".kvr-card")).to_have_count(2)
    lanes.nth(1).get_by_role("button", name="Show alone").click()
    expect(page.locator(".kvr-run .kvr-facts")).to_contain_text("Evicted")
    page.get_by_role("button", name="Back to the comparison").click()
    expect(lanes.first).to_be_visible()
    page.locator(".kvr-compare .kvr-share summary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Table (CSV)").click()
    assert Path(download.value.path()).read_text(encoding="utf-8").startswith("schema,method,answer")
    page.get_by_role("button", name="Copy link").click()
    page.goto(page.locator(".kvr-compare .kvr-copy").input_value())
    expect(lanes).to_have_count(4)
    page.get_by_role("button", name="One run").click()
    expect(page.locator(".kvr-run .kvr-end")).to_be_visible()


def test_a_live_comparison_runs_the_methods_one_after_another(served, visit):
    backend, url = served
    backend.text = HOSTILE
    page = visit(url)
    expect(page.locator("#kvr-models")).to_contain_text("ready on")
    page.fill("#kvr-problem textarea", HOSTILE)
    page.click("#kvr-compare")
    expect(page.locator(".kvr-compare-lane")).to_have_count(3, timeout=20_000)
    expect(page.locator("#kvr-run")).to_be_enabled(timeout=20_000)
    expect(page.locator(".kvr-verdicts tbody tr")).to_have_count(3)
    expect(page.locator(".kvr-compare-lane").nth(2)).to_contain_text("<img src=x onerror=")
    assert page.evaluate("window.hacked") is None and backend.most_running == 1
    with page.expect_download() as download:
        page.click("#kvr-download")
    assert len(read_runs(download.value.path())) == 3


def test_a_link_to_a_comparison_fills_the_form_and_the_methods(served, visit):
    page = visit(served[1])
    expect(page.locator("#kvr-models")).to_contain_text("ready on")
    page.locator("#kvr-compared button").first.click()
    page.locator("#kvr-methods").get_by_label("Full KV", exact=True).uncheck()
    page.fill("#kvr-budget input[type=number]", "96")
    page.keyboard.press("Tab")
    page.fill("#kvr-problem textarea", "How many words?")
    page.click("#kvr-compare")
    expect(page.locator("#kvr-run")).to_be_enabled(timeout=20_000)
    page.locator(".kvr-compare .kvr-share summary").click()
    page.locator(".kvr-compare").get_by_role("button", name="Copy link").click()
    page.goto(page.locator(".kvr-compare .kvr-copy").input_value())
    expect(page.locator("#kvr-problem textarea")).to_have_value("How many words?")
    expect(page.locator("#kvr-budget input[type=number]")).to_have_value("96")
    expect(page.locator("#kvr-methods").get_by_label("Evicted", exact=True)).to_be_checked()
    expect(page.locator("#kvr-methods").get_by_label("KV-Rescue", exact=True)).to_be_checked()
    expect(page.locator("#kvr-methods").get_by_label("Full KV", exact=True)).not_to_be_checked()
    expect(page.locator(".kvr-compare-lane")).to_have_count(0)
    expect(page.locator(".kvr-card")).to_have_count(0)


def test_a_comparison_needs_two_methods(served, visit):
    page = visit(served[1])
    page.locator("#kvr-compared button").first.click()
    for name in ("Full KV", "KV-Rescue"):
        page.locator("#kvr-methods").get_by_label(name, exact=True).uncheck()
    page.click("#kvr-compare")
    expect(page.get_by_text("1 methods are chosen; a comparison takes 2 to 4.")).to_be_visible()
    expect(page.locator("#kvr-run")).to_be_enabled()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_comparison_fits_a_phone(served, visit, theme):
    page = visit(served[1], recorded=True, width=390, height=844, theme=theme)
    page.get_by_role("button", name="Compare methods").click()
    expect(page.locator(".kvr-compare-lane:visible")).to_have_count(1)
    page.locator(".kvr-switcher").get_by_role("button", name="Evicted").click()
    expect(page.locator(".kvr-compare-lane:visible h2").first).to_have_text("Evicted")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_run_goes_on_from_a_step_of_any_trace(served, visit):
    page = visit(served[1], recorded=True)
    page.locator("#kvr-set").get_by_role("listbox").or_(page.locator("#kvr-set input")).first.click()
    page.get_by_role("option", name="Lab (bundled)").click()
    expect(page.locator("#kvr-problem textarea")).to_have_value(re.compile("books"))
    page.evaluate("window.kvrescue.recorded('lab-forgets', {step: 2})")
    expect(page.locator(".kvr-run .kvr-place")).to_contain_text("step 3 of")
    page.get_by_role("button", name="Go on from here").click()
    expect(page.locator(".kvr-run .kvr-replay-what")).to_contain_text("run of the moment", timeout=20_000)
    expect(page.locator("#kvr-problem textarea")).to_have_value(re.compile("keys"))
    expect(page.locator("#kvr-run")).to_be_enabled(timeout=20_000)


def test_nothing_goes_on_behind_an_answer_or_with_other_models(served, visit):
    page = visit(served[1], recorded=True)
    expect(page.get_by_role("button", name="Go on from here")).to_be_disabled()
    page.locator(".kvr-run .kvr-range").first.fill("3")
    page.get_by_role("button", name="Go on from here").click()  # the page stands on SmolLM2
    expect(page.get_by_text("choose them first")).to_be_visible()


def test_seven_cards_teach_with_the_keyboard_alone(served, visit):
    page = visit(served[1], recorded=True)
    page.get_by_role("button", name="Learn in seven cards").click()
    card = page.locator(".kvr-lessons")
    seen = set()
    for number in range(1, 8):
        expect(card).to_contain_text(f"Card {number} of 7")
        expect(card.locator(".kvr-options button")).to_have_count(3)
        expect(page.locator(".kvr-spot")).to_be_visible()
        card.locator(".kvr-options button").first.focus()
        page.keyboard.press("Enter")
        expect(card.locator(".kvr-reveal")).to_contain_text(re.compile("Yes|Not quite"))
        assert "{" not in card.inner_text() and "NaN" not in card.inner_text() and "undefined" not in card.inner_text()
        seen.add(page.locator(".kvr-run .kvr-replay-what").inner_text())
        page.keyboard.press("PageDown")
    assert len(seen) == 7
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()
    expect(page.get_by_role("button", name="Learn in seven cards")).to_be_focused()


def test_a_card_shows_what_it_speaks_of_wherever_the_slider_was(served, visit):
    page = visit(served[1], recorded=True)
    page.goto(f"{served[1]}?card=2")
    card, underlined = page.locator(".kvr-lessons"), page.locator(".kvr-run [data-kvr-asked]")
    expect(card).to_contain_text("Card 2 of 7")
    expect(underlined.first).to_be_visible()
    slider = card.get_by_label("Move through the run of this card")
    for place in ("0", "3"):
        slider.fill(place)
        expect(underlined.first).to_be_visible()
    boxes = [one.bounding_box() for one in (page.locator(".kvr-run .kvr-memory"), card)]
    assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"], "the card stands beside the run"
    before = page.locator(".kvr-run .kvr-step-title").count()
    card.locator(".kvr-options button").first.click()  # the answer goes on to the step that was asked about
    expect(page.locator(".kvr-run .kvr-step-title")).to_have_count(before + 1)
    page.goto(f"{served[1]}?card=6")
    others = page.locator('.kvr-run .kvr-expand[aria-expanded="true"]')
    card.locator(".kvr-options button").first.click()
    expect(others).to_have_count(1)
    at = int(slider.input_value())
    slider.fill("1")
    expect(others).to_have_count(0)
    slider.fill(str(at))
    expect(others).to_have_count(1)


def test_presenter_keys_are_letters_only_when_asked_for(served, visit):
    page = visit(served[1], recorded=True)
    page.goto(f"{served[1]}?card=3")
    card = page.locator(".kvr-lessons")
    expect(card).to_contain_text("Card 3 of 7")
    page.keyboard.press("n")
    expect(card).to_contain_text("Card 3 of 7")
    card.get_by_role("button", name="Presenter keys").click()
    page.keyboard.press("r")
    expect(card.locator(".kvr-reveal")).not_to_be_empty()
    page.keyboard.press("n")
    expect(card).to_contain_text("Card 4 of 7")
    page.fill("#kvr-problem textarea", "")
    page.locator("#kvr-problem textarea").press_sequentially("pnr")
    expect(page.locator("#kvr-problem textarea")).to_have_value("pnr")
    expect(card).to_contain_text("Card 4 of 7")


def test_projector_writes_large(served, visit):
    page = visit(served[1], recorded=True)
    size = "getComputedStyle(document.querySelector('.kvr-run .kvr-text')).fontSize"
    page.wait_for_selector(".kvr-card")
    before = page.evaluate(size)
    page.get_by_role("button", name="Projector").click()
    assert float(page.evaluate(size)[:-2]) > float(before[:-2])


def test_the_static_site_replays_without_any_server_of_ours(visit, tmp_path):
    export_site(tmp_path / "site")
    handler = functools.partial(QuietHandler, directory=tmp_path / "site")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = visit(f"http://127.0.0.1:{server.server_address[1]}/", recorded=True)
        expect(page.locator(".kvr-run .kvr-end")).to_be_visible()
        expect(page.locator(".kvr-plot .main-svg").first).to_be_visible()
        expect(page.get_by_role("button", name="Go on from here")).to_have_count(0)
        page.locator(".kvr-run .kvr-share summary").click()
        expect(page.get_by_role("button", name="Copy link")).to_be_visible()
        page.set_input_files(".kvr-run .kvr-replay input[type=file]", ROOT / "examples" / "traces" / "lab-easy.ndjson")
        expect(page.locator(".kvr-run")).to_contain_text("This run has no address here")
        expect(page.get_by_role("button", name="Copy link")).to_be_hidden()
        page.get_by_role("link", name="It never finds the end").click()
        expect(page.locator(".kvr-run .kvr-replay-what")).to_contain_text("example:lab-derails")
        page.get_by_role("button", name="Compare methods").click()
        expect(page.locator(".kvr-compare-lane")).to_have_count(4)
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/?lang=ko")
        expect(page.locator("#claim")).to_contain_text("언어 모델은")
        page.locator("#recordings a").nth(2).click()
        expect(page.locator("html")).to_have_attribute("lang", "ko")
        expect(page.get_by_role("link", name="English")).to_be_visible()
        expect(page.locator(".kvr-run")).to_contain_text("녹화된 실행")
        expect(page.locator(".kvr-plot .main-svg").first).to_be_visible()
        page.goto("about:blank")  # nothing is being fetched when the server goes
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_the_server_tells_how_it_is_without_texts(served, visit):
    page = visit(served[1])
    ask(page, "a secret problem")
    finished(page)
    told = page.request.get(f"{served[1]}kvrescue/health")
    assert told.ok and told.json()["status"] == "ok" and told.json()["models"]["smollm2"] == "ready" and told.json()["begun"] >= 1
    assert "secret" not in told.text()
