"""Baselines: models that every division shows beside its entrants. They need no key and give the same figures wherever they run."""

from __future__ import annotations

import re
from pathlib import Path

from ktdeval.cards import load_evaluation
from ktdeval.config import RunConfig
from ktdeval.errors import ConfigError, EpisodeFailure
from ktdeval.jsonio import JsonValue
from ktdeval.registry import Plugins
from ktdeval.runner import evaluate, open_snapshot
from ktdeval_board.entries import mismatches, seeds_of
from ktdeval_board.rules import Baseline, Division, Rules
from ktdeval_board.supervised import train_coefficients

_DATE_RANGE = re.compile(r"\d{4}-\d{2}-\d{2}:\d{4}-\d{2}-\d{2}")


def run_baseline(rules: Rules, division: Division, baseline: Baseline, out: Path, plugins: Plugins, concurrency: int = 1) -> Path:
    """Run a baseline on a division, on the market that the board's rules name.

    Returns the path of the card, in the run folder. Two runs of one baseline give the same card but for `provenance`. Raises
    ConfigError: the division can't be run as it is written: the board has no data for it, its task, windows or market are other
    ones here, or its seeds do not follow each other; EpisodeFailure: an episode did not end; KtdevalError: the market or the model
    can't be had.
    """
    where = f"baseline {baseline.model} of division {division.id}"
    seeds = list(seeds_of(rules, division, baseline.model))
    if seeds != list(range(seeds[0], seeds[0] + len(seeds))):
        raise ConfigError(f"{where}: seeds {', '.join(map(str, seeds))} do not follow each other, as those of a run do")
    snapshot = rules.snapshot_of(division)
    if not snapshot.data:
        raise ConfigError(
            f"{where}: board.yaml does not say where snapshot {snapshot.name} is (snapshots: data); name it with --data"
        )
    _check_windows(division, plugins, where)
    model_args: dict[str, JsonValue] = {}
    if baseline.kind == "supervised":
        market = open_snapshot(plugins, snapshot.data, snapshot.data_args)
        model_args["coefficients"] = train_coefficients(market, first_day(division))
    config = RunConfig(
        model=baseline.model,
        model_args=model_args,
        tasks=(division.task,),
        data=snapshot.data,
        data_args=dict(snapshot.data_args),
        windows=tuple(division.window_names()),
        seed=seeds[0],
        seeds=len(seeds),
        rules=division.rules,
        out=str(out),
        concurrency=concurrency,
        quiet=True,
    )
    result = evaluate(config, plugins)
    for outcome in result.failed:
        raise EpisodeFailure(f"{where}: an episode did not end: {outcome.error}")
    card = load_evaluation(result.cards[0])
    for reason in mismatches(rules, division, card):
        raise ConfigError(f"{where}: what is installed here is not what the division asks for: {reason}")
    return result.cards[0]


def first_day(division: Division) -> str:
    """Return the first day of all windows, YYYY-MM-DD: a supervised baseline is trained on days before it alone."""
    return min(window.first for window in division.windows)


def _check_windows(division: Division, plugins: Plugins, where: str) -> None:
    """Windows are asked for by their names, so these must mean the same days here."""
    known = plugins.make_task(division.task).windows
    for window in division.windows:
        if _DATE_RANGE.fullmatch(window.name):
            first, last = window.name.split(":")
        elif window.name in known:
            first, last = known[window.name].first, known[window.name].last
        else:
            raise ConfigError(f"{where}: task {division.task} has no window {window.name!r} here (it has {', '.join(known)})")
        if (first, last) != (window.first, window.last):
            raise ConfigError(f"{where}: window {window.name} is {first}…{last} here, {window.first}…{window.last} on the board")
