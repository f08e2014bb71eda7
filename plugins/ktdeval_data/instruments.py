"""Read the file of assets, which says each code's kind, currency and venue, and the file of splits.

The venue decides how a code is written, so the assets are read before all other files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.market import Instrument, Venue, find_venue, parse_code, parse_symbol, place
from ktdeval.plugins.registry import load_plugins
from ktdeval_data.bar_columns import refuse_lost_zeros_beside
from ktdeval_data.columns import read_events, read_table, with_texts
from ktdeval_data.reading.codes import plain_code
from ktdeval_data.reading.days import parse_days
from ktdeval_data.reading.options import Reading

_ASSET_FIELDS = ("name", "industry", "venue", "kind", "currency", "list_date")
_COINS = "crypto_spot"
_WORD = re.compile(r"[a-z][a-z_]{0,15}")
_CURRENCY = re.compile(r"[A-Z]{3,8}")


@dataclass(frozen=True)
class Listing:
    """Assets of a source, from its file of assets and the options."""

    assets: pd.DataFrame  #: code, name, industry
    own: Mapping[str, Instrument]  #: of codes in the file
    default: Instrument  #: of all others
    venues: Mapping[str, Venue]  #: by name
    code_width: int = 0  #: digits to pad codes to, if their leading zeros were lost
    #: ISO day of listing by code, where the file has one
    listed: Mapping[str, str] = field(default_factory=dict)

    def of(self, code: str) -> Instrument:
        """Return the instrument of a normalised code."""
        return self.own.get(code, self.default)

    def codes(self, series: pd.Series) -> pd.Series:
        """Return codes in the form `600519.SH` if their venue has boards, else symbols in upper
        case. Texts that are neither stay unchanged.
        """

        def normalised(cell: str) -> str:
            text = plain_code(cell, self.code_width)
            instrument = self.of(parse_symbol(text) or text)
            return _code(text, self.venues[instrument.venue])

        return with_texts(series, normalised)

    @property
    def rules(self) -> dict[str, Venue]:
        """Venues of the assets, by name."""
        names = {self.default.venue}
        names.update(instrument.venue for instrument in self.own.values())
        return {name: self.venues[name] for name in sorted(names)}


def _code(text: str, venue: Venue) -> str:
    """Return a code in the form that its venue uses; the text itself if it is no code there."""
    if venue.has_boards:
        return parse_code(text) or text

    symbol = text
    if venue.name == _COINS:
        symbol = text.replace("/", "")  # BTC/USDT is BTCUSDT
    return parse_symbol(symbol) or text


def read_listing(
    path: str | None,
    mapping: Mapping[str, str],
    venue: str,
    kind: str | None,
    reading: Reading | None = None,
) -> Listing:
    """Read the file of assets; `venue` and `kind` are the defaults of codes for which it has none.

    It has a row for each code, with code and optionally name, industry, venue, kind, currency,
    list_date. Raises UsageError if `venue` is unknown; DataError if a venue, kind or currency in
    the file is, or if rows of one code differ.
    """
    how = (reading or Reading()).beside()
    venues = load_plugins().venues()
    default = _instrument(find_venue(venue, venues), kind or "", "", "--kind")
    if not path:
        empty = pd.DataFrame(columns=["code", "name", "industry"])
        return Listing(empty, {}, default, venues, how.code_width)

    table = read_table(Path(path), ["code"], _ASSET_FIELDS, mapping, reading=how)
    for column in _ASSET_FIELDS:
        if column in table:
            table[column] = table[column].fillna("").astype(str).str.strip()
        else:
            table[column] = ""

    own: dict[str, Instrument] = {}
    codes = []
    columns = table[["code", "venue", "kind", "currency"]]
    for text, venue_name, kind_of, currency in columns.itertuples(index=False):
        # The option --kind is about --venue; at other venues a code has the usual kind there.
        usual = ""
        if venue_name in ("", venue):
            usual = default.kind

        try:
            listed_at = find_venue(venue_name or venue, venues)
            instrument = _instrument(listed_at, kind_of or usual, currency, text)
        except (UsageError, DataError) as error:
            raise DataError(f"{path}: {error}") from error

        plain = plain_code(str(text), how.code_width)
        codes.append(_code(plain, venues[instrument.venue]))
        own.setdefault(codes[-1], instrument)

    table["code"] = codes
    rows = table[["code", *_ASSET_FIELDS]].drop_duplicates()
    twice = rows["code"][rows["code"].duplicated()]

    if len(twice):
        differing = rows[rows["code"] == twice.iloc[0]].head(2)
        both = []
        for row, cells in differing.iterrows():
            both.append(f"{place(table, int(row))} has {', '.join(_words(cells))}")

        what = f"the rows of {twice.iloc[0]} differ in {', '.join(_ASSET_FIELDS)}"
        raise DataError(f"{path}: {what}: {'; '.join(both)}; keep the one that is meant")

    assets = rows[["code", "name", "industry"]].reset_index(drop=True)
    return Listing(assets, own, default, venues, how.code_width, _listed(rows, path))


def _listed(rows: pd.DataFrame, path: str) -> dict[str, str]:
    """Return the ISO day of listing by code. Raises DataError if a cell is not a day."""
    given = rows[rows["list_date"] != ""]
    days = parse_days(given["list_date"], f"{path}: list_date")
    return {str(code): str(day)[:10] for code, day in zip(given["code"], days, strict=True)}


def _words(row: pd.Series) -> list[str]:
    """Return name and value of each field that is given, such as `industry bank`."""
    return [f"{field} {row[field]}" for field in _ASSET_FIELDS if row[field]]


def _instrument(venue: Venue, kind: str, currency: str, where: str) -> Instrument:
    """Make an instrument; an empty field takes the usual value at its venue."""
    if not kind:
        kind = "crypto" if venue.name == _COINS else "stock"

    instrument = Instrument(kind, currency or venue.currency, venue.name)
    if not _WORD.fullmatch(instrument.kind) or not _CURRENCY.fullmatch(instrument.currency):
        raise DataError(
            f"{where}: kind {instrument.kind!r} or currency {instrument.currency!r} is not a word"
            " such as stock or USD"
        )
    return instrument


def apply_splits(
    bars: pd.DataFrame,
    path: str,
    mapping: Mapping[str, str],
    codes: Callable[[pd.Series], pd.Series],
    reading: Reading | None = None,
) -> str:
    """Fill the adjustment factor of bars without one, in place, from a file of splits; return a note.

    The file has code, date (the first day whose price is after the split) and ratio (15 for 15:1,
    0.1 for a reverse split of ten to one). `codes` turns its codes into those of the bars. Splits
    before a code's first bar or after its last have no effect. Raises UsageError if the bars have a
    factor; DataError if a ratio or day is invalid, or a split is given twice.
    """
    if bars["factor"].notna().any():
        raise UsageError("--splits: the bars have a factor already; leave out one of the two")

    table = read_events(path, "code", "ratio", mapping, codes, reading)
    refuse_lost_zeros_beside(bars, table["code"], path)
    lives = bars.groupby("code", observed=True)["date"].agg(["min", "max"])
    inside = table.join(lives, on="code").query("min < date <= max")
    inside = inside.assign(factor=inside.groupby("code")["ratio"].cumprod())
    inside = inside.astype({"code": bars["code"].dtype})

    # The factor of a bar is that of the last split up to its day, and 1 before the first one.
    rows = bars[["code", "date"]].astype({"date": "datetime64[ns]"}).sort_values("date")
    matched = pd.merge_asof(rows, inside[["code", "date", "factor"]], on="date", by="code")
    bars["factor"] = matched["factor"].set_axis(rows.index).fillna(1.0)

    return f"factors are those of {len(inside)} splits in {Path(path).name}; dividends are in none"
