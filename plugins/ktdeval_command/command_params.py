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
            "how to start the program: a YAML file, or one of claude, codex, default, gemini, "
            "opencode; default: by the program's name"
        ),
    )
    session: Literal["step", "episode"] = option(
        "step",
        help="one process per step, or one per episode, which calls the tool next_day",
    )
    sandbox: Literal["bwrap", "none"] = option(
        "bwrap",
        help=(
            "sandbox: bwrap (bubblewrap) or none; cards without a sandbox are not ranked as "
            "blinded on masked tasks"
        ),
    )
    readable: tuple[LocalPath, ...] = option(
        (),
        help=(
            "further folders that the program may read in the sandbox, such as that of its "
            "interpreter; a folder with a market, a run, a cache or a key in it is refused"
        ),
    )
    models: tuple[str, ...] = option(
        (),
        help=(
            "further models, PROVIDER/NAME, that the program may request by this name; any other "
            "name gets the run's model"
        ),
    )
    model_name: str = option(
        "",
        help=(
            "name under which the program sees the run's model; the program may choose its "
            "settings by it; default: the model's own name"
        ),
    )
    calls: int = option(
        200, help="maximum number of model calls in a step", minimum=1, maximum=100_000
    )
    seconds: float = option(
        600.0, help="time limit of a step, in seconds", minimum=0.1, maximum=86_400
    )
    grace_s: float = option(
        30.0,
        help="seconds that the program may run on after its submission was accepted",
        minimum=0.0,
        maximum=3600,
    )
    memory_mib: int = option(
        4096, help="memory limit for all its processes, in MiB", minimum=16, maximum=1 << 20
    )
    processes: int = option(
        256, help="maximum number of processes and threads in a sandbox", minimum=1, maximum=100_000
    )
    disk_mib: int = option(64, help="size limit of its folder, in MiB", minimum=1, maximum=16_384)
    files: int = option(
        10_000,
        help="maximum number of files and folders in its folder",
        minimum=1,
        maximum=1_000_000,
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
    brought: str | None = option(
        None,
        help=(
            "hash of all files that the sandbox shows besides the system; fixed by a registration"
        ),
    )
    told: str | None = option(
        None,
        help="hash of its profile and of the text on how a step goes; recorded with each run",
    )
