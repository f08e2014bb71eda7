"""`ktdeval grid ctl`: pause, resume, retune, drop a model, try failed episodes again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ktdeval.cli import FilePath, example
from ktdeval.errors import UsageError
from ktdeval.values.fields import near_matches, shown_path
from ktdeval_grid.control import (
    Drop,
    Pause,
    Requeue,
    Restore,
    Resume,
    SetConcurrency,
    change_control,
)
from ktdeval_grid.layout import GridPlace, open_place
from ktdeval_grid.records import GridRecord
from ktdeval_grid.status import Found, load_record, reader_of


@example("ktdeval grid ctl lab pause", "ktdeval grid ctl lab requeue failed")
@click.group()
@click.argument("folder", type=FilePath(), metavar="DIR")
@click.pass_context
def ctl(context: click.Context, folder: Path) -> None:
    """Steer a grid while it runs, from any machine that sees its folder.

    Workers read the change within seconds. What is paused or dropped keeps its finished steps.
    """
    place = open_place(folder)
    load_record(place.store)  # raises where there is no grid
    context.obj = place


@example("ktdeval grid ctl lab pause")
@ctl.command()
@click.pass_obj
def pause(place: GridPlace) -> None:
    """Stop after the steps that are under way: `ktdeval grid ctl DIR pause`."""
    change_control(place.store, Pause())
    click.echo(f"paused; go on with `ktdeval grid ctl {shown_path(place.root)} resume`")


@example("ktdeval grid ctl lab resume")
@ctl.command()
@click.pass_obj
def resume(place: GridPlace) -> None:
    """Go on after a pause: `ktdeval grid ctl DIR resume`."""
    change_control(place.store, Resume())
    click.echo("resumed")


@example("ktdeval grid ctl lab concurrency 4")
@ctl.command()
@click.argument("episodes", type=click.IntRange(1, 10_000), metavar="N")
@click.pass_obj
def concurrency(place: GridPlace, episodes: int) -> None:
    """Run N episodes at once over the whole grid: `ktdeval grid ctl DIR concurrency 8`."""
    change_control(place.store, SetConcurrency(episodes))
    click.echo(f"{episodes} at once")


@example("ktdeval grid ctl lab drop openai/gpt-5-mini")
@ctl.command()
@click.argument("model")
@click.pass_obj
def drop(place: GridPlace, model: str) -> None:
    """Begin no further episode of a model: `ktdeval grid ctl DIR drop openai/gpt-5.5`."""
    label = _model(load_record(place.store), model)
    change_control(place.store, Drop(label))
    click.echo(f"{label} is dropped; take it up again with `restore {label}`")


@example("ktdeval grid ctl lab restore openai/gpt-5-mini")
@ctl.command()
@click.argument("model")
@click.pass_obj
def restore(place: GridPlace, model: str) -> None:
    """Take a dropped model up again: `ktdeval grid ctl DIR restore openai/gpt-5.5`."""
    label = _model(load_record(place.store), model)
    change_control(place.store, Restore(label))
    click.echo(f"{label} is taken up again")


def _model(record: GridRecord, text: str) -> str:
    """Return the label of a model, given by its label or name. Raises UsageError."""
    labels = [model.short for model in record.plan.models]
    if text in labels:
        return text

    named = [model.short for model in record.plan.models if model.name == text]
    if len(named) == 1:
        return named[0]
    if named:
        raise UsageError(f"{text}: {len(named)} models have this name; say {', '.join(named)}")

    raise UsageError(f"no model {text!r}{near_matches(text, labels)}; it has {', '.join(labels)}")


@example("ktdeval grid ctl lab requeue failed")
@ctl.command()
@click.argument("units", nargs=-1, required=True, metavar="[UNIT…|failed]")
@click.pass_obj
def requeue(place: GridPlace, units: tuple[str, ...]) -> None:
    """Try failed episodes again: `ktdeval grid ctl DIR requeue failed`.

    UNIT is an episode's id, or words of it such as `blinded_open_research W1 seed 0`; `failed` is
    every episode that has failed.
    """
    found = reader_of(place.store).look()
    chosen = _failed_units(found, units)
    change_control(place.store, Requeue(chosen))
    click.echo(f"{len(chosen)} to be tried again")


def _failed_units(found: Found, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of failed units that texts choose. Raises UsageError: one chooses none."""
    names = {
        unit.id: f"{unit.id} {system.slug} {unit.label}"
        for system, unit in found.record.units()
        if unit.id in found.failed
    }
    chosen: dict[str, None] = {}
    for text in texts:
        fits = (
            list(names)
            if text == "failed"
            else [unit for unit, name in names.items() if text in name]
        )
        if not fits:
            raise UsageError(
                f"{text}: no failed episode is called so; see `ktdeval grid status DIR --json`"
            )
        chosen |= dict.fromkeys(fits)

    return tuple(chosen)
