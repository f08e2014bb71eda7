"""Workflows of hosted CI, those that ship for users included, run the actions that were reviewed."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import chain

import pytest
import yaml

from support.paths import REPOSITORY

PATTERNS = (
    ".github/workflows/*.yml",
    "examples/**/workflow.yml",
    "leaderboards/*/.github/workflows/*.yml",
    "plugins/*/templates/**/workflow.yml",
    "plugins/*/templates/**/*.yml.j2",
)
FILES = sorted(chain.from_iterable(map(REPOSITORY.glob, PATTERNS)))
USES = re.compile(r"^\s*(?:- )?uses:\s*(.*)$", re.MULTILINE)
PINNED = re.compile(
    r"(?P<action>[\w-]+/[\w-]+)[\w/-]*@(?P<hash>[0-9a-f]{40})  # (?P<tag>v\d+\.\d+\.\d+)"
)


def uses() -> list[tuple[str, str]]:
    """File and action of each step that runs one."""
    found = []
    for path in FILES:
        for action in USES.findall(path.read_text(encoding="utf-8")):
            found.append((path.relative_to(REPOSITORY).as_posix(), action.strip()))

    return found


def test_each_action_is_pinned_by_commit_hash_and_states_its_version() -> None:
    assert len(uses()) > 20
    assert [(path, action) for path, action in uses() if not PINNED.fullmatch(action)] == []


def test_one_version_of_an_action_has_one_hash() -> None:
    hashes = defaultdict(set)
    for _, action in uses():
        pinned = PINNED.fullmatch(action)
        assert pinned is not None, action
        hashes[pinned["action"], pinned["tag"]].add(pinned["hash"])

    assert {name: found for name, found in hashes.items() if len(found) > 1} == {}


@pytest.mark.parametrize("name", ["ci.yml", "nightly.yml", "release.yml"])
def test_workflow_of_the_project_reads_alone_unless_a_job_needs_more(name: str) -> None:
    workflow = yaml.safe_load((REPOSITORY / ".github/workflows" / name).read_text())
    rights = {job: each.get("permissions") for job, each in workflow["jobs"].items()}
    expected = {
        "ci.yml": {"checks": None},
        "nightly.yml": {"checks": None},
        "release.yml": {
            "build": {"contents": "read", "id-token": "write", "attestations": "write"},
            "publish": {"id-token": "write"},
            "attach": {"contents": "write"},
        },
    }

    assert workflow["permissions"] == {"contents": "read"}
    assert rights == expected[name]


@pytest.mark.parametrize(
    ("name", "command", "documented"),
    [("ci.yml", ".ci/run", ".ci/run "), ("nightly.yml", "make nightly", "make nightly ")],
)
def test_hosted_ci_runs_the_command_that_contributors_run(
    name: str, command: str, documented: str
) -> None:
    workflow = yaml.safe_load((REPOSITORY / ".github/workflows" / name).read_text())
    (job,) = workflow["jobs"].values()

    assert [step["run"] for step in job["steps"] if "run" in step] == [command]
    assert f"    {documented}" in (REPOSITORY / "CONTRIBUTING.md").read_text()
