"""Chain of entries in a forward test, in which each entry contains the hash of the previous one.

One entry is one line of canonical JSON in `chain.jsonl`. An entry that was changed, removed, added
or moved breaks the chain. A rewritten chain has a different head than the published chain. Entries
hold hashes of texts and data, which are in files next to the chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeVar

from msgspec import UNSET, Meta, UnsetType

from ktdeval.cards import Count, Day, Sha256
from ktdeval.errors import StoreError, VerificationError
from ktdeval.values import Value, decode_json, encode_canonical, sha256_hex
from ktdeval_live.days.clock import of_text
from ktdeval_live.plan import Entrant, Name
from ktdeval_live.record.append_only_file import append_line, whole_lines

GapCause = Literal["missed", "no_data", "late", "failed", "deadline", "unpublished"]
"""Why there is no decision on a day: nobody ran `step` in time (`missed`); the day's data did not
arrive (`no_data`); the reply came after the cutoff (`late`); the model's calls failed or it
submitted nothing valid (`failed`); the entrant exceeded its deadline (`deadline`); the data or the
commitment were not published (and stamped, if the plan requires this) before the cutoff
(`unpublished`).
"""


Moment = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]


class Begun(Value, tag="begun", tag_field="kind"):
    """First entry, which defines the test."""

    plan: Sha256  #: hash of the plan
    schedules: dict[Name, Sha256]  #: hash of each market's schedule
    base: dict[Name, Sha256]  #: id of each market's pre-test snapshot
    files: dict[str, Sha256]  #: hash of each file with which the test began, by name
    systems: dict[str, str]  #: hash of each entrant in each market, by `entrant/market`
    software: str  #: version of ktdeval
    #: version of the test's file formats; absent in tests that began before formats had one
    version: Annotated[int, Meta(ge=0)] | UnsetType = UNSET


class Joined(Value, tag="joined", tag_field="kind"):
    """An entrant that joins a running test. It decides only on later days."""

    entrant: Entrant
    systems: dict[str, str]  #: hash of the entrant in each of its markets, by `entrant/market`


class Frozen(Value, tag="frozen", tag_field="kind"):
    """Data for a day, or a revision of these data, as they became known."""

    market: Name
    day: Day
    increment: Sha256  #: hash of the increment
    number: Count  #: 0 for the first data of a day, then counted up for revisions


# a tuple: `_asdict` turns its fields into fields of entries and questions
class DecisionKey(NamedTuple):
    """Key of a decision: entrant, market, and the ISO day on whose close it is made."""

    entrant: str
    market: str
    day: str


class OfDecision(Value):
    """Base of values about one decision of an entrant."""

    entrant: Name
    market: Name
    day: Day  #: day whose close is the last information known

    @property
    def key(self) -> DecisionKey:
        """Key of the decision."""
        return DecisionKey(self.entrant, self.market, self.day)

    @property
    def entry(self) -> str:
        """Name of the entry: `ENTRANT/MARKET`."""
        return f"{self.entrant}/{self.market}"


class Decided(OfDecision, tag="decided", tag_field="kind"):
    """Commitment to a decision."""

    data: Sha256  #: hash of the chain entry with the latest data shown
    record: Sha256  #: salted hash of the whole record
    orders: Sha256  #: salted hashes of parts of the record
    prompts: Sha256
    replies: Sha256
    memory: Sha256


class Gap(OfDecision, tag="gap", tag_field="kind"):
    """A day on which an entrant has no decision, so that positions are held."""

    cause: GapCause
    detail: str  #: one line


Body = Begun | Joined | Frozen | Decided | Gap
B = TypeVar("B", Joined, Frozen, Decided, Gap)


def make_gap(key: DecisionKey, cause: GapCause, detail: str) -> Gap:
    """Return a gap for a decision."""
    return Gap(**key._asdict(), cause=cause, detail=detail)


class Entry(Value):
    """A link of the chain."""

    seq: Count
    previous: Sha256  #: hash of the previous entry; 64 zeros in the first
    at: Moment  #: time of writing by the step's clock, UTC
    body: Body

    @property
    def hash(self) -> str:
        """SHA-256 of the entry's line."""
        return sha256_hex(encode_canonical(self))


