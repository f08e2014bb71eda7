"""Edge cases of the report: explicitly requested windows and metrics, one card and several, missing
intervals, and the contents of plots.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from ktdeval.errors import CardError, UsageError
from ktdeval.registry import load_plugins
from ktdeval.stats.intervals import Interval
from ktdeval_report import page
from ktdeval_report.canvas import inline_svg
from ktdeval_report.card_figures import CardStudy, ReliabilityBin, WindowStudy
from ktdeval_report.card_plots import reliability_plot
from ktdeval_report.card_tables import (
    attribution_notes,
    coverage_notes,
    window_rows,
    windows_notes,
)
from ktdeval_report.inputs import ReportedCard, ReportSources, _ledger, load_evaluations
from ktdeval_report.page import ReportPageOptions, make_report
from ktdeval_report.score_tables import score_views
from support.figures import card_cases
from support.figures.compare_cards import APART, make_card, save_card, save_run
from support.figures.metric_cases import nav_ledger
from support.figures.scoring_cases import scoring_card

pytest.importorskip("vl_convert")


def evaluations(*paths: Path) -> list[ReportedCard]:
    return load_evaluations(paths, ReportSources(load_plugins()))[0]


def saved(folder: Path, name: str, figures: dict[tuple[str, int], float | None]) -> Path:
    return save_card(folder / name, make_card(figures, f"house/{name}"))


def test_a_page_draws_so_many_cards_and_windows() -> None:
    assert (page.MAX_CARDS, page._ALL_WINDOWS, page._MAX_WINDOWS) == (24, 12, 3)


@pytest.mark.exhaustive
def test_windows_and_metrics_are_asked_for_by_a_name_that_a_card_has(tmp_path: Path) -> None:
    cards = evaluations(saved(tmp_path, "one", {("A1", 0): 0.1}))
    assert make_report(cards, ReportPageOptions(windows=("A1",), metrics=("sharpe",))).html

    with pytest.raises(UsageError, match="no card has a window 'A9'"):
        make_report(cards, ReportPageOptions(windows=("A1", "A9")))

    with pytest.raises(UsageError, match=r"no card has a metric 'sharp'.*sharpe"):
        make_report(cards, ReportPageOptions(metrics=("sharp",)))


@pytest.mark.exhaustive
def test_only_reports_of_several_cards_have_an_overview_and_title(
    tmp_path: Path,
) -> None:
    one, other = (
        saved(tmp_path, name, {("A1", 0): 0.1, ("A2", 0): 0.2}) for name in ("one", "two")
    )
    alone = make_report(evaluations(one), ReportPageOptions())
    both = make_report(evaluations(one, other), ReportPageOptions())
    title = "Mean excess over windows, with 95 % interval over windows"

    assert (title in alone.html, title in both.html) == (False, True)
    assert ("2 cards" in alone.html, "2 cards" in both.html) == (False, True)
    assert [name for name in alone.plots if name.startswith("overview")] == []
    assert [name for name in both.plots if name.startswith("overview")] == ["overview-excess"]


@pytest.mark.exhaustive
def test_the_overview_is_drawn_where_any_card_has_an_excess(tmp_path: Path) -> None:
    known, unknown, unknown_too = (
        saved(tmp_path, name, {("A1", 0): value, ("A2", 0): value})
        for name, value in (("one", 0.1), ("two", None), ("three", None))
    )
    some = make_report(evaluations(known, unknown), ReportPageOptions()).plots
    none = make_report(evaluations(unknown, unknown_too), ReportPageOptions()).plots

    assert ("overview-excess" in some, "overview-excess" in none) == (True, False)


@pytest.mark.exhaustive
def test_real_and_synthetic_markets_never_share_an_axis(tmp_path: Path) -> None:
    figures: dict[tuple[str, int], float | None] = {("A1", 0): 0.1, ("A2", 0): 0.2}
    synthetic, other = evaluations(*(saved(tmp_path, name, figures) for name in ("one", "two")))
    snapshot = replace(other.card.snapshot, synthetic=False)
    real = dataclasses.replace(other, card=replace(other.card, snapshot=snapshot))

    mixed = make_report([synthetic, real], ReportPageOptions())
    drawn = {name: plot for name, plot in mixed.plots.items() if name.startswith("overview")}

    assert list(drawn) == ["overview-excess-synthetic", "overview-excess-real"]

    for kind, own, another in (("synthetic", synthetic, real), ("real", real, synthetic)):
        plot = drawn[f"overview-excess-{kind}"]
        assert plot.title.endswith(f": {kind} markets")
        assert (own.label in plot.text, another.label in plot.text) == (True, False)

    assert mixed.html.count("<small>synthetic market") == 1


def test_a_file_of_a_plot_has_a_plain_name() -> None:
    assert page._file_word("total_return-1.5") == "total_return-1.5"
    assert page._file_word("a b/ü²\\:") == "a_b_____"


def test_scores_are_tabled_task_by_task(tmp_path: Path) -> None:
    card = card_cases.typed(scoring_card())
    added: list[tuple[str, int]] = []

    def add(folder: str, plots: Sequence[Any], of: Sequence[Any]) -> list[Any]:
        added.append((folder, len(plots)))
        return []

    (view,) = score_views([card], add)

    assert (view["task"], len(view["tables"]) > 0) == (card.task.name, True)

    score_views([card, card], add)
    # one card has nothing to be compared with
    assert added == [(f"scores-{card.task.name}", 0), (f"scores-{card.task.name}", 1)]
    assert score_views([], add) == []


def test_the_least_and_greatest_of_a_window_are_over_two_seeds_or_more(tmp_path: Path) -> None:
    cells = {("A1", 0): 0.1, ("A2", 0): 0.3, ("A2", 1): 0.2, ("A1", 1): None}
    (one,) = evaluations(saved(tmp_path, "one", cells))
    rows = {row.name: row for row in window_rows(one)}

    assert (rows["A1"].own, rows["A1"].least, rows["A1"].greatest) == (0.1, None, None)
    assert (rows["A2"].own, rows["A2"].least, rows["A2"].greatest) == (0.25, 0.2, 0.3)
    assert rows["A2"].excess == pytest.approx(0.25 - rows["A2"].benchmark)


def window(name: str, drawn: bool, **intervals: Interval) -> WindowStudy:
    """A window whose metrics and lines have these intervals."""
    return WindowStudy(
        name,
        drawn,
        (),
        0,
        nav_ledger([100_000_000, 110_000_000]),
        intervals=intervals,
        lines=intervals,
    )


NONE = Interval(None, None, 0.95, "bootstrap", 3, reason="too few days")


def test_missing_intervals_are_named_by_window_or_plotted_line(
    tmp_path: Path,
) -> None:
    (one,) = evaluations(saved(tmp_path, "one", {(name, 0): 0.1 for name in list(APART)[:2]}))
    known = Interval(0.1, 0.2, 0.95, "bootstrap", 40, coverage=0.94)
    study = CardStudy(
        one, [window("A1", True, sharpe=NONE, beta=known), window("A2", False, sharpe=NONE)]
    )

    assert windows_notes(study)[-1] == "A1, A2: intervals are missing: too few days"
    assert attribution_notes(study) == ["A1: no interval of sharpe: too few days"]

    (note,) = coverage_notes(study.windows)
    assert (
        note
        == "beta, 40 days: nominal 95 % (bootstrap); in simulations of such lengths it covered the"
        " truth in 94.0 % or more."
    )

    alone = CardStudy(one, [window("A1", True, beta=known)])
    assert windows_notes(alone) == []


def test_coverage_is_of_the_worst_window_and_needs_all_to_be_measured() -> None:
    first, second = (
        Interval(0.1, 0.2, 0.9, "bootstrap", days, coverage=share)
        for days, share in ((40, 0.88), (60, 0.85))
    )
    unmeasured = Interval(0.1, 0.2, 0.9, "bootstrap", 60)
    (note,) = coverage_notes([window("A1", True, beta=first), window("A2", True, beta=second)])

    assert (
        note == "beta, 40 to 60 days: nominal 90 % (bootstrap); in simulations of such lengths it"
        " covered the truth in 85.0 % or more."
    )

    (note,) = coverage_notes([window("A1", True, beta=first), window("A2", True, beta=unmeasured)])
    assert note == "beta, 40 to 60 days: nominal 90 % (bootstrap); its coverage was not measured."


def reliability(*, has_intervals: bool) -> list[ReliabilityBin]:
    """Two bins of stated confidence."""
    ends = {"accuracy_low": 0.2, "accuracy_high": 0.7} if has_intervals else {}
    return [
        ReliabilityBin(
            low=low, high=low + 0.1, n=5, mean_confidence=low + 0.05, accuracy=0.4, **ends
        )
        for low in (0.5, 0.6)
    ]


@pytest.mark.exhaustive
def test_a_reliability_diagram_shows_intervals_where_there_are_some(tmp_path: Path) -> None:
    (one,) = evaluations(saved(tmp_path, "one", {("A1", 0): 0.1}))
    drawn = {}
    for has_intervals in (True, False):
        plot = reliability_plot(
            CardStudy(one, reliability=reliability(has_intervals=has_intervals))
        )
        assert plot is not None
        assert ("Wilson" in plot.note) is has_intervals
        drawn[has_intervals] = str(inline_svg(plot))

    assert drawn[True].count("<path") > drawn[False].count("<path")
    assert reliability_plot(CardStudy(one)) is None


def test_a_ledger_is_that_of_the_card_and_has_its_steps(tmp_path: Path) -> None:
    path = save_run(tmp_path / "run", make_card({("A1", 0): 0.1}), {("A1", 0): np.full(4, 0.01)})
    (one,) = evaluations(path)
    episode = one.card.episodes[0]

    with pytest.raises(CardError, match="has not the steps of the card"):
        _ledger(one, tmp_path / "run", episode)

    whole = save_run(tmp_path / "whole", make_card({("A1", 0): 0.1}), {("A1", 0): np.full(5, 0.01)})
    (other,) = evaluations(whole)

    assert len(_ledger(other, tmp_path / "whole", other.card.episodes[0]).steps) == 5

    file = tmp_path / "whole" / f"episodes/{other.card.episodes[0].id}/ledger.parquet"
    file.write_bytes(file.read_bytes() + b"\n")

    with pytest.raises(CardError, match="is not the ledger that the card was made from"):
        _ledger(other, tmp_path / "whole", other.card.episodes[0])

    file.unlink()
    with pytest.raises(CardError, match="is missing from the run folder"):
        _ledger(other, tmp_path / "whole", other.card.episodes[0])
