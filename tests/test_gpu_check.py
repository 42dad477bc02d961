"""The prepared GPU check walks its whole path with toy shapes; what it measures there means nothing, what must hold does."""

from __future__ import annotations

import json
import sys

import pytest

from scripts import gpu_check


def test_the_path_of_the_gpu_check(tmp_path, monkeypatch):
    pytest.importorskip("bitsandbytes")
    out = tmp_path / "found.json"
    monkeypatch.setattr(sys, "argv", ["gpu_check", "--tiny", "--out", str(out)])
    assert gpu_check.main() == 0
    found = json.loads(out.read_text())
    assert found["tiny"] is True and all(found["holds"].values()) and len(found["holds"]) == 17
    assert {"decoding fp32", "decoding nf4", "base as nf4: KV-Rescue, N = 4", "base as nf4: ReCo"} <= set(found["measured"])
