"""Files that a reader can save from a tear sheet: daily series and figures, as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence

from ktdeval.cards import clean as one_line
from ktdeval.market import FloatArray
from ktdeval.stats import MetricValue
from ktdeval.values import without_formula
from ktdeval_pages.tear_sheet.figures import WORDS, book_figures
from ktdeval_pages.tear_sheet.tracks import Track

_FIGURE_HEADS = ("window", "seed", "of", "figure", "value", "low", "high", "reason")


def series_csv(tracks: Sequence[Track]) -> str:
    """Return CSV with a row for each day of each track: NAV, benchmark level, and the series of its
    book. Undefined values are empty. The base day has no book.
    """
    names = dict.fromkeys(name for track in tracks for name in _columns(track))
    rows: list[Sequence[object]] = [("window", "seed", "day", *names)]
    for track in tracks:
        columns = _columns(track)
        for number, day in enumerate(track.days):
            values = []
            for name in names:
                offset = len(track.days) - len(columns.get(name, ()))
                is_known = name in columns and number >= offset
                values.append(_number(columns[name][number - offset]) if is_known else "")
            rows.append((track.name, _seed(track), str(day), *values))

    return _csv_text(rows)


def figures_csv(
    tracks: Iterable[tuple[Track, Mapping[str, Mapping[str, MetricValue]]]],
) -> str:
    """Return CSV with a row for each figure of each track, in full precision.

    `low` and `high` are the ends of a figure's 95 % interval, or the range of a daily figure. A row
    without a value has a reason. `tracks` contains each track with the figures of its account and
    its benchmark, keyed by name.
    """
    rows: list[Sequence[object]] = [_FIGURE_HEADS]
    for track, figures in tracks:
        head = (track.name, _seed(track))
        for subject, by_name in figures.items():
            for name, value in by_name.items():
                rows.append((*head, subject, WORDS.performance[name].label, *_cells(value)))

        for name, found in book_figures(track).items():
            ends = [_number(end) for end in (found.mean, found.lowest, found.highest)]
            rows.append((*head, "holdings", WORDS.book[name].label, *ends, found.reason))

    return _csv_text(rows)


def _columns(track: Track) -> dict[str, FloatArray]:
    """Return a track's series, [days + 1], and those of its book, [days], keyed by name."""
    columns = {"nav": track.levels}
    if track.benchmark is not None:
        columns["benchmark"] = track.benchmark
    if track.claimed is not None:
        columns["claimed"] = track.claimed
    if track.book is not None:
        columns |= track.book.by_day()
    return columns


def _cells(value: MetricValue) -> tuple[str, str, str, str]:
    detail = value.detail if isinstance(value.detail, Mapping) else {}
    ends = []
    for end in (detail.get("low"), detail.get("high")):
        ends.append(_number(end if isinstance(end, float) else None))
    return _number(value.value), ends[0], ends[1], value.reason or ""


def _number(value: float | None) -> str:
    """Return a number with ten digits; empty if it is undefined."""
    if value is None or not math.isfinite(value):
        return ""
    return f"{value:.10g}"


def _seed(track: Track) -> str:
    return "" if track.seed is None else str(track.seed)


def _csv_text(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    for row in rows:
        writer.writerow([_safe_cell(one_line(str(cell))) for cell in row])
    return text.getvalue()


def _safe_cell(cell: str) -> str:
    """Return the text of a cell in a form that a spreadsheet does not interpret as a formula.
    Numbers may begin with a sign.
    """
    try:
        float(cell)
    except ValueError:
        return without_formula(cell)
    return cell
