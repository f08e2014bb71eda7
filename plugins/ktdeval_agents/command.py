"""`ktdeval roles`: model calls of a run by the role that made them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import click

from ktdeval.cards import PriceEntry, ScoringCard, TradingCard, dollars, load_card, not_counted, usage_cost
from ktdeval.cli import FilePath, grid_lines
from ktdeval.errors import UsageError
from ktdeval.harness import Reply, Usage
from ktdeval.jsonio import JsonValue, dumps_pretty
from ktdeval.runner import RunFolder
from ktdeval.typed import from_plain

NO_ROLE = "(no role)"
_COUNTS = ("calls", "failed", "empty", "uncounted")
_COLUMNS = ("role", "calls", "failed", "empty", "input tokens", "output tokens", "USD")


@dataclass
class RoleUsage:
    """Calls of one role, summed over the finished episodes of a run."""

    calls: int = 0
    failed: int = 0  #: without a reply
    empty: int = 0  #: replies with neither words nor calls of tools
    uncounted: int = 0  #: replies whose tokens the provider did not count; a model that bills nothing has none
    usage: Usage = field(default_factory=Usage)

    def usd(self, price: PriceEntry | None) -> float | None:
        """Return the US dollars of the tokens; None where price or tokens are not known."""
        if price is None or self.uncounted:
            return None
        return usage_cost(self.usage, price)

    def to_json(self, price: PriceEntry | None) -> dict[str, JsonValue]:
        """Return the counts by name; `usd` is null where price or tokens are not known."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        return {**counts, **self.usage.to_json(), "usd": self.usd(price)}


def usage_by_role(folder: RunFolder) -> dict[str, RoleUsage]:
    """Return the calls of each role in the order of their first call. Raises UsageError: no episode is finished; StoreError."""
    finished = [spec for spec in folder.manifest.specs if folder.is_complete(spec)]
    if not finished:
        raise UsageError(f"{folder.path}: no episode is finished; run it to its end first")
    by_role: dict[str, RoleUsage] = {}
    for spec in finished:
        for exchange in (each for entry in folder.load_transcript(spec) for each in entry.exchanges):
            role = by_role.setdefault(exchange.get("role", NO_ROLE), RoleUsage())
            role.calls += 1
            if "reply" not in exchange:
                role.failed += 1
                continue
            reply = from_plain(exchange["reply"], Reply, f"{folder.path}: a reply")
            role.empty += not (reply.content.strip() or reply.tool_calls)
            role.usage += reply.usage
            if reply.usage == Usage() and not folder.manifest.is_free:
                role.uncounted += 1
    return by_role


def _price(run: Path) -> PriceEntry | None:
    """Return the price of the run's model from its cards; None if they have none."""
    for path in sorted((run / "cards").glob("*.json")):
        card = load_card(path)
        if isinstance(card, TradingCard | ScoringCard) and isinstance(card.cost.price, PriceEntry):
            return card.cost.price
    return None


@click.command()
@click.argument("run", type=FilePath(), metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="print the figures as JSON")
def roles(run: Path, as_json: bool) -> None:
    """Count calls, tokens and cost of a run by the role that asked.

    RUN is a run folder, which is only read; finished episodes count. Tokens are those of the replies, cached or not, and the price
    is that of the run's cards.
    """
    by_role, price = usage_by_role(RunFolder.load(run)), _price(run)
    if as_json:
        click.echo(dumps_pretty({name: role.to_json(price) for name, role in by_role.items()}), nl=False)
        return
    total = RoleUsage(usage=sum((role.usage for role in by_role.values()), Usage()))
    for name in _COUNTS:
        setattr(total, name, sum(getattr(role, name) for role in by_role.values()))
    rows = []
    for name, role in (*by_role.items(), ("all", total)):
        cost = role.usd(price)
        usd = "-" if cost is None else dollars(cost)
        counts = (role.calls, role.failed, role.empty, role.usage.input_tokens, role.usage.output_tokens)
        rows.append((name, *(f"{count:,}" for count in counts), usd))
    click.echo("\n".join(grid_lines(_COLUMNS, rows, left=("role",))))
    if total.uncounted:
        click.echo(f"{not_counted(total.uncounted)}: their tokens and cost are not known")
