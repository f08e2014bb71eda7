"""`ktdeval train openenv`: serve tasks as an OpenEnv environment, or write an environment's
folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ktdeval.cli import OutputPath, config_option, example, flag, open_plugins, options_of
from ktdeval.errors import UsageError
from ktdeval.registry import own_wheel
from ktdeval.values import import_problem, install_command, later, make_folder, write_atomic
from ktdeval_gym.stepwise_episode import MarketChoice, TaskSource

TEMPLATE = Path(__file__).with_name("openenv_template")
_WHEELS = "wheels"
_NAMES = {"Dockerfile.txt": "Dockerfile", "app.txt": "app.py", "init.txt": "__init__.py"}


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Options of serving an environment, or of writing its folder."""

    new: Path | None = flag(
        None,
        type=OutputPath("folder"),
        metavar="FOLDER",
        help=(
            "instead of serving, write a folder that OpenEnv can build, validate and deploy: "
            "openenv.yaml, Dockerfile, server"
        ),
    )
    host: str = flag("127.0.0.1", help="address to listen on")
    port: int = flag(
        8000, type=click.IntRange(0, 65535), help="port to listen on; 0: any free port"
    )
    sessions: int = flag(
        8, type=click.IntRange(1, 1000), help="maximum number of clients at a time"
    )


@example("ktdeval train openenv --tasks market_blinded --data synthetic_us")
@click.command()
@config_option("tasks", "data", "data_args", "windows", "limit", "plugin")
@options_of(ServerOptions)
def openenv(options: ServerOptions, **market: Any) -> None:
    """Serve tasks over HTTP and WebSocket, as OpenEnv's clients expect, or write the folder of an
    environment.

    A step is one reply of a model: text and calls of tools. Serving needs the extra `openenv`. With
    --new, run `uv lock` in the folder next, then `openenv validate`.
    """
    source = task_source(market)
    if options.new is not None:
        write_folder(options.new, source.names, market["data"] or "synthetic")
        click.echo(f"environment  {options.new}")
        click.echo("next         uv lock, openenv validate, openenv build")
        return

    try:
        make_app = later("ktdeval_gym.servers.openenv_server:make_app")()
        run = later("uvicorn:run")()
    except ImportError as error:
        raise UsageError(
            f"serving: {import_problem(error)}: {install_command('openenv')}"
        ) from error

    app = make_app(source, options.sessions)
    run(app, host=options.host, port=options.port, log_level="info")


def task_source(options: dict[str, Any]) -> TaskSource:
    """Return the tasks selected by the options. Raises KtdevalError."""
    tasks = options.get("tasks")
    if not tasks:
        raise UsageError("--tasks: name the tasks to serve, such as --tasks market_blinded")

    plugins = open_plugins(options.get("plugin") or ())
    given = {
        name: options[name]
        for name in ("data", "data_args", "windows", "limit")
        if options.get(name) is not None
    }
    return TaskSource(tuple(tasks), plugins, MarketChoice(**given))


def write_folder(folder: Path, tasks: tuple[str, ...], data: str) -> None:
    """Write the folder of an environment, with a wheel of this installation.

    Raises UsageError if the folder already has files, or if no wheel can be found.
    """
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; choose a new folder")

    wheel = own_wheel()
    make_folder(folder / _WHEELS, "choose another folder")
    write_atomic(folder / _WHEELS / wheel.name, wheel.content)
    words = {
        "@TASKS@": repr(list(tasks)),
        "@DATA@": repr(data),
        "@NAMES@": ", ".join(tasks),
        "@WHEEL@": wheel.name,
    }
    for source in sorted(TEMPLATE.rglob("*")):
        if source.is_dir():
            continue

        relative = source.relative_to(TEMPLATE)
        target = folder / relative.with_name(_NAMES.get(relative.name, relative.name))
        text = source.read_text("utf-8")
        for word, value in words.items():
            text = text.replace(word, value)

        make_folder(target.parent, "choose another folder")
        write_atomic(target, text)
