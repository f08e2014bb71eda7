"""Sandboxes and folders for programs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("ktdeval_command", reason="needs ktdeval_command, which is not here")

from ktdeval.stores import LocalStore
from ktdeval_command.sandbox import NoSandbox, Sandbox, SandboxError, open_sandbox
from ktdeval_command.workspace import WorkspaceLimits, Workspaces


@pytest.fixture(scope="session")
def bwrap() -> Sandbox:
    try:
        return open_sandbox("bwrap")
    except SandboxError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["none", "bwrap"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    """Each kind of walls."""
    if request.param == "none":
        return NoSandbox()

    found: Sandbox = request.getfixturevalue("bwrap")
    return found


@pytest.fixture
def workspaces(tmp_path: Path) -> Workspaces:
    limits = WorkspaceLimits(disk_bytes=4 << 20, disk_files=200)
    return Workspaces(LocalStore(tmp_path / "store"), "workspaces", limits)
