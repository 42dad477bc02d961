"""What a run leaves behind: nothing, whether it ends well or dies."""

from __future__ import annotations

import gc

import pytest
import torch

import kvrescue.engine.proposer as proposer
from kvrescue.config import make_config
from kvrescue.engine.run import run
from kvrescue.models.load import Pair
from tests.tiny import make_tiny


@pytest.fixture(scope="module")
def pair():
    return Pair("own", make_tiny("llama", 1), make_tiny("qwen2", 2))


DIES_AT = 40  # forwards: in mid-step
CONFIG = make_config(method="kv-rescue", n=2, budget=24, buffer=8, max_step_tokens=12, max_steps=4, max_tokens=48)


def held_bytes() -> int:
    """Bytes of all tensors that something still refers to."""
    gc.collect()
    tensors = [one for one in gc.get_objects() if type(one) in (torch.Tensor, torch.nn.Parameter)]
    return sum({one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors}.values())


def test_running_out_of_memory_frees_the_run_and_the_next_one_works(pair, monkeypatch):
    before = held_bytes()
    real, calls = proposer.forward, []

    def full(*args, **kwargs):
        calls.append(1)
        if len(calls) == DIES_AT:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return real(*args, **kwargs)

    monkeypatch.setattr(proposer, "forward", full)
    trace = list(run("Say something.", CONFIG, pair))
    assert (trace[-1].type, trace[-1].code) == ("error", "out_of_memory") and "lower N" in trace[-1].message
    assert len(calls) == DIES_AT and any(event.type == "tokens" for event in trace), "what was written before is delivered"
    del trace
    assert held_bytes() == before, "the caches of the dead run are still held"
    monkeypatch.setattr(proposer, "forward", real)
    assert list(run("Say something.", CONFIG, pair))[-1].type == "end"


@pytest.mark.parametrize("method", ["kv-rescue", "reco+rescue"])
def test_runs_one_after_another_hold_nothing(pair, method):
    config = CONFIG.model_copy(update={"method": method, "retention_ratio": 0.5, "reco_every": 16, "window": 8})
    list(run("Say something.", config, pair))
    before = held_bytes()
    for seed in range(8):
        assert list(run("Say something.", config.model_copy(update={"seed": seed}), pair))[-1].type == "end"
    assert held_bytes() == before


def test_a_run_that_nobody_reads_to_its_end_holds_nothing(pair):
    before = held_bytes()
    events = run("Say something.", CONFIG, pair)
    while next(events).type != "commit":
        pass
    assert held_bytes() > before
    events.close()
    del events
    assert held_bytes() == before
