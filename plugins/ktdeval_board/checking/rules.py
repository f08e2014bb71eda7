"""Check rules. Each is stated in one sentence in `rules.yaml`; the functions that find violations
are registered with the `rule` decorator.

The stages run in the order of `Stage`; only files that pass a stage reach the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol

from ktdeval.values import Finding, load_yaml
from ktdeval_board.checking import (
    cards,  # noqa: F401
    files,  # noqa: F401
    pull_request_rules,  # noqa: F401
    registrations,  # noqa: F401
    rules_across_cards,  # noqa: F401 - their functions are registered by `rule`
    text_rules,  # noqa: F401
)
from ktdeval_board.checking.findings import CHECKS, Check, FileMessage, Stage, make_finding, rule

__all__ = ["RULES", "CheckRule", "FileFaults", "Stage", "StageInputs", "findings_of", "rules_table"]

MAX_FINDINGS = 20  #: Maximum number of findings reported per rule and document


class StageInputs(Protocol):
    """Inputs to a stage for one file."""

    @property
    def where(self) -> str:
        """File being checked, relative to the board."""


@dataclass(frozen=True)
class CheckRule:
    """A check rule."""

    id: str  #: id of the rule, used in findings
    holds: str  #: the rule in one sentence
    checks: Mapping[Stage, Check]  #: function that finds violations, by stage


@dataclass(frozen=True)
class FileFaults:
    """Faults found while reading or executing a file, keyed by the rule that they violate."""

    where: str
    faults: Sequence[tuple[str, str | FileMessage]]


_MET_IN_READING = {
    Stage.JSON: ("size", "json"),
    Stage.DOCUMENTS: (
        "path",
        "schema",
        "card",
        "kind",
        "snapshot",
        "verdict",
        "signature",
        "drawn-key",
        "registration",
        "anchor",
    ),
    Stage.RECORDS: (
        "size",
        "hash",
        "json",
        "records",
        "ledger",
        "snapshot",
        "windows",
        "reference",
        "metric",
    ),
}
"""Rules whose violations are found while a file is read or executed (`FileFaults`)."""


def _check_rule(rule_id: str, inputs: FileFaults) -> Iterator[str | FileMessage]:
    for broken, message in inputs.faults:
        if broken == rule_id:
            yield message


for _stage, _ids in _MET_IN_READING.items():
    for _id in _ids:
        rule(_id, _stage)(partial(_check_rule, _id))


def _load_rules() -> Iterator[CheckRule]:
    for rule_id, holds in load_yaml(Path(__file__).with_name("rules.yaml")).items():
        registered = CHECKS[rule_id]
        checks = {stage: registered[stage] for stage in Stage if stage in registered}
        yield CheckRule(rule_id, holds, checks)


RULES = tuple(_load_rules())
"""Rules by which a check refuses files, in the order in which findings about one file are
reported.
"""


def findings_of(stage: Stage, inputs: StageInputs) -> list[Finding]:
    """Check a stage's inputs against all of its rules."""
    findings: list[Finding] = []
    for each in RULES:
        if stage not in each.checks:
            continue

        for reported in islice(each.checks[stage](inputs), MAX_FINDINGS):
            if isinstance(reported, FileMessage):
                findings.append(make_finding(reported.path, each.id, reported.message))
            else:
                findings.append(make_finding(inputs.where, each.id, reported))

    return findings


def rules_table() -> str:
    """Return the rules as a Markdown table, for the docs and for the README of a new board."""
    lines = ["| rule | checked in | requirement |", "|---|---|---|"]
    for each in RULES:
        lines.append(f"| `{each.id}` | {', '.join(each.checks)} | {each.holds} |")

    return "\n".join(lines)
