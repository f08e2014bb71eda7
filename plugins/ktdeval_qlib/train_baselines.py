"""Train baselines on a market, and write a folder for each baseline and seed, with its rank IC on
unseen days.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from ktdeval.cli import open_plugins, print_grid, print_json
from ktdeval.errors import DataError, UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.runner import open_snapshot
from ktdeval.values import JsonValue, near_matches, to_plain
from ktdeval_qlib import TITLES
from ktdeval_qlib.fit_baseline import TrainingSettings, is_trained, train as train_one
from ktdeval_qlib.recipes import BaselineRecipe, recipes
from ktdeval_qlib.samples import (
    FIRST_ROW,
    Samples,
    SegmentDays,
    Segments,
    SegmentSplit,
    make_samples,
    make_split,
    paper_segments,
)
from ktdeval_qlib.trained_baseline import Accuracy, TrainingLog, read_log
from ktdeval_qlib.training_options import QlibOptions

# If a snapshot lacks the paper's days, the last fifth of the days before the test is used for
# validation.
_VALIDATION_PART = 5
_PAPERS_TEST = "2024-01-01"
_COLUMNS = (
    "model",
    "seed",
    "rounds",
    "seconds",
    "days",
    "valid rank correlation (IC)",
    "95 % interval",
    "test rank correlation (IC)",
    "95 % interval ",
    "folder",
)


@dataclass(frozen=True, slots=True)
class _DoneTraining:
    recipe: BaselineRecipe
    seed: int
    folder: Path
    log: TrainingLog


def train_models(models: Sequence[str], options: QlibOptions, market: Mapping[str, Any]) -> None:
    """Train the models that match names or patterns, and print their rank ICs. `market`: the
    `data`, `data_args` and `plugin` options of a run. Raises KtdevalError.
    """
    chosen = _chosen_recipes(models)
    plugins = open_plugins(market["plugin"] or ())
    snapshot = open_snapshot(plugins, market["data"] or "synthetic", market["data_args"] or {})
    split = _split_snapshot(snapshot, options)

    for name, days in split.used.items():
        click.echo(f"{name:<6}  {days.first}:{days.last}", err=True)

    # This number suits the longest sequences. Models with shorter ones ignore the first days and
    # learn the same.
    samples = make_samples(snapshot, split, options.label, max(recipe.days for recipe in chosen))
    seeds = range(options.seed, options.seed + options.seeds)
    done = list(_train_chosen(chosen, seeds, snapshot, samples, options))

    if options.as_json:
        print_json([_training_json(each) for each in done])
        return

    rows = [_training_row(each) for each in done]
    print_grid(_COLUMNS, rows, ("model", "folder"))


def _chosen_recipes(models: Sequence[str]) -> list[BaselineRecipe]:
    """Return the recipes that match names or patterns, in the order of the recipe file."""
    names = {f"qlib/{name}": name for name in TITLES}
    matched: set[str] = set()
    for text in models:
        matches = [name for name in names if fnmatch.fnmatchcase(name, text)]
        if not matches:
            hint = near_matches(text, names) or f"; known are {', '.join(names)}"
            raise UsageError(f"no model to train is called {text!r}{hint}")
        matched.update(matches)

    return [recipes()[name] for full, name in names.items() if full in matched]


def _split_snapshot(snapshot: MarketSnapshot, options: QlibOptions) -> SegmentSplit:
    """Split by the given days, or by the days in the paper.

    If the snapshot lacks the paper's training days, split the days before the test instead.
    """
    paper = paper_segments()
    train_days = _parse_days("--train", options.train)
    valid_days = _parse_days("--valid", options.valid)
    test_days = _parse_days("--test", options.test)
    requested_test = test_days
    if test_days is None and paper.test and str(snapshot.days[-1]) >= paper.test.first:
        requested_test = paper.test  # the snapshot has at least some of these days

    requested = Segments(train_days or paper.train, valid_days or paper.valid, requested_test)

    try:
        return make_split(snapshot, requested)
    except DataError:
        end = test_days.first if test_days else _PAPERS_TEST
        trainable = [str(day) for day in snapshot.days[FIRST_ROW:] if str(day) < end]
        if train_days or valid_days or len(trainable) < _VALIDATION_PART:
            raise

    middle = len(trainable) * (_VALIDATION_PART - 1) // _VALIDATION_PART
    click.echo(
        f"the paper's days of training are not in snapshot {snapshot.meta.name}; trained on those"
        " that are",
        err=True,
    )
    used = Segments(
        SegmentDays(trainable[0], trainable[middle - 1]),
        SegmentDays(trainable[middle], trainable[-1]),
        requested.test,
    )

    return make_split(snapshot, used)


def _parse_days(option: str, text: str | None) -> SegmentDays | None:
    if text is None:
        return None

    first, colon, last = text.partition(":")
    if not colon:
        raise UsageError(f"{option} {text}: expected FIRST:LAST, such as 2008-01-01:2022-12-31")

    return SegmentDays(first, last)


def _train_chosen(
    chosen: Sequence[BaselineRecipe],
    seeds: range,
    snapshot: MarketSnapshot,
    samples: Samples,
    options: QlibOptions,
) -> Iterator[_DoneTraining]:
    console = Console(stderr=True)
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        overall = progress.add_task("trainings", total=len(chosen) * len(seeds))
        for recipe in chosen:
            for seed in seeds:
                folder = options.out / recipe.name / f"seed-{seed}"
                settings = TrainingSettings(
                    seed,
                    options.rounds,
                    options.threads,
                    options.device,
                    options.shuffle_labels,
                )
                is_done = is_trained(folder, recipe, snapshot, samples, settings)

                if is_done:
                    log = read_log(folder)
                else:
                    bar = progress.add_task(f"qlib/{recipe.name} seed {seed}", total=None)
                    _, log = train_one(
                        recipe, snapshot, samples, settings, folder, partial(_show, progress, bar)
                    )
                    progress.remove_task(bar)

                progress.advance(overall)
                result = f"{log.rounds} rounds, {log.seconds:.1f} s"
                if is_done:
                    result = "trained before"
                console.print(
                    f"qlib/{recipe.name} seed {seed}: {result}, {folder}",
                    highlight=False,
                    soft_wrap=True,
                )
                yield _DoneTraining(recipe, seed, folder, log)


def _show(progress: Progress, bar: TaskID, done: int, most: int) -> None:
    progress.update(bar, completed=done, total=most)


def _training_json(done: _DoneTraining) -> dict[str, JsonValue]:
    """Return a training as printed with `--json`: the model, the seed and the fields of the log."""
    described: dict[str, JsonValue] = {"model": f"qlib/{done.recipe.name}", "seed": done.seed}
    log = to_plain(done.log)
    if isinstance(log, Mapping):
        described.update(log)

    return described


def _training_row(done: _DoneTraining) -> tuple[str, ...]:
    """Return the cells for a training in the table with `_COLUMNS`."""
    log = done.log
    valid = log.accuracy.get("valid")
    test = log.accuracy.get("test")
    shown = test or valid

    return (
        f"qlib/{done.recipe.name}",
        str(done.seed),
        str(log.rounds or ""),
        f"{log.seconds:,.1f}",
        f"{shown.days:,}" if shown else "",
        *_accuracy_figures(valid),
        *_accuracy_figures(test),
        str(done.folder),
    )


def _accuracy_figures(accuracy: Accuracy | None) -> tuple[str, str]:
    if accuracy is None or accuracy.rank_ic is None:
        return "", ""
    return f"{accuracy.rank_ic:+.4f}", f"{accuracy.low:+.4f} … {accuracy.high:+.4f}"
