"""The page: cards in, one HTML text and the plots in it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files

from ktdeval.api import UsageError, near_matches
from ktdeval_report.canvas import PALETTE, Plot, inline_svg
from ktdeval_report.effects import Effect, Effects, find_effects
from ktdeval_report.inputs import Evaluation
from ktdeval_report.markup import Html, join, paragraph, tag
from ktdeval_report.overview import card_table, effects_section, excess_points, label_list, left_out_note, overview_notes
from ktdeval_report.plots import drawdown_plot, equity_plot, reliability_plot, weights_plot
from ktdeval_report.plots_factors import Point, attribution_plot, exposures_plot, forest_plot
from ktdeval_report.sections import card_section
from ktdeval_report.study import CardStudy, Settings, WindowStudy, Workbench, choose_windows
from ktdeval_report.text import count, unit_name

MOST_CARDS = 24
"""Cards whose windows are drawn; those after them have tables and the reliability diagram alone."""

_ALL_WINDOWS = 12
"""About how many windows a page draws over all its cards, unless the user names them; at least one of each card."""

_MOST_WINDOWS = 3

_EFFECT_METRICS = ("total_return",)

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Even a page that somebody has injected into can't ask the network for anything."""


@dataclass(frozen=True)
class Options:
    """What to show.

    Attributes:
        windows: windows to draw; those that the benchmark chooses when empty.
        metrics: metrics whose mask and mode effects are shown; `total_return` when empty.
        settings: how much chance to simulate.
    """

    windows: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Report:
    """A finished report.

    Attributes:
        html: the page.
        plots: name of a file without its ending -> plot, in the order of the page.
    """

    html: str
    plots: Mapping[str, Plot]


class _Gallery:
    """The plots of a page, in order; each becomes an element with ids of its own."""

    def __init__(self) -> None:
        self.plots: dict[str, Plot] = {}

    def add(self, folder: str, plots: Sequence[Plot | None], of: Sequence[Evaluation]) -> list[Html]:
        labels = dict.fromkeys(label for one in of for label in one.card["labels"])
        whose = of[0].label if len(of) == 1 else count(len(of), "card")
        context = " · ".join([whose, *labels])
        return [self._figure(f"{folder}-{plot.name}", replace(plot, context=context)) for plot in plots if plot is not None]

    def _figure(self, name: str, plot: Plot) -> Html:
        self.plots[name] = plot
        note = paragraph(plot.note) if plot.note else ""
        return tag("figure", tag("figcaption", plot.title), inline_svg(plot, f"p{len(self.plots)}"), note)


def make_report(evaluations: Sequence[Evaluation], options: Options) -> Report:
    """Draw cards as a page. Equal cards, records, options and library versions give equal bytes.

    Raises:
        UsageError: no card has a window or metric of that name.
    """
    _check_names(options.windows, {name for one in evaluations for name in one.windows}, "window")
    _check_names(options.metrics, {name for one in evaluations for name in one.card["metrics"]}, "metric")
    bench = Workbench(options.settings)
    drawable = [one for one in evaluations if one.folder is not None][:MOST_CARDS]
    studies = [bench.study(one, _drawn_windows(one, drawable, options)) for one in evaluations]
    effects = [find_effects(evaluations, metric) for metric in options.metrics or _EFFECT_METRICS]
    gallery = _Gallery()
    body = join(_body(studies, effects, gallery, len(drawable)))
    return Report(_document(evaluations, body), gallery.plots)


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


def _body(studies: Sequence[CardStudy], effects: Sequence[Effects], gallery: _Gallery, drawn_cards: int) -> Iterator[Html]:
    evaluations = [study.evaluation for study in studies]
    episodes = sum(len(one.card["episodes"]) for one in evaluations)
    yield tag(
        "header",
        tag("h1", _title(evaluations)),
        paragraph(f"{count(len(studies), 'result card')}, {count(episodes, 'finished episode')}.", class_="quiet"),
        label_list(evaluations) if len(studies) > 1 else "",
        _contents(evaluations, effects) if len(studies) > 1 else "",
    )
    sections: list[Html] = []
    if len(studies) > 1:
        sections.append(_overview(studies, gallery, drawn_cards))
    shown = [found for found in effects if found.masks or found.modes or found.notes]
    if shown:
        inner = [
            effects_section(found, gallery.add(f"effects-{_file_word(found.metric)}", _effect_plots(found), evaluations))
            for found in shown
        ]
        sections.append(tag("section", tag("h2", "Masks and modes"), *inner, id="effects"))
    for study in studies:
        sections.append(card_section(study, _card_plots(study, gallery)))
        if len(studies) == 1:
            sections.append(left_out_note(studies, drawn_cards))
    yield tag("main", *sections, id="main")
    yield tag("footer", _closing())


