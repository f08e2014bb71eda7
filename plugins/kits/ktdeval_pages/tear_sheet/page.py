"""Page for a task's tear sheet. It is a single file that is complete without its script, which only
saves files.
"""

from __future__ import annotations

import calendar
import functools
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup, escape

from ktdeval import stats
from ktdeval.cards import clean as one_line
from ktdeval.market import MarketSnapshot
from ktdeval.stats import MetricValue
from ktdeval_pages.assets import pack, part_script, source_hash, stylesheet
from ktdeval_pages.page_templates import content_security_policy, make_environment
from ktdeval_pages.tear_sheet.downloads import figures_csv, series_csv
from ktdeval_pages.tear_sheet.figures import (
    WORDS,
    FigureWords,
    benchmark_performance,
    book_figures,
    extreme_days,
    over_seeds,
    over_windows,
    performance,
    top_holdings,
    window_row,
    yearly_turnover,
)
from ktdeval_pages.tear_sheet.missing import missing_lines
from ktdeval_pages.tear_sheet.plots import SheetPlot, TrackPlots
from ktdeval_pages.tear_sheet.sentence import sheet_sentence
from ktdeval_pages.tear_sheet.tracks import Track, WindowTracks, chain_tracks, overlapping
from ktdeval_pages.value_formatting import figure, percent

_SUMMARY = ("total_return", "cagr", "volatility", "sharpe", "sortino", "max_drawdown", "calmar")
_SUMMARY_AFTER = ("hit_rate", "beta")
_HEAT_STEPS = 4
_UNDEFINED = "n/a"
_EXTREMES = ("best", "return", "benchmark", "worst", "return", "benchmark")
_EXTREMES_ALONE = ("best", "return", "worst", "return")


@dataclass(frozen=True, kw_only=True)
class SheetFacts:
    """Facts about a sheet's account, and the command that writes the page."""

    title: str
    line: str  # line below the title that says where the account comes from
    account: str  # heading for the account's figures, such as `agent`
    command: str  # command that writes the page
    labels: Sequence[str] = ()  # labels of the task's card
    notes: Sequence[str] = ()  # what a reader must know about the records, one sentence each
    # why exposure, turnover and holdings are missing, for a sheet without a book
    no_book: str = "n/a, only the account value is known"
    answer: str = ""  # conclusion about the account, shown above all figures
    further: Sequence[str] = ()  # lines below the conclusion, as printed
    # file name of each episode's page, keyed by (window, seed); None without other pages
    pages: Mapping[tuple[str, int], str] | None = None


@dataclass(frozen=True)
class Cell:
    """A figure in a table."""

    text: str
    reason: str = ""  # why the figure is undefined; for a ratio, its interval
    heat: str = ""  # CSS class for the background colour

    @property
    def is_defined(self) -> bool:
        """Whether the cell has a figure."""
        return self.text not in ("", _UNDEFINED)


@dataclass(frozen=True)
class FigureLine:
    """A row of figures. `words` contains its label and definition."""

    words: FigureWords
    cells: Sequence[Cell]


@dataclass(frozen=True)
class TrackView:
    """A track as the page shows it."""

    anchor: str
    heading: str
    facts: str
    page: str  # file name of the page for the shown episode; empty without one
    problem: str  # why the track has no daily returns; empty if it has them
    heads: Sequence[str]
    performance: Sequence[FigureLine]
    missing: Sequence[str]  # figures that are undefined for account and benchmark, by reason
    book: Sequence[FigureLine]
    plots: Sequence[SheetPlot]
    no_plots: Sequence[str]  # plots that are undefined, by reason
    drawdowns: Sequence[Sequence[str]]
    extreme_heads: Sequence[str]
    extremes: Sequence[Sequence[str]]
    years: Sequence[Sequence[str]]
    month_heads: Sequence[str]
    months: Sequence[Sequence[Cell]]
    holdings: Sequence[Sequence[str]]
    track: Track
    # exact figures of the account and its benchmark
    figures: Mapping[str, Mapping[str, MetricValue]]


@dataclass(frozen=True)
class Download:
    """File that a button on the page saves."""

    label: str
    file: str
    attribute: Markup  # attribute of the button that holds the file's contents


