"""On accelerators: every tensor lies where it is needed, on one device or on two, in float32 and in bfloat16 (tests/accelerator.py pretends)."""

from __future__ import annotations

import pytest
import torch
from accelerate import dispatch_model
from torch.nn.functional import scaled_dot_product_attention

from kvrescue.cache.attention import shared_prefix_attention
from kvrescue.config import METHODS, POLICIES, RunConfig, make_config
from kvrescue.engine.proposer import Proposer
from kvrescue.engine.run import run
from kvrescue.engine.setup import Setup
from kvrescue.models.load import Pair, load_model, load_trained_prm, wrap
from kvrescue.stop import Stop
from tests.accelerator import Accelerators
from tests.models.test_load import saved
from tests.rewards.test_trained import KINDS, checkpoint
from tests.tiny import FAMILIES, byte_tokenizer, make_tiny, tiny_config

SMALL: dict[str, object] = {
    "n": 2,
    "budget": 24,
    "buffer": 8,
    "window": 8,
    "max_step_tokens": 8,
    "max_steps": 3,
    "max_tokens": 24,
    "greedy_first": True,
    "system_prompt": "",
}
CURIOUS = {"reco_every": 8, "retention_ratio": 0.5, "tau_h": 0.01, "tau_l": 0.001}


def written(config: RunConfig, pair: Pair) -> list[str]:
    events = list(run("Say something.", config, pair))
    assert events[-1].type == "end", events[-1]
    return [event.text for event in events if event.type == "commit"]


def pair_on(base: str = "cpu", helper: str = "cpu", layers: int = 2) -> Pair:
    pair = Pair("own", make_tiny("llama", 1, layers=layers), make_tiny("qwen2", 2))
    pair.base.model.to(base)
    pair.helper.model.to(helper)
    return pair


@pytest.mark.parametrize(("method", "policy"), [*(("kv-rescue", policy) for policy in POLICIES), *((method, "rkv") for method in METHODS)])
def test_a_run_on_two_accelerators_is_the_run_on_the_cpu(method, policy):
    config = make_config(method=method, policy=policy, **SMALL, **CURIOUS)
    here = written(config, pair_on())
    with Accelerators():
        assert written(config, pair_on("cuda:0", "cuda:1")) == here


@pytest.mark.parametrize("more", [{"scorer_model": "base"}, {"protect_prompt": True, "budget": 80}, {"beta": 5.0, "method": "reco+rescue"}])
def test_so_is_one_with_other_settings(more):
    config = make_config(**{"method": "kv-rescue", **SMALL, **CURIOUS, **more})
    here = written(config, pair_on())
    with Accelerators():
        assert written(config, pair_on("cuda:0", "cuda:1")) == here


@pytest.mark.parametrize("method", ["full", "kv-rescue", "reco+rescue"])
def test_a_base_may_be_spread_layer_by_layer(method):
    """As accelerate does it for a base that no single GPU holds: its hooks move what flows from layer to layer, the caches stay with theirs."""
    config = make_config(**{"method": method, "scorer_model": "base", **SMALL, **CURIOUS})
    here = written(config, pair_on(layers=3))
    with Accelerators():
        pair = pair_on(layers=3)
        where = {"model.embed_tokens": "cuda:0", "model.rotary_emb": "cuda:0", "model.layers.0": "cuda:0", "model.layers.1": "cuda:1"}
        where |= {"model.layers.2": "cuda:1", "model.norm": "cuda:1", "lm_head": "cuda:0"}
        model = pair.base.model
        dispatch_model(model, where, main_device="cuda:0", force_hooks=True, skip_keys=model._skip_keys_device_placement)
        pair.helper.model.to("cuda:1")
        cache = Setup("Say something.", config, pair, Stop(), None).memory.cache
        assert {str(device) for device in cache.shape.devices} == {"cuda:0", "cuda:1"}
        assert written(config, pair) == here


