"""The whole page in the language of the browser, or in the one that the address asks for."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

WORDS = {
    "en": {
        "run": "Run",
        "budget": "KV budget (tokens)",
        "advanced": "Advanced settings",
        "ready": "ready on",
        "claim": "A language model",
        "method": "Helper alone",
        "empty": "The problem is empty; type a question to solve.",
        "error": "Error",
        "line": "finished after",
        "end": "It ended",
    },
    "ko": {
        "run": "실행",
        "budget": "KV 예산 (토큰)",
        "advanced": "고급 설정",
        "ready": "준비됨",
        "claim": "언어 모델은",
        "method": "도우미 혼자",
        "empty": "문제가 비어 있습니다. 풀 문제를 입력하십시오.",
        "error": "오류",
        "line": "끝났습니다",
        "end": "끝났습니다",
    },
}


def speaks(page: Page, language: str) -> None:
    """Labels, choices, accordions, errors, the status line and the viewer."""
    said = WORDS[language]
    expect(page.locator("html")).to_have_attribute("lang", language)
    expect(page.get_by_role("button", name=said["run"], exact=True)).to_be_visible()
    expect(page.get_by_label(said["budget"]).first).to_be_visible()
    expect(page.get_by_role("button", name=said["advanced"])).to_be_visible()
    expect(page.locator("#kvr-models")).to_contain_text(said["ready"])
    expect(page.locator("#kvr-title")).to_contain_text(said["claim"])
    expect(page.locator("#kvr-method")).to_contain_text(said["method"])
    page.fill("#kvr-problem textarea", "")
    page.click("#kvr-run")
    expect(page.get_by_text(said["empty"]).first).to_be_visible()
    expect(page.get_by_role("button", name=said["error"]).first).to_be_visible()
    page.fill("#kvr-problem textarea", "How many words?")
    page.click("#kvr-run")
    expect(page.locator(".kvr-run .kvr-end")).to_be_visible(timeout=20_000)
    expect(page.locator("#kvr-status-line")).to_contain_text(said["line"])
    expect(page.locator(".kvr-run .kvr-end")).to_contain_text(said["end"])


@pytest.mark.parametrize(
    ("browser_says", "asked", "language"), [("ko-KR", "", "ko"), ("en-US", "ko", "ko"), ("ko-KR", "en", "en"), ("en-US", "fr", "en")]
)
def test_the_page_speaks_as_the_address_asks_and_else_as_the_browser(served, browser, browser_says, asked, language):
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale=browser_says)
    page = context.new_page()
    page.goto(f"{served[1]}?trace=none" + (f"&lang={asked}" if asked else ""))
    speaks(page, language)
    context.close()


def test_a_link_switches_the_language_and_keeps_the_rest_of_the_address(served, visit):
    page = visit(served[1], recorded=True)
    page.goto(f"{served[1]}?trace=lab-easy&step=2")
    links = page.locator("#kvr-language a")
    expect(links).to_have_text("한국어")
    links.click()
    expect(page.locator(".kvr-run .kvr-replay-what")).to_contain_text("녹화된 실행")
    expect(page.locator(".kvr-run .kvr-place")).to_contain_text("2단계")
    expect(page.locator("#kvr-language [aria-current]")).to_have_text("한국어")
    links.click()
    expect(page.locator(".kvr-run .kvr-place")).to_contain_text("step 2 of")
    assert "trace=lab-easy" in page.url and page.url.count("lang=") == 1
