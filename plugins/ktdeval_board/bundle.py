"""Records of one card as they go to a board: a copy of its run folder with nothing in it that is no record, and no secret.

Secrets are values of secret variables, keys of known forms, and folders of somebody's home; nothing here ever repeats one,
only what kind of thing it was and where it stood. One that a transcript repeats is replaced wherever it stands. The replies say
then what the prompts, the ledger and the card say, so the copy still verifies from the replies alone; where it does not, the bundle
has problems and must not be submitted.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.cards import validate_card
from ktdeval.contracts import EpisodeSpec
from ktdeval.errors import KtdevalError, StoreError, secrets_of
from ktdeval.jsonio import JsonValue, dumps_pretty, file_sha256, loads_strict, read_plain, write_atomic
from ktdeval.registry import Plugins
from ktdeval.runner import RunFolder, load_table, pack_lines, rescore, verify_card
from ktdeval.typed import Value, to_plain
from ktdeval.yamlio import load_yaml
from ktdeval_board.documents import RecordFile
from ktdeval_board.entries import Card
from ktdeval_board.layout import ANSWERS, CANARY, CERTIFICATE, LEDGER, MANIFEST, MARK, TRANSCRIPT
from ktdeval_board.rules import SnapshotRule

_ADVICE = "run again without it, or unset the variable where it is no secret"


@dataclass(frozen=True)
class Source:
    """Source of a bundle."""

    run: RunFolder
    card_path: Path  #: the card, in its folder `cards`
    card: Card
    changes: Mapping[str, Any]  #: `data` and `data_args` where the market is now (as `verify_card` takes them)
    market: SnapshotRule | None  #: how the board names that market; None where there is none

    @property
    def specs(self) -> list[EpisodeSpec]:
        """Episodes of the card."""
        return [spec for spec in self.run.manifest.specs if spec.task == self.card.task.name]


@dataclass(frozen=True)
class Bundle:
    """A run folder of one card that may be published."""

    folder: Path
    card_path: Path  #: the card, in its folder `cards`; that of the run, or made again where something was redacted
    redacted: tuple[Leak, ...] = ()  #: what was replaced, by the file it stood in
    problems: tuple[str, ...] = ()  #: why it must not be published, a line each; empty when it may

    def files(self) -> list[RecordFile]:
        """Return the records in the order of their paths; the card is none."""
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file() and path.parent.name != "cards")
        return [RecordFile(path.relative_to(self.folder).as_posix(), file_sha256(path), path.stat().st_size) for path in paths]


def make_bundle(source: Source, folder: Path, redactor: Redactor, plugins: Plugins) -> Bundle:
    """Copy the records of a card into a new folder, without what must not be published.

    The manifest keeps the card's own episodes only, and names the market as the board does: paths of the submitter's machine do
    not leave it. Where a transcript, the answers or the fixed questions hold a secret, it is replaced in all records, these get new
    hashes, and the card is made from them again and verified.
    """
    try:
        bundle = _copy(source, folder)
        redacted = tuple(dict.fromkeys(_redact(bundle, source, redactor)))
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{source.run.path}: its records can't be copied to {folder}: {error}") from error
    problems = _remade_problems(bundle, source, redacted, redactor, plugins) if redacted else []
    left = dict.fromkeys(_left(bundle, redactor))
    problems += [f"{leak.place}: holds {leak.kind}, which can't be taken out; {_ADVICE}" for leak in left]
    return replace(bundle, redacted=redacted, problems=tuple(problems))


def _copy(source: Source, folder: Path) -> Bundle:
    for spec in source.specs:
        (folder / "episodes" / spec.id).mkdir(parents=True)
        for name in (LEDGER, ANSWERS, TRANSCRIPT, MARK):
            if (path := source.run.episode_path(spec) / name).is_file():
                shutil.copyfile(path, folder / "episodes" / spec.id / name)
    for name in (CANARY, CERTIFICATE):
        if (source.run.path / name).is_file():
            shutil.copyfile(source.run.path / name, folder / name)
    data = None if source.market is None else {"data": source.market.data, "data_args": dict(source.market.data_args)}
    # The record of calls holds every prompt's hash and every reply that nobody used, and stays with the submitter.
    manifest = replace(source.run.manifest, data=data, specs=tuple(source.specs), call_log=None)
    write_atomic(folder / MANIFEST, dumps_pretty(manifest.to_json()))
    (folder / "cards").mkdir()
    shutil.copyfile(source.card_path, folder / "cards" / source.card_path.name)
    return Bundle(folder, folder / "cards" / source.card_path.name)


# ---- replacing


def _redact(bundle: Bundle, source: Source, redactor: Redactor) -> Iterator[Leak]:
    """Replace what can be replaced; yield what was, by file. A ledger follows its transcript, and a mark its files."""
    run = RunFolder.load(bundle.folder)
    for spec in source.specs:
        folder, base = run.episode_path(spec), f"episodes/{spec.id}"
        leaks = _rewritten(folder / TRANSCRIPT, to_plain(run.load_transcript(spec)), pack_lines, redactor)
        if (folder / ANSWERS).is_file():
            leaks += _rewritten(folder / ANSWERS, to_plain(run.load_answers(spec)), pack_lines, redactor)
        else:
            table = load_table(folder / LEDGER)
            leaks += _rewritten(folder / LEDGER, table.to_pylist(), partial(_packed_table, schema=table.schema), redactor)
        if leaks:  # the mark of completeness names the files as they are now
            mark = _read_json(folder / MARK)
            mark["sha256"] = {name: file_sha256(folder / name) for name in mark["sha256"]}
            write_atomic(folder / MARK, dumps_pretty(mark))
        yield from (Leak(f"{base}/{leak.place}", leak.kind) for leak in leaks)
    if (path := bundle.folder / CANARY).is_file():
        yield from _rewritten(path, _read_json(path), dumps_pretty, redactor)


def _rewritten(path: Path, value: JsonValue, pack: Callable[[JsonValue], bytes | str], redactor: Redactor) -> list[Leak]:
    """Write a file without what must not be published; return what that was."""
    kinds: dict[str, None] = {}
    redacted = redactor.redact_value(value, lambda kind: kinds.update({kind: None}))
    if kinds:
        write_atomic(path, pack(redacted))
    return [Leak(path.name, kind) for kind in kinds]


def _packed_table(rows: JsonValue, schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _read_json(path: Path) -> JsonValue:
    try:
        return loads_strict(read_plain(path))
    except ValueError as error:
        raise StoreError(f"{path}: is not readable: {error}") from error


# ---- the card of redacted records


def _remade_problems(bundle: Bundle, source: Source, redacted: Sequence[Leak], redactor: Redactor, plugins: Plugins) -> list[str]:
    """Make the card from the redacted records, and say why it does not verify, if it does not."""
    findings: Sequence[str]
    try:
        bundle.card_path.unlink(missing_ok=True)
        rescore(bundle.folder, plugins, source.changes)
        card = _read_json(bundle.card_path)
        # When and where the run was made, and what it paid, is as it was: the book of calls is no record that goes to a board.
        card["provenance"] = redactor.redact_value(to_plain(source.card.provenance), list[str]().append)
        validate_card(card, str(bundle.card_path))
        write_atomic(bundle.card_path, dumps_pretty(card))
        findings = verify_card(bundle.card_path, plugins, source.changes).findings
    except KtdevalError as error:
        findings = (str(error),)
    kinds = ", ".join(sorted({leak.kind for leak in redacted}))
    return [
        f"transcripts hold {kinds}, which can't be replaced so that the records still agree ({redactor.redact(finding)[0]}); "
        f"{_ADVICE}"
        for finding in findings[:1]
    ]


# ---- what is left


def _left(bundle: Bundle, redactor: Redactor) -> Iterator[Leak]:
    """Yield what still must not be published: in a field that hashes are made of, in a name, in the certificate."""
    for path in sorted(bundle.folder.rglob("*")):
        name = path.relative_to(bundle.folder).as_posix()
        if path.suffix == ".json":
            value = _read_json(path)
            if name == MANIFEST:
                del value["data"]  # these are the board's own words
            yield from redactor.find(value, name)
    run = RunFolder.load(bundle.folder)
    for spec in run.manifest.specs:
        records, transcript = run.load_recorded(spec)
        yield from redactor.find(to_plain(records), f"episodes/{spec.id}")
        yield from redactor.find(to_plain(transcript), f"episodes/{spec.id}/{TRANSCRIPT}")


REDACTED = "[redacted]"  #: Replacement of a secret
HOME = "/home/[user]"  #: Replacement of a home folder

_LONGEST_KEPT = 1_000_000
_CACHED = 50_000


class _Form(NamedTuple):
    """Something that is recognised by its form."""

    kind: str
    pattern: re.Pattern[str]
    replacement: str


_FORMS = tuple(
    _Form(form["kind"], re.compile(form["pattern"]), form.get("replacement", REDACTED))
    for form in load_yaml(Path(__file__).with_name("secrets.yaml"))["forms"]
)


class Leak(Value, frozen=True, kw_only=False):
    """Something that must not be published: where it stands, and what kind of thing it is."""

    place: str
    kind: str


class Redactor:
    """Finds and replaces what must not be published. Equal texts give equal texts, so that a record and its copies stay equal.

    `environment`: its secret-looking variables are looked for by their values (`secrets_of` says which these are). `home`: home
    folder of the user; looked for where it is none of the usual ones.
    """

    def __init__(self, environment: Mapping[str, str], home: str = "") -> None:
        self._values: list[tuple[str, str, str]] = []
        for name, value in secrets_of(environment).items():
            forms = dict.fromkeys((value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]))
            self._values += [(form, f"the value of ${name}", REDACTED) for form in forms]
        if home.count("/") > 1 or "\\" in home:  # `/root` and `/` say nothing of anybody
            self._values.append((home, "a home folder", HOME))
        self._seen: dict[str, tuple[str, tuple[str, ...]]] = {}

    def redact(self, text: str) -> tuple[str, tuple[str, ...]]:
        """A text without what must not be published, and the kinds of what was replaced."""
        redacted = self._seen.get(text)
        if redacted is None:
            redacted = self._look(text)
            if len(self._seen) < _CACHED and len(text) < _LONGEST_KEPT:  # prompts come again at every step
                self._seen[text] = redacted
        return redacted

    def redact_value(self, value: JsonValue, report: Callable[[str], None]) -> JsonValue:
        """A JSON value with every text in it redacted, except keys; `report` is called with the kind of each leak."""
        if isinstance(value, str):
            text, kinds = self.redact(value)
            for kind in kinds:
                report(kind)
            return text
        if isinstance(value, dict):
            return {key: self.redact_value(item, report) for key, item in value.items()}
        if isinstance(value, list):
            return [self.redact_value(item, report) for item in value]
        return value

    def find(self, value: JsonValue, where: str) -> Iterator[Leak]:
        """Yield what must not be published in a JSON value, keys among it; each kind once. `where`: what the value is of."""
        kinds: dict[str, None] = {}
        for text in _texts(value):
            kinds |= dict.fromkeys(self.redact(text)[1])
        yield from (Leak(where, kind) for kind in kinds)

    def _look(self, text: str) -> tuple[str, tuple[str, ...]]:
        kinds: dict[str, None] = {}
        for secret, kind, replacement in self._values:
            if secret in text:
                text = text.replace(secret, replacement)
                kinds[kind] = None
        for form in _FORMS:
            text, count = form.pattern.subn(form.replacement, text)
            if count:
                kinds[form.kind] = None
        return text, tuple(kinds)


def _texts(value: JsonValue) -> Iterator[str]:
    """Every text of a JSON value, keys among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
