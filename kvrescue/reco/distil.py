"""``python -m kvrescue train-estimator``: distil any scorer of the project into the light estimator."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kvrescue import presets
from kvrescue.config import ConfigError, check_problem, make_config
from kvrescue.engine.run import run
from kvrescue.models.load import Pair
from kvrescue.reco import head
from kvrescue.reco.estimator import Distiller
from kvrescue.rewards.make import make_scorer

METHODS: tuple[dict[str, Any], ...] = (
    {"method": "kv-rescue", "n": 2, "temperature": 0.8},
    {"method": "evicted-stepwise", "n": 3, "temperature": 0.8},
    {"method": "full", "temperature": 1.0},
)
"""Where the judged steps come from: good ones, bad ones, and many in between."""
MOST_PARAMETERS = 30_000_000
HELD_OUT = 4
"""One problem in so many is kept for measuring."""

Pairs = list[tuple[list[float], float]]


def pairs_of(pair: Pair, teacher: str, problem: str, index: int) -> Pairs:
    """(inputs, teacher's score) of every judged step of one run."""
    model_set = pair.name if pair.name in presets.MODEL_SETS else None
    values = {**presets.default_settings(model_set), **METHODS[index % len(METHODS)], "scorer": teacher, "seed": index}
    config = make_config(**values)
    scorer = make_scorer(config, pair, problem)
    if scorer is None:
        raise ConfigError("teacher", "teacher is 'none'; the estimator needs somebody to learn from.")
    distiller = Distiller(scorer, pair.helper)
    for _event in run(problem, config, pair, scorer=distiller):
        pass
    return distiller.pairs


def read_problems(path: str) -> list[str]:
    """The ``problem`` of every line of a JSONL file."""
    try:
        lines = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()]
        return [check_problem(line["problem"]) for line in lines]
    except OSError as error:
        raise ConfigError("data", f"The file {path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError("data", f"{path} must hold one JSON object with a 'problem' on each line.") from None


def train(pair: Pair, teacher: str, problems: Sequence[str], out: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Collect, fit, measure on held-out problems, write; returns the figures."""
    size = pair.helper.info.parameters
    if size > MOST_PARAMETERS:
        raise ConfigError("helper", f"The helper has {size / 1e6:.0f} M parameters; an estimator reads with at most 30 M, so name a smaller one.")
    if len(problems) < HELD_OUT:
        raise ConfigError("data", f"There are {len(problems)} problems; at least {HELD_OUT} are needed, one of them to measure on.")
    found: list[Pairs] = []
    for index, problem in enumerate(problems):
        found.append(pairs_of(pair, teacher, problem, index))
        if (index + 1) % 10 == 0:
            say(f"{index + 1} of {len(problems)} problems judged")
    return fit_and_write(found, teacher, out)


def fit_and_write(found: Sequence[Pairs], teacher: str, out: Path) -> dict[str, Any]:
    """``found``: the pairs of each problem; every fourth problem is only measured on."""
    kept = [one for index, some in enumerate(found) if index % HELD_OUT for one in some]
    held = [one for index, some in enumerate(found) if not index % HELD_OUT for one in some]
    if not kept or not held:
        raise ConfigError("data", "The teacher judged no step of these problems.")
    fitted = head.fit(kept, teacher)
    figures = {"fitted_on": len(kept), **head.measured(fitted, held)}
    fitted.write(out, figures)
    return figures
