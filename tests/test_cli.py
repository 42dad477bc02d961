"""The command line as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from kvrescue.cli import _printable, main
from kvrescue.trace import parse_trace, read_trace
from tests.models.test_load import saved

TINY = ["--max-tokens", "12", "--n", "1", "--set", "temperature=1", "--set", "max_step_tokens=6"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(saved(tmp_path_factory.mktemp("models") / "tiny"))


def run(*arguments: str, **kwargs) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LANG": "C", "LC_ALL": "C"}
    return subprocess.run([sys.executable, "-m", "kvrescue", *arguments], capture_output=True, text=True, encoding="utf-8", env=environment, **kwargs)


def test_json_is_events_and_nothing_else(folder, tmp_path):
    trace = tmp_path / "t.ndjson"
    done = run("run", "Wie viele Äpfel? 🍎", "--base", folder, "--json", "--trace", str(trace), *TINY)
    assert done.returncode == 0, done.stderr
    stream = parse_trace(done.stdout.encode())
    assert stream[0].type == "header" and stream[-1].type == "end" and stream[0].problem == "Wie viele Äpfel? 🍎"
    assert all({"seq", "type"} <= set(json.loads(line)) for line in done.stdout.splitlines())
    assert read_trace(trace) == stream


def test_words_for_people(folder):
    done = run("run", "-", "--base", folder, "--method", "evicted", "--policy", "h2o", "--budget", "24", *TINY, input="How many?\n")
    assert done.returncode == 0, done.stderr
    assert "step 1" in done.stdout and "base" in done.stdout and "tokens committed" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", ""], "problem is empty"),
        (["run", "x" * 9000], "at most 8,000"),
        (["run", "p", "--n", "0"], "n is 0; allowed"),
        (["run", "p", "--budget", "4"], "larger than the window"),
        (["run", "p", "--policy", "zip"], "policy is 'zip'"),
        (["run", "p", "--set", "tau_ent=nan"], "tau_ent is nan"),
        (["run", "p", "--set", "tau_ent"], "NAME=VALUE"),
        (["run", "p", "--set", "nothing=1"], "no setting called 'nothing'"),
        (["run", "p", "--models", "gpt-9"], "no model set 'gpt-9'"),
        (["run", "p", "--base", "/no/such/folder"], "is not a folder"),
        (["run", "p", "--trace", "/no/such/folder/t.ndjson"], "cannot be written"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(arguments, sentence, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err and "Traceback" not in captured.err and captured.out == ""
    assert captured.err.strip().splitlines()[-1].startswith("kvrescue: ")


def test_a_refused_run_leaves_an_older_trace_alone(folder, tmp_path):
    trace = tmp_path / "t.ndjson"
    trace.write_text("older\n")
    assert main(["run", "p", "--base", "/no/such/folder", "--trace", str(trace)]) == 2
    assert trace.read_text() == "older\n"
    assert run("run", "p", "--base", folder, "--json", "--trace", str(trace), *TINY).returncode == 0
    assert read_trace(trace)[0].type == "header"


def test_text_settings_may_look_like_numbers(folder):
    done = run("run", "p", "--base", folder, "--json", "--set", "delimiter=5", *TINY)
    assert done.returncode == 0 and json.loads(done.stdout.splitlines()[0])["config"]["delimiter"] == "5"


def test_newlines_in_a_delimiter_can_be_typed(folder):
    done = run("run", "p", "--base", folder, "--json", "--set", "delimiter=\\n\\n", *TINY)
    assert json.loads(done.stdout.splitlines()[0])["config"]["delimiter"] == "\n\n"


def test_broken_bytes_on_standard_input():
    command = [sys.executable, "-m", "kvrescue", "run", "-"]
    done = subprocess.run(command, input=b"a\xff b", capture_output=True, env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"})
    assert done.returncode == 2 and b"broken character" in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_sentence(folder):
    done = run("run", "p", "--base", folder, "--trace", "/dev/full", *TINY)
    assert done.returncode == 1 and "No space left" in done.stderr and "Traceback" not in done.stderr


def test_control_c_while_loading_is_quiet(monkeypatch, capsys):
    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("kvrescue.models.load.load", interrupted)
    assert main(["run", "p"]) == 130 and capsys.readouterr().out == ""


def test_control_c_ends_with_a_complete_trace(tmp_path):
    folder = str(saved(tmp_path / "endless", ends=False))
    arguments = [
        "run",
        "Count.",
        "--base",
        folder,
        "--json",
        "--n",
        "1",
        "--set",
        "max_step_tokens=4000",
        "--max-tokens",
        "900",
        "--set",
        "delimiter=@@@@@@@@",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "kvrescue", *arguments, "--set", "early_exit=false"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    lines = []
    while b'"tokens"' not in (lines[-1] if lines else b""):
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr.read()
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)
    stream = parse_trace(b"".join(lines) + rest)
    assert process.returncode == 130 and stream[-1].type == "end" and stream[-1].reason == "stopped"
    assert b"stopping" in errors


def test_a_closed_pipe_is_quiet(folder):
    command = f"{sys.executable} -m kvrescue run Count. --base {folder} --json --n 1 --max-tokens 200 --set early_exit=false | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120)
    assert '"header"' in done.stdout and "Traceback" not in done.stderr


def test_model_text_cannot_drive_the_terminal():
    assert "\x1b" not in _printable("\x1b[2J\x9b31m") and "\u202e" not in _printable("\u202eabc")
    assert _printable("한국어\n\t🎈") == "한국어\n\t🎈"


def test_settings_are_listed(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["run", "--settings"])
    assert stopped.value.code == 0
    listed = capsys.readouterr().out
    assert "tau_ent = 2.5" in listed and "A number above 0 to 20." in listed


def test_doctor():
    began = time.monotonic()
    done = run("doctor", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["sets"], (done.stderr, time.monotonic() - began)
