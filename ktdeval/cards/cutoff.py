"""End of a model's training data, and which days of a card lie before, across and after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ktdeval.cards.card import Evaluation
from ktdeval.cards.inputs import EvaluationInputs, Problem, WindowDays
from ktdeval.cards.parts import KnowledgeCutoff, NoCutoff, SideDays
from ktdeval.errors import DataError, UsageError
from ktdeval.jsonio import JsonValue, csv_rows
from ktdeval.market.calendar import parse_day
from ktdeval.market.snapshot import DayArray

Side = Literal["before", "across", "after"]
SIDES: tuple[Side, ...] = ("before", "across", "after")
SPANS, SEEN = "spans cutoff", "before cutoff"
"""Labels of a card whose windows lie on both sides of the cutoff, and of one whose windows all lie before it."""


@dataclass(frozen=True, slots=True)
class Cutoff:
    """Day on which a model's training data end: `first` to `last`, one day, or the month of which the day is not public."""

    first: np.datetime64
    last: np.datetime64
    text: str  #: as it was given
    confidence: str  #: `vendor`: read in the vendor's documentation; `reported`: by others; `given`: by the user; `recorded`
    source: str = ""

    def to_json(self) -> dict[str, JsonValue]:
        """Return the cutoff as a manifest keeps it."""
        return {"date": self.text, "confidence": self.confidence, "source": self.source}


STATES: Mapping[NoCutoff, str] = {
    "none": "none: nothing was trained",
    "unknown": "unknown: the end of its training data is not known",
}
"""What is printed of a model without an end of training data."""


def parse_cutoff_or_state(spelled: str, where: str) -> Cutoff | NoCutoff:
    """Return the cutoff of a day or month, or the state that `none` and `unknown` name. Raises UsageError as `parse_cutoff`."""
    if spelled == "none":
        return "none"
    return "unknown" if spelled == "unknown" else parse_cutoff(spelled, "given", where, where)


def parse_cutoff(spelled: str, confidence: str = "given", source: str = "", where: str = "--cutoff") -> Cutoff:
    """Return the cutoff of a day (2024-06-01) or of a month (2024-06). Raises UsageError, which `where` starts: it is neither."""
    is_month = len(spelled) == len("2024-06")
    try:
        first = parse_day(f"{spelled}-01" if is_month else spelled)
    except DataError:
        raise UsageError(f"{where}: {spelled[:40]!r} is no day (2024-06-01) and no month (2024-06)") from None
    last = (first.astype("M8[M]") + np.timedelta64(1, "M")).astype("M8[D]") - np.timedelta64(1, "D") if is_month else first
    return Cutoff(first, last, spelled, confidence, source)


def listed_cutoff(model: str, args: Mapping[str, Any]) -> Cutoff | NoCutoff:
    """Return the cutoff of a model (such as openai/gpt-4o) by the first pattern of cutoffs.csv, or by the days of training that a
    policy's arguments record; `none`: it is a rule that was not trained.
    """
    days = str(args.get("trained", "")).split(":")
    if model == "rl/policy" and len(days) == len(("first", "last")):
        return parse_cutoff(days[1], "recorded", "last day of training in the policy's file", "trained")
    names = (model, model.rpartition("/")[2].lower())
    row = next((row for row in _listed() if fnmatchcase(names["/" not in row["pattern"]], row["pattern"])), None)
    if row is None or row["cutoff"] == "unknown":
        return "unknown"
    return "none" if row["cutoff"] == "none" else parse_cutoff(row["cutoff"], row["confidence"], row["source"])


@cache
def _listed() -> list[dict[str, str]]:
    return csv_rows(Path(__file__).with_name("cutoffs.csv"))


def run_cutoff(model: str, args: Mapping[str, Any], option: str | None) -> Cutoff | NoCutoff:
    """Return the cutoff that a run records: that of `--knowledge-cutoff` (`option`), else the listed one. Raises UsageError: it is
    no date and no state.
    """
    return listed_cutoff(model, args) if option is None else parse_cutoff_or_state(option, "--knowledge-cutoff")


def recorded_cutoff(card: Evaluation) -> KnowledgeCutoff | None:
    """Return the cutoff that a card records; None where nothing was trained, or it is not known."""
    return card.knowledge_cutoff if isinstance(card.knowledge_cutoff, KnowledgeCutoff) else None


def card_cutoff(card: Evaluation) -> Cutoff | NoCutoff:
    """Return the cutoff of a card's model as it records it; where it is unknown, as listed."""
    block = card.knowledge_cutoff
    if isinstance(block, KnowledgeCutoff):
        return parse_cutoff(block.date, block.confidence, block.source)
    return "none" if block == "none" else listed_cutoff(card.model.name, card.model.args)


