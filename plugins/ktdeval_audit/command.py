"""`ktdeval audit`: search an agent's log for facts that the agent could not have known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from ktdeval.cli import (
    FilePath,
    JsonOptions,
    OutputPath,
    PluginOptions,
    complete_data,
    example,
    flag,
    open_plugins,
    options_of,
    print_json,
)
from ktdeval.errors import UsageError
from ktdeval.market import MarketSnapshot
from ktdeval.runner import open_snapshot
from ktdeval.values import (
    dumps_pretty,
    exit_code,
    findings_json,
    near_matches,
    to_object,
    write_atomic,
)


@dataclass(frozen=True, kw_only=True)
class AuditOptions(JsonOptions, PluginOptions):
    """Options for `audit`."""

    data: str | None = flag(
        None,
        metavar="DATA",
        complete=complete_data,
        help="the market that was traded: a snapshot folder or data provider",
    )
    kind: str | None = flag(
        None,
        name="--from",
        metavar="KIND",
        help=(
            "kind of the log: chat, spans, langfuse, mlflow, langsmith, inspect, atif, claude-code,"
            " codex, tradingagents, ktdeval [default: by its keys]"
        ),
    )
    messages: str | None = flag(
        None, metavar="FIELD", help="field of each record that holds its messages, as a dotted path"
    )
    prompt: str | None = flag(
        None, metavar="FIELD", help="field of each record that holds what the model was sent"
    )
    response: str | None = flag(
        None, metavar="FIELD", help="field of each record that holds what the model replied"
    )
    day_field: str | None = flag(
        None,
        metavar="NAME",
        help="field with the day of the decision, as a dotted path or its last part",
    )
    day_map: Path | None = flag(
        None,
        type=FilePath(),
        metavar="FILE",
        help="table with columns decision and day, for a log without days",
    )
    masked: Literal["names", "dates", "both"] | None = flag(
        None, help="what the mask is claimed to hide; any mention is then a finding"
    )
    cutoff: str | None = flag(
        None,
        metavar="DAY",
        help="end of the model's training data: a day, a month, or none [default: as listed]",
    )
    rules: tuple[str, ...] = flag(
        (), metavar="RULE,…", help="rules to run [default: all]: date-after, price-after, …"
    )
    fail_on: Literal["error", "warning"] = flag(
        "error", help="lowest level of findings that makes the exit code 1"
    )
    every: bool = flag(False, name="--all", help="print all findings")
    sarif: Path | None = flag(
        None, type=OutputPath("file"), metavar="FILE", help="write the findings as SARIF 2.1.0"
    )
    github: bool = flag(False, help="print the findings as annotations of GitHub Actions")


@example("ktdeval audit agent-log.jsonl --data my-market")
@click.command()
@click.argument("log", type=FilePath(), metavar="LOG")
@options_of(AuditOptions)
@click.pass_context
def audit(context: click.Context, /, log: Path, options: AuditOptions) -> None:
    """Search an agent's log for what it could not have known on the day of each decision.

    LOG is a file of chat messages (JSON lines), of prompts with replies (also CSV), of the spans or
    runs of a tracer, of a coding agent's session, a run folder, or a folder with any of these. Each
    prompt, tool result and reason is compared with the day of its decision: later dates, prices and
    news, names that a mask hides, and the model's training data. The exit code is 0 without
    findings, 1 with some (--fail-on), 2 if a log can't be read.
    """
    from ktdeval_audit.audit import AuditSettings, audit_log
    from ktdeval_audit.readers import read_log
    from ktdeval_audit.report import github_lines, report_lines
    from ktdeval_audit.sarif import to_sarif

    read = read_log(log, options.kind, _named_fields(options))
    settings = AuditSettings(
        day_field=options.day_field,
        day_map=options.day_map,
        masked=options.masked,
        cutoff=options.cutoff,
        rules=_chosen_rules(options.rules),
    )
    report = audit_log(read, _market(options), settings)
    if options.sarif is not None:
        write_atomic(options.sarif, dumps_pretty(to_sarif(report, str(log))))

    if options.as_json:
        facts = to_object(report)
        del facts["findings"]
        print_json(findings_json(report.findings, **facts))
    elif options.github:
        for line in github_lines(report, str(log)):
            click.echo(line)
    else:
        for line in report_lines(report, every=options.every):
            click.echo(line)

    if report.unread:
        context.exit(2)
    context.exit(exit_code(report.findings, options.fail_on))


def _named_fields(options: AuditOptions) -> dict[str, str]:
    named = {
        "--messages": options.messages,
        "--prompt": options.prompt,
        "--response": options.response,
    }
    return {option: path for option, path in named.items() if path}


def _market(options: AuditOptions) -> MarketSnapshot | None:
    if options.data is None:
        return None
    return open_snapshot(open_plugins(options.plugin), options.data, {})


def _chosen_rules(names: tuple[str, ...]) -> tuple:  # type: ignore[type-arg]  # of rules
    from ktdeval_audit.findings import RULES

    for name in names:
        if name not in RULES:
            raise UsageError(f"--rules {name!r} is not a rule{near_matches(name, RULES)}")
    return names or tuple(RULES)
