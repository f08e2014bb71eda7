"""Baseline models, which every division shows next to its entrants. They need no API key and give
the same figures on every machine.

The supervised baseline is a linear model on the nine style factors, trained on market data from
before the division begins. KTD-Fin compares its agents with eighteen trained factor models from
Qlib (Tables 4 and 9). The model used here is the simplest of that kind: a ridge regression of the
following days' returns on standardised factor values, pooled over days. Its coefficients are
arguments to `builtin/linear_factor`, so the card records them and anyone can reproduce the
training.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from ktdeval.attribution import FACTORS, factor_values, standardise
from ktdeval.cards import load_evaluation
from ktdeval.errors import ConfigError, EpisodeFailure, UsageError
from ktdeval.market import BoolArray, FloatArray, MarketSnapshot
from ktdeval.registry import Plugins
from ktdeval.runner import (
    EpisodeFactory,
    FirstStep,
    RunConfig,
    check_model,
    choose_tasks,
    evaluate,
    make_plan,
    open_snapshot,
    rehearse,
)
from ktdeval.stats import least_squares
from ktdeval.values import JsonValue
from ktdeval_board.board_entries import facets, seeds_of
from ktdeval_board.rules import Baseline, Division, Rules

_DATE_RANGE = re.compile(r"\d{4}-\d{2}-\d{2}:\d{4}-\d{2}-\d{2}")


def run_baseline(
    rules: Rules,
    division: Division,
    baseline: Baseline,
    out: Path,
    plugins: Plugins,
    **options: Any,
) -> Path:
    """Run a baseline on a division, using the market specified in the board's rules.

    `options` are additional run options: `concurrency`, and `mask_key` or `registration`. Returns
    the path of the card in the run folder. Two runs of the same baseline with the same mask key
    give the same card except for `provenance`. Raises ConfigError if the division can't be run as
    written: if the board has no data for it, if its task, windows or market differ on this machine,
    or if its seeds are not consecutive. Raises EpisodeFailure if an episode did not finish, and
    KtdevalError if the market or the model is not available.
    """
    where = f"baseline {baseline.words} of division {division.id}"
    seeds = list(seeds_of(rules, division, baseline.model, baseline.args))
    if seeds != list(range(seeds[0], seeds[0] + len(seeds))):
        raise ConfigError(
            f"{where}: seeds {', '.join(map(str, seeds))} are not consecutive, but a run's seeds "
            "are"
        )

    snapshot = rules.snapshot_of(division)
    if snapshot is None or not snapshot.data:
        raise ConfigError(
            f"{where}: board.yaml does not give the location of snapshot {division.snapshot} "
            "(snapshots: data); give it with --data"
        )

    _check_windows(division, plugins, where)
    config = RunConfig(
        model=baseline.model,
        model_args=baseline_args(rules, division, baseline, plugins),
        tasks=(division.task,),
        data=snapshot.data,
        data_args=dict(snapshot.data_args),
        windows=tuple(division.window_names()),
        seed=seeds[0],
        seeds=len(seeds),
        rules=division.rules,
        out=str(out),
        quiet=True,
        **options,
    )
    result = evaluate(config, plugins)

    for outcome in result.failed:
        raise EpisodeFailure(f"{where}: an episode did not finish: {outcome.error}")

    card = load_evaluation(result.cards[0])
    for reason in facets(rules, division, card).values():
        raise ConfigError(
            f"{where}: the installed version differs from what the division requires: {reason}"
        )

    return result.cards[0]


def baseline_args(
    rules: Rules, division: Division, baseline: Baseline, plugins: Plugins
) -> dict[str, JsonValue]:
    """Return a baseline's parameters for a division. Raises the same errors as `run_baseline`."""
    if baseline.kind != "supervised":
        return dict(baseline.args)

    snapshot = rules.snapshot_of(division)
    if snapshot is None or not snapshot.data:
        raise ConfigError(
            f"baseline {baseline.model}: board.yaml does not give the location of its market; "
            "give it with --data"
        )

    market = open_snapshot(plugins, snapshot.data, snapshot.data_args)
    return {**baseline.args, "coefficients": train_coefficients(market, first_day(division))}


