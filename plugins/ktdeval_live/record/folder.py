"""Folder of a forward test. Everything except `private/` is published. `site/` is generated from
published files and is not part of the record.

plan.json, schedules/MARKET.json, base/MARKET/   written when the test begins
data/MARKET/DAY-N.json                           increments
chain.jsonl                                      one entry a line
records/ENTRANT/MARKET/DAY.json                  decisions, once they may be read
stamps/SEQ.tsr, published.jsonl                  evidence of when the chain was published
private/ENTRANT/MARKET/                          sealed decisions, records of model calls
site/                                            live page
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec

from ktdeval.errors import StoreError, VerificationError, wrap_os_error
from ktdeval.market import MarketSnapshot, load_snapshot
from ktdeval.values import (
    Value,
    check_version,
    decode_json,
    dumps_pretty,
    encode_canonical,
    lock_folder,
    make_folder,
    read_plain,
    to_plain,
    write_atomic,
)
from ktdeval_live.days.clock import in_text, of_text
from ktdeval_live.days.market_increments import Increment, check_increment, market_as_known
from ktdeval_live.days.market_sessions import Schedule
from ktdeval_live.plan import LivePlan
from ktdeval_live.record.append_only_file import MAX_BYTES
from ktdeval_live.record.chain import DecisionKey, Frozen, Gap, Joined, RecordChain
from ktdeval_live.record.decision_records import DecisionRecord

T = TypeVar("T")

PLAN = "plan.json"
CHAIN = "chain.jsonl"
PRIVATE = "private"
SITE = "site"
CARDS = "cards"
IGNORED = ".gitignore"
PUBLISHED = "published.jsonl"
STAMPS = "stamps"
FORMAT = "forward test"
_LOOKED = "looked-at.txt"


class _HeadBody(msgspec.Struct):
    version: int | None = None


class _Head(msgspec.Struct):
    """The part of a chain's first entry that is read before anything else."""

    body: _HeadBody


