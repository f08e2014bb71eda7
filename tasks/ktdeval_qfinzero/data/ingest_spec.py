"""Fields of `ingest.yaml`: the files and their contents. No heavy imports here, since help texts
read these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ktdeval.errors import ConfigError, os_reason
from ktdeval.values import build, load_yaml, loads_untrusted, option, read_plain

_FILE_HELP = (
    "a .csv, .csv.gz, .jsonl, .jsonl.gz, .json or .parquet file, or a pattern such as"
    " minute/*.csv; relative to the spec's folder"
)
_COLUMNS_HELP = "which column of the file is a field, such as open: o"
_IGNORE_HELP = (
    "columns that are not read; '*' for all that are no field. Any other unknown column is an error"
)


@dataclass(frozen=True)
class TableFiles:
    """Files of a table."""

    file: str = option(help=_FILE_HELP)
    columns: Mapping[str, str] = option(factory=dict, help=_COLUMNS_HELP)
    ignore: tuple[str, ...] = option((), help=_IGNORE_HELP)


@dataclass(frozen=True, kw_only=True)
class BarSource(TableFiles):
    """Files of bars."""

    asset_class: Literal["stock", "option", "crypto"] = option(help="kind of instrument")
    resolution: Literal["day", "minute"] = option(help="length of a bar")
    symbol: str | None = option(
        None, help="ticker or OPRA symbol of all bars, for files without a column symbol"
    )
    unit: float = option(
        1.0,
        help=(
            "how many of the file's units one unit of the instrument is, such as 0.001 of a coin:"
            " the step in which it trades"
        ),
    )
    zone: str | None = option(None, help="for these files, if different from the whole spec's")
    stamped: Literal["start", "end"] = option(
        "start", help="moment of a minute's bar that its time is"
    )
    day_zone: str | None = option(
        None, help="time zone whose midnight begins a day's bar, if it is not `zone`"
    )


@dataclass(frozen=True)
class IngestSpec:
    """Everything that becomes a dataset, or is added to one."""

    name: str = option(
        help="name of the dataset; also the source of events and articles that give none"
    )
    default_as_of: str | None = option(
        None,
        help=("default start of a clock, such as 2025-01-06T21:00:00Z; required for a new dataset"),
    )
    calendar: str = option(
        "XNYS",
        help=(
            "sessions of its stocks and options: a name of exchange_calendars, such as XSHG, or"
            " 24/7"
        ),
    )
    currency: str = option("USD", help="currency of all prices, such as CNY")
    synthetic: bool = option(False, help="whether the market is invented")
    round: bool = option(
        True, help="round prices of more than four decimals, halves to even; false refuses them"
    )
    zone: str = option(
        "UTC", help="time zone of times without one, and of days that are given as timestamps"
    )
    columns: Mapping[str, str] = option(factory=dict, help=f"default for all bars: {_COLUMNS_HELP}")
    ignore: tuple[str, ...] = option((), help=f"for all bars: {_IGNORE_HELP}")
    bars: tuple[BarSource, ...] = option((), help="bars")
    symbols: tuple[TableFiles, ...] = option((), help="stocks and coins")
    contracts: tuple[TableFiles, ...] = option((), help="options")
    rates: tuple[TableFiles, ...] = option((), help="Treasury curves")
    dividends: tuple[TableFiles, ...] = option((), help="cash dividends")
    splits: tuple[TableFiles, ...] = option((), help="splits")
    borrow: tuple[TableFiles, ...] = option((), help="what can be borrowed to sell short")
    deals: tuple[TableFiles, ...] = option((), help="stocks that were acquired or delisted")
    events: tuple[TableFiles, ...] = option((), help="calendar events")
    news: tuple[TableFiles, ...] = option((), help="articles")


def load_spec(path: Path) -> IngestSpec:
    """Read `ingest.yaml`, or the same contents as JSON. Raises ConfigError if the file is
    unreadable, or if a field is unknown, missing or ill-typed.
    """
    if path.suffix != ".json":
        return build(IngestSpec, load_yaml(path), str(path))

    try:
        given: Any = loads_untrusted(read_plain(path))  # `build` refuses values other than objects
        return build(IngestSpec, given, str(path))
    except OSError as error:
        raise ConfigError(f"{path}: can't read: {os_reason(error)}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: not JSON: {str(error)[:100]}") from error


def whole(spec: IngestSpec, source: BarSource) -> BarSource:
    """Complete a source of bars with the spec's values for all sources."""
    zone = source.zone or spec.zone
    columns = {**spec.columns, **source.columns}
    if source.symbol is not None:
        columns.pop("symbol", None)

    ignore = (*spec.ignore, *source.ignore)
    return replace(
        source, zone=zone, day_zone=source.day_zone or zone, columns=columns, ignore=ignore
    )
