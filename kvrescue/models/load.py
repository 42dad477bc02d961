"""Load a base and a helper: a named model set, or any local folders or hub ids. Safetensors only, never remote code.

Everything that can be refused is refused by name before weights are read (:mod:`kvrescue.models.check`).
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

import kvrescue.cache.attention as attention
from kvrescue.config import ConfigError
from kvrescue.events import ModelInfo
from kvrescue.models.check import check_config, check_files, check_tokenizer
from kvrescue.models.smollm2 import ensure_smollm2
from kvrescue.presets import DEFAULT_MODEL_SET, MODEL_SETS
from kvrescue.reco.head import WEIGHTS, Head
from kvrescue.rewards.reading import CALIBRATION_FILE, Calibration

Progress = Callable[[str], None]
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


@dataclass(frozen=True)
class Prm:
    """A process reward model that belongs to a model set."""

    loaded: Loaded
    calibration: Calibration


@dataclass(frozen=True)
class Pair:
    """The two sources of a run, and a judge when one comes with them. ``helper`` is the same object as ``base`` when the weights are."""

    name: str
    base: Loaded
    helper: Loaded
    note: str = ""
    prm: Prm | None = None
    estimator: Head | None = None
    """A light judge that reads with the helper's weights."""

    @property
    def same_weights(self) -> bool:
        return self.helper is self.base


def load_pair(
    model_set: str | None = None,
    base: str | None = None,
    helper: str | None = None,
    estimator: str | None = None,
    *,
    device: str | None = None,
    progress: Progress | None = None,
) -> Pair:
    """A model set by name, or ``base`` and ``helper`` (local folders or hub ids; the helper defaults to the base).

    ``estimator``: folder of a light judge that was trained for them. ``progress`` gets short sentences on what is being done.
    ConfigError with field ``models``, ``base``, ``helper`` or ``estimator``.
    """
    head = None
    if estimator is not None:
        head = read_estimator(Path(estimator))
        if head is None:
            raise ConfigError("estimator", f"There is no estimator in {estimator}; make one with: python -m kvrescue train-estimator")
    pair = _load_models(model_set, base, helper, device, progress)
    return replace(pair, estimator=head) if head else pair


def _load_models(model_set: str | None, base: str | None, helper: str | None, device: str | None, progress: Progress | None) -> Pair:
    say = progress or (lambda _text: None)
    threads = os.environ.get("KVRESCUE_THREADS")
    if threads:
        torch.set_num_threads(_threads(threads))
    if base is None and helper is not None:
        raise ConfigError("base", "A helper was given without a base; give both, or only a base.")
    if base is not None:
        if model_set is not None:
            raise ConfigError("models", f"Name a model set ({model_set}) or your own base ({base}), not both.")
        return _own_pair(_expanded(base), helper and _expanded(helper), device, say)
    name = model_set or DEFAULT_MODEL_SET
    if name not in MODEL_SETS:
        raise ConfigError("models", f"There is no model set {name!r}; known: {', '.join(MODEL_SETS)}.")
    if name == "lab":
        return load_lab(LAB_FOLDER, device, say)
    folder = ensure_smollm2(say)
    say("loading weights")
    loaded = load_model(str(folder), "base", device, shown="SmolLM2-135M-Instruct", note="dequantised from GGUF Q4_1")
    return Pair(name, loaded, loaded, MODEL_SETS[name].note)


def load_lab(folder: Path, device: str | None = None, say: Progress = print) -> Pair:
    """The bundled tiny models: ``base``, ``helper`` and ``prm`` below ``folder``. They run on the CPU: a GPU would only add delays."""
    where = device or "cpu"
    for part in ("base", "helper", "prm"):
        if not (folder / part / "model.safetensors").is_file():
            raise ConfigError("models", f"The lab's {part} is missing in {folder.name}; make the models with: python -m kvrescue lab train --all")
    say("loading the lab's models")
    base, helper, judge = (load_model(str(folder / part), part, where, shown=f"lab-{part}") for part in ("base", "helper", "prm"))
    return Pair("lab", base, helper, MODEL_SETS["lab"].note, Prm(judge, Calibration.read(folder / "prm")), read_estimator(folder / "estimator"))


def lab_fingerprint(folder: Path = LAB_FOLDER) -> str:
    """Changes when any of the lab's models does."""
    found = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.suffix == ".safetensors" or file.name == CALIBRATION_FILE:
            found.update(file.relative_to(folder).as_posix().encode() + file.read_bytes())
    return found.hexdigest()[:12]


def read_estimator(folder: Path) -> Head | None:
    return Head.read(folder) if (folder / WEIGHTS).is_file() else None


def _threads(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 1024:
        raise ConfigError("KVRESCUE_THREADS", f"KVRESCUE_THREADS is {text!r}; allowed: a whole number from 1 to 1,024.")
    return int(text)


def _own_pair(base: str, helper: str | None, device: str | None, say: Progress) -> Pair:
    say("loading the base")
    first = load_model(base, "base", device)
    if helper is None or _same_place(base, helper):
        return Pair("own", first, first, "Base and helper are the same weights: only their memory differs.")
    say("loading the helper")
    return Pair("own", first, load_model(helper, "helper", device))


def _expanded(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~") else path


def _same_place(one: str, other: str) -> bool:
    if Path(one).is_dir() and Path(other).is_dir():
        return Path(one).resolve() == Path(other).resolve()
    return one == other


def load_model(path: str, field: str, device: str | None = None, *, shown: str | None = None, note: str = "") -> Loaded:
    """One model and its tokenizer from a folder or a hub id; ``field`` names it in errors, ``shown`` on the page."""
    name = shown or (Path(path).name if Path(path).is_dir() else path)
    check_files(path, field)
    config = check_config(path, field, name)
    tokenizer = check_tokenizer(path, field, name)
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.float32 if where == "cpu" else torch.bfloat16
    try:
        read: Any = AutoModelForCausalLM.from_pretrained(
            path,
            config=config,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            attn_implementation=attention.NAME,
            output_loading_info=True,
        )
    except Exception as error:  # a damaged file raises whatever its reader raises
        raise ConfigError(field, f"The weights of {name} could not be read: {_first_line(error)}") from None
    model, report = read
    if report["missing_keys"]:
        # transformers would fill them with random numbers and only log it.
        example = min(report["missing_keys"])
        raise ConfigError(field, f"The weights of {name} are incomplete: {len(report['missing_keys'])} tensors are missing, such as {example}.")
    return wrap(model.to(where), tokenizer, name, note)


def _first_line(error: Exception) -> str:
    line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return line[:200].rstrip(".") + "."


def wrap(model: PreTrainedModel, tokenizer: Any, name: str, note: str = "") -> Loaded:
    """A model in memory as the engine wants it."""
    model.eval()
    model.requires_grad_(False)
    config = model.config
    info = ModelInfo(
        id=name,
        architecture=config.model_type,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        layers=config.num_hidden_layers,
        kv_heads=config.num_key_value_heads,
        query_heads=config.num_attention_heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        vocab=config.vocab_size,
        dtype=str(model.dtype).removeprefix("torch."),
        device=str(model.device),
        note=note,
    )
    return Loaded(model, tokenizer, info)


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