def sheet_name(task: str) -> str:
    """Return the file name of a task's tear sheet."""
    words = re.sub(r"[^A-Za-z0-9._-]+", "_", task)
    return f"tear-sheet-{words[:100]}.html"


def windows_of(tracks: Sequence[Track]) -> list[WindowTracks]:
    """Return tracks grouped by window. Windows are in order of first occurrence."""
    by_name: dict[str, list[Track]] = {}
    for track in tracks:
        by_name.setdefault(track.name, []).append(track)

    windows = []
    for name, found in by_name.items():
        windows.append(WindowTracks(name, sorted(found, key=lambda track: track.seed or 0)))
    return windows


def make_tear_sheet(
    tracks: Sequence[Track],
    facts: SheetFacts,
    market: MarketSnapshot | None,
) -> str:
    """Return the page as HTML. If there are several windows, all of them together come first,
    followed by each one. Equal tracks, facts, market and versions give equal bytes.
    """
    windows = windows_of(tracks)
    maker = _ViewMaker(facts, market)
    views = [maker.window(window, number) for number, window in enumerate(windows)]
    joined, no_chain = _join_windows(windows, maker)
    has_book = any(track.book is not None for track in tracks)

    style = stylesheet() + _sheet_style()
    script = part_script("elements", "actions", "tear_sheet")
    policy = content_security_policy(source_hash(script), source_hash(style), "data:")
    shown = [*views, joined] if joined is not None else views
    return (
        _templates()
        .get_template("tear_sheet.html")
        .render(
            title=f"Tear sheet: {facts.title}",
            policy=policy,
            style=Markup(style),  # noqa: S704 - files of the kit and of this package
            script=Markup(script),  # noqa: S704 - files of the kit
            downloads=_downloads(tracks, shown, facts.title),
            facts=facts,
            further=Markup("\n").join(map(one_line, facts.further)),
            marks=[(label, "") for label in facts.labels],
            sentence="" if facts.answer else sheet_sentence(windows),
            summary=_summary(windows, views),
            joined=joined,
            no_chain=no_chain,
            views=views,
            words=WORDS,
            has_book=has_book,
            definitions=WORDS.definitions(has_book),
            days_a_year=sorted({track.days_a_year for track in tracks}),
        )
    )


def _downloads(tracks: Sequence[Track], views: Sequence[TrackView], title: str) -> list[Download]:
    """Return the downloads of a page. Figures are stored as text, since their reasons may contain
    redacted words. Series contain only numbers, and are packed.
    """
    name = sheet_name(title).removesuffix(".html")
    series = pack(series_csv(tracks).encode())
    figures = figures_csv([(view.track, view.figures) for view in views])
    return [
        Download(
            "Series by day (CSV)",
            f"{name}-series.csv",
            Markup('data-packed="{}"').format(series),
        ),
        Download(
            "Figures (CSV)",
            f"{name}-figures.csv",
            Markup('data-text="{}"').format(escape(figures)),
        ),
    ]


def _join_windows(
    windows: Sequence[WindowTracks], maker: _ViewMaker
) -> tuple[TrackView | None, str]:
    """Return all windows as one track, or the reason why they are not joined. For a single window,
    return neither.
    """
    shown = [window.shown for window in windows]
    if len(windows) < 2:
        return None, ""

    shared = overlapping(shown)
    if shared is not None:
        names = " and ".join(track.name for track in shared)
        return None, f"The windows are not put one after another: {names} share days."
    broken = [track for track in shown if track.problem]
    if broken:
        return None, f"The windows are not put one after another: {broken[0].problem}."
    if len({track.days_a_year for track in shown}) > 1:
        return None, "The windows are not put one after another: their years differ in days."

    return maker.track(chain_tracks(shown), (), "windows", ""), ""


