"""Date attacker over whole episodes: which day an episode began on, by the market that it shows day
after day and the closes of one public index.

A payload that omits the indices still shows single stocks, and their mean return on a day is nearly
that of the index. The mean of one day fits many days of the history; a path of means soon fits one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.masking import Lens
from ktdeval.task_api import EpisodeSpec, TargetTask, Window
from ktdeval.trading import Account
from ktdeval.values import JsonValue
from ktdeval_deanon.certificate.questions import Entry, ProbeSet
from ktdeval_deanon.task import target_spec, tool_result

HORIZONS = (1, 5, 10, 20, 40)  #: Days of an episode after which the attacker names its first day

SCREENS = ("amount_20d_cny", "-amount_20d_cny", "RV_60", "-RV_60")
"""Rankings whose first names the attacker looks at: large and small, calm and volatile stocks, so
that their mean is near the market's. With the comparisons, 7 of a step's 12 calls.
"""
RETURN = "return_1d_pct"
TOOLS = frozenset({"screen_candidates", "compare_candidates"})

DAYS_ARE_SHOWN = "the mask shows the days"
NO_TOOLS = "the task has no tools that screen and compare stocks"
NO_ROOM = "no episode lies within the snapshot"

_AT_ONCE = 50  # stocks in one comparison
_LEAST_SQUARE = 1e-12  # per cent squared; smaller errors are those of floating point


# --- the closes of the index


def daily_returns(levels: FloatArray) -> FloatArray:
    """Return the [T] daily returns of an index from its [T] levels, in per cent; NaN on the first
    day.
    """
    returns = np.full(len(levels), np.nan)
    returns[1:] = 100.0 * (levels[1:] / levels[:-1] - 1.0)
    return returns


def log_likelihoods(shown: FloatArray, history: FloatArray) -> FloatArray:
    """Return, for each row of a public history, the log likelihood that an episode that shows
    these values began there: [T - n + 1], -inf where the history lacks a value.

    `shown`: [n] one value a day, such as the mean return of the stocks shown; NaN on a day that
    shows none, which does not count. `history`: [T] the public value of each day, such as the
    index's return. Errors are Gaussian with mean 0 and one unknown standard deviation at its most
    likely value: `-n/2 · (ln(2π · S) + 1)`, with S the mean square of the n errors.
    """
    windows = np.lib.stride_tricks.sliding_window_view(history, len(shown))
    seen = np.isfinite(shown)
    count = int(seen.sum())
    fit: FloatArray = np.zeros(len(windows))
    if count:
        squares = ((windows[:, seen] - shown[seen]) ** 2).mean(axis=1)
        fit = -count / 2 * (np.log(2 * math.pi * np.maximum(squares, _LEAST_SQUARE)) + 1)

    return np.where(np.isfinite(windows).all(axis=1), fit, -np.inf)


def place_of(first: int, fit: FloatArray) -> tuple[int, int]:
    """Return the place of the true first day, row `first`, among all candidates by their log
    likelihood, and the number of candidates. Among equal candidates the true one is last.
    """
    candidates = fit[np.isfinite(fit)]
    return int((candidates >= fit[first]).sum()), len(candidates)


# --- what an episode shows

Ask = Callable[[str, Mapping[str, JsonValue]], Any]  #: calls a tool as a model would
Figures = Mapping[str, float | None]  #: name -> value as shown


@dataclass(frozen=True)
class ShownStock:
    """A stock on one day, as an attacker sees it."""

    board: str
    figures: Figures


def shown_days(
    target_task: TargetTask,
    spec: EpisodeSpec,
    snapshot: MarketSnapshot,
    rows: range,
    dims: Sequence[str] = (RETURN,),
) -> Iterator[list[ShownStock]]:
    """Yield what a trading task shows of the leading stocks at the close of each row, in an episode
    with its first decision at the first of them and an untouched account.

    `dims`: figures to look at. Calls the task's own tools through the episode's mask. Raises
    ConfigError if a tool is missing or refuses its arguments.
    """
    # An episode decides at the close before its window.
    ends = np.datetime_as_string(snapshot.days[[rows[0] + 1, rows[-1] + 1]], unit="D").tolist()
    task = target_task.task
    scene = task.scene(replace(spec, window=Window("path", *ends)), snapshot)
    untouched = Account(task.trading.initial_cash * 100, {})

    for step, row in enumerate(rows):
        context = scene.tool_context(step, snapshot.as_of(row), untouched)
        ask = partial(_result, target_task, (context, scene.lens))
        yield _leading_stocks(ask, task.harness.max_candidates, dims)


def _result(
    target_task: TargetTask,
    step: tuple[Any, Lens],
    name: str,
    arguments: Mapping[str, JsonValue],
) -> Any:
    _, lens = step
    return lens.render(tool_result(target_task, name, arguments, step))


def _leading_stocks(ask: Ask, most: int, dims: Sequence[str]) -> list[ShownStock]:
    """Return the stocks that lead the screens, each once."""
    boards: dict[str, str] = {}
    for factor in SCREENS:
        screen = ask("screen_candidates", {"factors": [factor], "k": most})
        boards |= {row["stock_id"]: row["board"] for row in _rows(screen["candidates"])}

    stocks = list(boards)
    shown: list[ShownStock] = []
    for start in range(0, len(stocks), _AT_ONCE):
        some = stocks[start : start + _AT_ONCE]
        answer = ask("compare_candidates", {"stock_ids": some, "dims": list(dims)})
        for row in _rows(answer["grid"]):
            figures = {name: row[name] for name in dims}
            shown.append(ShownStock(boards[row["stock_id"]], figures))

    return shown


def _rows(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of `{"columns": […], "rows": [[…], …]}` as mappings."""
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


