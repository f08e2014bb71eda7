"""Page: cards in, one HTML text and the plots in it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, NamedTuple

from markupsafe import Markup

from ktdeval.attribution import FACTORS
from ktdeval.cards import ScoringCard, TradingCard, count, excess_return, figures_differ_in, is_fraction, price_index
from ktdeval.errors import UsageError
from ktdeval.fields import near_matches
from ktdeval.stats import MetricValue
from ktdeval_report.canvas import PALETTE, Plot, inline_svg
from ktdeval_report.card_tables import card_view, over_windows, score_views
from ktdeval_report.effects import Effect, Effects, find_effects
from ktdeval_report.inputs import Evaluation
from ktdeval_report.plots import (
    Point,
    attribution_plot,
    drawdown_plot,
    equity_plot,
    exposures_plot,
    forest_plot,
    reliability_plot,
    weights_plot,
)
from ktdeval_report.render import render, unit_name
from ktdeval_report.study import CardStudy, Settings, Workbench, choose_windows, median

MOST_CARDS = 24  #: Cards whose windows are drawn; those after them have tables and the reliability diagram alone

_ALL_WINDOWS = 12  #: About how many windows a page draws over all its cards, unless the user names them; at least one of each card

_MOST_WINDOWS = 3


@dataclass(frozen=True)
class Options:
    """Settings of a page."""

    windows: tuple[str, ...] = ()  # windows to draw; those that the benchmark chooses when empty
    metrics: tuple[str, ...] = ()  # metrics whose mask and mode effects are shown; `total_return` when empty
    settings: Settings = field(default_factory=Settings)  # how much chance to simulate


class Report(NamedTuple):
    """A finished report."""

    html: str
    plots: Mapping[str, Plot]  # name of a file without its ending -> plot, in the order of the page


class Figure(NamedTuple):
    """A plot as the page shows it."""

    title: str
    svg: Markup
    note: str


class _Gallery:
    """Plots of a page, in order; each becomes an element with ids of its own."""

    def __init__(self) -> None:
        self.plots: dict[str, Plot] = {}

    def add(self, folder: str, plots: Sequence[Plot | None], of: Sequence[Evaluation]) -> list[Figure]:
        marks = dict.fromkeys(label for one in of for label in one.card.labels)
        context = " · ".join([of[0].label if len(of) == 1 else count(len(of), "card"), *marks])
        figures = []
        for plot in filter(None, plots):
            self.plots[f"{folder}-{plot.name}"] = replace(plot, context=context)
            figures.append(Figure(plot.title, inline_svg(plot, f"p{len(self.plots)}"), plot.note))
        return figures


def make_report(evaluations: Sequence[Evaluation], options: Options, scored: Sequence[ScoringCard] = ()) -> Report:
    """Draw cards as a page; equal cards, records, options and library versions give equal bytes.

    Raises UsageError: no card has a window or metric of that name.
    """
    _check_names(options.windows, {name for one in evaluations for name in one.windows}, "window")
    _check_names(options.metrics, {name for one in evaluations for name in one.card.metrics}, "metric")
    bench = Workbench(options.settings)
    drawable = [one for one in evaluations if one.folder is not None][:MOST_CARDS]
    studies = [bench.study(one, _drawn_windows(one, drawable, options)) for one in evaluations]
    effects = [find_effects(evaluations, metric) for metric in options.metrics or ("total_return",)] if evaluations else []
    gallery = _Gallery()
    several = len(studies) > 1
    every: list[TradingCard | ScoringCard] = [*(one.card for one in evaluations), *scored]
    cards, episodes = len(every), sum(len(card.episodes) for card in every)
    alone = evaluations[0].label if evaluations else f"{scored[0].model.name} · {scored[0].task.name}"
    html = render(
        "report.html",
        title=f"Evaluation report: {f'{cards} cards' if cards > 1 else alone}",
        style=Markup(f"{_variables()}\n{files('ktdeval_report').joinpath('report.css').read_text(encoding='utf-8')}"),  # noqa: S704
        marks_of_all=_marks(every),
        counted=f"{count(cards, 'result card')}, {count(episodes, 'finished episode')}.",
        overview=_overview(studies, gallery) if several else None,
        scores=score_views(scored),
        effects=[
            (each, gallery.add(f"effects-{_file_word(each.metric)}", _effect_plots(each), evaluations))
            for each in effects
            if each.masks or each.modes or each.notes
        ],
        cards=[{**card_view(study, _card_plots(study, gallery)), "is_alone": not several} for study in studies],
        factors=FACTORS,
        **_left_out(studies, len(drawable)),
    )
    return Report(html, gallery.plots)


def _check_names(wanted: Sequence[str], known: set[str], what: str) -> None:
    for name in wanted:
        if name not in known:
            raise UsageError(f"no card has a {what} {name!r}{near_matches(name, known)}")


def _drawn_windows(one: Evaluation, drawable: Sequence[Evaluation], options: Options) -> list[str]:
    if one not in drawable:
        return []
    if options.windows:
        return [name for name in one.windows if name in options.windows]
    return choose_windows(one, min(max(_ALL_WINDOWS // len(drawable), 1), _MOST_WINDOWS))


def _card_plots(study: CardStudy, gallery: _Gallery) -> dict[str, list[Figure]]:
    """Figures of a card: `lead` is what a reader sees first (equity, attribution, reliability); the rest by window."""
    one, figures = study.evaluation, dict[str, list[Figure]](lead=[])
    benchmark = one.card.snapshot.benchmark_name
    for window in study.windows:
        if window.drawn:
            folder = f"{one.anchor}-{_file_word(window.name)}"
            first = gallery.add(folder, [equity_plot(window, benchmark), attribution_plot(window)], [one])
            rest = gallery.add(folder, [drawdown_plot(window, benchmark), weights_plot(window), exposures_plot(window)], [one])
            is_lead = not figures["lead"]
            figures["lead"] += first if is_lead else []
            figures[window.name] = rest if is_lead else [*first, *rest]
    figures["lead"] += gallery.add(one.anchor, [reliability_plot(study)], [one])
    return figures


def _file_word(name: str) -> str:
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "_" for letter in name)


def _variables() -> str:
    """Return the colours of the page, light and dark."""
    light, dark = (";".join(f"--{role}:{pair[side]}" for role, pair in PALETTE.items()) for side in (0, 1))
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}"


def _left_out(studies: Sequence[CardStudy], drawn_cards: int) -> dict[str, str]:
    """Count of windows that are not drawn, and of cards without any; empty where there are none."""
    recorded = [study for study in studies if study.windows]
    missing = sum(len(study.evaluation.windows) - sum(window.drawn for window in study.windows) for study in recorded)
    beyond = len(recorded) - drawn_cards
    return {"missing_windows": count(missing, "window") if missing else "", "beyond": count(beyond, "card") if beyond > 0 else ""}


# ---- all cards


def _overview(studies: Sequence[CardStudy], gallery: _Gallery) -> dict[str, Any]:
    """A row for each card, and the mean excess over windows drawn."""
    evaluations = [study.evaluation for study in studies]
    means = [_mean_excess(one) for one in evaluations]
    rows, points, plots = [], [], []
    for study, value in zip(studies, means, strict=True):
        low, high = ((value.detail or {}).get(end) for end in ("low", "high"))
        selection = median(study.lines.get("selection", ()))
        gain = study.evaluation.card.metrics.get("total_return")
        rests = (
            [f"return in {gain.n} of {len(study.evaluation.card.pooled)} episodes"] if gain and gain.n and gain.undefined else []
        )
        excess = excess_return(study.evaluation.card)
        row = {"of": study.evaluation, "excess": excess, "selection": selection, "mean": value.value, "low": low, "high": high}
        rows.append({**row, "rests": rests})
        points.append(Point(study.evaluation.label, value.value, low, high))
    if any(value.value is not None for value in means):
        title = "Mean excess over windows, with 95 % interval over windows"
        plots = [forest_plot("excess", title, "mean excess over windows, %", points)]
    return {
        "rows": rows,
        "plots": gallery.add("overview", plots, evaluations),
        "price_index": next(filter(None, (price_index(one.card.pooled) for one in evaluations)), ""),
        "mixed": figures_differ_in(one.card for one in evaluations),
    }


def _marks(cards: Sequence[TradingCard | ScoringCard]) -> list[tuple[str, str]]:
    """Labels of the cards, each with how many cards have it where not all do."""
    counts = {name: sum(name in one.labels for one in cards) for card in cards for name in card.labels}
    whole = len(cards)
    return [(name, "" if some == whole else f" ({some} of {count(whole, 'card')})") for name, some in counts.items()]


def _mean_excess(evaluation: Evaluation) -> MetricValue:
    """Mean over windows of the median excess over seeds; `detail` holds its interval."""
    held = evaluation.card.reference.benchmark_buy_and_hold
    return over_windows(evaluation, "total_return", lambda window: held[window].metrics.total_return.value)


# ---- effects of masks and modes


def _effect_plots(effects: Effects) -> list[Plot | None]:
    titles = {"masks": f"Mask effects on {effects.metric}", "modes": f"What data and tools add to {effects.metric}"}
    return [_effect_plot(effects, name, title) for name, title in titles.items()]


def _effect_plot(effects: Effects, name: str, title: str) -> Plot | None:
    rows: Sequence[Effect] = getattr(effects, name)
    if not any(row.value is not None for row in rows):
        return None
    unit, scale = unit_name(effects.unit), 100.0 if is_fraction(effects.unit) else 1.0
    agents, contexts = {row.agent for row in rows}, {row.where for row in rows}
    points = []
    for row in rows:
        words = [row.name.partition(" (")[0]]
        words += [row.where] if len(contexts) > 1 else []
        words += [row.agent] if len(agents) > 1 else []
        points.append(Point(" · ".join(words), row.value, row.low, row.high))
    return forest_plot(name, title, f"{effects.metric}{f', {unit}' if unit else ''}", points, scale)
