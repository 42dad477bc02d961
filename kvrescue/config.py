"""RunConfig: every setting of a run, validated before any compute.

This module imports neither torch nor the page, so that the page, the command line and the API share one
set of rules and one wording of every error. A field whose value the papers do not give carries
``assumption=...``: the page's assumptions panel and the trace header are made from these notes.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Method = Literal["full", "evicted", "evicted-stepwise", "helper", "kv-rescue", "reco-uniform", "reco", "reco+rescue"]
PolicyName = Literal["snapkv", "snapkv-decode", "rkv", "streaming-llm", "h2o", "tova", "keydiff", "knorm"]
ScorerName = Literal["prm", "estimator", "likelihood", "rule", "checker", "none"]
Source = Literal["base", "helper"]

METHODS: tuple[str, ...] = get_args(Method)
POLICIES: tuple[str, ...] = get_args(PolicyName)
SCORERS: tuple[str, ...] = get_args(ScorerName)
SINGLE_CHAIN_METHODS = ("full", "evicted", "helper", "reco-uniform", "reco")
"""Methods that write one candidate a step, so that nothing is chosen and `n` has no meaning."""
JUDGED_METHODS = ("evicted-stepwise", "kv-rescue", "reco", "reco+rescue")
"""Methods that need a reward for every step."""
EVICTING_METHODS = ("evicted", "evicted-stepwise", "kv-rescue")
"""Methods whose base keeps at most ``budget`` tokens after a compaction."""
RECO_METHODS = ("reco-uniform", "reco", "reco+rescue")
"""Methods whose base keeps a share of its tokens that is decided after a step."""

MAX_PROBLEM_CHARS = 8_000
MOST_WORDS_CHARS = 500
CLOSING_PROMPT = "Okay, I think I have finished thinking.\n</think>\n\n**Final Answer**\n\\boxed{"
DEFAULT_SYSTEM_PROMPT = "Please reason step by step, and put your final answer within \\boxed{}."


class ConfigError(ValueError):
    """Bad input, told in one sentence that names the field, the value and what is allowed.

    ``field`` is the RunConfig field (or ``problem``, ``base``, ``helper``, ...) so that a page can point at it.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def _note(default: Any, text: str, *, assumption: str | None = None, **limits: Any) -> Any:
    extra: dict[str, Any] | None = {"assumption": assumption} if assumption else None
    return Field(default=default, description=text, json_schema_extra=extra, **limits)


