"""axe-core over our own markup, reflow at 200 %, forced colours, and the sentences that a screen reader hears."""

from __future__ import annotations

import itertools
import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
PAGE_LEVEL = {"region", "page-has-heading-one", "landmark-one-main", "heading-order", "landmark-complementary-is-top-level"}
"""Rules about a whole page: the viewer is a part of one."""


def violations(page: Page) -> list[str]:
    found = Axe().run(page, context={"include": [[".kvr"]]}, options=RULES).response["violations"]
    return [f"{one['id']}: {node['target']} {node['failureSummary']}" for one in found if one["id"] not in PAGE_LEVEL for node in one["nodes"]]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_in_a_run_a_comparison_and_a_lesson(served, visit, width, theme):
    page = visit(served[1], recorded=True, width=width, theme=theme)
    expect(page.locator(".kvr-run .kvr-end")).to_be_visible()
    if width < 700:
        page.get_by_role("button", name="Signals and memory").click()
    expect(page.locator(".kvr-plot .main-svg").first).to_be_visible()
    page.locator(".kvr-run .kvr-share summary").click()
    page.locator(".kvr-card .kvr-expand").nth(9).click()
    assert not violations(page)
    page.get_by_role("button", name="Compare methods").click()
    expect(page.locator(".kvr-verdicts")).to_be_visible()
    assert not violations(page)
    page.get_by_role("button", name="Learn in seven cards").click()
    expect(page.locator(".kvr-lessons")).to_contain_text("Card 1 of 7")
    page.locator(".kvr-lessons .kvr-options button").first.click()
    assert not violations(page)


HEADINGS = "[...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].filter((one) => one.checkVisibility()).map((one) => Number(one.tagName[1]))"


def test_headings_skip_no_level(served, visit):
    page = visit(served[1], recorded=True)
    expect(page.locator(".kvr-run .kvr-end")).to_be_visible()
    for name in (None, "Compare methods", "Learn in seven cards"):
        if name:
            page.get_by_role("button", name=name).click()
            expect(page.locator(".kvr-verdicts" if name.startswith("Compare") else ".kvr-lessons")).to_be_visible()
        levels = page.evaluate(HEADINGS)
        assert levels[0] == 1 and levels.count(1) == 1 and len(levels) > 5
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels)), levels


def test_the_page_reflows_at_200_percent(served, visit):
    # A window of 1280 pixels at 200 % has 640 of the page's own.
    page = visit(served[1], recorded=True, width=640, height=450)
    expect(page.locator(".kvr-run .kvr-end")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 640
    page.get_by_role("button", name="Compare methods").click()
    expect(page.locator(".kvr-verdicts")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 640


def test_forced_colours_keep_borders_and_words(served, visit):
    page = visit(served[1], recorded=True)
    page.emulate_media(forced_colors="active", reduced_motion="reduce")
    expect(page.locator(".kvr-run .kvr-end")).to_be_visible()
    style = page.locator(".kvr-card.kvr-from-helper").first.evaluate("node => getComputedStyle(node).borderLeftStyle")
    assert style == "double"
    expect(page.locator(".kvr-card.kvr-from-helper .kvr-badge").first).to_contain_text("helper")
    moving = page.evaluate("document.querySelector('.kvr').getAnimations({subtree: true}).filter((one) => one.playState === 'running').length")
    assert moving == 0


def test_a_screen_reader_hears_steps_as_sentences(served, visit):
    page = visit(served[1], recorded=True)
    expect(page.locator(".kvr-run .kvr-end")).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile(r"^Step 2\s?, helper, reward 0\.99, committed$"))).to_be_attached()
    expect(page.get_by_role("slider", name="Step of the run")).to_have_attribute("aria-valuetext", "step 16 of 16")
    assert "aria-live" not in (page.locator(".kvr-run .kvr-list").evaluate("node => node.outerHTML.slice(0, 400)"))
