"""The command with the bundled models: it resumes, never mixes, and gives the same rows wherever it runs."""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from kvrescue.cli import main
from kvrescue.trace import parse_trace

ROOT = Path(__file__).resolve().parents[2]
GRID = ["--methods", "full,evicted,kv-rescue", "--policies", "rkv", "--budgets", "64", "--n", "2", "--problems", "lab:3:easy", "--seed", "5"]
TIMES = ("seconds",)


def bench(out: Path, *more: str) -> int:
    return main(["bench", "--models", "lab", *GRID, "--out", str(out), *more])


def records(out: Path) -> dict[str, dict]:
    """What was stored, without times."""
    lines = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    keys = [line["key"] for line in lines]
    assert len(keys) == len(set(keys))
    for line in lines:
        for name in TIMES:
            del line["value"]["record"][name]
    return {line["key"]: line["value"] for line in lines}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """As in every worker: with another number of threads the last digit of a score may differ."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("bench") / "out"
    assert bench(out, "--workers", "1") == 0
    return out


def test_everything_is_there(finished):
    rows = json.loads((finished / "table.json").read_text())["rows"]
    assert [row["method"] for row in rows] == ["full", "evicted", "kv-rescue"]
    assert all(row["problems"] == 3 for row in rows)
    assert rows[0]["accuracy"] > rows[1]["accuracy"] and rows[2]["recovery"] is not None
    with (finished / "results.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 9 and {row["method"] for row in table} == {"full", "evicted", "kv-rescue"}
    import pandas as pd

    assert len(pd.read_parquet(finished / "results.parquet")) == 9
    about = json.loads((finished / "config.json").read_text())
    assert about["seeds"] == [5] and about["settings"]["tau_ent"] and json.loads((finished / "environment.json").read_text())["torch"]


def test_pages_ask_no_host_and_show_the_lanes(finished):
    report = (finished / "report.html").read_text()
    pages = list((finished / "problems").glob("*.html"))
    assert len(pages) == 3 and all(f"problems/{page.name}" in report for page in pages)
    page = pages[0].read_text()
    assert page.count("class=lane>") == 3 and "class='step helper'" in page + pages[1].read_text() + pages[2].read_text()
    for text in (report, page):
        assert 'src="http' not in text and "<script src='http" not in text and "<link rel=stylesheet href='http" not in text


def test_its_traces_are_traces(finished):
    files = list((finished / "traces").glob("*.jsonl.gz"))
    assert len(files) == 9
    for file in files:
        assert parse_trace(gzip.decompress(file.read_bytes()))[-1].type == "end"


def test_running_it_again_runs_nothing(finished, capsys):
    before = (finished / "records.jsonl").read_bytes()
    began = time.monotonic()
    assert bench(finished, "--json") == 0
    assert time.monotonic() - began < 30 and (finished / "records.jsonl").read_bytes() == before
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["type"] for line in lines] == ["progress", "row", "row", "row"]
    assert (lines[0]["done"], lines[0]["total"]) == (9, 9)


def test_other_settings_in_the_same_folder_are_refused(finished, capsys):
    assert bench(finished, "--set", "temperature=0.9") == 2
    assert "holds results with another set" in capsys.readouterr().err


def test_processes_give_the_same_rows(finished, tmp_path):
    assert bench(tmp_path / "out", "--workers", "2") == 0
    assert records(tmp_path / "out") == records(finished)


def test_killed_again_and_again_it_ends_with_the_same_rows(finished, tmp_path):
    """SIGKILL in mid-run, thrice; what is stored only grows, and the finished table is that of a run in one go."""
    out, command = tmp_path / "out", [sys.executable, "-m", "kvrescue", "bench", "--models", "lab", *GRID, "--workers", "1", "--json"]
    alone = {**os.environ, "KVRESCUE_THREADS": "1"}
    stored = 0
    for _ in range(3):
        running = subprocess.Popen([*command, "--out", str(out)], cwd=ROOT, env=alone, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in running.stdout:
            if json.loads(line)["done"] > stored:
                break
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        running.stdout.close()
        stored = len(records_of_a_torn_file(out))
        assert stored >= 1
    assert bench(out, "--workers", "1") == 0
    assert records(out) == records(finished)


def records_of_a_torn_file(out: Path) -> list[str]:
    return [line for line in (out / "records.jsonl").read_text().split("\n")[:-1] if line]


def test_a_cluster_gives_the_same_rows_even_when_a_worker_dies(finished, tmp_path):
    """Two workers on this machine; one is killed in the middle."""
    ray = pytest.importorskip("ray")
    import threading

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    killed: list[int] = []

    def kill_one() -> None:
        until = time.monotonic() + 240
        while not killed and time.monotonic() < until:
            time.sleep(0.5)
            if (tmp_path / "out" / "records.jsonl").exists() and len(records_of_a_torn_file(tmp_path / "out")) >= 2:
                found = subprocess.run(["pgrep", "-af", "ray::"], capture_output=True, text=True).stdout.splitlines()
                for line in [line for line in found if line.split()[1].startswith("ray::") and "_there" in line][:1]:
                    killed.append(int(line.split()[0]))
                    os.kill(killed[-1], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    try:
        assert bench(tmp_path / "out", "--ray", "local") == 0
    finally:
        killer.join()
        ray.shutdown()
    assert killed and records(tmp_path / "out") == records(finished)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--methods", "full,magic"], "methods is 'magic'; allowed: full, helper"),
        (["--policies", "none"], "policies is 'none'"),
        (["--budgets", "8"], "budget is 8; it must be larger than the window"),
        (["--n", "0"], "n is '0'"),
        (["--problems", "nowhere"], "no file and no set"),
        (["--traces", "some"], "traces is 'some'; allowed: all, none."),
        (["--set", "colour=red"], "There is no setting called 'colour'"),
        (["--models", "huge"], "no model set 'huge'"),
        (["--ray", "localhost:1"], "no Ray cluster at 'localhost:1'"),
        (["--ray", "some where"], "ray is 'some where'; allowed: HOST:PORT, auto, or local."),
    ],
)
def test_bad_input_gets_a_sentence_and_leaves_no_results(arguments, sentence, tmp_path, capsys):
    assert bench(tmp_path / "out", *arguments) == 2
    assert sentence in capsys.readouterr().err and not (tmp_path / "out" / "records.jsonl").exists()


def test_a_file_of_other_problems_has_no_checker(tmp_path, capsys):
    file = tmp_path / "mine.jsonl"
    file.write_text('{"problem": "1+1?", "answer": "2"}\n')
    assert bench(tmp_path / "out", "--problems", str(file), "--methods", "kv-rescue-checker") == 2
    assert "only the lab's problems have a checker" in capsys.readouterr().err


def test_the_viewer_of_the_pages_is_whole(finished):
    """One script, whose modules name only each other."""
    import re

    script = (finished / "viewer" / "viewer.js").read_text(encoding="utf-8")
    modules = json.loads(script.split("const MODULES = ")[1].split(";\n")[0])
    named = {name for text in modules.values() for name in re.findall(r'^import .*? from "([^"]+)"', text, re.MULTILINE)}
    assert {"kvrescue/stage.mjs", "kvrescue/gzip.mjs", "kvrescue/en.json"} <= set(modules) and named <= set(modules)
    assert (finished / "viewer" / "plotly.min.js").stat().st_size > 1e6 and (finished / "viewer" / "trace_view.css").exists()


def test_traces_say_whether_the_answer_was_right(finished):
    for line in (finished / "records.jsonl").read_text().splitlines():
        value = json.loads(line)["value"]
        (events,) = [parse_trace(gzip.decompress((finished / "traces" / name).read_bytes())) for name in value["traces"]]
        assert events[0].reference and events[-1].correct is value["record"]["right"]
