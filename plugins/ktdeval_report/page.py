"""Render a report page and its plots from cards."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files

from markupsafe import Markup

from ktdeval.attribution import FACTORS
from ktdeval.cards import (
    FigureInterval,
    MetricLine,
    ScoringCard,
    TradingCard,
    count,
    excess_return,
    figures_differ_in,
    is_fraction,
    label_word,
    price_index,
    shown_metrics,
)
from ktdeval.errors import UsageError
from ktdeval.values import Tell, near_matches, tell_nobody
from ktdeval_pages.assets import stylesheet
from ktdeval_pages.page_templates import content_security_policy
from ktdeval_report.canvas import PageFigure, Plot, inline_svg
from ktdeval_report.card_figures import (
    CardStudy,
    ChanceSettings,
    StudyWorkbench,
    choose_windows,
    median,
)
from ktdeval_report.card_plots import (
    attribution_plot,
    drawdown_plot,
    equity_plot,
    exposures_plot,
    reliability_plot,
    weights_plot,
)
from ktdeval_report.card_tables import card_view, sharpe_interval
from ktdeval_report.forest_plot import ForestPoint, forest_plot
from ktdeval_report.inputs import ReportedCard
from ktdeval_report.mask_effects import Effect, Effects, find_effects
from ktdeval_report.score_tables import score_views
from ktdeval_report.value_formatting import render, unit_name
from ktdeval_report.window_means import WindowMean, over_windows

#: Maximum number of cards whose windows are plotted; further cards have only tables and the
#: reliability diagram
MAX_CARDS = 24

#: Approximate number of windows drawn on a page, with at least one per card, unless the user names
#: the windows
_ALL_WINDOWS = 12

_MAX_WINDOWS = 3

#: Plot elements have inline styles, which can't be allowed by hash
_POLICY = content_security_policy("'none'", "'unsafe-inline'", "data:")


@dataclass(frozen=True)
class ReportPageOptions:
    """Settings for a page."""

    # windows to draw; if empty, they are chosen by the benchmark's returns
    windows: tuple[str, ...] = ()
    # metrics whose mask and mode effects are shown; if empty, `total_return`
    metrics: tuple[str, ...] = ()
    # number and seed of the random traders to simulate
    settings: ChanceSettings = field(default_factory=ChanceSettings)


@dataclass(frozen=True, slots=True)
class FinishedReport:
    """A rendered report."""

    html: str
    # plots keyed by file name without extension, in the order of the page
    plots: Mapping[str, Plot]
    rows: Sequence[OverviewRow] = ()  # one row for each card of a trading task


class _PlotGallery:
    """Plots of a page, in order. They are rendered together when `draw` is called."""

    def __init__(self) -> None:
        self.plots: dict[str, Plot] = {}
        self._shown: list[tuple[Plot, PageFigure]] = []

    def add(
        self, folder: str, plots: Sequence[Plot | None], of: Sequence[ReportedCard]
    ) -> list[PageFigure]:
        """Add plots of some cards, and return them as page figures."""
        labels: dict[str, None] = {}
        for one in of:
            labels |= dict.fromkeys(map(label_word, one.card.labels))

        subject = of[0].label if len(of) == 1 else count(len(of), "card")
        return self._add(folder, plots, " · ".join([subject, *labels]))

    def add_scores(
        self, folder: str, plots: Sequence[Plot], of: Sequence[ScoringCard]
    ) -> list[PageFigure]:
        """Add plots of some scoring cards, and return them as page figures."""
        labels: dict[str, None] = {}
        for card in of:
            labels |= dict.fromkeys(map(label_word, card.labels))

        return self._add(folder, plots, " · ".join([count(len(of), "card"), *labels]))

    def _add(self, folder: str, plots: Sequence[Plot | None], context: str) -> list[PageFigure]:
        figures = []
        for plot in plots:
            if plot is not None:
                self.plots[f"{folder}-{plot.name}"] = replace(plot, context=context)
                figure = PageFigure(plot.title, plot.note)
                self._shown.append((plot, figure))
                figures.append(figure)

        return figures

    def draw(self) -> None:
        """Draw all figures."""
        for plot, figure in self._shown:
            figure.svg = inline_svg(plot)


def make_report(
    evaluations: Sequence[ReportedCard],
    options: ReportPageOptions,
    scored: Sequence[ScoringCard] = (),
    tell: Tell = tell_nobody,
) -> FinishedReport:
    """Render cards as a page. The output is byte-identical for equal cards, records, options and
    library versions.

    `tell` is called for each card before its figures are computed and again before it is rendered.
    Raises UsageError if no card has a requested window or metric.
    """
    _check_options(evaluations, options)
    bench = StudyWorkbench(options.settings)
    drawable = [one for one in evaluations if one.folder is not None][:MAX_CARDS]
    studies: list[CardStudy] = []
    work = 2 * len(evaluations)
    for one in evaluations:
        tell(f"{one.label}: figures", len(studies), work)
        studies.append(bench.study(one, _drawn_windows(one, drawable, options)))

    rows = [_overview_row(study) for study in studies]

    gallery = _PlotGallery()
    has_overview = len(studies) > 1
    every: list[TradingCard | ScoringCard] = [one.card for one in evaluations]
    every += scored
    episodes = sum(len(card.episodes) for card in every)
    layout = files("ktdeval_report").joinpath("report.css").read_text(encoding="utf-8")

    # Plots are numbered in the order of the page.
    overview = _overview(rows, gallery) if has_overview else None
    scores = score_views(scored, gallery.add_scores)
    effects = _metric_effects(evaluations, options, gallery)
    cards = []
    for done, study in enumerate(studies, start=len(studies)):
        tell(f"{study.evaluation.label}: plots", done, work)
        view = card_view(study, _card_plots(study, gallery))
        cards.append(view | {"is_alone": not has_overview})

    gallery.draw()
    html = render(
        "report.html",
        title=f"Evaluation report: {_subject(evaluations, scored)}",
        policy=_POLICY,
        style=Markup(stylesheet() + layout),  # noqa: S704 - files of the kit and of this package
        marks_of_all=_marks(every),
        counted=f"{count(len(every), 'result card')}, {count(episodes, 'finished episode')}.",
        overview=overview,
        scores=scores,
        effects=effects,
        cards=cards,
        factors=FACTORS,
        **_not_drawn(studies, len(drawable)),
    )

    return FinishedReport(html, gallery.plots, rows)


def _subject(evaluations: Sequence[ReportedCard], scored: Sequence[ScoringCard]) -> str:
    cards = len(evaluations) + len(scored)
    if cards > 1:
        return f"{cards} cards"
    if evaluations:
        return evaluations[0].label
    return f"{scored[0].model.name} · {scored[0].task.name}"


def _check_options(evaluations: Sequence[ReportedCard], options: ReportPageOptions) -> None:
    windows: set[str] = set()
    metrics: set[str] = set()
    for one in evaluations:
        windows.update(one.windows)
        metrics.update(one.card.metrics)

    _check_names(options.windows, windows, "window")
    _check_names(options.metrics, metrics, "metric")


def _check_names(wanted: Sequence[str], known: set[str], what: str) -> None:
    for name in wanted:
        if name not in known:
            raise UsageError(f"no card has a {what} {name!r}{near_matches(name, known)}")


def _drawn_windows(
    one: ReportedCard, drawable: Sequence[ReportedCard], options: ReportPageOptions
) -> list[str]:
    if one not in drawable:
        return []
    if options.windows:
        return [name for name in one.windows if name in options.windows]
    return choose_windows(one, min(max(_ALL_WINDOWS // len(drawable), 1), _MAX_WINDOWS))


def _card_plots(study: CardStudy, gallery: _PlotGallery) -> dict[str, list[PageFigure]]:
    """Return the figures of a card. Those under `lead` are shown first (equity, attribution,
    reliability); the others are keyed by window.
    """
    one = study.evaluation
    benchmark = one.card.snapshot.benchmark_name
    lead: list[PageFigure] = []
    figures: dict[str, list[PageFigure]] = {"lead": lead}

    for window in study.windows:
        if not window.drawn:
            continue

        folder = f"{one.anchor}-{_file_word(window.name)}"
        first_plots = [equity_plot(window, benchmark), attribution_plot(window)]
        first = gallery.add(folder, first_plots, [one])
        rest_plots = [
            drawdown_plot(window, benchmark),
            weights_plot(window),
            exposures_plot(window),
        ]
        rest = gallery.add(folder, rest_plots, [one])

        if lead:
            figures[window.name] = first + rest
        else:
            lead += first
            figures[window.name] = rest

    lead += gallery.add(one.anchor, [reliability_plot(study)], [one])
    return figures


def _file_word(name: str) -> str:
    """Return a name with underscores in place of all characters that file names can't contain."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)


