"""The documents of a board: parsed within limits, read for what they hold, and held against schemas, rules and each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktdeval.api import CardError, JsonValue, KtdevalError, file_sha256, parse_card
from ktdeval_board.checking.agreement import disagreements
from ktdeval_board.checking.candidate import Candidate as Candidate
from ktdeval_board.checking.card_rules import (
    card_problems,
    date_problems,
    division_problems,
    entry_problems,
    list_problems,
    submission_problems,
)
from ktdeval_board.checking.findings import Finding
from ktdeval_board.checking.texts import check_formulas, check_texts
from ktdeval_board.checking.tree import listed_cards, listed_imports, records_folder
from ktdeval_board.documents import Kind, load_own, parse_json, read_text, schema_problems
from ktdeval_board.entries import Card, division_of
from ktdeval_board.errata import Erratum
from ktdeval_board.layout import BoardFolder, CardFiles
from ktdeval_board.rules import Rules

_SUBMISSION_BYTES = 200_000
_LIST_BYTES, _FILES_OF_EPISODE, _FILES_OF_RUN = 500, 3, 10
"""An entry of a list of records takes about 200 bytes; a list that is longer than its episodes could fill it is not read."""

_MOST_PROBLEMS = 20
_CARD_SCHEMES = ("https", "http")


@dataclass(frozen=True)
class ContentOptions:
    """What a check of documents is told.

    Attributes:
        today: the day of the check, YYYY-MM-DD; no submission may be later.
        every: whether cards with a verdict on their very bytes are validated again, too.
    """

    today: str
    every: bool = False


def check_content(
    folder: Path, rules: Rules, errata: Sequence[Erratum], options: ContentOptions
) -> tuple[list[Finding], list[Candidate]]:
    """Check every document that submitters wrote, as far as can be said without records and market.

    Args:
        folder: the board.
        rules: its rules.
        errata: what maintainers said of cards; a withdrawn card is in nobody's way.
        options: the day, and whether to look at all cards again.

    Returns:
        What is refused, and the cards that are sound, in the order of their paths.
    """
    reader = _Reader(BoardFolder(folder), rules, errata, options)
    for files in listed_cards(folder):
        reader.read(files)
    for path in listed_imports(folder):
        reader.read_import(path)
    found = disagreements(reader.candidates)
    refused = {finding.path.removesuffix(".json").removesuffix(".submission") for finding in found}
    sound = [candidate for candidate in reader.candidates if candidate.where.removesuffix(".json") not in refused]
    return sorted({*reader.findings, *found}), sound


class _Reader:
    """Reads the documents of a board.

    Attributes:
        findings: what it refused so far.
        candidates: the cards that it refused nothing of.
    """

    def __init__(self, board: BoardFolder, rules: Rules, errata: Sequence[Erratum], options: ContentOptions) -> None:
        self.findings: list[Finding] = []
        self.candidates: list[Candidate] = []
        self._board, self._rules, self._errata, self._options = board, rules, errata, options
        self._card_bytes = rules.limits.bytes_of("card_mb")

    def read(self, files: CardFiles) -> None:
        """Check one card with what goes with it; it becomes a candidate when nothing is refused."""
        before = len(self.findings)
        verdict = self._verdict(files)
        errata = tuple(erratum for erratum in self._errata if erratum.card == files.card_id)
        if (card := self._card(files, is_known=verdict is not None and not self._options.every)) is None:
            return
        is_new = verdict is None or self._options.every
        division = division_of(self._rules, card)
        if is_new and not any(erratum.effect == "withdrawn" for erratum in errata):
            self._note(files.card, card_problems(self._rules, card))
            self._note(files.card, division_problems(self._rules, card))
            if division is not None:
                self._note(files.card, entry_problems(division, card))
        submission = self._submission(files, card, is_new)
        records = self._records(files, card)
        if division is None or submission is None or records is None or len(self.findings) > before:
            return
        baseline = self._rules.baseline_of(str(card["model"]["name"]))
        where = self._where(files.card)
        candidate = Candidate(files.card_id, files, where, card, division, submission, records, verdict, errata, baseline)
        self.candidates.append(candidate)

    def read_import(self, path: Path) -> None:
        """Check one document of results of another harness."""
        self._document(path, "imported", self._card_bytes)

    def _verdict(self, files: CardFiles) -> Mapping[str, JsonValue] | None:
        """The board's verdict on these very bytes."""
        path = self._board.verdict(files.card_id)
        if path.is_symlink() or not path.is_file() or file_sha256(files.card) != files.card_id:
            return None
        try:
            verdict = load_own(path)
        except CardError as error:
            self._refuse(path, "verdict", _without(error, path))
            return None
        if next(schema_problems(verdict, "verdict"), None) is not None or verdict["card"] != files.card_id:
            self._refuse(
                path, "verdict", "is no verdict on this card; delete it and run `ktdeval leaderboard check` on the main branch"
            )
            return None
        found: Mapping[str, JsonValue] = verdict
        return found

    def _card(self, files: CardFiles, is_known: bool) -> Card | None:
        """A card that lies where it belongs and is valid; None where something is refused."""
        if is_known:  # what is said of these very bytes holds
            value = self._parsed(files.card, self._card_bytes)
        else:
            value = self._texts(files.card, self._card_bytes, _CARD_SCHEMES)
        if value is None or not (is_known or self._is_valid(files.card)):
            return None
        if value.get("kind") not in ("trading", "scoring"):
            self._refuse(files.card, "kind", "is no result card of a trading or scoring task")
            return None
        card: Card = value
        wanted = self._board.card_files(card, files.card_id).card
        if wanted != files.card:
            self._refuse(files.card, "path", f"by its task, model and agent it belongs at {self._where(wanted)}")
            return None
        return card

    def _is_valid(self, path: Path) -> bool:
        """Whether a card follows its schema and from its own episodes; what is wrong is noted."""
        try:
            parse_card(read_text(path, self._card_bytes), "card")
        except KtdevalError as error:
            self._refuse(path, "card", str(error).removeprefix("card: "))
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # numbers that no honest card has
            self._refuse(path, "card", f"can't be validated: {type(error).__name__}: {error}")
        else:
            return True
        return False

    def _submission(self, files: CardFiles, card: Card, is_new: bool) -> Mapping[str, JsonValue] | None:
        submission = self._document(files.submission, "submission", _SUBMISSION_BYTES)
        if submission is None:
            return None
        for finding in check_formulas(submission, self._where(files.submission)):
            self.findings.append(finding)
        self._note(files.submission, submission_problems(self._rules, files.card_id, card, submission))
        if is_new:
            self._note(files.submission, date_problems(submission, self._options.today))
        return submission

    def _records(self, files: CardFiles, card: Card) -> Mapping[str, JsonValue] | None:
        most = _LIST_BYTES * (_FILES_OF_EPISODE * self._rules.limits.episodes + _FILES_OF_RUN)
        records = self._document(files.records, "records", min(most, self._card_bytes))
        if records is None:
            return None
        self._note(files.records, list_problems(self._rules, files.card_id, card, records))
        has_folder = records_folder(self._board, files.card_id) is not None
        if has_folder != (records["stored"] == "repository"):
            there = "there is such a folder" if has_folder else "there is no such folder"
            self._refuse(files.records, "records", f"stored: {records['stored']}, but records/{files.card_id[:12]}…: {there}")
        return records

    def _document(self, path: Path, kind: Kind, max_bytes: int) -> Mapping[str, JsonValue] | None:
        """A document that follows its schema and whose texts are harmless; None where something is refused."""
        value = self._texts(path, max_bytes, ("https",))
        if value is None:
            return None
        problems = [("schema", problem) for problem in schema_problems(value, kind)]
        self._note(path, iter(problems))
        return None if problems else value

    def _texts(self, path: Path, max_bytes: int, schemes: Sequence[str]) -> dict[str, JsonValue] | None:
        """A JSON object whose texts are harmless. Asked before its schema, whose patterns long texts could keep busy."""
        value = self._parsed(path, max_bytes)
        if value is None:
            return None
        found = list(check_texts(value, self._where(path), schemes))
        self.findings += found
        return None if found else value

    def _parsed(self, path: Path, max_bytes: int) -> dict[str, JsonValue] | None:
        """A JSON object; None where it is none, or no plain file of a size that is taken."""
        if not path.is_file() and not path.is_symlink():
            return None  # the look at the files has said so
        try:
            value = parse_json(read_text(path, max_bytes), str(path))
        except CardError as error:
            self._refuse(path, "size" if "are taken" in str(error) else "json", _without(error, path))
            return None
        if not isinstance(value, dict):
            self._refuse(path, "json", "is no JSON object")
            return None
        return value

    def _where(self, path: Path) -> str:
        return path.relative_to(self._board.path).as_posix()

    def _note(self, path: Path, problems: Iterator[tuple[str, str]]) -> None:
        """Refuse a file for each of its problems, the first twenty."""
        where = self._where(path)
        self.findings += [
            Finding(where, rule, problem) for (rule, problem), _ in zip(problems, range(_MOST_PROBLEMS), strict=False)
        ]

    def _refuse(self, path: Path, rule: str, message: str) -> None:
        self.findings.append(Finding(self._where(path), rule, message))


def _without(error: KtdevalError, path: Path) -> str:
    """What an error says, without the path in front, which differs from machine to machine."""
    return str(error).removeprefix(f"{path}: ")
