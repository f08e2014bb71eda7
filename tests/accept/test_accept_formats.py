"""A cache of another version, by the real command: nothing is asked of the provider."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ktdeval.calls.records.database import CallDatabase
from support.providers.stub_provider import running_stub, skip_without_sdks
from support.providers.stub_runs import WIRES, environment_of
from support.runs.run_support import error_line, ktdeval


def test_a_cache_of_another_version_ends_a_run_before_anything_is_paid(
    market: Path, tmp_path: Path
) -> None:
    skip_without_sdks()
    cache = tmp_path / "replies.sqlite"
    CallDatabase(cache).close()
    earlier = sqlite3.connect(cache)
    earlier.execute("ALTER TABLE replies ADD COLUMN digest BLOB NOT NULL DEFAULT x''")
    earlier.close()

    with running_stub() as stub:
        done = ktdeval(
            "run", "--model", WIRES["chat"].model, *WIRES["chat"].words,
            "--base-url", stub.base_url, "--tasks", "blinded_open_research",
            "--windows", "2024-03-01:2024-03-29", "--limit", 2, "--data", market,
            "--cache", cache, "--out", tmp_path / "run",
            cwd=tmp_path, environment=environment_of(WIRES["chat"]),
        )  # fmt: skip
        assert stub.answers == 0

    line = error_line(done)

    assert "made by another version of ktdeval; ktdeval" in line
    assert "its table replies differs in digest" in line
    assert "choose another file (of a run: --cache)" in line
