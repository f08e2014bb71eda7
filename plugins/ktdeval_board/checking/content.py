"""Stages of a check between files and records: JSON, documents, cards, and cards together. Each file is looked at once in each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ktdeval.cards import ScoringCard, TradingCard, parse_card
from ktdeval.contracts import DrawnKey, Registration
from ktdeval.errors import CardError, KtdevalError
from ktdeval.jsonio import JsonValue, file_sha256
from ktdeval.typed import from_plain
from ktdeval_board.checking.across import Together
from ktdeval_board.checking.cards import CardInputs, ListInputs, SubmissionInputs
from ktdeval_board.checking.files import (
    Tree,
    listed_cards,
    listed_imports,
    listed_keys,
    listed_registrations,
    records_folder,
    walk,
)
from ktdeval_board.checking.findings import At, Finding
from ktdeval_board.checking.registrations import KeyInputs, RegistrationInputs
from ktdeval_board.checking.rules import Faults, Inputs, Stage, findings_of
from ktdeval_board.checking.texts import Read
from ktdeval_board.documents import Imported, Records, Submission, Verdict, in_words
from ktdeval_board.entries import Candidate, Card, division_of, is_certified, names_of
from ktdeval_board.layout import BoardFolder, CardFiles
from ktdeval_board.reading import parse_untrusted, read_own, read_text
from ktdeval_board.registrations import NONE_FILED, Filed, Registrations, baselines_of, names_registration
from ktdeval_board.rules import Erratum, Excuse, Rules, load_excuses

T = TypeVar("T")

_TYPES: Mapping[Any, type[Card]] = {"trading": TradingCard, "scoring": ScoringCard}
_SUBMISSION_BYTES = 200_000
_LIST_BYTES, _FILES_OF_EPISODE, _FILES_OF_RUN = 500, 3, 10
"""An entry of a list of records takes about 200 bytes; a list that is longer than its episodes could fill it is not read."""


def check_files(folder: Path, rules: Rules) -> list[Finding]:
    """Check every file of a board: kind, name, path, size, the hash that a card's name says, and what is missing."""
    findings = [finding for item in walk(folder, rules.limits) for finding in findings_of(Stage.FILES, item)]
    return sorted({*findings, *findings_of(Stage.TREE, Tree(folder, rules.limits))})


def check_content(
    folder: Path, rules: Rules, errata: Sequence[Erratum], today: str, every: bool = False
) -> tuple[list[Finding], list[Candidate]]:
    """Check every document that submitters wrote, as far as possible without records and market.

    `today`: day of the check, YYYY-MM-DD; `every`: whether cards with a verdict on their very bytes are validated again, too.
    Returns what is refused, and the cards that are sound, in the order of their paths.
    """
    documents = _Documents(BoardFolder(folder), rules, today, every)
    documents.look_at_registrations(load_excuses(folder))
    looked_at = [documents.look(files, errata) for files in listed_cards(folder)]
    candidates = [candidate for candidate in looked_at if candidate is not None]
    for path in listed_imports(folder):
        documents.decode(path, documents.read(path, rules.limits.bytes_of("card_mb")), Imported)
    together = findings_of(Stage.TOGETHER, Together(candidates, documents.registrations))
    refused = {finding.path.removesuffix(".json").removesuffix(".submission") for finding in together}
    sound = [candidate for candidate in candidates if candidate.where.removesuffix(".json") not in refused]
    return sorted({*documents.findings, *together}), sound


def registrations_of(folder: Path, rules: Rules, today: str) -> tuple[list[Finding], Registrations]:
    """Check the registrations of a board and the keys drawn for them; return what is refused, and those that are sound."""
    documents = _Documents(BoardFolder(folder), rules, today, every=False)
    documents.look_at_registrations(load_excuses(folder))
    return documents.findings, documents.registrations


