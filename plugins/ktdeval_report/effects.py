"""Value of masks and modes, where a report's cards hold one agent under several of them.

The same contrasts and contributions as `ktdeval effects`, which tests them too; here they are computed wherever cards allow it,
and what does not go together is left out with the reason instead of being refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval import stats
from ktdeval.cards import system_labels
from ktdeval.jsonio import dumps_canonical
from ktdeval.stats import MASK_FACTORS, MODE_PIECES, VARIANT_FIELDS, Variant
from ktdeval.typed import encode_canonical
from ktdeval_report.inputs import Evaluation
from ktdeval_report.render import WORDS

Values = npt.NDArray[np.float64]

EFFECT_NAMES = WORDS["effects"]


@dataclass(frozen=True)
class Effect:
    """One effect. `low, high`: its 95 % interval; None where there is none, with `reason`."""

    agent: str  # the system, as tables call it
    where: str  # the mode that masks are compared in, or the mask that modes are
    name: str  # in words
    value: float | None  # mean over windows; None with `reason`
    low: float | None
    high: float | None
    n: int  # windows
    reason: str = ""  # what is missing


@dataclass(frozen=True)
class Effects:
    """All effects of a report on one metric, and what could not be compared."""

    metric: str
    unit: str
    masks: Sequence[Effect]
    modes: Sequence[Effect]
    notes: Sequence[str]


def find_effects(evaluations: Sequence[Evaluation], metric: str) -> Effects:
    """Mask effects within each mode, and contributions of modes within each mask, of every agent that has both sides."""
    masks: list[Effect] = []
    modes: list[Effect] = []
    notes: list[str] = []
    groups: dict[str, list[Evaluation]] = {}
    for evaluation in evaluations:
        if metric in evaluation.card.metrics:
            groups.setdefault(_identity(evaluation, metric), []).append(evaluation)
    names = system_labels(members[0].system for members in groups.values())
    for members in groups.values():
        cards: dict[Variant, Evaluation] = {}
        for one in members:
            variant = (one.card.task.mask, one.card.task.mode)
            if variant[0] in MASK_FACTORS and variant[1] in MODE_PIECES and cards.setdefault(variant, one) is not one:
                notes.append(f"{one.label}: a card of that mask and mode is there already; this one is left out")
        if len(cards) > 1:
            ordered = {variant: cards[variant] for variant in sorted(cards, key=stats.variant_order)}
            design = _Design(names[members[0].system], ordered, metric)
            masks += design.mask_effects()
            modes += design.ladders()
            notes += design.notes
    unit = next((one.card.metrics[metric].unit for one in evaluations if metric in one.card.metrics), "fraction")
    return Effects(metric, unit, masks, modes, list(dict.fromkeys(notes)))


def _identity(evaluation: Evaluation, metric: str) -> str:
    """Everything that must be equal for a difference to be one of mask and mode."""
    card = evaluation.card
    config = {name: value for name, value in card.task.config.items() if name not in VARIANT_FIELDS}
    facets = (evaluation.system, card.rules, card.limit, card.snapshot.id,
              card.task.version, config, card.windows, card.metrics[metric].formula)  # fmt: skip
    return encode_canonical(facets)


class _Design:
    """One agent's cards by mask and mode; each comparison is paired over the windows and seeds that its own cards share."""

    def __init__(self, agent: str, cards: Mapping[Variant, Evaluation], metric: str) -> None:
        self.agent, self.cards, self.metric = agent, cards, metric
        self.notes: list[str] = []

    def mask_effects(self) -> list[Effect]:
        """Contrasts of the masks of each mode that has bright and blinded."""
        effects = []
        for mode in dict.fromkeys(mode for _, mode in self.cards):
            variants = [variant for variant in self.cards if variant[1] == mode]
            if not {("bright", mode), ("blinded", mode)} <= set(variants):
                continue
            configs = [self.cards[variant].card.task.config for variant in variants]
            if len({dumps_canonical([config.get("prompts"), config.get("tools")]) for config in configs}) > 1:
                self.notes.append(f"{self.agent}: masks of {mode} have different prompts or tools and are not compared")
                continue
            values, correlation = self._values(variants, f"masks of {mode}")
            contrasts = stats.mask_contrasts({mask: values[mask, mode] for mask, _ in variants})
            effects += [self._effect(mode, EFFECT_NAMES[name], of, correlation) for name, of in contrasts.items()]
        return effects

    def ladders(self) -> list[Effect]:
        """Contributions of data and tools within each mask that has two modes; they add up to the total."""
        effects = []
        for mask in dict.fromkeys(mask for mask, _ in self.cards):
            variants = [variant for variant in self.cards if variant[0] == mask]
            if len(variants) < 2:
                continue
            values, correlation = self._values(variants, f"modes under {mask}")
            sets = {MODE_PIECES[mode]: values[mask, mode] for _, mode in variants}
            ends = f"total ({variants[0][1]} to {variants[-1][1]})"
            pieces = stats.ladder_contributions(sets).items()
            effects += [self._effect(mask, ends if piece == "total" else piece, of, correlation) for piece, of in pieces]
        return effects

    def _values(self, variants: Sequence[Variant], what: str) -> tuple[dict[Variant, Values], Values]:
        """[windows] means over paired seeds for each variant, and the correlation of the windows by shared days."""
        episodes = {variant: self.cards[variant].episodes() for variant in variants}
        rows = {
            cell: [value for of in episodes.values() if cell in of and (value := of[cell].metrics[self.metric].value) is not None]
            for cell in episodes[variants[0]]
        }
        days = {cell[0]: (entry.first_day, entry.last_day) for cell, entry in episodes[variants[0]].items()}
        left_out = stats.left_out_windows(days, self.cards[variants[0]].card.snapshot.year)
        self.notes += [f"{self.agent}: {what}: window {window} is left out: {reason}" for window, reason in left_out.items()]
        rows = {cell: row for cell, row in rows.items() if cell[0] not in left_out}
        whole = {cell: row for cell, row in rows.items() if len(row) == len(variants)}
        planned = len({cell for cell in set().union(*episodes.values()) if cell[0] not in left_out})
        if len(whole) < planned:
            self.notes.append(f"{self.agent}: {what}: {len(whole)} of {planned} (window, seed) have a figure on every card")
        windows, values = stats.window_means(variants, whole)
        return values, stats.overlap_correlation([days[window] for window in windows])

    def _effect(self, where: str, name: str, values: Values, correlation: Values) -> Effect:
        mean = stats.mean_with_interval(values, correlation)
        detail = mean.detail or {}
        reason = mean.reason or detail.get("reason") or ""
        return Effect(self.agent, where, name, mean.value, detail.get("low"), detail.get("high"), len(values), reason)
