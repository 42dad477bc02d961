"""Moving through a long trace: quick, at the newest step whichever way the slider came, and nothing that a reader did is lost. Synthetic events."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.web.look import EVENTS, LONG, MOST_SEEK_MS, ROOT, SEEK, SEEKS, Quiet

SLIDER = ".kvr-run .kvr-replay .kvr-range"
END = "() => { const list = document.querySelector('.kvr-run .kvr-list'); return list.scrollHeight - list.scrollTop - list.clientHeight; }"
"""How far the list of steps is from its end, in pixels."""


@pytest.fixture(scope="module")
def harness() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(ROOT))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def viewer(harness: str, visit, width: int = 1280) -> Page:
    page = visit(f"{harness}/tests/web/harness.html", home=harness, width=width)
    page.wait_for_function("window.view && window.Plotly")
    return page


def opened(harness: str, visit, width: int = 1280) -> Page:
    page = viewer(harness, visit, width)
    page.evaluate(LONG, EVENTS)
    expect(page.locator(".kvr-run .kvr-replay-what")).to_contain_text("Opened from long.ndjson")
    return page


def at_the_end(page: Page) -> None:
    page.wait_for_function(f"({END})() < 2")


def test_a_seek_in_3000_events_takes_less_than_50_ms(harness, visit):
    """Half of them here, on a machine that does other things; nine in ten are measured by `python -m benchmarks page`."""
    page = opened(harness, visit)
    page.wait_for_timeout(1000)
    found = page.evaluate(SEEK, {"seeks": SEEKS[:40], "pause": 100})
    assert sorted(found["layout"])[len(found["layout"]) // 2] < MOST_SEEK_MS, found


@pytest.mark.parametrize("width", [1280, 390])
def test_the_list_ends_with_the_step_the_slider_came_to(harness, visit, width):
    page = opened(harness, visit, width)
    at_the_end(page)
    for place in (90, 3, 60, 59, 120, 0, 118):
        page.locator(SLIDER).fill(str(place))
        expect(page.locator(".kvr-card")).to_have_count(place)
        at_the_end(page)
        if place:
            expect(page.locator(".kvr-card").last).to_contain_text(f"Step {place}")
            card, listed = page.locator(".kvr-card").last.bounding_box(), page.locator(".kvr-list").bounding_box()
            assert listed["y"] <= card["y"] and card["y"] + card["height"] <= listed["y"] + listed["height"]


@pytest.mark.parametrize("width", [1280, 390])
def test_playing_follows_the_newest_step(harness, visit, width):
    page = opened(harness, visit, width)
    page.locator(SLIDER).fill("40")
    page.select_option(".kvr-run .kvr-speed", "8")
    page.click(".kvr-run .kvr-play")
    for least in (44, 48):
        page.wait_for_function(f"document.querySelectorAll('.kvr-run .kvr-card').length > {least}")
        at_the_end(page)
    expect(page.locator(".kvr-run .kvr-play")).to_have_text("Pause")


def test_a_live_run_is_followed_until_the_reader_scrolls_up(harness, visit):
    page = viewer(harness, visit)
    page.evaluate("""() => {
      window.parts = window.lines(window.synthetic({ steps: 60, run: "live", close: null })).split("\\n");
      window.feed = (share) => window.view.update(window.parts.slice(0, Math.floor(window.parts.length * share)).join("\\n") + "\\n");
    }""")
    for share in (0.3, 0.6, 0.7):
        page.evaluate(f"window.feed({share})")
        at_the_end(page)
    pill, listed = page.get_by_role("button", name="new steps"), page.locator(".kvr-list")
    expect(pill).to_be_hidden()
    listed.evaluate("(list) => (list.scrollTop = 200)")
    page.wait_for_timeout(100)
    page.evaluate("window.feed(0.9)")
    expect(pill).to_be_visible()
    page.wait_for_timeout(100)
    assert page.evaluate(END) > 500
    pill.click()
    at_the_end(page)
    expect(pill).to_be_hidden()
    page.evaluate("window.feed(1)")
    at_the_end(page)


def test_what_a_reader_opened_is_there_when_the_slider_comes_back(harness, visit):
    page = opened(harness, visit)
    opener = page.locator(".kvr-list > li").nth(100).locator(".kvr-expand")
    opener.click()
    page.locator(SLIDER).fill("50")
    expect(page.locator(".kvr-card")).to_have_count(50)
    page.locator(SLIDER).fill("110")
    expect(opener).to_have_attribute("aria-expanded", "true")


def test_other_limits_stay_while_the_slider_moves(served, visit):
    page = visit(served[1], recorded=True)
    page.wait_for_selector(".kvr-end")
    page.locator(".kvr-whatif summary").click()
    limit = page.locator(".kvr-whatif").get_by_label("entropy limit")
    limit.fill("0.05")
    page.locator(SLIDER).fill("5")
    page.locator(SLIDER).fill("3")
    expect(limit).to_have_value("0.05")
    page.evaluate("window.kvrescue.recorded('lab-rescue')")
    expect(limit).not_to_have_value("0.05")


def test_a_chosen_step_far_away_is_scrolled_to_and_given_up_when_the_slider_goes_back(harness, visit):
    page = opened(harness, visit)
    page.evaluate("document.querySelectorAll('.kvr-step-title')[30].click()")
    chosen = page.locator("li.kvr-selected")
    expect(chosen).to_have_count(1)
    top = "(node) => node.getBoundingClientRect().top - node.parentElement.getBoundingClientRect().top"
    page.wait_for_timeout(300)
    assert abs(chosen.evaluate(top)) < 12
    page.locator(SLIDER).fill("110")
    expect(chosen).to_have_count(0)
    assert page.locator(".kvr-list > [aria-current]").count() == 0
    at_the_end(page)


def test_what_was_decided_behind_the_place_is_not_shown(served, visit):
    page = visit(served[1], recorded=True)
    page.wait_for_selector(".kvr-end")
    page.evaluate("window.kvrescue.recorded('lab-reco')")
    expect(page.locator(".kvr-run .kvr-replay-what")).to_contain_text("example:lab-reco")
    notes, answer, slider = page.locator(".kvr-run .kvr-control"), page.locator(".kvr-run .kvr-answer-mark"), page.locator(SLIDER)
    cards, decided = page.locator(".kvr-run .kvr-card").count(), notes.count()
    expect(answer).to_have_count(1)
    slider.focus()
    page.keyboard.press("Shift+ArrowLeft")  # between the last step and the answer
    expect(page.locator(".kvr-run .kvr-card")).to_have_count(cards)
    expect(answer).to_have_count(0)
    page.keyboard.press("End")
    expect(answer).to_have_count(1)
    assert notes.count() == decided > 0
    first = page.locator(".kvr-run .kvr-list > li").evaluate_all("(all) => all.findIndex((one) => one.querySelector('.kvr-control'))")
    slider.fill(str(first + 1))
    expect(notes).to_have_count(1)
    page.keyboard.press("Shift+ArrowLeft")  # committed, not yet decided on
    expect(page.locator(".kvr-run .kvr-card")).to_have_count(first + 1)
    expect(notes).to_have_count(0)
    page.keyboard.press("End")
    expect(notes).to_have_count(decided)


def test_charts_show_the_place_in_the_end(harness, visit):
    page = opened(harness, visit)
    committed = "() => Math.max(...document.querySelector('.kvr-plot').data.flatMap((one) => [...one.x]))"
    for place in (30, 100, 12):
        page.locator(SLIDER).fill(str(place))
        page.wait_for_function(f"({committed})() === {place}")
    labels = page.locator(".kvr-plot").evaluate_all("(all) => all.map((one) => one.getAttribute('aria-label'))")
    assert len(labels) == 4 and all("." in label for label in labels)
