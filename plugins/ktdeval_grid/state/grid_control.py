"""Control of a grid while it runs: pause, concurrency, dropped models, units to retry.

`control.json` in the grid's store contains the complete state. `ktdeval grid ctl` replaces it, and
workers read it every second. A command changes the state with a pure function. Each state is also
stored under `controls/`, by number. The command that creates number n has read number n - 1, so if
two commands run at the same time, both are applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Annotated

import msgspec
from msgspec.structs import replace

from ktdeval.errors import StoreError
from ktdeval.stores import Store, StoreUnavailable, encode_value, find_value
from ktdeval.values import Value
from ktdeval_grid.planning.plan import PlannedModel

CONTROL = "control.json"  #: key in a grid's store
_CONTROLS = "controls"

Episodes = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class MalformedControl(StoreError):
    """The file with a grid's control can't be read."""


class Control(Value):
    """Control requested by those who watch a grid. The default applies to a grid without
    the file.
    """

    paused: bool = False  #: whether workers only finish the steps in progress
    #: number of concurrent episodes over the whole grid; null: as planned
    concurrency: Episodes | None = None
    dropped: tuple[str, ...] = ()  #: models, by name or label, whose units are no longer started
    #: number of requested retries, by unit
    requeued: dict[str, int] = msgspec.field(default_factory=dict)
    serial: Annotated[int, msgspec.Meta(ge=0)] = 0  #: number of commands so far

    def drops(self, model: PlannedModel) -> bool:
        """Return whether a model is dropped, by name or label."""
        return model.short in self.dropped or model.name in self.dropped

    def may_try(self, unit: str, requeued_before: int) -> bool:
        """Return whether a failed unit is to be retried.

        `requeued_before`: how often the unit had been requeued before it was run, from the record
        of its failure.
        """
        return self.requeued.get(unit, 0) > requeued_before


Change = Callable[[Control], Control]
"""Function by which a command changes a grid's control."""


def set_paused(is_paused: bool) -> Change:
    """Return the change that pauses a grid after the steps in progress, or that resumes it."""
    return lambda control: replace(control, paused=is_paused)


def set_concurrency(episodes: int) -> Change:
    """Return the change that sets the number of concurrent episodes over the whole grid."""
    return lambda control: replace(control, concurrency=episodes)


def drop_model(model: str) -> Change:
    """Return the change that stops starting a model's units. Finished units stay."""

    def change(control: Control) -> Control:
        return replace(control, dropped=tuple(dict.fromkeys([*control.dropped, model])))

    return change


def restore_model(model: str) -> Change:
    """Return the change that resumes a dropped model."""

    def change(control: Control) -> Control:
        others = [name for name in control.dropped if name != model]
        return replace(control, dropped=tuple(others))

    return change


def requeue_units(units: Iterable[str]) -> Change:
    """Return the change that requests a retry of failed units."""

    def change(control: Control) -> Control:
        requeued = dict(control.requeued)
        for unit in units:
            requeued[unit] = requeued.get(unit, 0) + 1
        return replace(control, requeued=requeued)

    return change


def read_control(store: Store) -> Control:
    """Return a grid's control. Raises MalformedControl, with file and field."""
    return _read_control(store, CONTROL) or Control()


class SeenControl(Value):
    """State of a grid's control, as an observer has read it."""

    control: Control = Control()
    #: one line if `control.json` can't be read, in which case `control` is the previous state; else
    #: empty
    warning: str = ""


def control_in_force(store: Store, before: Control | None = None) -> SeenControl:
    """Return the control that is in force in a grid.

    If `control.json` was edited by hand and is malformed, return the state `before` or, if that is
    None, the state after the last command. Raises StoreError if the store fails.
    """
    try:
        return SeenControl(control=read_control(store))
    except MalformedControl as problem:
        kept = before or _last_commanded(store)
        return SeenControl(control=kept, warning=f"{problem}; until then the state before it stays")


def _last_commanded(store: Store) -> Control:
    """Return the state after the last command, or the default if there was no command."""
    for key in sorted((stat.key for stat in store.list(_CONTROLS)), reverse=True):
        with suppress(MalformedControl):
            return _read_control(store, key) or Control()

    return Control()


def change_control(store: Store, change: Change) -> Control:
    """Change a grid's control and return the new state.

    Raises MalformedControl if `control.json` was edited by hand and can't be read; it is then not
    replaced.
    """
    before = read_control(store)
    while True:
        after = replace(change(before), serial=before.serial + 1)
        if store.create(_number_file(after.serial), encode_value(after)):
            break

        # another command was faster
        before = _read_control(store, _number_file(after.serial)) or before

    _publish(store, after)
    return after


def _publish(store: Store, control: Control) -> None:
    """Replace `control.json` with a state, or with the state of a later command if there is one.

    The later command may have been written first.
    """
    latest: Control | None = control
    while latest is not None:
        control = latest
        store.replace(CONTROL, encode_value(control))
        latest = _read_control(store, _number_file(control.serial + 1))


def _read_control(store: Store, key: str) -> Control | None:
    try:
        return find_value(store, key, Control)
    except StoreUnavailable:
        raise
    except StoreError as problem:
        raise MalformedControl(f"{problem}; fix it, or delete it") from problem


def _number_file(serial: int) -> str:
    return f"{_CONTROLS}/{serial:06}.json"
