"""The container without Docker: the check reads the Dockerfile itself, does what it says as a plain user, and fails when a step fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.dockerfile_check import argv, healthcheck, instructions

ROOT = Path(__file__).resolve().parents[1]
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="makes and becomes a user as Linux does")
SMALL = r"""# a comment
FROM somewhere
RUN apt-get update \
    && useradd user
USER 1000
WORKDIR /home/user/app
ENV PATH=/home/user/tools:$PATH \
    GREETING="good day"
COPY --chown=user app.py ./
COPY --chown=user parts ./parts
RUN mkdir /home/user/tools && echo "$GREETING" > greeting && id -un > who && touch parts/mine
EXPOSE 7860
HEALTHCHECK --interval=3s --timeout=2s --start-period=10s \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7860/greeting', timeout=1)"]
CMD ["python3", "app.py"]
"""
APP = """
import functools, http.server, os
where = os.getcwd()
assert os.environ["PATH"].startswith(os.environ["HOME"] + "/tools:"), os.environ["PATH"]
assert open("greeting").read() == "good day\\n" and sorted(os.listdir("parts")) == ["a.txt", "mine"]
assert open("who").read().strip() != "root", "not as root"
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=where)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("GRADIO_SERVER_PORT", 7860))), handler).serve_forever()
"""


def test_every_instruction_of_ours_is_known():
    found = instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert (found[0][0], found[-1][0]) == ("FROM", "CMD")
    assert {name for name, _ in found} == {"FROM", "RUN", "USER", "WORKDIR", "ENV", "COPY", "EXPOSE", "HEALTHCHECK", "CMD"}
    command, times = healthcheck(next(rest for name, rest in found if name == "HEALTHCHECK"))
    assert argv(command)[:2] == ["python", "-c"] and "/kvrescue/health" in command
    assert times == {"interval": 30.0, "timeout": 5.0, "start-period": 60.0}


def checked(folder: Path, dockerfile: str, app: str = APP) -> subprocess.CompletedProcess[str]:
    (folder / "parts" / "__pycache__").mkdir(parents=True)
    (folder / "parts" / "a.txt").write_text("a")
    (folder / ".dockerignore").write_text(".git\n**/__pycache__\n")
    (folder / "app.py").write_text(app)
    (folder / "Dockerfile").write_text(dockerfile)
    command = [sys.executable, ROOT / "scripts" / "dockerfile_check.py", folder / "Dockerfile"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PIP_NO_INPUT": "1"})


@linux_only
def test_the_steps_of_a_dockerfile_are_done_by_a_plain_user(tmp_path):
    done = checked(tmp_path, SMALL)
    assert done.returncode == 0 and "every step worked" in done.stdout, done.stdout + done.stderr
    assert "left out, prepares the image as root: RUN apt-get" in done.stdout
    assert not list(tmp_path.glob("greeting")), "the folder with the Dockerfile is only read"
    import pwd

    assert not [one.pw_name for one in pwd.getpwall() if one.pw_name.startswith("kvrescue-")], "its user is gone again"


@linux_only
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("mkdir /home/user/tools &&", "false &&"), "FAILED: RUN false"),
        (('CMD ["python3", "app.py"]', 'CMD ["python3", "-c", "raise SystemExit(3)"]'), "CMD ended with 3"),
        (("/greeting'", "/missing'"), "HEALTHCHECK never succeeded"),
        (("EXPOSE 7860", "VOLUME /data"), "VOLUME is not known"),
    ],
)
def test_a_step_that_fails_is_named(tmp_path, change, why):
    done = checked(tmp_path, SMALL.replace("start-period=10s", "start-period=1s").replace("interval=3s", "interval=1s").replace(*change))
    assert done.returncode == 1 and why in done.stdout + done.stderr, done.stdout + done.stderr
