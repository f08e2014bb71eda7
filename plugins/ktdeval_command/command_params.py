"""Arguments of the agent `command`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ktdeval.values import LocalPath, option


@dataclass(frozen=True, kw_only=True)
class CommandParams:
    """How a program is run for a step."""

    run: str = option(
        help=(
            "command line of the program, such as 'codex exec', split as a shell does; files that it"
            " names by a relative path are put into the program's folder"
        )
    )
    profile: str = option(
        "",
        help=(
            "how it is started: a YAML file, or one of claude, codex, default, gemini, opencode;"
            " default: that of the program's name"
        ),
    )
    session: Literal["step", "episode"] = option(
        "step",
        help="one process for each step, or one for the episode, which calls the tool next_day",
    )
    sandbox: Literal["bwrap", "none"] = option(
        "bwrap",
        help=(
            "walls around it: bubblewrap, or none, whose cards are never ranked where a task hides"
            " something"
        ),
    )
    readable: tuple[LocalPath, ...] = option(
        (),
        help=(
            "further folders that it may read in the sandbox, such as that of its interpreter; each is"
            " searched, and refused with a market, a run, a cache or a key in it"
        ),
    )
    models: tuple[str, ...] = option(
        (),
        help=(
            "further models, PROVIDER/NAME, that it gets where it asks for one by this name; any"
            " other name is the run's own"
        ),
    )
    model_name: str = option(
        "",
        help=(
            "name of the run's model as the program is told it, by which it chooses its settings; it"
            " may ask for any; default: the model's own"
        ),
    )
    calls: int = option(200, help="most calls of the model in a step", minimum=1, maximum=100_000)
    seconds: float = option(
        600.0, help="longest time for a step, in seconds", minimum=0.1, maximum=86_400
    )
    grace_s: float = option(
        30.0,
        help="seconds that it may go on after its submission was accepted",
        minimum=0.0,
        maximum=3600,
    )
    memory_mib: int = option(
        4096, help="most memory of all its processes, in MiB", minimum=16, maximum=1 << 20
    )
    processes: int = option(
        256, help="most processes and threads in a sandbox", minimum=1, maximum=100_000
    )
    disk_mib: int = option(64, help="most bytes in its folder, in MiB", minimum=1, maximum=16_384)
    files: int = option(
        10_000, help="most files and folders in its folder", minimum=1, maximum=1_000_000
    )
    content: str | None = option(
        None, help="hash of the files that `run` names; recorded with each run"
    )
    program: str | None = option(
        None, help="hash of the program behind `run`, with its package; recorded with each run"
    )
    version: str | None = option(
        None, help="package of the program with its version; recorded with each run"
    )
    told: str | None = option(
        None,
        help="hash of its profile and of the text on how a step goes; recorded with each run",
    )
