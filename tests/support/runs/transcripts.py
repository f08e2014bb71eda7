"""Transcripts of episodes as JSON, read and written without the suite's checks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import zstandard

from ktdeval.runner import TRANSCRIPT
from ktdeval.values import dumps_canonical


def read_transcript(folder: Path) -> list[Any]:
    """Return the entries of an episode's transcript as JSON."""
    packed = (folder / TRANSCRIPT).read_bytes()
    text = zstandard.ZstdDecompressor().decompress(packed).decode()
    return [json.loads(line) for line in text.splitlines()]


def write_transcript(folder: Path, entries: list[Any]) -> None:
    """Write the entries of an episode's transcript."""
    text = "".join(dumps_canonical(entry) + "\n" for entry in entries)
    compressor = zstandard.ZstdCompressor(level=9, write_checksum=True)
    (folder / TRANSCRIPT).write_bytes(compressor.compress(text.encode()))
