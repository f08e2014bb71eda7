"""Parts that boards of all forms share: luck, ranks, counts of who beats what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from ktdeval.stats import holm
from ktdeval_published.estimates import GainPath, dsr_of, p_value_of, psr_of
from ktdeval_published.prices import Array
from ktdeval_published.report import (
    Beats,
    BoardTotals,
    CostLadder,
    CutoffDays,
    EntrantReport,
    Luck,
)

LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class Rivals:
    """What an entrant is compared with, over its own days."""

    path: GainPath
    index: Array | None = None  #: daily returns of the index
    holding: Array | None = None  #: daily returns of holding every name
    random_p: float | None = None
    random_rank: float | None = None
    reasons: dict[str, str] = field(default_factory=dict)


def luck_of(rivals: Sequence[Rivals | None]) -> list[Luck]:
    """Return the tests of all entrants; an entrant without a path has none."""
    known = [one for one in rivals if one is not None]
    returns = [one.path.returns for one in known]
    indexes = _correct([_p_ahead(one, one.index) for one in known])
    holdings = _correct([_p_ahead(one, one.holding) for one in known])
    randoms = _correct([one.random_p for one in known])

    lucks = []
    for place, one in enumerate(known):
        lucks.append(
            Luck(
                psr=psr_of(one.path.returns),
                dsr=dsr_of(one.path.returns, returns),
                p_index=indexes[place][0],
                p_index_holm=indexes[place][1],
                p_holding=holdings[place][0],
                p_holding_holm=holdings[place][1],
                p_random=randoms[place][0],
                p_random_holm=randoms[place][1],
                random_rank=one.random_rank,
                reasons=one.reasons,
            )
        )
    found = iter(lucks)
    return [Luck() if one is None else next(found) for one in rivals]


def _p_ahead(one: Rivals, other: Array | None) -> float | None:
    if other is None:
        return None
    return p_value_of(one.path.returns - other)


def _correct(p_values: list[float | None]) -> list[tuple[float | None, float | None]]:
    return list(zip(p_values, holm(p_values), strict=True))


def with_ranks(entrants: Sequence[EntrantReport]) -> list[EntrantReport]:
    """Return entrants with their ranks by declared and by executed result, 1 for the best. Ranks
    are over the entrants that have both.
    """
    both = [
        index
        for index, one in enumerate(entrants)
        if one.declared is not None and one.executed is not None
    ]
    declared = _ranks([_result(entrants[index].declared) for index in both])
    executed = _ranks([_result(entrants[index].executed) for index in both])
    ranked = list(entrants)
    for place, index in enumerate(both):
        ranked[index] = msgspec.structs.replace(
            entrants[index], rank_declared=declared[place], rank_executed=executed[place]
        )
    return ranked


def _result(track: object) -> float:
    gain = getattr(track, "total_return", None)
    if gain is None:
        gain = getattr(track, "gain", None)
    return float("-inf") if gain is None else float(gain)


def _ranks(values: Sequence[float]) -> list[int]:
    return [1 + sum(other > value for other in values) for value in values]


def kendall_of(entrants: Sequence[EntrantReport]) -> tuple[float | None, int]:
    """Return Kendall's tau between the declared and the executed ranks, and the entrants."""
    pairs = [
        (one.rank_declared, one.rank_executed)
        for one in entrants
        if one.rank_declared is not None and one.rank_executed is not None
    ]
    if len(pairs) < 2:
        return None, len(pairs)

    from scipy.stats import kendalltau  # noqa: PLC0415 - heavy

    tau = float(kendalltau([a for a, _ in pairs], [b for _, b in pairs]).statistic)
    return (None if np.isnan(tau) else tau), len(pairs)


def beats_of(entrants: Sequence[EntrantReport], names: dict[str, str]) -> tuple[Beats, ...]:
    """Return how many entrants beat each rival after Holm's correction at 5 %. `names`: what each
    rival is, by kind.
    """
    found = []
    for kind, name in names.items():
        pairs = [
            (getattr(one.luck, f"p_{kind}"), getattr(one.luck, f"p_{kind}_holm"))
            for one in entrants
        ]
        known = [(p, corrected) for p, corrected in pairs if p is not None]
        if not known:
            continue
        found.append(
            Beats(
                what=kind,
                name=name,
                entrants=len(known),
                beat=sum(corrected <= LEVEL for _, corrected in known),
                ahead=sum(p < 0.5 for p, _ in known),
            )
        )
    return tuple(found)


def add_luck(entrants: Sequence[EntrantReport], lucks: Sequence[Luck]) -> list[EntrantReport]:
    """Return entrants with their tests."""
    return [
        msgspec.structs.replace(one, luck=luck) for one, luck in zip(entrants, lucks, strict=True)
    ]


def totals_of(entrants: Sequence[EntrantReport]) -> BoardTotals:
    """Return sums over the entrants. Days that are all unknown are no evidence: None."""
    lives = [one.live for one in entrants if one.live is not None]
    cutoffs = [one.cutoff for one in entrants if one.cutoff is not None]
    fills = [one.fills for one in entrants if one.fills is not None]
    ladders = [one.costs[0] for one in entrants if one.costs]
    logs = [one.logs.logs for one in entrants if one.logs is not None]
    known = any(live.before or live.after for live in lives)
    return BoardTotals(
        entrants=len(entrants),
        unreadable=sum(bool(one.problem) for one in entrants),
        before=sum(live.before for live in lives) if known else None,
        after=sum(live.after for live in lives) if known else None,
        unknown=sum(live.unknown for live in lives) if lives else None,
        clean=sum(one.clean for one in cutoffs) if _is_known(cutoffs) else None,
        orders=sum(one.orders for one in fills) if fills else None,
        breaches=sum(sum(one.breaches.values()) for one in fills) if fills else None,
        gains=sum(one.steps[0].gain > 0 for one in ladders) if ladders else None,
        gains_at_5bp=sum(_gain_at(one, 5.0) > 0 for one in ladders) if ladders else None,
        logs=sum(logs) if logs else None,
    )


def _is_known(cutoffs: Sequence[CutoffDays]) -> bool:
    return any(one.clean or one.likely or one.no for one in cutoffs)


def _gain_at(ladder: CostLadder, bps: float) -> float:
    return next(step.gain for step in ladder.steps if step.bps == bps)
