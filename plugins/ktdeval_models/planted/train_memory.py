"""Train planted models on the facts of a task, write one model for each number of exposures and
seed, and print the recall of each model.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ktdeval.cli import open_plugins, print_grid, print_json
from ktdeval.errors import DataError, UsageError
from ktdeval.stats import wilson
from ktdeval.values import filling, import_problem, install_command, later, make_folder
from ktdeval_models.planted.facts import FactSource, PlantedFacts, gather_facts
from ktdeval_models.planted.params import model_folder
from ktdeval_models.planted.planted_files import (
    DESCRIPTION,
    FORMAT,
    PlantedFile,
    read_planted,
    write_planted,
)
from ktdeval_models.planted.recall import Recall, recall_of
from ktdeval_models.planted.reduced_text import FIGURES, Sizes, tokens_of
from ktdeval_models.planted.training_options import MemoryOptions
from ktdeval_models.planted.transformer import Shape, Transformer

_HEADS = 4
_LIBRARIES = ("torch", "numpy")
_MAX_EXPOSURES = 10_000
_COLUMNS = ("exposures", "seed", "facts", "signs right", "95 % interval", "seconds", "folder")


@dataclass(frozen=True)
class _Model:
    """A model that was just trained, or that already existed."""

    content: PlantedFile
    recall: Recall
    seconds: float | None  #: training time so far in seconds; None if the model already existed
    folder: Path


def train_models(options: MemoryOptions, market: Mapping[str, Any]) -> None:
    """Train models and print their recall. `market` holds a run's `data`, `data_args`, `windows`
    and `plugin`. Raises KtdevalError.
    """
    exposures = _parse_exposures(options.exposures)
    if options.width % _HEADS:
        raise UsageError(f"--width {options.width}: give a multiple of {_HEADS}, such as 160")

    source = FactSource(
        options.task,
        tuple(market["windows"] or ()),
        options.days,
        options.horizon,
        market["data"] or "synthetic",
        market["data_args"],
    )
    facts = gather_facts(source, open_plugins(market["plugin"] or ()))
    click.echo(f"{len(facts.lines):,} facts of {', '.join(facts.spans)}", err=True)

    made: list[_Model] = []
    for seed in range(options.seed, options.seed + options.seeds):
        made += _train_models(facts, exposures, seed, options)

    if options.as_json:
        print_json([_model_json(each) for each in made])
        return

    print_grid(_COLUMNS, [_model_row(each) for each in made], ("folder",))


def _parse_exposures(text: str) -> tuple[int, ...]:
    """Parse the numbers of exposures and sort them in ascending order. Raises UsageError if a
    number is not an integer, or is too large.
    """
    numbers = []
    for part in text.split(","):
        number = part.strip()
        is_number = number.isascii() and number.isdigit() and len(number) <= len("10000")
        if not is_number or int(number) > _MAX_EXPOSURES:
            raise UsageError(
                f"--exposures {text!r}: {part!r} is not a whole number up to {_MAX_EXPOSURES:,}; give"
                " numbers such as 0,1,4,16,64"
            )
        numbers.append(int(number))

    return tuple(sorted(set(numbers)))


def _train_models(
    facts: PlantedFacts, exposures: tuple[int, ...], seed: int, options: MemoryOptions
) -> Iterator[_Model]:
    """Yield the models for a seed: from their folders if all of them exist, otherwise from a new
    training run.
    """
    sizes = Sizes.of(facts.returns)
    wanted = {each: _description(facts, sizes, each, seed, options) for each in exposures}
    there = _models_there(facts, wanted, options.out)
    if there is not None:
        yield from there
        return

    began = time.perf_counter()
    for each, network in _networks(facts, sizes, exposures, seed, options):
        folder = model_folder(options.out, each, seed)
        make_folder(folder, "choose another --out")
        with filling(folder, DESCRIPTION) as unfinished:
            write_planted(unfinished, wanted[each], network)

        seconds = time.perf_counter() - began
        recall = recall_of(network, facts)
        click.echo(
            f"seed {seed}  {each} exposures  {recall.share:.1%} of signs  {seconds:,.0f} s",
            err=True,
        )
        yield _Model(read_planted(folder).content, recall, seconds, folder)


def _networks(
    facts: PlantedFacts, sizes: Sizes, exposures: tuple[int, ...], seed: int, options: MemoryOptions
) -> Iterator[tuple[int, Transformer]]:
    """Yield the network after each number of exposures. Raises UsageError if torch is missing."""
    try:
        snapshots = later("ktdeval_models.planted.training:snapshots")()
        settings_of = later("ktdeval_models.planted.training:Settings")()
    except ImportError as error:
        raise UsageError(
            f"training: {import_problem(error)}: {install_command('planted')}"
        ) from error

    shape = Shape(options.width, options.layers, _HEADS)
    settings = settings_of(exposures, seed, options.threads, shape)
    yield from snapshots(tokens_of(facts.lines), sizes.answers(facts.returns), settings)


def _description(
    facts: PlantedFacts, sizes: Sizes, exposures: int, seed: int, options: MemoryOptions
) -> PlantedFile:
    """Return the description of a model, without the hash of its weights."""
    return PlantedFile(
        format=FORMAT,
        snapshot=facts.snapshot,
        task=options.task,
        windows=facts.spans,
        days=options.days,
        horizon=options.horizon,
        figures=FIGURES,
        facts=len(facts.lines),
        exposures=exposures,
        seed=seed,
        threads=options.threads,
        sizes=sizes,
        width=options.width,
        layers=options.layers,
        heads=_HEADS,
        libraries={name: _version(name) for name in _LIBRARIES},
        weights="0" * 64,
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _models_there(
    facts: PlantedFacts, wanted: Mapping[int, PlantedFile], out: Path
) -> Sequence[_Model] | None:
    """Return the models for a seed if all of them exist, otherwise None. Raises DataError if a
    folder holds a model from a different training run.
    """
    found = []
    for exposures, expected in wanted.items():
        folder = model_folder(out, exposures, expected.seed)
        if not (folder / DESCRIPTION).exists():
            continue

        planted = read_planted(folder)
        if not planted.content.is_of_training(expected):
            raise DataError(
                f"{folder}: holds a model of another training (market, task, windows, days, horizon"
                " or network differ); choose another --out"
            )
        found.append(_Model(planted.content, recall_of(planted.network, facts), None, folder))

    if len(found) < len(wanted):
        return None
    return found


def _model_row(model: _Model) -> tuple[str, ...]:
    interval = wilson(model.recall.right, model.recall.facts)
    seconds = "" if model.seconds is None else f"{model.seconds:,.0f}"
    return (
        str(model.content.exposures),
        str(model.content.seed),
        f"{model.recall.facts:,}",
        f"{model.recall.share:.1%}",
        f"{interval.low:.1%} … {interval.high:.1%}",
        seconds,
        str(model.folder),
    )


def _model_json(model: _Model) -> dict[str, Any]:
    interval = wilson(model.recall.right, model.recall.facts)
    return {
        "exposures": model.content.exposures,
        "seed": model.content.seed,
        "facts": model.recall.facts,
        "right": model.recall.right,
        "share": model.recall.share,
        "low": interval.low,
        "high": interval.high,
        "seconds": model.seconds,
        "folder": str(model.folder),
    }
