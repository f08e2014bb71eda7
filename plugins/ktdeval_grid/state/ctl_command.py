"""`ktdeval grid ctl`: pause, resume, retune, drop a model, retry failed episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from ktdeval.cli import FilePath, complete_words, example
from ktdeval.errors import UsageError
from ktdeval.values import near_matches, shown_path
from ktdeval_grid.state.grid_control import (
    change_control,
    drop_model,
    requeue_units,
    restore_model,
    set_concurrency,
    set_paused,
)
from ktdeval_grid.state.layout import GridPlace, open_place
from ktdeval_grid.state.records import GridRecord
from ktdeval_grid.state.status import FoundGrid, load_record, reader_of

_MAX_EPISODES = 10_000


def _complete_actions(
    context: click.Context, parameter: click.Parameter, text: str
) -> list[CompletionItem]:
    return complete_words(_ACTIONS)(context, parameter, text)


@example("ktdeval grid ctl lab pause")
@click.command()
@click.argument("folder", type=FilePath(), metavar="DIR")
@click.argument("action", metavar="ACTION", shell_complete=_complete_actions)
@click.argument("values", nargs=-1, metavar="[VALUE]…")
def ctl(folder: Path, action: str, values: tuple[str, ...]) -> None:
    """Steer a grid while it runs, from any machine that sees its folder.

    Workers read the change within seconds. What is paused or dropped keeps its finished steps.

    \b
    pause                stop after the steps that are under way
    resume               go on after a pause
    concurrency N        run N episodes at once over the whole grid
    drop MODEL           begin no further episode of a model
    restore MODEL        take a dropped model up again
    requeue failed|UNIT… try failed episodes again: all, or those whose id or
                         words (`blinded_open_research W1 seed 0`) hold UNIT
    """  # noqa: D301 - click reads the letter \b
    place = open_place(folder)
    record = load_record(place.store)  # raises an error if the folder has no grid
    if action not in _ACTIONS:
        near = near_matches(action, _ACTIONS)
        raise UsageError(f"ctl: no action {action!r}{near}; actions are {', '.join(_ACTIONS)}")

    takes, steer = _ACTIONS[action]
    if not _has_right_count(values, takes):
        line = f"ktdeval grid ctl DIR {action} {takes}".rstrip()
        raise UsageError(f"ctl: {action} takes {takes or 'no value'}: `{line}`")

    click.echo(steer(place, record, values))


def _has_right_count(values: Sequence[str], takes: str) -> bool:
    """Return whether an action has the right number of values."""
    if not takes:
        return not values
    if takes.endswith("…"):
        return bool(values)
    return len(values) == 1


def _pause(place: GridPlace, _record: GridRecord, _values: Sequence[str]) -> str:
    change_control(place.store, set_paused(True))
    return f"paused; go on with `ktdeval grid ctl {shown_path(place.root)} resume`"


def _resume(place: GridPlace, _record: GridRecord, _values: Sequence[str]) -> str:
    change_control(place.store, set_paused(False))
    return "resumed"


def _concurrency(place: GridPlace, _record: GridRecord, values: Sequence[str]) -> str:
    episodes = click.IntRange(1, _MAX_EPISODES)(values[0])
    change_control(place.store, set_concurrency(episodes))
    return f"{episodes} at once"


def _drop(place: GridPlace, record: GridRecord, values: Sequence[str]) -> str:
    label = _model(record, values[0])
    change_control(place.store, drop_model(label))
    return f"{label} is dropped; resume it with `restore {label}`"


def _restore(place: GridPlace, record: GridRecord, values: Sequence[str]) -> str:
    label = _model(record, values[0])
    change_control(place.store, restore_model(label))
    return f"{label} is resumed"


def _requeue(place: GridPlace, _record: GridRecord, values: Sequence[str]) -> str:
    found = reader_of(place.store).look()
    chosen = _failed_units(found, values)
    change_control(place.store, requeue_units(chosen))
    return f"{len(chosen)} to be tried again"


def _model(record: GridRecord, text: str) -> str:
    """Return the label of a model, given its label or name. Raises UsageError."""
    labels = [model.short for model in record.plan.models]
    if text in labels:
        return text

    named = [model.short for model in record.plan.models if model.name == text]
    if len(named) == 1:
        return named[0]
    if named:
        raise UsageError(
            f"{text}: {len(named)} models have this name; choose from {', '.join(named)}"
        )

    raise UsageError(f"no model {text!r}{near_matches(text, labels)}; it has {', '.join(labels)}")


def _failed_units(found: FoundGrid, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of failed units that match the texts. Raises UsageError if a text matches no
    such unit.
    """
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


#: values that each action takes, and the function that carries it out
_ACTIONS: Mapping[str, tuple[str, Callable[[GridPlace, GridRecord, Sequence[str]], str]]] = {
    "pause": ("", _pause),
    "resume": ("", _resume),
    "concurrency": ("N", _concurrency),
    "drop": ("MODEL", _drop),
    "restore": ("MODEL", _restore),
    "requeue": ("failed|UNIT…", _requeue),
}
