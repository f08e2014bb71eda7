"""First sentence of the live page for each market, made of the figures that the page shows."""

from __future__ import annotations

from collections.abc import Iterator

from ktdeval.cards import percent
from ktdeval_live.page.data import LivePage, PageEntry, PageMarket
from ktdeval_live.results.shown_excess import shown_excess
from ktdeval_pages.sentences import PageFigure, systems_sentence

_HOLD = "Buy & Hold"
_UNBOUNDED = "none is bounded yet"


def live_sentences(page: LivePage) -> Iterator[str]:
    """Yield a sentence for each market: which entrants are shown to be above its index, or above
    Buy & Hold in a market without one. Each interval holds on all days together, for its entrant
    alone.
    """
    for market in page.markets:
        entries = [entry for entry in page.entries if entry.market == market.name]
        where = f"{market.name}: " if len(page.markets) > 1 else ""
        if page.kind == "rehearsal":
            where = f"Rehearsal{f' on {market.name}' if where else ''}: "
        yield f"{where}{_market_sentence(page, market, entries)}"


def _market_sentence(page: LivePage, market: PageMarket, entries: list[PageEntry]) -> str:
    # an entrant without a rank, such as one of few days, is not among those that a test compares
    compared = [one for one in entries if one.rank is not None or page.kind == "rehearsal"]
    if not compared:
        return f"None of {len(entries)} entrants can be ranked yet: nothing shown."

    # a year's mean and a sum over days have no common scale
    yearly = {one.entrant for one in compared if one.no_year is None}
    alone = "" if len(compared) == 1 else ", each entrant alone"
    level = f"{percent(page.level, 'g')} interval at all times{alone}"
    figures = []
    for entry in compared:
        figures.append((entry.entrant, _figure(entry, market, level)))
    return systems_sentence(figures, "entrants", yearly or None)


def _figure(entry: PageEntry, market: PageMarket, level: str) -> PageFigure:
    """Return an entrant's mean excess return as the page shows it."""
    excess = entry.results.over_index
    if market.index is None:
        excess = entry.results.over_buy_and_hold

    shown = shown_excess(excess.symmetric, entry.days.counted, market.days_a_year)
    interval = shown.interval
    return PageFigure(
        value=_as_fraction(interval.mean),
        low=_as_fraction(interval.low),
        high=_as_fraction(interval.high),
        per="in " + shown.per if shown.no_year else "a year on average",
        over=f"of {interval.n} days",
        against=market.index or _HOLD,
        level=level,
        reason=_UNBOUNDED if interval.mean is not None else interval.reason or "no days",
    )


def _as_fraction(per_cent: float | None) -> float | None:
    return None if per_cent is None else per_cent / 100.0
