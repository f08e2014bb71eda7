"""How much of a result is the labels': one market under several alias maps and row orders; cards in, one JSON report out."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal, NamedTuple

import numpy as np

from ktdeval.errors import CardError
from ktdeval.fields import option
from ktdeval.jsonio import dumps_canonical
from ktdeval.stats import clopper_pearson_upper, mean_with_interval, overlap_correlation
from ktdeval.trading import Ledger, OrderRecord, StepRecord
from ktdeval.yamlio import load_yaml
from ktdeval_compare.entrants import (
    MARKET_FACETS,
    Cell,
    Entrant,
    Row,
    Values,
    by_task,
    check_same,
    facets,
    flag_notes,
    label,
    left_out_notes,
    paired_cells,
    recorded_ledger,
    spans,
)

LABELS, AGAIN, SEEDS, BEYOND = "labels", "again", "seeds", "labels - again"
"""Difference of two episodes of one window: the mask key only; nothing (one key run twice); the seed only. And the first less
the second."""

_FACETS = facets(
    "models", "agents", "call parameters", "ways of sending calls", "task versions", "task configs (hash)", *MARKET_FACETS
)
"""Everything but the mask key, the windows and the seeds, which are paired."""

Distances = Mapping[str, "float | str"]  #: By figure: how far two episodes differ, or why that is not defined

_Order = tuple[str, str, float | None, int | None]
_Trade = tuple[str, str]  #: Asset and side


class Figure(NamedTuple):
    """Meaning of a figure of a pair of episodes."""

    label: str  #: what tables call it
    formula: str
    most: float | None  #: its largest value, None without bound


WORDS: Mapping[str, Mapping[str, Any]] = load_yaml(Path(__file__).with_name("words.yaml"))
FIGURES = {name: Figure(*entry) for name, entry in WORDS["figures"].items()}


@dataclass(frozen=True, eq=False, slots=True)
class Course:
    """An episode as far as comparing it needs: everything in true identities, nothing of what the mask showed."""

    days: tuple[str, ...]  #: fill days, ISO
    #: by step, the orders as decided (executed or not), without confidence, reason and sequence
    decisions: tuple[Counter[_Order], ...]
    accounts: tuple[str, ...]  #: by step, positions and cash before it, as canonical text
    trades: tuple[Counter[_Trade], ...]  #: by step, filled amount by asset and side, as a share of the NAV at that open (if any)
    nav: Values  #: [steps + 1] units of currency

    @property
    def total_return(self) -> float:
        """Last NAV over the initial cash, less 1."""
        return float(self.nav[-1] / self.nav[0] - 1.0)


def course_of(ledger: Ledger) -> Course:
    """Return the course that a ledger records."""
    steps, days = ledger.steps, tuple(step.filled_on for step in ledger.steps)
    decisions = tuple(Counter(map(_order, step.orders)) for step in steps)
    return Course(days, decisions, ("", *map(_account, steps[:-1])), tuple(map(_trades, steps)), ledger.nav)


def _order(order: OrderRecord) -> _Order:
    # A stock_id that is no asset has no true identity: it stands for itself.
    asset = order.code if order.code is not None else f"? {order.stock_id}"
    return asset, order.side, order.target_weight, order.shares


def _account(step: StepRecord) -> str:
    held = [[position.code, position.shares, position.locked] for position in step.positions]
    return dumps_canonical([step.cash_minor, held])


def _trades(step: StepRecord) -> Counter[_Trade]:
    amounts: Counter[_Trade] = Counter()
    for order in step.orders:
        if order.code is not None and order.filled_shares and step.open_nav_minor > 0:
            amounts[order.code, order.side] += order.notional_minor / step.open_nav_minor  # type: ignore[assignment]  # typeshed: whole numbers only
    return amounts


def parted_on(one: Course, other: Course) -> str | None:
    """Return the fill day of the first step that was decided otherwise; None where there is none."""
    steps = zip(one.days, one.decisions, other.decisions, strict=True)
    return next((day for day, left, right in steps if left != right), None)


def distances(one: Course, other: Course) -> Distances:
    """All `FIGURES` of two courses over the same days."""
    changed = np.array([left != right for left, right in zip(one.decisions, other.decisions, strict=True)])
    alike = np.array([left == right for left, right in zip(one.accounts, other.accounts, strict=True)])
    is_ruined = (one.nav <= 0).any() or (other.nav <= 0).any()
    return {
        "decisions": float(changed.mean()),
        "decisions_alike": float(changed[alike].mean()),  # the first step begins from cash in both
        "orders": _orders_distance(one, other),
        "turnover": _turnover_distance(one, other),
        "nav": "a NAV is not positive" if is_ruined else float(np.abs(np.log(one.nav[1:] / other.nav[1:])).mean()),
        "total_return": abs(one.total_return - other.total_return),
    }


def _orders_distance(one: Course, other: Course) -> float | str:
    steps = list(zip(one.decisions, other.decisions, strict=True))
    both, either = sum((left & right).total() for left, right in steps), sum((left | right).total() for left, right in steps)
    return 1.0 - both / either if either else "neither gave an order"


def _turnover_distance(one: Course, other: Course) -> float | str:
    steps = zip(one.trades, other.trades, strict=True)
    amounts = [(left[trade], right[trade]) for left, right in steps for trade in left.keys() | right.keys()]
    whole = math.fsum(a + b for a, b in amounts)
    return math.fsum(abs(a - b) for a, b in amounts) / whole if whole else "neither traded"


# --- report


@dataclass(frozen=True)
class Options:
    """Settings of an analysis."""

    alpha: float = option(0.05, help="intervals hold with 1 - alpha", minimum=0.0001, maximum=0.5)
    #: what intervals vary over. `episode`: each (window, seed), whose labels are drawn independently; it describes other labels in
    #: these windows. `window`: windows, each the mean of its seeds; it describes other windows too
    over: Literal["episode", "window"] = "episode"
    common: bool = False  #: where cards differ in windows or seeds, use those that all have


class Play(NamedTuple):
    """One episode, its mask key, and the card that it is on."""

    card: Entrant
    cell: Cell
    key: str
    course: Course


class Pair(NamedTuple):
    """Two episodes of one window, what they differ in, and by how much; `cell` is that of the first."""

    between: str
    first: Play
    second: Play
    distances: Distances
    cell: Cell


def invariance(entrants: Sequence[Entrant], options: Options) -> Row:
    """Set the mask keys of each task against each other.

    Returns `figures` (a row for each task, kind of pair and figure: mean with interval), `noise` (what that makes of a total
    return), `pairs` (every pair behind them), `cards`, `notes`. Raises CardError: the cards differ in more than the mask key, are
    all of one key, can't be paired, or have no ledgers.
    """
    report: Row = {"alpha": options.alpha, "over": options.over, "cards": [], "figures": [], "noise": [], "pairs": [], "notes": []}
    notes: list[str] = []
    for task, members in _checked(entrants).items():
        cells = paired_cells(members, options.common)
        pairs = list(_pairs(members, cells))
        report["cards"] += [{"task": task, "mask_key": member.card.aliases, "path": str(member.path),
                             "labels": list(member.card.labels)} for member in members]  # fmt: skip
        report["figures"] += _figures(task, members[0], pairs, options)
        report["noise"] += _noise(task, pairs, options.alpha)
        report["pairs"] += [_pair_row(task, pair) for pair in pairs]
        notes += _notes(members, cells, pairs, options)
    report["notes"] = list(dict.fromkeys(notes))
    return report


def _checked(entrants: Sequence[Entrant]) -> dict[str, list[Entrant]]:
    """Return the cards by task, each group checked to differ in nothing but the mask key."""
    groups = by_task(entrants)
    for task, members in groups.items():
        check_same(members, _FACETS, "only the mask key may differ, or the difference is not the labels'")
        if len(keys := {member.card.aliases for member in members}) < 2:
            more = f"every card of {task}" if len(members) > 1 else f"the one card of {task}"
            problem = f"is of mask key {keys.pop() or 'none'}; run the same again with another --out, which draws a new one"
            raise CardError(f"{members[0].path}: {more} {problem}")
        _check_repeats(members)
        groups[task] = sorted(label(members), key=lambda member: (member.card.aliases, str(member.path)))
    return groups


def _check_repeats(members: Sequence[Entrant]) -> None:
    """Refuse a key given twice whose second run asked nothing: replies from the cache are equal whatever the model's chance."""
    counts = Counter(member.card.aliases for member in members)
    for member in members:
        key, calls = member.card.aliases, member.card.provenance.calls
        if counts[key] > 1 and calls is not None and not calls.answered and calls.cached:
            nothing = "with replies from the cache, which says nothing of the model's chance"
            raise CardError(f"{member.path}: repeats mask key {key} {nothing}; leave it out, or run it with --cache run")


