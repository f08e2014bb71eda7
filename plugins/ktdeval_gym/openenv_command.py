"""`ktdeval train openenv`: serve tasks as an OpenEnv environment, or write the folder of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ktdeval.cli import OutputPath, config_option, example, flag, open_plugins, options_of
from ktdeval.errors import UsageError
from ktdeval.values.jsonio import make_folder, write_atomic
from ktdeval.values.lazy import later
from ktdeval_gym.asked import MarketChoice, TaskSource

TEMPLATE = Path(__file__).with_name("openenv_template")
_NAMES = {"Dockerfile.txt": "Dockerfile", "app.txt": "app.py", "init.txt": "__init__.py"}


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Where an environment is served, and to how many."""

    host: str = flag("127.0.0.1", help="address to listen at")
    port: int = flag(8000, type=click.IntRange(0, 65535), help="0: any free one")
    sessions: int = flag(8, type=click.IntRange(1, 1000), help="most clients at a time")


@example("ktdeval train openenv serve --tasks market_blinded --data synthetic_us")
@click.group()
def openenv() -> None:
    """Serve a task as an OpenEnv environment, or write the folder of one."""


@example("ktdeval train openenv serve --tasks market_blinded --data synthetic_us")
@openenv.command()
@config_option("tasks", "data", "data_args", "windows", "limit", "plugin")
@options_of(ServerOptions)
def serve(options: ServerOptions, **market: Any) -> None:
    """Serve tasks over HTTP and WebSocket, as OpenEnv's clients expect.

    A step is one reply of a model: text and calls of tools. Needs the extra `openenv`.
    """
    source = task_source(market)
    try:
        make_app = later("ktdeval_gym.openenv_server:make_app")()
        run = later("uvicorn:run")()
    except ImportError as error:
        raise UsageError(
            f"serving needs {error.name}, which is not installed: pip install 'ktdeval[openenv]'"
        ) from error

    app = make_app(source, options.sessions)
    run(app, host=options.host, port=options.port, log_level="info")


def task_source(options: dict[str, Any]) -> TaskSource:
    """Return the tasks that options choose. Raises KtdevalError."""
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


@example("ktdeval train openenv new environment --tasks market_blinded")
@openenv.command()
@click.argument("folder", type=OutputPath("folder"))
@config_option("tasks", "data", "plugin")
def new(folder: Path, **options: Any) -> None:
    """Write a folder that OpenEnv builds, validates and deploys: openenv.yaml, Dockerfile, server.

    Run `uv lock` in it next, then `openenv validate`.
    """
    source = task_source(options)
    write_folder(folder, source.names, options.get("data") or "synthetic")
    click.echo(f"environment  {folder}")
    click.echo("next         uv lock, openenv validate, openenv build")


def write_folder(folder: Path, tasks: tuple[str, ...], data: str) -> None:
    """Write the folder of an environment. Raises UsageError: the folder has files already."""
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; choose a new folder")

    words = {"@TASKS@": repr(list(tasks)), "@DATA@": repr(data), "@NAMES@": ", ".join(tasks)}
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
