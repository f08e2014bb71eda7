"""Runs of earlier commits, as they were made: what they hold is what it was, or is refused by
name.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from make_kept_runs import FOLDER, Kept, kept_runs, unpack
from outside import command

MAX_BYTES = 1_500_000  #: of all archives
KEPT = kept_runs()
MADE = [(commit, kept) for kept in KEPT for commit in kept.made_by]
EARLIER = [(commit, kept) for commit, kept in MADE if commit in kept.refused]
OF_TODAY = [(commit, kept) for commit, kept in MADE if commit not in kept.refused]


def named(pair: tuple[str, Kept]) -> str:
    commit, kept = pair
    return f"{kept.name}-{commit}"


def test_every_archive_is_of_the_table_and_all_are_small() -> None:
    archives = {kept.archive(commit) for commit, kept in MADE}
    assert archives == {path for path in FOLDER.rglob("*") if path.is_file()}
    assert sum(path.stat().st_size for path in archives) < MAX_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("pair", OF_TODAY, ids=named)
def test_a_kept_run_verifies(pair: tuple[str, Kept], tmp_path: Path) -> None:
    commit, kept = pair
    unpack(kept.archive(commit), tmp_path)
    assert kept.checks

    for line in kept.checks:
        done = command(*line.split(), cwd=tmp_path)
        assert done.code == 0, (line, done)
        assert kept.says in done.out, (line, done)


@pytest.mark.slow
@pytest.mark.parametrize("pair", EARLIER, ids=named)
def test_a_run_of_an_earlier_task_is_read_and_its_replay_refused(
    pair: tuple[str, Kept], tmp_path: Path
) -> None:
    commit, kept = pair
    unpack(kept.archive(commit), tmp_path)

    for line in kept.read_by:
        done = command(*line.split(), cwd=tmp_path)
        assert done.code == 0, (line, done)

    done = command(*kept.checks[-1].split(), cwd=tmp_path)
    assert done.code != 0, done
    # a market that questions are about is generated at its first use, which is said
    lines = [line for line in done.err.splitlines() if "embedded market" not in line]
    assert len(lines) <= 1, done
    assert kept.refused[commit] in done.out + done.err, done