# --- the attack


@dataclass(frozen=True)
class Paths:
    """Episodes to attack: their first rows, and how many days each lasts."""

    firsts: Sequence[int]
    days: int


def draw_paths(questions: ProbeSet) -> Paths | None:
    """Draw the episodes that are attacked, at most one for each probe; None if none fits.

    Their first days are drawn without repeats from the period that may be asked about, by the mask
    key. An episode lasts as long as the longest horizon that fits into the snapshot.
    """
    period = questions.period
    # An episode's window ends a day after its last decision.
    last = len(questions.snapshot.days) - 2
    for days in reversed(HORIZONS):
        # The first row of the history has no return.
        firsts = np.arange(max(1, period.start - 1), min(period.stop, last - days + 2))
        if len(firsts):
            seed = questions.specs[0].hidden_seed("paths")
            count = min(len(questions.all), len(firsts))
            drawn = np.random.default_rng(seed).choice(firsts, count, replace=False)
            return Paths(sorted(drawn.tolist()), days)

    return None


def no_paths(questions: ProbeSet) -> str | None:
    """Return why whole episodes can't be attacked, or need not be; None if they are."""
    if not questions.all[0].sample.lens.mask.hides_dates:
        return DAYS_ARE_SHOWN
    if not TOOLS.issubset(tool.name for tool in questions.target_task.tools):
        return NO_TOOLS
    return NO_ROOM if draw_paths(questions) is None else None


def path_count(questions: ProbeSet) -> int:
    """Return the number of whole episodes that are attacked."""
    paths = None if no_paths(questions) else draw_paths(questions)
    return len(paths.firsts) if paths else 0


def attack_paths(questions: ProbeSet, on_path: Callable[[int], None]) -> Entry:
    """Return a certificate's `paths`: by number of days seen, in how many episodes the true first
    day was the likeliest of all days in the history; null with a reason if there is no attack.

    `on_path` is called with the number of episodes done so far.
    """
    reason = no_paths(questions)
    paths = draw_paths(questions)
    if reason is not None or paths is None:
        return {"value": None, "reason": reason or NO_ROOM}

    index = daily_returns(questions.snapshot.benchmark)
    horizons = [days for days in HORIZONS if days <= paths.days]
    places: dict[int, list[int]] = {days: [] for days in horizons}
    candidates: dict[int, int] = {}

    for number, first in enumerate(paths.firsts):
        shown = _mean_path(questions, number, range(first, first + paths.days))
        for days in horizons:
            fit = log_likelihoods(shown[:days], index)
            place, candidates[days] = place_of(first, fit)
            places[days].append(place)

        on_path(number + 1)

    return {"value": [_entry(days, candidates[days], places[days]) for days in horizons]}


def _mean_path(questions: ProbeSet, number: int, rows: range) -> FloatArray:
    """Return the mean of the returns that an episode shows on each day; NaN if it shows none."""
    spec = target_spec(questions.target_task, questions.specs[0], number)
    days = shown_days(questions.target_task, spec, questions.snapshot, rows)
    return np.array([mean_return(day) for day in days])


def mean_return(stocks: Sequence[ShownStock]) -> float:
    """Return the mean of the day's returns that are shown, in per cent; NaN if none is."""
    returns = [stock.figures[RETURN] for stock in stocks]
    known = [value for value in returns if value is not None]
    if not known:
        return math.nan
    return math.fsum(known) / len(known)


def _entry(days: int, candidates: int, places: Sequence[int]) -> Entry:
    first: Entry = {
        "successes": sum(place == 1 for place in places),
        "n": len(places),
        "baseline": 1 / candidates,
    }
    return {
        "days": days,
        "candidates": candidates,
        "median_place": float(np.median(places)),
        "first": first,
    }
