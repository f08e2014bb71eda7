"""Value of stock, date, data and tools. Takes one or more agents' cards under several masks and
modes, and returns one JSON report.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import msgspec

from ktdeval import stats
from ktdeval.cards import System, facts_besides_variant, facts_of_mode, system_labels
from ktdeval.errors import CardError
from ktdeval.stats import MASK_FACTORS, MODE_PIECES, Variant
from ktdeval_compare.pairs.compared_cards import (
    Cell,
    EntrantCard,
    Values,
    by_system,
    chosen_metrics,
    flag_notes,
    label,
    left_out_notes,
    notes_of_groups,
    paired_cells,
    spans,
)
from ktdeval_compare.pairs.shared_facts import (
    MARKET_FACETS,
    check_same,
    check_same_config,
    facets,
)
from ktdeval_compare.pairs.signed_ranks import rank_test_of
from ktdeval_compare.study_options import MetricTestOptions

#: Sets of masks over which contributions can be averaged, largest set first
_MASK_SETS = (tuple(MASK_FACTORS), ("bright", "blinded"))


@dataclass(frozen=True)
class EffectsOptions(MetricTestOptions):
    """Settings for the analysis."""


@dataclass(frozen=True)
class MaskDesign:
    """An agent's cards by mask and mode, paired."""

    name: str  #: name of the agent in tables
    cards: Mapping[Variant, EntrantCard]  #: mask and mode -> card
    cells: Sequence[Cell]  #: (window, seed) cells that occur on all cards
    metrics: Sequence[str]

    @property
    def first(self) -> EntrantCard:
        """Any of the cards, for facts that all cards share."""
        return next(iter(self.cards.values()))


class EffectRow(msgspec.Struct, frozen=True, kw_only=True):
    """Effect of a mask within one mode: the mean over windows."""

    agent: str
    metric: str
    unit: str
    mode: str
    effect: str
    n: int  #: windows
    value: float | None
    low: float | None
    high: float | None
    se: float | None
    t_p: float | None  #: p-value of the t test
    p: float | None  #: p-value of the signed-rank test
    reason: str | None
    p_holm: float | None = None  #: corrected over all rows of the report
    verdict: str | None = None


