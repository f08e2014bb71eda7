"""Published checklists, filled in from the records of a run.

An item is shown if the record contains one of the facts that the item asks for; nothing is filled
in by hand. A fact that is shown is not necessarily sound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ktdeval.errors import UsageError
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.documents.yamlio import load_yaml
from ktdeval.values.options.config_options import near_matches

_FOLDER = Path(__file__).with_name("checklists")
_MAX_PARTS = 6  #: maximum number of elements printed for a list or object
#: values that mean absence; a bright mask hides nothing
_SHOWS_NOTHING = (None, "", "unknown", "bright")


class ChecklistItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Checklist item."""

    item: str
    evidence: dict[str, str]  #: paths of facts in the record, keyed by label: `card.task.mask`
    next: str = ""  #: command that would record a missing fact
    #: whether the facts are meaningless for decisions that were read from a file
    excludes_files: bool = False


class Checklist(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Published checklist, loaded from a file in `checklists/`."""

    title: str
    source: str
    note: str
    items: tuple[ChecklistItem, ...]


@dataclass(frozen=True)
class FilledItem:
    """Checklist item with the facts found in the record, keyed by label."""

    item: str
    facts: Mapping[str, str]
    next: str


def checklist_names() -> list[str]:
    """Return the names of the bundled checklists."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def load_checklist(name: str) -> Checklist:
    """Return a checklist by name. Raises UsageError if no checklist has this name."""
    names = checklist_names()
    if name not in names:
        advice = near_matches(name, names) or f"; known: {', '.join(names)}"
        raise UsageError(f"unknown checklist {name!r}{advice}")

    return msgspec.convert(load_yaml(_FOLDER / f"{name}.yaml"), Checklist)


def fill_checklist(checklist: Checklist, record: JsonValue) -> list[FilledItem]:
    """Return the items of a checklist, filled in from a record: an object with `card` (a card as
    JSON) and `judge` (a judgement document).
    """
    deciders = _value_at(record, "card.deciders") or []
    is_of_file = any(decider["kind"] == "file" for decider in deciders)
    filled = []
    for item in checklist.items:
        facts = {}
        evidence = {} if is_of_file and item.excludes_files else item.evidence
        for label, place in evidence.items():
            text = _fact_text(_value_at(record, place))
            if text:
                facts[label] = text

        filled.append(FilledItem(item.item, facts, item.next))

    return filled


def _value_at(record: JsonValue, place: str) -> Any:
    """Return the value at a dotted path; None if the record has no such field."""
    value: Any = record
    for name in place.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)

    return value


def _fact_text(value: Any) -> str:
    """Return a recorded value as a string; empty if nothing is recorded."""
    if isinstance(value, Mapping):
        return _object_text(value)
    if isinstance(value, list):
        return _join_known([_fact_text(each) for each in value])
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value in _SHOWS_NOTHING else str(value)


def _object_text(value: Mapping[str, Any]) -> str:
    """Return a figure with its unit and interval, or any other object as its names and plain
    values.
    """
    if "value" in value:
        return _figure_text(value)

    parts = []
    for name, each in value.items():
        text = "" if isinstance(each, Mapping | list) else _fact_text(each)
        if text:
            parts.append(f"{name} {text}")

    return _join_known(parts)


def _figure_text(figure: Mapping[str, Any]) -> str:
    """Return a figure with its unit and interval; empty if it is undefined."""
    text = _fact_text(figure["value"])
    if not text:
        return ""

    unit = _fact_text(figure.get("unit", figure.get("currency")))
    interval = figure.get("interval")
    holder = interval if isinstance(interval, Mapping) else figure
    bounds = [_fact_text(holder.get(name)) for name in ("low", "high")]
    range_text = f"({' … '.join(bounds)})" if all(bounds) else ""
    return " ".join(part for part in (text, unit, range_text) if part)


def _join_known(parts: list[str]) -> str:
    known = [part for part in parts if part]
    if len(known) > _MAX_PARTS:
        return f"{', '.join(known[:_MAX_PARTS])}, … {len(known) - _MAX_PARTS} more"
    return ", ".join(known)
