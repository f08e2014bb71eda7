"""Counterfactual change to one input of a prompt, made before masking. It results in the prompt
that a model would have seen with a different figure, word or order.

A change is applied to payloads, so that the prompt text, the typed state and the tool results
agree. The mask's rounding, noise and rebased prices apply to the changed figure as to any other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ktdeval.errors import UsageError
from ktdeval.masking import AssetName, AssetRef, DayRef, DocumentRef, Payload, Prose, SectorRef
from ktdeval.observation import ASSET
from ktdeval.values import derive_seed, near_matches
from ktdeval_compare.forks.change_forms import LABELS, ORDER, InputChange, parse_change

State = Mapping[str, Any]  # payloads for a day, keyed by section

_SIGNED = re.compile("return|drawdown|MOM|REV|SKEW|CORR")  # figures that can be negative
_MAX_NAMED = 30  # maximum number of fields listed in an error
_RANKED = ("candidates", "holdings")  # tables with figures for assets
_LISTED = ("candidates", "universe")
_DAY = "day"
_OUTCOMES = "outcomes"  # outcomes after a warm-up day
_SCORE = "score"  # score in a tool's ranking, followed by the columns behind the score
_NEVER = (AssetRef, AssetName, DayRef, DocumentRef)
#: Sections whose figures depend on each other and on earlier decisions
ACCOUNT_SECTIONS = frozenset({
    *(_DAY, "account", "positions", "last_step", "constraints", "duties", _OUTCOMES, "universe"),
})  # fmt: skip
_NEWS_INPUTS = ("sentiment", "title", "text")


class CannotChangeError(UsageError):
    """A change has no matching input at this step, or would contradict other inputs."""


# ---- contents of a state


def is_state(payload: Any) -> bool:
    """Return whether a payload is a day's state, as opposed to a tool result."""
    return isinstance(payload, Mapping) and _DAY in payload and "constraints" in payload


def changes_of_each(state: State) -> list[InputChange]:
    """Return one change for each input that a state shows: either its values in reverse order or,
    for market figures, the opposite sign. The account is skipped, since its figures depend on each
    other.
    """
    texts: list[str] = []
    for section, payload in state.items():
        if section in ACCOUNT_SECTIONS or section == "holdings":
            continue

        columns = _columns(payload)
        if section == "candidates" and len(payload["rows"]) == 1:
            texts += _changes_of_one(payload)
        elif section == "candidates":
            texts += [f"{column}=reversed" for column in columns if column != ASSET]
        elif section == "news":
            shown = [column for column in _NEWS_INPUTS if column in columns]
            texts += [f"news.{column}=reversed" for column in shown]
        elif columns:
            texts.append(f"{section}=reversed")
        elif isinstance(payload, Mapping):
            texts.append(f"{section}=*-1")

    return [parse_change(text) for text in texts]


def _changes_of_one(table: State) -> list[str]:
    """Return changes for the figures of a single asset, whose values can't be exchanged with the
    values of other assets. Figures that can be negative change their sign; other figures are
    halved.
    """
    (row,) = table["rows"]
    texts = []
    for column, cell in zip(table["columns"], row, strict=True):
        if _number(cell) is not None:
            can_be_negative = _SIGNED.search(column) is not None
            texts.append(f"{column}=*-1" if can_be_negative else f"{column}=-50 %")

    return texts


def shown_fields(state: State) -> list[str]:
    """Return the names of the fields in a state that can be changed: candidates first, the account
    last.
    """
    ranked: list[str] = []
    others: list[str] = []
    account: list[str] = []
    for section, payload in state.items():
        names = [name for name in _names_in(payload) if name != ASSET]
        if section in _RANKED:
            ranked += names
        elif section in ACCOUNT_SECTIONS:
            account += [f"{section}.{name}" for name in names]
        else:
            others += [f"{section}.{name}" for name in names]

    return list(dict.fromkeys((ORDER, LABELS, *ranked, *others, *account)))


