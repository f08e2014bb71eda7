"""A program is tried before a run asks any model: nothing is paid for a program that can't start."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval_command.profiles import Profile
from ktdeval_command.program_trial import try_program
from ktdeval_command.sandboxes.sandbox import NoSandbox, Sandbox, SandboxError, open_sandbox
from ktdeval_command.sandboxes.shown_parts import SourcePart
from support.runs.outside_programs import Place, provider
from support.runs.run_support import ktdeval

pytestmark = pytest.mark.slow  # each starts programs


@pytest.fixture(params=["none", "bwrap"])
def walls(request: pytest.FixtureRequest, readable_folder: Path) -> Sandbox:
    """Each kind of walls, which show the folder."""
    if request.param == "none":
        return NoSandbox()
    request.getfixturevalue("bwrap")
    return open_sandbox("bwrap", [SourcePart(readable_folder, "folder")])


def program(folder: Path, text: str, mode: int = 0o755) -> str:
    path = folder / "agent"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_program_that_starts_passes(walls: Sandbox, readable_folder: Path) -> None:
    path = program(readable_folder, "#!/bin/sh\n[ $1 = --version ] && echo 1.2\n")
    try_program((path,), Profile(), walls)
    try_program((path,), Profile(version=("--version",)), walls)
    try_program(("sh", "-c", "true"), Profile(), walls)


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [
        ("#!/bin/sh\n", 0o644, "agent: may not be executed by the user inside"),
        ("#!/no/such/shell\n", 0o755, "/no/such/shell: is not there"),
        ("#!/usr/bin/env -S no-such-shell -x\n", 0o755, "no-such-shell: is not there"),
    ],
)
def test_a_program_that_cannot_start_is_named_with_the_reason(
    walls: Sandbox, readable_folder: Path, text: str, mode: int, problem: str
) -> None:
    path = program(readable_folder, text, mode)
    with pytest.raises(
        SandboxError, match=f"can't be started: .*{problem}; install it, or correct"
    ):
        try_program((path,), Profile(), walls)


def test_a_program_that_cannot_say_its_version_is_named_with_what_it_said(
    walls: Sandbox, readable_folder: Path
) -> None:
    path = program(readable_folder, "#!/bin/sh\necho no node >&2; exit 3\n")
    with pytest.raises(SandboxError, match=r"agent --version: exited 3: no node; correct the"):
        try_program((path,), Profile(version=("--version",)), walls)


@pytest.mark.parametrize("run", ["no-such-program", "./agent", "python3 trader.py"])
def test_no_model_is_asked_before_the_program_was_tried(
    tmp_path: Path, market: Path, run: str
) -> None:
    """Neither the canary nor what finds out how a model takes tools."""
    place = Place(tmp_path, market)
    place.write("submit()")
    program(tmp_path, "#!/no/such/shell\n")
    with provider() as asked:
        model = ("--model", "openai_compatible/m", "--base-url", asked.base_url)
        words = place.command(*model, "--max-retries", 0, run=run)
        keys = {"OPENAI_COMPATIBLE_API_KEY": "sk-of-this-test-only"}
        done = ktdeval(*words, cwd=tmp_path, environment=keys)

    if run == "python3 trader.py":
        assert asked.bodies  # this one asks
        return
    assert done.code != 0
    assert "is not there" in done.err
    assert asked.bodies == []
