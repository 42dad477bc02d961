"""One Chromium and one served page (on a scripted engine) for all browser tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from kvrescue.ui.page import build_page, launch_options
from tests.ui.fake_backend import FakeBackend


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
    assert path, "the browser tests need Chromium: apt-get install chromium"
    arguments = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-sync"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def served() -> Iterator[tuple[FakeBackend, str]]:
    backend = FakeBackend()
    page = build_page(backend, FakeBackend("lab"))
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, **launch_options(page))
    yield backend, url
    page.close()


Open = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Open]:
    """Open a page; the test fails on any console error, page error or request to another host."""
    contexts, wrong = [], []

    def open_page(
        url: str, *, width: int = 1280, height: int = 900, theme: str = "light", recorded: bool = False, home: str = "", ready: str = ".kvr-header"
    ) -> Page:
        """``recorded``: with the recorded run that greets a visitor; most tests begin with an empty viewer. ``home``: where its files may lie."""
        context = browser.new_context(viewport={"width": width, "height": height}, accept_downloads=True)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}") if message.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(f"page error: {error}"))
        page.on("request", lambda request: wrong.append(f"foreign: {request.url}") if not local(request.url, home or url) else None)
        page.goto(f"{url}?__theme={theme}" + ("" if recorded else "&trace=none"))
        page.wait_for_selector(ready)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong, wrong


def local(url: str, home: str) -> bool:
    return url.startswith((home, "data:", "blob:"))
