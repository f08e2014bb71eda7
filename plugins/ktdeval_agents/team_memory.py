"""Memory of a team: the latest decisions on each asset, the outcomes of these decisions, and
reflections on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ktdeval.harness import Decision, label_key, submission_object
from ktdeval.masking import shorten
from ktdeval.observation import ObservedState, fill_of
from ktdeval_agents.memory_entries import ACCOUNT, MemoryEntry, entry_lines, latest
from ktdeval_agents.role_graph import MemoryRule

REFLECTION_CHARACTERS = 600
"""Maximum length of a remembered reflection, in characters."""
MAX_ASSETS = 60
"""Maximum number of assets on which decisions are remembered. A larger number would make the record
of every step longer.
"""
_REASON_CHARACTERS = 300
_NO_ORDER = "no order"
_NO_TRADE = ("HOLD", _NO_ORDER)
_NOTHING = "nothing traded"  # the decision led to no trade, such as BUY for a held asset
# values of `status` for an asset that keeps its last price
_RESTS = ("closed", "not_listed", "suspended")


class TeamMemory(msgspec.Struct, forbid_unknown_fields=True):
    """State of a team between steps, oldest entry first."""

    entries: list[MemoryEntry] = []

    def settle(self, step: int, state: ObservedState) -> None:
        """Record the outcome of the last step's orders, and the outcomes of decisions whose asset
        has a new price.

        On the step after the decision, the outcome is the change on the day if it is shown.
        Otherwise it is the change from price to price. A day on which the asset does not trade
        gives no new price. A decision whose order was rejected has no outcome.
        """
        self._book(step, state)
        prices = _prices_and_nav(state)
        for entry in self.entries:
            if entry.is_known or entry.asset not in prices:
                continue
            if _rests(state, entry.asset):
                continue

            price = prices[entry.asset]
            change = None
            if step == entry.step + 1 and entry.asset in state.assets:
                change = state.assets[entry.asset].figure("return_1d_pct")

            if change is None and entry.price:
                change = 100.0 * (price / entry.price - 1.0)

            if change is not None:
                entry.change_pct = round(change, 4)
            else:
                entry.price = price
                entry.since = _day_label(step, state)

    def _book(self, step: int, state: ObservedState) -> None:
        """Record the outcome of the previous step's orders. Warm-up days have no orders."""
        for entry in self.entries:
            if entry.step != step - 1 or entry.step < 0 or entry.asset == ACCOUNT:
                continue

            fill = fill_of(state, entry.asset)
            if fill is not None:
                entry.fill = fill.words
                entry.is_rejected = not fill.is_traded
            elif state.shows_last_orders and entry.decision not in _NO_TRADE:
                entry.fill = _NOTHING

    def due(self) -> list[MemoryEntry]:
        """Return the entries that have an outcome on which the model has not reflected yet."""
        return [entry for entry in self.entries if entry.is_known and entry.reflection is None]

    def remember(
        self,
        step: int,
        state: ObservedState,
        decision: Decision,
        submitted: str,
        withhold: Callable[[str], str],
    ) -> None:
        """Add a decision by the model. `submitted`: arguments of its submission; `withhold`: the
        session's method.
        """
        if state.limits.asks_decisions:
            items = list(_decisions(submitted, state))
        else:
            items = list(_orders(decision))
        if not items:
            items = [_RememberedDecision(_only_asset(state) or ACCOUNT, _NO_ORDER, "")]

        prices = _prices_and_nav(state)
        label_of = {label_key(label): label for label in prices}
        for item in items:
            label = label_of.get(label_key(item.asset), item.asset)
            reason = shorten(_one_line(item.reason or decision.overall_reason), _REASON_CHARACTERS)
            entry = MemoryEntry(
                step=step,
                day=_day_label(step, state),
                asset=withhold(_one_line(label)),
                decision=item.decision,
                reason=withhold(reason),
                price=prices.get(label),
            )
            self.entries.append(entry)

    def forget(self, rule: MemoryRule, state: ObservedState) -> None:
        """Drop entries that are never shown. The latest entries of each asset are kept, for at most
        `MAX_ASSETS` assets by priority.
        """
        by_asset = _by_asset(self.entries)
        kept: list[MemoryEntry] = []
        for asset in _by_claim(by_asset, state)[:MAX_ASSETS]:
            kept += latest(by_asset[asset], max(rule.same, rule.cross))

        self.entries = _in_order(self.entries, kept)

    def write_entries(self, rule: MemoryRule, state: ObservedState) -> str:
        """Return the text of the entries to show, by asset and day; empty without entries.

        Each asset that the decision is about shows its own latest entries, for at most
        `rule.assets` assets by priority. Entries on other assets are added in rounds: first the
        latest entry of each asset, then the second latest of each, and so on.
        """
        by_asset = _by_asset(self.entries)
        by_claim = _by_claim(by_asset, state)
        own = [asset for asset in by_claim if _is_of_decision(asset, state)][: rule.assets]

        chosen: list[MemoryEntry] = []
        for asset in _as_shown(own, state):
            chosen += latest(by_asset[asset], rule.same)

        others = {asset: by_asset[asset] for asset in by_claim if asset not in own}
        dealt = _dealt(others, rule.cross)
        for asset in others:
            chosen += [entry for entry in dealt if entry.asset == asset]

        return "\n".join(entry_lines(chosen, rule.same))


