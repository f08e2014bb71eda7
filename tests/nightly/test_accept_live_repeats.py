"""Consistency runs: past days are asked again on the same inputs, apart from the record."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ktdeval.testing import free_port
from support.board.board_runs import tree
from support.live.live_drops import begin_drops
from support.providers.stub_provider import KEY, running_stub, skip_without_sdks
from support.runs.run_support import ktdeval

skip_without_sdks()

SPAN = {"first": "2024-06-03", "last": "2024-06-05"}
DAYS = ("2024-05-31", "2024-06-03", "2024-06-04", "2024-06-05")


def test_repeats_show_how_often_a_decision_is_the_same_beside_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    port = free_port()
    entrants = [
        {"name": "same", "model": "builtin/momentum"},
        {
            "name": "other",
            "model": "openai/stub-model",
            "model_args": {"api": "chat"},
            "options": {
                "base_url": f"http://127.0.0.1:{port}/v1",
                "price": {"input": 2, "output": 8},
            },
        },
    ]
    drops = begin_drops(tmp_path, **SPAN, entrants=entrants)

    with running_stub(port=port):
        for day in DAYS:
            drops.drop(day)
            drops.after_close(day)
            assert drops.step_here().problems == []

    record = public_files(drops.path)
    words = ("live", "repeat", drops.path, "--times", 2, "--clock", drops.clock_file)
    with running_stub(port=port, model="random") as stub:
        done = ktdeval(*words, cwd=tmp_path)
        asked = len(stub.requests)
        again = ktdeval(*words, cwd=tmp_path)
        assert len(stub.requests) == asked > 0

    assert done.code == 0, done
    assert again.out == done.out

    rows = {line.split()[0]: re.split(r"\s{2,}", line.strip()) for line in done.out.splitlines()}
    assert rows["same"][1:] == ["us", "3", "6", "0", "100", "100"]
    assert rows["other"][1:5] == ["us", "3", "6", "0"]
    assert int(rows["other"][5]) < 100
    assert public_files(drops.path) == record


def public_files(test: Path) -> dict[str, bytes]:
    """The files of a test that are published."""
    files = tree(test).items()
    return {path: data for path, data in files if not path.startswith(("private/", ".git/"))}
