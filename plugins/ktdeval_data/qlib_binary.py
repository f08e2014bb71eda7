"""Market data in Qlib's binary layout.

`calendars/day.txt` holds one day per line. Each line of `instruments/<universe>.txt` holds a code
and its first and last day of membership. `features/<code>/<field>.day.bin` holds little-endian
float32 numbers: the calendar index of the first day, then one value per day.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from ktdeval.errors import DataError, os_reason, wrap_os_error
from ktdeval.market import DayArray, FloatArray
from ktdeval_data.delistings import read_delistings
from ktdeval_data.instruments import read_listing
from ktdeval_data.long_table import documents_of
from ktdeval_data.membership import read_names, replace_former_codes
from ktdeval_data.params import QlibParams
from ktdeval_data.unit_conversion import to_our_units
from ktdeval_raw_markets.sources.raw_tables import RawMarket
from ktdeval_tables.days import parse_days
from ktdeval_tables.options import ReadingOptions
from ktdeval_tables.vendor_tables import index_code, normalise_codes

_FIELDS = ("open", "high", "low", "close", "volume", "amount", "factor")


def read_qlib(params: QlibParams) -> RawMarket:
    """Read the universe's members, their bars and the benchmark from a folder. Nothing is checked
    or repaired.

    Codes are normalised. Prices are in CNY, unadjusted if the data have a factor; volume is in
    shares and amount in CNY. A member without a folder in `features` has no bars. Raises DataError
    if a file is missing or unreadable, or extends beyond the calendar.
    """
    folder = Path(params.folder)
    calendar = _read_calendar(folder / "calendars" / "day.txt")
    universe = f"{params.universe}.txt"
    members = _read_instruments(
        _entries(folder / "instruments").get(universe.lower(), folder / "instruments" / universe)
    )
    features = _entries(folder / "features")
    benchmark = index_code(params.benchmark_code)
    reading = ReadingOptions(has_map=False)
    names = read_names(params.names, {}, reading=reading)
    bars = replace_former_codes(
        _read_bars(features, calendar, members, _clip(calendar, params)), names
    )
    conventions, notes = to_our_units(bars, params)
    name = folder.resolve().name

    return RawMarket(
        name=params.name or name,
        source=params.source or f"Qlib binary data {name}, universe {params.universe}",
        benchmark=benchmark,
        bars=bars,
        indices=_read_index(features, calendar, benchmark),
        members=replace_former_codes(members[["code", "first", "last"]].copy(), names),
        assets=read_listing(params.industry, {}, "a_share", None, reading).assets,
        has_factor=bool(bars["factor"].notna().any()),
        notes=notes,
        names=names,
        documents=documents_of(params, {}, normalise_codes, reading, names),
        conventions=conventions,
        delisting_returns=read_delistings(params.delisting_return, normalise_codes, reading),
    )


def _entries(folder: Path) -> dict[str, Path]:
    """Return a folder's entries by lower-case name. If names differ only in case, the lower-case
    one is used.
    """
    return {path.name.lower(): path for path in sorted(folder.iterdir())} if folder.is_dir() else {}


def _read_lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        # the path would appear twice with str(error)
        advice = "expected Qlib's calendars/, instruments/ and features/"
        raise DataError(f"{path}: can't read: {os_reason(error, advice)}") from error
    return [line for line in lines if line.strip()]


def _read_calendar(path: Path) -> DayArray:
    days = (
        parse_days(pd.Series(_read_lines(path), dtype=object), str(path))
        .to_numpy()
        .astype("datetime64[D]")
    )
    if not len(days) or (days[1:] <= days[:-1]).any():
        raise DataError(f"{path}: expected days in ascending order, each once")
    return days


def _read_instruments(path: Path) -> pd.DataFrame:
    """Return columns for the folder (the name in features/), code, first and last day."""
    rows = [line.split() for line in _read_lines(path)]
    if not rows:
        raise DataError(f"{path}: no instruments")

    for row in rows:
        if len(row) != 3:
            raise DataError(
                f"{path}: expected lines of code, first day and last day, was {' '.join(row)!r}"
            )

    table = pd.DataFrame(rows, columns=["text", "first", "last"])
    return pd.DataFrame(
        {
            "folder": table["text"].str.lower(),
            "code": normalise_codes(table["text"]),
            "first": parse_days(table["first"], str(path)),
            "last": parse_days(table["last"], str(path)),
        }
    )


def _clip(calendar: DayArray, params: QlibParams) -> slice:
    """Return the calendar rows to read."""
    first = params.first or str(calendar[0])
    last = params.last or str(calendar[-1])
    bounds = parse_days(pd.Series([first, last]), "first, last").to_numpy()
    start = np.searchsorted(calendar, bounds[0], side="left")
    stop = np.searchsorted(calendar, bounds[1], side="right")
    if start >= stop:
        raise DataError(
            f"{params.folder}: no days from {first} to {last}; its calendar is"
            f" {calendar[0]}…{calendar[-1]}"
        )

    return slice(int(start), int(stop))


def read_bin(path: Path | None, n_days: int) -> FloatArray:
    """Read one field of one instrument over the calendar. `path`: a `.day.bin` file, or None for a
    field that is NaN throughout.

    Returns [T] float64, NaN outside the days in the file. Raises DataError if the file is
    malformed, or extends beyond the calendar.
    """
    values = np.full(n_days, np.nan)
    if path is None:
        return values

    with wrap_os_error(f"{path}: can't read", kind=DataError):
        stored = np.fromfile(path, dtype="<f4")
        size = path.stat().st_size

    if not len(stored) or size % 4 or not stored[0] >= 0 or stored[0] != np.floor(stored[0]):
        raise DataError(
            f"{path}: not a Qlib field (float32 numbers, the first one an index into the calendar)"
        )

    start = int(stored[0])
    stop = int(stored[0]) + len(stored) - 1
    if stop > n_days:
        raise DataError(
            f"{path}: holds days {start}…{stop - 1}, the calendar has {n_days}; it belongs to"
            " another calendar"
        )

    values[start:stop] = stored[1:]
    return values


def _read_bars(
    features: Mapping[str, Path], calendar: DayArray, members: pd.DataFrame, rows: slice
) -> pd.DataFrame:
    """Read the bars of the universe's instruments as stored. Days without stored values have no
    row.
    """
    frames = []
    for name, code in members[["folder", "code"]].drop_duplicates("code").itertuples(index=False):
        if name not in features:
            continue

        files = _entries(features[name])
        fields = {
            field: read_bin(files.get(f"{field}.day.bin"), len(calendar))[rows] for field in _FIELDS
        }
        stored = np.flatnonzero(np.isfinite(fields["close"]) | np.isfinite(fields["volume"]))
        columns = {key: values[stored] for key, values in fields.items()}
        frames.append(pd.DataFrame({"date": calendar[rows][stored], "code": code, **columns}))

    bars = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if bars.empty:
        raise DataError(
            "features/: no instrument of the universe has bars there in the range of days"
        )

    return bars


def _read_index(features: Mapping[str, Path], calendar: DayArray, code: str) -> pd.DataFrame:
    """Read the benchmark's levels, divided by its first factor if it has one.

    The stored levels are adjusted, so that a split of a benchmark fund does not look like a fall of
    the index.
    """
    name = f"{code[7:]}{code[:6]}".lower()
    files = _entries(features[name]) if name in features else {}
    if "close.day.bin" not in files:
        raise DataError(
            f"features/{name}: no close.day.bin of benchmark {code}; choose another benchmark_code"
        )

    level = read_bin(files["close.day.bin"], len(calendar))
    factor = read_bin(files.get("factor.day.bin"), len(calendar))
    level = level / next(iter(factor[factor > 0]), 1.0)
    has_level = np.isfinite(level)

    return pd.DataFrame({"date": calendar[has_level], "code": code, "close": level[has_level]})
