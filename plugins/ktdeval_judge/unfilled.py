"""Find the decisions that were not filled, by day and code, with the reasons. They are found in the
outcomes in the ledger, and in the prices and days of declared trades.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from ktdeval.market import MarketSnapshot
from ktdeval.trading import Ledger, MarketRules, OrderRecord, StepRecord, TradingConfig
from ktdeval_judge.document import Unfilled
from ktdeval_judge.market_plan import MarketPlan
from ktdeval_judge.plan import SAME

REASONS: Mapping[str, str] = {
    "suspended": "suspended: it did not trade that day",
    "margin_call": "closed by a margin call",
    "price_limit": "at its price limit",
    "universe": "not in the universe that day: not yet listed, delisted or not a member",
    "t_plus_1": "bought that day, sellable from the next (T+1)",
    "holding": "not held, or fewer shares held",
    "volume": "above the tradable part of the day's volume",
    "lot": "not a whole number of lots",
    "smallest_order": "below the smallest order",
    "cash": "not enough cash",
    "margin": "not enough cash for the margin of a short",
    "minimum": "below the venue's smallest order",
    "target": "the weight was reached at the open",
    "position_limit": "too many holdings",
    "weight_limit": "above the whole account",
    "limit": "the order's price limit was not reached",
    "schema": "an order type that the venue does not accept",
    "short": "a short, but the venue is long only",
    "impossible_price": "the day's bar has no such price",
    "before_decision": "dated on or before the day of its signal",
    "unknown": "not read: the text names no asset of this market that day",
}
"""Executor rule, or finding on a declared trade -> text."""
LEAST = 1e-4  #: an unfilled part below this share of the NAV is a rounding error
_PRICE_SLACK = 1e-6  #: relative tolerance for prices below a bar's low or above its high


def unfilled_of(
    made: MarketPlan, ledger: Ledger, snapshot: MarketSnapshot, trading: TradingConfig
) -> list[Unfilled]:
    """Return all unfilled parts, ordered by day; within a day, the largest part is first.

    A target that is refused on several days for the same reason is one entry. Each row of a file of
    orders or trades is an order of its own.
    """
    found = [
        Unfilled(day=each.day, code=each.code, reason="short", detail=each.reason)
        for each in made.refused
    ]
    outcomes = _Outcomes(ledger, snapshot, MarketRules.of(snapshot, trading))
    found += outcomes.unfilled(merges_repeats=made.plan.form in ("weight", "shares"))
    found += _margin_calls(ledger)
    found += _odd_lots(made, ledger)
    if made.trades is not None:
        found += impossible_trades(made.trades, snapshot)

    return sorted(found, key=lambda each: (each.day, -(each.missing or 0.0), each.code))


# ---- outcomes in the ledger


class _Outcomes:
    """Unfilled orders in a ledger, with the rules under which they were judged."""

    def __init__(self, ledger: Ledger, snapshot: MarketSnapshot, rules: MarketRules) -> None:
        self._ledger = ledger
        self._snapshot = snapshot
        self._rules = rules

    def unfilled(self, merges_repeats: bool) -> list[Unfilled]:
        """Return the unfilled orders by day. With `merges_repeats`, a refusal is added to the
        previous one if nothing else became of the code's orders in between.
        """
        found: list[Unfilled] = []
        standing: dict[str, int] = {}  # code -> index of the refusal that its last order met
        before: StepRecord | None = None
        for step in self._ledger.steps:
            for order in step.fills:
                if order.code is None:
                    found.append(_unread(order, step))
                    continue

                entry = self._entry(order, step, before)
                repeated = standing.pop(order.code, None)
                if entry is None:
                    continue
                if merges_repeats and repeated is not None and _is_same(found[repeated], entry):
                    found[repeated] = _joined(found[repeated], entry)
                else:
                    repeated = len(found)
                    found.append(entry)
                if order.status == "rejected":
                    standing[order.code] = repeated
            before = step

        return found

    def _entry(
        self, order: OrderRecord, step: StepRecord, before: StepRecord | None
    ) -> Unfilled | None:
        if order.status == "filled" or order.rule is None or order.code is None:
            return None

        missing = _missing(order, step, before, self._ledger, self._snapshot)
        is_rounding = missing is not None and missing < LEAST
        # if the part is below one lot, or the weight was reached at the open, only rounding of
        # the target is unfilled
        if is_rounding and order.rule in ("cash", "lot", "target"):
            return None

        reason, detail = _reason(order, step, self._snapshot)
        if reason == "lot":
            reason, detail = self._lot_reason(order)
        return Unfilled(
            day=step.filled_on,
            code=order.code,
            side=order.side,
            reason=reason,
            missing=missing,
            detail=detail,
        )

    def _lot_reason(self, order: OrderRecord) -> tuple[str, str]:
        """Return which rule of sizes an order broke: the smallest order, or whole lots."""
        column = self._snapshot.asset_index[str(order.code)]
        terms = self._rules.terms[column]
        per_share = self._rules.scales[column].steps_per_unit
        smallest = terms.min_buy if order.side == "BUY" else terms.min_sell
        least = f"below the smallest order of {smallest / per_share:,.6g}"
        if order.shares is not None and order.shares < smallest:
            return "smallest_order", f"{order.shares / per_share:,.6g} shares, {least}"
        # the executor rounds a bought target to whole lots, so only the smallest order can fail
        if order.shares is None and order.side == "BUY":
            return "smallest_order", f"the rest of the target is {least} shares"
        return "lot", f"not a whole number of lots of {terms.lot / per_share:,.6g}"


def _is_same(earlier: Unfilled, entry: Unfilled) -> bool:
    return (earlier.side, earlier.reason) == (entry.side, entry.reason)


def _joined(earlier: Unfilled, entry: Unfilled) -> Unfilled:
    """Return a refusal that lasts until another one, with the larger unfilled part of the two."""
    known = [each for each in (earlier.missing, entry.missing) if each is not None]
    return replace(
        earlier,
        until=entry.day,
        times=earlier.times + 1,
        missing=max(known, default=None),
    )


def _unread(order: OrderRecord, step: StepRecord) -> Unfilled:
    """Return an order whose text names no asset, and whose size at market is therefore unknown."""
    text = order.stock_id or "(no text)"
    return Unfilled(
        day=step.filled_on,
        code=text,
        side=order.side,
        reason="unknown",
        detail=f"not read: {text!r} names no asset of this market that day",
    )


def _margin_calls(ledger: Ledger) -> Iterator[Unfilled]:
    """Yield the positions that were closed by a margin call, not by a decision."""
    for step in ledger.steps:
        for charge in step.charges:
            if charge.kind != "margin_call":
                continue

            shares = abs(charge.shares) / ledger.scale(charge.code).steps_per_unit
            act = "bought back" if charge.shares > 0 else "sold"
            missing = None
            if step.open_nav_minor > 0:
                missing = charge.notional_minor / step.open_nav_minor
            yield Unfilled(
                day=step.filled_on,
                code=charge.code,
                side=charge.side,
                reason="margin_call",
                missing=missing,
                detail=f"a margin call: {shares:,.6g} shares were {act} at the open",
            )


def _odd_lots(made: MarketPlan, ledger: Ledger) -> Iterator[Unfilled]:
    """Yield the orders that are not in whole lots. The excess over whole lots was not ordered."""
    if made.plan.form != "orders":
        return

    planned = made.plan.by_day
    for step in ledger.steps:
        if step.decided_on not in planned:
            continue

        for (code, side), shares in _by_side(planned[step.decided_on].rows).items():
            lot = made.plan.lots.get(code)
            orders = [each for each in step.orders if (each.code, each.side) == (code, side)]
            # an order that closes a position does not state a number of shares
            if lot is None or any(order.shares is None for order in orders):
                continue

            steps = sum(order.shares or 0 for order in orders)
            ordered = steps / ledger.scale(code).steps_per_unit
            if shares - ordered > SAME * lot:
                yield Unfilled(
                    day=step.filled_on,
                    code=code,
                    side=side,
                    reason="lot",
                    detail=(
                        f"{shares:,.6g} shares, rounded to whole lots of {lot:,.0f}, are "
                        f"{ordered:,.0f}"
                    ),
                )


def _by_side(rows: Sequence[tuple[str, float]]) -> dict[tuple[str, str], float]:
    """Return the shares ordered on a day, by code and side."""
    sums: dict[tuple[str, str], float] = {}
    for code, shares in rows:
        key = (code, "BUY" if shares > 0 else "SELL")
        sums[key] = sums.get(key, 0.0) + abs(shares)

    return sums


def _missing(
    order: OrderRecord,
    step: StepRecord,
    before: StepRecord | None,
    ledger: Ledger,
    snapshot: MarketSnapshot,
) -> float | None:
    """Return the unfilled part of an order, as a share of the NAV when orders were filled. Return
    None if no price is known.
    """
    if not step.open_nav_minor:
        return None

    held = 0
    if before is not None:
        held = sum(each.value_minor for each in before.positions if each.code == order.code)

    if order.target_weight is not None:
        asked = abs(order.target_weight * step.open_nav_minor - held)
        return max(0.0, asked - order.notional_minor) / step.open_nav_minor

    scale = ledger.scale(order.code)
    row = int(np.searchsorted(snapshot.days, np.datetime64(step.filled_on)))
    closes = snapshot.close[: row + 1, snapshot.asset_index[str(order.code)]]
    known = closes[np.isfinite(closes)]
    if not len(known) or order.shares is None:
        return None

    shares = (order.shares - order.filled_shares) / scale.steps_per_unit
    return shares * float(known[-1]) * ledger.minor_per_unit / step.open_nav_minor


def _reason(order: OrderRecord, step: StepRecord, snapshot: MarketSnapshot) -> tuple[str, str]:
    """Return the rule that prevented an order from being filled, and the reason as text. A day
    outside an asset's bars is not treated as a suspension.
    """
    rule = str(order.rule)
    if rule not in ("universe", "suspended"):
        return rule, REASONS.get(rule, order.message)

    column = snapshot.asset_index[str(order.code)]
    row = int(np.searchsorted(snapshot.days, np.datetime64(step.filled_on)))
    traded = np.flatnonzero(np.isfinite(snapshot.close[:, column]))
    if not len(traded) or row < traded[0]:
        return "universe", "not yet listed"
    if row > traded[-1]:
        return "universe", f"delisted: its last bar is of {snapshot.days[traded[-1]]}"
    if rule == "universe":
        return rule, "not a member of the universe that day"
    return rule, REASONS[rule]


# ---- declared trades


def impossible_trades(trades: Any, snapshot: MarketSnapshot) -> list[Unfilled]:
    """Return the trades whose price is outside the day's bar, and the trades that are dated too
    early, that is, on or before the day of their signal.
    """
    found = []
    for each in trades.itertuples():
        day = str(snapshot.days[each.row])
        code = snapshot.codes[each.column]
        side = "BUY" if each.side == "buy" else "SELL"
        decided = getattr(each, "decided_row", math.nan)
        if decided == decided and each.row <= decided:
            detail = f"filled on {day}, but its signal is of {snapshot.days[int(decided)]}"
            found.append(
                Unfilled(day=day, code=code, side=side, reason="before_decision", detail=detail)
            )

        low = float(snapshot.low[each.row, each.column])
        high = float(snapshot.high[each.row, each.column])
        if math.isnan(low) or math.isnan(high):
            continue
        if low * (1 - _PRICE_SLACK) <= each.price <= high * (1 + _PRICE_SLACK):
            continue

        detail = f"{each.price:g} lies outside the day's {low:g} … {high:g}"
        detail += _adjusted_words(each, low, high, snapshot)
        found.append(
            Unfilled(day=day, code=code, side=side, reason="impossible_price", detail=detail)
        )

    return found


def _adjusted_words(trade: Any, low: float, high: float, snapshot: MarketSnapshot) -> str:
    """Return a hint if a price outside the bar may be an adjusted price."""
    factor = float(snapshot.factor[trade.row, trade.column])
    if abs(factor - 1.0) < _PRICE_SLACK:
        return ""

    if low * (1 - 1e-3) <= trade.price / factor <= high * (1 + 1e-3):
        return "; it fits the adjusted bar; give unadjusted prices and shares"
    return ""


def count_reasons(found: Sequence[Unfilled]) -> dict[str, int]:
    """Return the number of occurrences of each reason, the most frequent reason first."""
    counts: dict[str, int] = {}
    for each in found:
        counts[each.reason] = counts.get(each.reason, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
