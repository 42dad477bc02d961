"""The event stream: the only door between the engine and everything that shows, stores or measures a run.

One JSON object a line. Every event has ``seq`` (gap-free from 0), ``t_ms`` (since the run began), ``run`` (its id)
and ``type``. A stream begins with ``header`` and ends with ``end`` or ``error``. Times (``t_ms``, ``*seconds``)
are the only fields that differ between two runs with the same seed, models and machine.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from kvrescue.config import Source

SCHEMA_VERSION = 2

GuardName = Literal["entropy", "gzip"]
Finish = Literal["delimiter", "eos", "length", "probe", "aborted", "stopped"]
EndReason = Literal["answer", "early_exit", "eos", "max_tokens", "max_steps", "stopped", "deadline", "paused", "no_candidate"]


class Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    seq: int = Field(default=-1, ge=-1)
    t_ms: int = Field(default=0, ge=0)
    run: str = ""


class ModelInfo(BaseModel):
    """One model of a run, as the header names it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    id: str
    architecture: str
    parameters: int
    layers: int
    kv_heads: int
    query_heads: int
    head_dim: int
    vocab: int
    dtype: str
    device: str
    note: str = ""


class Header(Event):
    type: Literal["header"] = "header"
    schema_version: int = SCHEMA_VERSION
    app_version: str
    problem: str
    reference: str = ""
    """The right answer, where whoever asked knows it."""
    config: dict[str, Any]
    model_set: str = ""
    """Name of the model set, as ``--models`` takes it; empty for somebody's own models."""
    models: dict[str, ModelInfo]
    """Keys ``base`` and/or ``helper``: whatever the method uses, the scorer's model included."""
    same_weights: bool = False
    """Base and helper are the same weights: only their memory differs."""
    scorer: str
    """Who judges, in words: ``"likelihood under helper (full context)"``."""
    reflection: dict[int, str] = {}
    """Base tokens that are suppressed after good steps: id -> text (ReCo)."""
    commit_by: Literal["ids", "text"] = "ids"
    """How steps travel between models: token ids (vocabularies agree) or text, tokenised again."""
    assumptions: list[dict[str, Any]] = []
    environment: dict[str, Any] = {}


class Prompt(Event):
    """The prompt as a source's tokenizer sees it. ``pieces`` (base only) joined give the text, one piece a token."""

    type: Literal["prompt"] = "prompt"
    source: Source
    tokens: int
    pieces: list[str] = []


class Status(Event):
    """What the run is doing now, for the status line."""

    type: Literal["status"] = "status"
    phase: Literal["prefill", "score"]
    source: Source | None = None
    step: int | None = None
    done: int = 0
    total: int = 0


class StepBegin(Event):
    type: Literal["step_begin"] = "step_begin"
    step: int = Field(ge=0)
    penalty: float = 0.0
    """Logits taken from reflection words while this step is written (ReCo)."""
    band: Literal["low", "middle", "high"] | None = None
    """Of the reward of the step before, which set the penalty."""


class TokenRow(BaseModel):
    """New tokens of one candidate since the last ``tokens`` event."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    cand: int
    tokens: int
    """Tokens of the candidate so far (these included)."""
    text: str
    ent: list[float]
    """Entropy of each new token in nats, three significant digits."""
    gzip: list[tuple[int, float]] = []
    """(tokens so far, gzip ratio) for each check in this batch; none before the window is full."""
    suppressed: list[tuple[int, str, str]] = []
    """(tokens so far, what would have been written, what was) where the penalty on reflection words changed the token (ReCo)."""


class Tokens(Event):
    type: Literal["tokens"] = "tokens"
    step: int
    source: Source
    rows: list[TokenRow]


class _Verdict(Event):
    step: int
    source: Source
    cand: int
    guard: GuardName
    position: int
    """Tokens of the candidate when it tripped (the tripping token is number ``position``, counted from 1)."""
    value: float
    threshold: float


class Abort(_Verdict):
    """A base candidate was given up."""

    type: Literal["abort"] = "abort"


class Flag(_Verdict):
    """A candidate tripped a guard and was left alone: a helper's, or any with early exit off. Once per candidate and guard."""

    type: Literal["flag"] = "flag"


class Candidate(Event):
    """A candidate is complete; its text is the sum of its ``tokens`` rows."""

    type: Literal["candidate"] = "candidate"
    step: int
    source: Source
    cand: int
    tokens: int
    finish: Finish
    duplicate_of: tuple[Source, int] | None = None
    """(source, cand) of an earlier candidate of this step with the same tokens: scored once."""
    empty: bool = False


