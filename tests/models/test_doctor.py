"""What the doctor says, and whether its arithmetic agrees with models and caches that exist."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from kvrescue.cache.evicting import EvictingCache
from kvrescue.cache.policies import make_policy
from kvrescue.cache.prefix import PrefixCache
from kvrescue.cache.shape import CacheShape
from kvrescue.config import POLICIES, ConfigError, make_config
from kvrescue.engine.proposer import forward
from kvrescue.models.doctor import examine, in_words, shapes_of
from kvrescue.models.load import LAB_FOLDER, load_lab
from kvrescue.models.memory import Weights, predict, total
from kvrescue.models.precision import choose
from kvrescue.models.shapes import KNOWN, SMOLLM2, Shape
from kvrescue.presets import MODEL_SETS, default_settings, quantisation_of
from tests.tiny import FAMILIES, make_tiny

README = Path(__file__).parents[2] / "README.md"


def test_the_report_is_json_and_words():
    report = examine()
    data = json.loads(json.dumps(report.as_dict()))
    assert data["cores"] >= 1 and data["memory_total"] > data["memory_free"] > 0
    assert data["versions"]["torch"] and [one["name"] for one in data["sets"]] == list(MODEL_SETS)
    words = "\n".join(in_words(report))
    assert "smollm2" in words and ("no GPU" in words or "GPU:" in words)
    smollm2 = next(one for one in data["sets"] if one["name"] == "smollm2")
    assert smollm2["weights_bytes"] in (4 * 134_515_008, 2 * 134_515_008), "base and helper are counted once"
    assert data["suggestion"]


def test_one_set_part_by_part():
    report = examine("qwen-math-7b", n=2, tokens=1000)
    [one] = report.sets
    assert [part.part for part in one.parts] == ["base", "helper", "prm"]
    assert one.total_bytes > one.weights_bytes == sum(part.weights for part in one.parts)
    assert all(word in "\n".join(in_words(report)) for word in ("Qwen/Qwen2.5-Math-PRM-7B", "caches", "largest forward"))
    more = examine("qwen-math-7b", n=8, tokens=1000).sets[0]
    assert more.total_bytes > one.total_bytes


@pytest.mark.parametrize("wrong", [{"only": "gpt-9"}, {"tokens": 0}, {"n": 99}])
def test_bad_requests_are_refused(wrong):
    with pytest.raises(ConfigError):
        examine(**wrong)


@pytest.mark.parametrize("name", [name for name, one in MODEL_SETS.items() if one.parts])
def test_what_a_set_is_said_to_take_is_what_is_predicted(name):
    config = make_config(**default_settings(name))
    parts = {part: weights for part, (_, weights) in shapes_of(name, True).items()}
    gib = math.ceil(total(predict(parts, config, config.max_tokens)) / 2**30)
    assert MODEL_SETS[name].gib == gib and f"about {gib} GiB" in MODEL_SETS[name].label
    [row] = [line for line in README.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `{name}`")]
    assert row.endswith(f"| {gib} GiB |")


@pytest.mark.parametrize("kind", FAMILIES)
def test_parameters_follow_from_the_config(kind):
    loaded = make_tiny(kind)
    assert Shape.of(loaded.model.config).parameters == sum(one.numel() for one in loaded.model.parameters()) == loaded.info.parameters


def test_published_sizes():
    """Totals as the models' own pages tell them, in millions."""
    told = {
        "Qwen/Qwen2.5-Math-1.5B-Instruct": 1543.7,
        "Qwen/Qwen2.5-Math-7B-Instruct": 7615.6,
        "Qwen/Qwen2.5-Math-72B-Instruct": 72706.2,
        "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": 8030.3,
        "Qwen/Qwen3-8B": 8190.7,
        "Qwen/Qwen3-0.6B": 596.0,
    }
    for repo, millions in told.items():
        assert round(KNOWN[repo].parameters / 1e6, 1) == millions
    assert SMOLLM2.parameters == 134_515_008
    assert {part.repo for one in MODEL_SETS.values() for part in one.parts.values()} <= set(KNOWN)


def test_quantised_weights_by_hand():
    """One layer of width 8, feed-forward 16, two query heads and one key head of 4, vocabulary 10, head of its own: counted one by one."""
    shape = Shape(layers=1, hidden=8, mlp=16, heads=2, kv_heads=1, vocab=10, head_dim=4)
    assert shape.linear == 8 * 8 * 2 + 8 * 4 * 2 + 3 * 8 * 16 == 576
    assert shape.other == 2 * 80 + 2 * 8 + 8 == 184
    assert shape.weight_bytes("fp32") == 4 * 760 and shape.weight_bytes("bf16") == 2 * 760
    assert shape.weight_bytes("nf4") == round(576 / 2 + 576 / 64 + 4 * 576 / 64 / 256) + 2 * 184
    assert shape.weight_bytes("int8") == 576 + 4 * (8 + 2 * 4 + 2 * 8 + 2 * 16) + 2 * 184


