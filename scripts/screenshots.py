#!/usr/bin/env python3
"""Take the README's pictures: start the page on the default models, run its first example, photograph it in both themes.

    python -m scripts.screenshots [--out assets/images]

Needs Chromium and the development requirements. Nothing in the pictures is staged: it is a run of the moment.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from kvrescue.backend import ModelBackend
from kvrescue.presets import offered
from kvrescue.ui.page import build_page, launch_options

SECONDS = 300


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1] / "assets" / "images")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    backend = ModelBackend()
    page = build_page(backend, *(ModelBackend(name) for name in offered() if name != backend.model_set))
    backend.start()
    _, url, _ = page.launch(prevent_thread_lock=True, quiet=True, **launch_options(page))
    while not backend.status().ready:
        if backend.status().error:
            raise SystemExit(backend.status().error)
        time.sleep(0.5)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        run_once(browser, url, out)
        browser.close()
    page.close()


def run_once(browser: Browser, url: str, out: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    page.goto(f"{url}?__theme=light")
    page.wait_for_selector(".kvr-header")
    page.click("#kvr-run")
    page.wait_for_selector(".kvr-card >> nth=3", timeout=1000 * SECONDS)
    page.wait_for_selector(".kvr-lane", timeout=1000 * SECONDS)
    photograph(page, out / "page-live.png")
    page.wait_for_selector(".kvr-end:not([hidden])", timeout=1000 * SECONDS)
    page.click(".kvr-expand >> nth=0")
    page.wait_for_timeout(1500)
    photograph(page, out / "page-light.png")
    page.evaluate("document.body.classList.add('dark')")
    page.wait_for_timeout(1500)
    photograph(page, out / "page-dark.png")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(1500)
    photograph(page, out / "page-phone.png")


def photograph(page: Page, path: Path) -> None:
    page.screenshot(path=path, full_page=True)
    print(path)


if __name__ == "__main__":
    main()
