"""A day's state as the mask shows it, as a single value. The JSON block in the prompt is written
from the state; agents and local models read it.

A task builds the state as payloads. Only `observe` (`state_rendering.py`) turns payloads into an
`ObservedState`, using the lens, so a state contains only what the prompt shows. A task's rules
state its limits as text, while the state contains them as numbers for local readers. All numbers
are exactly those in the text.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from json.encoder import encode_basestring
from typing import Any, TypeVar

from ktdeval.observation.compact import unpack_section
from ktdeval.observation.older_closes import shows_older_apart, with_older_apart
from ktdeval.observation.state_entries import (
    ObservedAccount,
    ObservedAsset,
    ObservedBar,
    ObservedDocument,
    ObservedLimits,
    ObservedOrder,
    ObservedOutcome,
    ObservedPosition,
    StateEntry,
)
from ktdeval.observation.state_rows import as_object, rows_by_asset, table_rows
from ktdeval.values.documents.strict_json import JsonValue, loads_strict

T = TypeVar("T", bound=StateEntry)

_LIMITS = "constraints"


@dataclass(frozen=True)
class ObservedState:
    """State of a day. A section that the task doesn't show is empty. Entries keyed by label are in
    display order.
    """

    #: JSON text of each masked section, by name, in display order
    sections: Mapping[str, str]

    # --- the state as text and as plain values

    @cached_property
    def text(self) -> str:
        """The JSON block in the prompt: all sections except the limits, which are part of the
        task's rules.
        """
        shown = {name: text for name, text in self.sections.items() if name != _LIMITS}
        fields = [f"{encode_basestring(name)}:{text}" for name, text in shown.items()]
        return f"{{{','.join(fields)}}}"

    @cached_property
    def values(self) -> Mapping[str, Any]:
        """Sections as plain JSON values, keyed by name, with the numbers as shown."""
        return {name: unpack_section(loads_strict(text)) for name, text in self.sections.items()}

    # --- the state as typed entries

    @property
    def day(self) -> str:
        """Label of the day; empty if no day is shown."""
        return str(self.values.get("day", ""))

    @cached_property
    def account(self) -> ObservedAccount:
        """The account at this day's close."""
        return ObservedAccount(as_object(self.values.get("account")))

    @cached_property
    def limits(self) -> ObservedLimits:
        """The task's limits."""
        return ObservedLimits(as_object(self.values.get(_LIMITS)))

    @cached_property
    def positions(self) -> Mapping[str, ObservedPosition]:
        """Long and short positions, by label."""
        return self._by_label("positions", ObservedPosition)

    @cached_property
    def candidates(self) -> Mapping[str, ObservedAsset]:
        """Assets from which the task lets the agent choose, by label."""
        return self._by_label("candidates", ObservedAsset)

    @cached_property
    def assets(self) -> Mapping[str, ObservedAsset]:
        """Candidates, then the other positions, by label. An asset that is both has the cells of
        both, with precedence for the candidate cells. Figures for other holdings come from a
        separate table.
        """
        figures_held = rows_by_asset(self.values.get("holdings"))
        assets: dict[str, ObservedAsset] = {}
        for label in (*self.candidates, *self.positions):
            cells: dict[str, Any] = {}
            if label in self.positions:
                cells.update(self.positions[label].cells)
                cells.update(figures_held.get(label, {}))
            if label in self.candidates:
                cells.update(self.candidates[label].cells)
            assets[label] = ObservedAsset(cells)

        return assets

    @cached_property
    def prices(self) -> Mapping[str, float]:
        """Close, or last known close, of each asset that shows a close, by label."""
        prices: dict[str, float] = {}
        for label, asset in self.assets.items():
            if asset.price is not None:
                prices[label] = asset.price

        return prices

    @cached_property
    def universe(self) -> tuple[str, ...]:
        """Labels in a list that shows nothing but labels."""
        return tuple(self.values.get("universe") or ())

    @cached_property
    def history(self) -> Mapping[str, tuple[ObservedBar, ...]]:
        """Bars by asset label, oldest first."""
        by_asset: dict[str, list[ObservedBar]] = {}
        for row in table_rows(self.values.get("history")):
            bar = ObservedBar(row)
            by_asset.setdefault(bar.label, []).append(bar)

        return {label: tuple(bars) for label, bars in by_asset.items()}

    @cached_property
    def documents(self) -> tuple[ObservedDocument, ...]:
        """News and reports, in the order shown."""
        return tuple(map(ObservedDocument, table_rows(self.values.get("news"))))

    @cached_property
    def last_orders(self) -> tuple[ObservedOrder, ...]:
        """Orders of the previous step, in the order in which they were submitted."""
        last_step = as_object(self.values.get("last_step"))
        return tuple(map(ObservedOrder, table_rows(last_step.get("orders"))))

    @property
    def shows_last_orders(self) -> bool:
        """True if the task shows the outcome of the previous step."""
        return "orders" in as_object(self.values.get("last_step"))

    @cached_property
    def outcomes(self) -> Mapping[str, ObservedOutcome]:
        """For a warm-up day: the price changes that followed, by asset label."""
        return self._by_label("outcomes", ObservedOutcome)

    def _by_label(self, section: str, kind: type[T]) -> Mapping[str, T]:
        rows = rows_by_asset(self.values.get(section))
        return {label: kind(row) for label, row in rows.items()}

    # --- states that show less

    def without_sources(self, sources: Collection[str]) -> ObservedState:
        """Return the state without the documents from the given sources. The text of all other
        sections is unchanged.
        """
        if not sources or "news" not in self.sections:
            return self

        news = self.values["news"]
        column = news["columns"].index("source")
        rows = [row for row in news["rows"] if row[column] not in sources]
        return ObservedState({**self.sections, "news": _compact({**news, "rows": rows})})

    def with_older_apart_as(self, other: ObservedState) -> ObservedState:
        """Return the state with the older closes in its history stored separately, if `other` does
        so too.
        """
        if not shows_older_apart(other.sections):
            return self
        return ObservedState(with_older_apart(self.sections))


NOTHING_SHOWN = ObservedState({})
"""State of a task that provides no state."""


def state_of_values(values: Mapping[str, JsonValue]) -> ObservedState:
    """Return a state that an agent made from values shown to it, for example with fewer assets."""
    return ObservedState({name: _compact(value) for name, value in values.items()})


def _compact(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
