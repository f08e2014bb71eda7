"""Rules that apply to a whole log: decisions before the model's training cutoff, and fills at a
price of the decision's own bar.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from ktdeval.cards import CutoffEntry, clean, listed_cutoff, parse_cutoff_or_state
from ktdeval.market import MarketSnapshot
from ktdeval.values import Finding, Level
from ktdeval_audit.decision_days import DatedLog, DatedText
from ktdeval_audit.log_types import LogFill, LoggedDecision

_SLACK = 1e-9


@dataclass(frozen=True)
class CutoffFacts:
    """Decision days compared with the end of a model's training data."""

    model: str
    cutoff: str  #: a day, a month, `none` or `unknown`
    before: int  #: number of decisions up to and including the cutoff
    total: int
    is_lower_bound: bool = False  #: whether the training data may end later

    @property
    def share(self) -> float | None:
        """Share of the decisions up to and including the cutoff; None if the cutoff is unknown."""
        if self.cutoff == "unknown" or not self.total:
            return None
        return self.before / self.total


def cutoff_facts(log: DatedLog, option: str | None) -> tuple[CutoffFacts, ...]:
    """Return the facts for each model in the log or, if `--cutoff` is given, for that cutoff.
    Raises UsageError if `--cutoff` is neither a date nor a state.
    """
    if option is not None:
        given = parse_cutoff_or_state(option, "--cutoff")
        return (_facts("the model", given, log.days),)

    models: dict[str, set[tuple[int, date]]] = {}
    for dated in log.texts:
        for model in dated.decision.models:
            models.setdefault(model, set()).add((id(dated.decision), dated.day))

    facts = []
    for model in sorted(models):
        days = [day for _, day in models[model]]
        facts.append(_facts(clean(model)[:80], listed_cutoff(model, {}), days))
    return tuple(facts)


def _facts(model: str, cutoff: CutoffEntry | str, days: Sequence[date]) -> CutoffFacts:
    if not isinstance(cutoff, CutoffEntry):
        return CutoffFacts(model, cutoff, 0, len(days))

    before = sum(np.datetime64(day) <= cutoff.last for day in days)
    return CutoffFacts(model, cutoff.date, int(before), len(days), cutoff.is_lower_bound)


def cutoff_findings(facts: Sequence[CutoffFacts]) -> Iterator[Finding]:
    """Yield a warning for each model with decisions up to its cutoff."""
    for each in facts:
        share = each.share
        if not share:
            continue

        level: Level = "warning"
        yield Finding(
            rule="cutoff",
            level=level,
            message=(
                f"{each.before} of {each.total} decisions ({share:.0%}) are before "
                f"{each.cutoff}, the end of {each.model}'s training data: the model may remember "
                "the outcomes"
            ),
            fix="test on later days, or behind a mask (ktdeval run --tasks '*_blinded')",
        )


# ---- fills


def same_bar(
    market: MarketSnapshot, decision: LoggedDecision, texts: Sequence[DatedText]
) -> Iterator[Finding]:
    """Yield a finding for each fill at a price of a bar that the decision had already seen.

    A fill with a day is early if the day is not after the decision's day, and the price is one of
    the prices of the decision's bar. A fill without a day is early if its price is one of these
    prices and is outside the next bar.
    """
    if not texts:
        return

    day = texts[-1].day
    rows = {code: number for number, code in enumerate(market.codes)}
    for fill in decision.fills:
        asset = rows.get(fill.code)
        if asset is None and len(market.codes) == 1:
            asset = 0

        why = "" if asset is None else _why_early(market, fill, day, asset)
        if why:
            yield _fill_finding(decision, fill, day, why)


def _why_early(market: MarketSnapshot, fill: LogFill, day: date, asset: int) -> str:
    """Return why a fill is early, or an empty string if it is not early or the market lacks the
    data.
    """
    traded = np.flatnonzero(np.isfinite(market.close[:, asset]))
    known = traded[market.days[traded] <= np.datetime64(day)]
    if not len(known):
        return ""

    row = known[-1]
    half = 0.5 * 10.0**-fill.digits + _SLACK
    prices = [array[row, asset] for array in (market.open, market.high, market.low, market.close)]
    if not any(abs(price - fill.price) <= half for price in prices):
        return ""
    if fill.day:
        if fill.day > str(day):
            return ""
        return f"fill on {fill.day} at {fill.price:g}, a price of the decision's own bar, {day}"

    later = traded[len(known) : len(known) + 1]
    if not len(later):
        return ""

    low = market.low[later[0], asset]
    high = market.high[later[0], asset]
    if low - half <= fill.price <= high + half:
        return ""
    return (
        f"fill at {fill.price:g}, a price of the decision's own bar, {day}; the next bar traded"
        f" from {low:g} to {high:g}"
    )


def _fill_finding(decision: LoggedDecision, fill: LogFill, day: date, why: str) -> Finding:
    return Finding(
        rule="same-bar",
        level="error",
        path=clean(decision.file),
        line=fill.line or 0,
        part=clean(decision.name),
        place=clean(fill.place),
        day=str(day),
        examples=(clean(f"{fill.code[:40]} {fill.price:g}").strip(),),
        message=why,
        fix="fill at the next bar's open",
    )
