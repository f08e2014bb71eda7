"""Options by which InvestorBench's tables and figures choose among epochs and models."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ktdeval.cli import flag
from ktdeval.registry import Median, RuleSet


@dataclass(frozen=True, kw_only=True)
class InvestorBenchOptions:
    """What InvestorBench's tables and figures take; others refuse them by name."""

    rules: RuleSet | None = flag(None, help="InvestorBench: take only the cards by this rule set")
    median: Median = flag(
        "trajectory",
        help=(
            "InvestorBench: figures of the epoch with the median Sharpe ratio, or the median of"
            " each figure over the epochs"
        ),
    )
    classes: tuple[str, ...] = flag(
        (),
        name="--class",
        type=click.STRING,
        metavar="MODEL=TYPE:BILLIONS|FILE",
        help="InvestorBench: class of a model, or a YAML file of patterns; may be repeated",
    )
