"""Page for a judgement: first the verdict, then the account's daily growth and risk. Holdings are
not shown.
"""

from __future__ import annotations

from ktdeval.market import MarketSnapshot
from ktdeval.stats import MIN_RETURNS
from ktdeval_judge.document import JudgeFile
from ktdeval_judge.nav_only import NavTrack
from ktdeval_judge.printed_figure import is_daily
from ktdeval_judge.texts import judge_lines
from ktdeval_pages.tear_sheet.page import SheetFacts, make_tear_sheet
from ktdeval_pages.tear_sheet.tracks import Track


def _has_sheet(track: NavTrack) -> bool:
    """Return whether a tear sheet is suitable for an account. This requires enough daily returns,
    and a whole number of days per year.
    """
    if track.a_year is None or len(track.values) <= MIN_RETURNS:
        return False
    return track.a_year.is_integer() and is_daily(track.a_year)


def judged_sheet(track: NavTrack, document: JudgeFile, market: MarketSnapshot | None) -> str | None:
    """Return the page for an account as HTML, or None if a tear sheet is not suitable. The same
    account always gives the same bytes. `track` is the executed account, or a claimed account
    without decisions.
    """
    if not _has_sheet(track):
        return None

    assert track.a_year is not None, "the account has a sheet"
    benchmark = None
    no_benchmark = ""
    if isinstance(track.benchmark, str):
        no_benchmark = track.benchmark
    else:
        benchmark = track.benchmark

    shown = Track(
        name=document.source,
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
    if document.form != "nav":
        line = "decisions as they were executed"
    if market is not None:
        line += f" · market {market.meta.name}"

    answer, *further = judge_lines(document, None)
    facts = SheetFacts(
        title=document.source,
        line=line,
        account="account",
        command="ktdeval judge",
        answer=answer,
        further=further[1:],
    )
    return make_tear_sheet([shown], facts, market)
