"""Asset codes in cells and file names."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import pandas as pd

from ktdeval.market import parse_code

_MARKS = re.compile(r"^=?[\"'’`]+|[\"'\s]+$")
_WHOLE_FLOAT = re.compile(r"([0-9]{1,6})\.0+")
_FEWER_DIGITS = re.compile(r"[1-9][0-9]{0,4}(?:\.0+)?")
_OF_A_SHARE = re.compile(
    r"((?:sh|sz|bj)?[#._-]?[0-9]{6}(?:[._-]?(?:sh|sz|ss|bj|xshg|xshe))?)(?:[_\-. (（].*)?",
    re.IGNORECASE,
)
_OF_BLOOMBERG = re.compile(r"([A-Za-z0-9./]+) ([A-Za-z][A-Za-z0-9])(?: Equity)?", re.IGNORECASE)
_BLOOMBERG_US = ("US", "UN", "UQ", "UW", "UR", "UA", "UP", "UF", "UV")
_OF_BINANCE = re.compile(r"([A-Z0-9]+)-[0-9]+[smhdwM]o?-[0-9]{4}(?:-[0-9]{2}){0,2}")
_OF_KRAKEN = re.compile(r"([A-Z0-9.]+)_[0-9]+")


def listed_in(cell: str) -> list[str]:
    """Return the codes in a cell that may hold a list: `AAPL,MSFT`, `AAPL MSFT`, `['AAPL',
    'MSFT']`. `600519 CH Equity`, which is Bloomberg's form, is one code.
    """
    text = cell.strip().strip("[](){}")
    if re.search(r"[,;|，；]", text):
        parts = re.split(r"[,;|，；]", text)
    elif _OF_BLOOMBERG.fullmatch(text):
        parts = [text]
    else:
        parts = text.split()

    plain = [part.strip().strip("\"'").strip() for part in parts]
    return [part for part in plain if part]


def us_symbol(text: str) -> str:
    """Return the symbol of a US share without Bloomberg's suffix, and with a dot before its class:
    BRK.B for `BRK/B US Equity`. Other strings are returned unchanged.
    """
    found = _OF_BLOOMBERG.fullmatch(text)
    symbol = found[1] if found and found[2].upper() in _BLOOMBERG_US else text
    return re.sub(r"^([A-Za-z]{1,5})/([A-Za-z])$", r"\1.\2", symbol)


def as_among(codes: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return code -> its other spelling in `known`, for codes that are not in `known`: BRK.B may be
    written BRK-B or BRK B there, and AAPL.US may be written AAPL.
    """
    by_form: dict[str, list[str]] = {}
    for code in known:
        by_form.setdefault(_one_form(code), []).append(code)

    renamed = {}
    for code in codes:
        alike = by_form.get(_one_form(code), [])
        if code not in known and len(alike) == 1:
            renamed[code] = alike[0]

    return renamed


def _one_form(code: str) -> str:
    """Return a symbol without its country suffix, and with a dot before its class."""
    bare = code.upper().removesuffix(".US").removesuffix("-US")
    return re.sub(r"^([A-Z]{1,5})[/_ -]([A-Z])$", r"\1.\2", bare)


def plain_code(text: str, width: int = 0) -> str:
    """Return a code without the characters by which spreadsheets keep it as text (`="000001"`,
    `'000001`). `width`: number of digits, to which lost zeros are restored.
    """
    plain = _MARKS.sub("", text.strip().removeprefix("="))
    if not width:
        return plain

    whole = _WHOLE_FLOAT.fullmatch(plain)
    digits = whole[1] if whole else plain
    return digits.zfill(width) if digits.isdigit() else digits


def lost_zeros(codes: Iterable[str]) -> str | None:
    """Return the first code that has fewer than six digits because a program treated it as a
    number; None if all codes are complete.
    """
    return next((code for code in codes if _FEWER_DIGITS.fullmatch(code.strip())), None)


def code_in_name(stem: str) -> str:
    """Return the code in a file name: 600000.SH, SH#600000, sh600000, 600000_浦发银行,
    BTCUSDT-1d-2024-01, XBTUSD_1440.
    """
    share = _OF_A_SHARE.fullmatch(stem)
    if share:
        return share[1].replace("#", "")
    pair = _OF_BINANCE.fullmatch(stem) or _OF_KRAKEN.fullmatch(stem)
    return pair[1] if pair else stem


def code_in_title(title: str) -> str | None:
    """Return the code at the start of a title such as `600000 浦发银行 日线 不复权`; None without a code."""
    words = title.split()
    first = words[0].strip("\"'") if words else ""
    is_index = "指" in title  # ambiguous: 000001 is 上证指数 in Shanghai and 平安银行 in Shenzhen

    return first if parse_code(first) and not is_index else None


def categories(column: pd.Series, change: Callable[[str], str] = str) -> pd.Categorical:
    """Return a text column as categories in ascending order. `change` is applied to each distinct
    text. A missing text becomes `no code`.
    """

    def change_code(text: Any) -> str:
        if pd.isna(text):
            return change("no code")
        return change(str(text))

    texts = pd.Categorical(column).map(change_code, na_action=None)
    values = pd.Categorical(texts)
    used = np.bincount(values.codes[values.codes >= 0], minlength=len(values.categories))
    if not used.all():
        values = values.remove_unused_categories()

    return values.reorder_categories(sorted(values.categories))
