"""Rules of the check: `rules.yaml` says what holds on a board, the functions that `rule` registers look for what breaks it.

The stages are visited in the order of `Stage`; only what passes one goes on to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol

from ktdeval.yamlio import load_yaml
from ktdeval_board.checking import across, cards, changes, files, registrations, texts  # noqa: F401 - their functions are registered by `rule`
from ktdeval_board.checking.findings import CHECKS, At, Check, Finding, Stage, rule

__all__ = ["RULES", "Faults", "Inputs", "Rule", "Stage", "findings_of", "rules_table"]

MOST_FINDINGS = 20  #: Findings of one rule on one document that are reported


class Inputs(Protocol):
    """Inputs of one visit of a stage; `where` is the file that is looked at, relative to the board."""

    @property
    def where(self) -> str:
        """File that is looked at."""


@dataclass(frozen=True)
class Rule:
    """A rule of the check."""

    id: str  #: what findings call it
    holds: str  #: what holds on a board, in a sentence
    checks: Mapping[Stage, Check]  #: stage to the function that looks for what breaks the rule


@dataclass(frozen=True)
class Faults:
    """Faults met in reading or executing a file, by the rule that they break."""

    where: str
    faults: Sequence[tuple[str, str | At]]


for _stage, _ids in {
    Stage.JSON: ("size", "json"),
    Stage.DOCUMENTS: ("path", "schema", "card", "kind", "snapshot", "verdict", "drawn-key", "registration"),
    Stage.RECORDS: ("size", "hash", "json", "records", "ledger"),
}.items():
    for _id in _ids:
        rule(_id, _stage)(partial(lambda rule_id, inputs: (message for broken, message in inputs.faults if broken == rule_id), _id))


RULES = tuple(
    Rule(rule_id, holds, {stage: CHECKS[rule_id][stage] for stage in Stage if stage in CHECKS[rule_id]})
    for rule_id, holds in load_yaml(Path(__file__).with_name("rules.yaml")).items()
)
"""Rules that a check refuses by, in the order in which findings on one file are reported."""


def findings_of(stage: Stage, inputs: Inputs) -> list[Finding]:
    """Hold the inputs of a stage against all rules that look there."""
    findings: list[Finding] = []
    for each in RULES:
        if stage in each.checks:
            for reported in islice(each.checks[stage](inputs), MOST_FINDINGS):
                path, message = reported if isinstance(reported, At) else (inputs.where, reported)
                findings.append(Finding(path, each.id, message))
    return findings


def rules_table() -> str:
    """Return the rules as a table in Markdown, for the docs and for the README of a new board."""
    rows = (f"| `{each.id}` | {', '.join(each.checks)} | {each.holds} |" for each in RULES)
    return "\n".join(("| rule | looked for in | what holds on a board |", "|---|---|---|", *rows))