NOTHING_BEFORE = "0" * 64


class RecordChain:
    """Entries of a test, and the file to which they are appended. Only one process at a time may
    write.
    """

    def __init__(self, path: Path, entries: Sequence[Entry] | None = None) -> None:
        """Read a chain, or use entries that have already been read.

        Raises StoreError if a line is malformed; VerificationError if a link is broken.
        """
        self.path = path
        if entries is None:
            entries = read_chain(path)
        self.entries: list[Entry] = list(entries)

    @property
    def head(self) -> str:
        """Hash of the last entry."""
        return self.entries[-1].hash if self.entries else NOTHING_BEFORE

    def first(self, count: int) -> RecordChain:
        """Return the chain at the time when it had `count` entries."""
        return RecordChain(self.path, self.entries[:count])

    def find_links(self, kind: type[B]) -> Iterator[tuple[Entry, B]]:
        """Yield all entries of a given kind, each with its body."""
        for entry in self.entries:
            if isinstance(entry.body, kind):
                yield entry, entry.body

    def find_data(self, market: str) -> Iterator[tuple[Entry, Frozen]]:
        """Yield all entries with data for a market, each with its body."""
        for entry, body in self.find_links(Frozen):
            if body.market == market:
                yield entry, body

    def list_frozen_days(self, market: str) -> set[str]:
        """Return the days for which a market's data are frozen."""
        return {body.day for _, body in self.find_data(market)}

    def before_data(self, data: str) -> RecordChain:
        """Return the chain up to and including the entry with the hash `data`, whose data were then
        the latest.
        """
        last = next(entry.seq for entry in self.entries if entry.hash == data)
        return self.first(last + 1)

    def append(self, body: Body, at: str) -> Entry:
        """Write an entry durably and return it.

        Raises StoreError if the file can't be written, or if the clock is behind the last entry.
        """
        self.check_clock(at)
        entry = Entry(seq=len(self.entries), previous=self.head, at=at, body=body)
        append_line(self.path, encode_canonical(entry))
        self.entries.append(entry)
        return entry

    def check_clock(self, at: str) -> None:
        """Raise StoreError if a time precedes the last entry, which means that the clock was set
        back.
        """
        if self.entries and at < self.entries[-1].at:
            raise StoreError(
                f"{self.path}: the clock says {at}, and the last entry was written at"
                f" {self.entries[-1].at}; set the clock right, or wait until then"
            )


def read_chain(path: Path) -> list[Entry]:
    """Return the entries in a file, after verifying their links.

    An incomplete last line, as a killed process leaves it, is ignored. Raises StoreError or
    VerificationError, with the line number.
    """
    entries = []
    for number, line in enumerate(whole_lines(path), 1):
        entry = decode_json(line, Entry, f"{path}: line {number}")
        if encode_canonical(entry).encode() != line:
            raise VerificationError(f"{path}: line {number}: is not canonical JSON")
        entries.append(entry)

    problem = next(link_problems(entries), None)
    if problem is not None:
        raise VerificationError(f"{path}: {problem}")
    return entries


def link_problems(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the faults in a chain's links, one line each."""
    previous = NOTHING_BEFORE
    at = ""
    for number, entry in enumerate(entries):
        where = f"line {number + 1}"
        if entry.seq != number:
            yield f"{where}: has number {entry.seq}, expected {number}: an entry is missing or moved"
        if entry.previous != previous:
            yield f"{where}: does not continue the line before it: one of the two was changed"
        if not _is_moment(entry.at):
            yield f"{where}: {entry.at!r} is not a time"
        if entry.at < at:
            yield f"{where}: was written at {entry.at}, before the line before it ({at})"
        if isinstance(entry.body, Begun) != (number == 0):
            yield f"{where}: a chain begins once, at its first line"

        previous = entry.hash
        at = entry.at


def _is_moment(text: str) -> bool:
    try:
        of_text(text)
    except ValueError:
        return False
    return True
