"""Memory of a team: its latest decisions by asset, their outcomes, and the team's reflections."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import msgspec

from ktdeval.harness import Decision, json_object, label_key
from ktdeval.masking import shorten
from ktdeval_agents.graph import MemoryRule
from ktdeval_agents.sight import ACCOUNT, Sight, first_number

_KEPT = 40  # entries, of all assets together
_REASON_CHARACTERS = 300


class Entry(msgspec.Struct, forbid_unknown_fields=True):
    """A decision on one asset, or on none (`ACCOUNT`)."""

    step: int
    day: str  #: as shown
    asset: str  #: as shown
    decision: str
    reason: str
    price: float | None  #: that the outcome is measured from; None before one is shown
    since: str = ""  #: day of `price`, if later than `day`
    change_pct: float | None = None  #: outcome, once it is known
    reflection: str | None = None  #: on the outcome; None before the model was asked, empty without an answer


class TeamMemory(msgspec.Struct, forbid_unknown_fields=True):
    """State of a team between steps, the oldest entry first."""

    entries: list[Entry] = []

    def settle(self, step: int, sight: Sight) -> None:
        """Record outcomes of decisions whose price is shown again: the day's change on the next step, else from price to price."""
        for entry in self.entries:
            if entry.change_pct is not None or entry.asset not in sight.prices:
                continue
            price, change = sight.prices[entry.asset], None
            if step == entry.step + 1:
                change = first_number(sight.rows.get(entry.asset, {}), ("return_1d_pct",))
            if change is None and entry.price:
                change = 100.0 * (price / entry.price - 1.0)
            if change is not None:
                entry.change_pct = round(change, 4)
            else:
                entry.price, entry.since = price, sight.day

    def due(self) -> list[Entry]:
        """Return the entries with an outcome that the model has not reflected on."""
        return [entry for entry in self.entries if entry.change_pct is not None and entry.reflection is None]

    def remember(self, step: int, sight: Sight, decision: Decision, submitted: str, withhold: Callable[[str], str]) -> None:
        """Add a decision that the model made; `submitted`: arguments of its submission; `withhold`: as a session has it."""
        items = list(_stances(submitted, sight) if sight.asks_stances else _orders(decision))
        if not items:
            items = [(sight.candidates[0] if len(sight.candidates) == 1 else ACCOUNT, "no order", "")]
        shown = {label_key(label): label for label in sight.prices}
        for asset, decided, reason in items:
            label = shown.get(label_key(asset), asset)
            why, named = (" ".join(text.replace("```", "'''").split()) for text in (reason or decision.overall_reason, label))
            self.entries.append(
                Entry(
                    step, sight.day, withhold(named), decided, withhold(shorten(why, _REASON_CHARACTERS)), sight.prices.get(label)
                )
            )
        self.entries = self.entries[-_KEPT:]

    def shown(self, rule: MemoryRule, sight: Sight) -> str:
        """Return the entries to show, by day, the oldest first; empty if there are none."""
        same = [entry for entry in self.entries if entry.asset in sight.focus]
        cross = [entry for entry in self.entries if entry.asset not in sight.focus]
        chosen = {id(entry) for entry in (*_latest(same, rule.same), *_latest(cross, rule.cross))}
        return "\n".join(entry_lines([entry for entry in self.entries if id(entry) in chosen]))


def entry_lines(entries: Iterable[Entry]) -> list[str]:
    """Return lines of entries: each decision with its outcome, and the reflection once after the last of its day."""
    lines = []
    for (_, day), group in itertools.groupby(entries, lambda entry: (entry.step, entry.day)):
        of_day = list(group)
        lines += [f"- {day}, {entry.asset or 'the account'}: {entry.decision}{_outcome(entry)}. {entry.reason}" for entry in of_day]
        if reflections := [entry.reflection for entry in of_day if entry.reflection]:
            lines.append(f"  Reflection: {reflections[-1]}")
    return lines


def _outcome(entry: Entry) -> str:
    if entry.change_pct is None:
        return ""
    return f", then {entry.change_pct:+.2f} %" + (f" since {entry.since}" if entry.since else "")


def _orders(decision: Decision) -> Iterable[tuple[str, str, str]]:
    for order, asset in zip(decision.action, decision.stock_ids, strict=True):
        size = f" to {100 * order.target_weight:.4g} % of NAV" if order.target_weight is not None else ""
        yield asset, f"{order.side}{size}", order.reason


def _stances(submitted: str, sight: Sight) -> Iterable[tuple[str, str, str]]:
    """Yield submitted decisions on assets that were shown, without their reasons, which may name what the mask hides."""
    candidates = set(map(label_key, sight.candidates))
    for item in json_object(submitted).get("decisions", ()):
        if label_key(item["stock_id"]) in candidates:
            yield item["stock_id"], item["decision"], ""


def _latest(entries: Sequence[Entry], count: int) -> Sequence[Entry]:
    return entries[-count:] if count else ()