class LiveFolder:
    """Files of a forward test. Files that never change are read only once."""

    def __init__(self, path: Path) -> None:
        """Open a test. Raises StoreError if the folder does not contain a test."""
        self.path = path.absolute()
        if not (self.path / PLAN).is_file():
            raise StoreError(
                f"{path}: is not a forward test (no {PLAN}); begin one with `ktdeval live init`"
            )

        self._schedules: dict[str, Schedule] = {}
        self._bases: dict[str, MarketSnapshot] = {}
        self._check_version()

    def _check_version(self) -> None:
        """Raise StoreError if the chain was started with a different version of the test's file
        formats.

        The chain reader checks whether the file is a chain at all.
        """
        chain = self.path / CHAIN
        if not chain.is_file():
            return

        first = read_plain(chain, MAX_BYTES).partition(b"\n")[0]
        try:
            head = msgspec.json.decode(first, type=_Head)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return

        if head.body.version is not None:
            advice = "continue with the version of ktdeval that began it"
            check_version(FORMAT, head.body.version, self.path, advice)

    @cached_property
    def begun_plan(self) -> LivePlan:
        """Plan with which the test began."""
        return self._read(self.path / PLAN, LivePlan)

    @cached_property
    def plan(self) -> LivePlan:
        """Plan including the entrants that have joined, as of the first access."""
        plan = self.begun_plan
        joined = [body.entrant for _, body in self.chain().find_links(Joined)]
        return msgspec.structs.replace(plan, entrants=(*plan.entrants, *joined))

    def schedule(self, market: str) -> Schedule:
        """Return a market's sessions."""
        if market not in self._schedules:
            path = self.path / "schedules" / f"{market}.json"
            self._schedules[market] = self._read(path, Schedule)
        return self._schedules[market]

    def cutoffs(self) -> dict[tuple[str, str], datetime | None]:
        """Return the cutoff for each market and each day with a decision."""
        cutoffs = {}
        for market in self.plan.markets:
            for session in self.schedule(market).deciding:
                cutoffs[market, session.day] = session.cutoff
        return cutoffs

    def base(self, market: str) -> MarketSnapshot:
        """Return a market as it was before the test."""
        if market not in self._bases:
            self._bases[market] = load_snapshot(self.path / "base" / market)
        return self._bases[market]

    # --- the chain and its data

    def chain(self) -> RecordChain:
        """Return the current chain. Raises StoreError or VerificationError."""
        return RecordChain(self.path / CHAIN)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the test for this process. Raises StoreError if another process holds the lock."""
        make_folder(self.private)
        with lock_folder(self.private):
            yield

    @property
    def private(self) -> Path:
        """Folder for unpublished files."""
        return self.path / PRIVATE

    def store_increment(self, increment: Increment, number: int) -> None:
        """Write an increment; it is frozen once the chain contains it."""
        path = self._increment_path(increment.market, increment.day, number)
        make_folder(path.parent)
        write_atomic(path, encode_canonical(increment))

    def increment(self, frozen: Frozen) -> Increment:
        """Return the increment of a data entry.

        Raises VerificationError if the file contains a different increment; DataError if the
        increment is invalid in its market.
        """
        if frozen.day not in self.schedule(frozen.market).days:
            raise VerificationError(f"{frozen.market} has no session {frozen.day}")

        path = self._increment_path(frozen.market, frozen.day, frozen.number)
        increment = self._read(path, Increment)
        is_as_written = read_plain(path, MAX_BYTES) == encode_canonical(increment).encode()
        if increment.hash != frozen.increment or not is_as_written:
            raise VerificationError(
                f"{path}: is not the data that the chain names for {frozen.day}: a value was "
                "changed"
            )
        if (increment.market, increment.day) != (frozen.market, frozen.day):
            raise VerificationError(f"{path}: holds data of {increment.market} {increment.day}")

        check_increment(increment, self.base(frozen.market))
        return increment

    def _increment_path(self, market: str, day: str, number: int) -> Path:
        return self.path / "data" / market / f"{day}-{number}.json"

    def increments(self, market: str, chain: RecordChain | None = None) -> list[Increment]:
        """Return a market's increments in chain order, by default those in the current chain."""
        known = chain or self.chain()
        return [self.increment(body) for _, body in known.find_data(market)]

    def market(self, name: str, chain: RecordChain | None = None) -> MarketSnapshot:
        """Return a market as known to a chain, by default to the current one."""
        days = self.schedule(name).days
        return market_as_known(self.base(name), days, self.increments(name, chain))

    # --- decisions

    def record_path(self, key: DecisionKey, private: bool) -> Path:
        """Return the path of a decision's file, private or published."""
        above = self.private if private else self.path / "records"
        return above / key.entrant / key.market / f"{key.day}.json"

    def record(self, key: DecisionKey) -> DecisionRecord | None:
        """Return a decision, published or sealed; None if it does not exist."""
        for private in (False, True):
            path = self.record_path(key, private)
            if path.is_file():
                return self._read(path, DecisionRecord)
        return None

    def publish_record(self, key: DecisionKey) -> None:
        """Move a decision to the published ones, unless it is already there or does not exist."""
        sealed = self.record_path(key, private=True)
        if not sealed.is_file():
            return

        target = self.record_path(key, private=False)
        make_folder(target.parent)
        with wrap_os_error(f"{target}: can't publish the record"):
            write_atomic(target, read_plain(sealed))
            sealed.unlink()

    def set_aside(self, key: DecisionKey) -> None:
        """Rename a record without a valid decision, so that the entrant can be asked again."""
        sealed = self.record_path(key, private=True)
        number = len(list(sealed.parent.glob(f"{key.day}.failed-*.json")))
        with wrap_os_error(f"{sealed}: can't be renamed"):
            sealed.rename(sealed.with_name(f"{key.day}.failed-{number}.json"))

    def note_problem(self, gap: Gap) -> None:
        """Store the latest reason why a day has no decision."""
        path = self._problem_path(gap.key)
        make_folder(path.parent)
        write_atomic(path, encode_canonical(gap))

    def noted_problem(self, key: DecisionKey) -> Gap | None:
        """Return the latest reason why a day has no decision; None if no failure is recorded."""
        path = self._problem_path(key)
        if not path.is_file():
            return None
        return self._read(path, Gap)

    def looked_at(self) -> datetime | None:
        """Return the time at which a step last looked for data; None before the first look."""
        path = self.private / _LOOKED
        if not path.is_file():
            return None
        return of_text(read_plain(path).decode("ascii").strip())

    def note_look(self, time: datetime) -> None:
        """Store the time at which a step looked for data."""
        write_atomic(self.private / _LOOKED, in_text(time) + "\n")

    def _problem_path(self, key: DecisionKey) -> Path:
        return self.record_path(key, private=True).with_name(f"{key.day}.problem.json")

    def _read(self, path: Path, type_: type[T]) -> T:
        with wrap_os_error(f"{path}: can't be read"):
            data = read_plain(path, MAX_BYTES)
        return decode_json(data, type_, str(path))


def write_plan(path: Path, value: Value) -> None:
    """Write a typed value in a human-readable form."""
    write_atomic(path, dumps_pretty(to_plain(value)))
