"""The real page, the real engine, the lab's real models, in a real browser."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import expect

from kvrescue.backend import ModelBackend
from kvrescue.lab.grade import grade_steps, read_story
from kvrescue.trace import read_trace
from kvrescue.ui.page import build_page, launch_options


@pytest.fixture(scope="module")
def real():
    backend = ModelBackend("lab")
    page = build_page(backend)
    backend.start()
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, **launch_options(page))
    yield url
    page.close()


def test_the_first_click_shows_a_rescue_and_gives_its_trace(real, visit, tmp_path):
    page = visit(real)
    expect(page.locator("#kvr-models")).to_contain_text("ready on", timeout=60_000)
    expect(page.locator("#kvr-problem textarea")).not_to_be_empty()
    page.click("#kvr-run")
    began = time.monotonic()
    expect(page.locator(".kvr-card").first).to_be_visible(timeout=20_000)
    first = time.monotonic() - began
    expect(page.locator(".kvr-end")).to_be_visible(timeout=60_000)
    expect(page.locator(".kvr-card").first).to_contain_text("reward")
    expect(page.locator(".kvr-memory")).to_contain_text("each layer and head holds")
    assert page.locator(".kvr-shade-0, .kvr-shade-1").count() > 20, "most of the story does not fit into the budget"
    with page.expect_download() as download:
        page.click("#kvr-download")
    download.value.save_as(tmp_path / "trace.ndjson")
    stream = read_trace(tmp_path / "trace.ndjson")
    header, end = stream[0], stream[-1]
    assert {name: info.id for name, info in header.models.items()} == {"base": "lab-base", "helper": "lab-helper", "prm": "lab-prm"}
    assert first < 10, "the page must follow the engine"
    limit = header.config["budget"] + header.config["buffer"]
    assert all(event.resident <= limit for event in stream if event.type == "kv") and end.evictions > 0
    told = read_story(header.problem)
    assert end.answer == str(told.answer), "the first example is one that is rescued"
    commits = [event for event in stream if event.type == "commit"]
    assert all(grade.right for grade in grade_steps(told, [event.text for event in commits]))
    assert {event.source for event in commits} == {"base", "helper"}, "two parts that fail alone succeed together"


def test_the_same_base_alone_fails_on_that_story(real, visit):
    page = visit(real)
    expect(page.locator("#kvr-models")).to_contain_text("ready on", timeout=60_000)
    story = page.locator("#kvr-problem textarea").input_value()
    page.locator("#kvr-method").get_by_text("Evicted", exact=True).click()
    page.click("#kvr-run")
    expect(page.locator(".kvr-end")).to_be_visible(timeout=60_000)
    answer = page.locator(".kvr-end .kvr-answer").inner_text()
    assert f"wrong, it is {read_story(story).answer}" in answer


def test_reco_shows_its_decisions(real, visit):
    page = visit(real)
    expect(page.locator("#kvr-models")).to_contain_text("ready on", timeout=60_000)
    page.click("#kvr-example input")
    page.get_by_role("option", name="ReCo:").click()
    expect(page.locator("#kvr-changed")).to_contain_text("policy snapkv-decode")
    page.click("#kvr-run")
    expect(page.locator(".kvr-end")).to_be_visible(timeout=60_000)
    expect(page.locator(".kvr-control").first).to_contain_text("memory: asked to keep")
    expect(page.locator(".kvr-probe").first).to_contain_text("asked for an answer")
    expect(page.locator(".kvr-facts")).to_contain_text("suppressible: Hmm, Wait")
