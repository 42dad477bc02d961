"""A benchmark's page per problem, opened from disk."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from kvrescue.cli import main


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    out = tmp_path_factory.mktemp("bench") / "out"
    grid = ["--methods", "full,evicted,evicted-stepwise,kv-rescue", "--budgets", "64", "--n", "1", "--problems", "lab:1:easy", "--seed", "5"]
    assert main(["bench", "--models", "lab", *grid, "--workers", "1", "--out", str(out)]) == 0
    return out


@pytest.mark.parametrize("width", [1280, 390])
def test_the_runs_of_a_problem_are_compared_from_disk(results, visit, width):
    (file,) = (results / "problems").glob("*.html")
    page = visit(file.as_uri(), home=results.as_uri(), width=width, ready=".kvr-compare")
    lanes = page.locator(".kvr-compare-grid > *")
    expect(lanes).to_have_count(3)
    expect(page.locator(".kvr-compare .kvr-replay-what")).to_contain_text("python -m kvrescue bench --models lab --methods full,evicted")
    expect(page.locator(".kvr-compare table").first).to_contain_text("right")
    stepwise = page.locator("section.lane").filter(has_text="evicted-stepwise").get_by_label("in the viewer")
    stepwise.check()
    page.get_by_role("button", name="Show the ticked runs").click()
    expect(lanes).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for box in page.get_by_label("in the viewer").all()[1:]:
        box.uncheck()
    page.get_by_role("button", name="Show the ticked runs").click()
    expect(page.locator(".kvr-run")).to_be_visible()
    if width == 390:  # on a phone the signals are folded away at first
        page.locator(".kvr-fold").click()
    expect(page.locator(".kvr-run .js-plotly-plot").first).to_be_visible()
