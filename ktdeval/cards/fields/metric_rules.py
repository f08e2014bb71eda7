"""Rules of a trading card: those of its metrics, and the costs that its fills had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ktdeval.cards.fields.fact_types import TaskPart
from ktdeval.cards.fields.recorded_facts import TradingFacts
from ktdeval.cards.fields.words import field_label
from ktdeval.cards.table_types import Row, clean
from ktdeval.market.rules.fees import duty_rows

#: Field of a task's config with the SHA-256 of the table of duties (`ktdeval.market.rules.fees`)
DUTIES = "duties"


def costs_row(task: TaskPart, venues: Sequence[str]) -> Row:
    """Return the row that says which costs fills had at the venues of the market: `flat` ones, the
    same on all days, or `dated` ones, with the duties of each day.
    """
    trading = task.config.get("trading")
    is_paper = isinstance(trading, Mapping) and trading.get("board_rules") == "paper"
    own_rules = task.config.get("venue_rules")
    if isinstance(own_rules, Mapping):
        venues = [str(own_rules.get("name"))]

    named = []
    for venue in venues:
        words = "flat"
        if venue == "a_share" and is_paper:
            words = "flat (paper)"
        elif venue in duty_rows() and DUTIES in task.config:
            words = f"dated (duties {str(task.config[DUTIES])[:12]})"

        named.append(f"{venue} {words}")

    execution = trading.get("execution") if isinstance(trading, Mapping) else None
    if isinstance(execution, Mapping):
        named.append(f"execution {execution.get('name')}")

    return "trading costs", clean(", ".join(named))


def rule_rows(rules: str, facts: TradingFacts) -> Iterator[Row]:
    """Yield the costs of fills, and the rule set of the metrics."""
    yield costs_row(facts.task, facts.snapshot.venues)
    yield field_label("rules"), rules
