"""Sandboxes and folders for programs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("ktdeval_command", reason="needs ktdeval_command, which is not here")

from ktdeval.stores import LocalStore
from ktdeval_command.sandboxes.sandbox import NoSandbox, Sandbox, SandboxError, open_sandbox
from ktdeval_command.sandboxes.workspace import FolderLimits, ProgramWorkspaces
from support.runs.outside_programs import Place


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
def workspaces(tmp_path: Path) -> ProgramWorkspaces:
    limits = FolderLimits(disk_bytes=4 << 20, disk_files=200)
    return ProgramWorkspaces(LocalStore(tmp_path / "store"), "workspaces", limits)


@pytest.fixture
def place(tmp_path: Path, market: Path) -> Place:
    return Place(tmp_path, market)


@pytest.fixture
def readable_folder() -> Iterator[Path]:
    """A folder that another user may read, and that is not below /tmp, where a sandbox has its own."""
    for parent in ("/var/tmp", "/opt", str(Path.home())):
        if parent.startswith(("/tmp", "/dev")):
            continue
        try:
            made = Path(tempfile.mkdtemp(dir=parent))
        except OSError:
            continue

        made.chmod(0o755)
        yield made
        shutil.rmtree(made)
        return

    pytest.skip("needs a folder outside /tmp that can be written")
