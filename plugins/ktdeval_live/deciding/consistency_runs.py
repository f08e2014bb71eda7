"""Consistency runs: entrants are asked again about past days on the same frozen inputs, separately
from the record.

The runs appear neither in the chain nor in a card. They show how much of a decision is due to
chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from ktdeval.trading import DECIDED
from ktdeval.values import (
    decode_json,
    encode_canonical,
    lock_folder,
    make_folder,
    read_plain,
    write_atomic,
)
from ktdeval_live.deciding.ask_entrant import EntrantAsker
from ktdeval_live.record.chain import RecordChain
from ktdeval_live.record.decision_records import DecisionRecord, PlannedOrder
from ktdeval_live.record.entrant_episode import EntrantMarket, answers, find_entries
from ktdeval_live.record.folder import LiveFolder

REPEATS = "_repeats"
"""Folder for consistency runs, inside the private folder; no entrant can have this name."""


@dataclass
class RepeatAgreement:
    """Agreement between the repeats for an entry and its recorded decisions."""

    entry: EntrantMarket
    days: int = 0  #: number of days that were asked again
    repeats: int = 0  #: number of repeats with a decision
    failed: int = 0  #: number of repeats without a decision
    same_sides: int = 0  #: number of repeats that buy and sell the same assets
    same_orders: int = 0  #: number of repeats that also have the same order sizes


def repeat_test(asker: EntrantAsker, times: int) -> Iterator[RepeatAgreement]:
    """Repeat each entrant's decisions, `times` times for each day whose cutoff has passed; yield
    the agreement for each entry.

    A repeat with a decision is stored and not requested again. Raises KtdevalError.
    """
    folder = asker.folder
    chain = folder.chain()
    for entry in find_entries(folder.plan):
        found = RepeatAgreement(entry)
        for record in _past_decisions(folder, chain, entry, asker.clock.now()):
            found.days += 1
            for number in range(times):
                again = _repeat(asker, entry, record, number)
                _count_repeat(found, record, again)
        yield found


def _past_decisions(
    folder: LiveFolder, chain: RecordChain, entry: EntrantMarket, now: datetime
) -> Iterator[DecisionRecord]:
    """Yield an entry's valid decisions whose cutoff has passed."""
    ended = answers(chain, entry)
    for session in folder.schedule(entry.market).deciding:
        answer = ended.get(session.day)
        is_past = session.cutoff is not None and session.cutoff <= now
        if answer is None or not answer.counts or not is_past:
            continue

        record = folder.record(entry.key(session.day))
        if record is not None:
            yield record


def _repeat(
    asker: EntrantAsker, entry: EntrantMarket, record: DecisionRecord, number: int
) -> DecisionRecord:
    """Return repeat number `number` of a decision. The entrant is asked now, unless the repeat is
    already stored.
    """
    home = asker.folder.private / REPEATS / entry.entrant.name / entry.market / str(number)
    make_folder(home)
    path = home / f"{record.question.day}.json"
    with lock_folder(home):
        if path.is_file():
            return decode_json(read_plain(path), DecisionRecord, str(path))

        again = asker.ask_question(entry, record.question, home)
        if again.provenance in DECIDED:
            write_atomic(path, encode_canonical(again))
        return again


def _count_repeat(found: RepeatAgreement, record: DecisionRecord, again: DecisionRecord) -> None:
    if again.provenance not in DECIDED:
        found.failed += 1
        return

    found.repeats += 1
    found.same_sides += _sides(record) == _sides(again)
    found.same_orders += _sizes(record) == _sizes(again)


def _sides(record: DecisionRecord) -> list[tuple[str, str]]:
    return sorted((_order_asset(order), order.side) for order in record.orders)


def _sizes(record: DecisionRecord) -> list[tuple[str, str, str]]:
    sizes = []
    for order in record.orders:
        size = f"{order.target_weight} {order.shares} {order.limit_ticks}"
        sizes.append((_order_asset(order), order.side, size))
    return sorted(sizes)


def _order_asset(order: PlannedOrder) -> str:
    return order.code or f"? {order.stock_id}"
