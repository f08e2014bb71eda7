"""Options shared by tables and figures of papers, and the function that lists both."""

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
    """Options of InvestorBench's tables and figures; other tables and figures refuse them."""

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
    """Options of a table or figure."""

    def choices(self, kind: type[_ChoicesT], plugins: Plugins) -> _ChoicesT:
        """Return the choices of a table or figure that these options make."""
        known = {field.name for field in fields(self)}
        chosen = {}
        for field in fields(kind):
            if field.name in known:
                chosen[field.name] = getattr(self, field.name)

        return kind(plugins=plugins, **chosen)


def list_papers(known: Iterable[PaperTable], as_json: bool, more: Sequence[str] = ()) -> None:
    """Print tables or figures, each with its content and its place in the paper. `more`: additional
    fields to print.
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
