"""`ktdeval openenv`: serve tasks as an OpenEnv environment, or write the folder of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ktdeval.cli import OutputPath, config_option, example, open_plugins
from ktdeval.errors import UsageError
from ktdeval.values.jsonio import make_folder, write_atomic
from ktdeval.values.lazy import later
from ktdeval_gym.asked import MarketChoice, TaskSource

TEMPLATE = Path(__file__).with_name("openenv_template")
_NAMES = {"Dockerfile.txt": "Dockerfile", "app.txt": "app.py", "init.txt": "__init__.py"}


@example("ktdeval openenv serve --tasks market_blinded --data synthetic_us")
@click.group()
def openenv() -> None:
    """Serve a task as an OpenEnv environment, or write the folder of one."""


@example("ktdeval openenv serve --tasks market_blinded --data synthetic_us")
@openenv.command()
@config_option("tasks", "data", "data_args", "windows", "limit", "plugin")
@click.option("--host", default="127.0.0.1", show_default=True, help="address to listen at")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free one"
)
@click.option(
    "--sessions",
    type=click.IntRange(1, 1000),
    default=8,
    show_default=True,
    help="most clients at a time",
)
def serve(host: str, port: int, sessions: int, **options: Any) -> None:
    """Serve tasks over HTTP and WebSocket, as OpenEnv's clients expect.

    A step is one reply of a model: text and calls of tools. Needs the extra `openenv`.
    """
    source = task_source(options)
    try:
        make_app = later("ktdeval_gym.openenv_server:make_app")()
        run = later("uvicorn:run")()
    except ImportError as error:
        raise UsageError(
            f"serving needs {error.name}, which is not installed: pip install 'ktdeval[openenv]'"
        ) from error

    run(make_app(source, sessions), host=host, port=port, log_level="info")


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


@example("ktdeval openenv new environment --tasks market_blinded")
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
