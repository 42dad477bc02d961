"""What is refused before weights are read, and what loads."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
import torch
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

from kvrescue.config import ConfigError, make_config
from kvrescue.engine.run import run
from kvrescue.models import smollm2 as smol
from kvrescue.models import weights
from kvrescue.models.check import check_tokenizer
from kvrescue.models.hub import hub_says
from kvrescue.models.load import LAB_FOLDER, Pair, load, load_model, load_pair, vocabularies_agree
from kvrescue.models.precision import Precision
from kvrescue.models.shapes import KNOWN, Shape
from kvrescue.models.weights import Place, fetch
from kvrescue.presets import Choice
from tests.tiny import FAMILIES, byte_tokenizer, make_tiny, tiny_config


def saved(folder, kind: str = "llama", *, ends: bool = True, **changes):
    """A tiny model as a real folder; without ``ends`` it has no end-of-sequence token, so that it writes for ever."""
    tokenizer = byte_tokenizer()
    if not ends:
        tokenizer.eos_token = None
    model = FAMILIES[kind][1](tiny_config(kind, len(tokenizer), eos_token_id=tokenizer.eos_token_id, **changes))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def refusal(call, *args, **kwargs) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        call(*args, **kwargs)
    message = str(caught.value)
    assert message.count("\n") == 0 and message.endswith(".")
    return caught.value


@pytest.fixture
def no_weights(monkeypatch):
    """Fails the test if weights are read."""

    def read(*_args, **_kwargs):
        raise AssertionError("weights were read before the refusal")

    monkeypatch.setattr("kvrescue.models.weights.AutoModelForCausalLM.from_pretrained", read)


@pytest.mark.parametrize("kind", FAMILIES)
def test_supported_families_load_from_a_folder(tmp_path, kind):
    loaded = load_model(str(saved(tmp_path / "my-model", kind)), "base", "cpu")
    assert loaded.info.architecture == kind and loaded.info.id == "my-model"
    assert loaded.model.config._attn_implementation == "kvrescue"
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters()) and not loaded.model.training


def test_one_folder_for_both_is_loaded_once(tmp_path):
    folder = str(saved(tmp_path / "m"))
    assert load_pair(base=folder, device="cpu").same_weights
    assert load_pair(base=folder, helper=str(tmp_path / "." / "m"), device="cpu").same_weights
    other = load_pair(base=folder, helper=str(saved(tmp_path / "n")), device="cpu")
    assert not other.same_weights and vocabularies_agree(other.base, other.helper)


def test_vocabularies_that_differ_are_told_apart():
    same, more = make_tiny("llama"), make_tiny("llama", extra_tokens=["apples"])
    assert vocabularies_agree(same, same) and not vocabularies_agree(same, more)


def test_a_folder_that_is_no_model(tmp_path, no_weights):
    error = refusal(load_model, str(tmp_path), "base")
    assert error.field == "base" and "no config.json" in str(error)


def test_a_path_that_is_no_folder(tmp_path, no_weights):
    (tmp_path / "file").write_text("x")
    for path in (str(tmp_path / "file"), str(tmp_path / "missing"), "./missing", "~/missing"):
        assert "is not a folder" in str(refusal(load_model, path, "helper"))


def test_pickled_weights(tmp_path, no_weights):
    folder = saved(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    error = refusal(load_model, str(folder), "helper")
    assert error.field == "helper" and "pickled" in str(error)


def test_no_weights_at_all(tmp_path, no_weights):
    folder = saved(tmp_path / "m")
    (folder / "model.safetensors").unlink()
    assert "has no weights" in str(refusal(load_model, str(folder), "base"))


def test_an_unsupported_architecture_is_named(tmp_path, no_weights):
    GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=16, n_positions=16)).save_pretrained(tmp_path)
    assert "'gpt2'" in str(refusal(load_model, str(tmp_path), "base"))


@pytest.mark.parametrize(
    "change", [{"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 1}, {"layer_types": ["full_attention", "sliding_attention"]}]
)
def test_sliding_window_layers_are_refused(tmp_path, no_weights, change):
    folder = saved(tmp_path / "m", "qwen2")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    assert "sliding-window" in str(refusal(load_model, str(folder), "base"))


def test_remote_code_is_never_run(tmp_path, no_weights):
    folder = saved(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config", "AutoModelForCausalLM": "evil.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text("raise SystemExit('remote code ran')")
    refusal(load_model, str(folder), "base")


def test_a_missing_tokenizer(tmp_path, no_weights):
    folder = saved(tmp_path / "m")
    for path in folder.glob("*token*"):
        path.unlink()
    assert "tokenizer" in str(refusal(load_model, str(folder), "base"))


def test_damaged_weights_are_told_in_one_sentence(tmp_path):
    folder = saved(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(b"\x00" * 100)
    assert "could not be read" in str(refusal(load_model, str(folder), "base", "cpu"))


@pytest.mark.parametrize("spoil", [lambda name: None if "layers.1." in name else name, lambda name: "x." + name])
def test_weights_that_are_not_all_there_are_refused(tmp_path, spoil):
    """Without the check transformers makes up the missing tensors and the run goes on with random weights."""
    folder = saved(tmp_path / "m")
    kept = {spoil(name): tensor for name, tensor in load_file(folder / "model.safetensors").items() if spoil(name)}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    assert "are incomplete" in str(refusal(load_model, str(folder), "base", "cpu"))


def test_a_config_of_wrong_types(tmp_path, no_weights):
    folder = saved(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_attention_heads": "four"}))
    assert "cannot be understood" in str(refusal(load_model, str(folder), "base"))


def test_hub_ids_without_a_hub(tmp_path, no_weights, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    refusal(load_model, "nobody/no-such-model", "base")


def test_unknown_names(no_weights):
    assert refusal(load_pair, "gpt-9").field == "models"
    assert refusal(load_pair, helper="somewhere").field == "base"


def test_threads_setting(monkeypatch, no_weights):
    monkeypatch.setenv("KVRESCUE_THREADS", "many")
    assert "KVRESCUE_THREADS" in str(refusal(load_pair, "smollm2"))


def test_smollm2_without_any_source(tmp_path, monkeypatch):
    """Neither package index nor hub: one sentence, and no half a model is left behind."""
    monkeypatch.setenv("KVRESCUE_CACHE", str(tmp_path))
    monkeypatch.setattr(smol, "_gguf_from_package", lambda work: None)
    monkeypatch.setattr(smol, "HUB_ID", str(tmp_path / "nowhere"))
    assert "can be reached" in str(refusal(smol.ensure_smollm2, lambda text: None))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_not_called_a_missing_network(tmp_path, monkeypatch):
    def full(_gguf, _target):
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("KVRESCUE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(smol, "_gguf_from_package", lambda work: work / "m.gguf")
    monkeypatch.setattr(smol, "_convert", full)
    assert "No space left" in str(refusal(smol.ensure_smollm2, lambda text: None))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KVRESCUE_CACHE", str(tmp_path / "file" / "cache"))
    assert "cannot be written" in str(refusal(smol.ensure_smollm2, lambda text: None))


def test_a_killed_conversion_is_done_again(tmp_path, monkeypatch):
    monkeypatch.setenv("KVRESCUE_CACHE", str(tmp_path))
    half = tmp_path / "smollm2-135m-instruct"
    half.mkdir()
    (half / "config.json").write_text("{}")
    monkeypatch.setattr(smol, "_gguf_from_package", lambda work: None)

    def convert(_gguf, target):
        target.mkdir()
        (target / "model.safetensors").write_bytes(b"weights")

    monkeypatch.setattr(smol, "_convert", convert)
    assert smol.ensure_smollm2(lambda text: None) == half
    assert smol.cached_smollm2() == half and not (half / "config.json").exists()
    (half / "model.safetensors").unlink()
    assert smol.cached_smollm2() is None, "a cache without its weights is no cache"
    assert smol.ensure_smollm2(lambda text: None) == half and (half / "model.safetensors").exists()


def test_a_model_set_and_own_models_exclude_each_other(no_weights):
    assert "not both" in str(refusal(load_pair, "lab", "somewhere"))


def test_home_is_expanded(tmp_path, monkeypatch, no_weights):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mine").mkdir()
    assert "no config.json" in str(refusal(load_pair, None, "~/mine"))


def test_smollm2_is_a_sane_language_model(smollm2):
    """The converted weights know English: the loss on a plain sentence is far below chance (ln 49152 = 10.8)."""
    base = smollm2.base
    assert smollm2.same_weights and base.info.parameters == 134_515_008
    assert base.tokenizer.eos_token == "<|im_end|>" and base.tokenizer.chat_template
    ids = torch.tensor([base.tokenizer.encode("The capital of France is Paris, and the capital of Italy is Rome.")])
    with torch.no_grad():
        assert base.model(ids, labels=ids).loss < 4


@pytest.mark.parametrize("kind", ["int8", "nf4"])
def test_quantised_weights_run_in_the_engine(tmp_path, monkeypatch, kind):
    """bitsandbytes' own CPU path, slow but the same code: packed weights load, count as what they are, and write a whole run."""
    pytest.importorskip("bitsandbytes")
    monkeypatch.setattr("kvrescue.models.load.choose", lambda *_: Precision(kind, torch.float32))
    folder = saved(tmp_path / "m", "qwen2", hidden_size=128, intermediate_size=256)
    loaded = load_model(str(folder), "base", "cpu", quantise=kind)
    layer = loaded.model.model.layers[0].mlp.up_proj
    assert type(layer).__name__ == {"int8": "Linear8bitLt", "nf4": "Linear4bit"}[kind] and loaded.info.dtype == kind
    assert loaded.info.parameters == Shape.of(loaded.model.config).parameters
    config = make_config(method="evicted", budget=24, buffer=8, max_step_tokens=12, max_tokens=40, scorer="none")
    assert list(run("Say something.", config, Pair("own", loaded, loaded)))[-1].type == "end"


