"""A dataset: its description and the stores that the services read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ktdeval.errors import DataError
from ktdeval_qfinzero.data.manifest import file_problem, load_manifest
from ktdeval_qfinzero.data.rows import DatasetInfo
from ktdeval_qfinzero.data.stored_market import (
    CACHE_BYTES,
    StoredCalendars,
    StoredMarket,
    StoredNews,
    StoredPrices,
)


@dataclass(frozen=True, slots=True)
class Dataset:
    """Everything that the services read."""

    info: DatasetInfo
    prices: StoredPrices
    calendars: StoredCalendars
    news: StoredNews


def open_dataset(folder: Path, cache_bytes: int = CACHE_BYTES) -> Dataset:
    """Return the dataset in a folder; at most `cache_bytes` of it stay decoded.

    Only the presence and size of its file are checked; `check_dataset` reads the file. Raises
    DataError if the folder does not contain a dataset, the manifest is malformed, or the file is
    missing or has another size.
    """
    manifest = load_manifest(folder)
    problem = file_problem(folder, manifest.file)
    if problem:
        raise DataError(
            f"{folder}: {manifest.file.name}: {problem}; check the dataset, and make it again"
        )

    market = StoredMarket(folder.absolute() / manifest.file.name)
    return Dataset(
        manifest.info,
        StoredPrices(market, cache_bytes),
        StoredCalendars(market),
        StoredNews(market),
    )
