"""What a run works with: models, prompts, caches and judge. Everything that can be refused is refused here, before any compute."""

from __future__ import annotations

from kvrescue.cache.evicting import EvictingCache
from kvrescue.cache.policies import make_policy
from kvrescue.cache.prefix import PrefixCache
from kvrescue.cache.shape import CacheShape
from kvrescue.config import ConfigError, RunConfig, Source
from kvrescue.engine.methods import PARTS
from kvrescue.engine.proposer import Proposer, prompt_ids
from kvrescue.models.load import Loaded, Pair, vocabularies_agree
from kvrescue.presets import check_language
from kvrescue.reco.controller import Controller
from kvrescue.reco.reflection import reflection_tokens
from kvrescue.rewards.base import Scorer
from kvrescue.rewards.make import make_scorer, scoring_model
from kvrescue.stop import Stop

_PROBE_ROOM = 192
"""Tokens of a closing prompt and its answer."""
_LEAST_ROOM = 16
"""A prompt must leave at least this many tokens of the model's context for the answer."""


class Setup:
    def __init__(self, problem: str, config: RunConfig, pair: Pair, stop: Stop, scorer: Scorer | None) -> None:
        check_language(pair.name, problem)
        self.problem, self.config, self.pair, self.stop = problem, config, pair, stop
        self.parts = PARTS[config.method]
        self.scorer: Scorer | None = scorer or make_scorer(config, pair, problem)
        self.by_ids = pair.same_weights or vocabularies_agree(pair.base, pair.helper)
        self.judge = scoring_model(config, pair)
        self.judge_by_ids = self.judge is None or vocabularies_agree(pair.base, self.judge)
        self.prompts = {source: self._prompt(source, self._loaded(source)) for source in self.parts.sources}
        self.judge_prompt = self._prompt("judge", self.judge) if self.judge else []
        protected = len(self.prompts[self.parts.sources[0]]) if config.protect_prompt else 0
        self.control = None if self.parts.control == "none" else Controller(config, self.parts.control == "uniform", protected)
        self.proposers = {source: self._proposer(source) for source in self.parts.sources}
        self.memory = self.proposers[self.parts.sources[0]]
        """The proposer whose memory is shown: the base, or the helper when it is alone."""
        self.opening = self._open_think()

    def _loaded(self, source: Source) -> Loaded:
        return self.pair.base if source == "base" else self.pair.helper

    def _prompt(self, who: str, loaded: Loaded) -> list[int]:
        ids = prompt_ids(loaded, self.problem, self.config.system_prompt, self.config.instruction)
        context = loaded.model.config.max_position_embeddings
        if len(ids) + _LEAST_ROOM > context:
            raise ConfigError("problem", f"The problem takes {len(ids):,} tokens; the {who} reads at most {context - _LEAST_ROOM:,}.")
        return ids

    @property
    def token_limit(self) -> int:
        """Most committed tokens: the setting, or what is left of the shortest context."""
        read = [(self._loaded(source), len(ids)) for source, ids in self.prompts.items()]
        if self.judge:
            read.append((self.judge, len(self.judge_prompt)))
        return min(self.config.max_tokens, *(loaded.model.config.max_position_embeddings - prompt for loaded, prompt in read))

    def _proposer(self, source: Source) -> Proposer:
        loaded, config = self._loaded(source), self.config
        shape = CacheShape.of(loaded.model)
        if not (source == "base" and self.parts.evicting):
            return self._with_reflection(Proposer(source, loaded, PrefixCache(shape), config, self.stop))
        policy, prompt = make_policy(config), len(self.prompts[source])
        if self.control:
            # Nothing is dropped but what a decision after a step drops; until then everything must find room, a probe included.
            most = loaded.model.config.max_position_embeddings if not self.by_ids else prompt + self.token_limit + _PROBE_ROOM
            held = EvictingCache(shape, policy, most, 1, protected=self.control.protected, on_demand=True)
            return self._with_reflection(Proposer(source, loaded, held, config, self.stop))
        protected = prompt if config.protect_prompt else 0
        needed = protected + policy.recent(config.budget) + 1
        if protected and config.budget < needed:
            raise ConfigError("budget", f"budget is {config.budget}; with protect_prompt this problem needs at least {needed} tokens.")
        # As text, a step may take more tokens here than for the model that wrote it.
        longest = prompt + self.token_limit if self.by_ids else None
        cache = EvictingCache(shape, policy, config.budget, config.buffer, longest=longest, protected=protected)
        return Proposer(source, loaded, cache, config, self.stop)

    def _with_reflection(self, proposer: Proposer) -> Proposer:
        if self.parts.control == "reco" and self.config.beta:
            proposer.reflection = reflection_tokens(proposer.loaded.tokenizer, self.config.reflection_words)
        return proposer

    def _open_think(self) -> str:
        """``<think>`` when the chat template itself opens the think block, as R1's does."""
        first = self.parts.sources[0]
        text = str(self._loaded(first).tokenizer.decode(self.prompts[first][-16:]))
        return "<think>" if text.rfind("<think>") > text.rfind("</think>") else ""
