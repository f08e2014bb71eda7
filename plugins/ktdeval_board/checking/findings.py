"""What a check refuses: the file, the rule, and one line that is safe to print whatever a submission holds."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

RULES: Mapping[str, str] = {
    "path": "A name in the repository is short and made of ASCII letters, digits, dots, dashes and underscores, and a card lies in "
    "the folders of its own task, model and agent.",
    "case": "No two names in a folder differ by upper and lower case alone.",
    "link": "There is no link: neither a symbolic link nor a submodule.",
    "special": "Everything is a plain file or a folder: no device, pipe or socket.",
    "executable": "No submitted file is executable.",
    "foreign-file": "A submission adds a card, its submission, its list of records and its records, and changes nothing else.",
    "missing": "Each card has a submission and a list of records beside it.",
    "size": "No file, no submission and no plan is larger than the board's limits.",
    "hash": "The SHA-256 of a file is the one that its name, card or list of records says.",
    "json": "Documents are strict JSON in UTF-8: no doubled field, no NaN, no number out of range.",
    "depth": "Documents are not nested deeply.",
    "markup": "No text holds markup, a script address or data that a browser would run.",
    "text": "Texts are of reasonable length and hold no control, direction, invisible or undecodable characters.",
    "key": "No field has a name that programs treat specially.",
    "url": "Addresses begin with https://.",
    "formula": "No text of a submission begins as a spreadsheet formula does.",
    "name": "Names of models and agents are printable ASCII, so that none can be taken for another.",
    "schema": "Submission, list of records and imported results follow their JSON Schemas.",
    "card": "The card is valid: its schema, and every figure that follows from its own episodes.",
    "kind": "The card is of a trading or a scoring task, as its division is.",
    "task": "The task is one of the board's.",
    "task-version": "The version of the task is the division's.",
    "task-config": "The config of the task is the division's.",
    "snapshot": "The market is the one that the board declares, and is described as on the division's other cards.",
    "synthetic": "Synthetic markets stand on synthetic boards, real ones on real boards, and a card says which its own is.",
    "placebo": "The market is no placebo.",
    "windows": "All windows of the division, and no others.",
    "seeds": "All seeds of the division, and no others.",
    "episodes": "One finished episode for each window and seed, and no others.",
    "rules": "Metrics are computed by the division's rule set.",
    "limit": "No episode was cut.",
    "coverage": "All episodes finished, and the model decided at least 95 % of the steps.",
    "mask-draw": "The alias map is the first one (mask draw 0), as for everyone.",
    "certificate": "A certificate of the mask is there where the division asks for one, and its file is where the card has one.",
    "call": "Parameters of calls are the known ones.",
    "metric": "The metric that the rank goes by is there, and metrics are defined as on the division's other cards.",
    "reference": "The benchmark is that of the division's windows, equal on all its cards.",
    "submission": "The submission is about this very card, its model and its agent.",
    "records": "The list of records is about this very card and names what it was made from, and the records are there as listed.",
    "ledger": "Every figure and every record follows from the recorded replies when they are executed again.",
    "cutoff": "The cut-off date is before the release and the submission.",
    "date": "The day of the submission lies between the board's first day and today.",
    "attempts": "The attempts declared are at least as many as the cards that the board has of the same model and agent.",
    "duplicate": "One card for each system: division, model, reasoning settings and agent.",
    "copy": "No records of another card.",
    "verdict": "A verdict is about the card that it is named after, and is written by the board alone.",
}
"""Each rule that a check refuses by, in a sentence."""

_LONGEST_MESSAGE = 400
_LONGEST_PATH = 300
_UNPRINTED = ("C", "Z", "M")
"""Unicode categories that are shown by their number: controls, formats, surrogates, separators, marks that pile up."""


@dataclass(frozen=True, order=True)
class Finding:
    """One reason to refuse.

    Both texts are made printable here, whoever made them: a submission can't colour a terminal, hide what is said or speak to the
    machine that runs the check through them.

    Attributes:
        path: the file or folder, relative to the board.
        rule: one of `RULES`.
        message: what is wrong, what was found and what is asked for, on one line.
    """

    path: str
    rule: str
    message: str

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"{self.rule!r} is no rule of a check")
        path = printable(self.path, _LONGEST_PATH)
        # `::name::` and `##[name]` at the start of a line are commands to hosted CI.
        object.__setattr__(self, "path", path if path[:1].isalnum() or path[:1] in "._" else f"./{path}")
        object.__setattr__(self, "message", printable(self.message, _LONGEST_MESSAGE))

    def __str__(self) -> str:
        return f"{self.path}: {self.message} [{self.rule}]"


def printable(text: str, longest: int = _LONGEST_MESSAGE) -> str:
    """A foreign text on one line: what can't be seen is written as its number, what is too long is cut."""
    shown = "".join(map(_shown, text[:longest]))
    return shown if len(text) <= longest else f"{shown}…"


def _shown(sign: str) -> str:
    if sign == " " or (sign.isascii() and sign.isprintable()) or unicodedata.category(sign)[0] not in _UNPRINTED:
        return sign
    return sign.encode("unicode_escape", "surrogatepass").decode("ascii")