def _columns(payload: Any) -> list[str]:
    """Return the columns of a table; empty for any other value."""
    if isinstance(payload, Mapping) and "columns" in payload and "rows" in payload:
        return list(payload["columns"])
    return []


# ---- the change itself


class ChangedPayloads:
    """Payloads of one step with the change applied.

    `asset` is the column of the asset to change (None for all assets), `day` the step's row, and
    `seed` the seed for a shuffle. `has_tools` is True if tools may show the field even though the
    state does not.
    """

    def __init__(
        self, change: InputChange, asset: int | None, day: int, seed: int, has_tools: bool = False
    ) -> None:
        self.cells = 0  #: number of changed cells
        #: increase of each asset's figure in the state, by the asset's column
        self.differences: dict[int, float] = {}
        self._change = change
        self._asset = asset
        self._day = day
        self._seed = seed
        self._has_tools = has_tools
        self._column = change.field.rpartition(".")[2]
        self._is_whole_section = False  # text in a whole section is not changed
        # for a field of assets: the value dealt to each asset, by column
        self._dealt: dict[int, Payload] = {}

    def __call__(self, payload: Any) -> Any:
        """Return the changed payload. Warm-up days are not changed. Raises CannotChangeError."""
        if isinstance(payload, Mapping) and _OUTCOMES in payload:
            return payload
        if not is_state(payload):
            return payload if self._change.is_placebo else self._result(payload)
        if payload[_DAY] != DayRef(self._day):
            return payload
        if self._change.field == ORDER:
            return self._reorder_state(payload)

        return self._state(payload)

    # --- the order of a list

    def _reorder_state(self, state: State) -> Payload:
        changed = dict(state)
        for section in _LISTED:
            payload: Any = state.get(section)
            if _columns(payload):
                rows = self._in_order(payload["rows"])
                changed[section] = {**payload, "rows": rows}
            elif isinstance(payload, list | tuple):
                changed[section] = self._in_order(payload)

        return changed

    def _in_order(self, items: Sequence[Payload]) -> list[Payload]:
        order = self._permutation(len(items))
        self.cells += sum(place != index for place, index in enumerate(order))
        return [items[index] for index in order]

    def _permutation(self, count: int) -> list[int]:
        if self._change.operation == "reversed":
            return list(range(count))[::-1]

        def draw_key(index: int) -> int:
            return derive_seed(self._seed, self._change.text, index)

        return sorted(range(count), key=draw_key)

    # --- the state

    def _state(self, state: State) -> Payload:
        try:
            places = _places(state, self._change.field)
        except CannotChangeError:
            if self._has_tools and not self._change.is_dealt:
                return state
            raise

        self._is_whole_section = not all(column for _, column in places)
        changed = {**state, **{section: _editable(state[section]) for section, _ in places}}
        cells: list[_Cell] = []
        for section, column in places:
            cells += self._cells_of(changed, section, column)

        if self._change.is_dealt:
            self._deal(cells)
            return changed

        for cell in cells:
            if cell.is_of(self._asset):
                self._put(cell, self._cell(cell.value))
        return changed

    def _cells_of(self, state: dict[str, Any], section: str, column: str) -> list[_Cell]:
        """Return the cells of a section that may change: those in one column or under one key, or
        all figures if no column is given.
        """
        payload = state[section]
        columns = _columns(payload)
        if columns:
            wanted = [columns.index(column)] if column else _figures(columns, payload["rows"])
            return list(_table_cells(payload["rows"], columns, wanted))
        if self._change.is_dealt:
            raise CannotChangeError(
                f"{self._change.field} has no rows among which values could be permuted; give it a"
                " value, or a factor such as *-1"
            )
        if self._asset is not None:
            raise CannotChangeError(f"{self._change.field} does not belong to a single stock")
        if not isinstance(payload, Mapping):
            return [_Cell(state, section)]

        keys = [column] if column else list(payload)
        return [_Cell(payload, key) for key in keys]

    def _deal(self, cells: Sequence[_Cell]) -> None:
        """Redistribute values among cells. Within an asset, values are exchanged between days;
        otherwise they are exchanged by size.
        """
        groups: dict[Any, list[_Cell]] = {}
        for cell in cells:
            if _number(cell.value) is not None or _is_word(cell.value):
                groups.setdefault(cell.group, []).append(cell)

        for group in groups.values():
            ranked = group
            numbers = [_number(cell.value) for cell in group]
            if not group[0].is_by_day and None not in numbers:
                ranked = sorted(group, key=lambda cell: _number(cell.value) or 0.0)

            values = [cell.value for cell in ranked]
            order = self._permutation(len(ranked))
            for cell, index in zip(ranked, order, strict=True):
                self._put_dealt(cell, values[index])

    def _put_dealt(self, cell: _Cell, other: Payload) -> None:
        number = _number(other)
        new = other if number is None else _with_number(cell.value, lambda _: number)
        self.cells += new != cell.value
        self._put(cell, new)
        if isinstance(cell.asset, AssetRef):
            self._dealt[cell.asset.asset] = new

    def _put(self, cell: _Cell, new: Payload) -> None:
        before = _number(cell.value)
        after = _number(new)
        if isinstance(cell.asset, AssetRef) and before is not None and after is not None:
            self.differences[cell.asset.asset] = after - before

        cell.put(new)

    def _cell(self, value: Payload) -> Payload:
        """Return one cell changed by a value. A null cell stays null."""
        change = self._change
        if value is None:
            return None
        if isinstance(value, _NEVER):
            raise CannotChangeError(
                f"{change.field} names a stock or a day, which can't be changed; change another of"
                " its values"
            )

        new: Payload
        if change.words:
            if not isinstance(value, str | Prose) or isinstance(value, SectorRef):
                raise CannotChangeError(f"{change.field} is not a text; give it a number")
            new = change.words
        elif _number(value) is None:
            if not self._is_whole_section:
                raise CannotChangeError(
                    f"{change.field} is not a number; give it a text, or reversed"
                )
            return value
        else:
            new = _with_number(value, self._figure)

        self.cells += new != value
        return new

    def _figure(self, number: float) -> float:
        change = self._change
        if change.operation == "add":
            return number + change.number
        if change.operation == "times":
            return number * change.number
        return change.number

    # --- tool results

    def _result(self, payload: Any) -> Any:
        """Return a tool result with the field changed wherever it occurs. Raises CannotChangeError
        if the result is ranked by the field.
        """
        changed = _editable(payload)
        for cell in list(self._result_cells(changed, None)):
            if not self._change.is_dealt:
                if cell.is_of(self._asset):
                    cell.put(self._cell(cell.value))
            elif isinstance(cell.asset, AssetRef):
                cell.put(self._dealt.get(cell.asset.asset, cell.value))
        return changed

    def _result_cells(self, payload: Any, asset: AssetRef | None) -> Iterator[_Cell]:
        """Yield the cells of the field in a result. `asset`: the asset that the result is about."""
        columns = _columns(payload)
        if columns:
            yield from self._result_rows(payload["rows"], columns, asset)
        elif isinstance(payload, Mapping):
            named = payload.get(ASSET)
            if isinstance(named, AssetRef):
                asset = named
            for key, value in payload.items():
                if key == self._column and not isinstance(value, Mapping | list):
                    yield _Cell(payload, key, asset)
                else:
                    yield from self._result_cells(value, asset)
        elif isinstance(payload, list):
            for item in payload:
                yield from self._result_cells(item, asset)

    def _result_rows(
        self, rows: Iterable[list[Payload]], columns: Sequence[str], asset: AssetRef | None
    ) -> Iterator[_Cell]:
        if self._column not in columns:
            return

        place = columns.index(self._column)
        if _SCORE in columns and columns.index(_SCORE) < place:
            raise CannotChangeError(
                f"a tool ranked by {self._column}, and its order would contradict the change;"
                " choose a task with a table of candidates"
            )

        for row in rows:
            label = row[columns.index(ASSET)] if ASSET in columns else None
            yield _Cell(row, place, label if isinstance(label, AssetRef) else asset)


