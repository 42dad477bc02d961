"""What happens after a step: the identity controller lets everything be, ReCo's turns the reward into three decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kvrescue.config import RunConfig
from kvrescue.reco.early_exit import ExitWatch
from kvrescue.reco.reflection import Band, band_of, penalty_of
from kvrescue.reco.retention import FLAT, asked_ratio, tokens_to_keep

Reason = Literal["reward", "flat", "uniform"]


@dataclass(frozen=True)
class Retention:
    """Keep ``target`` of the ``length`` tokens that the ratio is of."""

    asked: float
    length: int
    target: int
    reason: Reason
    """What set the ratio: the reward; rewards that do not differ yet; or a fixed ratio."""


@dataclass(frozen=True)
class Directive:
    retention: Retention | None = None
    penalty: float = 0.0
    band: Band | None = None
    """Of the reward; None without one."""
    probe: bool = False


@dataclass
class Controller:
    """One trajectory's control. ``uniform`` holds the ratio and switches the other two off."""

    config: RunConfig
    uniform: bool = False
    protected: int = 0
    """Tokens of the prompt that are never dropped; they count in what is kept."""
    rewards: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._exit = ExitWatch(self.config.tau_h, self.config.max_probes if self._asks else 0)

    @property
    def _asks(self) -> bool:
        return self.config.tau_p > 0 and not self.uniform

    def retain(self, seen: int, resident: int, grown: int) -> Retention | None:
        """The decision about memory; None while fewer than S tokens were added since the last one.

        ``seen`` and ``resident`` tokens of the cache, ``grown`` since the last compaction.
        """
        config = self.config
        if grown < config.reco_every:
            return None
        delta = 0.0 if self.uniform else config.delta
        asked = asked_ratio(self.rewards, config.retention_ratio, delta)
        length = seen if config.ratio_of == "logical" else resident
        target = tokens_to_keep(asked, length, self.protected + config.window + 1)
        flat = not self.rewards or max(self.rewards) - min(self.rewards) < FLAT
        return Retention(asked, length, target, "uniform" if not delta else "flat" if flat else "reward")

    def after_step(self, reward: float | None, seen: int, resident: int, grown: int) -> Directive:
        """``reward`` of the step that was just committed; None when its judge gave no number."""
        if reward is not None:
            self.rewards.append(reward)
        retention = self.retain(seen, resident, grown)
        if reward is None or self.uniform:
            return Directive(retention, probe=self._exit.see(reward))
        band = band_of(reward, self.config.tau_l, self.config.tau_h)
        return Directive(retention, penalty_of(band, self.config.beta), band, self._exit.see(reward))
