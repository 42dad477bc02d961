"""The real page, the real engine, the real SmolLM2, in a real browser."""

from __future__ import annotations

import time

import pytest
from playwright.sync_api import expect

from kvrescue.backend import ModelBackend
from kvrescue.trace import read_trace
from kvrescue.ui.page import build_page, launch_options


@pytest.fixture(scope="module")
def real(smollm2):
    """The page on its own backend; ``smollm2`` has made sure that the weights are in the cache."""
    backend = ModelBackend("smollm2")
    page = build_page(backend)
    backend.start()
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, **launch_options())
    yield url
    page.close()


def test_kv_rescue_on_smollm2_from_click_to_trace(real, visit, tmp_path):
    page = visit(real)
    expect(page.locator("#kvr-models")).to_contain_text("ready on", timeout=60_000)
    expect(page.locator("#kvr-models")).to_contain_text("same weights")
    expect(page.locator("#kvr-problem textarea")).not_to_be_empty()
    page.click("#kvr-advanced button")
    for field, value in (("budget", "40"), ("n", "1"), ("max_tokens", "48"), ("buffer", "16"), ("max_step_tokens", "24")):
        page.fill(f"#kvr-{field} input[type=number]", value)
        page.keyboard.press("Tab")
    expect(page.locator("#kvr-changed")).to_contain_text("max_step_tokens 24")
    page.click("#kvr-run")
    began = time.monotonic()
    expect(page.locator(".kvr-lane")).not_to_have_count(0, timeout=30_000)
    first = time.monotonic() - began
    expect(page.locator(".kvr-end")).to_be_visible(timeout=90_000)
    expect(page.locator(".kvr-card").first).to_contain_text("reward")
    expect(page.locator(".kvr-memory")).to_contain_text("each layer and head holds")
    assert page.locator(".kvr-shade-0, .kvr-shade-1").count() > 20, "most of the prompt does not fit into 40 tokens"
    with page.expect_download() as download:
        page.click("#kvr-download")
    download.value.save_as(tmp_path / "trace.ndjson")
    stream = read_trace(tmp_path / "trace.ndjson")
    assert stream[0].models["base"].id == "SmolLM2-135M-Instruct" and stream[0].same_weights
    prefill = next(event.t_ms for event in stream if event.type == "kv") / 1000
    assert first < prefill + 10, "the page must follow the engine"
    assert {event.resident <= 56 for event in stream if event.type == "kv"} == {True}
    assert stream[-1].evictions > 0 and stream[-1].peak_resident == 56