class RunConfig(BaseModel):
    """All settings of one run. Frozen; JSON round trip is ``model_dump()`` / :func:`make_config`.

    Units: budget, buffer, windows and caps in tokens unless the name says otherwise; entropy in nats.
    Defaults follow algorithms: R-KV's window and kernel, KV-Rescue's argmax over 2N candidates.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, strict=False)

    method: Method = _note("kv-rescue", "Which parts take turns: see engine/methods.py")
    # What the base model may remember.
    policy: PolicyName = _note(
        "rkv", "Eviction policy of the base model's cache", assumption="the paper names SnapKV and R-KV; which variant is ours"
    )
    budget: int = _note(64, "Tokens kept per layer and KV head right after an eviction", ge=4, le=32_768)
    buffer: int = _note(
        32,
        "Tokens that may pile up on top of the budget before the next eviction",
        ge=1,
        le=4_096,
        assumption="whether the buffer counts in B is not stated; here resident tokens stay within budget + buffer",
    )
    window: int = _note(8, "Newest tokens that are always kept and whose queries judge the others", ge=1, le=512)
    kernel: int = _note(7, "Pooling kernel along the sequence for SnapKV and R-KV (odd)", ge=1, le=63)
    rkv_lambda: float = _note(0.1, "R-KV: weight of importance against redundancy", ge=0, le=1)
    sinks: int = _note(4, "StreamingLLM: first tokens that are always kept", ge=0, le=64)
    protect_sink: int = _note(0, "KeyDiff and Knorm: first tokens that are always kept", ge=0, le=64)
    protect_prompt: bool = _note(False, "Never evict the prompt", assumption="whether the prompt is evictable is not stated; here it is")
    # Who proposes, and how.
    n: int = _note(4, "Candidates per source and step", ge=1, le=16)
    temperature: float = _note(0.7, "Sampling temperature; 0 is greedy", ge=0, le=2, assumption="not stated in the paper")
    top_p: float = _note(0.95, "Nucleus sampling mass", gt=0, le=1, assumption="not stated in the paper")
    greedy_first: bool = _note(False, "Candidate 0 of each source is greedy")
    seed: int = _note(0, "Seed of the run", ge=0, le=2**31 - 1)
    delimiter: str = _note("\n\n", "Text that ends a step", min_length=1, max_length=16, assumption="not stated in the paper")
    max_step_tokens: int = _note(512, "Longest step", ge=1, le=8_192, assumption="not stated in the paper")
    max_steps: int = _note(64, "Most steps", ge=1, le=1_024, assumption="not stated in the paper")
    max_tokens: int = _note(4_096, "Most committed new tokens", ge=1, le=65_536, assumption="not stated in the paper")
    deadline_s: float = _note(600.0, "Wall-clock limit in seconds", gt=0, le=86_400)
    # Who judges.
    scorer: ScorerName = _note(
        "likelihood",
        "Process reward: who scores a step. prm needs a model set that brings one, checker a story of the lab",
        assumption="the paper's PRM is not named; likelihood and rule are stand-ins for a trained one",
    )
    scorer_model: Source = _note("helper", "Whose weights the likelihood scorer reads with (always full context)")
    # When a base candidate is given up.
    early_exit: bool = _note(True, "Abort base candidates that degenerate; a method with a single chain only flags them")
    tau_ent: float = _note(
        2.5,
        "Abort above this moving average of token entropy, in nats",
        gt=0,
        le=20,
        assumption="not stated in the paper; per model, calibrate",
    )
    ent_window: int = _note(16, "Tokens in the entropy average", ge=1, le=512, assumption="not stated in the paper")
    tau_cmp: float = _note(0.30, "Abort below this gzip size / original size", gt=0, le=2, assumption="not stated in the paper; per model, calibrate")
    cmp_window: int = _note(256, "Bytes in the gzip window", ge=32, le=8_192, assumption="not stated in the paper")
    cmp_stride: int = _note(16, "Tokens between two gzip checks", ge=1, le=512, assumption="not stated in the paper")
    # ReCo: what the reward of a step decides.
    retention_ratio: float = _note(0.25, "ReCo lambda: share of the tokens that is kept", gt=0, le=1)
    delta: float = _note(0.10, "ReCo delta: how far the reward may move that share; 0 holds it", ge=0, le=0.99)
    reco_every: int = _note(
        128, "ReCo S: tokens that must be added between two decisions about memory", ge=1, le=8_192, assumption="S is not stated in the paper"
    )
    ratio_of: Literal["logical", "resident"] = _note(
        "logical", "ReCo: the share is of all tokens seen, or of those still held", assumption="what the ratio is of is not stated; both are offered"
    )
    tau_l: float = _note(0.4, "ReCo: rewards up to this are low; reflection is left alone", ge=0, le=1)
    tau_h: float = _note(0.8, "ReCo: rewards from this on are high; reflection is suppressed most", ge=0, le=1)
    beta: float = _note(4.0, "ReCo beta: logits taken from reflection words after a high reward; 0 for none", ge=0, le=50, assumption="not stated")
    reflection_words: str = _note(
        "Wait, Hmm, Alternatively", "ReCo: words that are suppressed, with commas; every spelling that is one token", max_length=MOST_WORDS_CHARS
    )
    tau_p: float = _note(1.1, "ReCo: highest perplexity of an answer that may end the chain early; 0 never asks", ge=0, le=100)
    max_probes: int = _note(10, "ReCo: most questions for an early answer", ge=0, le=1_000, assumption="not stated; another method's cap")
    closing_prompt: str = _note(
        CLOSING_PROMPT,
        "ReCo: text that asks for the answer, up to its opening brace; </think> is left out when no think block is open",
        max_length=MOST_WORDS_CHARS,
        assumption="its second half is not stated",
    )
    system_prompt: str = _note(DEFAULT_SYSTEM_PROMPT, "System turn of the chat template; empty for none", max_length=2_000)
    instruction: str = _note("", "Text behind the problem in the user's turn, for models that want no system turn", max_length=2_000)

    @model_validator(mode="after")
    def _parts_fit_together(self) -> RunConfig:
        if self.kernel % 2 == 0:
            raise _Misfit("kernel", f"kernel is {self.kernel}; it must be odd, such as 5 or 7")
        if self.method in EVICTING_METHODS:
            if self.budget <= self.window:
                raise _Misfit("budget", f"budget is {self.budget}; it must be larger than the window ({self.window} tokens)")
            if self.policy == "streaming-llm" and self.budget <= self.sinks:
                raise _Misfit("budget", f"budget is {self.budget}; StreamingLLM needs more than its {self.sinks} sink tokens")
            if self.policy in ("keydiff", "knorm") and self.budget <= self.window + self.protect_sink:
                least = self.window + self.protect_sink
                raise _Misfit("budget", f"budget is {self.budget}; it must be larger than window + protect_sink ({least} tokens)")
        if self.scorer == "none" and self.method in JUDGED_METHODS:
            raise _Misfit("scorer", f"scorer is 'none'; method {self.method!r} lives on rewards and needs one of {_list(SCORERS[:-1])}")
        self._reco_fits()
        return self

    def _reco_fits(self) -> None:
        if self.method not in RECO_METHODS:
            return
        if self.tau_l > self.tau_h:
            raise _Misfit("tau_l", f"tau_l is {self.tau_l:g}; it must not be above tau_h ({self.tau_h:g})")
        if self.retention_ratio - self.delta <= 0:
            raise _Misfit("delta", f"delta is {self.delta:g}; it must be smaller than retention_ratio ({self.retention_ratio:g})")
        if self.reco_every < self.window:
            raise _Misfit("reco_every", f"reco_every is {self.reco_every}; it must be at least the window ({self.window} tokens)")
        if 0 < self.tau_p < 1:
            raise _Misfit("tau_p", f"tau_p is {self.tau_p:g}; a perplexity is at least 1, and 0 switches early exit off")
        if not self.closing_prompt.rstrip().endswith("\\boxed{"):
            raise _Misfit("closing_prompt", "closing_prompt must end with \\boxed{ so that the answer follows")

    @property
    def candidates(self) -> int:
        """Candidates per source that this run really writes (1 for single-chain methods)."""
        return 1 if self.method in SINGLE_CHAIN_METHODS else self.n


class _Misfit(ValueError):
    """A clash between fields; carries the field for ConfigError."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def make_config(**values: Any) -> RunConfig:
    """Build a RunConfig, turning the first validation problem into one plain :class:`ConfigError` sentence."""
    try:
        return RunConfig(**values)
    except ValidationError as error:
        raise _plain_error(error) from None


