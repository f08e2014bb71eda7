"""Output of `ktdeval data check` and `data make --check-only`: findings, or a market's stylised
facts, as a table or JSON.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktdeval.cards import count
from ktdeval.cli import inherit_option, print_table, report_findings
from ktdeval.values import JsonValue, count_level, dumps_pretty

if TYPE_CHECKING:
    from ktdeval.market import MarketSnapshot
    from ktdeval.registry import DataForm
    from ktdeval_raw_markets.sources.raw_tables import RawMarket
    from ktdeval_raw_markets.stylised_facts import StylisedFact


def report_market(raw: RawMarket, as_json: bool) -> int:
    """Check a market and print the findings. Return the exit code, which is 1 if there are
    errors.
    """
    from ktdeval_raw_markets.assembly import with_repairs_that_work
    from ktdeval_raw_markets.checks.quality import check

    findings = with_repairs_that_work(raw, check(raw))
    days = raw.table.days
    summary = (
        f"{raw.name}: {count(len(days), 'day')} {days[0]}…{days[-1]},"
        f" {count(len(raw.codes), 'asset')},"
        f" {count(count_level(findings, 'error'), 'kind')} of error"
    )
    return report_findings(findings, _is_json(as_json), summary, market=raw.name)


def _is_json(as_json: bool) -> bool:
    """Return whether `--json` was given to a command or to its group."""
    return as_json or bool(inherit_option(click.get_current_context(), "as_json"))


def report_facts(market: MarketSnapshot, as_json: bool) -> None:
    """Print the stylised facts for each kind of asset, next to their ranges in real markets."""
    from ktdeval_raw_markets.daily_panels import panels_of
    from ktdeval_raw_markets.stylised_facts import stylised_facts

    facts: list[StylisedFact] = []
    for panel in panels_of(market):
        facts += stylised_facts(panel)

    if _is_json(as_json):
        report: dict[str, JsonValue] = {
            "market": market.meta.name,
            "snapshot": market.id,
            "synthetic": market.meta.synthetic,
            "facts": [_fact_json(fact) for fact in facts],
        }
        click.echo(dumps_pretty(report), nl=False)
        return

    header = ("ASSETS", "FACT", "VALUE", "95 % INTERVAL", "N", "REAL MARKETS", "VERDICT")
    print_table(header, map(_fact_row, facts))
    verdicts = Counter(fact.verdict for fact in facts)
    counts = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
    click.echo(f"{market.meta.name}: {counts}; --json has the sources of the ranges")


def _fact_json(fact: StylisedFact) -> JsonValue:
    fields: dict[str, JsonValue] = dataclasses.asdict(fact)
    return {**fields, "interval": fact.interval.to_json(), "sources": list(fact.sources)}


def _fact_row(fact: StylisedFact) -> tuple[str, ...]:
    value = "" if fact.value is None else f"{fact.value:.3f}"
    verdict: str = fact.verdict
    if fact.reason:
        verdict = f"{fact.verdict}: {fact.reason}"

    return (
        fact.kind,
        fact.words,
        value,
        _ends(fact.interval.low, fact.interval.high),
        f"{fact.n} {fact.n_counts}",
        _ends(fact.low, fact.high),
        verdict,
    )


def _ends(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return ""
    return f"{low:.3f} … {high:.3f}"


def report_form(form: DataForm, folder: Path, as_json: bool) -> int:
    """Check a folder with a data form other than a market and print the findings. Return the exit
    code, which is 1 if there are errors.
    """
    findings = form.check(folder)
    errors = count_level(findings, "error")
    verdict = count(errors, "error") if findings else "sound"
    return report_findings(findings, _is_json(as_json), f"{folder}: {verdict}", form=form.name)
