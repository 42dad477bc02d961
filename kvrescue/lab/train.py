"""Train the lab's language models from nothing: one recipe for all of them, only width, depth and the seed differ.

What matters, found by trying: embeddings start at standard deviation 1 (with the usual 0.02 no induction head forms in the time there
is), a curriculum (repeated sequences, then recall in the task's words, then drills mixed with ever more whole stories), and a
learning rate that decays to zero: sums become exact only then. Every model sees the same number of tokens of the same kinds.

Training can be stopped and started again at any time: weights, optimiser and counters are kept as safetensors, and the data of a
step depend on its number alone.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from kvrescue.lab import language, story, texts

Say = Callable[[str], None]


@dataclass(frozen=True)
class Recipe:
    """One model's size and training. ``tokens`` counts everything the model reads in the last phase, prompts included."""

    hidden: int
    layers: int
    heads: int
    seed: int
    tokens: int = 20_000_000
    rate: float = 3e-3
    cycles: int = 1
    """How often the learning rate falls to zero in the last phase."""
    rows: int = 8
    mlp: int | None = None
    """Width of the feed-forward layers, where sums are learned; None: twice ``hidden``."""
    start: str | None = None
    """A part trained before, whose weights this one begins with; it reads whole stories only."""
    wordy: bool = False
    """Stories of solvers who look back often, let their minds wander and end with many words."""
    judge: bool = False
    """It learns to go on behind what a wandering mind wrote, not to expect it."""
    enough: float = 0.93
    """Share of right predictions that ends a preparing phase; a quarter of ``tokens`` ends it in any case."""

    def config(self) -> LlamaConfig:
        return LlamaConfig(  # rotary base 10,000, the library's default
            vocab_size=len(language.vocabulary()),
            hidden_size=self.hidden,
            intermediate_size=self.mlp or 2 * self.hidden,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_key_value_heads=self.heads,
            max_position_embeddings=2048,
            tie_word_embeddings=False,
            bos_token_id=None,
            eos_token_id=language.vocabulary()[language.END],
            pad_token_id=language.vocabulary()[language.PAD],
        )


@dataclass
class Counters:
    phase: int = 0
    step: int = 0
    """In this phase."""
    tokens: int = 0
    """In this phase."""
    seconds: float = 0.0
    all_tokens: int = 0


PHASES = ("repeats", "recall", "stories")
WARM_UP_STEPS = 100


def new_model(recipe: Recipe) -> LlamaForCausalLM:
    torch.manual_seed(recipe.seed)
    model = LlamaForCausalLM(recipe.config())
    torch.nn.init.normal_(model.model.embed_tokens.weight, std=1.0)
    return model


def make_batch(recipe: Recipe, phase: int, step: int, progress: float) -> texts.Batch:
    """The data of one step; ``progress`` in the phase, 0 to 1, moves the mixture from drills to whole stories."""
    rng = random.Random(f"train {recipe.seed} {phase} {step}")
    if phase == 0:
        return texts.repeats(rng, 32)
    if phase == 1:
        return texts.recalls(rng, 24)
    if rng.random() < (0.1 if recipe.start else max(0.1, 0.8 - 0.9 * progress)):
        return texts.drills(rng, 16)
    level = rng.choices(list(story.DIALS.values()), [0.25, 0.4, 0.35])[0]
    return texts.stories(rng, recipe.rows, level, wordy=recipe.wordy, judge=recipe.judge)


def loss_and_hits(model: LlamaForCausalLM, batch: texts.Batch) -> tuple[Tensor, float]:
    """Mean cross entropy of what is to be learned, and the share of it that is predicted right."""
    hidden = model.model(input_ids=batch.ids, use_cache=False).last_hidden_state[:, :-1]
    wanted = batch.labels[:, 1:]
    learn = wanted != texts.SKIP
    logits, targets = model.lm_head(hidden[learn]), wanted[learn]
    return F.cross_entropy(logits, targets), float((logits.argmax(-1) == targets).float().mean())


