"""`ktdeval rl train`: train a policy on a task, a market and days, and write its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from ktdeval.cli import FilePath, config_option, open_plugins
from ktdeval.errors import UsageError
from ktdeval.jsonio import make_folder, write_atomic
from ktdeval.lazy import later
from ktdeval.runner import choose_windows, open_snapshot
from ktdeval.typed import encode_canonical
from ktdeval_models.rl.environment import TradingSimulation
from ktdeval_models.rl.policy import Algorithm, overlap


@click.group()
def rl() -> None:
    """Train policies of BUY, SELL or HOLD by reinforcement learning, for the model rl/policy."""


@rl.command()
@click.option("--task", "name", required=True, metavar="TASK", help="task on one asset that shows its history")
@click.option("--algorithm", type=click.Choice(get_args(Algorithm)), default="ppo", show_default=True, help="of stable-baselines3")
@click.option("--train", "days", required=True, metavar="FIRST:LAST", help="days of training, before all windows evaluated")
@click.option("--lookback", type=click.IntRange(1, 499), default=10, show_default=True, help="daily returns that a policy sees")
@click.option("--steps", type=click.IntRange(1, 10**8), default=10_000, show_default=True, help="decisions to train on")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="of all chance in training")
@click.option("--output", type=FilePath(dir_okay=False), required=True, metavar="FILE", help="policy to write, JSON")
@config_option("data", "data_args", "windows", "plugin")
def train(name: str, days: str, output: Path, **options: Any) -> None:
    """Train a policy on days before those that it is evaluated on.

    Decisions are settled as the task settles a model's: the same account, venue, costs and fills. On one machine the same
    command gives the same file. Needs the extra `rl`; a policy is applied without it.
    """
    plugins = open_plugins(options["plugin"] or ())
    task = plugins.make_task(name)
    span = choose_windows(task, (days,))[0]
    for window in choose_windows(task, options["windows"] or ()):
        if span and window and (problem := overlap(span.first, span.last, window)):
            raise UsageError(f"--train: {problem}")
    shown = span and dict(task.describe()).get("history")
    if span is None or not isinstance(shown, int) or shown <= options["lookback"]:
        raise UsageError(
            f"task {name} shows no history of {options['lookback'] + 1} bars; choose one as investorbench_msft_history"
        )
    try:
        learn, policy_file = (later(f"ktdeval_models.rl.train:{function}")() for function in ("learn", "policy_file"))
    except ImportError as error:
        raise UsageError(f"training needs {error.name}, which is not installed: pip install 'ktdeval[rl]'") from error
    make_folder(output.parent, "choose another --output")
    snapshot = open_snapshot(plugins, options["data"] or "synthetic", options["data_args"] or {})
    simulation = TradingSimulation(task, snapshot, span, options["lookback"])
    content = policy_file(simulation, learn(simulation, options["algorithm"], options["steps"], options["seed"]))
    write_atomic(output, encode_canonical(content) + "\n")
    click.echo(f"policy  {output} ({content.steps:,} steps on {span.first}:{span.last})")
