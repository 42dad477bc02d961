"""The README says what was measured: its tables are those of the committed results."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from kvrescue.bench import output
from kvrescue.config import ConfigError
from kvrescue.lab import report_output

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("suite", list(report_output.README_MARKS))
def test_tables_are_those_of_the_committed_results(suite):
    results = json.loads((ROOT / "assets" / "lab" / "report" / suite / "rows.json").read_text(encoding="utf-8"))
    mark = report_output.README_MARKS[suite]
    shown = README.split(f"<!-- {mark} -->\n")[1].split(f"<!-- /{mark} -->")[0]
    assert shown == report_output.readme_block(suite, results["about"], results["rows"])
    assert results["about"]["suite"] == suite and results["rows"]


def test_the_bench_table_is_that_of_the_committed_results():
    results = json.loads((ROOT / "assets" / "lab" / "report" / "bench" / "table.json").read_text(encoding="utf-8"))
    shown = README.split(f"<!-- {output.README_MARK} -->\n")[1].split(f"<!-- /{output.README_MARK} -->")[0]
    assert shown == output.readme_block(results["about"], results["rows"])
    assert len(results["rows"]) > 20 and shlex.join(results["about"]["command"]).replace("bench", "kvrescue bench", 1) in README.replace("`", "")


def test_a_table_is_put_between_its_marks(tmp_path):
    results = json.loads((ROOT / "assets" / "lab" / "report" / "rescue" / "rows.json").read_text(encoding="utf-8"))
    file = tmp_path / "README.md"
    file.write_text("before\n<!-- lab-table -->\nold\n<!-- /lab-table -->\nafter\n", encoding="utf-8")
    report_output.write_readme(file, "rescue", results["about"], results["rows"])
    text = file.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text and "`kv-rescue`" in text
    file.write_text("no marks", encoding="utf-8")
    with pytest.raises(ConfigError, match="lacks the marks"):
        report_output.write_readme(file, "rescue", results["about"], results["rows"])


def test_two_setup_commands_and_links_that_lead_somewhere():
    assert sum("# installs what is needed" in line for line in README.splitlines()) == 2
    for target in (part.split(")")[0] for part in README.split("](")[1:]):
        assert target.startswith("http") or (ROOT / target).exists(), target
