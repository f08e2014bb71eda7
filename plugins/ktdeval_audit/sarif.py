"""Findings in SARIF 2.1.0 (OASIS Standard, 2020), a format that code hosts and editors can
display.
"""

from __future__ import annotations

from urllib.parse import quote

from ktdeval import __version__
from ktdeval.values import Finding, JsonObject, JsonValue, sha256_hex
from ktdeval_audit.audit import AuditReport, unseen_of
from ktdeval_audit.findings import RULES, path_of

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_HOME = "https://github.com/ktdeval/ktdeval"
_RULE_NAMES = tuple(RULES)


def to_sarif(report: AuditReport, path: str) -> JsonObject:
    """Return a SARIF log with one run. `path` is the path of the audited file, relative to the
    reader's working directory.
    """
    rules: list[JsonValue] = []
    for rule, summary in RULES.items():
        rules.append({"id": rule, "shortDescription": {"text": summary}})

    driver: JsonValue = {"name": "ktdeval audit", "version": __version__, "rules": rules}
    results: list[JsonValue] = [_result(finding, path) for finding in report.findings]
    run: dict[str, JsonValue] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    if report.unread or unseen_of(report):
        run["invocations"] = [_invocation(report)]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _invocation(report: AuditReport) -> JsonObject:
    """Return the invocation that reports unreadable logs, as required by section 3.20 of the
    standard, and that the log lacks what the agent was shown.
    """
    notices: list[JsonValue] = []
    for reason in report.unread:
        notices.append({"level": "error", "message": {"text": reason}})
    unseen = unseen_of(report)
    if unseen:
        notices.append({"level": "note", "message": {"text": f"{unseen}."}})
    return {"executionSuccessful": not report.unread, "toolExecutionNotifications": notices}


def _fingerprint(finding: Finding) -> str:
    """Return an identifier that is the same in each audit, so that a host can recognise the
    finding.
    """
    parts = [finding.rule, finding.part, finding.place, finding.day, finding.message]
    if finding.path:
        parts.insert(0, finding.path)
    return sha256_hex("\n".join(parts).encode())


def _result(finding: Finding, path: str) -> JsonValue:
    text = f"{finding.message}. Fix: {finding.fix}."
    if finding.examples:
        text = f"{text} Text: {finding.examples[0]}"

    names = ".".join(filter(None, (finding.part, finding.place)))
    location: dict[str, JsonValue] = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(path_of(finding, path))},
            "region": {"startLine": finding.line or 1},
        }
    }
    if names:
        location["logicalLocations"] = [{"fullyQualifiedName": names}]

    properties: dict[str, JsonValue] = {"day": finding.day} if finding.day else {}
    return {
        "ruleId": finding.rule,
        "ruleIndex": _RULE_NAMES.index(finding.rule),
        "level": finding.level,
        "message": {"text": text},
        "locations": [location],
        "partialFingerprints": {"finding/v1": _fingerprint(finding)},
        "properties": properties,
    }
