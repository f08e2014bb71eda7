"""Frequency with which a model declined to trade (placed no order) under the mask, compared with
episodes in which identities are shown (KTD-Fin §1 and §5.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from scipy.special import bdtr

from ktdeval import stats
from ktdeval.cards import TradingEpisode
from ktdeval.errors import CardError
from ktdeval_compare.masks.mask_effects import check_variants
from ktdeval_compare.pairs.compared_cards import EntrantCard, check_windows, training_seed

BRIGHT, BLINDED = "bright", "blinded"
MASKS = (BRIGHT, BLINDED)

#: `traded`: an order was placed. `declined`: no order was placed, the model decided every step, and
#: nothing failed. `not known`: no order was placed, but in some step a submission was refused, a
#: call failed, a role was silent, or the model did not decide
Outcome = Literal["traded", "declined", "not known"]


# a tuple: keys are sorted
class EpisodeKey(NamedTuple):
    """Key by which a model's episodes under two masks are paired."""

    training_seed: str
    window: str
    seed: int


Outcomes = Mapping[EpisodeKey, Outcome]


@dataclass(frozen=True, kw_only=True)
class DeclinedShare:
    """Share of declined episodes under one mask, with its Wilson interval."""

    declined: int
    share: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class PairedOutcome:
    """Outcomes under both masks for one window and seed."""

    training_seed: str
    window: str
    seed: int
    bright: Outcome
    blinded: Outcome


@dataclass(frozen=True, kw_only=True)
class Declines:
    """Episodes that one model declined in one mode, under both masks."""

    model: str
    cohort: str
    mode: str
    n: int  #: number of pairs with known outcomes under both masks
    not_known: int  #: number of pairs with an unknown outcome
    unmatched: int  #: number of episodes that exist under only one of the masks
    bright: DeclinedShare
    blinded: DeclinedShare
    only_bright: int  #: number of pairs that were declined under bright and traded under blinded
    only_blinded: int
    p: float | None  #: p-value of McNemar's exact test; None if no pair has known outcomes
    reason: str | None
    cells: Sequence[PairedOutcome]


def declines(
    entrants: Sequence[EntrantCard], model: str, cohort: str, alpha: float
) -> Iterator[Declines]:
    """Yield one row for each mode in which the model has cards under both masks. Such cards belong
    to tasks whose names differ only in the mask.

    Raises CardError if cards differ in more than the mask and the training seed, or if two cards
    have the same window and seed.
    """
    groups: dict[tuple[str, str, str], list[EntrantCard]] = {}
    for entrant in entrants:
        task = entrant.card.task
        if task.mask not in MASKS:
            continue

        stem = "_".join(part for part in task.name.split("_") if part not in MASKS)
        key = (str(task.config.get("family")), task.mode, stem)
        groups.setdefault(key, []).append(entrant)

    for (_, mode, _), members in sorted(groups.items()):
        masks = {entrant.card.task.mask for entrant in members}
        if masks != set(MASKS):
            continue

        check_variants(members, "declines would mix that with the mask")
        check_windows(members)
        yield _declines_of(
            _outcomes(members, BRIGHT),
            _outcomes(members, BLINDED),
            names=(model, cohort, mode),
            alpha=alpha,
        )


def _outcomes(entrants: Sequence[EntrantCard], mask: str) -> Outcomes:
    """Return the outcome of each episode under one mask.

    Raises CardError if two episodes have the same key.
    """
    outcomes: dict[EpisodeKey, Outcome] = {}
    for entrant in entrants:
        if entrant.card.task.mask != mask:
            continue

        for episode in entrant.card.episodes:
            key = EpisodeKey(training_seed(entrant), episode.window, episode.seed)
            if key in outcomes:
                raise CardError(
                    f"{entrant.path}: another {mask} card of {entrant.label} has window"
                    f" {key.window} seed {key.seed}; give one"
                )

            outcomes[key] = _episode_outcome(episode)

    return outcomes


def _episode_outcome(episode: TradingEpisode) -> Outcome:
    if episode.orders.submitted:
        return "traded"
    decisions = episode.decisions
    if decisions.fallback or decisions.error or decisions.model_after_retry:
        return "not known"
    if any(episode.failures.values()):  # refused orders and failed tools do not show prudence
        return "not known"
    return "declined"


def _declines_of(
    bright: Outcomes, blinded: Outcomes, names: tuple[str, str, str], alpha: float
) -> Declines:
    model, cohort, mode = names
    matched = sorted(bright.keys() & blinded.keys())
    known = [key for key in matched if "not known" not in (bright[key], blinded[key])]
    only_bright = _declined_in_one(bright, blinded, known)
    only_blinded = _declined_in_one(blinded, bright, known)

    cells = [
        PairedOutcome(
            training_seed=key.training_seed,
            window=key.window,
            seed=key.seed,
            bright=bright[key],
            blinded=blinded[key],
        )
        for key in matched
    ]
    p = None
    reason = None
    if known:
        p = _mcnemar_p(only_bright, only_blinded)
    else:
        reason = "no window and seed whose outcome is known under both masks"

    return Declines(
        model=model,
        cohort=cohort,
        mode=mode,
        n=len(known),
        not_known=len(matched) - len(known),
        unmatched=len(bright) + len(blinded) - 2 * len(matched),
        bright=_declined_share(bright, known, alpha),
        blinded=_declined_share(blinded, known, alpha),
        only_bright=only_bright,
        only_blinded=only_blinded,
        p=p,
        reason=reason,
        cells=cells,
    )


def _declined_in_one(one: Outcomes, other: Outcomes, keys: Sequence[EpisodeKey]) -> int:
    """Count the episodes declined under one mask and traded under the other."""
    return sum(one[key] == "declined" and other[key] == "traded" for key in keys)


def _declined_share(outcomes: Outcomes, keys: Sequence[EpisodeKey], alpha: float) -> DeclinedShare:
    declined = sum(outcomes[key] == "declined" for key in keys)
    interval = stats.wilson(declined, len(keys), 1.0 - alpha)
    share = declined / len(keys) if keys else None
    return DeclinedShare(declined=declined, share=share, low=interval.low, high=interval.high)


def _mcnemar_p(only_first: int, only_second: int) -> float:
    """Return the p-value of McNemar's exact test. Under the null hypothesis, a discordant pair has
    probability 1/2 for each direction.
    """
    differing = only_first + only_second
    if differing == 0:
        return 1.0
    return min(1.0, 2.0 * float(bdtr(min(only_first, only_second), differing, 0.5)))
