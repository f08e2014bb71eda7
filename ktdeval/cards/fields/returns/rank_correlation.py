"""Rank correlation of the account's holdings with the returns that follow, and the bound above which
no published skill lies.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET, UnsetType

from ktdeval.cards.fields.card_inputs import TradingSources
from ktdeval.cards.fields.origin.fact_types import HoldingCorrelationPart
from ktdeval.cards.fields.origin.recorded_facts import TradingFacts
from ktdeval.cards.fields.returns.medians import Interval
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row, count
from ktdeval.stats.holding_correlation import FLOOR_LEVEL, holding_correlation

MAX_SKILL = 0.15
"""Rank correlation that no published forecast of daily returns reaches. Grinold and Kahn (2000,
chapter 10) call 0.05 good, 0.10 great and 0.15 world-class; Qlib's published models reach rank
correlations of 0.06 on the CSI 300.
"""

BEYOND_SKILL = (
    "its holdings order the next day's returns better than any published skill does, as knowledge of"
    " those returns would"
)
"""Reason against ranking a card with the label `beyond skill`."""

_OVER = {"assets": "across assets", "days": "over days"}


def gather_rank_correlation(sources: TradingSources) -> HoldingCorrelationPart:
    """Return the rank correlation over all finished episodes; null with a reason if undefined."""
    codes = sources.inputs.task.get("assets") or ()
    known = sources.inputs.snapshot.asset_index
    assert isinstance(codes, list | tuple)
    assets = [code for code in codes if code in known]
    found = holding_correlation(list(sources.ledgers.values()), sources.inputs.snapshot, assets)
    if isinstance(found, str):
        return HoldingCorrelationPart(value=None, reason=found)

    return HoldingCorrelationPart(
        value=found.value,
        over=found.over,
        days=found.days,
        interval=Interval.of(found.interval, "rank_correlation"),
        floor=found.floor,
        spearman=UNSET if found.spearman is None else found.spearman,
    )


def is_beyond_skill(correlation: HoldingCorrelationPart | UnsetType) -> bool:
    """Return whether a rank correlation is certainly larger than that of any published skill."""
    if correlation is UNSET or correlation.floor is UNSET:
        return False
    return correlation.floor > MAX_SKILL


def correlation_words(correlation: HoldingCorrelationPart) -> str:
    """Return the rank correlation with its interval, or why it is undefined."""
    if correlation.value is None:
        return f"not defined: {correlation.reason}"

    assert correlation.over
    assert correlation.interval
    assert correlation.days
    ends = f"{correlation.interval.low:+.3f} … {correlation.interval.high:+.3f}"
    days = count(correlation.days, "day")
    words = f"{correlation.value:+.3f} [95 %: {ends}] {_OVER[correlation.over]}, {days}"
    if is_beyond_skill(correlation):
        level = f"{100 * FLOOR_LEVEL:.3f}".rstrip("0")
        words += f"; above {correlation.floor:.3f} at {level} %, published skill ≤ {MAX_SKILL}"

    return words


def correlation_rows(
    correlation: HoldingCorrelationPart | UnsetType, facts: TradingFacts
) -> Iterator[Row]:
    """Yield the row on the rank correlation; cards written before it existed have none."""
    if correlation:
        yield field_label("rank_correlation"), correlation_words(correlation)
