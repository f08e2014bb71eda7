"""Whole runs against the stub provider through the real command line, each in a process of its own,
and what they leave behind.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

from ktdeval.calls.records.call_log import read_calls
from ktdeval.calls.records.record import ANSWERED, CACHED, REFUSED, CallRecord
from ktdeval.harness.chat_messages import USAGE_FIELDS
from ktdeval.market.rules.calendar import sessions
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.values import to_plain
from support.providers.stub_provider import KEY, Stub
from support.runs.run_support import SAME_MASK, Done, Running, ktdeval, preload, start

# The libraries of providers take a second to import, more than a short run takes.
preload(
    "openai.resources.chat",
    "openai.resources.responses",
    "anthropic.resources.messages",
    "google.genai",
)


@dataclass(frozen=True)
class Wire:
    """How a run reaches the stub over one wire.

    Attributes:
        name: the wire's name at the stub.
        model: `--model`.
        variable: where the key comes from.
        words: further words of the command.
    """

    name: str
    model: str
    variable: str
    words: tuple[str, ...] = ()


WIRES = {
    "chat": Wire("chat", "openai/stub-model", "OPENAI_API_KEY", ("--model-args", "api=chat")),
    "responses": Wire("responses", "openai/stub-model", "OPENAI_API_KEY"),
    "anthropic": Wire("anthropic", "anthropic/stub-model", "ANTHROPIC_API_KEY"),
    "google": Wire("google", "google/stub-model", "GEMINI_API_KEY"),
    "compatible": Wire("chat", "openai_compatible/stub-model", "OPENAI_COMPATIBLE_API_KEY"),
    "azure": Wire("azure", "azure/stub-model", "AZURE_OPENAI_API_KEY"),
    "bedrock": Wire("bedrock", "bedrock/anthropic.stub-model", "AWS_BEARER_TOKEN_BEDROCK"),
    "invoked": Wire("hosted", "bedrock/anthropic.stub-model-v1:0", "AWS_BEARER_TOKEN_BEDROCK"),
    "vertex": Wire("vertex", "vertex/gemini-stub-model", "GOOGLE_OAUTH_ACCESS_TOKEN"),
    "vertex claude": Wire("hosted", "vertex/claude-stub-model", "GOOGLE_OAUTH_ACCESS_TOKEN"),
}
for name in ("xai", "openrouter", "groq", "together", "fireworks"):
    WIRES[name] = Wire("chat", f"{name}/stub-model", f"{name.upper()}_API_KEY")
VARIABLES = sorted({wire.variable for wire in WIRES.values()} | {"GOOGLE_API_KEY"})
TASK_APART = "stock_blind_open_research"


def apart(episodes: int, limit: int) -> tuple[object, ...]:
    """Words for short episodes that never ask the same: each begins on a day of its own, and the
    days show.
    """
    days = sessions("2024-02-01", "2024-04-01")[:episodes]
    windows = ",".join(f"{day}:2024-04-15" for day in days)

    return (
        "--tasks",
        TASK_APART,
        "--windows",
        windows,
        "--limit",
        limit,
        "--concurrency",
        episodes,
    )


def words_of(wire: Wire, stub: Stub | None, *words: object) -> tuple[object, ...]:
    """`ktdeval` words of a run over a wire; task, windows, `--out` and the market are the
    caller's.
    """
    address = () if stub is None else ("--base-url", stub.base_url_of(wire.name))
    common = ("--cache", "run", "--price", "input=2,output=8,cache_read=0.5", "--quiet", *SAME_MASK)

    return ("--model", wire.model, *wire.words, *address, *common, *words)


def environment_of(wire: Wire, key: str = KEY) -> dict[str, str]:
    """The wire's key, and no other."""
    project = {"GOOGLE_CLOUD_PROJECT": "stub-project"}
    return {**dict.fromkeys(VARIABLES, ""), **project, wire.variable: key}


def run(wire: Wire, stub: Stub, out: Path, market: Path, *words: object) -> Done:
    """A run to its end."""
    command = words_of(wire, stub, "--data", market, "--out", out, *words)
    return ktdeval(*command, cwd=out.parent, environment=environment_of(wire))


def start_run(wire: Wire, stub: Stub, out: Path, market: Path, *words: object) -> Running:
    """A run that has just begun."""
    return start(
        *words_of(wire, stub, "--data", market, "--out", out, *words),
        cwd=out.parent,
        environment=environment_of(wire),
    )


def finished(wire: Wire, stub: Stub, out: Path, market: Path, *words: object) -> Path:
    """A run that ends well; returns its folder."""
    done = run(wire, stub, out, market, *words)
    assert done.code == 0, done
    return out


# -- what is left
# ----------------------------------------------------------------------------------------------------


def steps(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The records of each episode, by window and seed."""
    store = RunFolder.load(folder)
    return {
        f"{spec.window.name} {spec.seed}": to_plain(store.load_ledger(spec).steps)
        for spec in store.manifest.specs
    }


def without(
    records: Mapping[str, list[dict[str, Any]]], *names: str
) -> dict[str, list[dict[str, Any]]]:
    """Records less some fields."""
    left: dict[str, list[dict[str, Any]]] = {}
    for episode, steps in records.items():
        left[episode] = []
        for step in steps:
            left[episode].append({name: step[name] for name in step if name not in names})

    return left


def untold(records: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """What was decided and what became of it, without what it took to get there: no tokens, no
    failures, no counts of calls.
    """
    effort = (
        "failures",
        "provenance",
        "submissions",
        "tool_calls",
        "tool_calls_valid",
        "unmask_attempts",
    )
    return without(records, *USAGE_FIELDS, *effort)


def book(folder: Path) -> list[CallRecord]:
    """The lines of a run's money book."""
    return list(read_calls(folder))


def failed_attempts(folder: Path) -> Counter[str]:
    """Attempts without an answer, by kind."""
    return Counter(
        record.outcome
        for record in book(folder)
        if record.outcome not in (ANSWERED, CACHED, REFUSED)
    )


def answered(folder: Path) -> int:
    """Attempts that were answered."""
    return sum(record.outcome == ANSWERED for record in book(folder))


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below a folder: its path, its bytes, what a database holds row by row, and
    whatever is compressed in any of it.
    """
    for path in sorted(folder.rglob("*")):
        yield path, os.fsencode(path)
        if path.is_file():
            for data in (path.read_bytes(), *_rows(path)):
                yield path, data
                yield from ((path, unpacked) for unpacked in _unpacked(data))


def _rows(path: Path) -> Iterator[bytes]:
    """All values of all tables, where the file is a database."""
    if not path.read_bytes().startswith(b"SQLite format 3"):
        return

    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        for (table,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall():
            for row in database.execute(f'SELECT * FROM "{table}"'):
                yield from (
                    value if isinstance(value, bytes) else str(value).encode() for value in row
                )


def _unpacked(data: bytes) -> Iterator[bytes]:
    """What zstd frames anywhere in some bytes hold, and zlib streams in base64, as pages embed
    them.
    """
    magic = b"\x28\xb5\x2f\xfd"
    offset = -1

    while (offset := data.find(magic, offset + 1)) >= 0:
        with suppress(zstandard.ZstdError):
            yield zstandard.ZstdDecompressor().decompressobj().decompress(data[offset:])

    for match in re.finditer(rb"[A-Za-z0-9+/]{40,}={0,2}", data):
        with suppress(binascii.Error, zlib.error):
            yield zlib.decompress(base64.b64decode(match[0]))