class _Documents:
    """Takes documents from stage to stage."""

    def __init__(self, board: BoardFolder, rules: Rules, today: str, every: bool) -> None:
        self.findings: list[Finding] = []
        self._board, self._rules, self._today, self._every = board, rules, today, every
        self.registrations = NONE_FILED

    def look_at_registrations(self, excuses: Sequence[Excuse]) -> None:
        """Hold all registrations, and the keys drawn for them, against the rules; what is not refused is kept for the cards."""
        most = self._rules.limits.bytes_of("card_mb")
        documents = {path: self._registration(path, most) for path in listed_registrations(self._board.path)}
        written = {path.stem: document for path, document in documents.items() if document is not None}
        keys = self._keys(written, most)
        filed = []
        for path, document in documents.items():
            if document is not None:
                excuse = next((each for each in excuses if each.registration == path.stem), None)
                filed.append(Filed(self._board.relative(path), document, keys.get(path.stem), excuse))
        registrations = Registrations(tuple(filed), baselines_of(self._rules))
        sound = []
        for each in filed:
            inputs = RegistrationInputs(each.where, self._rules, each, registrations, self._today)
            if not self._found(Stage.REGISTRATION, inputs):
                sound.append(each)
        self.registrations = Registrations(tuple(sound), baselines_of(self._rules))

    def _registration(self, path: Path, most: int) -> Registration | None:
        """Return a registration whose name is its id; None where it is refused."""
        value = self.read(path, most, schemes=("https", "http"))  # a model of one's own may be served by http
        if value is not None and self._found(Stage.JSON, Read(self._board.relative(path), value.get("submitter"), is_table=True)):
            return None
        registration = self.decode(path, value, Registration)
        if registration is not None and registration.id != path.stem:
            named = f"its content is registration {registration.id[:12]}…, its name says {path.stem[:12]}…"
            self._refuse(path, "registration", f"{named}; a registration is never edited")
            return None
        return registration

    def _keys(self, written: Mapping[str, Registration], most: int) -> dict[str, DrawnKey]:
        """Return the drawn keys that are in order, by registration."""
        keys, first = dict[str, DrawnKey](), dict[str, str]()
        for path in listed_keys(self._board.path):
            where = self._board.relative(path)
            drawn = self.decode(path, self.read(path, most, schemes=("https", "http")), DrawnKey)
            if drawn is None:
                continue
            earlier = first.setdefault(drawn.mask_key, where)
            twin = "" if earlier == where else earlier
            inputs = KeyInputs(where, names_registration(path), drawn, written.get(drawn.id), twin)
            if not self._found(Stage.KEY, inputs):
                keys[drawn.id] = drawn
        return keys

    def look(self, files: CardFiles, errata: Iterable[Erratum]) -> Candidate | None:
        """Hold a card, its submission and its list of records against the rules; it is a candidate when nothing is refused.

        Bytes that have a verdict keep it: their texts are not looked at.
        """
        rules, verdict, relative = self._rules, self._verdict(files), self._board.relative
        own = tuple(erratum for erratum in errata if erratum.card == files.card_id)
        is_new = verdict is None or self._every
        most = rules.limits.bytes_of("card_mb")
        list_bytes = min(_LIST_BYTES * (_FILES_OF_EPISODE * rules.limits.episodes + _FILES_OF_RUN), most)
        value = self.read(files.card, most, schemes=("https", "http"), is_known=not is_new)
        submission_json = self.read(files.submission, _SUBMISSION_BYTES, is_table=True)
        records_json = self.read(files.records, list_bytes)
        submission, records = (
            self.decode(files.submission, submission_json, Submission),
            self.decode(files.records, records_json, Records),
        )
        card = self._card(files, value, is_new)
        if card is None:
            return None
        before, where = len(self.findings), relative(files.card)
        if is_new and not any(erratum.effect == "withdrawn" for erratum in own):
            facts = (rules, card, is_certified(self._board, card), self.registrations)
            self._found(Stage.CARD, CardInputs(where, *facts))
        if submission is not None:
            day = self._today if is_new else None
            claimed = (rules, files.card_id, card, submission, day, self.registrations)
            self._found(Stage.SUBMISSION, SubmissionInputs(relative(files.submission), *claimed))
        if records is not None:
            has_folder = records_folder(self._board, files.card_id) is not None
            self._found(Stage.LIST, ListInputs(relative(files.records), rules, files.card_id, card, records, has_folder))
        division = division_of(rules, card)
        if len(self.findings) > before or division is None or submission is None or records is None:
            return None
        baseline = rules.baseline_of(card.model.name)
        rest = (division, submission, verdict, own, baseline, is_certified(self._board, card))
        return Candidate(files.card_id, files, card, *rest, where, records)

    def _verdict(self, files: CardFiles) -> Verdict | None:
        """Return the board's verdict on these very bytes."""
        path = self._board.verdict(files.card_id)
        if path.is_symlink() or not path.is_file() or file_sha256(files.card) != files.card_id:
            return None
        try:
            verdict = read_own(path, Verdict)
        except CardError as error:
            self._refuse(path, "verdict", _without(error, path))
            return None
        if verdict.card != files.card_id:
            self._refuse(path, "verdict", "is on another card; delete it and run `ktdeval leaderboard check` on the main branch")
            return None
        return verdict

    def read(self, path: Path, max_bytes: int, is_known: bool = False, **more: Any) -> dict[str, JsonValue] | None:
        """Read a JSON object whose texts are harmless; None where something is refused.

        Asked before the schema, whose patterns long texts could keep busy.
        """
        if not path.is_file() and not path.is_symlink():
            return None  # reported by the stage of files
        where, value, faults = self._board.relative(path), None, list[tuple[str, str]]()
        try:
            value = parse_untrusted(read_text(path, max_bytes), str(path))
            if not isinstance(value, dict):
                faults.append(("json", "is no JSON object"))
        except CardError as error:
            faults.append(("size" if "are taken" in str(error) else "json", _without(error, path)))
        if is_known and not faults:
            return value
        return None if self._found(Stage.JSON, Read(where, value, tuple(faults), **more)) else value

    def decode(self, path: Path, value: JsonValue | None, type_: type[T]) -> T | None:
        """Decode a document; None where it is refused."""
        try:
            return None if value is None else from_plain(value, type_, "", CardError)
        except CardError as error:
            self._refuse(path, "schema", in_words(str(error).removeprefix(": ")))
            return None

    def _card(self, files: CardFiles, card: dict[str, JsonValue] | None, is_new: bool) -> Card | None:
        """Return a card that is valid and lies where it belongs."""
        path = files.card
        if card is None or (is_new and not self._is_valid(path)):
            return None
        type_ = _TYPES.get(card.get("kind"))
        if type_ is None:
            self._refuse(path, "kind", "is no result card of a trading or scoring task")
            return None
        valid = self.decode(path, card, type_)
        if valid is None:
            return None
        expected = self._board.card_files(*names_of(valid), files.card_id).card
        if expected != path:
            self._refuse(path, "path", f"by its task, model and agent it belongs at {self._board.relative(expected)}")
            return None
        return valid

    def _is_valid(self, path: Path) -> bool:
        """Return whether a card follows its schema and from its own episodes."""
        try:
            parse_card(read_text(path, self._rules.limits.bytes_of("card_mb")), "card")
        except KtdevalError as error:
            self._refuse(path, "card", str(error).removeprefix("card: "))
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # numbers that no honest card has
            self._refuse(path, "card", f"can't be validated: {type(error).__name__}: {error}")
        else:
            return True
        return False

    def _found(self, stage: Stage, inputs: Inputs) -> bool:
        findings = findings_of(stage, inputs)
        self.findings += findings
        return bool(findings)

    def _refuse(self, path: Path, rule: str, message: str) -> None:
        where = self._board.relative(path)
        self._found(Stage.DOCUMENTS, Faults(where, [(rule, At(where, message))]))


def _without(error: KtdevalError, path: Path) -> str:
    """Return what an error says, without the path in front, which differs from machine to machine."""
    return str(error).removeprefix(f"{path}: ")
