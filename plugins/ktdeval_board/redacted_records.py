"""Redacted records of a card for submission to a board: a copy of the card's run folder that
contains only records, without secrets.

Secrets are the values of secret environment variables, keys in known formats, and home folders.
Messages never quote a secret, only its kind and file. A secret in a transcript is replaced
everywhere, so that replies, prompts, ledger and card still agree, and the copy can be verified from
only the replies. If the copy does not verify, the bundle has problems and must not be submitted.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ktdeval.cards import card_difference, validate_card
from ktdeval.errors import KtdevalError, StoreError, wrap_os_error
from ktdeval.registry import Plugins
from ktdeval.runner import (
    ANCHORS,
    ANSWERS,
    CANARY,
    CERTIFICATE,
    LEDGER,
    MANIFEST,
    MARK,
    TRANSCRIPT,
    RunFolder,
    load_anchors,
    load_table,
    pack_lines,
    rescore,
    verify_card,
)
from ktdeval.secrets import REDACTED as REDACTED, SecretHider, hider_of, secret_forms, secrets_of
from ktdeval.task_api import EpisodeSpec
from ktdeval.values import (
    JsonValue,
    Value,
    dumps_pretty,
    file_sha256,
    loads_data,
    read_plain,
    to_plain,
    write_atomic,
)
from ktdeval_board.board_entries import Card
from ktdeval_board.document_types import RecordFile
from ktdeval_board.rules import SnapshotRule

_ADVICE = "run again without it, or unset the variable if it is not a secret"


@dataclass(frozen=True)
class BundleSource:
    """Source of a bundle: a card from a run, and the current location of its market."""

    run: RunFolder
    card_path: Path  #: the card in the run's `cards` folder
    card: Card
    #: `data` and `data_args` for the market's current location (as accepted by `verify_card`)
    changes: Mapping[str, Any]
    #: the board's rule for the card's market; None if the card has no market
    market: SnapshotRule | None

    @property
    def specs(self) -> list[EpisodeSpec]:
        """Episodes of the card."""
        return self.run.specs_of(self.card.task.name)


@dataclass(frozen=True)
class Bundle:
    """A run folder with a single card. It is fit for publication if `problems` is empty."""

    folder: Path
    #: the card in the bundle's `cards` folder: the run's own card, or a regenerated card if a
    #: secret was replaced
    card_path: Path
    redacted: tuple[Leak, ...] = ()  #: secrets that were replaced, with their files
    problems: tuple[str, ...] = ()  #: why the bundle must not be published, one line each

    @property
    def card_id(self) -> str:
        """Id of the card on a board."""
        return file_sha256(self.card_path)

    def files(self) -> list[RecordFile]:
        """Return the records sorted by path, without the card."""
        files = []
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and path.parent.name != "cards":
                name = path.relative_to(self.folder).as_posix()
                files.append(RecordFile(name, file_sha256(path), path.stat().st_size))

        return files


def make_bundle(source: BundleSource, folder: Path, redactor: Redactor, plugins: Plugins) -> Bundle:
    """Copy the records of a card into a new folder, without secrets.

    The manifest contains only the card's own episodes and uses the board's name for the market. If
    a transcript, the answers or the fixed questions contain a secret, the secret is replaced in all
    records, the records get new hashes, and the card is regenerated from them and verified.
    """
    with wrap_os_error(f"{source.run.path}: its records can't be copied to {folder}"):
        bundle = _copy(source, folder)
        try:
            redacted = tuple(dict.fromkeys(_redact(bundle, source, redactor)))
            problems = []
            if redacted:
                problems = _remade_problems(bundle, source, redacted, redactor, plugins)

            left = list(dict.fromkeys(_find_leaks(bundle, redactor)))
        except (KtdevalError, pa.ArrowException) as error:
            # The contents of such a file are unknown, so nothing from the run is published.
            reason = redactor.redact(str(error).replace(f"{folder}/", ""))[0]
            return replace(bundle, problems=(f"does not verify: can't be read: {reason}",))

    for leak in left:
        problems.append(f"{leak.place}: contains {leak.kind}, which can't be removed; {_ADVICE}")

    return replace(bundle, redacted=redacted, problems=tuple(problems))


def _copy(source: BundleSource, folder: Path) -> Bundle:
    for spec in source.specs:
        target = folder / "episodes" / spec.id
        target.mkdir(parents=True)
        for name in (LEDGER, ANSWERS, TRANSCRIPT, MARK):
            path = source.run.episode_path(spec) / name
            if path.is_file():
                shutil.copyfile(path, target / name)

    for name in (CANARY, CERTIFICATE, ANCHORS):
        if (source.run.path / name).is_file():
            shutil.copyfile(source.run.path / name, folder / name)

    # No path from the submitter's machine is published.
    data: dict[str, JsonValue] | None = None
    if source.market is not None:
        data = {"data": source.market.data, "data_args": dict(source.market.data_args)}

    # The call log contains hashes of all prompts and of unused replies, so it stays with the
    # submitter.
    manifest = replace(source.run.manifest, data=data, specs=tuple(source.specs), call_log=None)
    write_atomic(folder / MANIFEST, dumps_pretty(manifest.to_json()))
    (folder / "cards").mkdir()
    shutil.copyfile(source.card_path, folder / "cards" / source.card_path.name)

    return Bundle(folder, folder / "cards" / source.card_path.name)


# ---- replacement


def _redact(bundle: Bundle, source: BundleSource, redactor: Redactor) -> Iterator[Leak]:
    """Replace secrets in transcripts, ledgers, answers and fixed questions. Yield each secret with
    its file.
    """
    run = RunFolder.load(bundle.folder)
    for spec in source.specs:
        folder = run.episode_path(spec)
        base = f"episodes/{spec.id}"
        leaks = _rewritten(
            folder / TRANSCRIPT, to_plain(run.load_transcript(spec)), pack_lines, redactor
        )

        if (folder / ANSWERS).is_file():
            leaks += _rewritten(
                folder / ANSWERS, to_plain(run.load_answers(spec)), pack_lines, redactor
            )
        else:
            table = load_table(folder / LEDGER)
            leaks += _rewritten(
                folder / LEDGER,
                table.to_pylist(),
                partial(_packed_table, schema=table.schema),
                redactor,
            )

        if leaks:
            _update_mark(folder)

        for leak in leaks:
            yield Leak(f"{base}/{leak.place}", leak.kind)

    path = bundle.folder / CANARY
    if path.is_file():
        yield from _rewritten(path, _read_json(path), dumps_pretty, redactor)


def _update_mark(folder: Path) -> None:
    """Write the hashes of an episode's files to the episode's completion mark."""
    mark = _read_object(folder / MARK)
    names = mark.get("sha256")
    if not isinstance(names, Mapping):
        raise StoreError(f"{folder / MARK}: has no hashes")

    for name in names:
        if name not in (LEDGER, ANSWERS, TRANSCRIPT):
            raise StoreError(
                f"{folder / MARK}: lists {name!a}, which is not a record of an episode"
            )

    hashes = {name: file_sha256(folder / name) for name in names}
    write_atomic(folder / MARK, dumps_pretty({**mark, "sha256": hashes}))


def _rewritten(
    path: Path, value: JsonValue, pack: Callable[[Any], bytes | str], redactor: Redactor
) -> list[Leak]:
    """Write a file with its secrets replaced; return the replaced secrets."""
    kinds: dict[str, None] = {}
    redacted = redactor.redact_value(value, lambda kind: kinds.update({kind: None}))
    if kinds:
        write_atomic(path, pack(redacted))
    return [Leak(path.name, kind) for kind in kinds]


def _packed_table(rows: list[dict[str, Any]], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
    packed: bytes = sink.getvalue().to_pybytes()

    return packed


def _read_json(path: Path) -> JsonValue:
    try:
        value = loads_data(read_plain(path))
    except ValueError as error:
        raise StoreError(f"{path}: is not readable: {error}") from error

    return value


def _read_object(path: Path) -> dict[str, JsonValue]:
    value = _read_json(path)
    if not isinstance(value, dict):
        raise StoreError(f"{path}: is not a JSON object")

    return value


# ---- the card of redacted records


def _remade_problems(
    bundle: Bundle,
    source: BundleSource,
    redacted: Sequence[Leak],
    redactor: Redactor,
    plugins: Plugins,
) -> list[str]:
    """Regenerate the card from the redacted records. If the new card does not verify, return the
    reason.
    """
    try:
        bundle.card_path.unlink(missing_ok=True)
        rescore(bundle.folder, plugins, source.changes, is_published=True)
        card = _read_object(bundle.card_path)
        # The call log is not published, so the time, place and cost of the run can't be derived
        # from the copy. They are therefore taken from the original card.
        provenance = to_plain(source.card.provenance)
        card["provenance"] = redactor.redact_value(provenance, list[str]().append)
        validate_card(card, str(bundle.card_path))
        write_atomic(bundle.card_path, dumps_pretty(card))
        verified = verify_card(bundle.card_path, plugins, source.changes, is_published=True)
        reasons = [str(finding) for finding in verified.findings]
        if not reasons:
            reasons = _card_differences(_read_object(source.card_path), card)
    except KtdevalError as error:
        reasons = [str(error)]

    kinds = ", ".join(sorted({leak.kind for leak in redacted}))
    return [
        f"transcripts contain {kinds}, which can't be replaced consistently in all records "
        f"({redactor.redact(reason)[0]}); {_ADVICE}"
        for reason in reasons[:1]
    ]


def _card_differences(
    submitted: Mapping[str, JsonValue], remade: Mapping[str, JsonValue]
) -> list[str]:
    """Return how a regenerated card differs from the run's card, apart from hashes of records.

    Without this comparison, rescoring would silently turn a forged card into an honest one.
    """
    difference = card_difference({**submitted, "artefacts": {}}, {**remade, "artefacts": {}})
    return [] if difference is None else [f"the card differs: {difference}"]


# ---- what remains


def _find_leaks(bundle: Bundle, redactor: Redactor) -> Iterator[Leak]:
    """Yield the secrets that remain, which lie in a field that is hashed, in a name, or in the
    certificate.
    """
    for path in sorted(bundle.folder.rglob("*")):
        name = path.relative_to(bundle.folder).as_posix()
        if path.suffix == ".json":
            value = _read_json(path)
            if name == MANIFEST and isinstance(value, dict):
                del value["data"]  # the board's own text, not the submitter's

            yield from redactor.find(value, name)

    if (bundle.folder / ANCHORS).is_file():
        for text in load_anchors(bundle.folder / ANCHORS).texts():
            yield from redactor.find(text, ANCHORS)

    run = RunFolder.load(bundle.folder)
    for spec in run.manifest.specs:
        records, transcript = run.load_recorded(spec)
        yield from redactor.find(to_plain(records), f"episodes/{spec.id}")
        yield from redactor.find(to_plain(transcript), f"episodes/{spec.id}/{TRANSCRIPT}")


HOME = "/home/[user]"  #: Replacement for a home folder

_LONGEST_CACHED = 1_000_000  #: maximum length in characters of a text whose result is cached
_MAX_CACHED = 50_000


class Leak(Value, frozen=True, kw_only=False):
    """A secret that was found: its file and its kind."""

    place: str
    kind: str


class Redactor:
    """Finds and replaces secrets. Equal inputs give equal outputs, so that a record and its copies
    stay equal.

    `environment` contains environment variables. The values of its secret variables are treated as
    secrets (see `secrets_of`). `home` is the user's home folder, which is a secret even if it has
    an unusual form.
    """

    def __init__(self, environment: Mapping[str, str], home: str = "") -> None:
        self._hiders: list[tuple[SecretHider, str]] = []
        self._values: list[tuple[str, str, str]] = []
        for name, value in secrets_of(environment).items():
            self._hiders.append((hider_of(((REDACTED, value),)), f"the value of ${name}"))

        if home.count("/") > 1 or "\\" in home:  # `/root` and `/` do not identify a person
            self._values.append((home, "a home folder", HOME))

        self._seen: dict[str, tuple[str, tuple[str, ...]]] = {}

    def redact(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Return a text with its secrets replaced, and the kinds of secrets that were replaced."""
        redacted = self._seen.get(text)
        if redacted is None:
            redacted = self._look(text)
            # The same prompt is repeated at every step.
            if len(self._seen) < _MAX_CACHED and len(text) < _LONGEST_CACHED:
                self._seen[text] = redacted

        return redacted

    def redact_value(self, value: JsonValue, report: Callable[[str], None]) -> JsonValue:
        """Return a JSON value with all texts except keys redacted. `report` is called with the kind
        of each secret.
        """
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
        """Yield the secrets in a JSON value, including its keys, one for each kind. `where` is the
        file that contains the value.
        """
        kinds: dict[str, None] = {}
        for text in _json_texts(value):
            kinds |= dict.fromkeys(self.redact(text)[1])
        yield from (Leak(where, kind) for kind in kinds)

    def _look(self, text: str) -> tuple[str, tuple[str, ...]]:
        kinds: dict[str, None] = {}
        for hider, kind in self._hiders:
            hidden = hider.hide(text)
            if hidden != text:
                text = hidden
                kinds[kind] = None

        for secret, kind, replacement in self._values:
            if secret in text:
                text = text.replace(secret, replacement)
                kinds[kind] = None

        for form in secret_forms():
            text, count = form.pattern.subn(form.replacement, text)
            if count:
                kinds[form.kind] = None

        return text, tuple(kinds)


def _json_texts(value: JsonValue) -> Iterator[str]:
    """Yield every text in a JSON value, including keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _json_texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _json_texts(item)