def sides(days: DayArray, base: np.datetime64, cutoff: Cutoff) -> list[Side]:
    """Return [n] sides of each day's return, which runs from the close of the day before (`base` of the first) to its own:
    `before` where it ends by the cutoff, `after` where it begins there or later, `across` where it holds the cutoff or may.
    """
    begins = np.concatenate([[base], days[:-1]])
    return ["before" if day <= cutoff.first else "after" if begin >= cutoff.last else "across"
            for begin, day in zip(begins, days, strict=True)]  # fmt: skip


def cutoff_fields(inputs: EvaluationInputs, window_days: WindowDays) -> dict[str, Any]:
    """Return the cutoff of a card, with the sides of these days where there is one."""
    if isinstance(inputs.knowledge_cutoff, str):
        return {"knowledge_cutoff": inputs.knowledge_cutoff}
    entry = {name: str(value) for name, value in inputs.knowledge_cutoff.items()}
    cutoff, counts = parse_cutoff(entry["date"], where="knowledge_cutoff"), dict[str, dict[str, int]]()
    for window, days in window_days.items():
        before = [] if inputs.snapshot is None or not len(days) else inputs.snapshot.days[inputs.snapshot.days < days[0]]
        day_sides = sides(days, before[-1] if len(before) else days[0], cutoff) if len(days) else []
        counts[window.name] = {side: day_sides.count(side) for side in SIDES}
    return {"knowledge_cutoff": {**entry, "windows": counts}}


def cutoff_labels(card: Evaluation) -> dict[str, bool]:
    """Return the labels on the sides of a card's windows, and whether each holds."""
    block = recorded_cutoff(card)
    classes = set() if block is None else {window_side(days) for days in block.windows.values()}
    return {SEEN: classes == {"before"}, SPANS: "across" in classes or len(classes) > 1}


def window_side(days: SideDays) -> Side:
    """Return the side of a window: that of all its days, or across."""
    whole = [side for side in SIDES if getattr(days, side) == days.before + days.across + days.after]
    return whole[0] if whole else "across"


def cutoff_problems(card: Evaluation, limit: int | None = None) -> Iterator[Problem]:
    """Yield contradictions of a card's cutoff block with its windows; only the market has the trading days."""
    block = recorded_cutoff(card)
    if block is None:
        return
    try:
        cutoff = parse_cutoff(block.date)
    except UsageError as error:
        yield ("knowledge_cutoff", "date"), str(error).removeprefix("--cutoff: ")
        return
    if set(block.windows) != {window.name for window in card.windows}:
        yield ("knowledge_cutoff", "windows"), "are not the windows of the card"
        return
    for window in card.windows:
        days, total = block.windows[window.name], min(window.days, limit or window.days)
        if days.before + days.across + days.after != total:
            yield ("knowledge_cutoff", "windows", window.name), f"do not add up to the {total} days of the window"
        elif (window.last <= str(cutoff.first) and days.before != total) or (
            window.first > str(cutoff.last) and days.after < total - 1
        ):
            yield ("knowledge_cutoff", "windows", window.name), f"are not the sides on which its days lie to {block.date}"


def cutoff_words(card: Evaluation) -> str:
    """Return words on the model's cutoff and the sides of the days; on a card that records none, which of the two states it is."""
    block = card.knowledge_cutoff
    if not isinstance(block, KnowledgeCutoff):
        listed = listed_cutoff(card.model.name, card.model.args)
        if block == "unknown" and isinstance(listed, Cutoff):
            return f"{STATES[block]}; the list has {listed.text} ({listed.confidence}: {listed.source})"
        return STATES[block]
    totals = {side: sum(getattr(days, side) for days in block.windows.values()) for side in SIDES}
    counts = ", ".join(f"{days:,} {side}" for side, days in totals.items())
    positions = f"; days: {counts}; windows {window_words(card)}" if block.windows else ""
    return f"{block.date} ({block.confidence}: {block.source}){positions}"


def window_words(card: Evaluation) -> str:
    """Return the windows of a card that records a cutoff by their side: `before W1, W2; across W3`."""
    block = recorded_cutoff(card)
    windows = {} if block is None else block.windows
    by_side = {side: [name for name, days in windows.items() if window_side(days) == side] for side in SIDES}
    return "; ".join(f"{side} {', '.join(names)}" for side, names in by_side.items() if names)