@dataclass(frozen=True, slots=True)
class _Cell:
    """A location in an editable payload that may be changed."""

    holder: Any  #: a row, or an object
    key: Any  #: column of the row, or name
    asset: Payload = None  #: owner of the cell: an asset, several, or None
    is_by_day: bool = False  #: whether the cell's table has a row per asset and day

    @property
    def value(self) -> Payload:
        value: Payload = self.holder[self.key]
        return value

    @property
    def group(self) -> Any:
        """Key of the cell's group; cells in the same group exchange their values."""
        return (self.key, self.asset) if self.is_by_day else ()

    def put(self, value: Payload) -> None:
        self.holder[self.key] = value

    def is_of(self, asset: int | None) -> bool:
        if asset is None:
            return True
        if isinstance(self.asset, AssetRef):
            return self.asset.asset == asset
        return isinstance(self.asset, list | tuple) and AssetRef(asset) in self.asset


def _editable(payload: Any) -> Any:
    """Return a mutable copy of a payload."""
    if isinstance(payload, Mapping):
        return {key: _editable(value) for key, value in payload.items()}
    if type(payload) in (list, tuple):
        return [_editable(item) for item in payload]
    return payload


def _table_cells(
    rows: Iterable[list[Payload]], columns: Sequence[str], wanted: Sequence[int]
) -> Iterator[_Cell]:
    """Yield the cells in the given columns of a table."""
    label = next((columns.index(name) for name in (ASSET, "stock_ids") if name in columns), None)
    is_by_day = _DAY in columns and ASSET in columns
    for row in rows:
        asset = None if label is None else row[label]
        for place in wanted:
            yield _Cell(row, place, asset, is_by_day)


