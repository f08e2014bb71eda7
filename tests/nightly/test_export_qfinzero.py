"""Answers to QFinZero's questions as training data: right ones alone, and pairs of right and wrong."""

from __future__ import annotations

from pathlib import Path

from support.paths import REPOSITORY
from support.runs.export_runs import export, metadata, rows
from support.runs.run_support import ktdeval

PLUGIN = REPOSITORY / "tests/support/qfinzero/qfinzero_suite_plugin.py"
TASK = ("--tasks", "qfinzero_calling", "--limit", "6", "--plugin", PLUGIN)
NOTHING = '{"otherwise": {"submit": {"status": "done", "summary": "I did nothing."}}}'


def test_right_answers_are_rows_and_beat_wrong_ones(tmp_path: Path) -> None:
    (tmp_path / "nothing.json").write_text(NOTHING)
    idle = ("builtin/script", "--model-args", "file=nothing.json")
    for out, model in (("right", ("agent/perfect",)), ("idle", idle)):
        done = ktdeval("run", "--model", *model, *TASK, "--out", out, cwd=tmp_path)
        assert done.code == 0, done

    allowed = ("--allow-evaluation-data", "--plugin", PLUGIN)
    only_right = ("--where", "exact=1")

    assert export("right", "idle", *allowed, *only_right, cwd=tmp_path).code == 0

    about = metadata(tmp_path)
    right = sum(entry["source"] == 0 for entry in about["row_sources"])

    assert right == 6

    for row in rows(tmp_path):
        assert row["messages"][0]["role"] == "system"
        assert not {"facts", "gold", "score"} & row.keys()

    preference = ("--format", "preference", "--by", "reference_overall")

    assert export("right", "idle", *allowed, *preference, cwd=tmp_path).code == 0

    about = metadata(tmp_path)
    assert about["pairs"]["another_prompt"] == 0
    assert about["pairs"]["formed"] + about["pairs"]["tied"] == 6

    for entry in about["row_sources"]:
        assert entry["source"] == 0
        assert entry["value"] > entry["rejected_value"]