def _pairs(members: Sequence[Entrant], cells: Sequence[Cell]) -> Iterator[Pair]:
    """Every two episodes of a window that differ in the key only, in the seed only, or in nothing."""
    by_window: dict[str, list[Play]] = {}
    for member, cell in itertools.product(members, cells):
        ledger = recorded_ledger(member, member.episodes()[cell].id)
        if isinstance(ledger, str):
            raise CardError(f"{member.path}: {ledger}; decisions are compared in the ledgers of the run folder")
        by_window.setdefault(cell[0], []).append(Play(member, cell, member.card.aliases, course_of(ledger)))
    for window, plays in by_window.items():
        for first, second in itertools.combinations(plays, 2):
            if first.cell != second.cell and first.key != second.key:
                continue
            between = SEEDS if first.cell != second.cell else LABELS if first.key != second.key else AGAIN
            if first.course.days != second.course.days:
                raise CardError(f"{second.card.path} and {first.card.path} have ledgers of other days in window {window}")
            yield Pair(between, first, second, distances(first.course, second.course), first.cell)


def _by_cell(pairs: Sequence[Pair], between: str, value: Callable[[Pair], float | str]) -> dict[Cell, float]:
    """Mean over the pairs of each (window, seed), or of each window where the pairs are of seeds."""
    values: dict[Cell, list[float]] = {}
    for pair in pairs:
        figure = value(pair)
        if pair.between == between and not isinstance(figure, str):
            values.setdefault((pair.cell[0], -1) if between == SEEDS else pair.cell, []).append(figure)
    return {cell: math.fsum(of_cell) / len(of_cell) for cell, of_cell in values.items()}


