"""Read the asset file, which gives each code's kind, currency and venue. It is read before all
other files, since the venue determines how a code is written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.market import Instrument, Venue, find_venue, parse_code, parse_symbol
from ktdeval.registry import load_plugins
from ktdeval_tables.codes import as_among, plain_code, us_symbol
from ktdeval_tables.days import parse_days
from ktdeval_tables.options import ReadingOptions
from ktdeval_tables.row_places import place
from ktdeval_tables.vendor_tables import read_table, with_texts

_ASSET_FIELDS = ("name", "industry", "venue", "kind", "currency", "list_date")
_COINS = "crypto_spot"
_WORD = re.compile(r"[a-z][a-z_]{0,15}")
_CURRENCY = re.compile(r"[A-Z]{3,8}")


@dataclass(frozen=True)
class Listing:
    """Assets of a source, from its asset file and the options."""

    assets: pd.DataFrame  #: code, name, industry
    own: Mapping[str, Instrument]  #: instruments of the codes in the file
    default: Instrument  #: instrument for all other codes
    venues: Mapping[str, Venue]  #: venues by name
    #: number of digits to which codes are padded if their leading zeros were lost
    code_width: int = 0
    #: ISO listing days by code, if the file has them
    listed: Mapping[str, str] = field(default_factory=dict)

    def of(self, code: str) -> Instrument:
        """Return the instrument of a normalised code. The code may spell its share class in another
        way.
        """
        if code in self.own or not self.own:
            return self.own.get(code, self.default)
        return self.own.get(as_among([code], self.own).get(code, code), self.default)

    def among(self, known: Collection[str]) -> Listing:
        """Return the same assets, with each code spelled as in `known` if `known` has it."""
        renamed = as_among(self.own, known)
        if not renamed:
            return self

        return replace(
            self,
            assets=self.assets.assign(code=among(self.assets["code"], known)),
            own={renamed.get(code, code): instrument for code, instrument in self.own.items()},
            listed={renamed.get(code, code): day for code, day in self.listed.items()},
        )

    def codes(self, series: pd.Series) -> pd.Series:
        """Return codes in the form `600519.SH` if their venue has boards, otherwise symbols in
        upper case. Text that is neither stays unchanged.
        """

        def normalise_code(cell: str) -> str:
            text = plain_code(cell, self.code_width)
            instrument = self.of(parse_symbol(text) or text)
            return _code(text, self.venues[instrument.venue])

        return with_texts(series, normalise_code)

    @property
    def rules(self) -> dict[str, Venue]:
        """The assets' venues, by name."""
        names = {self.default.venue}
        names.update(instrument.venue for instrument in self.own.values())
        return {name: self.venues[name] for name in sorted(names)}


def among(codes: pd.Series, known: Collection[str]) -> pd.Series:
    """Return a column of codes, each spelled as in `known`, such as the codes of the bars."""
    renamed = as_among([str(code) for code in codes.unique()], known)
    return with_texts(codes, lambda code: renamed.get(code, code)) if renamed else codes


def _code(text: str, venue: Venue) -> str:
    """Return a code in its venue's form, or the text itself if it is not a code of that venue."""
    if venue.has_boards:
        return parse_code(text) or text

    symbol = us_symbol(text)
    if venue.name == _COINS:
        symbol = text.replace("/", "")  # so that BTC/USDT becomes BTCUSDT
    return parse_symbol(symbol) or text


def read_listing(
    path: str | None,
    mapping: Mapping[str, str],
    venue: str,
    kind: str | None,
    reading: ReadingOptions | None = None,
) -> Listing:
    """Read the asset file. `venue` and `kind` are the defaults for codes for which the file does
    not give them.

    It has one row per code, with code and optionally name, industry, venue, kind, currency,
    list_date. Raises UsageError if `venue` is unknown; DataError if a venue, kind or currency in
    the file is unknown, or if rows for one code differ.
    """
    how = (reading or ReadingOptions()).beside("industry")
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
        # The option --kind applies to --venue. At other venues a code has the venue's usual kind.
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
            both.append(f"{place(table, int(row))} has {', '.join(_field_words(cells))}")

        what = f"the rows of {twice.iloc[0]} differ in {', '.join(_ASSET_FIELDS)}"
        raise DataError(f"{path}: {what}: {'; '.join(both)}; keep the one that is meant")

    assets = rows[["code", "name", "industry"]].reset_index(drop=True)
    return Listing(assets, own, default, venues, how.code_width, _listing_days(rows, path))


def _listing_days(rows: pd.DataFrame, path: str) -> dict[str, str]:
    """Return the ISO listing day by code. Raises DataError if a cell is not a day."""
    given = rows[rows["list_date"] != ""]
    days = parse_days(given["list_date"], f"{path}: list_date")
    return {str(code): str(day)[:10] for code, day in zip(given["code"], days, strict=True)}


def _field_words(row: pd.Series) -> list[str]:
    """Return the name and value of each field that has a value, such as `industry bank`."""
    return [f"{field} {row[field]}" for field in _ASSET_FIELDS if row[field]]


def _instrument(venue: Venue, kind: str, currency: str, where: str) -> Instrument:
    """Return an instrument. An empty field takes its venue's usual value."""
    if not kind:
        kind = "crypto" if venue.name == _COINS else "stock"

    instrument = Instrument(kind, currency or venue.currency, venue.name)
    if not _WORD.fullmatch(instrument.kind) or not _CURRENCY.fullmatch(instrument.currency):
        raise DataError(
            f"{where}: kind {instrument.kind!r} or currency {instrument.currency!r} is not a word"
            " such as stock or USD"
        )
    return instrument
