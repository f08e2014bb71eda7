"""Value of stock, date, data and tools: cards of one agent under several masks and modes in, one JSON report out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ktdeval import stats
from ktdeval.cards import System, system_labels
from ktdeval.errors import CardError
from ktdeval.fields import option
from ktdeval.stats import MASK_FACTORS, MODE_PIECES, VARIANT_FIELDS, Variant
from ktdeval_compare.compare import NULL_DRAWS
from ktdeval_compare.entrants import (
    MARKET_FACETS,
    Cell,
    Entrant,
    Row,
    Values,
    by_system,
    check_same,
    chosen_metrics,
    facets,
    flag_notes,
    label,
    left_out_notes,
    notes_of_groups,
    paired_cells,
    spans,
)

_MASK_SETS = (tuple(MASK_FACTORS), ("bright", "blinded"))  #: Sets of masks over which contributions can be averaged, largest first


@dataclass(frozen=True)
class Options:
    """Settings of an analysis."""

    metrics: tuple[str, ...] = ()  #: names; `total_return` when empty
    alpha: float = option(0.05, help="level of verdicts, and of the intervals (1 - alpha)", minimum=0.0001, maximum=0.5)
    common: bool = False  #: where cards differ in windows or seeds, use those that all have
    seed: int = option(0, help="of the simulation where windows share days", minimum=0)


@dataclass(frozen=True)
class Design:
    """One agent's cards by mask and mode, paired."""

    name: str  #: the agent, as tables call it
    cards: Mapping[Variant, Entrant]  #: mask and mode -> card
    cells: Sequence[Cell]  #: the (window, seed) that all have
    metrics: Sequence[str]

    @property
    def first(self) -> Entrant:
        """Any of the cards, for what all share."""
        return next(iter(self.cards.values()))


def effects(entrants: Sequence[Entrant], options: Options) -> Row:
    """Mask effects within each mode, and order-averaged contributions of modes and masks, for each agent and metric.

    Returns `effects` (rows with mean over windows, interval, p), `ladder` (rows that add up to their `total` row), `notes`. Raises
    CardError: the cards differ in something else than mask and mode, or can't be paired; says why.
    """
    designs = [_design(name, members, options) for name, members in _by_agent(entrants).items()]
    rows: list[Row] = []
    ladder: list[Row] = []
    notes: dict[str, list[str]] = {}
    for design in designs:
        cards = list(design.cards.values())
        notes[design.name] = [*left_out_notes(cards), *flag_notes(cards)]
        for metric in design.metrics:
            table = _Table(design, metric, options)
            rows += table.mask_effects()
            ladder += table.ladders()
            notes[design.name] += table.notes()
    if not rows and not ladder:
        needed = "give cards of at least two masks of one mode (bright and blinded), or modes"
        if len(designs) > 1:
            needed += f", of one system; these are of {', '.join(design.name for design in designs)}"
        raise CardError(f"nothing to set against each other: {needed}")
    for row, corrected in zip(rows, stats.holm([row["p"] for row in rows]), strict=True):
        row |= {"p_holm": corrected, "verdict": _verdict(row["value"], corrected, options.alpha)}
    listed = [{"agent": design.name, "mask": mask, "mode": mode, "path": str(entrant.path)}
              for design in designs for (mask, mode), entrant in design.cards.items()]  # fmt: skip
    report = {"alpha": options.alpha, "seed": options.seed, "cards": listed, "effects": rows, "ladder": ladder}
    return {**report, "notes": list(notes_of_groups(notes))}


def _verdict(value: float | None, p: float | None, alpha: float) -> str | None:
    if value is None or p is None:
        return None
    return "not shown" if p > alpha else "above zero" if value > 0 else "below zero"


def _by_agent(entrants: Sequence[Entrant]) -> dict[str, list[Entrant]]:
    """Cards by the label of their system. Raises CardError: of a system there is one card, and its counterpart differs from it in
    the settings of calls.
    """
    groups = by_system(entrants)
    check_counterparts(groups, "an effect would mix that with mask and mode")
    names = system_labels(groups)
    return {names[system]: members for system, members in groups.items()}


def check_counterparts(groups: Mapping[System, Sequence[Entrant]], then: str) -> None:
    """Refuse systems of one card each that differ in the settings of calls alone, but have other masks or modes: they were meant to
    be one. Raises CardError: with `then` as the last words.
    """
    alone: dict[System, Entrant] = {}
    for system, members in groups.items():
        if len(members) > 1:
            continue
        other = alone.setdefault(replace(system, call=()), members[0])
        variants = {(entrant.card.task.mask, entrant.card.task.mode) for entrant in (other, members[0])}
        if len(variants) > 1:
            check_same([other, members[0]], facets("call parameters", "ways of sending calls"), then)


def _shared_config(entrant: Entrant) -> Row:
    return {name: value for name, value in entrant.card.task.config.items() if name not in VARIANT_FIELDS}


def check_variants(members: Sequence[Entrant], then: str) -> None:
    """Refuse cards that differ in something else than mask and mode. Raises CardError: with `then` as the last words."""
    same = {
        **facets("call parameters", "task versions", *MARKET_FACETS),
        **{f"task configs ({field})": lambda entrant, of=field: _shared_config(entrant).get(of)  # type: ignore[misc]
           for field in sorted({field for member in members for field in _shared_config(member)})},
    }  # fmt: skip
    check_same(members, same, then)
    for mode in dict.fromkeys(member.card.task.mode for member in members):
        check_same([member for member in members if member.card.task.mode == mode],
                   {name: lambda entrant, of=name: entrant.card.task.config.get(of) for name in ("prompts", "tools")},  # type: ignore[misc]
                   then)  # fmt: skip


