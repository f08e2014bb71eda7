"""Options shared by the commands for tables and figures from papers, and a function that lists
tables or figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar

import click

from ktdeval.cli import (
    JsonOptions,
    MarketOptions,
    PluginOptions,
    flag,
    print_grid,
    print_json,
)
from ktdeval.registry import Median, PaperTable, Plugins, RuleSet, TableChoices

_ChoicesT = TypeVar("_ChoicesT", bound=TableChoices)


@dataclass(frozen=True, kw_only=True)
class InvestorBenchOptions:
    """Options for InvestorBench's tables and figures. Other tables and figures reject them."""

    rules: RuleSet | None = flag(None, help="InvestorBench: use only cards under this rule set")
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


@dataclass(frozen=True, kw_only=True)
class PaperOptions(JsonOptions, MarketOptions, InvestorBenchOptions, PluginOptions):
    """Options for a table or figure."""

    def choices(self, kind: type[_ChoicesT], plugins: Plugins) -> _ChoicesT:
        """Return the choices for a table or figure that correspond to these options."""
        known = {field.name for field in fields(self)}
        chosen = {}
        for field in fields(kind):
            if field.name in known:
                chosen[field.name] = getattr(self, field.name)

        return kind(plugins=plugins, **chosen)


def list_papers(known: Iterable[PaperTable], as_json: bool, more: Sequence[str] = ()) -> None:
    """Print a list of tables or figures, each with what it shows and where it is in the paper.
    `more` names additional fields to print.
    """
    papers = list(known)
    if as_json:
        names = ("name", "caption", "source", *more)
        print_json([{name: getattr(each, name) for name in names} for each in papers])
        return

    heads = ("name", "source", "shows", *more)
    fields_shown = ("name", "source", "caption", *more)
    rows = [[getattr(each, name) for name in fields_shown] for each in papers]
    print_grid(heads, rows, heads)
