"""Report of an audit, as plain text and as annotations for hosted CI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ktdeval.cards import count
from ktdeval.values import LEVELS, count_level, finding_lines
from ktdeval_audit.audit import AuditReport, unseen_of
from ktdeval_audit.findings import RULES, path_of
from ktdeval_audit.log_rules import CutoffFacts

_MAX_SHOWN = 20
_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def report_lines(report: AuditReport, *, every: bool = False) -> Iterator[str]:
    """Yield the lines of the report: the verdict, one line per rule, then the findings, most severe
    first.
    """
    yield _verdict(report)
    yield _scope(report)
    yield from _unread_lines(report, every=every)
    yield ""
    yield from _rule_lines(report)
    yield from _cutoff_lines(report.cutoffs)

    shown = report.findings if every else report.findings[:_MAX_SHOWN]
    for finding in shown:
        yield ""
        yield from finding_lines(finding)

    left_out = len(report.findings) - len(shown)
    if left_out:
        yield ""
        yield f"{left_out} more findings: --all prints them"

    if report.notes:
        yield ""
        yield from report.notes


def _verdict(report: AuditReport) -> str:
    counts = [(count_level(report.findings, level), level) for level in LEVELS]
    parts = [f"{number} {level}{'s' if number > 1 else ''}" for number, level in counts if number]
    unseen = unseen_of(report)
    if not parts:
        read = " in the logs that could be read" if report.unread else ""
        if unseen and report.texts_by_role["prompt"]:
            return f"{unseen}. The prompts name nothing that the agent could not have known{read}."
        if unseen:
            return f"{unseen}{read}."
        return f"Nothing was found that the agent could not have known{read}."
    if not count_level(report.findings, "error"):
        before = f"{unseen}. " if unseen else ""
        return f"{before}No error, but {' and '.join(parts)}."
    return f"The agent was shown what it could not have known: {', '.join(parts)}."


def _scope(report: AuditReport) -> str:
    market = f" against {report.market}" if report.market else ""
    logs = f"{report.files} logs in " if report.files > 1 else ""
    return (
        f"{count(report.decisions, 'decision')} of {logs}{report.log} ({report.kind}),"
        f" {report.first_day} to {report.last_day}, {count(report.texts, 'text')}{market}"
    )


def _unread_lines(report: AuditReport, *, every: bool) -> Iterator[str]:
    if not report.unread:
        return

    shown = report.unread if every else report.unread[:_MAX_SHOWN]
    more = len(report.unread) - len(shown)
    yield ""
    yield f"{len(report.unread)} could not be read:"
    yield from (f"  {reason}" for reason in shown)
    if more:
        yield f"  {more} more: --all lists them"


def _rule_lines(report: AuditReport) -> Iterator[str]:
    by_rule: Counter[tuple[str, str]] = Counter()
    for finding in report.findings:
        by_rule[finding.rule, finding.level] += 1

    for rule, summary in RULES.items():
        if rule not in report.rules:
            yield f"  {rule:<16} not run"
            continue

        counts = [f"{by_rule[rule, level]} {level}" for level in LEVELS if by_rule[rule, level]]
        found = ", ".join(counts) or "0"
        line = f"  {rule:<16} {found}"
        yield f"{line}: {summary}" if counts else line


def _cutoff_lines(facts: tuple[CutoffFacts, ...]) -> Iterator[str]:
    for each in facts:
        if each.cutoff == "unknown":
            yield (
                f"  cutoff of {each.model}: unknown, so memory is not excluded (set it with "
                "--cutoff)"
            )
        elif each.cutoff == "none":
            yield f"  cutoff of {each.model}: none, since nothing was trained"
        else:
            line = f"  cutoff of {each.model}: {each.cutoff}"
            if each.is_lower_bound:
                line += " or later, so memory is not excluded (set it with --cutoff)"
            yield f"{line}; {each.before} of {each.total} decisions before it"


# ---- annotations for hosted CI


def github_lines(report: AuditReport, path: str) -> Iterator[str]:
    """Yield a workflow command for each finding, in the form that GitHub Actions reads from a
    command's output.

    Values are escaped as in actions/toolkit (packages/core/src/command.ts).
    """
    for reason in report.unread:
        yield f"::error title={_property('ktdeval audit: not read')}::{_data(reason)}"
    unseen = unseen_of(report)
    if unseen:
        yield f"::notice title={_property('ktdeval audit: not shown')}::{_data(unseen)}"
    for finding in report.findings:
        properties = [f"file={_property(path_of(finding, path))}"]
        if finding.line:
            properties.append(f"line={finding.line}")
        properties.append(f"title={_property(f'ktdeval audit: {finding.rule}')}")

        where = ", ".join(filter(None, (finding.part, finding.place)))
        message = f"{where}: {finding.message}. Fix: {finding.fix}" if where else finding.message
        command = _COMMANDS[finding.level]
        yield f"::{command} {','.join(properties)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
