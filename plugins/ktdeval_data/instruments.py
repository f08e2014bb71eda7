"""Instruments of a source's codes: kind, currency and venue, by which codes are read; splits of prices without a factor."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.market import Instrument, Venue, find_venue, parse_code, parse_symbol
from ktdeval.registry import load_plugins
from ktdeval_data.columns import read_events, read_table, with_texts

_ASSET_FIELDS = ("name", "industry", "venue", "kind", "currency")
_COINS = "crypto_spot"
_WORD = re.compile(r"[a-z][a-z_]{0,15}")
_CURRENCY = re.compile(r"[A-Z]{3,8}")


@dataclass(frozen=True)
class Listing:
    """Assets of a source, by its file of assets and the options."""

    assets: pd.DataFrame  #: code, name, industry
    own: Mapping[str, Instrument]  #: of codes in the file
    default: Instrument  #: of all others
    venues: Mapping[str, Venue]  #: by name

    def of(self, code: str) -> Instrument:
        """Instrument of a normalised code."""
        return self.own.get(code, self.default)

    def codes(self, series: pd.Series) -> pd.Series:
        """Codes as `600519.SH` where the venue has boards, else symbols in upper case; others stay as they are."""
        return with_texts(series, lambda text: _code(text, self.venues[self.of(parse_symbol(text) or text).venue]))

    @property
    def rules(self) -> dict[str, Venue]:
        """Venues of the assets."""
        return {name: self.venues[name] for name in sorted({each.venue for each in (self.default, *self.own.values())})}


def _code(text: str, venue: Venue) -> str:
    return (parse_code(text) if venue.has_boards else parse_symbol(text)) or text


def read_listing(path: str | None, mapping: Mapping[str, str], venue: str, kind: str | None) -> Listing:
    """Read the file of assets: code, and optionally name, industry, venue, kind, currency, one row a code; `venue` and `kind` are
    those of codes without. Raises UsageError: the venue is unknown; DataError: a venue, kind or currency in the file is,
    or rows of one code differ.
    """
    venues = load_plugins().venues()
    default = _instrument(find_venue(venue, venues), kind or "", "", "--kind")
    if not path:
        return Listing(pd.DataFrame(columns=["code", "name", "industry"]), {}, default, venues)
    table = read_table(Path(path), ["code"], _ASSET_FIELDS, mapping)
    for column in _ASSET_FIELDS:
        table[column] = table[column].fillna("").astype(str).str.strip() if column in table else ""
    own: dict[str, Instrument] = {}
    codes = []
    for text, venue_name, kind_of, currency in table[["code", "venue", "kind", "currency"]].itertuples(index=False):
        usual = default.kind if venue_name in ("", venue) else ""
        try:
            instrument = _instrument(find_venue(venue_name or venue, venues), kind_of or usual, currency, text)
        except (UsageError, DataError) as error:
            raise DataError(f"{path}: {error}") from error
        codes.append(_code(str(text), venues[instrument.venue]))
        own.setdefault(codes[-1], instrument)
    table["code"] = codes
    rows = table[["code", *_ASSET_FIELDS]].drop_duplicates()
    twice = rows["code"][rows["code"].duplicated()]
    if len(twice):
        raise DataError(f"{path}: the rows of {twice.iloc[0]} differ in {', '.join(_ASSET_FIELDS)}; keep the one that is meant")
    return Listing(rows[["code", "name", "industry"]].reset_index(drop=True), own, default, venues)


def _instrument(venue: Venue, kind: str, currency: str, where: str) -> Instrument:
    """Make an instrument; an empty field has the value that is usual at its venue."""
    instrument = Instrument(kind or ("crypto" if venue.name == _COINS else "stock"), currency or venue.currency, venue.name)
    if not _WORD.fullmatch(instrument.kind) or not _CURRENCY.fullmatch(instrument.currency):
        raise DataError(f"{where}: kind {instrument.kind!r} or currency {instrument.currency!r} is not a word such as stock or USD")
    return instrument


def apply_splits(bars: pd.DataFrame, path: str, mapping: Mapping[str, str], codes: Callable[[pd.Series], pd.Series]) -> str:
    """Fill the factor of bars without one, in place, from a file of splits: code, date (the first day on which the price is after
    it), ratio (15 for 15:1, 0.1 for a reverse split of ten to one); `codes` turns its codes into those of the bars. Return a
    note of it. Splits before a code's first bar or after its last have no effect.

    Raises UsageError: there is a factor; DataError: a ratio or day is invalid, or is given twice.
    """
    if bars["factor"].notna().any():
        raise UsageError("--splits: the bars have a factor already; leave out one of the two")
    table = read_events(path, "code", "ratio", mapping, codes)
    lives = bars.groupby("code", observed=True)["date"].agg(["min", "max"])
    inside = table.join(lives, on="code").query("min < date <= max")
    inside = inside.assign(factor=inside.groupby("code")["ratio"].cumprod()).astype({"code": bars["code"].dtype})
    rows = bars[["code", "date"]].astype({"date": "datetime64[ns]"}).sort_values("date")
    bars["factor"] = (
        pd.merge_asof(rows, inside[["code", "date", "factor"]], on="date", by="code")["factor"].set_axis(rows.index).fillna(1.0)
    )
    return f"factors are those of {len(inside)} splits in {Path(path).name}; dividends are in none"
