"""`RUN/canary.json`: what the model answered to the fixed questions at the start and the end of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ktdeval.errors import StoreError
from ktdeval.jsonio import JsonValue, dumps_pretty, loads_strict, write_atomic
from ktdeval.runner.store import CANARY


def load_canary(folder: Path) -> dict[str, JsonValue] | None:
    """The answers of a run to the fixed questions; None where they were not asked.

    Raises:
        StoreError: the file is not readable.
    """
    path = folder / CANARY
    try:
        record: dict[str, JsonValue] = loads_strict(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: not readable: {error}; delete it, and the card will say that no questions were asked") from error
    return record


def save_canary(folder: Path, record: Mapping[str, JsonValue]) -> None:
    """Write the answers, at once whole."""
    write_atomic(folder / CANARY, dumps_pretty(record))
