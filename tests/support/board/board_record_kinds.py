"""Kinds of forged records, with marks, card and list of records that agree with them: what only
executing them again can tell.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from ktdeval.runner import LEDGER, MARK, TRANSCRIPT
from ktdeval_board.rules import load_rules
from support.board.board_card_kinds import no_calls
from support.board.board_kinds import change_card, full
from support.board.forged_board import (
    ForgedBoard,
    NotApplicableError,
    Value,
    put_json,
)
from support.figures.renewed_cards import renewed_card
from support.runs.transcripts import read_transcript, write_transcript

_RULE = "ledger"  #: Rule that what is executed again breaks


def _with_all_that_follows(
    change: Callable[[ForgedBoard, Path], object],
) -> Callable[[ForgedBoard], None]:
    """Return a change of the first episode's records, after which marks, card and list name the
    files as they are then.
    """

    def build(board: ForgedBoard) -> None:
        change(board, board.episode())
        board.renew_records()

    return build


def _change_ledger(change: Callable[[list[Value]], object]) -> Callable[[ForgedBoard, Path], None]:
    """Return a change of the rows of a ledger."""

    def rewrite(_board: ForgedBoard, folder: Path) -> None:
        path = folder / LEDGER
        if not path.is_file():
            raise NotApplicableError("the submission has no ledger")

        table = pq.read_table(path)
        rows = table.to_pylist()
        change(rows)
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path, compression="zstd")

    return rewrite


def _change_transcript(
    change: Callable[[list[Any]], object],
) -> Callable[[ForgedBoard, Path], None]:
    """Return a change of the entries of a transcript."""

    def rewrite(_board: ForgedBoard, folder: Path) -> None:
        entries = read_transcript(folder)
        change(entries)
        write_transcript(folder, entries)

    return rewrite


def _raise_value(rows: list[Value]) -> None:
    row = rows[-1]
    name = next(name for name in row if name.startswith("nav_"))
    row[name] += 100


def _one_reply_less(entries: list[Any]) -> None:
    entry = next(entry for entry in reversed(entries) if entry["exchanges"])
    entry["exchanges"] = entry["exchanges"][:-1]


def _swap_episodes(board: ForgedBoard) -> None:
    """Put two episodes, as of two seeds or windows, in the place of each other."""
    if len(board.original.card["episodes"]) < 2:
        raise NotApplicableError("the card has one episode")

    one = board.episode(0)
    other = board.episode(1)
    for name in (LEDGER, TRANSCRIPT):
        if (one / name).is_file():
            held = (one / name).read_bytes()
            (one / name).write_bytes((other / name).read_bytes())
            (other / name).write_bytes(held)

    board.renew_records()


def _better_episode(card: Value) -> None:
    """Add to every return, and let all that follows from it follow."""
    for episode in card["episodes"]:
        entry = episode["metrics"].get("total_return")
        if entry is None or entry["value"] is None:
            raise NotApplicableError("the card has no return")
        entry["value"] += 0.25


def _better_episodes(board: ForgedBoard) -> None:
    def change(card: Value) -> None:
        _better_episode(card)
        card.update(renewed_card(card))

    change_card(board, change)


def _count_otherwise(board: ForgedBoard) -> None:
    """Count one reply more in the mark of an episode than its transcript holds."""
    path = board.episode() / MARK
    mark = json.loads(path.read_text())
    mark["said"]["replies"] += 1

    if mark.get("calls") is not None:
        mark["calls"]["answered"] += 1
        mark["calls"]["attempts"] += 1

    put_json(path, mark)
    board.renew_records()


def _count_calls_otherwise(board: ForgedBoard) -> None:
    """Count one answered call less than the transcripts have replies, in the mark, on the card and
    in its sums.
    """
    path = board.episode() / MARK
    mark = json.loads(path.read_text())
    if mark.get("calls") is None:
        raise NotApplicableError("the model makes no calls of a provider")

    def change(card: Value) -> None:
        calls = card["provenance"]["calls"]
        own = calls["episodes"][path.parent.name]
        for counts in (calls, own, mark["calls"]):
            counts["answered"] -= 1
            counts["attempts"] -= 1

    card = json.loads(board.files.card.read_text())
    change(card)
    put_json(path, mark)
    change_card(board, lambda old: old.update(card))
    board.renew_records()


def _calls_of_a_model_that_makes_none(board: ForgedBoard) -> None:
    """Claim paid calls of a model of this machine, or none a remote model."""

    def change(card: Value) -> None:
        if card["provenance"]["calls"] is not None:
            card["provenance"]["calls"] = None
            card["sent_as"] = None
            return

        card["provenance"]["calls"] = no_calls()
        card["sent_as"] = {}
        if card["cost"].get("price"):
            card["cost"]["price"]["source"] = "a list"

    change_card(board, change)


def _bomb(board: ForgedBoard, folder: Path) -> None:
    """Leave a transcript of a few bytes that says it unpacks to more than is taken."""
    size = load_rules(board.folder).limits.bytes_of("unpacked_mb") + 1
    packer = zstandard.ZstdCompressor(level=1).compressobj(size=size)
    head = packer.compress(b"\0" * 1000) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    (folder / TRANSCRIPT).write_bytes(head)


full(
    "ledger_with_another_value",
    _RULE,
    "ledger",
    _with_all_that_follows(_change_ledger(_raise_value)),
)
full(
    "ledger_without_its_last_step",
    _RULE,
    "ledger",
    _with_all_that_follows(_change_ledger(lambda rows: rows.pop())),
)
full(
    "transcript_with_a_reply_less",
    _RULE,
    "transcript",
    _with_all_that_follows(_change_transcript(_one_reply_less)),
)
full(
    "transcript_without_its_last_step",
    _RULE,
    "transcript",
    _with_all_that_follows(_change_transcript(lambda old: old.pop())),
)
full("transcript_that_is_a_bomb", "size", "transcript", _with_all_that_follows(_bomb))
full("episodes_in_the_place_of_each_other", _RULE, "ledger", _swap_episodes)
full("replies_counted_otherwise_than_in_the_transcript", _RULE, "mark", _count_otherwise)
full("calls_counted_otherwise_than_in_the_transcript", _RULE, "mark", _count_calls_otherwise)
full("calls_of_a_model_that_makes_none", "provenance", "card", _calls_of_a_model_that_makes_none)
full(
    "better_episodes_with_all_that_follows",
    _RULE,
    "card",
    _better_episodes,
)
