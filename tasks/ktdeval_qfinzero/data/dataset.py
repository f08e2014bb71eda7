"""A dataset: its description and the stores that the services read."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval_qfinzero.data.parquet_prices import ParquetPrices
from ktdeval_qfinzero.data.rows import DatasetInfo
from ktdeval_qfinzero.data.sqlite_stores import SqliteCalendars, SqliteNews


@dataclass(frozen=True, slots=True)
class Dataset:
    """Everything that the services read."""

    info: DatasetInfo
    prices: ParquetPrices
    calendars: SqliteCalendars
    news: SqliteNews
