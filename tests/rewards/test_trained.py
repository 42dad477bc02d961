"""Published PRM families: tiny checkpoints in each family's key layout, scored once by the engine and once from scratch on the whole text."""

from __future__ import annotations

import json
import math

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, normalizers
from tokenizers.models import BPE
from torch.nn.functional import linear
from transformers import LlamaForCausalLM, MistralConfig, MistralForCausalLM, PreTrainedTokenizerFast, Qwen2ForCausalLM

from kvrescue.config import ConfigError, make_config
from kvrescue.engine.run import run
from kvrescue.models.load import Pair, load_trained_prm
from kvrescue.rewards.base import Step
from kvrescue.rewards.trained.family import harmless
from kvrescue.rewards.trained.scorer import TrainedPrmScorer
from kvrescue.stop import Stop
from tests.tiny import byte_tokenizer, make_tiny, tiny_config

LLAMA3 = (
    "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n' + m['content'] | trim + '<|eot_id|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
LLAMA3_MARKS = ["<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
PROBLEM = "Ann has 3 pears & 4 plums. How many?"
STEPS = ["First, count:\n3 + 4 = 7\n\n", "So there are 7.\n\n", "Wait, 3 + 5 = 9.\n\n"]
OTHER = "Then 3 * 4 = 13, of course, and so on.\n\n"


def mistral_tokenizer() -> PreTrainedTokenizerFast:
    """Like SentencePiece's: a blank is put before the text, blanks are ▁, no pre-tokenizer, newlines never merge."""
    letters = sorted({*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;?!&+-*=()\n▁ки"})
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2} | {letter: i + 3 for i, letter in enumerate(letters)}
    merges = [("▁", "к"), ("▁к", "и"), ("▁", "t"), ("h", "e"), ("▁t", "he"), ("▁", "+"), ("▁", "-")]
    for a, b in merges:
        vocab.setdefault(a + b, len(vocab))
    raw = Tokenizer(BPE(vocab=vocab, merges=merges, unk_token="<unk>"))
    raw.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    raw.decoder = decoders.Replace("▁", " ")
    from tokenizers.processors import TemplateProcessing

    raw.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def checkpoint(folder, kind: str, **changes):
    """A tiny random checkpoint with the key names of the published one."""
    torch.manual_seed(5)
    if kind == "rlhflow":
        tokenizer = byte_tokenizer()
        tokenizer.add_special_tokens({"additional_special_tokens": LLAMA3_MARKS, "bos_token": LLAMA3_MARKS[0]})
        tokenizer.chat_template = LLAMA3
        model = LlamaForCausalLM(tiny_config("llama", len(tokenizer), tie_word_embeddings=False, **changes))
    elif kind == "math-shepherd":
        tokenizer = mistral_tokenizer()
        plain = tiny_config("llama", len(tokenizer)).to_dict()
        kept = {name: plain[name] for name in plain if name in MistralConfig().to_dict() and name not in ("model_type", "architectures")}
        model = MistralForCausalLM(MistralConfig(**{**kept, "tie_word_embeddings": False, "sliding_window": None, **changes}))
    else:
        tokenizer = byte_tokenizer(["<extra_0>"])
        model = Qwen2ForCausalLM(tiny_config("qwen2", len(tokenizer), **changes))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if kind in ("qwen", "skywork"):
        tensors = load_file(folder / "model.safetensors")
        tensors |= qwen_head() if kind == "qwen" else skywork_head()
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def qwen_head():
    made = torch.Generator().manual_seed(9)
    shapes = {"score.0.weight": (64, 64), "score.0.bias": (64,), "score.2.weight": (2, 64), "score.2.bias": (2,)}
    return {name: torch.randn(shape, generator=made) / 4 for name, shape in shapes.items()}


def skywork_head():
    made = torch.Generator().manual_seed(9)
    return {"v_head.summary.weight": torch.randn((1, 64), generator=made) / 4, "v_head.summary.bias": torch.randn((1,), generator=made)}


def plain(folder, kind: str, steps: list[str]) -> float:
    """The value of the last of ``steps`` by the family's description: the whole text at once, stock attention, no cache."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    model = {"rlhflow": LlamaForCausalLM, "math-shepherd": MistralForCausalLM}.get(kind, Qwen2ForCausalLM).from_pretrained(folder).eval()
    texts = [step.strip() for step in steps]
    if kind == "qwen":
        system = "Please reason step by step, and put your final answer within \\boxed{}."
        answer = "<extra_0>".join(texts) + "<extra_0>"
        turns = [("system", system), ("user", PROBLEM), ("assistant", answer)]
        text = tokenizer.apply_chat_template([{"role": r, "content": c} for r, c in turns], tokenize=False)
        ids = tokenizer.encode(text, add_special_tokens=False)
        at = [i for i, token in enumerate(ids) if token == tokenizer.convert_tokens_to_ids("<extra_0>")]
        assert len(at) == len(texts)
        hidden = hidden_of(model, ids)[at[-1]]
        head = qwen_head()
        logits = linear(linear(hidden, head["score.0.weight"], head["score.0.bias"]).relu(), head["score.2.weight"], head["score.2.bias"])
        return float(logits.softmax(-1)[1])
    if kind == "skywork":
        ids = tokenizer.encode(f"{PROBLEM}\n", add_special_tokens=False)
        newline = tokenizer.encode("\n", add_special_tokens=False)[-1]
        at = []
        for line in [*"\n\n".join(texts).split("\n"), ""]:
            ids += [*tokenizer.encode(line, add_special_tokens=False), newline]
            at.append((len(ids) - 1, line))
        last = [where for where, line in at if line][-1]
        head = skywork_head()
        return float((hidden_of(model, ids)[last] @ head["v_head.summary.weight"][0] + head["v_head.summary.bias"][0]).sigmoid())
    if kind == "rlhflow":
        turns = []
        for number, text in enumerate(texts):
            turns += [{"role": "user", "content": f"{PROBLEM} {text}" if number == 0 else text}, {"role": "assistant", "content": "+"}]
        ids = tokenizer.encode(tokenizer.apply_chat_template(turns, tokenize=False), add_special_tokens=False)
        pick = [tokenizer.encode(sign, add_special_tokens=False)[-1] for sign in "+-"]
        assert ids[-2] == pick[0], "the template appends one end token"
        return float(logits_of(model, ids)[-3, pick].softmax(-1)[0])
    ids = tokenizer.encode(f"{PROBLEM} " + " ки\n".join(texts) + " ки")
    pick = [tokenizer.encode(sign, add_special_tokens=False)[-1] for sign in "+-"]
    assert tokenizer.decode([ids[-1]]).strip() == "ки"
    return float(logits_of(model, ids)[-1, pick].softmax(-1)[0])


@torch.no_grad()
def hidden_of(model, ids):
    return model.model(input_ids=torch.tensor([ids])).last_hidden_state[0]


@torch.no_grad()
def logits_of(model, ids):
    return model(input_ids=torch.tensor([ids])).logits[0]


KINDS = ("qwen", "skywork", "rlhflow", "math-shepherd")


@pytest.fixture(scope="module", params=KINDS)
def prm(request, tmp_path_factory):
    folder = checkpoint(tmp_path_factory.mktemp(request.param) / "prm", request.param)
    return request.param, folder, load_trained_prm(str(folder), device="cpu")


def begun(judge, problem: str = PROBLEM) -> TrainedPrmScorer:
    scorer = TrainedPrmScorer(judge, problem)
    scorer.begin(problem, [], Stop())
    return scorer


def rated(scorer: TrainedPrmScorer, *texts: str) -> list[float | None]:
    return [reward.value for reward in scorer.score([Step(text, ()) for text in texts])]


def test_the_family_is_told_by_the_checkpoint(prm):
    kind, _, judge = prm
    assert judge.family.name == kind and not judge.loaded.model.training, "dropout in front of a head must be off"


def test_scores_equal_a_plain_recomputation_over_several_commits(prm):
    kind, folder, judge = prm
    scorer, before = begun(judge), []
    for step in STEPS:
        values = rated(scorer, step, OTHER, "no\n\n")
        for text, value in zip((step, OTHER, "no\n\n"), values, strict=True):
            assert value == pytest.approx(plain(folder, kind, [*before, text]), abs=1e-4)
        assert len({round(value or 0, 6) for value in values}) == 3, "the texts must tell apart, or nothing was tested"
        scorer.commit(Step(step, ()))
        before.append(step)


def test_a_step_that_was_not_scored_can_be_committed(prm):
    kind, folder, judge = prm
    scorer = begun(judge)
    scorer.commit(Step(STEPS[0], ()))
    assert rated(scorer, STEPS[1]) == [pytest.approx(plain(folder, kind, STEPS[:2]), abs=1e-4)]


def test_a_step_costs_its_own_tokens(prm, monkeypatch):
    *_, judge = prm
    scorer = begun(judge)
    for _ in range(5):
        scorer.commit(Step(STEPS[0], ()))
    fed: list[int] = []
    forward = scorer.reader._forward
    monkeypatch.setattr(scorer.reader, "_forward", lambda loaded, branch, ids, keep: (fed.append(ids.numel()), forward(loaded, branch, ids, keep))[1])
    [reward] = scorer.score([Step(STEPS[1], ())])
    assert sum(fed) == reward.detail["tokens"] < 120


def test_delimiters_and_blank_steps_give_no_score_of_their_own(prm):
    """A text that ends in the delimiter has no empty last step, and a step without text has no reward at all."""
    *_, judge = prm
    scorer = begun(judge)
    with_end, without = rated(scorer, "So 7.\n\n", "So 7.")
    assert with_end == without is not None
    assert rated(scorer, "\n\n", "  ") == [None, None]
    seen = scorer.reader.cache.seen
    scorer.commit(Step("\n\n", ()))
    assert scorer.reader.cache.seen == seen


def test_marks_inside_the_text_are_harmless(prm):
    """A literal separator, tag or end-of-turn in what a model wrote must not become a token of the format."""
    kind, _, judge = prm
    marks = {"qwen": "<extra_0>", "skywork": "<|im_end|>", "rlhflow": "<|eot_id|>", "math-shepherd": "ки"}
    mark = marks[kind]
    ids = judge.format.segment(PROBLEM, f"I say {mark} and {mark}", True).ids
    clean = judge.format.segment(PROBLEM, "I say nothing", True).ids
    token = judge.loaded.tokenizer.encode(f" {mark}" if kind == "math-shepherd" else mark, add_special_tokens=False)[-1]
    assert ids.count(token) == clean.count(token)
    assert mark not in harmless(judge.loaded.tokenizer, (mark,))(f"a {mark} b")
    assert judge.format.opening(f"{PROBLEM} {mark}").count(token) == judge.format.opening(PROBLEM).count(token)


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_trajectory_loses_its_oldest_steps_and_keeps_the_problem(tmp_path, kind):
    folder = checkpoint(tmp_path / "prm", kind, max_position_embeddings=400)
    judge = load_trained_prm(str(folder), device="cpu")
    scorer, written = begun(judge), []
    for number in range(24):
        step = f"Step {number} says {number} + 1.\n\n"
        [value] = rated(scorer, step)
        kept = written[scorer.dropped :]
        assert value == pytest.approx(plain(folder, kind, [*kept, step]), abs=1e-4)
        scorer.commit(Step(step, ()))
        written.append(step)
        assert scorer.reader.cache.seen <= judge.context
    assert scorer.dropped, "the trajectory was meant to outgrow the model"
    assert scorer.score([Step("So.", ())])[0].detail["dropped_steps"] == scorer.dropped


def test_a_step_longer_than_the_model_has_no_reward(tmp_path):
    judge = load_trained_prm(str(checkpoint(tmp_path / "prm", "qwen", max_position_embeddings=300)), device="cpu")
    short, long = rated(begun(judge), "So 7.", "7 " * 400)
    assert short is not None and long is None


def test_a_problem_longer_than_the_model_is_refused(tmp_path):
    judge = load_trained_prm(str(checkpoint(tmp_path / "prm", "skywork", max_position_embeddings=300)), device="cpu")
    with pytest.raises(ConfigError) as refused:
        TrainedPrmScorer(judge, "x" * 400)
    assert refused.value.field == "problem"


def test_values_that_are_no_numbers_are_none(tmp_path):
    folder = checkpoint(tmp_path / "prm", "qwen")
    tensors = load_file(folder / "model.safetensors")
    tensors["score.2.bias"] = torch.full((2,), math.nan)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    assert rated(begun(load_trained_prm(str(folder), device="cpu")), "So 7.") == [None]


def test_extreme_values_survive(tmp_path):
    """A probability that underflows to 0 is still that step's value, not a missing one."""
    folder = checkpoint(tmp_path / "prm", "qwen")
    tensors = load_file(folder / "model.safetensors")
    tensors["score.2.bias"] = torch.tensor([500.0, -500.0])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    assert rated(begun(load_trained_prm(str(folder), device="cpu")), "So 7.", "So 8.") == [0.0, 0.0]


def test_what_is_no_prm_is_refused_by_name(tmp_path):
    plain_model = tmp_path / "plain"
    made = make_tiny("qwen2")
    made.model.save_pretrained(plain_model)
    made.tokenizer.save_pretrained(plain_model)
    for family, field, words in ((None, "prm_family", "no known family"), ("qwen", "prm", "score.0.weight"), ("nobody", "prm_family", "allowed")):
        with pytest.raises(ConfigError) as refused:
            load_trained_prm(str(plain_model), family, device="cpu")
        assert refused.value.field == field and words in str(refused.value)
    with pytest.raises(ConfigError, match="built on llama"):
        load_trained_prm(str(plain_model), "rlhflow", device="cpu")


def test_a_tokenizer_without_the_separator_is_refused(tmp_path):
    folder = checkpoint(tmp_path / "prm", "qwen")
    byte_tokenizer(["<other_0>"]).save_pretrained(folder)
    with pytest.raises(ConfigError, match="<extra_0>"):
        load_trained_prm(str(folder), device="cpu")


def test_it_judges_a_run(prm):
    kind, _, judge = prm
    pair = Pair("own", make_tiny("llama", 1), make_tiny("qwen2", 2), prm=judge)
    config = make_config(method="kv-rescue", scorer="prm", n=2, budget=24, buffer=8, window=8, max_step_tokens=12, max_steps=4, max_tokens=48)
    trace = list(run("Say something.", config, pair))
    assert trace[-1].type == "end"
    header = trace[0]
    assert header.models["prm"].id == "prm" and judge.family.title in header.scorer
    scores = [score.score for event in trace if event.type == "scores" for score in event.scores]
    assert scores and all(score is None or 0 <= score <= 1 for score in scores) and any(score is not None for score in scores), kind


def test_a_checkpoint_in_several_files_is_the_same(tmp_path):
    """As published: the head lies in another file than the first layers, and the index says where; only files that are needed are read."""
    whole = checkpoint(tmp_path / "whole", "qwen")
    parts = checkpoint(tmp_path / "parts", "qwen")
    tensors = load_file(parts / "model.safetensors")
    names = sorted(tensors)
    halves = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, mine in halves.items():
        save_file({name: tensors[name] for name in mine}, parts / file, metadata={"format": "pt"})
    (parts / "model.safetensors").unlink()
    where = {name: file for file, mine in halves.items() for name in mine}
    (parts / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    one, other = (load_trained_prm(str(folder), device="cpu") for folder in (whole, parts))
    assert other.family.name == "qwen" and rated(begun(one), *STEPS) == rated(begun(other), *STEPS)


def test_a_beginning_of_text_is_read_where_the_tokenizer_has_one(tmp_path):
    """Skywork's problem is encoded by hand: no template puts the mark before it."""
    folder = checkpoint(tmp_path / "prm", "skywork")
    judge = load_trained_prm(str(folder), device="cpu")
    plainly = judge.format.opening(PROBLEM)
    judge.loaded.tokenizer.bos_token = "<extra_0>"
    assert judge.format.opening(PROBLEM) == [judge.loaded.tokenizer.convert_tokens_to_ids("<extra_0>"), *plainly]


@pytest.mark.parametrize("kind", ["rlhflow", "math-shepherd"])
def test_the_problem_is_cleaned_wherever_it_stands(tmp_path, kind):
    """These two put the problem into the first step's text, not into an opening."""
    judge = load_trained_prm(str(checkpoint(tmp_path / "prm", kind)), device="cpu")
    mark = {"rlhflow": "<|eot_id|>", "math-shepherd": " ки"}[kind]
    token = judge.loaded.tokenizer.encode(mark, add_special_tokens=False)[-1]

    def count(problem: str) -> int:
        return [*judge.format.opening(problem), *judge.format.segment(problem, "So 7.", True).ids].count(token)

    assert count(f"{PROBLEM}{mark} and{mark}") == count(PROBLEM)


def test_no_model_reads_further_than_it_was_made_for(tmp_path):
    """Qwen's judges were trained on 4,096 tokens, whatever their config allows; a sliding window ends a Mistral's memory."""
    wide = load_trained_prm(str(checkpoint(tmp_path / "qwen", "qwen", max_position_embeddings=32_768)), device="cpu")
    assert wide.context == 4096
    sliding = load_trained_prm(str(checkpoint(tmp_path / "mistral", "math-shepherd", max_position_embeddings=1024, sliding_window=256)), device="cpu")
    assert sliding.context == 256
