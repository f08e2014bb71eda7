"""Trial of a program in its sandbox, before the run calls a model: checks that the program can be
started.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.errors import wrap_os_error
from ktdeval.stores import LocalStore
from ktdeval.values import temporary_folder
from ktdeval_command.placeholders import StepValues
from ktdeval_command.profiles import Profile, prepare_start
from ktdeval_command.sandboxes.program import FinishedProgram, ProgramLimits, Start, run_program
from ktdeval_command.sandboxes.sandbox import Sandbox, SandboxError
from ktdeval_command.sandboxes.workspace import FolderLimits, ProgramWorkspaces

_SECONDS = 60.0
_DISK_BYTES = 64 << 20

# Runs inside the sandbox and prints the problem, if any. A script needs its interpreter, which may
# itself be a script with an interpreter.
_LOOK = """\
import os, shutil, sys
path = sys.argv[1]
for _ in range(8):
    found = shutil.which(path)
    if found is None:
        there = os.path.exists(path)
        print(f"{path}: " + ("may not be executed by the user inside" if there else "is not there"))
        break
    try:
        with open(found, "rb") as file:
            line = file.readline(512)
    except OSError:
        break
    words = line[2:].decode("utf-8", "replace").split()
    if not line.startswith(b"#!") or not words:
        break
    if os.path.basename(words[0]) == "env":
        words = [each for each in words[1:] if not each.startswith("-") and "=" not in each] or words
    path = words[0]
"""


def try_program(words: tuple[str, ...], profile: Profile, sandbox: Sandbox) -> None:
    """Raise SandboxError if a program does not exist in the sandbox or is not executable. Also
    raise it if the profile has arguments for printing the version and the program can't print it.
    """
    program = sandbox.program_path(words[0])
    with wrap_os_error(
        "can't create a temporary folder",
        "set TMPDIR to a writable folder",
        SandboxError,
    ):
        looked = _run((sandbox.python, "-I", "-S", "-c", _LOOK, program), profile, sandbox)
    problem = looked.stdout.text().strip()
    if not problem and str(looked.outcome) != "exited 0":
        problem = f"{looked.outcome}: {_last_line(looked)}"
    if problem:
        raise SandboxError(
            f"sandbox={sandbox.name}: {words[0]}: can't be started: {problem}; install it, or correct"
            " run="
        )
    if not profile.version:
        return

    asked = _run((words[0], *profile.version), profile, sandbox)
    if str(asked.outcome) != "exited 0":
        raise SandboxError(
            f"sandbox={sandbox.name}: {' '.join((words[0], *profile.version))}: {asked.outcome}:"
            f" {_last_line(asked)}; correct the program's installation"
        )


def _run(argv: tuple[str, ...], profile: Profile, sandbox: Sandbox) -> FinishedProgram:
    """Run a command in the same way as the program, in an empty folder and without servers."""
    nowhere = StepValues(
        bridge="http://127.0.0.1:9",
        bridge_token="none",  # noqa: S106 - of no server
        tools_url="http://127.0.0.1:9/mcp",
        tools_token="none",  # noqa: S106 - as above
        tools_stdio=(),
        prompt="",
        model="ktdeval",
    )
    environment = prepare_start(profile, argv, nowhere).environment
    limits = ProgramLimits(wall_s=_SECONDS)
    with temporary_folder("ktdeval-trial-") as folder:
        files = LocalStore(Path(folder))
        workspaces = ProgramWorkspaces(files, "trial", FolderLimits(disk_bytes=_DISK_BYTES))
        return run_program(Start(argv, environment, limits=limits), sandbox, workspaces)


def _last_line(finished: FinishedProgram) -> str:
    output = f"{finished.stdout.text()}\n{finished.stderr.text()}"
    lines = output.strip().splitlines() or ["it wrote no output"]
    return lines[-1][:300]
