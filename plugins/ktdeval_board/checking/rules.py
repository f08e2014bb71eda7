"""Rules of the check: one table, each rule with what holds on a board and the functions that look for what breaks it.

A function is pure: it takes the inputs of its stage and yields messages on the file that is looked at, or `At` another one. The
stages are visited in the order of `Stage`; only what was found in order goes on to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from ktdeval.yamlio import load_yaml
from ktdeval_board.checking import across, cards, changes, files, texts
from ktdeval_board.checking.findings import At, Finding

MOST_FINDINGS = 20
"""Findings of one rule on one document that are told."""


class Stage(StrEnum):
    """Stages of a check."""

    CHANGES = "changes of a pull request"
    FILES = "files"
    TREE = "files together"
    JSON = "JSON"
    DOCUMENTS = "documents"
    CARD = "card"
    SUBMISSION = "submission"
    LIST = "list of records"
    TOGETHER = "cards together"
    RECORDS = "records"


class Inputs(Protocol):
    """Inputs of one visit of a stage; `where` is the file that is looked at, relative to the board."""

    @property
    def where(self) -> str:
        """File that is looked at."""


Check = Callable[[Any], Iterator[str | At]]


@dataclass(frozen=True)
class Rule:
    """A rule of the check."""

    id: str  #: what findings call it
    holds: str  #: what holds on a board, in a sentence
    checks: Mapping[Stage, Check]  #: stage to the function that looks for what breaks the rule


@dataclass(frozen=True)
class Faults:
    """Faults that reading or executing a file came upon, by the rule that they break."""

    where: str
    faults: Sequence[tuple[str, str | At]]


def _fault(rule: str) -> Check:
    return lambda inputs: (message for broken, message in inputs.faults if broken == rule)


def findings_of(stage: Stage, inputs: Inputs) -> list[Finding]:
    """Hold the inputs of a stage against all rules that look there."""
    found: list[Finding] = []
    for rule, check in _checks_of(stage):
        for told in islice(check(inputs), MOST_FINDINGS):
            path, message = told if isinstance(told, At) else (inputs.where, told)
            found.append(Finding(path, rule, message))
    return found


@cache
def _checks_of(stage: Stage) -> list[tuple[str, Check]]:
    return [(rule.id, rule.checks[stage]) for rule in RULES if stage in rule.checks]


def rules_table() -> str:
    """Return the rules as a table in Markdown, for the docs and for the README of a new board."""
    rows = (f"| `{rule.id}` | {', '.join(rule.checks)} | {rule.holds} |" for rule in RULES)
    return "\n".join(("| rule | looked for in | what holds on a board |", "|---|---|---|", *rows))


_S = Stage
_CHECKS: Mapping[str, Mapping[Stage, Check]] = {
    "path": {_S.FILES: files.path, _S.DOCUMENTS: _fault("path")},
    "case": {_S.FILES: files.case},
    "link": {_S.CHANGES: changes.link, _S.FILES: files.link},
    "special": {_S.FILES: files.special},
    "executable": {_S.CHANGES: changes.executable, _S.FILES: files.executable},
    "foreign-file": {_S.CHANGES: changes.foreign_file, _S.FILES: files.foreign_file, _S.TREE: files.beside_no_card},
    "missing": {_S.TREE: files.missing},
    "size": {
        _S.FILES: files.size,
        _S.TREE: files.total_size,
        _S.JSON: _fault("size"),
        _S.CARD: cards.size,
        _S.LIST: cards.listed_size,
        _S.RECORDS: _fault("size"),
    },
    "hash": {_S.TREE: files.hash_of_name, _S.LIST: cards.listed_hash, _S.RECORDS: _fault("hash")},
    "json": {_S.JSON: _fault("json"), _S.RECORDS: _fault("json")},
    "depth": {_S.JSON: texts.depth},
    "markup": {_S.JSON: texts.markup},
    "text": {_S.JSON: texts.text},
    "key": {_S.JSON: texts.key},
    "url": {_S.JSON: texts.url},
    "formula": {_S.JSON: texts.formula},
    "name": {_S.CARD: cards.name, _S.TOGETHER: across.name},
    "schema": {_S.DOCUMENTS: _fault("schema")},
    "card": {_S.DOCUMENTS: _fault("card")},
    "kind": {_S.DOCUMENTS: _fault("kind"), _S.CARD: cards.kind, _S.TOGETHER: across.kind},
    "task": {_S.CARD: cards.task},
    "task-version": {_S.CARD: cards.facet("task-version")},
    "task-config": {_S.CARD: cards.task_config},
    "snapshot": {_S.DOCUMENTS: _fault("snapshot"), _S.CARD: cards.facet("snapshot"), _S.TOGETHER: across.snapshot},
    "synthetic": {_S.CARD: cards.synthetic},
    "placebo": {_S.CARD: cards.placebo},
    "windows": {_S.CARD: cards.windows, _S.TOGETHER: across.windows},
    "seeds": {_S.CARD: cards.seeds},
    "episodes": {_S.CARD: cards.episodes},
    "rules": {_S.CARD: cards.facet("rules")},
    "limit": {_S.CARD: cards.limit},
    "coverage": {_S.CARD: cards.coverage},
    "mask-draw": {_S.CARD: cards.mask_draw},
    "certificate": {_S.CARD: cards.certificate, _S.LIST: cards.listed_certificate},
    "call": {_S.CARD: cards.call},
    "metric": {_S.CARD: cards.metric, _S.TOGETHER: across.metric},
    "reference": {_S.CARD: cards.reference, _S.TOGETHER: across.reference},
    "submission": {_S.SUBMISSION: cards.submission},
    "records": {_S.TREE: files.records_of_no_card, _S.LIST: cards.listed_records, _S.RECORDS: _fault("records")},
    "ledger": {_S.RECORDS: _fault("ledger")},
    "cutoff": {_S.SUBMISSION: cards.cutoff},
    "date": {_S.SUBMISSION: cards.date},
    "attempts": {_S.TOGETHER: across.attempts},
    "duplicate": {_S.TREE: files.card_twice, _S.TOGETHER: across.duplicate},
    "copy": {_S.TOGETHER: across.copied},
    "verdict": {_S.CHANGES: changes.verdict, _S.DOCUMENTS: _fault("verdict")},
}

_HOLDS: Mapping[str, str] = load_yaml(Path(__file__).with_name("rules.yaml"))

RULES = tuple(Rule(rule, _HOLDS[rule], checks) for rule, checks in _CHECKS.items())
"""Rules that a check refuses by, in the order in which findings on one file are told."""
