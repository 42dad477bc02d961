"""Results survive kills, never twice, never mixed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvrescue.bench.store import IDENTITY, RECORDS, Store, digest
from kvrescue.config import ConfigError

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_stored_is_there_again(tmp_path):
    with Store(tmp_path / "out", {"seed": 1}) as store:
        store.add("a", {"x": "é\n🎈"})
        store.add("a", {"x": 2})
    with Store(tmp_path / "out", {"seed": 1}) as store:
        assert store.done == {"a": {"x": "é\n🎈"}}
    assert len((tmp_path / "out" / RECORDS).read_text().splitlines()) == 1


@given(st.integers(0, 200))
def test_a_torn_line_is_cut_off_wherever_it_was_torn(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("torn")
    with Store(folder, {}) as store:
        for name in "abc":
            store.add(name, {"value": name * 10})
    file = folder / RECORDS
    data = file.read_bytes()
    file.write_bytes(data[: min(cut, len(data))])
    whole = data[:cut].count(b"\n")
    with Store(folder, {}) as store:
        assert list(store.done) == list("abc")[:whole]
        store.add("d", {})
    assert [json.loads(line)["key"] for line in file.read_text().splitlines()] == [*"abc"[:whole], "d"]


def test_other_settings_are_refused_by_name(tmp_path):
    with Store(tmp_path, {"seed": 1, "models": "lab"}):
        pass
    with pytest.raises(ConfigError, match="another seed"), Store(tmp_path, {"seed": 2, "models": "lab"}):
        pass


def test_damage_in_the_middle_is_refused(tmp_path):
    with Store(tmp_path, {}) as store:
        store.add("a", 1)
    file = tmp_path / RECORDS
    file.write_bytes(b"not json\n" + file.read_bytes())
    with pytest.raises(ConfigError, match="damaged in line 1"), Store(tmp_path, {}):
        pass
    (tmp_path / IDENTITY).write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json is damaged"), Store(tmp_path, {}):
        pass
    (tmp_path / IDENTITY).unlink()
    with pytest.raises(ConfigError, match="without their settings"), Store(tmp_path, {}):
        pass


def test_two_writers_are_refused(tmp_path):
    with Store(tmp_path, {}), pytest.raises(ConfigError, match="Another process"), Store(tmp_path, {}):
        pass


def test_equal_values_have_equal_names():
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) != digest({"a": 1, "b": 3})


WRITER = """
import sys
from pathlib import Path
from kvrescue.bench.store import Store
with Store(Path(sys.argv[1]), {}) as store:
    print("open", flush=True)
    at = len(store.done)
    while True:
        store.add(str(at), {"text": "x" * 5000})
        at += 1
"""


def test_killed_again_and_again_it_loses_nothing_that_was_stored(tmp_path):
    seen = 0
    for round_ in range(6):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE)
        assert writer.stdout.readline() == b"open\n"
        time.sleep(0.02 + 0.013 * round_)
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        with Store(tmp_path, {}) as store:
            assert len(store.done) > seen and list(store.done) == [str(at) for at in range(len(store.done))]
            seen = len(store.done)
