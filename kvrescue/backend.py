"""The page's backend on real models: they load in a background thread while the page is already up."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvrescue.config import ConfigError, RunConfig
from kvrescue.events import AnyEvent
from kvrescue.opening import Opening
from kvrescue.presets import Choice, check_language
from kvrescue.stop import Stop
from kvrescue.ui.backend import BackendStatus

if TYPE_CHECKING:
    from kvrescue.models.load import Pair

log = logging.getLogger(__name__)


class ModelBackend:
    """See :class:`kvrescue.ui.backend.Backend`."""

    def __init__(self, choice: Choice | str | None = None) -> None:
        """``choice``: which models, or a model set's name; None for the default set. ConfigError for a set that does not exist."""
        self._choice = choice if isinstance(choice, Choice) else Choice(choice)
        self.model_set = self._choice.known_set
        self._pair: Pair | None = None
        self._status = BackendStatus(ready=False, text="starting")
        self._started = threading.Lock()

    def start(self) -> None:
        if self._started.acquire(blocking=False):  # never released: loading begins once
            threading.Thread(target=self._load, name="load-models", daemon=True).start()

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
        from kvrescue.engine.run import run

        return run(problem, config, self._pair, stop, opening=opening)

    def _load(self) -> None:
        try:
            self._say("importing the engine")
            from kvrescue.models.load import load

            pair = load(self._choice, progress=self._say)
        except ConfigError as error:
            self._status = BackendStatus(ready=False, text="no models", error=str(error))
        except Exception as error:  # the page must say so instead of waiting for ever
            log.error("loading failed: %s\n%s", type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
            self._status = BackendStatus(ready=False, text="no models", error=f"The models could not be loaded ({type(error).__name__}).")
        else:
            names = pair.base.info.id if pair.same_weights else f"{pair.base.info.id} + {pair.helper.info.id}"
            self._pair = pair
            self._status = BackendStatus(ready=True, text="ready", models=names, note=pair.note, device=pair.base.info.device)

    def _say(self, text: str) -> None:
        self._status = BackendStatus(ready=False, text=text)
