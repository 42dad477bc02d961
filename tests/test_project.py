"""Promises of the project as a whole that a text search can check."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kvrescue.export import VIEWER_PARTS

ROOT = Path(__file__).resolve().parents[1]
HADOLINT = Path(sys.executable).with_name("hadolint")
CODE = [ROOT / "app.py", ROOT / "start.py", *ROOT.glob("kvrescue/**/*.py")]
VIEWER = [path for part in VIEWER_PARTS for path in (ROOT / "assets" / part).iterdir()]


def test_no_remote_code_and_no_pickle():
    for path in CODE:
        text = path.read_text(encoding="utf-8")
        assert "trust_remote_code=True" not in text, path
        assert not re.search(r"import pickle|torch\.load\(|eval\(|exec\(|shell=True", text.replace(".eval(", "")), path


def test_the_viewer_names_no_host_and_writes_no_markup():
    assert len(VIEWER) > 8
    for path in VIEWER:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")  # the name of SVG, not an address
        assert not re.search(r"https?://|//cdn|@import|innerHTML|insertAdjacentHTML|document\.write|outerHTML", text), path


def test_the_entry_is_small():
    assert len((ROOT / "app.py").read_text(encoding="utf-8").splitlines()) < 40


def test_the_readme_has_two_setup_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    setup = readme.split("## Two commands")[1].split("## ")[0]
    assert re.findall(r"^python3 start\.py (\w+)", setup, re.M) == ["app", "test"]
    assert "python3 start.py test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_pictures_in_the_readme_exist():
    for target in re.findall(r"\]\((assets/[^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert (ROOT / target).is_file(), target


def test_every_requirement_has_a_range_and_a_reason():
    for name in ("requirements.txt", "requirements-dev.txt", "requirements-space.txt"):
        for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
            if line and not line.startswith(("#", "-r")):
                assert re.match(r"[\w-]+(\[[\w-]+\])?>=[\d.]+,<=?[\d.]+", line), line


@pytest.mark.skipif(not HADOLINT.exists(), reason="hadolint has wheels for Linux on x86-64 only")
def test_the_dockerfile_is_linted():
    done = subprocess.run([HADOLINT, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stdout.strip(), done.stdout


def test_the_container_copies_all_that_the_app_needs():
    copied = re.findall(r"^COPY --chown=user (\S+)", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.M)
    assert set(copied) == {"requirements.txt", "app.py", "kvrescue", "assets", "examples"}
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert not set(copied) & set(ignored)
