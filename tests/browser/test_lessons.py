"""The seven cards: what they point at is there, in view, and follows their slider."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect


def lesson(page: Page, url: str, card: int, answer: bool = True) -> None:
    page.goto(f"{url}?card={card}")
    expect(page.locator(".kvr-lessons")).to_contain_text(f"Card {card} of 7")
    expect(page.locator(".kvr-spot")).to_be_visible()
    if answer:
        page.locator(".kvr-lessons .kvr-options button").first.click()


@pytest.mark.parametrize("card", [2, 5])
def test_memory_and_steps_follow_a_cards_slider_after_its_answer(served, visit, card):
    page = visit(served[1], recorded=True)
    lesson(page, served[1], card)
    slider = page.get_by_label("Move through the run of this card")
    memory = page.locator(".kvr-run .kvr-memory > .kvr-note").first
    for at in (int(slider.input_value()) + 1, 12, 2):
        slider.fill(str(at))
        expect(memory).to_contain_text(f"Memory after step {at}:")
        expect(page.locator(".kvr-run .kvr-step-title").last).to_have_text(f"Step {at}")
        expect(page.locator(".kvr-run .kvr-step-title").last).to_be_in_viewport()


def test_the_memory_counts_and_shows_its_newest_part_until_the_reader_scrolls(served, visit):
    page = visit(served[1], recorded=True, height=600)
    lesson(page, served[1], 1)
    slider = page.get_by_label("Move through the run of this card")
    text = page.locator(".kvr-run .kvr-memory-text")
    counts = []
    for at in ("4", "12", "19"):
        slider.fill(at)
        expect(text.locator(".kvr-boundary").last).to_have_text(at)
        expect(text.locator(".kvr-boundary").last).to_be_in_viewport()
        counts.append(page.locator(".kvr-run .kvr-memory > .kvr-note").first.inner_text())
    assert len(set(counts)) == 3
    text.hover()
    page.mouse.wheel(0, -2000)
    page.wait_for_function("document.querySelector('.kvr-run .kvr-memory-text').scrollTop === 0")
    slider.fill("15")
    slider.fill("19")
    expect(text.locator(".kvr-boundary").last).to_have_text("19")
    assert text.evaluate("node => node.scrollTop") == 0


@pytest.mark.parametrize("card", [4, 6, 7])
def test_a_card_about_steps_shows_the_whole_problem_and_nothing_jumps(served, visit, card):
    page = visit(served[1], recorded=True, height=800)
    lesson(page, served[1], card)
    problem, steps = page.locator(".kvr-run .kvr-problem"), page.locator(".kvr-run .kvr-steps")
    assert problem.evaluate("node => node.scrollHeight <= node.clientHeight")
    expect(problem).to_be_in_viewport(ratio=1)
    boxes = []
    for at in ("3", "8", "0", "16"):
        page.get_by_label("Move through the run of this card").fill(at)
        boxes.append(steps.bounding_box())
    assert all(box == boxes[0] for box in boxes), boxes
    assert boxes[0]["y"] > 0 and boxes[0]["y"] + boxes[0]["height"] <= 800


@pytest.mark.parametrize("width, height, most", [(1280, 800, 1.0), (900, 700, 0.55), (390, 844, 0.55)])
def test_every_card_fits_with_what_it_points_at(served, visit, width, height, most):
    page = visit(served[1], recorded=True, width=width, height=height)
    for card in range(1, 8):
        lesson(page, served[1], card)
        box = page.locator(".kvr-lessons")
        assert box.evaluate("node => node.scrollHeight <= node.clientHeight + 1"), f"card {card} is read without scrolling"
        card_box, spot = box.bounding_box(), page.locator(".kvr-spot").bounding_box()
        assert card_box["height"] <= most * height
        free = card_box["y"] if width < 1100 else height
        assert spot["y"] >= 0 and spot["y"] + spot["height"] <= free, f"card {card}: {spot} above {free}"
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_last_card_ends_with_a_summary_at_the_top_of_the_run(served, visit):
    page = visit(served[1], recorded=True)
    lesson(page, served[1], 7)
    card = page.locator(".kvr-lessons")
    card.get_by_role("button", name="Done").click()
    expect(card).to_contain_text("What you have seen")
    expect(page.locator(".kvr-spot")).to_have_count(0)
    expect(page.locator(".kvr-run .kvr-replay")).to_be_in_viewport()
    expect(page.locator(".kvr-run .kvr-memory")).to_be_visible()
    card.get_by_role("button", name="Back").click()
    expect(card).to_contain_text("Card 7 of 7")
    page.keyboard.press("PageDown")
    card.get_by_role("button", name="Close").last.click()
    expect(card).to_be_hidden()
    expect(page.get_by_role("button", name="Learn in seven cards")).to_be_in_viewport()


def test_legend_and_charts_name_what_is_there(served, visit):
    page = visit(served[1], recorded=True)
    legend = page.locator(".kvr-run .kvr-ramp")
    page.goto(f"{served[1]}?trace=lab-forgets")  # R-KV keeps the newest window, and no sinks
    expect(legend.locator(".kvr-window")).to_be_visible()
    expect(legend.locator(".kvr-sink")).to_be_hidden()
    expect(page.locator(".kvr-run")).to_contain_text("KV retention of the base")
    expect(page.locator(".kvr-run .kvr-charts")).not_to_contain_text("diamonds")
    page.goto(f"{served[1]}?trace=lab-helper")
    expect(page.locator(".kvr-run .kvr-charts")).to_contain_text("KV retention of the helper")
    expect(legend).to_be_hidden()
    page.goto(f"{served[1]}?trace=lab-reco")
    expect(page.locator(".kvr-run .kvr-charts")).to_contain_text("diamonds: share that ReCo asked to keep")
    assert page.locator(".kvr-run .kvr-memory-text .kvr-shade-0").count() > 0, "ReCo evicts without a budget"
    page.get_by_text("Words", exact=True).click()
    expect(page.locator(".kvr-keys").last).to_contain_text("a model has layers")