def _design(name: str, members: Sequence[Entrant], options: Options) -> Design:
    check_variants(members, "an effect would mix that with mask and mode")
    cards: dict[Variant, Entrant] = {}
    for member in label(members):
        variant = (member.card.task.mask, member.card.task.mode)
        if variant in cards:
            raise CardError(f"{member.path} and {cards[variant].path} are both {' '.join(variant)} of {name}; give one of them")
        if member.card.task.mask not in MASK_FACTORS or member.card.task.mode not in MODE_PIECES:
            raise CardError(f"{member.path}: mask {variant[0]} in mode {variant[1]} is no part of a design of masks and modes")
        cards[variant] = member
    order = sorted(cards, key=stats.variant_order)
    members = [cards[variant] for variant in order]
    return Design(name, {variant: cards[variant] for variant in order},
                  paired_cells(members, options.common), chosen_metrics(members, options.metrics))  # fmt: skip


class _Table:
    """One metric of one design: values by mask and mode, each [windows], paired."""

    def __init__(self, design: Design, metric: str, options: Options) -> None:
        self.design, self.metric, self.options = design, metric, options
        episodes = {variant: card.episodes() for variant, card in design.cards.items()}
        self.left_out: Counter[str] = Counter()
        figures: dict[Cell, list[float]] = {}
        never = 0
        for cell in design.cells:
            entries = {variant: of[cell].metrics[metric] for variant, of in episodes.items()}
            never += any(entry.ordered == math.inf for entry in entries.values())
            known = [entry.value for entry in entries.values() if entry.value is not None]
            if len(known) == len(entries):
                figures[cell] = known
            else:
                variant, entry = next((variant, entry) for variant, entry in entries.items() if entry.value is None)
                self.left_out[f"{' '.join(variant)}: {entry.reason}"] += 1
        if never:  # effects over the other cells would leave out those in which a variant does worst
            figures, self.left_out = {}, Counter({stats.never_in(never, len(design.cells)): len(design.cells)})
        self.windows, self.values = stats.window_means(list(episodes), figures)
        self.correlation = stats.overlap_correlation(spans(design.first, self.windows))

    def mask_effects(self) -> list[Row]:
        """Contrasts of masks within each mode that has bright and blinded."""
        rows = []
        for mode in dict.fromkeys(mode for _, mode in self.values):
            cells = {mask: values for (mask, of), values in self.values.items() if of == mode}
            rows += [self._row({"mode": mode, "effect": name}, values) for name, values in stats.mask_contrasts(cells).items()]
        return rows

    def ladders(self) -> list[Row]:
        """Order-averaged contributions: over modes for each mask, then over masks and modes together."""
        modes = list(dict.fromkeys(mode for _, mode in self.values))
        masks = [mask for mask in MASK_FACTORS if all((mask, mode) in self.values for mode in modes)]
        if len(modes) < 2:
            return []
        rows = [row for mask in masks for row in self._ladder(f"{mask}", [mask], modes)]
        for together in _MASK_SETS:
            if set(together) <= set(masks):
                rows += self._ladder(f"{len(together)} masks", together, modes)
                break
        return rows

    def _ladder(self, name: str, masks: Sequence[str], modes: Sequence[str]) -> list[Row]:
        sets = {frozenset(MASK_FACTORS[mask] | MODE_PIECES[mode]): self.values[mask, mode] for mask in masks for mode in modes}
        where = {"over": name, "from": f"{masks[-1]} {modes[0]}", "to": f"{masks[0]} {modes[-1]}"}
        return [self._row({**where, "piece": piece}, values) for piece, values in stats.ladder_contributions(sets).items()]

    def _row(self, keys: Row, values: Values) -> Row:
        """Mean over windows with its interval, and the signed-rank test."""
        definition = self.design.first.card.metrics[self.metric]
        mean = stats.mean_with_interval(values, self.correlation, 1.0 - self.options.alpha)
        detail = mean.detail or {"low": None, "high": None, "se": None, "t_p": None}
        moving = np.flatnonzero(stats.levelled(values))
        correlation = self.correlation[np.ix_(moving, moving)]
        dependent = len(moving) > 0 and correlation.sum() > len(moving)
        ranks = stats.signed_rank(
            values, null=stats.correlated_null(correlation, NULL_DRAWS, self.options.seed) if dependent else None
        )
        row: Row = {"agent": self.design.name, "metric": self.metric, "unit": definition.unit, **keys, "n": len(values)}
        return {**row, "value": mean.value, **detail, "p": ranks.p, "reason": mean.reason or detail.get("reason")}

    def notes(self) -> Iterator[str]:
        """Yield what a reader must know of pairs left out and of windows that share days."""
        for reason, count in self.left_out.items():
            yield f"{self.metric}: {count} (window, seed) left out: {reason}"
        worth = stats.effective_count(self.correlation)
        if worth < len(self.windows) - 1e-9:
            windows = f"{len(self.windows)} overlapping windows = {worth:.1f} effective windows"
            yield f"windows share days: {windows}; intervals and p allow for it"
