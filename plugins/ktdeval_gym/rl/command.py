"""`ktdeval train rl`: train a policy on a task, a market and a range of days, and write it to a
file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ktdeval.cli import (
    OutputPath,
    complete_names,
    config_option,
    example,
    flag,
    open_plugins,
    options_of,
)
from ktdeval.errors import UsageError
from ktdeval.runner import choose_windows
from ktdeval.task_api import Task, Window
from ktdeval.values import (
    encode_canonical,
    import_problem,
    install_command,
    later,
    make_folder,
    write_atomic,
)
from ktdeval_gym.policies.training_options import Algorithm


@dataclass(frozen=True, kw_only=True)
class PolicyOptions:
    """Options for training a policy."""

    task: str = flag(
        metavar="TASK",
        complete=complete_names("tasks"),
        help="task on one asset that shows its history",
    )
    algorithm: Algorithm = flag("ppo", help="algorithm of stable-baselines3")
    train: str = flag(
        metavar="FIRST:LAST", help="days of training; must be before all windows evaluated"
    )
    lookback: int = flag(10, type=click.IntRange(1, 499), help="daily returns that a policy sees")
    steps: int = flag(10_000, type=click.IntRange(1, 10**8), help="decisions to train on")
    seed: int = flag(
        0, type=click.IntRange(0, 2**31 - 1), help="seed of all randomness in training"
    )
    output: Path = flag(
        type=OutputPath("file"), metavar="FILE", help="file of the policy to write, JSON"
    )


@example(
    "ktdeval train rl --task investorbench_msft_history --train 2020-04-01:2020-10-01 --output "
    "policy.json"
)
@click.command()
@options_of(PolicyOptions)
@config_option("data", "data_args", "windows", "plugin")
def rl(options: PolicyOptions, **market: Any) -> None:
    """Train a policy on days before those that it is evaluated on.

    Decisions are settled as the task settles a model's: the same account, venue, costs and fills.
    On one machine the same command gives the same file. Needs the extra `rl`; a policy is applied
    without it.
    """
    # imported here, so that help stays fast
    from ktdeval_gym.open_task import OpenedTask, TaskChoice
    from ktdeval_gym.policies.policy import overlap
    from ktdeval_gym.policies.policy_training import PolicyTraining
    from ktdeval_gym.policies.training_checks import check_days, check_task

    plugins = open_plugins(market["plugin"] or ())
    task = plugins.make_task(options.task)
    check_task(task, options.lookback, plugins)
    span = _one_window(task, options.train)
    chosen = choose_windows(task, market["windows"] or ())
    evaluated = [window for window in chosen if window is not None]

    for window in evaluated:
        problem = overlap(span.first, span.last, window)
        if problem:
            raise UsageError(f"--train: {problem}")

    try:
        learn = later("ktdeval_gym.rl.train:learn")()
        policy_file = later("ktdeval_gym.rl.train:policy_file")()
    except ImportError as error:
        raise UsageError(f"training: {import_problem(error)}: {install_command('rl')}") from error

    make_folder(options.output.parent, "choose another --output")
    data = market["data"] or "synthetic"
    choice = TaskChoice(options.task, data, market["data_args"] or {}, (options.train,))
    opened = OpenedTask.of(choice, plugins)
    check_days(task, opened.snapshot, options.lookback, evaluated)
    training = PolicyTraining.of(opened, options.lookback)
    learner = learn(training, options.algorithm, options.steps, options.seed)
    content = policy_file(training, learner)
    write_atomic(options.output, encode_canonical(content) + "\n")
    click.echo(f"policy  {options.output} ({content.steps:,} steps on {span.first}:{span.last})")


def _one_window(task: Task, days: str) -> Window:
    """Return the training days. Raises UsageError unless exactly one of the task's own windows is
    selected.
    """
    windows = choose_windows(task, (days,))
    if len(windows) != 1 or windows[0] is None:
        advice = "give FIRST:LAST, such as 2020-04-01:2020-10-01"
        raise UsageError(f"--train {days}: names {len(windows)} windows; {advice}")
    return windows[0]
