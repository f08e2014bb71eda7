"""Checks that a policy can be trained on a given task, lookback and range of days. Each refusal
suggests values that work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError, KtdevalError, UsageError
from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.task_api import Task, Window, is_scoring

_MAX_NAMED = 4
_MIN_CLOSES = 3


def form_problem(rules: Mapping[str, Any]) -> str | None:
    """Return why a policy can't decide on a task with this description; None if it can."""
    asks_for_stances = rules.get("answers") == "stances" and rules.get("weights") is None
    if not asks_for_stances or rules.get("exit") or len(rules.get("assets") or ()) != 1:
        return "does not ask for BUY, SELL or HOLD of one asset, each a whole position"
    return None


def check_task(task: Any, lookback: int, plugins: Plugins) -> None:
    """Raise UsageError if a policy with this lookback can't be trained on a task. The message
    suggests tasks or lookbacks that work.
    """
    rules = _rules(task)
    problem = form_problem(rules)
    shown = _history(rules)

    if problem is None and shown == 0:
        problem = "shows no history of bars"

    if problem is not None:
        raise UsageError(f"task {task.name} {problem}; {_others(plugins, task.name, lookback)}")
    if shown <= lookback:
        raise UsageError(
            f"--lookback: task {task.name} shows {shown} bars, and {lookback} returns need "
            f"{lookback + 1}; give --lookback {shown - 1} or less"
        )


def check_days(
    task: Task,
    snapshot: MarketSnapshot,
    lookback: int,
    windows: Sequence[Window],
) -> None:
    """Raise DataError if a market has no training day before the first evaluated window."""
    earliest = earliest_day(snapshot, asset_column(task, snapshot), lookback)
    evaluated = min((window.first for window in windows), default=None)
    if evaluated is not None and (earliest is None or earliest >= evaluated):
        known = "on no day"
        if earliest:
            known = f"from {earliest} on"

        returns = f"a decision needs {lookback} earlier returns, which are available {known}"
        problem = f"{returns}, and evaluation begins {evaluated}"
        advice = "give a shorter --lookback, later --windows, or data of earlier days"
        raise DataError(f"{snapshot.meta.name} has no days to train on: {problem}; {advice}")


def closes_and_trades(
    snapshot: MarketSnapshot, asset: int
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """Return an asset's adjusted closes, [T], and the rows of the days on which it traded, [K]."""
    closes = snapshot.close[:, asset] * snapshot.factor[:, asset]
    return closes, np.flatnonzero(np.isfinite(closes) & (snapshot.volume[:, asset] != 0))


def earliest_day(snapshot: MarketSnapshot, asset: int, lookback: int) -> str | None:
    """Return the first fill day whose decision can see `lookback` returns; None if no day
    qualifies.
    """
    _, traded = closes_and_trades(snapshot, asset)
    if len(traded) <= lookback or traded[lookback] + 1 >= len(snapshot.days):
        return None
    return str(snapshot.days[traded[lookback] + 1])


def span_problem(
    snapshot: MarketSnapshot,
    asset: int,
    lookback: int,
    span: Window,
    closes: int,
) -> str | None:
    """Return why a policy can't be trained on a range of days, with days that work; None if it can.
    `closes`: number of closes in the range.
    """
    earliest = earliest_day(snapshot, asset, lookback)
    if earliest is None:
        need = f"no day has the {lookback + 1} closes before it that {lookback} returns need"
        return f"{need}; give a shorter --lookback or other --data"

    last = snapshot.days[np.flatnonzero(np.isfinite(snapshot.close[:, asset]))[-1]]
    advice = f"choose days from {earliest} to {last}"
    if span.first < earliest:
        need = f"fewer than {lookback + 1} closes are known, which {lookback} returns need"
        return f"before {span.first} {need}; {advice}, or a shorter --lookback"

    if closes < _MIN_CLOSES:
        found = f"{closes} closes from {span.first} to {span.last}"
        return f"{found}; {advice}, at least {_MIN_CLOSES} of them"

    return None


def asset_column(task: Task, snapshot: MarketSnapshot) -> int:
    """Return the index of a task's only asset in the market."""
    (code,) = _rules(task)["assets"]
    return snapshot.asset_index[code]


def _rules(task: Any) -> dict[str, Any]:
    """Return a task's description; empty for scoring tasks, which do not trade."""
    if is_scoring(task):
        return {}
    return dict(task.describe())


def _history(rules: Mapping[str, Any]) -> int:
    """Return the number of bars that a task shows."""
    shown = rules.get("history")
    if not isinstance(shown, int):
        return 0
    return shown


def _others(plugins: Plugins, name: str, lookback: int) -> str:
    """Return advice on tasks: those on which this lookback can be trained, with similar names
    first, or otherwise one task and a lookback that works for it.
    """

    def likeness(known: str) -> float:
        return SequenceMatcher(None, name, known).ratio()

    known = dict(_trainable(plugins))
    shown_by = {other: known[other] for other in sorted(known, key=likeness, reverse=True)}
    fitting = [name for name, shown in shown_by.items() if shown > lookback]

    if fitting:
        named = ", ".join(fitting[:_MAX_NAMED])
        if len(fitting) > _MAX_NAMED:
            named += ", …"
        return f"choose one of --task {named}"

    if not shown_by:
        return "no installed task can be trained on; name the plugin of one by --plugin"

    other, shown = next(iter(shown_by.items()))
    return f"choose one such as --task {other}, and --lookback {shown - 1} or less"


def _trainable(plugins: Plugins) -> Iterator[tuple[str, int]]:
    """Yield the tasks on which a policy can decide, with the number of bars that each task
    shows.
    """
    for name in plugins.specs("tasks"):
        try:
            rules = _rules(plugins.make_task(name))
        except KtdevalError:  # skip another plugin's task that fails to load
            continue

        if form_problem(rules) is None and _history(rules) > 1:
            yield name, _history(rules)