# ---- which assets are remembered, and in which order


def _by_asset(entries: Iterable[MemoryEntry]) -> dict[str, list[MemoryEntry]]:
    """Return the entries for each asset, oldest first."""
    by_asset: dict[str, list[MemoryEntry]] = {}
    for entry in entries:
        by_asset.setdefault(entry.asset, []).append(entry)
    return by_asset


def _by_claim(by_asset: Mapping[str, Sequence[MemoryEntry]], state: ObservedState) -> list[str]:
    """Return assets by priority. Holdings come first, the largest position first; then the other
    assets that the decision is about; then all others. Within the last two groups, assets are
    sorted by their latest trading decision, then by their latest decision, most recent first. Ties
    keep the order of the state.
    """

    def claim(asset: str) -> tuple[bool, float, bool, float, int]:
        position = state.positions.get(asset)
        weight = 0.0
        if position is not None:
            weight = abs(position.weight or 0.0)

        entries = by_asset[asset]
        trades = [entry.step for entry in entries if entry.decision not in _NO_TRADE]
        latest_trade = max(trades, default=-math.inf)
        return (
            position is None,
            -weight,
            not _is_of_decision(asset, state),
            -latest_trade,
            -entries[-1].step,
        )

    return sorted(_as_shown(by_asset, state), key=claim)


def _is_of_decision(asset: str, state: ObservedState) -> bool:
    """Return whether a decision on this state is about the asset; the account is always included."""
    return asset == ACCOUNT or asset in state.assets


def _as_shown(assets: Collection[str], state: ObservedState) -> list[str]:
    """Return assets in the order of the state, followed by the assets that the state does not show."""
    shown = [asset for asset in state.assets if asset in assets]
    return [*shown, *(asset for asset in assets if asset not in state.assets)]


def _dealt(by_asset: Mapping[str, Sequence[MemoryEntry]], count: int) -> list[MemoryEntry]:
    """Return `count` entries, taken in rounds: the latest of each asset, then the second latest of
    each, and so on. Within a round, the latest entry comes first. The result is sorted by step.
    """
    turns: list[tuple[int, int, int, MemoryEntry]] = []
    for order, entries in enumerate(by_asset.values()):
        for turn, entry in enumerate(reversed(entries)):
            turns.append((turn, -entry.step, order, entry))

    turns.sort(key=lambda item: item[:3])
    dealt = [entry for *_, entry in turns[:count]]
    return sorted(dealt, key=lambda entry: entry.step)


def _in_order(entries: Iterable[MemoryEntry], chosen: Iterable[MemoryEntry]) -> list[MemoryEntry]:
    """Return the chosen entries in the order of all entries."""
    # Entries may be equal, so they are distinguished by identity.
    chosen_ids = set(map(id, chosen))
    return [entry for entry in entries if id(entry) in chosen_ids]


# ---- decisions as entries


@dataclass(frozen=True, slots=True)
class _RememberedDecision:
    """One decision to remember."""

    asset: str  #: as submitted, or `ACCOUNT`
    decision: str
    reason: str  #: empty if the overall reason applies


def _orders(decision: Decision) -> Iterator[_RememberedDecision]:
    for order, asset in zip(decision.action, decision.stock_ids, strict=True):
        size = ""
        if order.target_weight is not None:
            size = f" to {100 * order.target_weight:.4g} % of NAV"

        yield _RememberedDecision(asset, f"{order.side}{size}", order.reason)


def _decisions(submitted: str, state: ObservedState) -> Iterator[_RememberedDecision]:
    """Yield the submitted decisions on assets that were shown. Their reasons are dropped, because
    they may name what the mask hides.
    """
    candidates = set(map(label_key, state.candidates))
    for item in submission_object(submitted).get("decisions", ()):
        if label_key(item["stock_id"]) in candidates:
            yield _RememberedDecision(item["stock_id"], item["decision"], "")


def _prices_and_nav(state: ObservedState) -> dict[str, float]:
    """Return the price of each asset, with the NAV as the price of `ACCOUNT`."""
    prices = dict(state.prices)
    if state.account.nav is not None:
        prices[ACCOUNT] = state.account.nav
    return prices


def _rests(state: ObservedState, asset: str) -> bool:
    """Return whether an asset does not trade on this day."""
    return asset in state.assets and state.assets[asset].status in _RESTS


def _day_label(step: int, state: ObservedState) -> str:
    return state.day or f"step {step}"


def _only_asset(state: ObservedState) -> str | None:
    """Return the candidate if there is exactly one."""
    if len(state.candidates) == 1:
        return next(iter(state.candidates))
    return None


def _one_line(text: str) -> str:
    """Return a text on one line and without code fences, so that it can't be read as a state."""
    return " ".join(text.replace("```", "'''").split())
