"""Tear sheet of an account value alone: growth and risk by day, without holdings."""

from __future__ import annotations

from ktdeval.market import MarketSnapshot
from ktdeval_judge.evidence import MIN_RETURNS
from ktdeval_judge.nav_only import NavTrack
from ktdeval_judge.printed_figure import is_daily
from ktdeval_pages.tear_sheet.page import SheetFacts, make_tear_sheet
from ktdeval_pages.tear_sheet.tracks import Track


def _has_sheet(track: NavTrack) -> bool:
    """Whether an account has what a tear sheet needs: enough daily returns, and a whole number of
    days in a year.
    """
    if track.a_year is None or len(track.values) <= MIN_RETURNS:
        return False
    return track.a_year.is_integer() and is_daily(track.a_year)


def nav_sheet(
    track: NavTrack, source: str, market: MarketSnapshot | None, notes: tuple[str, ...]
) -> str | None:
    """Return the page of an account as HTML, None where it has too few daily returns; the same account
    gives the same bytes.
    """
    if not _has_sheet(track):
        return None

    assert track.a_year is not None, "it has a sheet"
    benchmark = None
    no_benchmark = ""
    if isinstance(track.benchmark, str):
        no_benchmark = track.benchmark
    else:
        benchmark = track.benchmark

    shown = Track(
        name=source,
        seed=None,
        is_whole=True,
        days=track.days,
        levels=track.values,
        benchmark=benchmark,
        no_benchmark=no_benchmark,
        book=None,
        days_a_year=int(track.a_year),
        resolution=track.resolution,
    )
    line = "an account value, without its decisions"
    if market is not None:
        line += f" · market {market.meta.name}"

    facts = SheetFacts(
        title=source,
        line=line,
        account="account",
        command="ktdeval judge",
        notes=notes,
    )
    return make_tear_sheet([shown], facts, market)