def _title(evaluations: Sequence[Evaluation]) -> str:
    return f"Evaluation report: {evaluations[0].label}" if len(evaluations) == 1 else f"Evaluation report: {len(evaluations)} cards"


def _contents(evaluations: Sequence[Evaluation], effects: Sequence[Effects]) -> Html:
    places = [("overview", "Overview")]
    if any(found.masks or found.modes or found.notes for found in effects):
        places.append(("effects", "Masks and modes"))
    places += [(one.anchor, one.label) for one in evaluations]
    items = [tag("li", tag("a", label, href=f"#{anchor}")) for anchor, label in places]
    return tag("nav", tag("ol", *items), aria_label="Contents")


def _overview(studies: Sequence[CardStudy], gallery: _Gallery, drawn_cards: int) -> Html:
    points = excess_points(studies)
    plots = []
    if any(point.value is not None for point in points):
        plot = forest_plot("excess", "Excess return over the benchmark, with 95 % interval over windows", "mean excess, %", points)
        plots = gallery.add("overview", [plot], [study.evaluation for study in studies])
    return tag(
        "section",
        tag("h2", "Overview"),
        card_table(studies),
        tag("div", *plots, class_="wide"),
        overview_notes(),
        left_out_note(studies, drawn_cards),
        id="overview",
    )


def _effect_plots(effects: Effects) -> list[Plot | None]:
    scale = 100.0 if effects.unit == "fraction" else 1.0
    unit = unit_name(effects.unit)
    axis = f"{effects.metric}{f', {unit}' if unit else ''}"
    return [
        _effect_plot("masks", f"Mask effects on {effects.metric}", axis, effects.masks, scale),
        _effect_plot("modes", f"What data and tools add to {effects.metric}", axis, effects.modes, scale),
    ]


def _effect_plot(name: str, title: str, axis: str, rows: Sequence[Effect], scale: float) -> Plot | None:
    if not any(row.value is not None for row in rows):
        return None
    agents, places = {row.agent for row in rows}, {row.where for row in rows}
    points = []
    for row in rows:
        words = [row.name.partition(" (")[0]]
        words += [row.where] if len(places) > 1 else []
        words += [row.agent] if len(agents) > 1 else []
        points.append(Point(" · ".join(words), row.value, row.low, row.high))
    return forest_plot(name, title, axis, points, scale)


def _card_plots(study: CardStudy, gallery: _Gallery) -> dict[str, list[Html]]:
    one = study.evaluation
    found = {}
    for window in study.windows:
        if window.drawn:
            plots = _window_plots(window, str(one.card["snapshot"]["benchmark_name"]))
            found[window.name] = gallery.add(f"{one.anchor}-{_file_word(window.name)}", plots, [one])
    found["reliability"] = gallery.add(one.anchor, [reliability_plot(study)], [one])
    return found


def _window_plots(window: WindowStudy, benchmark: str) -> list[Plot | None]:
    return [
        equity_plot(window, benchmark),
        drawdown_plot(window, benchmark),
        weights_plot(window),
        attribution_plot(window),
        exposures_plot(window),
    ]


def _file_word(name: str) -> str:
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-_.") else "_" for letter in name)


def _closing() -> Html:
    return paragraph(
        "Written by ",
        tag("code", "ktdeval report"),
        " from result cards and their records. Fractions are shown in per cent; a dash is a figure that is not defined or was not "
        "asked for. What the metrics mean stands under each card's Definitions.",
    )


def _document(evaluations: Sequence[Evaluation], body: Html) -> str:
    style = files("ktdeval_report").joinpath("report.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        tag("meta", name_="generator", content="ktdeval report"),
        tag("link", rel="icon", href="data:,"),
        tag("title", _title(evaluations)),
        tag("style", Html(f"{_variables()}\n{style}")),
    )
    skip = tag("a", "Skip to the content", href="#main", class_="skip")
    return f"<!doctype html>\n{tag('html', head, tag('body', skip, body), lang='en')}\n"


def _variables() -> str:
    """The colours of the page, light and dark."""
    light, dark = (";".join(f"--{role}:{pair[side]}" for role, pair in PALETTE.items()) for side in (0, 1))
    return f":root{{{light}}}\n@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}"
