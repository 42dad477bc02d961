#!/usr/bin/env python3
"""python3 start.py app [arguments of app.py]   install what is needed and start the page
python3 start.py test                        install what is needed and run all tests

Needs Python 3.10 to 3.12; everything else is put into .venv beside this file, or installed through apt when it is missing and
this may be done (as root or with sudo). Only the standard library is used here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def main(arguments: list[str]) -> int:
    if not (3, 10) <= sys.version_info[:2] <= (3, 12):
        print(f"kvrescue needs Python 3.10 to 3.12; this is {sys.version.split()[0]}", file=sys.stderr)
        return 2
    command, *rest = arguments or [""]
    if command == "app":
        install("requirements.txt")
        return subprocess.call([PYTHON, "app.py", *rest], cwd=ROOT)
    if command == "test":
        install("requirements-dev.txt")
        return test(rest)
    print(__doc__, file=sys.stderr)
    return 0 if command in ("-h", "--help") else 2


def install(requirements: str) -> None:
    """Create .venv and install, unless the very same requirements were installed before."""
    files = sorted({ROOT / "requirements.txt", ROOT / requirements})
    wanted = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    stamp = VENV / f"installed-{requirements}"
    if PYTHON.exists() and stamp.exists() and stamp.read_text() == wanted:
        return
    create_venv()
    print(f"installing {requirements} into .venv (the first time takes some minutes)", flush=True)
    if subprocess.call([PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements], cwd=ROOT):
        sys.exit(f"pip could not install {requirements}; its message is above")
    stamp.write_text(wanted)


def create_venv() -> None:
    if PYTHON.exists():
        if subprocess.call([PYTHON, "-m", "pip", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0:
            return
        shutil.rmtree(VENV)  # an earlier start was interrupted half-way
    try:
        venv.create(VENV, with_pip=True)
    except (subprocess.CalledProcessError, ImportError):
        # Debian ships Python without ensurepip.
        shutil.rmtree(VENV, ignore_errors=True)
        apt(f"python{sys.version_info[0]}.{sys.version_info[1]}-venv", "python3-venv")
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)


def apt(*alternatives: str) -> None:
    """Install the first of these packages that apt knows; a sentence and an exit when it can't be done."""
    sudo = [] if hasattr(os, "geteuid") and os.geteuid() == 0 else ["sudo"]
    if not shutil.which("apt-get") or (sudo and not shutil.which("sudo")):
        sys.exit(f"please install {alternatives[-1]} (apt-get, or sudo for it, is not here)")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*sudo, "apt-get", "update", "-qq"], check=False, env=quiet, stdout=subprocess.DEVNULL)
    for package in alternatives:
        print(f"installing {package} through apt", flush=True)
        if subprocess.run([*sudo, "apt-get", "install", "-y", "-qq", package], env=quiet, stdout=subprocess.DEVNULL).returncode == 0:
            return
    sys.exit(f"apt could not install {alternatives[-1]}; please install it by hand")


def test(rest: list[str]) -> int:
    """Everything a change must pass. All parts run even if one fails; pytest is the last."""
    if not (shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")):
        apt("chromium", "chromium-browser")
    if not shutil.which("node"):
        apt("nodejs")
    parts = {
        "ruff": [PYTHON, "-m", "ruff", "check", "."],
        "mypy": [PYTHON, "-m", "mypy"],
        "node": ["node", "--test", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/web/*.test.mjs"))],
        "pytest": [PYTHON, "-m", "pytest", *rest],
    }
    results = {}
    for name, command in parts.items():
        print(f"== {name}", flush=True)
        results[name] = subprocess.call(command, cwd=ROOT)
    failed = [name for name, code in results.items() if code]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
