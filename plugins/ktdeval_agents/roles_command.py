"""`ktdeval view roles`: a run's model calls, summed by the role that made them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import click

from ktdeval.cards import (
    UNDEFINED,
    PriceEntry,
    ScoringCard,
    TradingCard,
    dollars,
    load_card,
    not_counted,
)
from ktdeval.cli import JsonOptions, RunPath, example, options_of, print_grid
from ktdeval.errors import UsageError
from ktdeval.harness import Usage
from ktdeval.runner import RecordedExchange, RunFolder
from ktdeval.values import JsonValue, dumps_pretty
from ktdeval_agents.prompt_prefix_reuse import ReusedPrefix, calls_with_prefix

NO_ROLE = "(no role)"
_COUNTS = ("calls", "failed", "empty", "turns", "silent", "uncounted")
_COLUMNS = (
    "role",
    "model",
    "calls",
    "failed",
    "empty",
    "turns",
    "silent",
    "input tokens",
    "output tokens",
    "reused prefix, %",
    "USD",
)


@dataclass(frozen=True, slots=True)
class RoleModel:
    """A role and the model that it called."""

    role: str
    model: str


@dataclass
class SummedRoleUsage:
    """One role's calls to one model, summed over the finished episodes of a run."""

    calls: int = 0
    failed: int = 0  #: calls without a reply
    empty: int = 0  #: replies with neither text nor tool calls
    turns: int = 0  #: turns of a role other than the one that submits
    silent: int = 0  #: number of these without a usable answer
    #: replies whose tokens the provider did not count; always 0 for a free model
    uncounted: int = 0
    usage: Usage = field(default_factory=Usage)
    #: reused prefix of the requests' texts (tokens that a provider read from its cache are counted
    #: in `usage`)
    prefix: ReusedPrefix = field(default_factory=ReusedPrefix)

    def add(self, exchange: RecordedExchange, is_free: bool) -> None:
        """Count a call. The tokens of a free model may be uncounted."""
        call = exchange.usage
        self.calls += call.calls
        self.failed += call.failed
        self.empty += call.empty
        self.turns += call.turns
        self.silent += call.silent
        self.usage += call.tokens
        if not is_free:
            self.uncounted += call.uncounted

    def usd(self, price: PriceEntry | None) -> float | None:
        """Return the cost of the tokens in US dollars; None if the price or a token count is
        unknown.
        """
        if price is None or self.uncounted:
            return None
        return price.cost(self.usage)

    def to_json(self, price: PriceEntry | None) -> dict[str, JsonValue]:
        """Return the counts keyed by name; `usd` is null if the price or a token count is unknown."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        reused: dict[str, JsonValue] = {
            "characters": self.prefix.characters,
            "reused_in_step_pct": self.prefix.step_pct,
            "reused_in_episode_pct": self.prefix.episode_pct,
        }
        return {**counts, **self.usage.to_json(), **reused, "usd": self.usd(price)}


def usage_by_role(folder: RunFolder) -> dict[RoleModel, SummedRoleUsage]:
    """Return the calls of each role to each model, in the order of their first calls. Raises
    UsageError if no episode is finished. Raises StoreError if a record can't be read.
    """
    finished = folder.complete_specs()
    if not finished:
        raise UsageError(f"{folder.path}: no episode is finished; resume the run first")

    by_role: dict[RoleModel, SummedRoleUsage] = {}
    for spec in finished:
        transcript = folder.load_transcript(spec)
        for exchange, prefix in calls_with_prefix(transcript, f"{folder.path}: a call"):
            model = exchange.model or folder.manifest.specs[0].model
            asked = RoleModel(exchange.role or NO_ROLE, model)
            role = by_role.setdefault(asked, SummedRoleUsage())
            role.prefix += prefix
            role.add(exchange, folder.manifest.is_free)

    return by_role


def _model_prices(folder: RunFolder) -> dict[str, PriceEntry | None]:
    """Return the price of each model in a run. The price of the run's own model is from the run's
    cards, and None if they lack it; prices of additional models are from the manifest.
    """
    manifest = folder.manifest
    prices: dict[str, PriceEntry | None] = {manifest.specs[0].model: None}
    for name, facts in manifest.further_models.items():
        prices[name] = facts.price

    for path in sorted((folder.path / "cards").glob("*.json")):
        card = load_card(path)
        if isinstance(card, TradingCard | ScoringCard) and isinstance(card.cost.price, PriceEntry):
            prices[card.model.name] = card.cost.price
            break

    return prices


@example("ktdeval view roles ktdeval-runs/team")
@click.command()
@click.argument("run", type=RunPath(), metavar="RUN")
@options_of(JsonOptions)
def roles(run: Path, options: JsonOptions) -> None:
    """Count calls, tokens and cost of a run by the role that asked and the model that was asked.

    RUN is a run folder, which is only read; finished episodes count. A turn of a role is silent if
    it ended without a usable answer; the role that submits has no turns, and its failed steps are
    on the card. Tokens are those of the
    replies, cached or not, and the price is that of the run's cards. The reused prefix is the
    share of the requests' characters with which an earlier request of the same step began, too; it
    is computed from the requests, whatever the provider's cache did. With --json a role that asked
    one model is one object, one that asked several an object for each, by `ROLE @ MODEL`.
    """
    folder = RunFolder.load(run)
    by_role = usage_by_role(folder)
    prices = _model_prices(folder)
    if options.as_json:
        names = _role_names(by_role)
        report: dict[str, JsonValue] = {}
        for asked, role in by_role.items():
            counts = role.to_json(prices.get(asked.model))
            report[names[asked]] = {"model": asked.model, **counts}

        click.echo(dumps_pretty(report), nl=False)
        return

    costs = {asked: role.usd(prices.get(asked.model)) for asked, role in by_role.items()}
    total = SummedRoleUsage(usage=sum((role.usage for role in by_role.values()), Usage()))
    for name in _COUNTS:
        setattr(total, name, sum(getattr(role, name) for role in by_role.values()))

    total.prefix = sum((role.prefix for role in by_role.values()), ReusedPrefix())
    rows = []
    for asked, role in by_role.items():
        rows.append((asked.role, asked.model, *_usage_cells(role, costs[asked])))

    rows.append(("all", "", *_usage_cells(total, _total_usd(costs.values()))))
    print_grid(_COLUMNS, rows, left=("role", "model"))
    if total.uncounted:
        click.echo(f"{not_counted(total.uncounted)}: their tokens and cost are unknown")


def _role_names(asked: Iterable[RoleModel]) -> dict[RoleModel, str]:
    """Return a name for each role and model: the name of the role, followed by the name of the
    model if the role called several.
    """
    every = list(asked)
    counts = Counter(each.role for each in every)
    names = {}
    for each in every:
        names[each] = each.role
        if counts[each.role] > 1:
            names[each] = f"{each.role} @ {each.model}"

    return names


def _usage_cells(role: SummedRoleUsage, usd: float | None) -> tuple[str, ...]:
    """Return the cells of a table row."""
    return (
        f"{role.calls:,}",
        f"{role.failed:,}",
        f"{role.empty:,}",
        f"{role.turns:,}",
        f"{role.silent:,}",
        f"{role.usage.input_tokens:,}",
        f"{role.usage.output_tokens:,}",
        UNDEFINED if role.prefix.step_pct is None else f"{role.prefix.step_pct:.1f}",
        UNDEFINED if usd is None else dollars(usd),
    )


def _total_usd(amounts: Iterable[float | None]) -> float | None:
    """Return the sum of amounts in US dollars; None if an amount is unknown."""
    known = []
    for amount in amounts:
        if amount is None:
            return None
        known.append(amount)

    return math.fsum(known)
