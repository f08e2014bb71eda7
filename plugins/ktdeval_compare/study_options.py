"""Settings that several studies share, both for their commands and for the functions that the
commands call.
"""

from __future__ import annotations

from dataclasses import dataclass

import click

from ktdeval.cli import FiniteNumber, complete_names, flag


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """Metrics by which cards are compared."""

    metrics: tuple[str, ...] = flag(
        (),
        name="--metric",
        metavar="NAME,…",
        help="metric; may be repeated [default: total_return]",
    )


@dataclass(frozen=True, kw_only=True)
class LevelOptions:
    """Significance level for verdicts."""

    alpha: float = flag(
        0.05,
        type=FiniteNumber(0.0001, 0.5),
        help="two-sided significance level; intervals have level 1 - alpha",
    )


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Handling of cards that have finished different windows and seeds."""

    common: bool = flag(False, help="if cards differ in windows or seeds, use those that all have")


@dataclass(frozen=True, kw_only=True)
class ChanceOptions:
    """Seed for random draws."""

    seed: int = flag(
        0, type=click.IntRange(0), metavar="N", help="seed of simulations and bootstraps"
    )


@dataclass(frozen=True, kw_only=True)
class MetricTestOptions(MetricOptions, LevelOptions, CommonOptions, ChanceOptions):
    """Settings for tests of metrics on paired cards."""


@dataclass(frozen=True, kw_only=True)
class CohortOptions(LevelOptions, CommonOptions):
    """Settings for a report on cohorts."""

    cohorts: tuple[str, ...] = flag(
        (),
        name="--cohort",
        type=click.STRING,
        metavar="NAME=ITEM,…",
        help=(
            "a cohort: patterns of systems, run folders or cards; repeat the option for each "
            "cohort [default: all systems]"
        ),
    )
    task: str | None = flag(
        None,
        metavar="NAME",
        complete=complete_names("tasks"),
        help=(
            "task to use if there are cards of several tasks [default: the one with most models]"
        ),
    )
