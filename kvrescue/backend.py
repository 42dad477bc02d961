"""The page's backend on real models: they load in a background thread while the page is already up."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvrescue import zero
from kvrescue.config import ConfigError, RunConfig
from kvrescue.events import AnyEvent
from kvrescue.opening import Opening
from kvrescue.presets import LAB_SETS, Choice, check_language
from kvrescue.stop import Stop
from kvrescue.ui.backend import NOT_LOADED, BackendStatus

if TYPE_CHECKING:
    from kvrescue.models.load import Pair

log = logging.getLogger(__name__)


def free_memory() -> None:
    """Hand what nobody holds any more back to the system and to the GPU."""
    import gc

    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class ModelBackend:
    """See :class:`kvrescue.ui.backend.Backend`."""

    def __init__(self, choice: Choice | str | None = None) -> None:
        """``choice``: which models, or a model set's name; None for the default set. ConfigError for a set that does not exist."""
        self._choice = choice if isinstance(choice, Choice) else Choice(choice)
        self.model_set = self._choice.known_set
        self.base = self._choice.base
        self._pair: Pair | None = None
        self._status = BackendStatus(ready=False, text=NOT_LOADED)
        self._started = threading.Lock()
        """Held from the beginning of loading until the models are given back: loading begins once."""
        self._runs = 0
        self.lent = zero.ACTIVE and self.model_set not in LAB_SETS
        """The models run on a GPU that ZeroGPU lends."""

    def start(self) -> None:
        """Begin to load, in a thread of its own. Where the GPU is lent only the main thread may: there it has loaded when this returns."""
        if not self._started.acquire(blocking=False):
            return
        self._say("starting")
        if self.lent:
            self._load()
        else:
            threading.Thread(target=self._load, name="load-models", daemon=True).start()

    def release(self) -> bool:
        """Give the models' memory back, unless they are being loaded or a run goes on; True when it was done. ``start`` loads them again."""
        if self._pair is None or self._runs or self.lent:
            return False
        self._status = BackendStatus(ready=False, text=NOT_LOADED)
        self._pair = None
        free_memory()
        self._started.release()
        return True

    @property
    def name(self) -> str:
        return self.model_set or "own"

    def status(self) -> BackendStatus:
        return self._status

    def count_tokens(self, problem: str) -> int | None:
        if self._pair is None:
            return None
        return len(self._pair.base.tokenizer.encode(problem, add_special_tokens=False))

    def check(self, problem: str) -> None:
        check_language(self.model_set, problem)

    def run(self, problem: str, config: RunConfig, stop: Stop, opening: Opening | None = None) -> Iterator[AnyEvent]:
        if self._pair is None:
            raise ConfigError("models", self._status.error or f"The models are not ready yet ({self._status.text}); try again in a moment.")
        return self._counted(self._run(problem, config, stop, opening))

    def _run(self, problem: str, config: RunConfig, stop: Stop, opening: Opening | None) -> Iterator[AnyEvent]:
        if self.lent:
            return zero.run_in_segments(self.name, problem, config, stop, opening)
        from kvrescue.engine.run import run

        assert self._pair is not None
        return run(problem, config, self._pair, stop, opening=opening)

    def _counted(self, events: Iterator[AnyEvent]) -> Iterator[AnyEvent]:
        self._runs += 1
        try:
            yield from events
        finally:
            self._runs -= 1

    def _load(self) -> None:
        try:
            self._say("importing the engine")
            from kvrescue.models.load import load

            pair = load(self._choice, progress=self._say)
        except ConfigError as error:
            self._failed(str(error))
        except Exception as error:  # the page must say so instead of waiting for ever
            log.error("loading failed: %s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
            self._failed(f"The models could not be loaded ({type(error).__name__}).")
        else:
            names = pair.base.info.id if pair.same_weights else f"{pair.base.info.id} + {pair.helper.info.id}"
            self._pair = pair
            note = pair.note
            if self.lent:
                zero.serve(self.name, pair)
                note = zero.NOTE
            self._status = BackendStatus(ready=True, text="ready", models=names, note=note, device=pair.base.info.device)

    def _failed(self, message: str) -> None:
        """Told, and tried again when somebody asks for the models again."""
        free_memory()  # parts that did fit
        self._status = BackendStatus(ready=False, text="no models", error=message)
        if not self.lent:
            self._started.release()

    def _say(self, text: str) -> None:
        self._status = BackendStatus(ready=False, text=text)
