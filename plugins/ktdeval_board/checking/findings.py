"""Findings of a check, and the registry of rule functions. A finding has a file, a rule, and a
one-line message that is safe to print whatever the submission contains.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from ktdeval.values import Finding

_LONGEST_MESSAGE = 400
_LONGEST_PATH = 300
_UNPRINTED = ("C", "Z", "M")
"""Unicode categories whose characters are printed as code points: controls, format characters,
surrogates, separators, combining marks.
"""


@dataclass(frozen=True, slots=True)
class FileMessage:
    """A rule's message about a file other than the one being checked."""

    path: str
    message: str


def make_finding(path: str, rule: str, message: str) -> Finding:
    """Return a reason to reject a file or folder, with its path relative to the board.

    The path and the message are made printable, so that a submission can't use them to colour a
    terminal, hide a finding or send commands to hosted CI. `rule` is the id of a check rule.
    `message` states the problem on one line, with the actual and expected values.
    """
    shown = printable(path, _LONGEST_PATH)
    # `::name::` and `##[name]` at the start of a line are commands for hosted CI.
    if not shown[:1].isalnum() and shown[:1] not in "._":
        shown = f"./{shown}"

    return Finding(path=shown, rule=rule, message=printable(message))


def printable(text: str, longest: int = _LONGEST_MESSAGE) -> str:
    """Return untrusted text on one line: invisible characters are replaced by their code points,
    and long text is truncated.
    """
    line = "".join(map(_printable_sign, text[:longest]))
    return line if len(text) <= longest else f"{line}…"


def _printable_sign(sign: str) -> str:
    if sign == " " or (sign.isascii() and sign.isprintable()):
        return sign
    if unicodedata.category(sign)[0] not in _UNPRINTED:
        return sign

    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")


class Stage(StrEnum):
    """Stages of a check, in order."""

    CHANGES = "changes of a pull request"
    FILES = "files"
    TREE = "files together"
    JSON = "JSON"
    DOCUMENTS = "documents"
    REGISTRATION = "registrations"
    KEY = "drawn keys"
    CARD = "card"
    SUBMISSION = "submission"
    LIST = "list of records"
    TOGETHER = "cards together"
    RECORDS = "records"


Check = Callable[[Any], Iterator[str | FileMessage]]
C = TypeVar("C", bound=Check)
CHECKS: defaultdict[str, dict[Stage, Check]] = defaultdict(dict)
"""Functions that look for violations, keyed by rule id in `rules.yaml` and by stage."""


def rule(rule_id: str, stage: Stage) -> Callable[[C], C]:
    """Register a function that checks a rule at a stage.

    The function must be pure: it takes the inputs of its stage and yields messages about the
    checked file, or a `FileMessage` for another file.
    """

    def register(check: C) -> C:
        CHECKS[rule_id][stage] = check
        return check

    return register
