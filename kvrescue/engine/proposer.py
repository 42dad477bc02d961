"""One model with its cache: propose N candidate steps in one batch, adopt its own winner or ingest another's.

The evicting base and the full-context helper are the same class with another cache. After :meth:`Proposer.adopt` or
:meth:`Proposer.ingest` the state equals having seen exactly the committed ids: the cache holds them all and ``next_logits``
predict what follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from jinja2 import TemplateError
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream
from torch import Tensor

from kvrescue.cache.evicting import Compaction, EvictingCache
from kvrescue.cache.prefix import PrefixBranch, PrefixCache
from kvrescue.config import SINGLE_CHAIN_METHODS, RunConfig, Source
from kvrescue.engine.sampling import CandidateRng, sample
from kvrescue.engine.steps import StepDetector, boxed_answer, is_empty
from kvrescue.events import Finish
from kvrescue.guards import CandidateGuards, Verdict
from kvrescue.guards.logits import token_entropy
from kvrescue.models.load import Loaded
from kvrescue.reco.early_exit import answer_pieces, hopeless, perplexity
from kvrescue.reco.reflection import penalised
from kvrescue.stop import Stop

Branch = EvictingCache | PrefixBranch

PIECE_TOKENS = 64
"""Longest chunk of one forward while reading: short enough that a stop is felt, long enough to be efficient."""


@dataclass
class Candidate:
    """One proposed step, growing. ``ids`` include the end-of-sequence token when ``finish`` is ``"eos"``."""

    source: Source
    index: int
    ids: list[int] = field(default_factory=list)
    text: str = ""
    entropies: list[float] = field(default_factory=list)
    finish: Finish | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    """What tripped, in order; the last one is why it was aborted if ``finish`` is ``"aborted"``."""
    duplicate_of: tuple[Source, int] | None = None
    branch: Branch | None = None
    """Its cache, without its last token."""

    @property
    def empty(self) -> bool:
        return is_empty(self.text)

    @property
    def eligible(self) -> bool:
        """May be scored and chosen: complete, and with text unless it ends the answer."""
        return self.finish in ("delimiter", "length", "eos") and (not self.empty or self.finish == "eos")


@dataclass
class Growth:
    """What one forward added to one candidate."""

    candidate: Candidate
    text: str
    entropy: float
    ratios: list[tuple[int, float]]
    verdict: Verdict | None
    suppressed: tuple[int, str, str] | None = None
    """(tokens so far, what would have been written, what was) when the penalty changed the token."""


@dataclass
class Probed:
    """What a model answers when it is asked to finish now. Nothing of it is committed yet."""

    candidate: Candidate
    """Closing prompt and answer as a step, ready to be adopted."""
    written: int
    """Tokens of it that the model wrote."""
    answer: str
    perplexity: float | None


class _Writer:
    """A candidate with what is needed to continue it."""

    def __init__(self, candidate: Candidate, config: RunConfig, step: int, limit: int, eos: frozenset[int]) -> None:
        self.candidate = candidate
        self._config, self._limit, self._eos = config, limit, eos
        self._rng = CandidateRng(config.seed, step, candidate.source, candidate.index)
        self._stream = DecodeStream(skip_special_tokens=True)
        self._detector = StepDetector(config.delimiter)
        self._guards = CandidateGuards(config)
        # A single chain has nobody to take over: it is flagged and goes on.
        self._aborts = config.early_exit and candidate.source == "base" and config.method not in SINGLE_CHAIN_METHODS
        self.greedy = config.temperature == 0 or (config.greedy_first and candidate.index == 0)

    def uniform(self) -> float:
        return self._rng.uniform()

    def push(self, token: int, entropy: float, tokenizer: Tokenizer) -> Growth:
        cand = self.candidate
        cand.ids.append(token)
        cand.entropies.append(entropy)
        added = "" if token in self._eos else self._stream.step(tokenizer, token) or ""
        cand.text += added
        verdict = self._guards.update(entropy, cand.text)
        if verdict is not None:
            cand.verdicts.append(verdict)
        cand.finish = self._finish(token, added, verdict)
        return Growth(cand, added, entropy, self._guards.drain_ratios(), verdict)

    def _finish(self, token: int, added: str, verdict: Verdict | None) -> Finish | None:
        ended = self._detector.update(added)
        if verdict is not None and self._aborts:
            return "aborted"
        if token in self._eos:
            return "eos"
        if ended:
            return "delimiter"
        return "length" if len(self.candidate.ids) >= self._limit else None


class Proposer:
    """``source`` is its name in events; ``loaded`` the model; ``cache`` what it remembers."""

    def __init__(self, source: Source, loaded: Loaded, cache: EvictingCache | PrefixCache, config: RunConfig, stop: Stop) -> None:
        self.source, self.loaded, self.cache, self.config, self._stop = source, loaded, cache, config, stop
        self.next_logits: Tensor | None = None
        self.evictions: list[Compaction] = []
        """Compactions since the owner last emptied the list."""
        self._tokenizer = loaded.tokenizer.backend_tokenizer
        self._eos = eos_ids(loaded)
        self.reflection: dict[int, str] = {}
        """Tokens that :attr:`penalty` is taken from: id -> text."""
        self.penalty = 0.0
        """Logits, for the next step."""

    def feed(self, ids: Sequence[int]) -> Iterator[int]:
        """Read committed ids, in chunks that never overfill the cache; yields how many are read so far."""
        done = 0
        while done < len(ids):
            self._stop.check()
            branch = self.cache.grow()
            size = min(PIECE_TOKENS, len(ids) - done, branch.room)
            logits = self._forward(branch, torch.tensor([list(ids[done : done + size])]))
            self.cache = self.cache.adopt(branch)  # type: ignore[arg-type]
            self.next_logits = logits
            done += size
            yield done

    def ingest(self, ids: Sequence[int]) -> None:
        for _ in self.feed(ids):
            pass

    def adopt(self, candidate: Candidate) -> None:
        """Commit this proposer's own candidate: its cache is taken over, only its last token is still to be read."""
        assert candidate.source == self.source and candidate.branch is not None
        self.cache = self.cache.adopt(candidate.branch)  # type: ignore[arg-type]
        self.ingest(candidate.ids[-1:])

    def propose(self, step: int, candidates: list[Candidate], limit: int) -> Iterator[list[Growth]]:
        """Grow ``candidates`` (new ones, indices 0..N-1) in lockstep until each has finished, at most ``limit`` tokens each.

        Yields after every forward what each live row gained. A finished or aborted row leaves the batch at once.
        """
        assert self.next_logits is not None
        writers = [_Writer(candidate, self.config, step, limit, self._eos) for candidate in candidates]
        branch: Branch = self.cache.fork(len(writers))
        logits = self.next_logits.expand(len(writers), -1)
        while True:
            self._stop.check()
            grown = self._extend(writers, logits)
            going = [row for row, writer in enumerate(writers) if writer.candidate.finish is None]
            for row, writer in enumerate(writers):
                if writer.candidate.finish in ("delimiter", "eos", "length"):
                    writer.candidate.branch = branch.select([row])
            yield grown
            if not going:
                return
            branch = branch.select(going)
            writers = [writers[row] for row in going]
            logits = self._forward(branch, torch.tensor([[writer.candidate.ids[-1]] for writer in writers]))

    def _extend(self, writers: list[_Writer], logits: Tensor) -> list[Growth]:
        entropies = token_entropy(logits).tolist()
        uniforms = [writer.uniform() for writer in writers]
        lowered = penalised(logits, list(self.reflection), self.penalty, self.config.temperature)
        tokens = self._sample(writers, logits if lowered is None else lowered, uniforms)
        grown = [writer.push(token, entropy, self._tokenizer) for writer, token, entropy in zip(writers, tokens, entropies, strict=True)]
        if lowered is not None:
            self._mark_suppressed(grown, tokens, self._sample(writers, logits, uniforms))
        return grown

    def _sample(self, writers: list[_Writer], logits: Tensor, uniforms: list[float]) -> list[int]:
        tokens = sample(logits, uniforms, self.config.temperature, self.config.top_p)
        if self.config.greedy_first and self.config.temperature and writers[0].greedy:
            tokens[0] = int(logits[0].argmax())
        return tokens

    def _mark_suppressed(self, grown: list[Growth], tokens: list[int], otherwise: list[int]) -> None:
        """Where the same random numbers would have drawn a reflection word without the penalty."""
        for growth, token, other in zip(grown, tokens, otherwise, strict=True):
            if other != token and other in self.reflection:
                growth.suppressed = (len(growth.candidate.ids), self.reflection[other], str(self.loaded.tokenizer.decode([token])))

    # --- asking for the answer ----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def probe(self, closing: Sequence[int], most: int, tau_p: float) -> Probed:
        """Append ``closing`` to a copy of the cache and write the answer greedily, without penalty; this proposer stays as it is. It is given up,
        as incomplete, once its perplexity can't come down to ``tau_p`` any more.

        The perplexity is over the tokens behind the opening brace up to its matching brace (early_exit.py).
        """
        assert self.next_logits is not None
        candidate = Candidate(self.source, 0, finish="probe", branch=self.cache.fork(1))
        noted = list(self.evictions)
        stream = DecodeStream(skip_special_tokens=True)
        logits = self.next_logits
        left = list(closing)
        while left:
            assert candidate.branch is not None
            size = min(PIECE_TOKENS, len(left), candidate.branch.room)
            logits = self._take(candidate, logits, left[:size], stream)
            left = left[size:]
        written, log_probs = list[str](), list[float]()
        end = None
        while end is None:
            token = int(logits[0].argmax())
            if token in self._eos:
                break
            log_probs.append(float(logits[0].float().log_softmax(-1)[token]))
            before = len(candidate.text)
            self._take(candidate, logits, [token], stream, read=False)
            written.append(candidate.text[before:])
            end = answer_pieces(written)
            if len(written) == most or hopeless(log_probs, most, tau_p):
                break  # the last token is never read: whoever adopts the answer reads it
            if end is None:
                logits = self._read(candidate, [token])
        self.evictions = noted  # what a copy lost is no loss
        answer = boxed_answer(candidate.text) if end is not None else None
        return Probed(candidate, len(written), answer or "", perplexity(log_probs[:end]) if end else None)

    def _take(self, candidate: Candidate, logits: Tensor, ids: list[int], stream: DecodeStream, read: bool = True) -> Tensor:
        """Put ids behind a probe's candidate; with ``read`` its cache follows. Forced tokens count no entropy but the first's."""
        candidate.ids += ids
        candidate.entropies += token_entropy(logits).tolist() + [0.0] * (len(ids) - 1)
        candidate.text += "".join(stream.step(self._tokenizer, token) or "" for token in ids)
        return self._read(candidate, ids) if read else logits

    def _read(self, candidate: Candidate, ids: list[int]) -> Tensor:
        self._stop.check()
        assert candidate.branch is not None
        return self._forward(candidate.branch, torch.tensor([ids]))

    def retain(self, keep: int) -> None:
        """Compact the committed cache to ``keep`` tokens (ReCo)."""
        assert isinstance(self.cache, EvictingCache)
        self.cache.retain(keep)
        self.evictions.extend(self.cache.compactions)
        self.cache.compactions.clear()

    @torch.no_grad()
    def _forward(self, branch: Branch, ids: Tensor) -> Tensor:
        """Run (rows, q) ids behind the branch; logits of the last position (rows, vocab)."""
        logits = forward(self.loaded, branch, ids, keep=1)[:, -1, : self.loaded.known]
        branch.advance(ids.shape[1])
        self.evictions.extend(branch.compactions)
        branch.compactions.clear()
        return logits