def test_weights_that_do_not_fit_are_told_with_what_would(tmp_path, monkeypatch):
    def full(*_args, **_kwargs):
        raise torch.OutOfMemoryError("CUDA out of memory")

    folder = saved(tmp_path / "m")
    monkeypatch.setattr("kvrescue.models.weights.AutoModelForCausalLM.from_pretrained", full)
    assert "does not fit" in str(refusal(load_model, str(folder), "base", "cpu"))


def test_weights_are_counted_while_they_are_fetched(monkeypatch):
    monkeypatch.setattr("kvrescue.models.weights._files", lambda *_, **__: ["a.safetensors", "b.safetensors"])
    monkeypatch.setattr("kvrescue.models.weights.cached_file", lambda *_args, **_kwargs: "there")
    said: list[str] = []
    fetch("owner/name", "base", "name", None, said.append)
    assert said == ["name: weights 1/2", "name: weights 2/2"]


def test_a_hub_model_without_safetensors_is_refused(monkeypatch):
    def missing(*_args, **_kwargs):
        raise OSError("owner/name does not appear to have a file named model.safetensors")

    monkeypatch.setattr("kvrescue.models.weights._files", lambda *_, **__: [])
    monkeypatch.setattr("kvrescue.models.weights.cached_file", missing)
    assert "pickled" in str(refusal(fetch, "owner/name", "prm", "name", None, print))


