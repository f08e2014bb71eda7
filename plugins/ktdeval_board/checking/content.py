"""Check stages between the file stage and the record stage: JSON, documents, single cards, and all
cards together. Each stage checks each file once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ktdeval.cards import ScoringCard, TradingCard, parse_card, signature_path
from ktdeval.errors import CardError, KtdevalError, SignatureError
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import DrawnKey, Registration
from ktdeval.values import Finding, JsonValue, file_sha256, from_plain
from ktdeval_board.anchored_heads import AnchoredHead, CardAnchors, PublishedHead, load_chain
from ktdeval_board.board_entries import Candidate, Card, division_of, is_certified, names_of
from ktdeval_board.checking.cards import CardInputs, ListInputs, SubmissionInputs
from ktdeval_board.checking.files import (
    BoardTree,
    listed_anchors,
    listed_cards,
    listed_imports,
    listed_keys,
    listed_registrations,
    records_folder,
    walk,
)
from ktdeval_board.checking.findings import FileMessage
from ktdeval_board.checking.registrations import KeyInputs, RegistrationInputs
from ktdeval_board.checking.rules import FileFaults, Stage, StageInputs, findings_of
from ktdeval_board.checking.rules_across_cards import SoundCards
from ktdeval_board.checking.text_rules import ReadDocument
from ktdeval_board.document_types import Imported, Records, Submission, Submitter, Verdict, in_words
from ktdeval_board.errata import Errata, Erratum, Excuse, load_errata
from ktdeval_board.layout import BoardFolder, CardFiles
from ktdeval_board.market_document import Market
from ktdeval_board.read_documents import OversizeError, parse_untrusted, read_own, read_text
from ktdeval_board.registrations import (
    NONE_FILED,
    FiledRegistration,
    Registrations,
    names_registration,
    registrations_on,
)
from ktdeval_board.rules import Rules
from ktdeval_board.signed import (
    lacks_signature,
    missing_card_signature,
    registration_key,
    registration_signature_problem,
)

T = TypeVar("T")

_TYPES: Mapping[Any, type[Card]] = {"trading": TradingCard, "scoring": ScoringCard}
_SUBMISSION_BYTES = 200_000
# An entry in a list of records takes about 200 bytes. A list too long for the number of episodes
# allowed is not read.
_LIST_BYTES = 500
_FILES_OF_EPISODE = 3
_FILES_OF_RUN = 10


def check_files(folder: Path, rules: Rules) -> list[Finding]:
    """Check every file of a board: kind, name, path and size, whether a card's name is its hash,
    and whether files are missing.
    """
    findings = set(findings_of(Stage.TREE, BoardTree(folder, rules.limits)))
    for item in walk(folder, rules.limits):
        findings.update(findings_of(Stage.FILES, item))

    return sorted(findings)


@dataclass(frozen=True)
class CheckContext:
    """Additional inputs for a check."""

    #: ids of cards that are being submitted, which are ordered after all others
    submitted: Collection[str] = ()
    plugins: Plugins | None = None  #: plugins that provide the models; None for the installed ones


def check_content(
    folder: Path,
    rules: Rules,
    errata: Errata,
    today: str,
    every: bool = False,
    given: CheckContext = CheckContext(),
) -> tuple[list[Finding], list[Candidate]]:
    """Check every document written by submitters, as far as possible without records and markets.

    `today` is the day of the check, as YYYY-MM-DD. `every` says whether cards with a verdict on
    their exact bytes are validated again. Returns the findings, and the valid cards ordered by
    path.
    """
    known = load_plugins() if given.plugins is None else given.plugins
    documents = _DocumentChecker(BoardFolder(folder), rules, today, every, known)
    documents.look_at_registrations(errata.registrations)
    documents.look_at_anchors()
    candidates = []
    for files in listed_cards(folder):
        candidate = documents.look(files, errata.errata)
        if candidate is not None:
            candidates.append(candidate)

    for path in listed_imports(folder):
        documents.decode(path, documents.read(path, rules.limits.bytes_of("card_mb")), Imported)

    everything = SoundCards(candidates, documents.registrations, given.submitted)
    together = findings_of(Stage.TOGETHER, everything)
    refused = {finding.path.replace(".submission.json", ".json") for finding in together}
    sound = [candidate for candidate in candidates if candidate.where not in refused]

    return sorted({*documents.findings, *together}), sound


def registrations_of(folder: Path, rules: Rules, today: str) -> tuple[list[Finding], Registrations]:
    """Check a board's registrations and the keys drawn for them; return the findings and the valid
    registrations.
    """
    documents = _DocumentChecker(BoardFolder(folder), rules, today, every=False, plugins=None)
    documents.look_at_registrations(load_errata(folder).registrations)
    return documents.findings, documents.registrations


class _DocumentChecker:
    """Passes documents from stage to stage."""

    def __init__(
        self, board: BoardFolder, rules: Rules, today: str, every: bool, plugins: Plugins | None
    ) -> None:
        self.findings: list[Finding] = []
        self.registrations = NONE_FILED
        self._heads: dict[str, list[PublishedHead]] = {}  # by registration
        self._board = board
        self._rules = rules
        self._today = today
        self._every = every
        self._plugins = plugins

    def look_at_registrations(self, excuses: Sequence[Excuse]) -> None:
        """Check all registrations and the keys drawn for them; the valid ones are stored in
        `registrations`, for use with the cards.
        """
        most = self._rules.limits.bytes_of("card_mb")
        documents: dict[Path, Registration] = {}
        for path in listed_registrations(self._board.path):
            document = self._registration(path, most)
            if document is not None:
                documents[path] = document

        keys = self._keys({path.stem: each for path, each in documents.items()}, most)
        excused = {excuse.registration: excuse for excuse in reversed(excuses)}
        filed = []
        for path, document in documents.items():
            drawn = keys.get(path.stem)
            excuse = excused.get(path.stem)
            if not self._has_sound_signature(path, document, drawn, excuse):
                continue

            signed_by = registration_key(path, document.submitter, drawn, self._rules)
            where = self._board.relative(path)
            filed.append(FiledRegistration(where, document, drawn, excuse, signed_by))

        registrations = registrations_on(self._rules, filed)
        sound = []
        for each in filed:
            inputs = RegistrationInputs(each.where, self._rules, each, registrations, self._today)
            if not self._check_found(Stage.REGISTRATION, inputs):
                sound.append(each)

        self.registrations = registrations_on(self._rules, sound)

    def look_at_anchors(self) -> None:
        """Check the published heads of anchors; the valid ones are used with the cards."""
        most = self._rules.limits.bytes_of("card_mb")
        for path in listed_anchors(self._board.path):
            head = self.decode(path, self.read(path, most), AnchoredHead)
            if head is None:
                continue

            problem = self._head_problem(path, head)
            if problem is not None:
                self._refuse(path, "anchor", problem)
                continue

            published = PublishedHead(self._board.relative(path), head)
            self._heads.setdefault(head.registration, []).append(published)

    def _head_problem(self, path: Path, head: AnchoredHead) -> str | None:
        """Return why a published head is not one of a registered run."""
        if (path.parent.name, path.stem) != (head.registration, head.head):
            return "its path does not name its registration and its head"

        filed = self.registrations.by_id.get(head.registration)
        if filed is None or filed.drawn is None:
            return "is the head of a run whose registration is not on the board, or has no key yet"
        if head.anchored_on < filed.drawn.drawn_on:
            return f"anchored_on: {head.anchored_on} is before the key was drawn"
        if head.anchored_on > self._today:
            return f"anchored_on: {head.anchored_on} is in the future (today is {self._today})"
        return None

    def _anchors_of(self, files: CardFiles, card: Card) -> CardAnchors:
        """Return what the board holds about the anchors of a card's run."""
        folder = records_folder(self._board, files.card_id)
        chain, problem = load_chain(folder, self._rules.limits.bytes_of("file_mb"))
        heads = tuple(self._heads.get(card.registration or "", ()))
        return CardAnchors(heads, chain, problem)

    def _has_sound_signature(
        self,
        path: Path,
        registration: Registration,
        drawn: DrawnKey | None,
        excuse: Excuse | None,
    ) -> bool:
        """Return whether a registration's signature is valid.

        Rejects an invalid signature. Also rejects a missing one if the name or contact belongs to a
        key holder, since anyone can write a name. A missing signature is accepted on an excused
        registration without a key, since it never gets one.
        """
        submitter = registration.submitter
        try:
            problem = registration_signature_problem(path, submitter, drawn, self._rules)
        except SignatureError as error:
            self._refuse(signature_path(path), "signature", str(error))
            return False

        if problem and (drawn is not None or excuse is None):
            self._refuse(path, "signature", problem)
            return False

        return True

    def _registration(self, path: Path, most: int) -> Registration | None:
        """Return a registration whose file name is its id; None if it is rejected."""
        # A submitter's own model may be served over http.
        value = self.read(path, most, schemes=("https", "http"))
        if value is not None:
            # Tables show the submitter's texts, which must therefore not be spreadsheet formulas.
            shown: dict[str, JsonValue] = {"submitter": value.get("submitter")}
            submitter = ReadDocument(self._board.relative(path), shown, is_table=True)
            if self._check_found(Stage.JSON, submitter):
                return None

        registration = self.decode(path, value, Registration)
        if registration is not None and registration.id != path.stem:
            named = (
                f"its content is registration {registration.id[:12]}…, but its name says "
                f"{path.stem[:12]}…"
            )
            self._refuse(path, "registration", f"{named}; a registration is never edited")
            return None

        return registration

    def _keys(self, written: Mapping[str, Registration], most: int) -> dict[str, DrawnKey]:
        """Return the valid drawn keys, keyed by registration."""
        keys = dict[str, DrawnKey]()
        first = dict[str, str]()
        for path in listed_keys(self._board.path):
            where = self._board.relative(path)
            drawn = self.decode(path, self.read(path, most, schemes=("https", "http")), DrawnKey)
            if drawn is None:
                continue

            earlier = first.setdefault(drawn.mask_key, where)
            twin = "" if earlier == where else earlier
            inputs = KeyInputs(where, names_registration(path), drawn, written.get(drawn.id), twin)

            if not self._check_found(Stage.KEY, inputs):
                keys[drawn.id] = drawn

        return keys

    def look(self, files: CardFiles, errata: Iterable[Erratum]) -> Candidate | None:
        """Check a card, its submission and its list of records; return a candidate if nothing is
        rejected.

        The texts of cards that already have a verdict are not checked again.
        """
        rules = self._rules
        relative = self._board.relative
        own = tuple(erratum for erratum in errata if erratum.card == files.card_id)
        verdict = self._verdict(files)
        is_new = verdict is None or self._every

        most = rules.limits.bytes_of("card_mb")
        max_files = _FILES_OF_EPISODE * rules.limits.episodes + _FILES_OF_RUN
        list_bytes = min(_LIST_BYTES * max_files, most)
        value = self.read(files.card, most, schemes=("https", "http"), is_known=not is_new)
        submission_json = self.read(files.submission, _SUBMISSION_BYTES, is_table=True)
        records_json = self.read(files.records, list_bytes)
        submission = self.decode(files.submission, submission_json, Submission)
        records = self.decode(files.records, records_json, Records)
        card = self._card(files, value, is_new)
        if card is None:
            return None

        before = len(self.findings)
        where = relative(files.card)
        certified = is_certified(self._board, card)
        if is_new and not any(erratum.effect == "withdrawn" for erratum in own):
            market = self._market_of(card)
            anchors = self._anchors_of(files, card)
            inputs = CardInputs(
                where, rules, card, certified, self.registrations, market, self._plugins, anchors
            )
            self._check_found(Stage.CARD, inputs)

        if submission is not None:
            claimed = SubmissionInputs(
                relative(files.submission),
                rules,
                files.card_id,
                card,
                submission,
                self._today if is_new else None,
                self.registrations,
            )
            self._check_found(Stage.SUBMISSION, claimed)
            self._check_card_signature(files, submission.submitter, verdict is None)

        if records is not None:
            has_folder = records_folder(self._board, files.card_id) is not None
            listed = ListInputs(
                relative(files.records), rules, files.card_id, card, records, has_folder
            )
            self._check_found(Stage.LIST, listed)

        division = division_of(rules, card)
        if len(self.findings) > before or division is None or submission is None or records is None:
            return None

        return Candidate(
            files.card_id,
            files,
            card,
            division,
            submission,
            verdict,
            own,
            rules.baseline_of(card.model.name, card.model.args),
            certified,
            where=where,
            records=records,
        )

    def _market_of(self, card: Card) -> Market | None:
        """Return the board's document on a card's market; None if the board has not opened the
        market.
        """
        for rule in self._rules.snapshots:
            path = self._board.market(rule.name)
            if card.snapshot is None or card.snapshot.id != rule.id or not path.is_file():
                continue

            try:
                return read_own(path, Market)
            except CardError:
                return None  # rewritten when the market is opened

        return None

    def _verdict(self, files: CardFiles) -> Verdict | None:
        """Return the board's verdict on these exact bytes."""
        path = self._board.verdict(files.card_id)
        if path.is_symlink() or not path.is_file() or file_sha256(files.card) != files.card_id:
            return None

        try:
            verdict = read_own(path, Verdict)
        except CardError as error:
            self._refuse(path, "verdict", _message_without_path(error, path))
            return None

        if verdict.card != files.card_id:
            self._refuse(
                path,
                "verdict",
                "belongs to another card; delete it and run `ktdeval leaderboard check` on the "
                "main branch",
            )
            return None

        self._check_signature(path)
        return verdict

    def _check_signature(self, verdict: Path) -> None:
        """Reject an invalid signature on a verdict, and a missing one if the rules require
        signatures.
        """
        try:
            is_wanting = lacks_signature(verdict, self._rules)
        except SignatureError as error:
            advice = "sign the verdict again with `ktdeval leaderboard sign`"
            self._refuse(signature_path(verdict), "signature", f"{error}; {advice}")
            return

        if is_wanting:
            message = "no signer of the board signed it; run `ktdeval leaderboard sign`"
            self._refuse(verdict, "signature", message)

    def _check_card_signature(
        self, files: CardFiles, submitter: Submitter, is_unjudged: bool
    ) -> None:
        """Reject an invalid signature on a card, and a new unsigned card in the name of a submitter
        who has a key on the board, since anyone can write a name.
        """
        try:
            problem = missing_card_signature(files.card, submitter, self._rules)
        except SignatureError as error:
            self._refuse(files.signature, "signature", str(error))
            return

        if problem and is_unjudged:
            self._refuse(files.card, "signature", problem)

    def read(
        self, path: Path, max_bytes: int, is_known: bool = False, **more: Any
    ) -> dict[str, JsonValue] | None:
        """Read a JSON object and check its texts; return None if anything is rejected.

        Texts are checked before the schema, since the schema's patterns are slow on long texts.
        `is_known` says whether the texts were checked before.
        """
        if not path.is_file() and not path.is_symlink():
            return None  # reported in the files stage

        value: JsonValue = None
        faults = list[tuple[str, str]]()
        try:
            value = parse_untrusted(read_text(path, max_bytes), str(path))
            if not isinstance(value, dict):
                faults.append(("json", "is not a JSON object"))
        except CardError as error:
            rule = "size" if isinstance(error, OversizeError) else "json"
            faults.append((rule, _message_without_path(error, path)))

        if faults or not is_known:
            read = ReadDocument(self._board.relative(path), value, tuple(faults), **more)
            if self._check_found(Stage.JSON, read):
                return None

        return value if isinstance(value, dict) else None

    def decode(self, path: Path, value: JsonValue | None, type_: type[T]) -> T | None:
        """Decode a document; None if it is missing or rejected."""
        if value is None:
            return None

        try:
            return from_plain(value, type_, "", CardError)
        except CardError as error:
            self._refuse(path, "schema", in_words(str(error).removeprefix(": ")))
            return None

    def _card(
        self, files: CardFiles, card: dict[str, JsonValue] | None, is_new: bool
    ) -> Card | None:
        """Return a card if it is valid and lies in the folder that matches its names."""
        path = files.card
        if card is None or (is_new and not self._is_valid(path)):
            return None

        type_ = _TYPES.get(card.get("kind"))
        if type_ is None:
            self._refuse(path, "kind", "is not a result card of a trading or scoring task")
            return None

        valid = self.decode(path, card, type_)
        if valid is None:
            return None

        expected = self._board.card_files(*names_of(valid), files.card_id).card
        if expected != path:
            self._refuse(
                path,
                "path",
                f"its task, model and agent belong in {self._board.relative(expected)}",
            )
            return None

        return valid

    def _is_valid(self, path: Path) -> bool:
        """Return whether a card follows its schema and is consistent with its own episodes."""
        try:
            parse_card(read_text(path, self._rules.limits.bytes_of("card_mb")), "card")
        except KtdevalError as error:
            self._refuse(path, "card", str(error).removeprefix("card: "))
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            # only forged cards contain such numbers
            self._refuse(path, "card", f"can't be validated: {type(error).__name__}: {error}")
        else:
            return True

        return False

    def _check_found(self, stage: Stage, inputs: StageInputs) -> bool:
        findings = findings_of(stage, inputs)
        self.findings += findings
        return bool(findings)

    def _refuse(self, path: Path, rule: str, message: str) -> None:
        where = self._board.relative(path)
        self._check_found(Stage.DOCUMENTS, FileFaults(where, [(rule, FileMessage(where, message))]))


def _message_without_path(error: KtdevalError, path: Path) -> str:
    """Return an error message without the leading path, which differs between machines."""
    return str(error).removeprefix(f"{path}: ")