def train(recipe: Recipe, folder: Path, say: Say, *, start: Path | None = None, save_every: float = 60.0) -> tuple[LlamaForCausalLM, Counters]:
    """Train to the end, from the checkpoint in ``folder`` when there is one. Returns the model and what it took. ``start``: the folder of the
    weights that ``recipe.start`` names."""
    model = LlamaForCausalLM.from_pretrained(start) if start else new_model(recipe)
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.rate, betas=(0.9, 0.98), weight_decay=0.01)
    counters = _resume(folder, recipe, model, optimiser) or Counters(phase=len(PHASES) - 1 if start else 0)
    if counters.all_tokens:
        where = f"phase {counters.phase + 1} of {len(PHASES)}" if counters.phase < len(PHASES) else "nothing is left to train"
        say(f"going on after {counters.all_tokens:,} tokens, {where}")
    smooth, began, saved = 0.0, time.perf_counter(), time.perf_counter()
    model.train()
    while counters.phase < len(PHASES):
        last = counters.phase == len(PHASES) - 1
        progress = counters.tokens / recipe.tokens if last else 0.0
        batch = make_batch(recipe, counters.phase, counters.step, progress)
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate * learning_rate(counters.step if counters.phase == 0 or start else WARM_UP_STEPS, progress * recipe.cycles)
        loss, hits = loss_and_hits(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        smooth += 0.03 * (hits - smooth)
        counters.step += 1
        counters.tokens += batch.tokens
        counters.all_tokens += batch.tokens
        now = time.perf_counter()
        counters.seconds, began = counters.seconds + now - began, now
        if counters.step % 500 == 0:
            done = f"{counters.tokens / 1e6:.2f} M tokens, {counters.seconds:.0f} s in all"
            say(f"{PHASES[counters.phase]} {counters.step:,}: {done}, loss {float(loss):.4f}, right {smooth:.3f}")
        if counters.tokens >= recipe.tokens if last else smooth >= recipe.enough or counters.tokens >= recipe.tokens / 4:
            say(f"{PHASES[counters.phase]} done after {counters.step:,} steps, {counters.seconds:.0f} s in all, right {smooth:.3f}")
            counters.phase, counters.step, counters.tokens, smooth = counters.phase + 1, 0, 0, 0.0
        if now - saved > save_every or counters.phase == len(PHASES):
            _save(folder, recipe, model, optimiser, counters)
            saved = time.perf_counter()
    model.eval()
    return model, counters


def learning_rate(step: int, progress: float) -> float:
    """Linear warm-up at the very beginning, then constant, then a cosine to zero over each cycle of the last phase; ``progress`` in cycles."""
    return min(1.0, (step + 1) / WARM_UP_STEPS) * 0.5 * (1 + math.cos(math.pi * (progress % 1)))


# --- checkpoints ----------------------------------------------------------------------------------------------------------


def _save(folder: Path, recipe: Recipe, model: LlamaForCausalLM, optimiser: torch.optim.Optimizer, counters: Counters) -> None:
    """All in one file, replaced at once, so that a kill leaves the older checkpoint or the newer one."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{name}": value.detach().contiguous() for name, value in model.state_dict().items()}
    for name, parameter in model.named_parameters():
        for key, value in optimiser.state[parameter].items():
            tensors[f"optimiser.{name}.{key}"] = torch.as_tensor(value)
    save_file(tensors, folder / "new.safetensors", {"recipe": json.dumps(asdict(recipe)), "counters": json.dumps(asdict(counters))})
    (folder / "new.safetensors").replace(folder / "checkpoint.safetensors")


def _resume(folder: Path, recipe: Recipe, model: LlamaForCausalLM, optimiser: torch.optim.Optimizer) -> Counters | None:
    file = folder / "checkpoint.safetensors"
    if not file.is_file():
        return None
    from safetensors import safe_open

    with safe_open(file, "pt") as opened:
        notes = opened.metadata()
    if Recipe(**json.loads(notes["recipe"])) != recipe:
        return None  # another recipe was trained here
    tensors = load_file(file)
    model.load_state_dict({name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")})
    for name, parameter in model.named_parameters():
        prefix = f"optimiser.{name}."
        optimiser.state[parameter] = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
    return Counters(**json.loads(notes["counters"]))
