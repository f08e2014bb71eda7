"""Roll-outs in several processes: equal to those in one process, also after SIGKILL. Skipped if the
extra `gym` is not installed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install '.[gym]'")

import gym_processes  # noqa: E402
from gym_processes import NAME, Drawing, jobs  # noqa: E402
from gym_worlds import as_bytes  # noqa: E402
from ktdeval.testing import wait_for  # noqa: E402
from ktdeval_gym.policies.rollouts import roll_out_all  # noqa: E402

pytestmark = pytest.mark.slow


def batches(envs: Any, steps: int) -> list[Any]:
    """What a vector environment returns for random actions."""
    returned = [as_bytes(envs.reset(seed=3)[0])]
    envs.action_space.seed(3)

    for _ in range(steps):
        returned.append([as_bytes(each) for each in envs.step(envs.action_space.sample())[:4]])

    envs.close()

    return returned


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "options"),
    [
        (NAME, {"windows": "2020-10-02:2020-10-08", "reward": "differential_sharpe"}),
        ("ktdeval_gym.envs:ktdeval/KtdFin-v0", {"windows": "2024-04-01:2024-04-03"}),
        ("ktdeval_gym.envs:ktdeval/Broker-v0", {"days": 3}),
    ],
)
def test_processes_that_are_spawned_give_what_one_process_gives(
    name: str, options: dict[str, Any]
) -> None:
    makers = [partial(gymnasium.make, name, **options)] * 2
    one = batches(gymnasium.vector.SyncVectorEnv(makers), 6)
    several = batches(gymnasium.vector.AsyncVectorEnv(makers, context="spawn"), 6)
    assert several == one


def test_roll_outs_that_are_killed_and_resumed_give_the_same_bytes(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    cut = tmp_path / "cut"
    paths = os.pathsep.join(path for path in sys.path if path)
    killed = subprocess.Popen(
        [sys.executable, gym_processes.__file__, str(cut)],
        env={**os.environ, "PYTHONPATH": paths},
        start_new_session=True,  # so that its child processes are killed with it
    )

    try:
        # the job of seed 1 never ends; the others do
        wait_for(
            lambda: (cut / "seed-0.json").exists() and (cut / "seed-2.json").exists(),
            lambda: killed.poll() is None,
        )
    finally:
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()

    assert not (cut / "seed-1.json").exists()

    kept = (cut / "seed-0.json").stat().st_mtime_ns
    roll_out_all(jobs(Drawing), cut)  # one process completes what two have begun
    roll_out_all(jobs(Drawing), whole)

    assert (cut / "seed-0.json").stat().st_mtime_ns == kept

    for job in jobs(Drawing):
        name = f"{job.name}.json"
        assert (cut / name).read_bytes() == (whole / name).read_bytes()