def first_steps(
    division: Division,
    data: str,
    data_args: Mapping[str, JsonValue],
    snapshot: MarketSnapshot | None,
    plugins: Plugins,
) -> Sequence[FirstStep]:
    """Return the first step of a division's first episode, as a baseline would see it. Raises
    UsageError or DataError if the task can't be run on this market.
    """
    if "builtin/hold" not in plugins.specs("models"):
        return ()  # without the model package, there are no baselines

    market: dict[str, Any] = {}
    if snapshot is not None:
        market = {"data": data, "data_args": dict(data_args)}

    config = RunConfig(
        model="builtin/hold",
        tasks=(division.task,),
        windows=tuple(division.window_names()[:1]),
        seed=division.seeds[0],
        **market,
    )
    tasks = choose_tasks(config, plugins)
    plan = make_plan(config, plugins, tasks, snapshot, None)
    return rehearse(plan.specs, lambda: EpisodeFactory(tasks, plugins, snapshot))


def refusals(
    baseline: Baseline,
    opening: Mapping[Division, Sequence[FirstStep]],
    snapshot: MarketSnapshot,
    plugins: Plugins,
) -> dict[str, ConfigError | UsageError]:
    """Return the reasons why a baseline can't act, keyed by the ids of the divisions concerned.
    `opening` holds the first steps of each division.
    """
    trained = cache(partial(train_coefficients, snapshot))
    refused: dict[str, ConfigError | UsageError] = {}
    for division, steps in opening.items():
        args = dict(baseline.args)
        try:
            if baseline.kind == "supervised":
                args["coefficients"] = trained(first_day(division))

            model = plugins.make_model(baseline.model, args)
            check_model(baseline.model, model, steps, plugins)
        except (ConfigError, UsageError) as error:  # also raised if a package is not installed
            refused[division.id] = error

    return refused


def first_day(division: Division) -> str:
    """Return the earliest day of all windows, as YYYY-MM-DD. A supervised baseline is trained only
    on days before it.
    """
    return min(window.first for window in division.windows)


def _check_windows(division: Division, plugins: Plugins, where: str) -> None:
    """Raise ConfigError if a window covers different days on the board than in the installed task.
    Runs refer to windows by name, so such a run would cover the wrong days.
    """
    known = plugins.make_task(division.task).windows
    for window in division.windows:
        if _DATE_RANGE.fullmatch(window.name):
            first, last = window.name.split(":")
        elif window.name in known:
            first = known[window.name].first
            last = known[window.name].last
        else:
            raise ConfigError(
                f"{where}: task {division.task} has no window {window.name!r} here (it has"
                f" {', '.join(known)})"
            )

        if (first, last) != (window.first, window.last):
            raise ConfigError(
                f"{where}: window {window.name} is {first}…{last} here, but "
                f"{window.first}…{window.last} on the board"
            )


#: Horizon of the predicted return in trading days, starting at the close of the day after the
#: factor values
HORIZON_DAYS = 10
EVERY_DAYS = 5
"""Spacing of training days: overlapping targets add little information."""
RIDGE = 0.1  #: Ridge penalty as a fraction of the observations; exposures have unit variance
MIN_DAYS = 20  #: Minimum number of training days
MAX_FACTORS = 6
"""Maximum number of factors in the model, since one screening call accepts no more. The
coefficients of the strongest factors are refitted.
"""
_HISTORY_DAYS = 252
_DIGITS = 4
_UNTRAINED = "the supervised baseline can't be trained on it; leave it out of the board's baselines"


