"""What "Copy" hands out runs: the same run as a Python and as a curl call, against the served page."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvrescue.trace import read_trace

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import { curlCall, pythonCall } from "./assets/js/share.mjs";
const [header, url] = JSON.parse(process.argv[1]);
console.log(JSON.stringify({ python: pythonCall(header, url), curl: curlCall(header, url) }));
"""


@pytest.fixture(scope="module")
def calls(served):
    header = read_trace(ROOT / "examples" / "traces" / "lab-easy.ndjson")[0].model_dump(mode="json")
    asked = json.dumps([{**header, "reference": "7's"}, served[1]])
    made = subprocess.run(["node", "--input-type=module", "-e", SCRIPT, asked], cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(made.stdout)


def test_the_python_call_runs(calls):
    done = subprocess.run([sys.executable, "-c", calls["python"]], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "'type': 'end'" in done.stdout and "'correct': False" in done.stdout


@pytest.mark.skipif(not shutil.which("curl"), reason="no curl here")
def test_the_curl_call_runs(calls):
    done = subprocess.run(["bash", "-c", calls["curl"]], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "event: complete" in done.stdout, done.stdout + done.stderr
    (result,) = json.loads(done.stdout.rsplit("data: ", 1)[1])
    assert result["summary"]["type"] == "end" and result["trace"][0]["reference"] == "7's"
