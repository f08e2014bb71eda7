"""Findings of a check: file, rule, and one line that is safe to print for any submission; and the
register of rule functions.
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
"""Unicode categories whose characters are printed by their numbers: controls, formats, surrogates,
separators, combining marks.
"""


@dataclass(frozen=True, slots=True)
class FileMessage:
    """Message of a rule on a file other than the checked one."""

    path: str
    message: str


def make_finding(path: str, rule: str, message: str) -> Finding:
    """Return a reason to refuse a file or folder, named relative to the board.

    Both texts are made printable, so that a submission can't use them to colour a terminal, hide a
    finding or send commands to hosted CI. `rule`: id of a rule of the check; `message`: problem,
    found and expected values, on one line.
    """
    shown = printable(path, _LONGEST_PATH)
    # `::name::` and `##[name]` at the start of a line are commands to hosted CI.
    if not shown[:1].isalnum() and shown[:1] not in "._":
        shown = f"./{shown}"

    return Finding(path=shown, rule=rule, message=printable(message))


def printable(text: str, longest: int = _LONGEST_MESSAGE) -> str:
    """Return a foreign text on one line: invisible characters become their code points, and a long
    text is cut.
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
    """Stages of a check, in the order in which they are visited."""

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
"""Id of a rule in `rules.yaml` to stage to the function that looks for breaches of it."""


def rule(rule_id: str, stage: Stage) -> Callable[[C], C]:
    """Register a function that checks a rule at a stage.

    It is pure: it takes the inputs of its stage and yields messages on the checked file, or
    `FileMessage` for another one.
    """

    def register(check: C) -> C:
        CHECKS[rule_id][stage] = check
        return check

    return register
