"""Load a base and a helper: a named model set, or any local folders or hub ids. Safetensors only, never remote code.

Everything that can be refused is refused by name before weights are read (:mod:`kvrescue.models.check`).
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from kvrescue.cache.shape import backbone_of
from kvrescue.config import ConfigError
from kvrescue.events import ModelInfo
from kvrescue.models.check import check_config, check_files, check_tokenizer
from kvrescue.models.precision import choose
from kvrescue.models.shapes import Shape
from kvrescue.models.smollm2 import ensure_smollm2
from kvrescue.models.weights import Place, Progress, best_device, fetch, free_memory, read_model, read_tensors, shape_read, tensor_names
from kvrescue.presets import LAB_SETS, MODEL_SETS, Choice
from kvrescue.reco.head import WEIGHTS, Head
from kvrescue.rewards.reading import CALIBRATION_FILE, Calibration
from kvrescue.rewards.trained import FAMILIES
from kvrescue.rewards.trained.family import Family, Format
from kvrescue.rewards.trained.family import Head as ValueHead

LAB_FOLDER = Path(__file__).resolve().parents[2] / "assets" / "lab"

# Progress is told through `progress`; the libraries' own bars and notices would only mix into it.
transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()


@dataclass(frozen=True)
class Loaded:
    """One model, ready to run: evaluation mode, no gradients, our attention function."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    info: ModelInfo
    known: int
    """Logits that stand for a token. Published models have some more, which pad a matrix: nobody can read what they would write."""


@dataclass(frozen=True)
class Prm:
    """A process reward model that belongs to a model set."""

    loaded: Loaded
    calibration: Calibration


@dataclass(frozen=True)
class TrainedPrm:
    """A published process reward model: backbone, format and head of its family."""

    loaded: Loaded
    family: Family
    format: Format
    head: ValueHead
    context: int
    """Most tokens it reads."""


@dataclass(frozen=True)
class Pair:
    """The two sources of a run, and a judge when one comes with them. ``helper`` is the same object as ``base`` when the weights are."""

    name: str
    base: Loaded
    helper: Loaded
    note: str = ""
    prm: Prm | TrainedPrm | None = None
    estimator: Head | None = None
    """A light judge that reads with the helper's weights."""

    @property
    def same_weights(self) -> bool:
        return self.helper is self.base


def load_pair(model_set: str | None = None, base: str | None = None, helper: str | None = None, *, device: str | None = None) -> Pair:
    """:func:`load` for a choice of names only."""
    return load(Choice(model_set, base, helper), device)


def load(choice: Choice, device: str | None = None, progress: Progress | None = None) -> Pair:
    """Everything of a choice, ready to run. ``progress`` gets short sentences on what is being done.

    ConfigError with field ``models``, ``base``, ``helper``, ``prm``, ``prm_family``, ``quantise`` or ``estimator``.
    """
    say = progress or (lambda _text: None)
    head = None
    if choice.estimator is not None:
        head = read_estimator(Path(choice.estimator))
        if head is None:
            raise ConfigError("estimator", f"There is no estimator in {choice.estimator}; make one with: python -m kvrescue train-estimator")
    if choice.prm_family and not choice.prm:
        raise ConfigError("prm_family", "A prm_family was given without a prm; give both, or neither.")
    pair = _load_models(choice, device, say)
    if choice.prm:
        kind = choice.quantise.get("prm", "auto")
        pair = replace(pair, prm=load_trained_prm(_expanded(choice.prm), choice.prm_family, device, quantise=kind, say=say))
    return replace(pair, estimator=head) if head else pair


def _load_models(choice: Choice, device: str | None, say: Progress) -> Pair:
    threads = os.environ.get("KVRESCUE_THREADS")
    if threads:
        torch.set_num_threads(_threads(threads))
    if choice.base is None and choice.helper is not None:
        raise ConfigError("base", "A helper was given without a base; give both, or only a base.")
    if choice.base is not None:
        if choice.model_set is not None:
            raise ConfigError("models", f"Name a model set ({choice.model_set}) or your own base ({choice.base}), not both.")
        return _own_pair(_expanded(choice.base), choice.helper and _expanded(choice.helper), choice.quantise, device, say)
    name = choice.known_set
    assert name is not None  # there is no base
    if name in LAB_SETS:
        return load_lab(LAB_FOLDER, device, say, name)
    if MODEL_SETS[name].parts:
        return _hub_set(name, choice, device, say)
    folder = ensure_smollm2(say)
    say("loading weights")
    kind = choice.quantise.get("base", "auto")
    loaded = load_model(str(folder), "base", device, quantise=kind, shown="SmolLM2-135M-Instruct", note="dequantised from GGUF Q4_1")
    return Pair(name, loaded, loaded, MODEL_SETS[name].note)