def train_coefficients(snapshot: MarketSnapshot, before: str) -> str:
    """Fit coefficients for `builtin/linear_factor` to the days of a snapshot before a date.

    Returns `NAME:NUMBER` for each of the strongest factors, in the order of `FACTORS`, with
    coefficients in natural units. Raises ConfigError if there is too little data before that date.
    """
    end = int(np.searchsorted(snapshot.days, np.datetime64(before, "D")))
    rows = range(_HISTORY_DAYS, end - 1 - HORIZON_DAYS, EVERY_DAYS)
    _check_days(len(rows), snapshot, before)

    observations = [_observations(snapshot, row) for row in rows]
    values, targets, members = zip(*observations, strict=True)
    raw = np.array(values)
    target = np.array(targets)
    member = np.array(members)
    exposures = standardise(raw, member[:, None, :])
    returns = np.where(member, target, np.nan)
    known_days = _usable(exposures, returns).any(axis=1)
    _check_days(int(known_days.sum()), snapshot, before, " with all factors")

    # First fit all factors, then refit only the strongest, which absorb the effect of the others.
    strength = np.abs(ridge_coefficients(exposures, returns))
    strongest = np.sort(np.argsort(-strength, kind="stable")[:MAX_FACTORS])
    coefficients = ridge_coefficients(exposures[:, strongest], returns)
    natural = coefficients / _mean_spread(raw[:, strongest], member)
    if not np.isfinite(natural).all():
        raise ConfigError(
            f"snapshot {snapshot.meta.name}: a factor has the same value for all assets before "
            f"{before}: {_UNTRAINED}"
        )

    return " ".join(
        f"{FACTORS[index].name}:{_rounded_text(value)}"
        for index, value in zip(strongest, natural, strict=True)
    )


def _check_days(days: int, snapshot: MarketSnapshot, before: str, what: str = "") -> None:
    if days < MIN_DAYS:
        raise ConfigError(
            f"snapshot {snapshot.meta.name} has {days} training days{what} before {before}, but "
            f"{MIN_DAYS} are needed: {_UNTRAINED}"
        )


def _usable(exposures: FloatArray, targets: FloatArray) -> BoolArray:
    """Return a [T, N] mask of the days and stocks for which all values are defined."""
    usable: BoolArray = np.isfinite(targets) & np.isfinite(exposures).all(axis=1)
    return usable


def ridge_coefficients(exposures: FloatArray, targets: FloatArray) -> FloatArray:
    """Return the [K] coefficients of a pooled ridge regression of demeaned returns on exposures.
    Returns are demeaned by day; only days and stocks with defined values are used.
    """
    usable = _usable(exposures, targets)
    counts = usable.sum(axis=1, keepdims=True)
    mean = np.where(usable, targets, 0.0).sum(axis=1, keepdims=True) / np.maximum(counts, 1)
    y = (targets - mean)[usable]

    return least_squares(np.moveaxis(exposures, 1, 2)[usable], y, RIDGE)


def _observations(snapshot: MarketSnapshot, row: int) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return the [K, N] factor values at the close of a row, the [N] subsequent returns, and an [N]
    mask of the index members.
    """
    values = factor_values(snapshot.as_of(row)).matrix()
    close = snapshot.close * snapshot.factor
    with np.errstate(all="ignore"):
        following: FloatArray = close[row + 1 + HORIZON_DAYS] / close[row + 1] - 1.0
    return values, following, snapshot.member[row]


def _mean_spread(raw: FloatArray, member: BoolArray) -> FloatArray:
    """Return the [K] cross-sectional standard deviations, averaged over days. Each is the size of
    one unit of exposure in natural units.
    """
    inside = np.where(member[:, None, :], raw, np.nan)
    low, high = np.nanquantile(inside, [0.01, 0.99], axis=2, keepdims=True)
    spread: FloatArray = np.nanmean(np.nanstd(np.clip(inside, low, high), axis=2), axis=0)

    return spread


def _rounded_text(value: float) -> str:
    """Return a number as text, rounded to drop the digits in which linear solvers differ."""
    return f"{value:.{_DIGITS}g}"