def _plain_error(error: ValidationError) -> ConfigError:
    first = error.errors(include_url=False)[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, _Misfit):
        return ConfigError(cause.field, _sentence(str(cause)))
    field = str(first["loc"][0]) if first["loc"] else "settings"
    if first["type"] == "extra_forbidden":
        return ConfigError(field, f"There is no setting called {field!r}.")
    return ConfigError(field, _sentence(f"{field} is {_short(first['input'])}; allowed: {allowed(field)}"))


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(repr(name) for name in names)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _sentence(text: str) -> str:
    return text if text.endswith(".") else text + "."


def allowed(field: str) -> str:
    """What a field accepts, in words: ``"a whole number from 1 to 16"``."""
    schema = RunConfig.model_json_schema()["properties"][field]
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if schema["type"] == "boolean":
        return "true or false"
    if schema["type"] == "string":
        return f"text of {schema.get('minLength', 0)} to {schema['maxLength']} characters"
    kind = "a whole number" if schema["type"] == "integer" else "a number"
    low = f"from {schema['minimum']:g}" if "minimum" in schema else f"above {schema['exclusiveMinimum']:g}"
    top = schema["maximum"]
    return f"{kind} {low} to {top:,}"


def assumptions(config: RunConfig) -> list[dict[str, Any]]:
    """The settings whose values the paper does not give: ``{"field", "value", "note"}`` each."""
    rows = []
    for name, info in RunConfig.model_fields.items():
        extra = info.json_schema_extra
        if isinstance(extra, dict) and "assumption" in extra:
            rows.append({"field": name, "value": getattr(config, name), "note": extra["assumption"]})
    return rows


def check_problem(problem: object) -> str:
    """The problem text, stripped; ConfigError when it is empty, not text, or too long."""
    if not isinstance(problem, str) or not problem.strip():
        raise ConfigError("problem", "The problem is empty; type a question to solve.")
    if len(problem) > MAX_PROBLEM_CHARS:
        raise ConfigError("problem", f"The problem has {len(problem):,} characters; at most {MAX_PROBLEM_CHARS:,} are allowed.")
    try:
        problem.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigError("problem", "The problem contains a broken character (a lone surrogate); remove it.") from None
    return problem.strip()