def _hub_set(name: str, choice: Choice, device: str | None, say: Progress) -> Pair:
    """A set of published models; its own judge unless another was chosen."""
    chosen = MODEL_SETS[name]
    models = {}
    for part in ("base", "helper"):
        one = chosen.parts[part]
        models[part] = load_model(one.repo, part, device, quantise=choice.quantise.get(part, one.quantise), revision=one.revision, say=say)
    judge = chosen.parts["prm"]
    prm = None
    if choice.prm is None:
        kind = choice.quantise.get("prm", judge.quantise)
        prm = load_trained_prm(judge.repo, judge.family, device, quantise=kind, revision=judge.revision, say=say)
    return Pair(name, models["base"], models["helper"], chosen.note, prm)


def load_lab(folder: Path, device: str | None = None, say: Progress = print, model_set: str = "lab") -> Pair:
    """The bundled tiny models of a set, below ``folder``. They run on the CPU: a GPU would only add delays."""
    where = device or "cpu"
    parts = LAB_SETS[model_set]
    for part in parts.values():
        if not (folder / part / "model.safetensors").is_file():
            raise ConfigError("models", f"The lab's {part} is missing in {folder.name}; make the models with: python -m kvrescue lab train --all")
    say("loading the lab's models")
    writer, helper, judge = (load_model(str(folder / part), part, where, shown=f"lab-{part}") for part in parts.values())
    prm = Prm(judge, Calibration.read(folder / parts["prm"]))
    return Pair(model_set, writer, helper, MODEL_SETS[model_set].note, prm, read_estimator(folder / "estimator"))


def lab_fingerprint(folder: Path = LAB_FOLDER, model_set: str = "lab") -> str:
    """Changes when any of the models of a set of the lab does."""
    found = hashlib.sha256()
    for part in sorted((*LAB_SETS[model_set].values(), "estimator")):
        for file in sorted((folder / part).rglob("*")):
            if file.suffix == ".safetensors" or file.name == CALIBRATION_FILE:
                found.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return found.hexdigest()[:12]


def read_estimator(folder: Path) -> Head | None:
    return Head.read(folder) if (folder / WEIGHTS).is_file() else None


