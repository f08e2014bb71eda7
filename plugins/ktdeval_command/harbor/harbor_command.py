"""`ktdeval train harbor`: write episodes as Harbor tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from ktdeval.cli import OutputPath, config_option, example, flag, open_plugins, options_of
from ktdeval.errors import UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.registry import Plugins, own_wheel
from ktdeval.runner import (
    EpisodeFactory,
    FirstStep,
    RunConfig,
    choose_tasks,
    load_config,
    make_plan,
    open_snapshot,
    rehearse,
)
from ktdeval.task_api import is_scoring
from ktdeval.values import make_folder, read_plain, stored_market, write_atomic
from ktdeval_command.harbor.harbor_task import HarborContent, HarborEpisode, task_files

_ANY_KEY = "0" * 32  # mask key under which the rules are read; each run draws its own key


@dataclass(frozen=True, kw_only=True)
class HarborOptions:
    """Folder for the tasks, and settings for building them."""

    out: Path = flag(
        type=OutputPath("new folder"),
        metavar="FOLDER",
        help="new folder for the tasks, one for each window",
    )
    reward: str | None = flag(
        None,
        metavar="METRIC",
        help=(
            "metric of a verified card to use as the reward; default: 1 if every day was "
            "decided, else 0"
        ),
    )


@example("ktdeval train harbor --tasks blinded_open_research --windows W1 --limit 5 --out harbor")
@click.command()
@config_option("tasks", "data", "data_args", "windows", "limit", "plugin")
@options_of(HarborOptions)
def harbor(options: HarborOptions, **given: Any) -> None:
    """Write episodes as tasks of Harbor, which any of its agents plays over MCP or HTTP.

    The market runs in a container of its own, and what it has recorded is verified in a third one.
    Both install a wheel of this installation, which the task holds with its hash. With a snapshot
    folder as --data, the task has a copy of it.
    """
    plugins = open_plugins(given.get("plugin") or ())
    config = run_config(given)
    content = content_of(config, plugins)
    episodes = episodes_of(config, plugins, options.reward)
    for episode in episodes:
        write_task(options.out / episode.name, task_files(episode, content))
        click.echo(f"task  {options.out / episode.name}")

    click.echo(f"wheel {content.wheel.name}, sha256 {content.wheel.sha256}")
    click.echo(f"next  harbor run -p {options.out} -a oracle")


def run_config(given: Mapping[str, Any]) -> RunConfig:
    """Return the config of the run that a task's container starts. Raises KtdevalError."""
    chosen = {name: value for name, value in given.items() if value is not None}
    return load_config(None, {**chosen, "model": "remote/harbor", "agent": "remote"})


def episodes_of(config: RunConfig, plugins: Plugins, reward: str | None) -> list[HarborEpisode]:
    """Return the episodes of a run, one per task and window. Raises KtdevalError."""
    if reward is not None:
        plugins.spec("metrics", reward)

    tasks = choose_tasks(config, plugins)
    for name, task in tasks.items():
        if is_scoring(task):
            raise UsageError(
                f"--tasks {name}: is not a trading task; Harbor tasks trade in a market"
            )

    snapshot = open_snapshot(plugins, config.data, config.data_args)
    plan = make_plan(replace(config, mask_key=_ANY_KEY), plugins, tasks, snapshot, None)
    steps = rehearse(plan.specs, lambda: EpisodeFactory(tasks, plugins, snapshot))
    return [_episode(step, config, snapshot, reward) for step in steps]


def _episode(
    step: FirstStep, config: RunConfig, snapshot: MarketSnapshot, reward: str | None
) -> HarborEpisode:
    spec = step.spec
    assert spec.window is not None
    request = step.play_shown(with_lessons=False).requests[0]
    rules = [each.content for each in request.messages if each.role == "system"]

    options = {"--tasks": spec.task, "--windows": spec.window.name, "--data": config.data}
    if config.data_args:
        options["--data-args"] = _words(config.data_args)
    if config.limit is not None:
        options["--limit"] = str(config.limit)

    window = spec.window
    return HarborEpisode(
        task=spec.task,
        window=window.name,
        rules="\n\n".join(rules),
        submit_tool=request.submit_tool,
        days=step.total_steps,
        run_options=options,
        card={
            "agent.name": spec.agent,
            "limit": spec.limit,
            "model.name": spec.model,
            "seeds": [spec.seed],
            "snapshot.id": snapshot.id,
            "task.hash": spec.task_hash,
            "task.mask": spec.mask,
            "task.name": spec.task,
            "task.version": spec.task_version,
        },
        reward=reward,
    )


def _words(arguments: Mapping[str, Any]) -> str:
    return ",".join(f"{name}={_word(value)}" for name, value in sorted(arguments.items()))


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def content_of(config: RunConfig, plugins: Plugins) -> HarborContent:
    """Return the contents from which containers are built. Raises UsageError if the market can't be
    included, or if the wheel is missing.
    """
    folder = stored_market(config.data)
    if folder is not None:
        return HarborContent(wheel=own_wheel(), market_files=_files(folder))

    spec = plugins.specs("data").get(config.data)
    if spec is not None and not spec.extra.get("generated"):
        raise UsageError(
            f"--data {config.data}: is downloaded on use; store it first with `ktdeval data "
            "make`, and give its folder"
        )
    return HarborContent(wheel=own_wheel())


def _files(folder: Path) -> dict[str, bytes]:
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files[path.relative_to(folder).as_posix()] = read_plain(path)
    return files


def write_task(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of a task. Raises StoreError."""
    for path in sorted(files):
        target = folder / path
        make_folder(target.parent, "choose another --out")
        write_atomic(target, files[path])