class _ViewMaker:
    """Turns tracks into views for the page."""

    def __init__(self, facts: SheetFacts, market: MarketSnapshot | None) -> None:
        self._facts = facts
        self._market = market
        self._benchmark = "benchmark"
        if market is not None:
            known = market.index_names.get(market.meta.benchmark)
            self._benchmark = known or market.meta.benchmark or "benchmark"

    def window(self, window: WindowTracks, number: int) -> TrackView:
        """Return a view of a window: the shown seed, and medians if there are several seeds."""
        shown = window.shown
        page = (self._facts.pages or {}).get((window.name, shown.seed or 0), "")
        return self.track(shown, window.others, f"window-{number}", page)

    def track(self, track: Track, others: Sequence[Track], anchor: str, page: str) -> TrackView:
        """Return a view of one track."""
        heading = track.name if track.seed is None else f"{track.name}, seed {track.seed}"
        days = len(track.days) - 1
        span = f"{days} days, {track.days[1]} … {track.days[-1]}; base day {track.days[0]}"
        if track.starts:
            span += f"; {len(track.starts) + 1} windows, days between them are not in it"
        if not track.is_whole:
            span += "; not finished, shown as far as it is recorded"

        own = performance(track)
        benchmark = benchmark_performance(track)
        heads = [self._facts.account]
        if benchmark:
            heads.append(self._benchmark)
        if others:
            heads.append(f"median of {len(others) + 1} seeds")

        performance_rows, missing = _defined_rows(_performance_rows(own, benchmark, others))
        plots = TrackPlots(track, others, self._facts.account, self._benchmark).all()
        no_plots = {one.title: [one.reason] for one in plots if one.svg is None}
        month_heads, months = _month_table(track)
        has_benchmark = track.benchmark is not None
        return TrackView(
            anchor=anchor,
            heading=heading,
            facts=span,
            page=page,
            problem=track.problem,
            heads=heads,
            performance=performance_rows,
            missing=missing,
            book=_book_rows(track),
            plots=[one for one in plots if one.svg is not None],
            no_plots=missing_lines(no_plots),
            drawdowns=_drawdown_rows(track),
            extreme_heads=_EXTREMES if has_benchmark else _EXTREMES_ALONE,
            extremes=_extreme_rows(track),
            years=_year_rows(track),
            month_heads=month_heads,
            months=months,
            holdings=self._holding_rows(track),
            track=track,
            figures={self._facts.account: own, self._benchmark: benchmark},
        )

    def _holding_rows(self, track: Track) -> list[list[str]]:
        days = len(track.days) - 1
        rows = []
        for holding in top_holdings(track):
            name = holding.code
            if self._market is not None and name in self._market.asset_index:
                company = self._market.names[self._market.asset_index[name]]
                name = f"{name} {company}"

            share = percent(holding.days / days, signed=False)
            held = f"{holding.days} ({share})"
            mean = percent(holding.mean_weight, signed=False)
            gain = _UNDEFINED
            if holding.contribution is not None:
                gain = percent(holding.contribution)
            rows.append([name, held, mean, percent(holding.largest, signed=False), gain])

        return rows


def _cell(value: MetricValue, words: FigureWords) -> Cell:
    if value.value is None:
        return Cell(_UNDEFINED, value.reason or "")
    return Cell(_text(value.value, words))


def _cell_with_interval(value: MetricValue, words: FigureWords) -> Cell:
    cell = _cell(value, words)
    if value.value is None or value.detail is None:
        return cell
    return Cell(cell.text, _interval_cell(value, words).text)


def _text(value: float, words: FigureWords) -> str:
    if words.unit == "fraction":
        return percent(value, signed=words.signed)
    if words.unit == "names":
        return f"{value:,.1f}".removesuffix(".0")
    return figure(value, "years", signed=words.signed)  # two decimals


def _performance_rows(
    own: Mapping[str, MetricValue],
    benchmark: Mapping[str, MetricValue],
    others: Sequence[Track],
) -> list[FigureLine]:
    of_seeds = [own, *map(performance, others)]
    rows = []
    for name, words in WORDS.performance.items():
        cells = [_cell_with_interval(own[name], words)]
        if name in benchmark:
            other = _cell_with_interval(benchmark[name], words)
            # show a reason only once
            cells.append(Cell(other.text) if other == cells[0] else other)
        elif benchmark:
            cells.append(Cell(""))
        if others:
            cells.append(_cell(over_seeds([found[name] for found in of_seeds]), words))
        rows.append(FigureLine(words, cells))

    return rows