def _threads(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1024:
        raise ConfigError("KVRESCUE_THREADS", f"KVRESCUE_THREADS is {text!r}; allowed: a whole number from 1 to 1,024.")
    return int(text)


def _own_pair(base: str, helper: str | None, quantise: Mapping[str, str], device: str | None, say: Progress) -> Pair:
    say("loading the base")
    first = load_model(base, "base", device, quantise=quantise.get("base", "auto"), say=say)
    if helper is None or _same_place(base, helper):
        return Pair("own", first, first, "Base and helper are the same weights: only their memory differs.")
    say("loading the helper")
    return Pair("own", first, load_model(helper, "helper", device, quantise=quantise.get("helper", "auto"), say=say))


def _expanded(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~") else path


def _same_place(one: str, other: str) -> bool:
    if Path(one).is_dir() and Path(other).is_dir():
        return Path(one).resolve() == Path(other).resolve()
    return one == other


def load_model(
    path: str,
    field: str,
    device: str | None = None,
    *,
    shown: str | None = None,
    note: str = "",
    quantise: str = "auto",
    revision: str | None = None,
    say: Progress = lambda _text: None,
    judging: bool = False,
    backbone: bool = False,
) -> Loaded:
    """One model and its tokenizer from a folder or a hub id; ``field`` names it in errors, ``shown`` on the page."""
    name = shown or (Path(path).name if Path(path).is_dir() else path)
    check_files(path, field)
    config = check_config(path, field, name, revision, judging=judging)
    tokenizer = check_tokenizer(path, field, name, revision)
    where = device or best_device()
    shape = shape_read(config, backbone)
    precision = choose(quantise, where, shape.parameters, free_memory(where))
    place = Place.of(shape, precision.name, where, may_spread=field == "base")
    place.check(shape, precision.name, field, name)
    fetch(path, field, name, revision, say)
    say(f"{name}: loading")
    model = read_model(path, config, field, name, precision, place, backbone=backbone, revision=revision)
    return wrap(model, tokenizer, name, "; ".join(text for text in (note, precision.note) if text), precision.name)


def load_trained_prm(
    path: str,
    family: str | None = None,
    device: str | None = None,
    *,
    quantise: str = "auto",
    revision: str | None = None,
    say: Progress = lambda _text: None,
) -> TrainedPrm:
    """A published process reward model from a folder or a hub id. Without ``family`` it is told by its head and its backbone.

    ConfigError with field ``prm``, or ``prm_family``.
    """
    if family is not None and family not in FAMILIES:
        raise ConfigError("prm_family", f"prm_family is {family!r}; allowed: {', '.join(FAMILIES)}.")
    chosen = FAMILIES[family] if family else _family_of(path, revision, say)
    loaded = load_model(path, "prm", device, quantise=quantise, revision=revision, say=say, judging=True, backbone=bool(chosen.keys))
    model: Any = loaded.model
    if loaded.info.architecture not in chosen.model_types:
        kinds = " or ".join(chosen.model_types)
        raise ConfigError("prm", f"prm {loaded.info.id} is a {loaded.info.architecture!r} model; {chosen.title} is built on {kinds}.")
    last = next(backbone_of(model).layers[-1].parameters()).device
    tensors = {key: tensor.to(last, model.dtype) for key, tensor in read_tensors(path, chosen.keys, "prm", loaded.info.id, revision).items()}
    head = chosen.make_head(tensors, loaded.tokenizer, None if chosen.keys else model.lm_head.weight)
    limits = (model.config.max_position_embeddings, chosen.most_tokens, getattr(model.config, "sliding_window", None))
    return TrainedPrm(loaded, chosen, chosen.make_format(loaded.tokenizer), head, min(limit for limit in limits if limit))


def _family_of(path: str, revision: str | None, say: Progress) -> Family:
    """By the tensors of its head; a bare language model is told by its backbone."""
    names = tensor_names(path, "prm", path, revision, say)
    for family in FAMILIES.values():
        if family.keys and names.issuperset(family.keys):
            return family
    kind = check_config(path, "prm", path, revision, judging=True).model_type
    for family in FAMILIES.values():
        if not family.keys and kind in family.model_types:
            return family
    raise ConfigError("prm_family", f"prm {path} has the head of no known family; name one of {', '.join(FAMILIES)}.")


def wrap(model: PreTrainedModel, tokenizer: Any, name: str, note: str = "", quantisation: str = "") -> Loaded:
    """A model in memory as the engine wants it."""
    model.eval()
    model.requires_grad_(False)
    config = model.config
    info = ModelInfo(
        id=name,
        architecture=config.model_type,
        parameters=Shape.of(config).parameters,  # packed weights hide how many they are
        layers=config.num_hidden_layers,
        kv_heads=config.num_key_value_heads,
        query_heads=config.num_attention_heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        vocab=config.vocab_size,
        dtype=quantisation if quantisation in ("int8", "nf4") else str(model.dtype).removeprefix("torch."),
        device=str(model.device),
        note=note,
    )
    return Loaded(model, tokenizer, info, 1 + max(tokenizer.get_vocab().values()))


_PROBES = ("Hello, world!\n\nSo 3 + 4 = 7.", "  \\boxed{42}", "한국어 텍스트 🎈", "x=\t1\n")


def vocabularies_agree(a: Loaded, b: Loaded) -> bool:
    """Token ids mean the same in both: equal vocabularies (added tokens included) and equal encodings of a few probes."""
    if a.tokenizer is b.tokenizer:
        return True
    if a.tokenizer.get_vocab() != b.tokenizer.get_vocab():
        return False
    return all(a.tokenizer.encode(text, add_special_tokens=False) == b.tokenizer.encode(text, add_special_tokens=False) for text in _PROBES)


def environment() -> dict[str, Any]:
    """Versions and device, for the trace header."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
    }
