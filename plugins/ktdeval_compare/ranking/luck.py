"""Luck and selection in a ranking: deflated Sharpe ratios, rankings by return and by selection, and
factor exposures.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from ktdeval.cards import TradingCard, figures_differ_in, short_record_problem, shown_metrics
from ktdeval.errors import CardError
from ktdeval.runner import Study, TrialReturns, Trials, count_trials_by_window, find_studies
from ktdeval.stats import deflated_sharpe_ratio
from ktdeval_compare.pairs.compared_cards import (
    EntrantCard,
    Values,
    card_notes,
    label,
    recorded_ledger,
)
from ktdeval_compare.ranking.random_players import PlayersRow, PlayersTable
from ktdeval_compare.style_exposures import SELECTION, FactorMeans, card_exposures

#: metrics by which cards are ranked; a card has a rank if both metrics are defined in all of its
#: episodes
_RANKED = ("total_return", SELECTION)

#: trials by window and snapshot
_Counted = Mapping[tuple[str, str], Trials]


class LuckRow(msgspec.Struct, frozen=True, kw_only=True, rename={"total_return": "return"}):
    """Return and selection of one card, compared with chance. Values are medians over episodes."""

    card: str
    total_return: float | None
    selection: float | None
    paper_selection: float | None
    return_rank: float | None = None  #: None if the card is not ranked
    selection_rank: float | None = None
    psr: float | None
    #: deflated Sharpe ratio; each episode's ratio is deflated by all trials in its window and
    #: snapshot
    dsr: float | None
    episodes: int  #: number of episodes with a deflated Sharpe ratio
    trials: tuple[int, int]  #: minimum and maximum number of trials over windows
    reason: str | None  #: why `dsr` is missing


@dataclass(frozen=True)
class RankCorrelation:
    """Agreement between the rankings by return and by selection. `reason` says why it is
    undefined.
    """

    spearman: float | None = None
    kendall: float | None = None  #: Kendall's tau-b
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class LuckReport:
    """Report of `ktdeval compare luck`. Mean exposures are omitted if the cards' figures can't be
    combined.
    """

    cards: Sequence[LuckRow]
    ranks: RankCorrelation
    exposures: Sequence[FactorMeans]
    notes: Sequence[str]
    players: Sequence[
        PlayersRow
    ] = ()  #: ranks of the cards among random traders; empty unless requested


def luck(
    entrants: Sequence[EntrantCard], stores: Sequence[Path], players: PlayersTable | None = None
) -> LuckReport:
    """Report how much of each card's result is not explained by chance and style, and the card's
    rank among random `players`. Trials are counted in the cards' own runs, in `stores`, and in the
    ledgers of the studies next to them.
    """
    named = label(entrants)
    roots = [*stores, *(entrant.run_folder for entrant in named if entrant.is_in_run)]
    if not roots:
        raise CardError(
            f"{named[0].path}: is not in a run folder, so its trials can't be counted; name the "
            "runs with --runs"
        )

    trials = _trials_by_window(named, roots)
    studies = find_studies({*stores, *(root.parent for root in roots)})
    rows = []
    notes = list(card_notes(named, _RANKED))
    for entrant in named:
        study = _study_of(entrant, studies)
        rows.append(_card_row(entrant, trials, study))
        if study is not None:
            notes.append(f"{entrant.label}: {study.path.name} counts {len(study.tries):,} tries")

    factors = card_exposures(named)
    what = figures_differ_in(entrant.card for entrant in named)
    if what:
        ranks = RankCorrelation(reason=f"the cards' figures have different {what}")
        factors = [replace(row, mean=None, members=0, same_sign=0) for row in factors]
    else:
        rows, ranks = rank(rows, [_is_whole(entrant.card) for entrant in named])

    exposed = factors[0].cards if factors else {}
    for entrant in named:
        if exposed and entrant.label not in exposed:
            notes.append(f"{entrant.label}: has no exposures")

    of_players = [] if players is None else players.rows(named)
    return LuckReport(cards=rows, ranks=ranks, exposures=factors, notes=notes, players=of_players)


def _trials_by_window(entrants: Sequence[EntrantCard], roots: Sequence[Path]) -> _Counted:
    wanted: set[tuple[str, str]] = set()
    for entrant in entrants:
        for window in entrant.card.windows:
            wanted.add((window.name, entrant.card.snapshot.id))

    return count_trials_by_window(roots, sorted(wanted))


def _is_whole(card: TradingCard) -> bool:
    """Return whether the figures by which a card is ranked are medians over all of its episodes."""
    for name in _RANKED:
        line = card.metrics.get(name)
        if line is not None and line.n != len(card.pooled):
            return False
    return True


def rank(
    rows: Sequence[LuckRow], are_whole: Sequence[bool] | None = None
) -> tuple[list[LuckRow], RankCorrelation]:
    """Return the rows with their ranks by return and by selection (1 is best), and the correlation
    between the two rankings. Tied cards get the mean of their ranks.

    A card has no rank if it lacks a figure, or if `are_whole` says that its figures do not cover
    all of its episodes.
    """
    ranked = [
        index
        for index, row in enumerate(rows)
        if row.total_return is not None
        and row.selection is not None
        and (are_whole is None or are_whole[index])
    ]
    returns = np.array([rows[index].total_return for index in ranked], dtype=np.float64)
    selections = np.array([rows[index].selection for index in ranked], dtype=np.float64)

    result = list(rows)
    return_ranks = pd.Series(-returns).rank().tolist()
    selection_ranks = pd.Series(-selections).rank().tolist()
    for index, by_return, by_selection in zip(ranked, return_ranks, selection_ranks, strict=True):
        result[index] = msgspec.structs.replace(
            rows[index], return_rank=by_return, selection_rank=by_selection
        )

    return result, _correlation(returns, selections)


def _correlation(returns: Values, selections: Values) -> RankCorrelation:
    if len(returns) < 2:
        return RankCorrelation(reason="fewer than two models have both")
    if not np.ptp(returns) or not np.ptp(selections):
        return RankCorrelation(reason="all models tie")

    from scipy.stats import kendalltau, spearmanr  # noqa: PLC0415 - as heavy as a small comparison

    spearman = spearmanr(returns, selections)
    kendall = kendalltau(returns, selections)
    return RankCorrelation(float(spearman.statistic), float(kendall.statistic))


def _study_of(entrant: EntrantCard, studies: Sequence[Study]) -> Study | None:
    """Return the study that contains the plan of a judged card, or None if no study contains it. If
    there are several, return the study with the most tries.
    """
    plan = entrant.card.model.args.get("sha256")
    holding = []
    for study in studies:
        if plan is not None and plan in {tried.plan_sha256 for tried in study.tries}:
            holding.append(study)
    return max(holding, key=lambda study: len(study.tries), default=None)


def _card_row(entrant: EntrantCard, trials: _Counted, study: Study | None) -> LuckRow:
    """Return the row for a card. The number of trials is counted in the runs or, if the study has
    more tries, in the study.
    """
    card = entrant.card
    values: list[float] = []
    reasons: set[str] = set()
    counts: list[int] = []

    for episode in card.pooled:
        counted = trials[episode.window, card.snapshot.id]
        number = counted.episodes
        sharpes = counted.sharpes
        if study is not None and len(study.tries) > number:
            number = len(study.tries)
            sharpes = study.sharpes_at(card.snapshot.days_a_year)
        counts.append(number)
        own = _recorded_returns(entrant, episode.id, counted)
        problem = short_record_problem(card)
        if problem is not None:
            reasons.add(problem)
            continue
        if isinstance(own, str):
            reasons.add(own)
            continue

        figure = deflated_sharpe_ratio(own.returns, sharpes, number, own.resolution)
        if figure.value is None:
            reasons.add(figure.reason or "")
        else:
            values.append(figure.value)

    dsr = None
    reason = None
    if values:
        dsr = statistics.median(values)
    else:
        reason = "; ".join(sorted(reasons)) or "no finished episode"

    return LuckRow(
        card=entrant.label,
        total_return=card_value(card, "total_return"),
        selection=card_value(card, SELECTION),
        paper_selection=card_value(card, f"paper_{SELECTION}"),
        psr=card_value(card, "psr"),
        dsr=dsr,
        episodes=len(values),
        trials=(min(counts, default=0), max(counts, default=0)),
        reason=reason,
    )


def _recorded_returns(entrant: EntrantCard, episode: str, counted: Trials) -> TrialReturns | str:
    """Return the daily returns of an episode from which the card was made, or the reason why they
    are missing. The returns in `counted` are reused if they come from the same ledger as the card.
    """
    recorded = entrant.card.artefacts.get(f"episodes/{episode}/ledger.parquet")
    trial = counted.returns.get(episode)
    if trial is not None and trial.ledger_sha256 == recorded:
        return trial

    ledger = recorded_ledger(entrant, episode)
    if isinstance(ledger, str):
        return ledger
    return TrialReturns(ledger.returns, ledger.return_resolution, recorded or "")


def card_value(card: TradingCard, name: str) -> float | None:
    """Return the value of a card's metric as shown, or None if the card lacks the metric or the
    value is undefined.

    Returns of some months at a year's pace stay, since columns of papers define them; the note of
    such a table says of how many days they are.
    """
    line = shown_metrics(card, yearly_returns=True).get(name)
    return None if line is None else line.value