def _defined_rows(rows: Sequence[FigureLine]) -> tuple[list[FigureLine], list[str]]:
    """Return the rows with a figure, and lines that name the others with their reasons."""
    defined = []
    reasons = {}
    for row in rows:
        if any(cell.is_defined for cell in row.cells):
            defined.append(row)
        else:
            reasons[row.words.label] = [cell.reason for cell in row.cells]
    return defined, missing_lines(reasons)


def _book_rows(track: Track) -> list[FigureLine]:
    rows = []
    for name, found in book_figures(track).items():
        words = WORDS.book[name]
        if found.mean is None or found.lowest is None or found.highest is None:
            rows.append(FigureLine(words, [Cell(_UNDEFINED, found.reason), Cell(""), Cell("")]))
            continue

        values = (found.mean, found.lowest, found.highest)
        rows.append(FigureLine(words, [Cell(_text(value, words)) for value in values]))
        if name == "turnover":
            rows.append(_yearly_turnover_row(track))

    return rows


def _yearly_turnover_row(track: Track) -> FigureLine:
    words = WORDS.book["turnover"]
    year = FigureWords("Turnover a year, NAVs", words.definition)
    text = figure(yearly_turnover(track).value, "years")
    return FigureLine(year, [Cell(text), Cell(""), Cell("")])


def _drawdown_rows(track: Track) -> list[list[str]]:
    if track.problem:
        return []

    days = [str(day) for day in track.days]
    rows = []
    for number, one in enumerate(stats.worst_drawdowns(track.levels), start=1):
        end = "not recovered" if one.end is None else days[one.end]
        depth = percent(one.depth, signed=False)
        span = [days[one.start], days[one.trough], end]
        rows.append([str(number), *span, depth, str(one.days)])

    return rows


def _extreme_rows(track: Track) -> list[list[str]]:
    """Return rows that each have one of the best and one of the worst days, with their returns and
    the benchmark's returns, if there is a benchmark.
    """
    best, worst = extreme_days(track)
    rows = []
    for good, bad in itertools.zip_longest(best, worst):
        rows.append([*_day_cells(track, good), *_day_cells(track, bad)])
    return rows


def _day_cells(track: Track, day: int | None) -> list[str]:
    market = track.benchmark_returns
    if day is None:
        return ["", ""] if market is None else ["", "", ""]

    cells = [str(track.days[day + 1]), percent(float(track.returns[day]))]
    if market is not None:
        cells.append(percent(float(market[day])))
    return cells


def _heat(value: float, largest: float) -> str:
    """Return the CSS class for a return's background, given by its ratio to the largest return;
    empty for 0.
    """
    if not value:
        return ""
    step = math.ceil(_HEAT_STEPS * abs(value) / largest)
    return f"gain{step}" if value > 0 else f"loss{step}"


def _month_table(track: Track) -> tuple[list[str], list[list[Cell]]]:
    """Return the heads and a row for each year: the year, the months that have days in any year, and
    the year's return.
    """
    if track.problem:
        return [], []

    months = stats.monthly_returns(track.returns, track.days[1:])
    largest = max(abs(month.value) for month in months)
    shown = sorted({month.month for month in months})
    heads = ["%", *[calendar.month_abbr[number] for number in shown], "year"]
    rows = []
    for year, found in itertools.groupby(months, key=lambda month: month.year):
        cells = [Cell("") for _ in shown]
        growth = 1.0
        days = 0
        for month in found:
            text = figure(month.value, "fraction", signed=True)
            cells[shown.index(month.month)] = Cell(
                text, f"{month.days} d", _heat(month.value, largest)
            )
            growth *= 1.0 + month.value
            days += month.days

        whole = Cell(figure(growth - 1.0, "fraction", signed=True), f"{days} d")
        rows.append([Cell(str(year)), *cells, whole])

    return heads, rows


