"""The same run, however it came about: twice, side by side, elsewhere, or killed and resumed at any
moment.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ktdeval.testing import wait_for
from support.runs.run_support import (
    DAYS_IN_WINDOW,
    PLUGIN,
    SAME_MASK,
    TASK,
    WINDOW,
    assert_same,
    card_of,
    finished_steps,
    ktdeval,
    records,
    start,
)

LONG_WINDOW = "2024-01-15:2024-04-12"
# chaos may fail in any number of steps in a row, which shall not stop a run here
PATIENT = ("--max-failures", 1000)
MIXED = ("--plugin", PLUGIN, "--model", "test/mixed", "--tasks", TASK, *SAME_MASK, *PATIENT)
WHOLE = (*MIXED, "--agent", "remembering", "--windows", WINDOW)


# -- equal runs
# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["builtin/momentum", "builtin/chaos"])
def test_runs_of_the_same_seeds_are_equal_in_parallel_and_any_folder(
    market: Path, tmp_path: Path, model: str
) -> None:
    words = (
        "--model",
        model,
        "--tasks",
        TASK,
        "--windows",
        WINDOW,
        "--limit",
        "7",
        "--seeds",
        "4",
        *SAME_MASK,
    )
    (tmp_path / "elsewhere").mkdir()
    places = {
        "one": (tmp_path, market, 1),
        "two": (tmp_path, market, 4),
        "three": (tmp_path / "elsewhere", os.path.relpath(market, tmp_path / "elsewhere"), 3),
    }

    for name, (cwd, data, concurrency) in places.items():
        done = ktdeval(
            *words, "--data", data, "--out", tmp_path / name, "--concurrency", concurrency, cwd=cwd
        )
        assert done.code == 0, done

    assert_same(tmp_path / "two", tmp_path / "one")
    assert_same(tmp_path / "three", tmp_path / "one")

    assert len(set(records(tmp_path / "one").values())) == 8  # four seeds, and no two are alike


@pytest.mark.exhaustive
def test_locale_time_zone_hash_seed_and_threads_change_nothing(
    market: Path, tmp_path: Path
) -> None:
    words = [
        "--model",
        "builtin/chaos",
        "--tasks",
        "stock_blind_open_research",
        "--windows",
        WINDOW,
        "--limit",
        "6",
        *SAME_MASK,
    ]
    words += ["--data", str(market), "--quiet", "--out"]

    assert ktdeval(*words, tmp_path / "one", cwd=tmp_path).code == 0

    other = {
        "PYTHONHASHSEED": "4321",
        "TZ": "Pacific/Auckland",
        "LC_ALL": "C",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "ktdeval", *words, str(tmp_path / "two")]
    subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **other}, check=True, capture_output=True
    )
    assert_same(tmp_path / "two", tmp_path / "one")


# -- killed
# ----------------------------------------------------------------------------------------------------------


def test_records_after_twenty_random_kills_equal_an_uninterrupted_run(
    market: Path, tmp_path: Path
) -> None:
    words = (*MIXED, "--windows", LONG_WINDOW, "--data", market, "--quiet")
    assert ktdeval(*words, "--out", tmp_path / "whole", cwd=tmp_path).code == 0

    chance = random.Random(20240930)
    run = tmp_path / "killed"
    kills = 0
    seen = set()
    # a step takes some 30 ms, so that most moments lie within one
    slow = {"RUN_PLUGIN_SLEEP_MS": "5"}

    for _ in range(20):
        process = start(*words, "--out", run, cwd=tmp_path, environment=slow)
        # some time after a further step, else some time after the start: also in loading or
        # recovery
        if chance.random() < 0.7:
            before = finished_steps(run)
            wait_for(lambda before=before: finished_steps(run) > before, process.is_alive)
            time.sleep(chance.uniform(0, 0.04))
        else:
            time.sleep(chance.uniform(0, 0.25))

        process.signal(signal.SIGKILL)
        kills += process.wait().code == -signal.SIGKILL
        seen.add(finished_steps(run))

    assert kills == 20
    assert len(seen) >= 10  # the kills lie all over the episode

    done = ktdeval(*words, "--out", run, cwd=tmp_path)
    assert done.code == 0, done

    assert_same(run, tmp_path / "whole")
    assert len(card_of(run)["failures"]) >= 3  # chaos had its turns
    assert ktdeval("card", "verify", run, "--plugin", PLUGIN, cwd=tmp_path).code == 0


@pytest.mark.parametrize("step", [0, 1, 9, DAYS_IN_WINDOW - 1])
def test_run_killed_right_after_a_step_resumes_and_repeats_no_call(
    market: Path, whole: Path, tmp_path: Path, step: int
) -> None:
    words = (*WHOLE, "--data", market, "--out", tmp_path / "run")
    log = tmp_path / "calls"
    environment = {"RUN_PLUGIN_CALL_LOG": str(log)}
    done = ktdeval(
        *words, cwd=tmp_path, environment={**environment, "RUN_PLUGIN_DIE_AFTER_STEP": str(step)}
    )

    assert done.code == -signal.SIGKILL
    assert finished_steps(tmp_path / "run") == step + 1

    done = ktdeval(*words, cwd=tmp_path, environment=environment)
    assert done.code == 0, done
    assert f"resuming after {step + 1} of {DAYS_IN_WINDOW} steps" in done.err

    assert_same(tmp_path / "run", whole)
    seeds = log.read_text().split()

    assert len(seeds) == len(set(seeds))  # each call has a seed of its own


@pytest.mark.parametrize(
    ("rename", "moment"),
    [*((rename, "before") for rename in range(1, 6)), (4, "after"), (5, "after")],
)
def test_killed_around_the_writing_of_any_file_nothing_is_half_done(
    market: Path, whole: Path, tmp_path: Path, rename: int, moment: str
) -> None:
    """Manifest, ledger, transcript, mark of completeness, card: each appears by a rename."""
    words = (*WHOLE, "--data", market, "--out", tmp_path / "run")
    done = ktdeval(
        *words, cwd=tmp_path, environment={"RUN_PLUGIN_DIE_AT_RENAME": f"{rename}:{moment}"}
    )

    assert done.code == -signal.SIGKILL

    done = ktdeval(*words, cwd=tmp_path)
    assert done.code == 0, done

    assert_same(tmp_path / "run", whole)


def test_a_run_has_no_further_moments_than_those_renames(market: Path, tmp_path: Path) -> None:
    words = (*WHOLE, "--data", market, "--out", tmp_path / "run")
    assert (
        ktdeval(*words, cwd=tmp_path, environment={"RUN_PLUGIN_DIE_AT_RENAME": "6:before"}).code
        == 0
    )


def test_several_episodes_at_once_are_resumed_each_where_it_was(
    market: Path, tmp_path: Path
) -> None:
    words = (*MIXED, "--windows", WINDOW, "--data", market, "--quiet", "--seeds", "3")
    assert ktdeval(*words, "--out", tmp_path / "whole", cwd=tmp_path).code == 0

    run = tmp_path / "run"

    for wanted in (4, 25):
        process = start(
            *words,
            "--concurrency",
            "3",
            "--out",
            run,
            cwd=tmp_path,
            environment={"RUN_PLUGIN_SLEEP_MS": "4"},
        )
        wait_for(lambda wanted=wanted: finished_steps(run) >= wanted, process.is_alive)
        process.kill()

    assert ktdeval(*words, "--concurrency", "2", "--out", run, cwd=tmp_path).code == 0

    assert_same(run, tmp_path / "whole")


# -- asked to stop
# ---------------------------------------------------------------------------------------------------


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("number", "concurrency"), [(signal.SIGINT, 1), (signal.SIGTERM, 2)])
def test_interrupt_stops_between_steps_and_explains_how_to_resume(
    market: Path, tmp_path: Path, number: int, concurrency: int
) -> None:
    words = (
        *MIXED,
        "--windows",
        WINDOW,
        "--data",
        market,
        "--seeds",
        "2",
        "--concurrency",
        concurrency,
    )

    assert ktdeval(*words, "--out", tmp_path / "whole", cwd=tmp_path).code == 0

    run = tmp_path / "run"
    process = start(
        *words, "--quiet", "--out", run, cwd=tmp_path, environment={"RUN_PLUGIN_SLEEP_MS": "4"}
    )

    wait_for(lambda: finished_steps(run) >= 3, process.is_alive)

    process.signal(number)
    done = process.wait()

    assert done.code == 130
    assert done.err.splitlines() == [
        f"stopped; finished steps are kept in {run}: run the same command again to resume",
        "ktdeval: error: interrupted",
    ]
    assert finished_steps(run) >= 3
    assert not any((run / "cards").iterdir())

    done = ktdeval(*words, "--out", run, cwd=tmp_path)
    assert done.code == 0
    assert "resuming after" in done.err

    assert_same(run, tmp_path / "whole")
