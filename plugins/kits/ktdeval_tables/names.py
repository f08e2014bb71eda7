"""Names that vendors give to columns, and the units stated in these names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from ktdeval.market import parse_code
from ktdeval.values import csv_rows

_SAID_UNIT = re.compile(r"[(\[【]单位[)\]】]\s*(\S+)\s*$")  # `收盘价[单位]元`
_TWO_SCRIPTS = re.compile(r"([\u4e00-\u9fff]+)[a-z]+")  # `收盘Close`
_BRACKETS = re.compile(r"[(\[]([^)\]]*)[)\]]")
_VOLUMES = {
    "股": 1,
    "share": 1,
    "shares": 1,
    "k": 1e3,
    "m": 1e6,
    "千股": 1e3,
    "万股": 1e4,
    "百万股": 1e6,
    "手": 100,
    "lot": 100,
    "lots": 100,
    "万手": 1e6,
}
_AMOUNTS = {
    "元": 1,
    "人民币元": 1,
    "千元": 1e3,
    "thousand_cny": 1e3,
    "万元": 1e4,
    "万": 1e4,
    "百万元": 1e6,
    "百万": 1e6,
    "亿元": 1e8,
    "亿": 1e8,
    "lacs": 1e5,
    "lakhs": 1e5,
    "crores": 1e7,
}
UNITS = {"volume": _VOLUMES, "amount": _AMOUNTS}
"""Field -> units that may be in brackets after its name, such as `成交量(手)`, in shares or currency
units.
"""

_ASSET = re.compile(r"(?=.*[A-Z])[$^.]?[A-Z0-9][A-Z0-9._/=-]{0,14}")
_COIN = re.compile(r"volume[ _(]*([A-Za-z]{2,6})\)?", re.IGNORECASE)
NOT_READ = "not read"  #: role of a known column that belongs to no field
_LETTERS = {
    "t": "date",
    "T": "code",
    "o": "open",
    "h": "high",
    "l": "low",
    "c": "close",
    "v": "volume",
}
"""Single-letter column names used by Polygon, Alpaca and Finnhub, which have a meaning only
together.
"""

# columns in Investing.com's files, where `price` is the close
_INVESTING = {"price", "vol", "change"}


def squeeze_name(name: str) -> str:
    """Return a name in lower case, without brackets and their contents, spaces and punctuation:
    `<Adj. Close>` becomes `adjclose`.
    """
    plain = unicodedata.normalize("NFKC", name).lower()
    bare = _BRACKETS.sub("", _SAID_UNIT.sub("", plain))
    return re.sub(r"[\W_]+", "", bare)


def unit_in(field: str, name: str) -> float | None:
    """Return the unit that a column name states in brackets or that its vendor uses; None if no
    unit is known.
    """
    plain = unicodedata.normalize("NFKC", name)
    found = _SAID_UNIT.search(plain) or _BRACKETS.search(plain)
    word = found[1].strip().lower() if found else _unit_of_vendor(field, name)

    return UNITS.get(field, {}).get(word)


@cache
def vendor_names() -> Mapping[str, tuple[str, ...]]:
    """Return, for each field, its unambiguous names, squeezed. The first name that matches
    is used.
    """
    names: dict[str, list[str]] = {}
    for row in csv_rows(Path(__file__).with_name("names.csv")):
        names.setdefault(row["field"], []).append(squeeze_name(row["name"]))

    for name, beside in columns_beside().items():
        if beside["role"] != NOT_READ:
            names.setdefault(beside["role"], []).append(name)

    return {field: tuple(of_field) for field, of_field in names.items()}


@cache
def columns_beside() -> Mapping[str, Mapping[str, str]]:
    """Return the role, name, vendor and meaning of columns other than prices, keyed by squeezed
    name. The role is the field to which the column belongs, or `NOT_READ`.
    """
    rows = csv_rows(Path(__file__).with_name("beside.csv"))
    return {squeeze_name(row["name"]): row for row in rows}


def unread_columns(header: Iterable[str], read: Iterable[str]) -> list[str]:
    """Return the columns of a header that vendors are known to write but that were not read, each
    with its meaning in brackets.
    """
    done = set(read)
    found = []
    for name in dict.fromkeys(header):
        row = columns_beside().get(squeeze_name(name))
        if row is not None and name not in done:
            found.append(f"{name!r} ({row['meaning']})")
    return found


def is_known(name: str) -> bool:
    """Return whether the meaning of a column name is certain, since it belongs to a field or to
    another listed column.
    """
    plain = squeeze_name(name)
    if plain in columns_beside():
        return True
    return any(plain in names_of(field, {}) for field in vendor_names())


def is_asset(name: str) -> bool:
    """Return whether a column name is the symbol or code of an asset and not the name of a
    field.
    """
    is_symbol = bool(_ASSET.fullmatch(name)) and not is_known(name)
    return is_symbol or parse_code(name) is not None


def _unit_of_vendor(field: str, name: str) -> str:
    """Return the unit implied by a vendor's name, such as lots for 总手; empty if it implies
    no unit.
    """
    for row in csv_rows(Path(__file__).with_name("names.csv")):
        if row["field"] == field and squeeze_name(row["name"]) == squeeze_name(name):
            return row["unit"].lower()
    return ""


def names_of(field: str, aliases: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the names of a field, squeezed. The field itself comes first."""
    own = [squeeze_name(name) for name in (field, *aliases.get(field, ()))]
    return tuple(dict.fromkeys((*own, *vendor_names().get(field, ()))))


def match_names(
    header: Sequence[str],
    fields: Sequence[str],
    aliases: Mapping[str, Sequence[str]],
) -> dict[str, str]:
    """Return field -> column, for the fields whose name or alias is a column."""
    columns = {squeeze_name(name): name for name in reversed(header)}
    for name in header:
        twice = _TWO_SCRIPTS.fullmatch(squeeze_name(name))
        if twice:
            columns.setdefault(twice[1], name)

    found = {}
    for field in fields:
        match = next((columns[name] for name in names_of(field, aliases) if name in columns), None)
        if match is not None:
            found[field] = match

    if "close" in fields and "close" not in found and columns.keys() >= _INVESTING:
        found["close"] = columns["price"]

    if {*"ohlc"} <= {*header}:
        for letter, field in _LETTERS.items():
            if letter in header and field in fields:
                found.setdefault(field, letter)

    return found


def coin_volumes(header: Sequence[str], codes: Iterable[str]) -> dict[str, str]:
    """Return the volume and amount columns that are named after the two assets of a pair: `Volume
    BTC`, `Volume USDT`.
    """
    pair = next(iter(codes), "").upper()
    found: dict[str, str] = {}
    for name in header:
        match = _COIN.fullmatch(name.strip())
        coin = match[1].upper() if match else ""
        if coin and pair.startswith(coin):
            found["volume"] = name
        elif coin and pair.endswith(coin):
            found["amount"] = name

    return found
