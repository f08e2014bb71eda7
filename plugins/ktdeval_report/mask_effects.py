"""Effects of masks and modes, for reports with cards of one agent under several masks or modes.

Contrasts and contributions are defined as in `ktdeval compare masks`, which also tests them. Here,
they are computed for all cards that can be compared; the other cards are skipped, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval import stats
from ktdeval.cards import TradingEpisode, facts_besides_variant, facts_of_mode, system_labels
from ktdeval.stats import MASK_FACTORS, MODE_PIECES, Variant
from ktdeval.values import encode_canonical
from ktdeval_report.inputs import Cell, ReportedCard
from ktdeval_report.value_formatting import WORDS
from ktdeval_report.window_means import WindowMean

Values = npt.NDArray[np.float64]

EFFECT_NAMES = WORDS["effects"]


@dataclass(frozen=True)
class Effect:
    """A single effect. `low` and `high` are the ends of its 95 % interval, or None with a `reason`
    if it is undefined.
    """

    agent: str  # name of the system in tables
    where: str  # mode in which masks are compared, or mask under which modes are compared
    name: str  # name of the effect
    value: float | None  # mean over windows; None with `reason`
    low: float | None
    high: float | None
    n: int  # number of windows
    reason: str = ""  # reason why a figure is missing


@dataclass(frozen=True)
class Effects:
    """All effects in a report on one metric, and notes on cards that could not be compared."""

    metric: str
    unit: str
    masks: Sequence[Effect]
    modes: Sequence[Effect]
    notes: Sequence[str]
    market_kind: str = ""  # `real` or `synthetic`, if a report has both kinds of markets


def find_effects(
    evaluations: Sequence[ReportedCard], metric: str, market_kind: str = ""
) -> Effects:
    """Return the mask effects within each mode, and the contributions of modes within each mask,
    for every agent with cards to compare. `market_kind` is stored in the result.
    """
    masks: list[Effect] = []
    modes: list[Effect] = []
    notes: list[str] = []
    unit = "fraction"

    groups: dict[str, list[ReportedCard]] = {}
    for evaluation in evaluations:
        if metric in evaluation.card.metrics:
            if not groups:
                unit = evaluation.card.metrics[metric].unit
            groups.setdefault(_identity(evaluation, metric), []).append(evaluation)

    names = system_labels(members[0].system for members in groups.values())
    for members in groups.values():
        cards = _by_variant(members, notes)
        if len(cards) > 1:
            design = _AgentDesign(names[members[0].system], cards, metric)
            masks += design.mask_effects()
            modes += design.ladders()
            notes += design.notes

    return Effects(metric, unit, masks, modes, list(dict.fromkeys(notes)), market_kind)


def _by_variant(members: Sequence[ReportedCard], notes: list[str]) -> dict[Variant, ReportedCard]:
    """Return the first card for each mask and mode, in the order of variants. Further cards get a
    note.
    """
    cards: dict[Variant, ReportedCard] = {}
    for one in members:
        mask, mode = one.card.task.mask, one.card.task.mode
        if mask not in MASK_FACTORS or mode not in MODE_PIECES:
            continue

        if (mask, mode) in cards:
            notes.append(
                f"{one.label}: a card of that mask and mode is there already; this one is left out"
            )
        else:
            cards[mask, mode] = one

    return {variant: cards[variant] for variant in sorted(cards, key=stats.variant_order)}


def _identity(evaluation: ReportedCard, metric: str) -> str:
    """Return all facts that must be equal for a difference to be caused by mask and mode."""
    card = evaluation.card
    config = facts_besides_variant(card.task.config)
    facets = (evaluation.system, card.rules, card.limit, card.snapshot.id,
              card.task.version, config, card.windows, card.metrics[metric].formula)  # fmt: skip

    return encode_canonical(facets)


class _AgentDesign:
    """Cards of an agent, keyed by mask and mode. Each comparison is paired over the windows and
    seeds that the compared cards share.
    """

    def __init__(self, agent: str, cards: Mapping[Variant, ReportedCard], metric: str) -> None:
        self.agent = agent
        self.cards = cards
        self.metric = metric
        self.notes: list[str] = []

    def mask_effects(self) -> list[Effect]:
        """Return the contrasts between masks in each mode that has both a bright and a blinded
        card.
        """
        effects = []
        # each mode once, in the order of variants
        modes = dict.fromkeys(mode for _, mode in self.cards)
        for mode in modes:
            variants = [variant for variant in self.cards if variant[1] == mode]
            if not {("bright", mode), ("blinded", mode)} <= set(variants):
                continue

            # A mask changes what prompts show. Different instructions or tools would be a second
            # cause of any effect.
            shown = set()
            for variant in variants:
                config = self.cards[variant].card.task.config
                shown.add(encode_canonical(facts_of_mode(config)))

            if len(shown) > 1:
                self.notes.append(
                    f"{self.agent}: masks of {mode} have different prompts or tools and are not"
                    " compared"
                )
                continue

            values, correlation = self._values(variants, f"masks of {mode}")
            by_mask = {mask: values[mask, mode] for mask, _ in variants}
            contrasts = stats.mask_contrasts(by_mask)
            for name, effect in contrasts.items():
                effects.append(self._effect(mode, EFFECT_NAMES[name], effect, correlation))

        return effects

    def ladders(self) -> list[Effect]:
        """Return the contributions of data and tools under each mask that has two modes. They sum
        to the total.
        """
        effects = []
        for mask in dict.fromkeys(mask for mask, _ in self.cards):
            variants = [variant for variant in self.cards if variant[0] == mask]
            if len(variants) < 2:
                continue

            values, correlation = self._values(variants, f"modes under {mask}")
            sets = {MODE_PIECES[mode]: values[mask, mode] for _, mode in variants}
            ends = f"total ({variants[0][1]} to {variants[-1][1]})"
            for piece, contribution in stats.ladder_contributions(sets).items():
                name = ends if piece == "total" else piece
                effects.append(self._effect(mask, name, contribution, correlation))

        return effects

    def _values(
        self, variants: Sequence[Variant], what: str
    ) -> tuple[dict[Variant, Values], Values]:
        """Return each variant's [windows] means over paired seeds, and the correlation between
        windows that share days.
        """
        episodes = {variant: self.cards[variant].episodes() for variant in variants}
        days = {}
        for (window, _), entry in episodes[variants[0]].items():
            days[window] = (entry.first_day, entry.last_day)

        excluded = stats.left_out_windows(days, self.cards[variants[0]].card.snapshot.days_a_year)
        for window, reason in excluded.items():
            self.notes.append(f"{self.agent}: {what}: window {window} is left out: {reason}")

        whole = {}
        for cell in episodes[variants[0]]:
            row = self._figures(cell, episodes.values())
            if cell[0] not in excluded and len(row) == len(variants):
                whole[cell] = row

        planned: set[Cell] = set()
        for cells in episodes.values():
            planned.update(cell for cell in cells if cell[0] not in excluded)

        if len(whole) < len(planned):
            self.notes.append(
                f"{self.agent}: {what}: {len(whole)} of {len(planned)} (window, seed) have a figure"
                " on every card"
            )

        windows, values = stats.window_means(variants, whole)
        return values, stats.overlap_correlation([days[window] for window in windows])

    def _figures(self, cell: Cell, cards: Iterable[Mapping[Cell, TradingEpisode]]) -> list[float]:
        """Return the figures for a window and seed, from the cards that have one."""
        figures = []
        for episodes in cards:
            if cell not in episodes:
                continue

            value = episodes[cell].metrics[self.metric].value
            if value is not None:
                figures.append(value)

        return figures

    def _effect(self, where: str, name: str, values: Values, correlation: Values) -> Effect:
        mean = WindowMean.of(stats.mean_with_interval(values, correlation))
        return Effect(
            self.agent, where, name, mean.value, mean.low, mean.high, len(values), mean.reason
        )