def forward(loaded: Loaded, branch: Branch, ids: Tensor, keep: int = 0) -> Tensor:
    """Logits (rows, q or ``keep``, vocab) of ids at the branch's next logical positions. The caller advances the branch."""
    device = loaded.model.device
    positions = torch.arange(branch.seen, branch.seen + ids.shape[1], device=device).expand(ids.shape[0], -1)
    output = loaded.model(input_ids=ids.to(device), position_ids=positions, cache=branch, kv=branch, logits_to_keep=keep)
    return output.logits


def eos_ids(loaded: Loaded) -> frozenset[int]:
    """Every token that ends an answer: the model's generation config and the tokenizer's own."""
    configured = getattr(loaded.model.generation_config, "eos_token_id", None)
    listed = configured if isinstance(configured, list) else [configured]
    return frozenset(int(token) for token in [*listed, loaded.tokenizer.eos_token_id] if token is not None)


def prompt_ids(loaded: Loaded, problem: str, system_prompt: str, instruction: str = "") -> list[int]:
    """The problem, with an ``instruction`` behind it, in the model's own chat template; plain text when it has none."""
    tokenizer = loaded.tokenizer
    problem = f"{problem}\n\n{instruction}" if instruction else problem
    turns = [{"role": "system", "content": system_prompt}] if system_prompt else []
    turns.append({"role": "user", "content": problem})
    if tokenizer.chat_template:
        try:
            text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        except TemplateError:
            # Some templates know no system turn: its text opens the user's turn then.
            merged = [{"role": "user", "content": "\n\n".join(turn["content"] for turn in turns)}]
            text = tokenizer.apply_chat_template(merged, tokenize=False, add_generation_prompt=True)
        return list(tokenizer.encode(text, add_special_tokens=False))
    return list(tokenizer.encode("\n\n".join(turn["content"] for turn in turns) + "\n\n"))


def pieces(loaded: Loaded, ids: Sequence[int], skip_special: bool = False) -> list[str]:
    """One readable piece per token; joined they are the text. A token inside a character is the empty string."""
    stream = DecodeStream(skip_special_tokens=skip_special)
    return [stream.step(loaded.tokenizer.backend_tokenizer, token) or "" for token in ids]
