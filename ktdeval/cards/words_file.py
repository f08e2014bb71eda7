"""Words and units of all fields in one file, for docs and pages: `python -m ktdeval.cards.schema`
writes `words.json`, and the tables of docs/cards.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from ktdeval.cards.assembly import card_type
from ktdeval.cards.card import Card, Evaluation, ScoringCard, TradingCard
from ktdeval.cards.fields.all_fields import FIELDS
from ktdeval.cards.fields.decision_provenance import PROVENANCE_WORDS
from ktdeval.cards.fields.fact_types import DECIDERS
from ktdeval.cards.fields.failures import FAILURE_WORDS
from ktdeval.cards.fields.units import OTHER_DECIMALS, UNITS
from ktdeval.cards.fields.warning_labels import LABEL_WORDS
from ktdeval.cards.fields.words import FieldWords
from ktdeval.stats.metric import metric_rows
from ktdeval.values.strict_json import JsonValue

WORDS_FILE = Path(__file__).with_name("words.json")


@cache
def card_words() -> Mapping[str, Any]:
    """Return the content of `words.json`.

    `fields` (by dotted path), `labels`, `provenance` and `failures` have `label`, `unit`,
    `meaning` and `section` (of the docs, may be empty); `units` say how figures are `shown`, with
    how many `decimals`, multiplied by which `factor`; `metrics` have `unit`, `better` and
    `meaning`.
    """
    words: dict[str, Any] = json.loads(WORDS_FILE.read_text(encoding="utf-8"))
    return words


# ---- made from the fields


def field_words() -> dict[str, FieldWords]:
    """Return the words of all fields by path. Raises ValueError: two fields have one path."""
    words: dict[str, FieldWords] = {}
    for field in FIELDS:
        for path, own in field.words.items():
            if words.setdefault(path, own) != own:
                raise ValueError(f"words of {path} are in two fields")

    return words


def words_text() -> str:
    """Return the text of `words.json`."""
    units = {name: asdict(unit) for name, unit in UNITS.items()}
    units["other"] = {"shown": None, "decimals": OTHER_DECIMALS, "factor": 1}
    metrics = {}
    for name, row in metric_rows().items():
        metrics[name] = {"unit": row["unit"], "better": row["better"], "meaning": row["summary"]}

    words = {
        "fields": _as_json(field_words()),
        "labels": _as_json(LABEL_WORDS),
        "provenance": _as_json(PROVENANCE_WORDS),
        "failures": _as_json(FAILURE_WORDS),
        "units": units,
        "metrics": metrics,
    }
    # without sorting: labels and provenance have an order
    return json.dumps(words, ensure_ascii=False, indent=1) + "\n"


def _as_json(words: Mapping[Any, FieldWords]) -> dict[str, JsonValue]:
    return {str(name): asdict(entry) for name, entry in words.items()}


# ---- tables of the docs

_KINDS: tuple[tuple[str, type[Card]], ...] = (
    ("trading", card_type(TradingCard)),
    ("scoring", card_type(ScoringCard)),
)


def card_fields() -> dict[str, list[str]]:
    """Return the fields of cards by the name in their file, each with the kinds that have it."""
    kinds: dict[str, list[str]] = {}
    for field in msgspec.structs.fields(Evaluation):  # what all share stands first
        kinds[field.encode_name] = []

    for kind, type_ in _KINDS:
        for field in msgspec.structs.fields(type_):
            kinds.setdefault(field.encode_name, []).append(kind)

    return kinds


def docs_tables() -> dict[str, str]:
    """Return the tables of docs/cards.md by name."""
    return {
        "fields": _markdown_table(("field", "cards", "what it holds"), _field_rows(field_words())),
        "labels": _markdown_table(("label", "meaning"), _named_rows(LABEL_WORDS)),
        "decisions": _markdown_table(
            ("decided by", "in tables", "meaning"), _kind_rows(PROVENANCE_WORDS)
        ),
        "deciders": _markdown_table(
            ("kind", "who decided", "could look the market up", "ranked"), _decider_rows()
        ),
    }


def with_tables(text: str) -> str:
    """Return a page of the docs with its tables renewed, each between `<!-- table: NAME -->` and
    `<!-- end of table -->`.
    """
    for name, table in docs_tables().items():
        begin = f"<!-- table: {name} -->\n"
        before, found, rest = text.partition(begin)
        if not found:
            raise ValueError(f"no table {name}")

        _, end, after = rest.partition("<!-- end of table -->")
        text = f"{before}{begin}\n{table}\n{end}{after}"

    return text


def _field_rows(words: Mapping[str, FieldWords]) -> Iterator[tuple[str, ...]]:
    for name, kinds in card_fields().items():
        of = "both" if len(kinds) == len(_KINDS) else kinds[0]
        yield f"`{name}`", of, _meaning(words[name])


def _named_rows(words: Mapping[Any, FieldWords]) -> Iterator[tuple[str, ...]]:
    for name, entry in words.items():
        yield f"`{name}`", _meaning(entry)


def _kind_rows(words: Mapping[Any, FieldWords]) -> Iterator[tuple[str, ...]]:
    for name, entry in words.items():
        yield f"`{name}`", entry.label, _meaning(entry)


def _decider_rows() -> Iterator[tuple[str, ...]]:
    answers = {True: "yes", False: "no"}
    for kind, own in DECIDERS.items():
        yield f"`{kind}`", own.words, answers[own.looks_up], answers[own.is_ranked]


def _meaning(words: FieldWords) -> str:
    """Return the meaning with a link to the details."""
    if not words.section:
        return words.meaning
    return f"{words.meaning} ([details]({words.section.removeprefix('cards.md')}))"


def _markdown_table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [_table_line(heads), "|---" * len(heads) + "|"]
    lines += map(_table_line, rows)
    return "".join(f"{line}\n" for line in lines)


def _table_line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
