"""Each open, read, write, sync and rename of a job fails in turn, as SQLite tests them: the command
names the cause in one line, and the same command then makes what an undisturbed one makes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.faults.failing_calls import KINDS, FailingCalls, Fault, why_not
from support.faults.sweep import Choice, Job, Sweep, files_of, sweep
from support.grid.grid_runs import done_records, parts_of, write_plan
from support.paths import SUPPORT
from support.runs.run_support import SAME_MASK, cards, error_line, records

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

WINDOW = "2024-03-01:2024-03-29"
TASK = "blinded_fixed_candidate"
PLAYED = ("--data", "market", "--tasks", TASK, "--windows", WINDOW, *SAME_MASK)
LUCKY = (
    "--plugin",
    SUPPORT / "providers/lucky_plugin.py",
    "--model",
    "lucky/x",
    "--price",
    "input=2,output=8",
)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FailingCalls]:
    with FailingCalls(tmp_path_factory.mktemp("calls")) as calls:
        yield calls


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "desk"


# -- jobs


def made_by_run(root: Path) -> tuple[dict[str, bytes], dict[str, str], set[str]]:
    run = root / "run"
    return records(run), cards(run), {path.name for path in run.glob("episodes/*/*")}


def resumption_job(calls: FailingCalls, market: Path, tmp_path: Path) -> Job:
    """The resumption of a run that has a step in its journal."""
    begun = tmp_path / "begun"
    job = paid_job(market, steps=2)
    begun.mkdir()
    job.prepare(begun)
    whole = calls.run(job.words, begun)
    assert whole.done.code == 0, whole.done

    for nth in range(1, whole.counts["sync"]):
        shutil.rmtree(begun)
        begun.mkdir()
        job.prepare(begun)
        ended = calls.run(job.words, begun, Fault("sync", nth))
        if ended.done.code and any(begun.glob("run/episodes/*/journal.jsonl")):
            lines = [path.read_bytes() for path in begun.glob("run/episodes/*/journal.jsonl")]
            if b"".join(lines).count(b"\n") == 1:
                break
    else:
        pytest.fail("no sync fails between the first step and the second")

    def prepare(root: Path) -> None:
        shutil.copytree(begun, root, dirs_exist_ok=True)

    return Job(job.words, prepare, made_by_run)


def paid_job(market: Path, steps: int = 1) -> Job:
    """A run whose replies are cached and recorded in files of SQLite."""

    def prepare(root: Path) -> None:
        shutil.copytree(market, root / "market")

    cached = ("--cache", "replies.sqlite", "--canary", 0)
    words = (*PLAYED, "--limit", steps, *LUCKY, *cached, "--out", "run", "--quiet")
    return Job(words, prepare, made_by_run)


def market_job() -> Job:
    words = ("data", "make", "synthetic", "--first", "2024-01-02", "--last", "2024-02-08")

    def made(root: Path) -> dict[str, bytes]:
        return files_of(root / "made")

    return Job((*words, "--out", "made"), lambda _: None, made)


def board_job(board: Path, site: Path, new: Path) -> Job:
    """A site that is built in place of an earlier one: it is that or the new one at any time."""

    def prepare(root: Path) -> None:
        shutil.copytree(board, root / "board")
        shutil.copytree(site, root / "site")

    def made(root: Path) -> dict[str, bytes]:
        return files_of(root / "site")

    def broken(root: Path) -> str:
        is_whole = made(root) in (files_of(site), files_of(new))
        return "" if is_whole else "the site is neither the earlier one nor the new one"

    return Job(("leaderboard", "build", "board", "--out", "site"), prepare, made, broken)


def grid_job(market: Path) -> Job:
    plan: dict[str, Any] = {
        "models": [{"name": "builtin/random"}],
        "tasks": [TASK],
        "windows": [WINDOW],
        "options": {"limit": 2},
        "tables": [],
        "pages": [],
    }

    def prepare(root: Path) -> None:
        shutil.copytree(market, root / "market")
        write_plan(root / "plan.yaml", data=str(root / "market"), **plan)

    def made(root: Path) -> tuple[set[str], list[dict[str, bytes]], list[dict[str, str]]]:
        parts = parts_of(root / "grid")
        runs = sorted(path.parent for path in (root / "grid").glob("runs/*/manifest.json"))
        return set(done_records(root / "grid")), list(map(records, parts)), list(map(cards, runs))

    words = ("grid", "worker", "plan.yaml", "--out", "grid", "--no-tables", "--lease", 1)
    return Job(words, prepare, made)


# -- sweeps


def every(count: int) -> range:
    return range(1, count + 1)


def a_few(count: int, *, most: int) -> list[int]:
    """So many numbers up to a count, spread evenly; all of them, where there are fewer."""
    return sorted({1 + index * count // most for index in range(most) if count})


def check(found: Sweep, choice: Choice) -> None:
    """Check that each fault was met, and that each kind of call was made."""
    print(found)
    assert not found.problems, "\n".join(found.problems)
    for kind in KINDS:
        expected = len(list(choice(found.calls[kind])))
        assert found.refused[kind] + found.endured[kind] == expected, found
    assert found.refused.total() > found.endured.total(), found


def test_a_run_in_which_a_call_fails_names_the_cause_and_resumes(
    calls: FailingCalls, market: Path, root: Path
) -> None:
    choice = partial(a_few, most=2)
    check(sweep(calls, paid_job(market), root, choice), choice)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_every_call_of_a_resumption(
    calls: FailingCalls, market: Path, root: Path, tmp_path: Path
) -> None:
    check(sweep(calls, resumption_job(calls, market, tmp_path), root, every), every)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_every_call_of_a_run_with_a_cache(calls: FailingCalls, market: Path, root: Path) -> None:
    check(sweep(calls, paid_job(market), root, every), every)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_every_call_of_data_that_are_made(calls: FailingCalls, root: Path) -> None:
    check(sweep(calls, market_job(), root, every), every)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.needs("ktdeval_grid")
def test_calls_of_a_grid(calls: FailingCalls, market: Path, root: Path) -> None:
    """Ten calls of each kind: a dead worker's claim has to grow old each time."""
    choice = partial(a_few, most=10)
    check(sweep(calls, grid_job(market), root, choice), choice)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.needs("ktdeval_board")
def test_calls_of_a_site(calls: FailingCalls, root: Path, tmp_path: Path) -> None:
    """Twenty-five calls of each kind: most write or read one file of many that are alike."""
    from ktdeval_board.site.build import build_site
    from support.board.board_forge import forge_board

    earlier = forge_board(tmp_path / "earlier", 1, windows=1)
    build_site(earlier, tmp_path / "site")
    board = forge_board(tmp_path / "board", 2, windows=1)
    build_site(board, tmp_path / "new")
    choice = partial(a_few, most=25)
    job = board_job(board, tmp_path / "site", tmp_path / "new")
    check(sweep(calls, job, root, choice), choice)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_a_run_with_few_descriptors_names_the_limit(
    calls: FailingCalls, market: Path, root: Path
) -> None:
    """At each limit from too low to high enough: whatever is opened last is what fails."""
    job = paid_job(market)
    refused = 0
    for limit in range(8, 64):
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        job.prepare(root)
        done = calls.run(job.words, root, max_open_files=limit).done
        if done.code == 0:
            break

        line = error_line(done)
        assert "oo many open files" in line, (limit, line)
        refused += 1

    assert done.code == 0
    assert refused >= 3
