"""How much of a ranking is luck, and how much of it is selection: deflated Sharpe ratios, two rankings, exposures by factor."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from ktdeval.api import (
    DataError,
    JsonValue,
    Trials,
    cohort_exposures,
    compare_ranks,
    count_trials,
    deflated_sharpe_ratio,
)
from ktdeval_compare.daily import recorded_ledger
from ktdeval_compare.entrants import Entrant, label

Row = dict[str, JsonValue]
_SELECTION = "selection_alpha"


def luck(entrants: Sequence[Entrant], stores: Sequence[Path]) -> Row:
    """What chance and style leave of each card.

    Args:
        entrants: cards of one task; their run folders hold the ledgers.
        stores: folders of runs in which trials are counted; the cards' own run folders always count.

    Returns:
        `cards`: for each card `return`, `selection` (medians), their ranks, `psr`, `dsr` (median over episodes, each deflated by
        all trials of its window and snapshot), `trials` (least and most over windows), `reason` where there is no `dsr`.
        `ranks`: rank correlations of return and selection. `exposures`: factor rows over all cards.
    """
    named = label(entrants)
    roots = [*stores, *(entrant.run_folder for entrant in named)]
    trials = _trials_by_window(named, roots)
    rows: list[Row] = [_card_row(entrant, trials) for entrant in named]
    comparable = {row["card"]: row for row in rows if row["return"] is not None and row["selection"] is not None}
    ranks = compare_ranks(
        {name: row["return"] for name, row in comparable.items()}, {name: row["selection"] for name, row in comparable.items()}
    )
    for name, by_return, by_selection in zip(ranks.names, ranks.return_rank, ranks.alpha_rank, strict=True):
        comparable[name] |= {"return_rank": by_return, "selection_rank": by_selection}
    return {
        "cards": rows,
        "ranks": {"spearman": ranks.spearman, "kendall": ranks.kendall, "reason": ranks.reason},
        "exposures": _exposures(named),
    }


def _trials_by_window(entrants: Sequence[Entrant], roots: Sequence[Path]) -> dict[tuple[str, str], Trials]:
    """Trials of each window and snapshot that a card has."""
    wanted = {(window["name"], entrant.card["snapshot"]["id"]) for entrant in entrants for window in entrant.card["windows"]}
    return {(window, snapshot): count_trials(roots, window, snapshot) for window, snapshot in sorted(wanted)}


def _card_row(entrant: Entrant, trials: Mapping[tuple[str, str], Trials]) -> Row:
    card = entrant.card
    values, reasons, counts = [], [], []
    for episode in card["episodes"]:
        found = trials[episode["window"], card["snapshot"]["id"]]
        counts.append(found.episodes)
        ledger = recorded_ledger(entrant, episode["id"])
        if isinstance(ledger, str):
            reasons.append(ledger)
            continue
        figure = deflated_sharpe_ratio(ledger.returns, found.sharpes, found.episodes)
        if figure.value is None:
            reasons.append(figure.reason or "")
        else:
            values.append(figure.value)
    metrics = card["metrics"]
    return {
        "card": entrant.label,
        "return": _value(metrics, "total_return"),
        "selection": _value(metrics, _SELECTION),
        "return_rank": None,
        "selection_rank": None,
        "psr": _value(metrics, "psr"),
        "dsr": statistics.median(values) if values else None,
        "episodes": len(values),
        "trials": [min(counts), max(counts)] if counts else [0, 0],
        "reason": None if values else "; ".join(sorted(set(reasons))) or "no finished episode",
    }


def _value(metrics: Mapping[str, JsonValue], name: str) -> float | None:
    value: float | None = metrics.get(name, {}).get("value")
    return value


def _exposures(entrants: Sequence[Entrant]) -> list[Row]:
    """Mean style exposures of each card's holdings, and of the cohort that the cards are; none where no card has them."""
    members: dict[str, dict[str, float | None]] = {}
    for entrant in entrants:
        details = [episode["metrics"].get(_SELECTION, {}).get("detail") or {} for episode in entrant.card["episodes"]]
        tables = [detail["mean_exposures"] for detail in details if isinstance(detail.get("mean_exposures"), Mapping)]
        if tables:
            members[entrant.label] = {factor: _mean([table.get(factor) for table in tables]) for factor in tables[0]}
    try:
        cohort = cohort_exposures(members) if members else ()
    except DataError:  # cards of other versions may have other factors; then there is no common table
        cohort = ()
    return [
        {
            "factor": row.factor,
            "cards": {name: table[row.factor] for name, table in members.items()},
            "mean": row.mean,
            "members": row.members,
            "same_sign": row.same_sign,
        }
        for row in cohort
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
