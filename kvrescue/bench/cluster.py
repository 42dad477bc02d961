"""Tasks on a Ray cluster. Ray is optional: it is imported only when it is asked for."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Sequence
from typing import Any

from kvrescue.bench.runner import Ran, Task, Tasks, carry_out
from kvrescue.bench.spread import Loader
from kvrescue.config import ConfigError

_TRIES = 5
"""How often a task is started again after its worker died."""


def on_ray(address: str, load: Loader) -> Tasks:
    """``address`` as ``ray.init`` takes it; ``local`` starts a cluster on this machine. ConfigError with field ``ray``.

    One task uses one CPU (or one GPU where the cluster has some). A worker keeps its models between tasks. A task whose worker died is
    run again from its beginning: its seeds are its own, so the result is the same.
    """
    try:
        import ray
    except ImportError:
        raise ConfigError("ray", "Ray is not installed; install it with: pip install ray") from None
    _reach(address)
    if not ray.is_initialized():
        try:
            ray.init(address=None if address == "local" else address, log_to_driver=False, include_dashboard=False)
        except Exception as error:  # whatever the connection raises
            raise ConfigError("ray", f"There is no Ray cluster at {address!r} ({type(error).__name__}).") from None
    share: dict[str, Any] = {"num_gpus": 1} if ray.cluster_resources().get("GPU") else {"num_cpus": 1}
    remote: Any = ray.remote(max_retries=_TRIES, retry_exceptions=False, **share)(_there)

    def tasks(wanted: Sequence[Task]) -> Iterator[tuple[int, list[Ran]]]:
        running: dict[Any, int] = {}
        waiting = iter(enumerate(wanted))
        ahead = 2 * max(1, int(ray.cluster_resources().get("GPU") or ray.cluster_resources().get("CPU", 1)))
        while True:
            for index, task in waiting:
                running[remote.remote(load, task)] = index
                if len(running) >= ahead:
                    break
            if not running:
                return
            finished, _ = ray.wait(list(running), num_returns=1)
            for one in finished:
                yield running.pop(one), ray.get(one)

    return tasks


def _reach(address: str) -> None:
    """Ray itself would try for minutes."""
    found = re.fullmatch(r"(?:ray://)?([\w.-]+):(\d{1,5})", address)
    if found is None:
        if address not in ("local", "auto"):
            raise ConfigError("ray", f"ray is {address!r}; allowed: HOST:PORT, auto, or local.")
        return
    try:
        socket.create_connection((found[1], int(found[2])), timeout=5).close()
    except (OSError, OverflowError):
        raise ConfigError("ray", f"There is no Ray cluster at {address!r}.") from None


_kept: dict[str, Any] = {}
"""This worker's models."""


def _there(load: Loader, task: Task) -> list[Ran]:
    import torch

    torch.set_num_threads(1)
    if "pair" not in _kept:
        _kept["pair"] = load()
    return carry_out(_kept["pair"], task)
