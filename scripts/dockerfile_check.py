#!/usr/bin/env python3
"""Prove the Dockerfile without Docker: do what it says in a fresh folder, as a plain user.

    python3 scripts/dockerfile_check.py [DOCKERFILE]

Every ENV, WORKDIR, COPY, RUN, HEALTHCHECK and CMD is read from the file itself; only the home of its user is moved into a new folder. What
prepares the image as root (apt-get, useradd) is named and left out. Then CMD is started, HEALTHCHECK is asked until it succeeds or Docker would
give up, and everything is removed. As root a user is made for this and removed again. pip hears the PIP_* variables that are
set, such as PIP_CONSTRAINT=FILE for a smaller build of torch. Needs Linux and nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

USER = f"kvrescue-{os.getpid()}"
HOME, PORT = "/home/user", "7860"
"""As they stand in the Dockerfile."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
AS_ROOT = ("apt-get", "useradd", "userdel")
RETRIES = 3
"""Failed checks in a row after which Docker calls a container unhealthy."""


def instructions(text: str) -> list[tuple[str, str]]:
    """(instruction, its text) in order, continued lines joined, comments left out."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = [line.strip().partition(" ")[::2] for line in joined.splitlines() if line.strip()]
    return [(name.upper(), rest.strip()) for name, rest in found]


def healthcheck(text: str) -> tuple[str, dict[str, float]]:
    """The command of a HEALTHCHECK, and its times in seconds."""
    options, _, command = text.partition("CMD ")
    times = {name: float(value) for name, value in re.findall(r"--([\w-]+)=([\d.]+)s", options)}
    return command.strip(), {"interval": 30.0, "timeout": 30.0, "start-period": 0.0, **times}


def argv(command: str) -> list[str]:
    """Exec form is JSON, everything else goes through the shell."""
    if command.startswith("["):
        return [str(word) for word in json.loads(command)]
    return ["/bin/sh", "-c", command]


def free_port() -> str:
    for port in (int(PORT), 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return str(probe.getsockname()[1])
    fail("no port is free")


def fail(why: str) -> NoReturn:
    sys.exit(f"dockerfile_check: FAILED: {why}")


def say(text: str) -> None:
    print(f"dockerfile_check: {text}", flush=True)


class Container:
    """A folder and a user that stand in for one."""

    def __init__(self, context: Path, root: Path) -> None:
        self.context, self.home = context, root / HOME.strip("/")
        self.cwd, self.port = self.home, free_port()
        self.env = {"PATH": SYSTEM_PATH, "HOME": str(self.home), **{name: value for name, value in os.environ.items() if name.startswith("PIP_")}}
        self.identity: dict[str, Any] = {}
        self.home.mkdir(parents=True)
        root.chmod(0o755)
        if os.geteuid() == 0:
            subprocess.run(["useradd", "--no-create-home", "--home-dir", str(self.home), "--user-group", USER], check=True)
            self.identity = {"user": USER, "group": USER, "extra_groups": []}
            self._own(self.home)
        if self.port != PORT:
            say(f"port {PORT} is taken here; {self.port} stands in for it")
            self.env["GRADIO_SERVER_PORT"] = self.port

    def remove(self) -> None:
        if self.identity:
            subprocess.run(["userdel", USER], check=False, stderr=subprocess.DEVNULL)

    def told(self, text: str) -> str:
        """The Dockerfile's paths and port as they are here."""
        return text.replace(HOME, str(self.home)).replace(PORT, self.port)

    def start(self, command: str) -> subprocess.Popen[bytes]:
        """In a process group of its own."""
        return subprocess.Popen(argv(self.told(command)), cwd=self.cwd, env=self.env, start_new_session=True, **self.identity)

    def workdir(self, text: str) -> None:
        self.cwd = Path(self.told(text))
        self.cwd.mkdir(parents=True, exist_ok=True)
        self._own(self.cwd)

    def set_env(self, text: str) -> None:
        for pair in shlex.split(self.told(text)):
            name, _, value = pair.partition("=")
            self.env[name] = re.sub(r"\$\{?(\w+)\}?", lambda found: self.env.get(found[1], ""), value)

    def copy(self, text: str) -> None:
        """As COPY does: a folder's contents, without what .dockerignore names by ``**/``."""
        *sources, target = (word for word in self.told(text).split() if not word.startswith("--"))
        ignore = shutil.ignore_patterns(*_ignored_anywhere(self.context))
        for source in sources:
            where, to = self.context / source, self.cwd / target
            if where.is_dir():
                shutil.copytree(where, to, dirs_exist_ok=True, ignore=ignore)
            else:
                to = to / where.name if target.endswith("/") else to
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(where, to)
            self._own(to)

    def _own(self, path: Path) -> None:
        if self.identity:
            for one in (path, *path.rglob("*")):
                shutil.chown(one, USER, USER)


def _ignored_anywhere(context: Path) -> list[str]:
    file = context / ".dockerignore"
    lines = file.read_text(encoding="utf-8").split() if file.is_file() else []
    return [line.removeprefix("**/") for line in lines if line.startswith("**/")]


def healthy(container: Container, app: subprocess.Popen[bytes], check: str) -> float:
    """Seconds until the check succeeds; fails when Docker would have called the container unhealthy by then, or the app has ended."""
    command, times = healthcheck(check)
    began = time.monotonic()
    while time.monotonic() - began < times["start-period"] + RETRIES * times["interval"]:
        if app.poll() is not None:
            fail(f"CMD ended with {app.returncode} before it was healthy")
        asked = container.start(command)
        try:
            if asked.wait(times["timeout"]) == 0:
                return time.monotonic() - began
        except subprocess.TimeoutExpired:
            os.killpg(asked.pid, signal.SIGKILL)
            asked.wait()
        time.sleep(1)
    fail("HEALTHCHECK never succeeded")


def follow(container: Container, text: str) -> None:
    check = command = ""
    for name, rest in instructions(text):
        began = time.monotonic()
        if name in ("FROM", "USER", "EXPOSE"):
            say(f"left out: {name} {rest}")
        elif name == "RUN" and any(word in rest for word in AS_ROOT):
            say(f"left out, prepares the image as root: RUN {rest[:90]} ...")
        elif name == "RUN":
            if container.start(rest).wait():
                fail(f"RUN {rest}")
            say(f"{time.monotonic() - began:6.1f} s  RUN {rest}")
        elif name in ("WORKDIR", "ENV", "COPY"):
            {"WORKDIR": container.workdir, "ENV": container.set_env, "COPY": container.copy}[name](rest)
            say(f"{time.monotonic() - began:6.1f} s  {name} {rest}")
        elif name == "HEALTHCHECK":
            check = rest
        elif name == "CMD":
            command = rest
        else:
            fail(f"{name} is not known here")
    if not (check and command):
        fail("a CMD and a HEALTHCHECK are needed")
    app = container.start(command)
    try:
        seconds = healthy(container, app, check)
        say(f"{seconds:6.1f} s  CMD {command}, healthy by its HEALTHCHECK")
    finally:
        if app.poll() is None:
            os.killpg(app.pid, signal.SIGTERM)
        app.wait(30)


def main() -> int:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "Dockerfile"
    with tempfile.TemporaryDirectory(prefix="kvrescue-container-") as folder:
        container = Container(file.resolve().parent, Path(folder))
        try:
            follow(container, file.read_text(encoding="utf-8"))
        finally:
            container.remove()
    say("every step worked")
    return 0


if __name__ == "__main__":
    sys.exit(main())
