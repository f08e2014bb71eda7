"""What `ktdeval data check` and `data make --check-only` print: findings, as a table or JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ktdeval.cards import count
from ktdeval.cli.options import inherited
from ktdeval.cli.terminal_tables import print_table
from ktdeval.values.strict_json import JsonValue, dumps_pretty

if TYPE_CHECKING:
    from ktdeval.market.findings import Finding
    from ktdeval.market.raw_tables import RawMarket
    from ktdeval.registry.plugin_data_formats import DataForm


def report_market(raw: RawMarket, as_json: bool) -> int:
    """Print the findings of a market's check; return the exit code, 1 if there are errors."""
    from ktdeval.market.quality import check

    findings = check(raw)
    errors = sum(finding.severity == "error" for finding in findings)
    exit_code = 1 if errors else 0
    if as_json or inherited(click.get_current_context(), "as_json"):
        report: dict[str, JsonValue] = {
            "market": raw.name,
            "errors": errors,
            "findings": [dataclasses.asdict(finding) for finding in findings],
        }
        click.echo(dumps_pretty(report), nl=False)
        return exit_code

    rows: list[tuple[str, str, str]] = []
    for finding in findings:
        rows.extend(_finding_rows(finding))

    if rows:
        print_table(("SEVERITY", "   COUNT", "FINDING"), rows)

    days = raw.table.days
    click.echo(
        f"{raw.name}: {len(days)} days {days[0]}…{days[-1]}, {len(raw.codes)} assets,"
        f" {count(errors, 'kind')} of error"
    )
    return exit_code


def _finding_rows(finding: Finding) -> Iterator[tuple[str, str, str]]:
    """Yield a finding's row, and below it its examples and how to fix it."""
    from ktdeval.market.findings import EXAMPLES, NOTHING

    yield finding.severity, f"{finding.count:>8}", f"{finding.kind}: {finding.hint}"
    if finding.examples:
        examples = ", ".join(finding.examples)
        if finding.count > len(finding.examples) == EXAMPLES:
            examples += ", …"

        yield "", "", examples

    if not finding.fix.startswith(NOTHING):
        yield "", "", f"fix: {finding.fix}"


def report_form(form: DataForm, folder: Path, as_json: bool) -> int:
    """Print the findings about a folder of another form than a market's; return the exit code, 1 if
    there are errors.
    """
    findings = form.check(folder)
    errors = sum(severity == "error" for severity, _, _ in findings)
    if as_json or inherited(click.get_current_context(), "as_json"):
        rows: list[JsonValue] = []
        for severity, where, message in findings:
            rows.append({"severity": severity, "where": where, "message": message})

        report: dict[str, JsonValue] = {"form": form.name, "errors": errors, "findings": rows}
        click.echo(dumps_pretty(report), nl=False)
        return int(errors > 0)

    for severity, where, message in findings:
        click.echo(f"{severity}: {where}: {message}")

    if not findings:
        click.echo(f"{folder}: sound")

    return int(errors > 0)
