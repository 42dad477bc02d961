from __future__ import annotations

import math
import subprocess
import sys

import pytest

from kvrescue.config import MAX_PROBLEM_CHARS, METHODS, ConfigError, RunConfig, allowed, assumptions, check_problem, make_config
from kvrescue.presets import default_settings, with_method


@pytest.mark.parametrize(
    ("values", "field", "sentence"),
    [
        ({"n": 0}, "n", "n is 0; allowed: a whole number from 1 to 16."),
        ({"n": 2.5}, "n", "n is 2.5; allowed: a whole number from 1 to 16."),
        ({"n": None}, "n", "n is None; allowed: a whole number from 1 to 16."),
        ({"tau_ent": math.nan}, "tau_ent", "tau_ent is nan; allowed: a number above 0 to 20."),
        ({"tau_ent": math.inf}, "tau_ent", "tau_ent is inf; allowed: a number above 0 to 20."),
        ({"policy": "zip"}, "policy", "policy is 'zip'; allowed: snapkv, snapkv-decode, rkv, streaming-llm, h2o, tova, keydiff, knorm."),
        ({"method": "magic"}, "method", f"method is 'magic'; allowed: {', '.join(METHODS)}."),
        ({"budget": 8}, "budget", "budget is 8; it must be larger than the window (8 tokens)."),
        (
            {"policy": "streaming-llm", "budget": 10, "window": 1, "sinks": 12},
            "budget",
            "budget is 10; StreamingLLM needs more than its 12 sink tokens.",
        ),
        ({"policy": "knorm", "budget": 12, "protect_sink": 4}, "budget", "budget is 12; it must be larger than window + protect_sink (12 tokens)."),
        ({"kernel": 4}, "kernel", "kernel is 4; it must be odd, such as 5 or 7."),
        (
            {"scorer": "none"},
            "scorer",
            "scorer is 'none'; method 'kv-rescue' lives on rewards and needs one of 'prm', 'estimator', 'likelihood', 'rule', 'checker'.",
        ),
        ({"no_such": 1}, "no_such", "There is no setting called 'no_such'."),
        ({"delimiter": ""}, "delimiter", "delimiter is ''; allowed: text of 1 to 16 characters."),
        ({"early_exit": "perhaps"}, "early_exit", "early_exit is 'perhaps'; allowed: true or false."),
        ({"seed": "x" * 99}, "seed", "seed is '" + "x" * 56 + "...; allowed: a whole number from 0 to 2,147,483,647."),
    ],
)
def test_bad_settings_get_one_sentence(values, field, sentence):
    with pytest.raises(ConfigError) as caught:
        make_config(**values)
    assert (caught.value.field, str(caught.value)) == (field, sentence)


@pytest.mark.parametrize("field", RunConfig.model_fields)
def test_every_field_says_what_it_allows(field):
    assert allowed(field)
    assert RunConfig.model_fields[field].description


def test_budget_rules_bind_only_where_something_is_evicted():
    assert make_config(method="full", budget=8).budget == 8
    assert make_config(method="helper", scorer="none").candidates == 1
    assert make_config(n=3).candidates == 3


def test_settings_are_frozen_and_round_trip():
    config = make_config(n=3, tau_ent=1.5, method="evicted-stepwise")
    assert make_config(**config.model_dump()) == config
    assert RunConfig.model_validate_json(config.model_dump_json()) == config
    with pytest.raises(ValueError):
        config.n = 4


def test_assumptions_carry_the_value_in_use():
    rows = {row["field"]: row for row in assumptions(make_config(tau_ent=1.25))}
    assert rows["tau_ent"]["value"] == 1.25 and rows["tau_ent"]["note"]
    assert {"buffer", "delimiter", "temperature", "scorer", "protect_prompt", "tau_cmp"} <= set(rows)


@pytest.mark.parametrize("problem", ["", "  \n", None, 7, "x" * (MAX_PROBLEM_CHARS + 1), "bad \ud800 text"])
def test_bad_problems(problem):
    with pytest.raises(ConfigError) as caught:
        check_problem(problem)
    assert caught.value.field == "problem" and str(caught.value).endswith(".")


def test_problem_text_is_kept_as_it_is():
    hostile = "<img src=x onerror=alert(1)> ${1+1} {{x}} `a` \\frac \u202eabc 한국어 🎈"
    assert check_problem(f"  {hostile}\n") == hostile


def test_the_page_and_the_command_line_parse_without_torch():
    code = (
        "import sys, kvrescue.config, kvrescue.events, kvrescue.trace, kvrescue.guards, kvrescue.engine.steps, kvrescue.rewards.rule, "
        "kvrescue.presets, kvrescue.ui.page, kvrescue.backend, kvrescue.cli; "
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_reco_reads_lines_of_models_that_reason_long():
    """Its paper ends steps at line breaks; KV-Rescue's at blank lines, and each set brings the one that suits the method."""
    for name in ("qwen-math-7b", "r1-qwen-7b", "qwen3-8b"):
        rescue = make_config(**default_settings(name, "kv-rescue"))
        lines = with_method(rescue, "reco", name)
        assert rescue.delimiter == "\n\n" and lines.delimiter == "\n"
        assert with_method(lines, "kv-rescue", name) == rescue
        think = not name.startswith("qwen-math")
        assert bool(rescue.system_prompt) is not think and bool(rescue.instruction) is think, "one place tells to box the answer"
