"""What leaves the project's folder for the web."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from kvrescue import export
from kvrescue.cli import main

ROOT = Path(__file__).resolve().parents[1]


def test_a_site_holds_the_viewer_and_every_recording(tmp_path, capsys):
    assert main(["export-static", str(tmp_path / "site")]) == 0
    assert "7 recordings" in capsys.readouterr().out
    index = json.loads((tmp_path / "site" / "traces" / "index.json").read_text(encoding="utf-8"))
    for entry in index:
        for file in [entry["file"], *([entry["compare"]["file"]] if "compare" in entry else [])]:
            assert (tmp_path / "site" / "traces" / file).is_file()
    page = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    assert "http://" not in page and "https://" not in page and "default-src 'self'" in page
    assert (tmp_path / "site" / "README.md").read_text(encoding="utf-8").startswith("---\ntitle:")


@pytest.mark.parametrize("command", ["export-static", "export-space"])
def test_a_folder_that_holds_something_is_left_alone(tmp_path, capsys, command):
    (tmp_path / "mine.txt").write_text("mine")
    assert main([command, str(tmp_path)]) == 2
    assert "not empty" in capsys.readouterr().err and [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_space_starts_from_its_own_files(tmp_path):
    out = tmp_path / "space"
    assert export.export_space(out) > 1_000_000
    assert (out / "requirements.txt").read_text() == (ROOT / "requirements-space.txt").read_text()
    assert not list(out.rglob("__pycache__")) and not (out / "tests").exists()
    environment = {**os.environ, "GRADIO_SERVER_PORT": "7893", "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    app = subprocess.Popen([sys.executable, "app.py"], cwd=out, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline, told = time.monotonic() + 90, {}
        while told.get("models", {}).get("lab") != "ready":
            assert time.monotonic() < deadline and app.poll() is None, told
            time.sleep(0.5)
            try:
                with urllib.request.urlopen("http://127.0.0.1:7893/kvrescue/health", timeout=2) as answer:
                    told = json.load(answer)
            except OSError:
                continue
    finally:
        app.kill()
        app.wait()