def test_a_hub_set_loads_its_three_parts_as_it_says(monkeypatch):
    asked = []

    def model(repo, part, _device, **options):
        asked.append((repo, part, options["quantise"]))
        return make_tiny("qwen2")

    def judge(repo, family, _device, **options):
        asked.append((repo, family, options["quantise"]))

    monkeypatch.setattr("kvrescue.models.load.load_model", model)
    monkeypatch.setattr("kvrescue.models.load.load_trained_prm", judge)
    pair = load(Choice("qwen-math-7b", quantise={"helper": "int8"}))
    assert pair.name == "qwen-math-7b"
    assert asked == [
        ("Qwen/Qwen2.5-Math-7B-Instruct", "base", "nf4"),
        ("Qwen/Qwen2.5-Math-1.5B-Instruct", "helper", "int8"),
        ("Qwen/Qwen2.5-Math-PRM-7B", "qwen", "nf4"),
    ]


def answered(kind: type[Exception], status: int) -> Exception:
    """What the hub's library raises for an answer of the hub."""
    return kind("what the server says", response=SimpleNamespace(status_code=status, headers={}, request=None))  # type: ignore[call-arg]


class TransportError(Exception):
    """Of an HTTP client: nobody answered."""


@pytest.mark.parametrize(
    ("raised", "sentence"),
    [
        (answered(GatedRepoError, 403), "base 'a/b' is gated or private on the model hub; accept its terms on its page there and log in"),
        (answered(RepositoryNotFoundError, 401), "base 'a/b' is neither a local folder nor a model on the hub; check the spelling"),
        (answered(RevisionNotFoundError, 404), "base 'a/b' has no revision c0ffee on the model hub"),
        (OfflineModeIsEnabled("offline"), "base 'a/b' is not in the local cache, and offline mode is on; fetch it once without HF_HUB_OFFLINE"),
        (LocalEntryNotFoundError("not cached"), "base 'a/b' is not in the local cache, and the model hub cannot be reached; check the network"),
        (TransportError("no route"), "base 'a/b' is not in the local cache, and the model hub cannot be reached; check the network"),
        (answered(HfHubHTTPError, 503), "base 'a/b' could not be fetched: the model hub answered with error 503; try again later"),
    ],
)
def test_what_went_wrong_at_the_hub_is_one_sentence_with_what_to_do(monkeypatch, raised, sentence):
    """Whichever file is asked for first; transformers wraps the library's exceptions into its own."""

    def asked(*_args, **_kwargs):
        raise OSError("There was a specific connection error, and a page of advice.") from raised

    monkeypatch.setattr("kvrescue.models.check.AutoConfig.from_pretrained", asked)
    assert sentence in str(refusal(load_model, "a/b", "base", "cpu", revision="c0ffee"))
    monkeypatch.setattr("kvrescue.models.check.AutoTokenizer.from_pretrained", asked)
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        check_tokenizer("a/b", "base", "a/b", "c0ffee")
    monkeypatch.setattr("kvrescue.models.weights.cached_file", asked)
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        weights.fetch("a/b", "base", "a/b", "c0ffee", lambda _text: None)


