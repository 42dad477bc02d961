from __future__ import annotations

import json

from kvrescue.models.doctor import examine, in_words


def test_the_report_is_json_and_words():
    report = examine()
    data = json.loads(json.dumps(report.as_dict()))
    assert data["cores"] >= 1 and data["memory_total"] > data["memory_free"] > 0
    assert data["versions"]["torch"] and [one["name"] for one in data["sets"]] == ["lab", "smollm2"]
    words = "\n".join(in_words(report))
    assert "smollm2" in words and ("no GPU" in words or "GPU:" in words)
    assert data["sets"][1]["weights_bytes"] in (4 * 134_515_008, 2 * 134_515_008)
