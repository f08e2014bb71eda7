"""Forced submissions of a run, as its model wrote them: valid JSON or not, and what they took."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard
from jsonschema import Draft202012Validator

from ktdeval.values import loads_strict

COLUMNS = ("run", "forced", "JSON", "schema", "cut", "steps", "calls", "s/step", "tokens/reply")


@dataclass(frozen=True)
class Forced:
    """One forced submission: its arguments as text, how its reply ended, and the schema of its step."""

    arguments: str
    ending: str
    notes: tuple[str, ...]
    schema: Mapping[str, Any] | None  #: None: the task's own, which records do not repeat

    def value(self) -> Any:
        """Return its JSON object; None where it is none."""
        try:
            value = loads_strict(self.arguments)
        except ValueError:
            return None

        return value if isinstance(value, dict) else None

    def is_valid(self) -> bool:
        """Whether it is a JSON object that follows the schema."""
        assert self.schema is not None
        value = self.value()
        return value is not None and Draft202012Validator(self.schema).is_valid(value)


def exchanges(run: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the calls of a run's transcripts."""
    for path in sorted(run.glob("episodes/*/transcript.jsonl.zst")):
        with path.open("rb") as file:
            lines = io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), "utf-8")
            for line in lines:
                yield from json.loads(line)["exchanges"]


def forced_replies(run: Path) -> list[Forced]:
    """Return the submissions that were forced; one without a call has no arguments."""
    forced = []
    schemas: dict[str, Mapping[str, Any]] = {}

    for exchange in exchanges(run):
        # an exchange has the schemas that are not those recorded last
        schemas |= exchange.get("schemas") or {}
        name = exchange.get("tool_choice")
        if name is None:
            continue

        reply = exchange["reply"]
        calls = reply.get("tool_calls") or [{"arguments": ""}]
        notes = tuple(reply.get("notes", ()))
        for call in calls:
            schema = schemas.get(name)
            forced.append(Forced(call["arguments"], reply["finish_reason"], notes, schema))

    return forced


@dataclass(frozen=True)
class Calls:
    """Answered calls of the steps of a run."""

    count: int
    keys: int  #: different requests
    steps: int
    seconds: float
    output_tokens: int
    failed: int  #: attempts without an answer


def calls_of(run: Path) -> Calls:
    """Return what the run's record of calls has of its steps."""
    with closing(sqlite3.connect(f"file:{run}/calls.sqlite?mode=ro", uri=True)) as database:
        count, keys, steps, seconds, tokens = database.execute(
            "SELECT count(*), count(DISTINCT key || step), count(DISTINCT episode || step),"
            " total(latency_s), total(output_tokens) FROM calls"
            " WHERE step IS NOT NULL AND outcome = 'answered'"
        ).fetchone()
        (failed,) = database.execute(
            "SELECT count(*) FROM calls WHERE outcome != 'answered'"
        ).fetchone()

    return Calls(count, keys, steps, seconds, int(tokens), failed)


def row_of(name: str, run: Path) -> list[str]:
    """Return the row of a run in the table of `COLUMNS`."""
    forced = forced_replies(run)
    values = [each.value() for each in forced]
    calls = calls_of(run)
    valid = "-"

    if all(each.schema is not None for each in forced):
        valid = str(sum(each.is_valid() for each in forced))

    figures = [
        len(forced),
        sum(value is not None for value in values),
        valid,
        sum(each.ending == "length" for each in forced),
        calls.steps,
        calls.count,
        round(calls.seconds / calls.steps, 1),
        round(calls.output_tokens / calls.count),
    ]

    return [name, *map(str, figures)]


def table(rows: list[list[str]]) -> str:
    """Return rows as text, with `COLUMNS` above them."""
    whole = [list(COLUMNS), *rows]
    widths = [max(map(len, column)) for column in zip(*whole, strict=True)]
    lines = []

    for name, *figures in whole:
        cells = [name.ljust(widths[0])]
        cells += [figure.rjust(width) for figure, width in zip(figures, widths[1:], strict=True)]
        lines.append("  ".join(cells))

    return "\n".join(lines)