def test_offline_mode_is_told_as_such(monkeypatch):
    monkeypatch.setattr("kvrescue.models.hub.constants.HF_HUB_OFFLINE", True)
    assert "offline mode is on" in (hub_says(LocalEntryNotFoundError("not cached"), "a/b", "helper") or "")
    assert hub_says(ValueError("a torn file"), "a/b", "helper") is None


def test_a_model_too_large_for_the_gpu_is_told_what_would_fit():
    shape = KNOWN["Qwen/Qwen2.5-Math-7B-Instruct"]
    place = Place("cuda", False, 9 * 1024**3)
    with pytest.raises(ConfigError, match=r"does not fit: its weights take 14.\d GiB as bf16, and 9.0 GiB are free; as .* \(--quantise base="):
        place.check(shape, "bf16", "base", "the base")
    place.check(shape, "nf4", "base", "the base")
    with pytest.raises(ConfigError, match="choose a smaller model"):
        Place("cuda", False, 1024**3).check(shape, "nf4", "base", "the base")


def test_a_cpu_without_memory_is_told_as_such(tmp_path, monkeypatch):
    assert weights.out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"))
    assert weights.out_of_memory(MemoryError()) and not weights.out_of_memory(RuntimeError("shapes differ"))
    monkeypatch.setattr("kvrescue.models.weights.free_memory", lambda _device: 1000)
    told = str(refusal(load_model, str(LAB_FOLDER / "base"), "base", "cpu"))
    assert re.search(r"does not fit: its weights take .*, and 0.0 GiB are free; choose a smaller model", told)