def _not_drawn(studies: Sequence[CardStudy], drawn_cards: int) -> dict[str, str]:
    """Return the number of windows that are not drawn and the number of cards without plots, as
    text. Each text is empty if nothing is missing.
    """
    recorded = [study for study in studies if study.windows]
    missing = 0
    for study in recorded:
        drawn = sum(window.drawn for window in study.windows)
        missing += len(study.evaluation.windows) - drawn

    beyond = len(recorded) - drawn_cards
    return {
        "missing_windows": count(missing, "window") if missing else "",
        "beyond": count(beyond, "card") if beyond > 0 else "",
    }


# ---- all cards


@dataclass(frozen=True)
class OverviewRow:
    """A card in the overview table of all cards."""

    of: ReportedCard
    excess: float | None
    selection: float | None
    shown: Mapping[str, MetricLine]  # the card's metrics as shown
    sharpe: FigureInterval
    mean: WindowMean  # mean excess over windows
    # texts on the episodes that figures are based on, if these are not all episodes
    rests: Sequence[str]


def _overview(rows: Sequence[OverviewRow], gallery: _PlotGallery) -> dict[str, object]:
    """Return the values for the overview: a row for each card, and a plot of the mean excess."""
    evaluations = [row.of for row in rows]
    kinds = _by_market_kind(evaluations)
    plots = []
    for kind, members in kinds.items():
        points = []
        for row in rows:
            if row.of in members and row.mean.value is not None:
                points.append(
                    ForestPoint(row.of.label, row.mean.value, row.mean.low, row.mean.high)
                )

        if points:
            title = "Mean excess over windows, with 95 % interval over windows"
            name = "excess"
            if kind:
                title += f": {kind} markets"
                name += f"-{kind}"
            plots.append(forest_plot(name, title, "mean excess over windows, %", points))

    indices = []
    for one in evaluations:
        indices.append(price_index(one.card.pooled, one.card.snapshot.days_a_year))

    return {
        "rows": rows,
        "plots": gallery.add("overview", plots, evaluations),
        "price_index": next((index for index in indices if index), ""),
        "mixed": figures_differ_in(one.card for one in evaluations),
        "has_both_kinds": len(kinds) > 1,
    }