def _places(state: State, field: str) -> list[tuple[str, str]]:
    """Return the section and column of a field. For an object, the column is a key; an empty column
    means all. Raises CannotChangeError if the field isn't shown, or if its name is ambiguous.
    """
    section, _, column = field.partition(".")
    if column:
        if section in state and column in _names_in(state[section]):
            return [(section, column)]
        raise _not_shown(state, field)

    ranked = [each for each in _RANKED if field in _columns(state.get(each))]
    if ranked:
        return [(each, field) for each in ranked]
    if field in state and field not in ACCOUNT_SECTIONS:
        return [(field, "")]

    found = [(each, field) for each, payload in state.items() if field in _names_in(payload)]
    if len(found) > 1:
        names = " and ".join(f"{each}.{field}" for each, _ in found)
        raise CannotChangeError(f"{field}: the step shows {names}; name one of them")
    if not found:
        raise _not_shown(state, field)

    return found


def _not_shown(state: State, field: str) -> CannotChangeError:
    names = shown_fields(state)
    advice = near_matches(field, names) or f"; it shows {', '.join(names[:_MAX_NAMED])}"
    return CannotChangeError(f"the step shows no {field}{advice}")


def _names_in(payload: Any) -> Iterable[str]:
    columns = _columns(payload)
    if columns or not isinstance(payload, Mapping):
        return columns
    return payload.keys()


def _figures(columns: Sequence[str], rows: Sequence[Sequence[Payload]]) -> list[int]:
    """Return the indices of the columns that contain figures."""

    def has_figures(place: int) -> bool:
        return any(_number(row[place]) is not None for row in rows)

    return [place for place in range(len(columns)) if has_figures(place)]


def _number(value: Payload) -> float | None:
    """Return the number shown in a cell; None if the cell does not show a number."""
    held = value
    if isinstance(value, tuple):
        if isinstance(value, _NEVER):
            return None
        held = getattr(value, "value", None)

    if isinstance(held, bool) or not isinstance(held, int | float | np.integer | np.floating):
        return None
    return float(held) if math.isfinite(held) else None


def _is_word(value: Payload) -> bool:
    return isinstance(value, str | Prose | SectorRef)


def _with_number(cell: Any, change: Callable[[float], float]) -> Any:
    """Return a cell of the same kind with the number changed."""
    number = change(_number(cell) or 0.0)
    if hasattr(cell, "_replace"):
        return cell._replace(value=number)
    return number
