"""Manifest of the commands that set cards beside each other: `compare`, `power`, `effects`, `luck`, `invariance`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.api import Spec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    import click


def _make_compare() -> click.Command:
    from ktdeval_compare.compare_command import compare

    return compare


def _make_power() -> click.Command:
    from ktdeval_compare.power_command import power

    return power


def _make_effects() -> click.Command:
    from ktdeval_compare.effects_command import effects

    return effects


def _make_luck() -> click.Command:
    from ktdeval_compare.luck_command import luck

    return luck


def _make_invariance() -> click.Command:
    from ktdeval_compare.invariance_command import invariance

    return invariance


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """The commands on several cards."""
    return [
        Spec("compare", _make_compare, "Test whether agents differ, paired by window and seed, and say which are tied."),
        Spec("power", _make_power, "Say what a plan of windows and seeds can tell apart, before it is run."),
        Spec("effects", _make_effects, "Say what stock, date, data and tools are worth, from cards of several masks and modes."),
        Spec("luck", _make_luck, "Say how much of a result is luck, and whether a ranking by return is one by selection."),
        Spec("invariance", _make_invariance, "Say how much changes when only the labels of the mask do: the noise floor."),
    ]