def bytes_of(*tensors: torch.Tensor) -> int:
    return sum(one.nbytes for one in tensors)


def test_weights_of_the_lab_are_predicted_to_the_byte():
    pair = load_lab(LAB_FOLDER, say=lambda text: None)
    for part, loaded in (("base", pair.base), ("helper", pair.helper)):
        _, weights = shapes_of("lab", gpu=False)[part]
        assert weights.shape.weight_bytes("fp32") == bytes_of(*loaded.model.parameters())


@pytest.mark.parametrize("policy", POLICIES)
def test_caches_of_an_evicted_base_are_predicted(policy):
    loaded = make_tiny("qwen2")
    config = make_config(method="kv-rescue", policy=policy, n=3, budget=64, buffer=16)
    base = EvictingCache(CacheShape.of(loaded.model), make_policy(config), config.budget, config.buffer)
    block, fork = base.blocks[0], base.fork(config.n).blocks[0]
    held = sum(bytes_of(one.keys, one.values, one.positions, one.queries, one.mass) for one in (block, fork))
    told = predict({"base": Weights(Shape.of(loaded.model.config), "fp32")}, config, 10_000)[0].cache
    assert told == pytest.approx(held, rel=0.1)


def test_caches_of_a_helper_are_predicted():
    loaded = make_tiny("llama", layers=2)
    config = make_config(method="kv-rescue", n=4, max_step_tokens=40)
    cache = PrefixCache(CacheShape.of(loaded.model))
    with torch.no_grad():
        for rows, length in ((1, 300), (4, 40)):
            branch = cache.grow() if rows == 1 else cache.fork(rows)
            forward(loaded, branch, torch.ones(rows, length, dtype=torch.int64))
            branch.advance(length)
            if rows == 1:
                cache.adopt(branch)
    held = sum(bytes_of(one.keys, one.values) for buffers in (cache.buffers, branch.buffers) for one in buffers)
    told = predict({"helper": Weights(Shape.of(loaded.model.config), "fp32")}, config, 340)[0].cache
    assert told == pytest.approx(held, rel=0.1)


def test_shared_weights_are_counted_once_and_absent_parts_not_at_all():
    weights = {"base": Weights(SMOLLM2, "bf16"), "helper": Weights(SMOLLM2, "bf16"), "prm": Weights(SMOLLM2, "bf16")}
    both = predict(weights, make_config(method="kv-rescue"), 500, same=True)
    assert [(one.part, bool(one.weights)) for one in both] == [("base", True), ("helper", False), ("judge", False)]
    alone = predict(weights, make_config(method="evicted-stepwise", scorer="prm"), 500, same=True)
    assert [one.part for one in alone] == ["base", "prm"]


def test_quantisation_is_parsed_and_refused_by_name():
    assert quantisation_of(["nf4"]) == dict.fromkeys(("base", "helper", "prm"), "nf4")
    assert quantisation_of(["nf4", "prm=int8"])["prm"] == "int8" and quantisation_of(["base=bf16"]) == {"base": "bf16"}
    for wrong in ("int3", "judge=nf4", "base=", ""):
        with pytest.raises(ConfigError) as refused:
            quantisation_of([wrong])
        assert refused.value.field == "quantise"


def test_the_cpu_takes_what_is_fastest_there_and_says_why():
    assert (choose("auto", "cpu").name, choose("auto", "cpu").note) == ("fp32", "")
    asked = choose("nf4", "cpu")
    assert asked.name == "fp32" and "nf4 was asked for" in asked.note
    tight = choose("auto", "cpu", parameters=7_000_000_000, free=20 << 30)
    assert tight.name == "bf16" and "does not fit" in tight.note
    assert choose("fp32", "cpu", parameters=7_000_000_000, free=20 << 30).name == "fp32"


def test_a_gpu_takes_what_was_asked_for():
    assert [choose(kind, "cuda").name for kind in ("auto", "bf16", "fp32")] == ["bf16", "bf16", "fp32"]
    packed = choose("nf4", "cuda:0").arguments()["quantization_config"]
    assert packed.load_in_4bit and packed.bnb_4bit_use_double_quant and packed.bnb_4bit_compute_dtype == torch.bfloat16
    assert choose("int8", "cuda").arguments()["quantization_config"].load_in_8bit
    with pytest.raises(ConfigError):
        choose("int3", "cuda")
