"""Recipes for schedulers, executed as they stand: the line of cron, the unit of systemd, and the
workflow of GitHub Actions step by step, each run on a machine of its own.
"""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from ktdeval.cli.main import main
from ktdeval.values import requirement
from ktdeval_live.checks.verification import verify_test
from ktdeval_live.publication.publish_chain import publications
from ktdeval_live.record.folder import LiveFolder
from support.live.live_drops import Drops, begin_drops, plan_text, plugins, store_markets
from support.paths import REPOSITORY

BIN = Path(sys.executable).parent
PAGE = (REPOSITORY / "docs" / "live.md").read_text("utf-8")
WORKFLOW = REPOSITORY / "examples" / "live" / "workflow.yml"
BARE = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
"""Environment of a scheduler: no home, no language."""


@pytest.fixture
def test(tmp_path: Path) -> Path:
    """A test by the clock of this machine that begins in three weeks."""
    store_markets(tmp_path / "markets")
    today = datetime.now(UTC).date()
    fields: dict[str, Any] = {
        "kind": "live",
        "first": str(today + timedelta(days=21)),
        "last": str(today + timedelta(days=35)),
    }
    us = {
        "data": str(tmp_path / "markets" / "us"),
        "task": "market_bright",
        "source_args": {"folder": "private/incoming"},
    }
    plan = tmp_path / "plan.yaml"
    plan.write_text(yaml.safe_dump(plan_text({"us": us}, **fields)), "utf-8")
    path = tmp_path / "spring"

    assert main(["live", "init", str(plan), "--out", str(path)]) == 0

    return path


def here(command: str, test: Path) -> str:
    """Return a command of the page with the paths of this machine."""
    return command.replace("/opt/ktdeval/bin", str(BIN)).replace("/srv/spring", str(test))


def run_bare(command: str) -> str:
    """What a command prints that is run as by a scheduler: by `sh`, from the root, without a
    terminal.
    """
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd="/",
        env=BARE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")

    return done.stdout


@pytest.mark.exhaustive
def test_line_of_cron_takes_a_step(test: Path) -> None:
    line = next(line for line in PAGE.splitlines() if re.match(r"\d+ \* \* \* \* ", line))
    command = here(line.split(maxsplit=5)[5], test)
    for _ in range(2):
        run_bare(command)

    log = test.with_name("spring.log").read_text("utf-8")

    assert log.count("nothing is due at ") == 2
    assert len(publications(LiveFolder(test))) == 1


@pytest.mark.exhaustive
def test_unit_of_systemd_takes_a_step(test: Path) -> None:
    block = next(part for part in PAGE.split("```ini\n")[1:]).partition("```")[0]
    service_text, timer_text = re.split(r"^# \S+\.timer\n", block, flags=re.MULTILINE)
    service = configparser.ConfigParser()
    service.read_string(service_text)
    timer = configparser.ConfigParser()
    timer.read_string(timer_text)

    assert service["Service"]["Type"] == "oneshot"
    assert timer["Timer"]["OnCalendar"] == "hourly"
    assert timer["Timer"]["Persistent"] == "true"  # a machine that was off steps when it is on

    assert "nothing is due at " in run_bare(here(service["Service"]["ExecStart"], test))


# ---- GitHub Actions


class Runner:
    """Runs of a workflow, each in a fresh checkout, with the cache between them."""

    def __init__(self, folder: Path, remote: Path, clock: Path) -> None:
        self._folder = folder
        self._remote = remote
        self._cache = folder / "cache"
        self._runs = 0
        self._bin = folder / "bin"
        self._bin.mkdir()
        # What the machine of a run would install; a rehearsal has its own clock.
        self._command("pip", f"""printf '%s\\n' "$@" >>'{folder}/installed'""")
        self._command("ktdeval", f'exec "{BIN}/ktdeval" "$@" --clock "{clock}"')

    def _command(self, name: str, text: str) -> None:
        path = self._bin / name
        path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
        path.chmod(0o755)

    def run(self) -> Path:
        """Run all steps of the workflow; return the checkout."""
        workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
        self._runs += 1
        work = self._folder / f"run-{self._runs}"

        for step in workflow["jobs"]["step"]["steps"]:
            if "run" in step:
                self._shell(step["run"], work, step.get("env", {}))
            else:
                self._action(step["uses"].partition("@")[0], step.get("with", {}), work)

        return work

    def _shell(self, command: str, work: Path, variables: Mapping[str, str]) -> None:
        path = f"{self._bin}:{BARE['PATH']}"
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", command],
            cwd=work,
            env={**BARE, "PATH": path, "HOME": str(self._folder), **variables},
            capture_output=True,
            text=True,
            check=False,
        )

        assert done.returncode == 0, done

    def _action(self, name: str, given: Mapping[str, Any], work: Path) -> None:
        if name == "actions/checkout":
            assert given["fetch-depth"] == 0  # evidence is in earlier commits
            words = ["git", "clone", "--quiet", "--branch", given["ref"]]
            subprocess.run([*words, str(self._remote), str(work)], check=True)
        elif name == "actions/cache/restore":
            if self._cache.exists():
                shutil.copytree(self._cache, work / given["path"])
        elif name == "actions/cache/save":
            shutil.rmtree(self._cache, ignore_errors=True)
            shutil.copytree(work / given["path"], self._cache)
        else:
            assert name == "actions/setup-python"


@pytest.mark.exhaustive
def test_workflow_takes_steps_in_a_fresh_checkout_each_time(tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    subprocess.run(
        ["git", "init", "--quiet", "--bare", "--initial-branch", "main", str(remote)], check=True
    )
    incoming = tmp_path / "incoming"
    drops = begin_drops(
        tmp_path,
        incoming=str(incoming),
        first="2024-06-03",
        last="2024-06-05",
        publish={"remote": str(remote)},
    )
    drops.step_here()  # publishes what was begun, for the workflow to check out
    runner = Runner(tmp_path, remote, drops.clock_file)

    latest = drops.path

    for day in ("2024-05-31", "2024-06-03", "2024-06-04", "2024-06-05"):
        drops.drop(day)
        drops.after_close(day)
        latest = runner.run()
        assert sealed_days(latest) <= {day}

    seen = Drops(latest, drops.markets, drops.clock_file)
    result = verify_test(seen.folder, plugins())

    assert not result.findings
    assert (result.decisions, result.sealed) == (3, 0)
    assert all(one.pushed for one in publications(seen.folder))
    # one requirement, which names the repository since no index has ktdeval
    lines = (tmp_path / "installed").read_text("utf-8").splitlines()
    assert lines == ["install", requirement("live", "models")] * 4


def sealed_days(test: Path) -> set[str]:
    """Return the days of decisions that are still private."""
    folder = test / "private" / "momentum" / "us"
    return {path.stem for path in folder.glob("????-??-??.json")}


def test_workflow_is_as_its_service_reads_it() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "write"}
    assert workflow["concurrency"]["cancel-in-progress"] is False

    steps = {step["name"]: step for step in workflow["jobs"]["step"]["steps"]}
    kept = steps["Keep sealed decisions and records of calls"]

    assert kept["if"] == "always()"  # what was paid is kept where a step fails

    restored = steps["Restore sealed decisions and records of calls"]["with"]
    assert kept["with"]["key"] == restored["key"]
    assert kept["with"]["key"].startswith(restored["restore-keys"])
