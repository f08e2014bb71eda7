"""First sentence of a tear sheet, made of figures that stand below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktdeval import stats
from ktdeval.cards import count
from ktdeval.stats import MetricValue
from ktdeval_pages.sentences import PageFigure, figure_sentence, shown_percent
from ktdeval_pages.tear_sheet.figures import over_windows, window_row
from ktdeval_pages.tear_sheet.tracks import Track, WindowTracks


def sheet_sentence(windows: Sequence[WindowTracks]) -> str:
    """Return the sentence of a page: the mean return over its windows with their t interval, or the
    return of its only window with the interval over its days, and that of the benchmark beside it.

    Example: `−3.1 % a window on average, 95 % interval −19.0 % to +13.0 % over 6 windows: nothing
    shown; the benchmark +2.0 %.`
    """
    if len(windows) == 1:
        shown = windows[0].shown
        held = None
        if shown.benchmark is not None:
            held = float(shown.benchmark[-1] / shown.benchmark[0] - 1.0)
        return figure_sentence(_of_days(shown), _benchmark_words(held))

    rows = [window_row(window) for window in windows]
    own = over_windows([row.figures["total_return"] for row in rows], windows)
    held = over_windows([row.benchmark for row in rows], windows).value
    low, high = _ends(own)
    figure = PageFigure(
        value=own.value,
        low=low,
        high=high,
        per="a window on average",
        over=f"over {count(len(windows), 'window')}",
        reason=own.reason or _no_interval(own),
    )
    return figure_sentence(figure, _benchmark_words(held))


def _of_days(track: Track) -> PageFigure:
    """Return the return of a track, with its interval over days."""
    days = len(track.days) - 1
    per = f"in {count(days, 'day')}"
    if track.problem:
        return PageFigure(value=None, per=per, over="over its days", reason=track.problem)

    interval = stats.Bootstrap(
        track.returns, resolution=track.resolution, days=track.days[1:]
    ).total_return()
    return PageFigure(
        value=float(track.levels[-1] / track.levels[0] - 1.0),
        low=interval.low,
        high=interval.high,
        per=per,
        over="over its days",
        reason=interval.reason or "",
    )


def _ends(mean: MetricValue) -> tuple[float | None, float | None]:
    detail = mean.detail if isinstance(mean.detail, Mapping) else {}
    low, high = detail.get("low"), detail.get("high")
    if isinstance(low, float) and isinstance(high, float):
        return max(low, -1.0), high
    return None, None


def _no_interval(mean: MetricValue) -> str:
    detail = mean.detail if isinstance(mean.detail, Mapping) else {}
    return str(detail.get("reason") or "")


def _benchmark_words(held: float | None) -> str:
    if held is None:
        return ""
    return f"the benchmark {shown_percent(held)}"
