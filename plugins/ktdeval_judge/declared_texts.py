"""The account that a file declares, next to the executed one, as text."""

from __future__ import annotations

from collections.abc import Iterator

from ktdeval_judge.document import DeclaredGap

CAUSE_WORDS = {
    "costs": "costs not charged",
    "fitted_fee": "a fee of {fee:.3g} bps of what is traded, fitted to the claim",
    "declared_fees": "fees of the file charged instead",
    "rebalancing": "weights rebalanced every day",
    "sizing": "shares sized at the close of the decision",
    "fill_at_declared": "the declared prices of fills",
    "fill_at_open": "fills at the next open",
    "fill_at_close": "fills at the next close",
    "fill_at_decision": "fills at the close of the decision",
    "fill_before_decision": "fills at the close before the decision",
    "limits": "T+1, price limits, halts, universe and cash ignored",
    "lots": "lots, whole shares and sides of orders ignored",
    "dividends": "splits and dividends not booked",
    "remainder": "remainder",
}
"""Cause in `ktdeval_judge.nav_parts` -> text."""
GAP_WORDS = {
    "price_and_moment": "price and moment of the fill",
    "lots_and_limits": "lots and limits",
    "fees": "fees",
    "rows_left_out": "rows left out",
    "corporate_actions": "splits and dividends",
    "residual": "residual",
}
"""Cause in `ktdeval.attribution` -> text."""
_SOURCES = {
    "books": "the file's cash and holdings",
    "trades": "its trades at their own prices",
    "nav": "its account values",
}


def declared_lines(gap: DeclaredGap) -> Iterator[str]:
    """Yield lines on the account that the file declares, next to the executed one."""
    difference = gap.declared_value - gap.executed_value
    yield (
        f"Declared account: {gap.declared_value:,.2f} by {_SOURCES[gap.source]}, "
        f"{gap.executed_value:,.2f} executed at the close of {gap.day}: {difference:+,.2f}"
    )
    for part in gap.parts:
        if part.cause == "residual" or round(part.value, 2):
            yield f"  {part.value:>+13,.2f}  {GAP_WORDS[part.cause]}"
