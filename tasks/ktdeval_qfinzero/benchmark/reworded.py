"""Instructions in other words, as data: a file of wordings that a model wrote and a run recorded.

Each wording replaces the instruction of one item. The item's clock, setup and expected calls stay,
so answers are compared with the same expected calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from ktdeval.errors import DataError, os_reason
from ktdeval.values import Arguments, JsonValue, Value, decode_json, read_plain, sha256_hex
from ktdeval_qfinzero.benchmark.items import BenchmarkItem
from ktdeval_qfinzero.benchmark.literals import wording_problem
from ktdeval_qfinzero.scoring.types import Suite

_Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class ItemWording(Value):
    """Another wording of one item's instruction."""

    id: str  #: id of the item
    original_sha256: _Sha256  #: hash of the instruction that the wording replaces
    instruction: str


class Wordings(Value):
    """Contents of a file of reworded task instructions."""

    version: Literal[1]
    suite: Suite
    model: str  #: model that wrote the wordings
    model_args: Arguments
    prompt_sha256: _Sha256  #: hash of the prompt that asked for the wordings
    episodes: tuple[str, ...]  #: ids of the recorded episodes from which the wordings come
    wordings: Annotated[tuple[ItemWording, ...], Meta(min_length=1)]


def load_wordings(path: Path, name: str) -> tuple[Wordings, str]:
    """Return a file of wordings and its SHA-256. `name`: the name that the user gave. Raises
    DataError if the file is unreadable or malformed.
    """
    try:
        text = read_plain(path)
    except OSError as error:
        raise DataError(f"{name}: can't be read: {os_reason(error)}") from error

    return decode_json(text, Wordings, name, DataError), sha256_hex(text)


def reword_items(
    items: Sequence[BenchmarkItem], wordings: Wordings, suite: Suite, where: str
) -> list[BenchmarkItem]:
    """Return the items that have a wording, with the wording as their instruction, in the items'
    order.

    Raises DataError if a wording belongs to another suite, matches no item, replaces another
    instruction, or changes a literal on which the expected calls depend.
    """
    if wordings.suite != suite:
        raise DataError(f"{where}: has wordings of the {wordings.suite} suite, not of {suite}")

    by_id: dict[str, ItemWording] = {}
    for wording in wordings.wordings:
        if wording.id in by_id:
            raise DataError(f"{where}: {wording.id}: has two wordings; give one")
        by_id[wording.id] = wording

    changed = []
    for item in items:
        own = by_id.pop(item.task.id, None)
        if own is not None:
            changed.append(_with_wording(item, own, where))

    if by_id:
        raise DataError(f"{where}: {next(iter(by_id))}: there is no such item")
    return changed


def _with_wording(item: BenchmarkItem, wording: ItemWording, where: str) -> BenchmarkItem:
    original = item.task.instruction
    if sha256_hex(original) != wording.original_sha256:
        raise DataError(
            f"{where}: {wording.id}: is a wording of another instruction; use the items_seed and"
            " data_seed that it was made for"
        )

    problem = wording_problem(original, wording.instruction)
    if problem:
        raise DataError(f"{where}: {wording.id}: {problem}; the expected calls would not fit it")
    return replace(item, task=replace(item.task, instruction=wording.instruction))


def describe_wordings(wordings: Wordings, name: str, sha256: str) -> Mapping[str, JsonValue]:
    """Return the description of a file of wordings for a card."""
    return {
        "name": name,
        "sha256": sha256,
        "model": wordings.model,
        "count": len(wordings.wordings),
    }