@pytest.mark.parametrize("kind", KINDS)
def test_published_judges_run_in_bfloat16_beside_the_models(tmp_path, kind):
    """Loaded as the app does it: bf16 on an accelerator, head and all."""
    folders = [str(saved(tmp_path / name, name)) for name in ("llama", "qwen3")]
    judge = str(checkpoint(tmp_path / "prm", kind))
    config = make_config(method="kv-rescue", scorer="prm", **SMALL)
    with Accelerators():
        models = [load_model(folder, "base", "cuda:0") for folder in folders]
        prm = load_trained_prm(judge, device="cuda:1")
        assert {one.model.dtype for one in (*models, prm.loaded)} == {torch.bfloat16} and prm.loaded.info.device == "cuda:1"
        events = list(run("Say something.", config, Pair("own", *models, prm=prm)))
    assert events[-1].type == "end"
    scores = [score.score for event in events if event.type == "scores" for score in event.scores]
    assert scores and all(score is not None and 0 <= score <= 1 for score in scores)


def test_the_host_waits_a_fixed_number_of_times_for_each_forward_whatever_n_is():
    """Each wait empties an accelerator's queue: entropies, whether the nucleus was found, the tokens."""
    waits = {}
    for n in (1, 4):
        config = make_config(method="full", scorer="none", **{**SMALL, "n": n, "greedy_first": False})
        with Accelerators():
            pair = pair_on("cuda:0")
            proposer = Setup("Say something.", config, pair, Stop(), None).proposers["base"]
            assert isinstance(proposer, Proposer)
            proposer.ingest([5, 6, 7])
            assert proposer.next_logits is not None
            Accelerators.waits = 0
            proposer._sample([], proposer.next_logits.expand(n, -1), [0.5] * n)
            waits[n] = Accelerators.waits
    assert waits[1] == waits[4] <= 2


@pytest.mark.parametrize("length", [1, 5])
def test_attention_in_bfloat16_is_as_exact_as_the_fused_kernel(length):
    """Logits of 50, as Qwen's layers have: an accelerator's way through a shared prefix must not round them."""
    rows, heads, kv_heads, dim, prefix = 3, 4, 2, 64, 200
    made = torch.Generator().manual_seed(3)
    big = 10**0.5
    query = (big * torch.randn(rows, heads, length, dim, generator=made)).bfloat16()
    shared = [(big * torch.randn(1, kv_heads, prefix, dim, generator=made)).bfloat16() for _ in range(2)]
    own = [(big * torch.randn(rows, kv_heads, length, dim, generator=made)).bfloat16() for _ in range(2)]
    keys, values = (torch.cat([a.expand(rows, -1, -1, -1), b], dim=2) for a, b in zip(shared, own, strict=True))
    hidden = torch.ones(length, prefix + length, dtype=torch.bool).tril(prefix)
    exact = scaled_dot_product_attention(query.double(), keys.double(), values.double(), attn_mask=hidden, enable_gqa=True)
    fused = scaled_dot_product_attention(query, keys, values, attn_mask=hidden, enable_gqa=True)
    with Accelerators():
        ours = shared_prefix_attention(*(one.to("cuda:0") for one in (query, *shared, *own)), dim**-0.5).cpu()
    assert (ours.double() - exact).norm() < 2 * (fused.double() - exact).norm()


def test_logits_that_are_no_token_are_never_drawn():
    """Published models pad their vocabulary, base and helper differently; an id that one of them lacks would break a GPU's whole process."""
    tokenizer = byte_tokenizer()
    torch.manual_seed(0)
    model = FAMILIES["qwen2"][1](tiny_config("qwen2", len(tokenizer) + 500, tie_word_embeddings=False))
    model.lm_head.weight.data[len(tokenizer) :] *= 30.0
    padded = wrap(model.set_attn_implementation("kvrescue") or model, tokenizer, "padded")
    config = make_config(method="full", scorer="none", temperature=2.0, **{**SMALL, "top_p": 1.0})
    events = list(run("Say something.", config, Pair("own", padded, padded)))
    assert events[-1].type == "end"
    ids = [token for event in events if event.type == "commit" for token in event.ids]
    assert ids and max(ids) < len(tokenizer)