def _figures(task: str, entrant: Entrant, pairs: Sequence[Pair], options: Options) -> list[Row]:
    """One row for each kind of pair that there is and each figure."""
    rows = []
    kinds = [kind for kind in (LABELS, AGAIN, SEEDS) if any(pair.between == kind for pair in pairs)]
    for name, figure in FIGURES.items():
        by_kind = {kind: _by_cell(pairs, kind, lambda pair, of=name: pair.distances[of]) for kind in kinds}  # type: ignore[misc]
        if AGAIN in by_kind:
            both = [cell for cell in by_kind[LABELS] if cell in by_kind[AGAIN]]
            by_kind[BEYOND] = {cell: by_kind[LABELS][cell] - by_kind[AGAIN][cell] for cell in both}
        for kind, cells in by_kind.items():
            over = "window" if kind == SEEDS else options.over
            mean = _mean(entrant, cells, over, options.alpha)
            if mean["low"] is not None and kind != BEYOND:
                # The figure can't lie beyond its bounds, so neither need its interval.
                mean |= {"low": max(mean["low"], 0.0), "high": min(mean["high"], figure.most or mean["high"])}
            count = sum(pair.between == kind and not isinstance(pair.distances[name], str) for pair in pairs)
            if not cells:
                undefined = dict.fromkeys(value for pair in pairs if isinstance(value := pair.distances[name], str))
                mean |= {"reason": "; ".join(undefined)}
            row = {"task": task, "between": kind, "figure": name, "unit": "fraction", "formula": figure.formula}
            rows.append({**row, "pairs": None if kind == BEYOND else count, **mean})
    return sorted(rows, key=lambda row: (LABELS, AGAIN, SEEDS, BEYOND).index(row["between"]))


def _mean(entrant: Entrant, cells: Mapping[Cell, float], over: str, alpha: float) -> Row:
    """Mean with its interval over the given values, or over the means of their windows, widened for days that those share."""
    by_window: dict[str, list[float]] = {}
    for (window, _), value in cells.items():
        by_window.setdefault(window, []).append(value)
    if over == "episode":
        mean = mean_with_interval(np.array(list(cells.values())), confidence=1.0 - alpha)
        reason: str | None = "one (window, seed) says nothing of others"
    else:
        means = np.array([np.mean(values) for values in by_window.values()])
        mean = mean_with_interval(means, overlap_correlation(spans(entrant, by_window)), 1.0 - alpha)
        reason = "one window says nothing of others" if len(by_window) == 1 else (mean.detail or {}).get("reason")
    low, high = (mean.detail or {}).get("low"), (mean.detail or {}).get("high")
    row: Row = {"cells": len(cells), "windows": len(by_window), "over": over, "value": mean.value, "low": low, "high": high}
    return {**row, "reason": reason if low is None else None}


