"""The one public endpoint, ``/solve``: the same run, the same limits and the same sentences as the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr

from kvrescue import presets
from kvrescue.config import ConfigError, check_problem, make_config
from kvrescue.stop import Stop
from kvrescue.ui.backend import Backend


def solve_with(backend: Backend) -> Callable[..., dict[str, Any]]:
    defaults = presets.default_settings(backend.model_set)

    def solve(
        problem: str,
        method: str = "kv-rescue",
        policy: str = "rkv",
        budget: int = 64,
        n: int = 2,
        seed: int = 0,
        settings: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Solve a problem and return {"summary": closing event, "text": committed text, "trace": list of all events}.

        `settings` takes any other run setting by name, such as {"tau_ent": 2.0, "max_tokens": 128}.
        """
        try:
            if not isinstance(settings or {}, dict):
                raise ConfigError("settings", "settings must be an object of setting names and values.")
            given = {**defaults, **(settings or {}), "method": method, "policy": policy, "budget": budget, "n": n, "seed": seed}
            events = [event.model_dump(mode="json") for event in backend.run(check_problem(problem), make_config(**given), Stop())]
        except ConfigError as error:
            raise gr.Error(str(error), print_exception=False) from None
        text = "".join(event["text"] for event in events if event["type"] == "commit")
        return {"summary": events[-1], "text": text, "trace": events}

    return solve
