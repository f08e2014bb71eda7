"""How often a model places no order at all when identities are hidden, against when they show (KTD-Fin §1 and §5.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scipy.stats import binomtest

from ktdeval.cards import TradingEpisode
from ktdeval.errors import CardError
from ktdeval.stats import wilson
from ktdeval_compare.effects import check_variants
from ktdeval_compare.entrants import Entrant, Row, check_windows, training_seed

MASKS = ("bright", "blinded")
Key = tuple[str, str, int]  #: training seed, window, seed


def outcome(episode: TradingEpisode) -> str:
    """`traded`; `declined`: no order, and every step is a decision of the model; `not known`: no order, but some step is not."""
    if episode.orders.submitted:
        return "traded"
    return "not known" if episode.decisions.fallback or episode.decisions.error else "declined"


def declines(entrants: Sequence[Entrant], alpha: float) -> Iterator[Row]:
    """Rows of one model, one for each mode with cards under both masks, of tasks whose names differ in the mask alone: in how many
    of the same (window, seed) it placed no order. A cell counts as `not_known` where one mask's outcome is not. Raises CardError:
    cards differ in something else than the mask and the training seed, or two have one cell.
    """
    groups: dict[tuple[str, ...], list[Entrant]] = {}
    for entrant in entrants:
        if (task := entrant.card.task).mask in MASKS:
            stem = "_".join(part for part in task.name.split("_") if part not in MASKS)
            groups.setdefault((str(task.config.get("family")), task.mode, stem), []).append(entrant)
    for (_, mode, _), members in sorted(groups.items()):
        if {entrant.card.task.mask for entrant in members} == set(MASKS):
            check_variants(members, "declines would mix that with the mask")
            check_windows(members)
            yield {"mode": mode, **_row({mask: _outcomes(members, mask) for mask in MASKS}, alpha)}


def _outcomes(entrants: Sequence[Entrant], mask: str) -> dict[Key, str]:
    found: dict[Key, str] = {}
    for entrant in entrants:
        for episode in entrant.card.episodes if entrant.card.task.mask == mask else ():
            key = (training_seed(entrant), episode.window, episode.seed)
            if key in found:
                raise CardError(
                    f"{entrant.path}: another {mask} card of {entrant.label} has window {key[1]} seed {key[2]}; give one"
                )
            found[key] = outcome(episode)
    return found


def _row(cells: Mapping[str, Mapping[Key, str]], alpha: float) -> Row:
    bright, blinded = (cells[mask] for mask in MASKS)
    matched = sorted(bright.keys() & blinded.keys())
    known = [key for key in matched if "not known" not in (bright[key], blinded[key])]
    only_bright, only_blinded = (sum((one[key], other[key]) == ("declined", "traded") for key in known)
                                 for one, other in ((bright, blinded), (blinded, bright)))  # fmt: skip
    row: Row = {"n": len(known), "not_known": len(matched) - len(known), "unmatched": len(bright) + len(blinded) - 2 * len(matched)}
    for mask in MASKS:
        count = sum(cells[mask][key] == "declined" for key in known)
        share = wilson(count, len(known), 1.0 - alpha)
        row[mask] = {"declined": count, "share": count / len(known) if known else None, "low": share.low, "high": share.high}
    # McNemar's exact test: given how many cells differ, either direction has probability 1/2.
    p = float(binomtest(only_blinded, n).pvalue) if (n := only_bright + only_blinded) else 1.0
    listed = [
        {"training_seed": key[0], "window": key[1], "seed": key[2], **{mask: cells[mask][key] for mask in MASKS}} for key in matched
    ]
    row |= {"only_bright": only_bright, "only_blinded": only_blinded, "p": p if known else None}
    return {**row, "reason": None if known else "no window and seed whose outcome is known under both masks", "cells": listed}
