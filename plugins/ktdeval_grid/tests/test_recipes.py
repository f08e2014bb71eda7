"""Recipes for clusters (examples/grid): each starts every shard of a grid once, by the command that
a person would type. The programs that they call are stood in for, so that the test sees what is
called.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from ktdeval_grid.state.unit_order import parse_shard
from support.paths import REPOSITORY

RECIPES = REPOSITORY / "examples" / "grid"
SHARDS = 3


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder of programs: `ktdeval` notes its arguments, `ssh` runs its command here."""
    folder = tmp_path / "programs"
    folder.mkdir()
    calls = shlex.quote(str(tmp_path / "calls"))
    scripts = {
        "ktdeval": f'echo "$@" >>{calls}',
        "ssh": 'for last; do :; done\ncase "$*" in *down*) exit 255;; esac\nexec sh -c "$last"',
    }

    for name, script in scripts.items():
        path = folder / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    return folder


def run(programs: Path, words: Sequence[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", **variables}
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)


def calls(programs: Path) -> list[str]:
    return sorted((programs.parent / "calls").read_text().splitlines())


def expected(count: int, plan: str, folder: str) -> list[str]:
    return [f"grid worker {plan} --out {folder} --shard {n + 1}/{count}" for n in range(count)]


def documents() -> Sequence[Mapping[str, Any]]:
    return list(yaml.safe_load_all((RECIPES / "kubernetes.yaml").read_text()))


@pytest.mark.parametrize("first", [0, 1, 7])
def test_tasks_of_a_slurm_array_are_the_shards(programs: Path, first: int) -> None:
    for number in range(SHARDS):
        done = run(
            programs,
            [str(RECIPES / "slurm.sh"), "plan.yaml", "/shared/grid"],
            SLURM_ARRAY_TASK_ID=str(first + number),
            SLURM_ARRAY_TASK_MIN=str(first),
            SLURM_ARRAY_TASK_COUNT=str(SHARDS),
        )
        assert done.returncode == 0, done.stderr

    assert calls(programs) == expected(SHARDS, "plan.yaml", "/shared/grid")


def test_options_of_slurm_stand_before_the_first_command() -> None:
    """`sbatch` reads none after it."""
    lines = (RECIPES / "slurm.sh").read_text().splitlines()
    first = next(n for n, line in enumerate(lines) if line and not line.startswith("#"))
    options = [n for n, line in enumerate(lines) if line.startswith("#SBATCH ")]

    assert options
    assert max(options) < first


def test_each_machine_of_the_list_runs_a_shard(programs: Path, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# the lab's\nnode1\nuser@node2\n\n  \nnode3\n")
    done = run(programs, [str(RECIPES / "ssh.sh"), str(hosts), "my plan.yaml", "/shared/a b"])

    assert done.returncode == 0, done.stderr
    assert calls(programs) == expected(SHARDS, "my plan.yaml", "/shared/a b")


def test_a_machine_that_is_down_is_named_and_the_others_work(
    programs: Path, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("node1\ndown\n")
    done = run(programs, [str(RECIPES / "ssh.sh"), str(hosts), "plan.yaml", "/shared/grid"])

    assert done.returncode == 1
    assert done.stderr.startswith("down: its worker failed")
    assert calls(programs) == expected(2, "plan.yaml", "/shared/grid")[:1]


def test_a_list_without_a_machine_is_refused(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("# none yet\n")
    done = run(programs, [str(RECIPES / "ssh.sh"), str(tmp_path / "hosts"), "p.yaml", "/g"])
    assert done.returncode == 2
    assert "no machine in it" in done.stderr


def test_pods_of_a_kubernetes_job_are_the_shards(programs: Path) -> None:
    job = documents()[1]
    count = job["spec"]["completions"]
    container = job["spec"]["template"]["spec"]["containers"][0]
    variables = {each["name"]: each["value"] for each in container["env"]}

    assert variables["SHARDS"] == str(count)
    assert job["spec"]["completionMode"] == "Indexed"  # it numbers the pods

    for index in range(count):
        words = [*container["command"], *container["args"]]
        done = run(programs, words, JOB_COMPLETION_INDEX=str(index), **variables)
        assert done.returncode == 0, done.stderr

    assert calls(programs) == sorted(expected(count, "/plan/plan.yaml", variables["GRID"]))


def test_shards_are_counted_from_one() -> None:
    """As the recipes count them."""
    first = parse_shard("1/2")
    assert (first.index, first.count) == (1, 2)