class Score(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    source: Source
    cand: int
    score: float | None
    """In [0, 1]; None when the scorer gave no finite number."""
    detail: dict[str, Any] = {}


class Scores(Event):
    type: Literal["scores"] = "scores"
    step: int
    scorer: str
    scores: list[Score]
    seconds: float


class Evict(Event):
    """One compaction of the base's cache: every layer and KV head went from ``before`` to ``after`` tokens."""

    type: Literal["evict"] = "evict"
    step: int | None
    """None while the prompt is read."""
    during: Literal["prefill", "propose", "commit", "control"]
    policy: str
    rows: int
    """Candidates in the batch (each row was compacted by itself)."""
    before: int
    after: int
    seen: int
    seconds: float


class Commit(Event):
    """The chosen step is now part of the trajectory of every model."""

    type: Literal["commit"] = "commit"
    step: int
    source: Source
    cand: int
    score: float | None
    text: str
    tokens: int
    """Tokens of the step for the model that wrote it."""
    pieces: list[str]
    """The step as tokens of the base's (or the only) model: for the memory view."""
    ids: list[int] = []
    """The step's token ids for the model that wrote it: a continuation reads the same tokens."""
    ended: Finish


class Kv(Event):
    """The base's memory after the prompt and after each commit."""

    type: Literal["kv"] = "kv"
    step: int | None
    seen: int
    resident: int
    peak: int
    budget: int | None
    """None: nothing is evicted, or ReCo decides how much is."""
    bytes: int
    """Bytes of the resident keys and values, from tensor sizes."""
    retention: float
    """resident / seen."""
    map: str
    """Run-length string over positions 0..seen-1: share of (layer, KV head) slots that still hold the token (see rle.py)."""
    layers: list[str] = []
    """The same for each of at most eight groups of neighbouring layers, first layers first; empty while nothing is lost."""


class Resumed(Event):
    """The steps before this are those of an earlier run, read again."""

    type: Literal["resumed"] = "resumed"
    parent: str
    """Id of the run that is continued."""
    steps: int
    tokens: int
    exact: bool | None
    """The base's memory map is the parent's at that step; None when the parent's is not known."""
    seconds: float


class Retain(Event):
    """ReCo's decision about memory after a step, carried out before the next one."""

    type: Literal["retain"] = "retain"
    step: int
    asked: float
    """The share that is to be kept, lambda_i."""
    length: int
    """What it is a share of, in tokens."""
    target: int
    before: int
    """Resident tokens before and after; equal when no more than ``target`` were resident."""
    after: int
    reason: Literal["reward", "flat", "uniform"]


class Probe(Event):
    """ReCo asked for the answer. Accepted: closing prompt and answer became a step, and the run ends. Rejected: nothing changed."""

    type: Literal["probe"] = "probe"
    step: int
    """After this step."""
    text: str
    """Closing prompt and what the model answered."""
    answer: str | None
    perplexity: float | None
    threshold: float
    accepted: bool
    tokens: int
    """That the model wrote; those of the closing prompt are not among them."""
    seconds: float


class Answer(Event):
    type: Literal["answer"] = "answer"
    step: int
    source: Source
    text: str


class SourceCount(BaseModel):
    """Token book-keeping of a source: generated = committed + discarded + aborted."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    generated: int = 0
    committed: int = 0
    discarded: int = 0
    aborted: int = 0
    steps: int = 0
    """Committed steps."""


class _Closing(Event):
    answer: str | None = None
    correct: bool | None = None
    """The answer against the header's reference; None without one, or when the run died."""
    steps: int = 0
    totals: dict[str, SourceCount] = {}
    aborted_candidates: int = 0
    flagged_candidates: int = 0
    evictions: int = 0
    peak_resident: int = 0
    peak_kv_bytes: int = 0
    mean_retention: float = 1.0
    seconds: float = 0.0
    propose_seconds: float = 0.0
    score_seconds: float = 0.0
    evict_seconds: float = 0.0
    probes: int = 0
    probe_tokens: int = 0
    """Written by rejected probes; not among the generated."""
    probe_seconds: float = 0.0
    replayed: int = 0
    """Tokens of steps of an earlier run, read again; they are among the generated and committed ones."""
    suppressed: int = 0
    """Tokens that the penalty on reflection words changed."""


class End(_Closing):
    type: Literal["end"] = "end"
    reason: EndReason


class Error(_Closing):
    """The run died; everything before it is kept. ``message`` is one sentence without the visitor's text."""

    type: Literal["error"] = "error"
    code: str
    message: str


AnyEvent = (
    Header
    | Prompt
    | Status
    | StepBegin
    | Tokens
    | Abort
    | Flag
    | Candidate
    | Scores
    | Evict
    | Commit
    | Kv
    | Resumed
    | Retain
    | Probe
    | Answer
    | End
    | Error
)
_ADAPTER: TypeAdapter[AnyEvent] = TypeAdapter(Annotated[AnyEvent, Field(discriminator="type")])


def to_line(event: Event) -> str:
    """One NDJSON line without the newline. Text stays UTF-8 (not \\u-escaped)."""
    return event.model_dump_json()


def from_line(line: str | bytes) -> AnyEvent:
    """Parse and validate one line; raises pydantic.ValidationError."""
    return _ADAPTER.validate_json(line)


def quantise(value: float) -> float:
    """Three significant digits: enough to plot, short to send."""
    return float(f"{value:.3g}")