def _by_market_kind(evaluations: Sequence[ReportedCard]) -> dict[str, list[ReportedCard]]:
    """Return the cards on real and on synthetic markets, keyed by kind. If all markets are of one
    kind, return all cards under an empty key. Figures of the two kinds never share an axis.
    """
    kinds: dict[str, list[ReportedCard]] = {}
    for one in evaluations:
        kind = "synthetic" if one.card.snapshot.synthetic else "real"
        kinds.setdefault(kind, []).append(one)

    if len(kinds) < 2:
        return {"": list(evaluations)}
    return kinds


def _overview_row(study: CardStudy) -> OverviewRow:
    card = study.evaluation.card
    rests = []
    gain = card.metrics.get("total_return")
    if gain and gain.n and gain.undefined:
        rests.append(f"return in {gain.n} of {len(card.pooled)} episodes")

    return OverviewRow(
        study.evaluation,
        excess_return(card),
        median(study.lines.get("selection", ())),
        shown_metrics(card),
        sharpe_interval(study),
        _mean_excess(study.evaluation),
        rests,
    )


def _marks(cards: Sequence[TradingCard | ScoringCard]) -> list[tuple[str, str]]:
    """Return the labels of the cards. A label that only some cards have is shown with its number of
    cards.
    """
    counts: Counter[str] = Counter()
    for card in cards:
        counts.update(set(card.labels))

    marks: list[tuple[str, str]] = []
    for name in dict.fromkeys(itertools.chain.from_iterable(card.labels for card in cards)):
        all_have_it = counts[name] == len(cards)
        which = "" if all_have_it else f" ({counts[name]} of {count(len(cards), 'card')})"
        marks.append((name, which))

    return marks


def _mean_excess(evaluation: ReportedCard) -> WindowMean:
    """Return the mean over windows of the excess over the benchmark. A window's excess is based on
    the median total return over seeds.
    """
    held = evaluation.card.reference.benchmark_buy_and_hold
    return over_windows(
        evaluation, "total_return", lambda window: held[window].metrics.total_return.value
    )


# ---- effects of masks and modes


def _metric_effects(
    evaluations: Sequence[ReportedCard], options: ReportPageOptions, gallery: _PlotGallery
) -> list[tuple[Effects, list[PageFigure]]]:
    """Return the effects on each metric, with their plots. Metrics without effects are left out,
    unless there are notes on the reasons.
    """
    if not evaluations:
        return []

    shown = []
    for metric in options.metrics or ("total_return",):
        for kind, members in _by_market_kind(evaluations).items():
            effects = find_effects(members, metric, kind)
            if effects.masks or effects.modes or effects.notes:
                folder = _file_word(" ".join(["effects", metric, kind]).strip().replace(" ", "-"))
                plots = gallery.add(folder, _effect_plots(effects), members)
                shown.append((effects, plots))

    return shown


def _effect_plots(effects: Effects) -> list[Plot | None]:
    metric = effects.metric
    of_kind = f": {effects.market_kind} markets" if effects.market_kind else ""
    masks = f"Mask effects on {metric}{of_kind}"
    modes = f"What data and tools add to {metric}{of_kind}"
    return [
        _effect_plot(effects, effects.masks, "masks", masks),
        _effect_plot(effects, effects.modes, "modes", modes),
    ]


def _effect_plot(effects: Effects, rows: Sequence[Effect], name: str, title: str) -> Plot | None:
    if not any(row.value is not None for row in rows):
        return None

    has_agents = len({row.agent for row in rows}) > 1
    has_contexts = len({row.where for row in rows}) > 1
    points = []
    for row in rows:
        words = [row.name.partition(" (")[0]]
        if has_contexts:
            words.append(row.where)
        if has_agents:
            words.append(row.agent)
        points.append(ForestPoint(" · ".join(words), row.value, row.low, row.high))

    unit = unit_name(effects.unit)
    axis = f"{effects.metric}, {unit}" if unit else effects.metric
    scale = 100.0 if is_fraction(effects.unit) else 1.0
    return forest_plot(name, title, axis, points, scale)