class LadderRow(msgspec.Struct, frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """Contribution of a piece of information, averaged over the orders in which it can be added."""

    agent: str
    metric: str
    unit: str
    over: str  #: masks over which the contribution is averaged
    start: str  #: mask and mode at which the ladder starts
    end: str
    piece: str
    n: int
    value: float | None
    low: float | None
    high: float | None
    se: float | None
    t_p: float | None
    p: float | None
    reason: str | None


@dataclass(frozen=True)
class DesignCard:
    """A card in a design."""

    agent: str
    mask: str
    mode: str
    path: str


@dataclass(frozen=True, kw_only=True)
class EffectsReport:
    """Report of `ktdeval compare masks`."""

    alpha: float
    seed: int
    cards: Sequence[DesignCard]
    effects: Sequence[EffectRow]
    ladder: Sequence[LadderRow]  #: the rows of one ladder sum to its `total` row
    notes: Sequence[str]


def effects(entrants: Sequence[EntrantCard], options: EffectsOptions) -> EffectsReport:
    """For each agent and metric, report mask effects within each mode, and order-averaged
    contributions of modes and masks.

    Raises CardError if the cards differ in more than mask and mode, or can't be paired.
    """
    designs = [_design(name, members, options) for name, members in _by_agent(entrants).items()]
    rows: list[EffectRow] = []
    ladder: list[LadderRow] = []
    cards: list[DesignCard] = []
    notes: dict[str, list[str]] = {}

    for design in designs:
        entrants_of_design = list(design.cards.values())
        of_design = [*left_out_notes(entrants_of_design), *flag_notes(entrants_of_design)]
        for metric in design.metrics:
            table = _MetricTable(design, metric, options)
            rows += table.mask_effects()
            ladder += table.ladders()
            of_design += table.notes()

        notes[design.name] = of_design
        for (mask, mode), entrant in design.cards.items():
            cards.append(DesignCard(design.name, mask, mode, str(entrant.path)))

    if not rows and not ladder:
        needed = (
            "give cards of one mode with at least two masks (bright and blinded), or of two modes"
        )
        if len(designs) > 1:
            names = ", ".join(design.name for design in designs)
            needed += f", of one system; these are of {names}"

        raise CardError(f"nothing to compare: {needed}")

    return EffectsReport(
        alpha=options.alpha,
        seed=options.seed,
        cards=cards,
        effects=_with_verdicts(rows, options.alpha),
        ladder=ladder,
        notes=list(notes_of_groups(notes)),
    )


def _with_verdicts(rows: Sequence[EffectRow], alpha: float) -> list[EffectRow]:
    corrected = stats.holm([row.p for row in rows])
    return [
        msgspec.structs.replace(row, p_holm=p, verdict=_effect_verdict(row.value, p, alpha))
        for row, p in zip(rows, corrected, strict=True)
    ]


def _effect_verdict(value: float | None, p: float | None, alpha: float) -> str | None:
    if value is None or p is None:
        return None
    if p > alpha:
        return "not shown"
    return "above zero" if value > 0 else "below zero"


# ---- designs


def _by_agent(entrants: Sequence[EntrantCard]) -> dict[str, list[EntrantCard]]:
    """Return the cards by the label of their system.

    Raises CardError if two systems have one card each, with different masks or modes, and differ
    only in their call settings.
    """
    groups = by_system(entrants)
    check_counterparts(groups, "an effect would mix that with mask and mode")
    names = system_labels(groups)

    return {names[system]: members for system, members in groups.items()}


def check_counterparts(groups: Mapping[System, Sequence[EntrantCard]], then: str) -> None:
    """Raise CardError if two systems with one card each differ only in their call settings, but
    have different masks or modes. The two cards were meant to belong to one system.

    The error message ends with `then`.
    """
    alone: dict[System, EntrantCard] = {}
    for system, members in groups.items():
        if len(members) > 1:
            continue

        other = alone.setdefault(replace(system, call=()), members[0])
        variants = {
            (entrant.card.task.mask, entrant.card.task.mode) for entrant in (other, members[0])
        }
        if len(variants) > 1:
            check_same(
                [other, members[0]], facets("call parameters", "ways of sending calls"), then
            )


def check_variants(members: Sequence[EntrantCard], then: str) -> None:
    """Raise CardError if cards differ in more than mask and mode. The message ends with `then`."""
    check_same(members, facets("call parameters", "task versions", *MARKET_FACETS), then)
    check_same_config(members, then, facts_besides_variant)

    # Prompts and tools may differ between modes, but not within one mode.
    for mode in dict.fromkeys(member.card.task.mode for member in members):
        of_mode = [member for member in members if member.card.task.mode == mode]
        check_same_config(of_mode, then, facts_of_mode)


def _design(name: str, members: Sequence[EntrantCard], options: EffectsOptions) -> MaskDesign:
    check_variants(members, "an effect would mix that with mask and mode")
    cards: dict[Variant, EntrantCard] = {}
    for member in label(members):
        variant = (member.card.task.mask, member.card.task.mode)
        if variant in cards:
            raise CardError(
                f"{member.path} and {cards[variant].path} are both {' '.join(variant)} of {name};"
                " give one of them"
            )
        if member.card.task.mask not in MASK_FACTORS or member.card.task.mode not in MODE_PIECES:
            raise CardError(
                f"{member.path}: mask {variant[0]} in mode {variant[1]} is not part of a design of"
                " masks and modes"
            )

        cards[variant] = member

    order = sorted(cards, key=stats.variant_order)
    members = [cards[variant] for variant in order]
    return MaskDesign(
        name,
        {variant: cards[variant] for variant in order},
        paired_cells(members, options.common),
        chosen_metrics(members, options.metrics),
    )


class _MetricTable:
    """One metric in one design: paired values for each mask and mode, [windows] each."""

    def __init__(self, design: MaskDesign, metric: str, options: EffectsOptions) -> None:
        self.design = design
        self.metric = metric
        self.options = options
        self.left_out: Counter[str] = Counter()
        figures = self._figures()
        self.windows, self.values = stats.window_means(list(design.cards), figures)
        self.correlation = stats.overlap_correlation(spans(design.first, self.windows))

    def _figures(self) -> dict[Cell, list[float]]:
        """Return the figures of all variants by cell. Also count the cells in which a figure is
        undefined, by reason.
        """
        episodes = {variant: card.episodes() for variant, card in self.design.cards.items()}
        figures: dict[Cell, list[float]] = {}
        never = 0

        for cell in self.design.cells:
            known: list[float] = []
            undefined: list[str] = []
            is_never = False
            for variant, of_variant in episodes.items():
                entry = of_variant[cell].metrics[self.metric]
                is_never = is_never or entry.ordered == math.inf
                if entry.value is None:
                    undefined.append(f"{' '.join(variant)}: {entry.reason}")
                else:
                    known.append(entry.value)

            never += is_never
            if undefined:
                self.left_out[undefined[0]] += 1
            else:
                figures[cell] = known

        # Effects over only the remaining cells would omit the cells in which a variant performs
        # worst.
        if never:
            cells = len(self.design.cells)
            self.left_out = Counter({stats.never_in(never, cells): cells})
            return {}

        return figures

    def mask_effects(self) -> list[EffectRow]:
        """Return the mask contrasts within each mode that has cards under bright and blinded."""
        rows = []
        for mode in dict.fromkeys(mode for _, mode in self.values):
            cells = {mask: values for (mask, of), values in self.values.items() if of == mode}
            for name, values in stats.mask_contrasts(cells).items():
                rows.append(EffectRow(mode=mode, effect=name, **self._mean_fields(values)))
        return rows

    def ladders(self) -> list[LadderRow]:
        """Return order-averaged contributions, first over modes for each mask, then jointly over
        masks and modes.
        """
        modes = list(dict.fromkeys(mode for _, mode in self.values))
        if len(modes) < 2:
            return []

        masks = []
        for mask in MASK_FACTORS:
            if all((mask, mode) in self.values for mode in modes):
                masks.append(mask)

        rows = []
        for mask in masks:
            rows += self._ladder(mask, [mask], modes)

        for together in _MASK_SETS:
            if set(together) <= set(masks):
                rows += self._ladder(f"{len(together)} masks", together, modes)
                break

        return rows

    def _ladder(self, name: str, masks: Sequence[str], modes: Sequence[str]) -> list[LadderRow]:
        given: dict[frozenset[str], Values] = {}
        for mask in masks:
            for mode in modes:
                given[frozenset(MASK_FACTORS[mask] | MODE_PIECES[mode])] = self.values[mask, mode]

        rows = []
        for piece, values in stats.ladder_contributions(given).items():
            rows.append(
                LadderRow(
                    over=name,
                    start=f"{masks[-1]} {modes[0]}",
                    end=f"{masks[0]} {modes[-1]}",
                    piece=piece,
                    **self._mean_fields(values),
                )
            )
        return rows

    def _mean_fields(self, values: Values) -> dict[str, Any]:
        """Return the fields that effect rows and ladder rows share: the mean over windows with its
        interval, and the result of the signed-rank test.
        """
        definition = self.design.first.card.metrics[self.metric]
        mean = stats.estimate_mean(values, self.correlation, 1.0 - self.options.alpha)
        ranks = rank_test_of(values, self.correlation, self.options.seed)
        return {
            "agent": self.design.name,
            "metric": self.metric,
            "unit": definition.unit,
            "p": ranks.p,
            **asdict(mean),
        }

    def notes(self) -> Iterator[str]:
        """Yield one line for each reason why figures are undefined, and one line if windows share
        days.
        """
        for reason, count in self.left_out.items():
            yield f"{self.metric}: {count} (window, seed) left out: {reason}"

        worth = stats.effective_count(self.correlation)
        if worth < len(self.windows) - 1e-9:
            windows = f"{len(self.windows)} overlapping windows = {worth:.1f} effective windows"
            yield f"windows share days: {windows}; intervals and p account for it"
