"""Page for a judgement: first the verdict, then the account's daily growth and risk. Holdings are
not shown.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ktdeval.market import FloatArray, MarketSnapshot
from ktdeval.stats import MIN_RETURNS
from ktdeval_judge.document import JudgeFile
from ktdeval_judge.market_plan import iso_day
from ktdeval_judge.nav_only import NavTrack
from ktdeval_judge.printed_figure import is_daily
from ktdeval_judge.texts import judge_lines
from ktdeval_pages.tear_sheet.page import SheetFacts, make_tear_sheet
from ktdeval_pages.tear_sheet.tracks import Days, Track


def _on_days(claimed: pd.Series | None, days: Days) -> FloatArray | None:
    """Return the claimed account value on some days, NaN where there is none; None if it has fewer
    than two of them.
    """
    if claimed is None:
        return None

    known = {}
    for day, value in zip(claimed.index.to_list(), claimed.to_list(), strict=True):
        known[iso_day(day)] = float(value)

    values = np.array([known.get(str(day), np.nan) for day in days], dtype=np.float64)
    return values if np.isfinite(values).sum() > 1 else None


def _has_sheet(track: NavTrack) -> bool:
    """Return whether a tear sheet is suitable for an account. This requires enough daily returns,
    and a whole number of days per year.
    """
    if track.a_year is None or len(track.values) <= MIN_RETURNS:
        return False
    return track.a_year.is_integer() and is_daily(track.a_year)


def judged_sheet(
    track: NavTrack,
    document: JudgeFile,
    market: MarketSnapshot | None,
    claimed: pd.Series | None = None,
) -> str | None:
    """Return the page for an account as HTML, or None if a tear sheet is not suitable. The same
    account always gives the same bytes. `track` is the executed account, or a claimed account
    without decisions. `claimed` is the account value that the program claims for executed decisions,
    keyed by day as YYYYMMDD.
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
        claimed=_on_days(claimed, track.days),
    )
    line = "an account value, without its decisions"
    no_book = "n/a, only the account value is known"
    if document.form != "nav":
        line = "decisions as they were executed"
        no_book = "not on this page; ktdeval view of this folder shows them day by day"
    if market is not None:
        line += f" · market {market.meta.name}"

    answer, *further = judge_lines(document, None)
    facts = SheetFacts(
        title=document.source,
        line=line,
        account="account",
        command="ktdeval judge",
        no_book=no_book,
        answer=answer,
        further=further[1:],
    )
    return make_tear_sheet([shown], facts, market)