def _year_rows(track: Track) -> list[list[str]]:
    """Return a row for each calendar year of a track that spans a year: its return, that of the
    benchmark if there is one, and its days.
    """
    days = len(track.days) - 1
    if track.problem or stats.yearly_return_problem(days, float(track.days_a_year)):
        return []

    market = track.benchmark_returns
    own = stats.yearly_returns(track.returns, track.days[1:])
    others = [] if market is None else stats.yearly_returns(market, track.days[1:])
    rows = []
    for number, year in enumerate(own):
        row = [str(year.year), percent(year.value)]
        if others:
            row.append(percent(others[number].value))
        rows.append([*row, str(year.days)])
    return rows


@dataclass(frozen=True)
class Summary:
    """Table of windows in rows, followed by their mean and its interval."""

    heads: Sequence[FigureWords]
    rows: Sequence[tuple[str, str, Sequence[Cell]]]  # anchor, name and cells of each window
    mean: Sequence[Cell]
    interval: Sequence[Cell]
    missing: Sequence[str]  # figures that are undefined in every window, by reason


def _summary(windows: Sequence[WindowTracks], views: Sequence[TrackView]) -> Summary | None:
    """Return the table of windows; None for a single window."""
    if len(windows) < 2:
        return None

    benchmark = FigureWords(
        "Benchmark", "Cumulative return of the benchmark.", signed=True, low=-1.0
    )
    turnover = FigureWords("Turnover a year, NAVs", WORDS.book["turnover"].definition, unit="ratio")
    own = [WORDS.performance[name] for name in (*_SUMMARY, *_SUMMARY_AFTER)]
    heads = [own[0], benchmark, *own[1:], turnover]

    found = [window_row(window) for window in windows]
    columns: list[list[MetricValue]] = []
    for name in (*_SUMMARY, *_SUMMARY_AFTER):
        columns.append([row.figures[name] for row in found])
    columns.insert(1, [row.benchmark for row in found])
    columns.append([row.turnover for row in found])
    heads, columns, missing = _defined_columns(heads, columns)

    rows = []
    for number, window in enumerate(windows):
        cells = []
        for column, words in zip(columns, heads, strict=True):
            cells.append(_cell_with_interval(column[number], words))
        rows.append((views[number].anchor, window.name, cells))

    mean = []
    interval = []
    for column, words in zip(columns, heads, strict=True):
        over = over_windows(column, windows)
        mean.append(_cell(over, words))
        interval.append(_interval_cell(over, words))

    return Summary(heads, rows, mean, interval, missing)


def _defined_columns(
    heads: Sequence[FigureWords], columns: Sequence[list[MetricValue]]
) -> tuple[list[FigureWords], list[list[MetricValue]], list[str]]:
    """Return the columns with a figure in any window, and lines that name the others with their
    reasons.
    """
    shown_heads = []
    shown_columns = []
    reasons = {}
    for words, column in zip(heads, columns, strict=True):
        if any(value.value is not None for value in column):
            shown_heads.append(words)
            shown_columns.append(column)
        else:
            reasons[words.label] = [value.reason or "" for value in column]
    return shown_heads, shown_columns, missing_lines(reasons)


def _interval_cell(over: MetricValue, words: FigureWords) -> Cell:
    detail = over.detail if isinstance(over.detail, Mapping) else {}
    low, high = detail.get("low"), detail.get("high")
    if not isinstance(low, float) or not isinstance(high, float):
        reason = over.reason or str(detail.get("reason") or "")
        return Cell(_UNDEFINED, reason)
    low, high = max(low, words.low), min(high, words.high)
    return Cell(f"{_text(low, words)} … {_text(high, words)}")


@functools.cache
def _templates() -> Environment:
    return make_environment("ktdeval_pages", finalize=_clean)


def _clean(value: object) -> object:
    """Return a value as one line, without control and direction characters, which names may
    contain. A cell is followed by its reason.
    """
    if isinstance(value, Cell):
        text = escape(one_line(value.text))
        below = Markup("<small>{}</small>").format(one_line(value.reason))
        return text + below if value.reason else text
    return value if isinstance(value, Markup) else one_line(value)


def _sheet_style() -> str:
    path = files("ktdeval_pages").joinpath("styles", "tear_sheet.css")
    return path.read_text(encoding="utf-8").strip()
