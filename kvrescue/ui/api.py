"""The one public endpoint, ``/solve``: the same run, the same limits and the same sentences as the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import gradio as gr

from kvrescue import presets
from kvrescue.bench.grading import MOST_REFERENCE_CHARS, Kind, graded
from kvrescue.config import ConfigError, check_problem, make_config
from kvrescue.stop import Stop
from kvrescue.ui.backend import Backend


def solve_with(backends: Mapping[str, Backend]) -> Callable[..., dict[str, Any]]:
    """The endpoint over the page's model sets; the first one is the default."""
    usual = next(iter(backends))

    def solve(
        problem: str,
        method: str = "kv-rescue",
        policy: str | None = None,
        budget: int | None = None,
        n: int | None = None,
        seed: int = 0,
        settings: dict[str, Any] | None = None,
        models: str | None = None,
        reference: str = "",
    ) -> dict[str, Any]:
        """Solve a problem and return {"summary": closing event, "text": committed text, "trace": list of all events}.

        `settings` takes any other run setting by name, such as {"tau_ent": 2.0, "max_tokens": 128}. What is left out is the default of the
        model set, which `models` names. With the right answer as `reference`, the summary's `correct` tells whether it was found.
        """
        try:
            if not isinstance(settings or {}, dict):
                raise ConfigError("settings", "settings must be an object of setting names and values.")
            backend = backends.get(models or usual)
            if backend is None:
                raise ConfigError("models", f"models is {models!r}; allowed: {', '.join(backends)}.")
            given = {"method": method, "policy": policy, "budget": budget, "n": n, "seed": seed}
            chosen = {name: value for name, value in given.items() if value is not None}
            usual_values = {**presets.default_settings(backend.model_set, method), **presets.measured_thresholds(backend.model_set, backend.base)}
            config = make_config(**{**usual_values, **(settings or {}), **chosen})
            asked = check_problem(problem)
            backend.check(asked)
            wait_for(backend)
            kind: Kind = "lab" if backend.model_set in presets.LAB_SETS else "math"
            known = str(reference or "").strip()[:MOST_REFERENCE_CHARS]
            events = [event.model_dump(mode="json") for event in graded(backend.run(asked, config, Stop()), known, kind)]
        except ConfigError as error:
            raise gr.Error(str(error), print_exception=False) from None
        text = "".join(event["text"] for event in events if event["type"] == "commit")
        return {"summary": events[-1], "text": text, "trace": events}

    return solve


def wait_for(backend: Backend, seconds: float = 300.0) -> None:
    """Load a model set that nobody has used yet; a failure to load is told by the run."""
    backend.start()
    until = time.monotonic() + seconds
    while not (backend.status().ready or backend.status().error) and time.monotonic() < until:
        time.sleep(0.1)
