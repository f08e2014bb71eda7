"""How much of a ranking is luck, and how much of it is selection: deflated Sharpe ratios, two rankings, exposures by factor."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy import stats

from ktdeval.cards import TradingCard, TradingEpisode, figures_differ_in
from ktdeval.errors import CardError
from ktdeval.runner import Trials, count_trials
from ktdeval.stats import deflated_sharpe_ratio
from ktdeval_compare.entrants import Entrant, Row, card_notes, label, recorded_ledger

_SELECTION = "selection_alpha"
_RANKED = ("total_return", _SELECTION)  #: A card has a rank where both are defined in all its episodes


def luck(entrants: Sequence[Entrant], stores: Sequence[Path]) -> Row:
    """Report what chance and style leave of each card.

    Returns `cards`: for each card `return`, `selection` (medians), their ranks, `paper_selection`, `psr`, `dsr` (median over
    episodes, each deflated by all trials of its window and snapshot), `trials` (least and most over windows), `reason` where there
    is no `dsr`. `ranks`: rank correlations of return and selection, where cards are of the same windows, market and rules.
    `exposures`: factor rows over all cards, without a `mean` where they are not.
    """
    named = label(entrants)
    roots = [*stores, *(entrant.run_folder for entrant in named if entrant.is_in_run)]
    if not roots:
        raise CardError(f"{named[0].path}: lies in no run folder, so its trials can't be counted; name the runs with --runs")
    wanted = {(window.name, entrant.card.snapshot.id) for entrant in named for window in entrant.card.windows}
    trials = {(window, snapshot): count_trials(roots, window, snapshot) for window, snapshot in sorted(wanted)}
    rows: list[Row] = [_card_row(entrant, trials) for entrant in named]
    factors = exposures(named)
    if what := figures_differ_in(entrant.card for entrant in named):
        ranks: Row = {"spearman": None, "kendall": None, "reason": f"the cards' figures are of different {what}"}
        factors = [row | {"mean": None, "members": 0, "same_sign": 0} for row in factors]
    else:
        whole = [all(line.n == len(one.card.pooled) for line in map(one.card.metrics.get, _RANKED) if line) for one in named]
        ranks = rank([row for row, is_whole in zip(rows, whole, strict=True) if is_whole])
    notes = list(card_notes(named, _RANKED))
    exposed = factors[0]["cards"] if factors else {}
    notes += [f"{entrant.label}: has no exposures" for entrant in named if exposed and entrant.label not in exposed]
    return {"cards": rows, "ranks": ranks, "exposures": factors, "notes": notes}


def rank(rows: Sequence[Row]) -> Row:
    """Rank cards by `return` and by `selection`, 1 the best, ties sharing the mean of their ranks, and correlate the two rankings.

    Returns `spearman` and `kendall` (tau b), None with a `reason` where a ranking has no order. Cards without both have no rank.
    """
    both = [row for row in rows if row["return"] is not None and row["selection"] is not None]
    figures = {name: np.array([row[name] for row in both], dtype=np.float64) for name in ("return", "selection")}
    for name, values in figures.items():
        for row, position in zip(both, stats.rankdata(-values).tolist(), strict=True):
            row[f"{name}_rank"] = position
    if len(both) < 2 or not all(np.ptp(values) for values in figures.values()):
        reason = "fewer than two models have both" if len(both) < 2 else "all models tie"
        return {"spearman": None, "kendall": None, "reason": reason}
    returns, selections = figures.values()
    spearman, kendall = stats.spearmanr(returns, selections), stats.kendalltau(returns, selections)
    return {"spearman": float(spearman.statistic), "kendall": float(kendall.statistic), "reason": None}


def _card_row(entrant: Entrant, trials: Mapping[tuple[str, str], Trials]) -> Row:
    card = entrant.card
    values, reasons, counts = [], [], []
    for episode in card.pooled:
        counted = trials[episode.window, card.snapshot.id]
        counts.append(counted.episodes)
        ledger = recorded_ledger(entrant, episode.id)
        if isinstance(ledger, str):
            reasons.append(ledger)
            continue
        figure = deflated_sharpe_ratio(ledger.returns, counted.sharpes, counted.episodes, ledger.return_resolution)
        if figure.value is None:
            reasons.append(figure.reason or "")
        else:
            values.append(figure.value)
    return {
        "card": entrant.label,
        "return": card_value(card, "total_return"),
        "selection": card_value(card, _SELECTION),
        "paper_selection": card_value(card, f"paper_{_SELECTION}"),
        "return_rank": None,
        "selection_rank": None,
        "psr": card_value(card, "psr"),
        "dsr": statistics.median(values) if values else None,
        "episodes": len(values),
        "trials": [min(counts), max(counts)] if counts else [0, 0],
        "reason": None if values else "; ".join(sorted(set(reasons))) or "no finished episode",
    }


def card_value(card: TradingCard, name: str) -> float | None:
    """Return a metric of a card; None where it has none, or where it is not defined."""
    return card.metrics[name].value if name in card.metrics else None


def exposures(entrants: Sequence[Entrant]) -> list[Row]:
    """Mean style exposures of each card's holdings, and of the cohort that the cards are; none where no card has them."""
    tables = {entrant.label: mean_exposures(entrant.card.pooled) for entrant in entrants}
    return cohort_means({name: table for name, table in tables.items() if table})


def mean_exposures(episodes: Iterable[TradingEpisode]) -> dict[str, float | None]:
    """Mean exposure to each style factor over all days of the episodes on which a holding had a value of the factor.

    None where no day has one; empty where no episode has exposures.
    """
    total: dict[str, float] = {}
    days: dict[str, int] = {}
    for episode in episodes:
        detail = episode.metrics[_SELECTION].detail if _SELECTION in episode.metrics else None
        if not isinstance(detail, Mapping) or not isinstance(detail.get("mean_exposures"), Mapping):
            continue
        for factor, mean in detail["mean_exposures"].items():
            count = detail["exposure_days"][factor]
            days[factor] = days.get(factor, 0) + count
            total[factor] = total.get(factor, 0.0) + (0.0 if mean is None else mean * count)
    return {factor: total[factor] / count if count else None for factor, count in days.items()}


def cohort_means(members: Mapping[str, Mapping[str, float | None]]) -> list[Row]:
    """Mean exposure of a cohort to each factor, each member counted once (KTD-Fin §5.3 and Table 8).

    `members`: card -> factor -> mean exposure, None where it never held anything. Returns a row for each factor in the order of the
    first card: `mean` over the `members` that have one, and how many of these share its sign (0 counts for neither). No row where
    cards of several versions have different factors.
    """
    factors = next(iter(members.values()), {})
    if any(set(table) != set(factors) for table in members.values()):
        return []
    rows: list[Row] = []
    for factor in factors:
        known = [value for table in members.values() if (value := table[factor]) is not None]
        mean = statistics.fmean(known) if known else None
        same = sum(value * mean > 0 for value in known) if mean else 0
        of = {name: table[factor] for name, table in members.items()}
        rows.append({"factor": factor, "cards": of, "mean": mean, "members": len(known), "same_sign": same})
    return rows
