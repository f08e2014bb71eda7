"""Run a recipe on the files of its board, and make the report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from ktdeval.market import find_venue
from ktdeval_published.arms import arm_effects
from ktdeval_published.board_parts import beats_of, kendall_of, totals_of
from ktdeval_published.cells_board import cells_parts
from ktdeval_published.clone import Clone
from ktdeval_published.closed_board import closed_parts
from ktdeval_published.estimates import ceiling_of, power_of
from ktdeval_published.positions_board import (
    open_market,
    positions_entrants,
    read_all_logs,
    read_entrants,
)
from ktdeval_published.publication import read_publication
from ktdeval_published.ranks_board import open_ranks_market, ranks_entrants
from ktdeval_published.recipe import BoardRecipe
from ktdeval_published.report import (
    REPORT_VERSION,
    ArmEffect,
    Beats,
    BoardReport,
    CellEffect,
    DataFinding,
    EntrantReport,
    IntervalEstimate,
)
from ktdeval_published.series_board import series_parts
from ktdeval_published.verdict import finding_texts, sentence_of
from ktdeval_published.wholeness import of_positions, of_ranks


@dataclass(frozen=True)
class BoardRunOptions:
    """Further files and choices of a run."""

    prices: Path | None = None  #: folder of price tables that the clone lacks
    commits: Path | None = None  #: table of first commits
    audited: bool = True  #: whether logs are searched


@dataclass(frozen=True, eq=False)
class BoardParts:
    """What the reader of a form found."""

    entrants: list[EntrantReport]
    data: tuple[DataFinding, ...] = ()
    beats: tuple[Beats, ...] = ()
    arms: tuple[ArmEffect, ...] = ()
    cells: tuple[CellEffect, ...] = ()
    published_by: str = ""
    deadline: str = ""
    fill_rule: str = ""
    index: str = ""
    limits: tuple[str, ...] = ()


def run_board(recipe: BoardRecipe, clone: Clone, options: BoardRunOptions) -> BoardReport:
    """Return the report of a board. Raises a KtdevalError, in one line, for a file that is missing
    or has another form.
    """
    parts = _PARTS[recipe.form](recipe, clone, options)
    report = _report(recipe, clone, parts)
    with_findings = msgspec.structs.replace(report, findings=finding_texts(report))
    return msgspec.structs.replace(with_findings, sentence=sentence_of(with_findings))


def _report(recipe: BoardRecipe, clone: Clone, parts: BoardParts) -> BoardReport:
    entrants = parts.entrants
    tau, pairs = kendall_of(entrants)
    days = _longest(entrants)
    known = [one for one in entrants if _estimate(one).value is not None]
    best = max(known, key=lambda one: _estimate(one).value or 0.0, default=None)
    return BoardReport(
        published=REPORT_VERSION,
        name=recipe.name,
        title=recipe.title,
        repository=recipe.source.repository,
        commit=recipe.source.commit,
        commit_state=clone.commit_state,
        commit_note=clone.commit_note,
        licence=recipe.source.licence,
        period=recipe.period,
        currency=recipe.account.currency,
        claim=recipe.claim.text,
        claim_figure=recipe.claim.figure,
        claim_where=recipe.claim.where,
        sentence="",
        findings=(),
        entrants=tuple(entrants),
        totals=totals_of(entrants),
        kendall_tau=tau,
        kendall_n=pairs,
        ceiling=ceiling_of(len(known), days, recipe.days_a_year),
        best=IntervalEstimate() if best is None else _estimate(best),
        best_name="" if best is None else best.name,
        beats=parts.beats,
        data=parts.data,
        power=power_of(days, recipe.days_a_year) if days else None,
        arms=parts.arms,
        cells=parts.cells,
        published_by=parts.published_by,
        deadline=parts.deadline,
        fill_rule=parts.fill_rule,
        index=parts.index,
        call_costs=recipe.call_costs.note,
        limits=(*parts.limits, *recipe.notes),
        close_gap=recipe.close_gap,
    )


def _estimate(one: EntrantReport) -> IntervalEstimate:
    track = one.executed or one.declared
    return IntervalEstimate() if track is None else track.sharpe


def _longest(entrants: list[EntrantReport]) -> int:
    tracks = [one.executed or one.declared for one in entrants]
    return max((track.days for track in tracks if track is not None), default=0)


def _of_positions(recipe: BoardRecipe, clone: Clone, options: BoardRunOptions) -> BoardParts:

    of = open_market(recipe, clone, options.prices)
    read = read_entrants(recipe, clone, of.bars)
    logs = read_all_logs(recipe, clone, of.venue, [one.entrant for one in read], options.audited)
    entrants = positions_entrants(of, read, logs)
    clocks = recipe.published.by == "log_clocks"
    stamp = {"begin": "its stamp", "end": "its stamp, where the next bar begins"}
    names = {
        "index": of.market.index.name if of.market.index is not None else "",
        "holding": "holding all names in equal amounts",
        "random": "random traders of the same turnover, before costs",
    }
    return BoardParts(
        entrants=entrants,
        data=of_positions(of, clone, read),
        beats=beats_of(entrants, names),
        arms=arm_effects(recipe, entrants),
        published_by="the clocks of its logs" if clocks else recipe.published.note,
        deadline="the moment of the row, or the open of its day, at the venue",
        fill_rule=f"a row is filled at the first open at or after {stamp[of.market.stamp]}",
        index=names["index"],
        limits=tuple(f"{name}: {why}" for name, why in recipe.entrants.left_out.items()),
    )


def _of_ranks(recipe: BoardRecipe, clone: Clone, options: BoardRunOptions) -> BoardParts:

    market = open_ranks_market(recipe, clone)
    publication = read_publication(recipe, clone, options.commits)
    entrants = ranks_entrants(recipe, clone, market, publication)
    names = {
        "index": "cash",
        "random": "ladders of random names with the same turnover, before costs",
    }
    return BoardParts(
        entrants=entrants,
        data=of_ranks(recipe, market, entrants),
        beats=beats_of(entrants, names),
        published_by=publication.source,
        deadline=f"the close of the entry day at {find_venue(market.venue.name).calendar}, in UTC",
        fill_rule="a ladder is bought at the close of its entry day and sold at that of its exit",
        index="cash",
    )


def _of_series(recipe: BoardRecipe, clone: Clone, _options: BoardRunOptions) -> BoardParts:

    entrants, data = series_parts(recipe, clone)
    return BoardParts(
        entrants=entrants,
        data=data,
        beats=beats_of(entrants, {"index": "cash"}),
        index="cash",
        published_by=recipe.published.note,
        fill_rule=recipe.no_market,
    )


def _of_cells(recipe: BoardRecipe, clone: Clone, _options: BoardRunOptions) -> BoardParts:

    cells, data = cells_parts(recipe, clone)
    return BoardParts(
        entrants=[],
        data=data,
        cells=cells,
        published_by=recipe.published.note,
        fill_rule=recipe.no_market,
    )


def _of_closed_trades(recipe: BoardRecipe, clone: Clone, _options: BoardRunOptions) -> BoardParts:

    entrants, data = closed_parts(recipe, clone)
    return BoardParts(
        entrants=entrants,
        data=data,
        beats=beats_of(entrants, {"index": "cash"}),
        index="cash",
        published_by=recipe.published.note,
        fill_rule=recipe.no_market,
    )


_PARTS = {
    "positions": _of_positions,
    "ranks": _of_ranks,
    "series": _of_series,
    "cells": _of_cells,
    "closed_trades": _of_closed_trades,
}