def _noise(task: str, pairs: Sequence[Pair], alpha: float) -> list[Row]:
    """Worth of each kind of chance in total return: an episode's standard deviation, and how far two runs differ by it."""
    rows: list[Row] = []
    z = NormalDist().inv_cdf(1.0 - alpha / 2.0) * math.sqrt(2.0)
    for kind in (LABELS, AGAIN, SEEDS):
        # Half the squared difference of two draws is an unbiased estimate of their variance.
        cells = _by_cell(pairs, kind, lambda pair: (pair.first.course.total_return - pair.second.course.total_return) ** 2 / 2)
        if not cells:
            continue
        sd = math.sqrt(math.fsum(cells.values()) / len(cells))
        episodes = len({pair.cell for pair in pairs})
        rows.append({"task": task, "between": kind, "metric": "total_return", "unit": "fraction", "sd": sd, "cells": len(cells),
                     "episodes": episodes, "difference_of_one": z * sd,
                     "difference_of_means": z * sd / math.sqrt(episodes)})  # fmt: skip
    return rows


def _pair_row(task: str, pair: Pair) -> Row:
    row: Row = {"task": task, "between": pair.between, "window": pair.cell[0]}
    for name, play in (("first", pair.first), ("second", pair.second)):
        row[name] = {"mask_key": play.key, "seed": play.cell[1], "path": str(play.card.path)}
    figures = {name: None if isinstance(value, str) else value for name, value in pair.distances.items()}
    reasons = {name: value for name, value in pair.distances.items() if isinstance(value, str)}
    return {**row, "parted_on": parted_on(pair.first.course, pair.second.course), **figures, "undefined": reasons}


def _notes(members: Sequence[Entrant], cells: Sequence[Cell], pairs: Sequence[Pair], options: Options) -> Iterator[str]:
    """Yield what a reader must know before trusting the table."""
    kinds = {pair.between for pair in pairs}
    yield from left_out_notes(members)
    yield from _label_notes(members[0], cells, pairs, options.alpha)
    if members[0].card.request_settings is not None and AGAIN not in kinds:
        twice = "run one again with its --mask-key, --cache run and another --out, and give both"
        yield f"no mask key was run twice: what other keys change holds the model's own chance; {twice}"
    if AGAIN in kinds and _may_send_seed(members[0].card.request_settings):
        yield (
            "keys differ in the seeds of calls, too: where a provider obeys them, a key run twice shows no chance, and labels "
            "beyond chance are at most what the table says; --model-args omit=seed sends none"
        )
    if SEEDS in kinds:
        yield "seeds: another seed is another call seed and another alias map, so that this holds the labels' part too"
    if options.over == "episode":
        yield "intervals vary over (window, seed): they describe other labels in these windows; other windows with --over window"
    for reason, count in Counter(value for pair in pairs for value in pair.distances.values() if isinstance(value, str)).items():
        yield f"{count} pair(s) left out of a figure: {reason}"
    for member in members:
        yield from _run_notes(member, AGAIN in kinds)
    yield from flag_notes(members)


def _may_send_seed(settings: Mapping[str, Any] | None) -> bool:
    """Whether a card's model was sent seeds, as far as the card says how it was asked."""
    if settings is None:
        return False
    is_left_out = any("seed" in (settings.get(name) or ()) for name in ("not_sent", "omit"))
    return not is_left_out and settings.get("takes_seed") is not False


def _label_notes(entrant: Entrant, cells: Sequence[Cell], pairs: Sequence[Pair], alpha: float) -> Iterator[str]:
    """Labels of this mask, and how much is known where nothing changed."""
    name = entrant.card.task.name
    if entrant.card.task.mask == "bright":
        yield f"{name}: bright hides nothing, so that draws differ in the order of rows only"
    if not any(pair.between == LABELS and pair.distances["decisions"] for pair in pairs):
        most = clopper_pearson_upper(0, len(cells), 1.0 - alpha)
        yield (
            f"{name}: no step was decided otherwise under other labels; with so many (window, seed) that is shown, "
            f"at {100 * (1 - alpha):g} %, for all but {100 * most:.3g} % of them"
        )


def _run_notes(member: Entrant, has_repeats: bool) -> Iterator[str]:
    """Steps and replies of a run that are not the model's own."""
    coverage, calls = member.card.coverage, member.card.provenance.calls
    if held := coverage.steps - coverage.steps_decided:
        yield f"{member.path}: {held} step(s) were held by the engine, not decided by the model; they count as steps without orders"
    if has_repeats and calls is not None and calls.cached:
        yield f"{member.path}: {calls.cached} of its replies came from the cache; what they repeat is not chance"
