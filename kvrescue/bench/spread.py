"""Many runs at once, in processes of their own: each loads the models once and works through tasks with one thread."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import torch

from kvrescue.models.load import LAB_FOLDER, Pair, load_lab

T = TypeVar("T")
R = TypeVar("R")
Loader = Callable[[], Pair]
"""Something that can be sent to another process and gives the models there."""


def quiet(_text: str) -> None:
    pass


def lab_loader(folder: Path = LAB_FOLDER, model_set: str = "lab") -> Loader:
    return functools.partial(load_lab, folder, say=quiet, model_set=model_set)


_pair: Pair | None = None


def _start(load: Loader) -> None:
    global _pair
    torch.set_num_threads(1)
    _pair = load()


def _call(work: Callable[[Pair, Any], Any], task: Any) -> Any:
    assert _pair is not None
    return work(_pair, task)


def completed(work: Callable[[Pair, T], R], tasks: Sequence[T], load: Loader, workers: int | None = None) -> Iterator[tuple[int, R]]:
    """(index, ``work(pair, task)``) of every task as soon as it is done, in any order. ``work`` is a module's function.

    ``workers`` processes of one thread each (default: one a core); with one worker everything happens in this process.
    """
    workers = min(len(tasks), workers or os.cpu_count() or 1)
    if workers <= 1:
        if tasks:
            pair = load()
            yield from ((index, work(pair, task)) for index, task in enumerate(tasks))
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), _start, (load,)) as pool:
        waiting = iter(enumerate(tasks))
        running: dict[Future[R], int] = {}
        try:
            while True:
                # Few are handed out ahead, so that a stop does not have to wait for many.
                for index, task in waiting:
                    running[pool.submit(_call, work, task)] = index
                    if len(running) >= 2 * workers:
                        break
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        finally:
            for future in running:
                future.cancel()


def spread(
    work: Callable[[Pair, T], R], tasks: Sequence[T], workers: int | None = None, folder: Path = LAB_FOLDER, model_set: str = "lab"
) -> Iterator[R]:
    """Results of the lab's models in the order of ``tasks``."""
    early: dict[int, R] = {}
    wanted = 0
    for index, result in completed(work, tasks, lab_loader(folder, model_set), workers):
        early[index] = result
        while wanted in early:
            yield early.pop(wanted)
            wanted += 1
