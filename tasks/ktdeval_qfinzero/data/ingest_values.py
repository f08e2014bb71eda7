"""Columns of text as numbers and moments: exact, whole columns at a time; each cell that is none is marked, never guessed."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ktdeval_qfinzero.data.rows import FloatArray, IntArray
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.moments import DAY, SECOND, parse_moment

BoolArray = npt.NDArray[np.bool_]

_PRICE = r"[0-9]{1,11}(\.[0-9]{1,4}0{0,20})?"
_FINER_PRICE = re.compile(r"[0-9]{1,11}\.[0-9]{1,40}")
_VOLUME = r"[0-9]{1,16}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?"
_WHOLE = r"[0-9]{1,16}"
_NANOSECONDS = r"[0-9]{17,19}"
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_ISO = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?Z?"
_MOST_NS = 2**62
_E4 = Decimal("0.0001")
_EPOCH_ORDINAL = datetime(1970, 1, 1, tzinfo=UTC).toordinal()


def prices_e4(texts: pa.Array, *, rounded: bool) -> tuple[IntArray, BoolArray]:
    """Dollars as decimal text in ten-thousandths of a dollar. `texts`: [n] such as `101.25`; `rounded`: whether prices of more than
    four decimals are rounded, halves to even. The prices [n], and which texts are none [n].
    """
    good = _matches(texts, _PRICE)
    values = _decimals(texts if good.all() else pc.if_else(pa.array(good), texts, "0"))
    if rounded and not good.all():
        for row in np.flatnonzero(~good).tolist():
            text = texts[row].as_py()
            if _FINER_PRICE.fullmatch(text):
                values[row] = price_e4(text, rounded=True) or 0
                good[row] = True
    return values, ~good


def price_e4(text: str, *, rounded: bool) -> int | None:
    """Return one price in ten-thousandths of a dollar; None where the text is none."""
    if re.fullmatch(_PRICE, text) or (rounded and _FINER_PRICE.fullmatch(text)):
        return int(Decimal(text).quantize(_E4, ROUND_HALF_EVEN).scaleb(4))
    return None


def volumes(texts: pa.Array) -> tuple[FloatArray, BoolArray]:
    """Numbers from 0, and which texts are none."""
    good = _matches(texts, _VOLUME)
    known = pc.if_else(pa.array(good), texts, "0")
    values: FloatArray = np.array(known.cast(pa.float64()).to_numpy(zero_copy_only=False))
    return values, ~good


def whole_numbers(texts: pa.Array, *, missing: int | None = None) -> tuple[IntArray, BoolArray]:
    """Whole numbers from 0, and which texts are none; an empty text is `missing` where that is given."""
    if missing is not None:
        texts = pc.if_else(pc.equal(texts, ""), str(missing), texts)
    good = _matches(texts, _WHOLE)
    return _integers(pc.if_else(pa.array(good), texts, "0")), ~good


def moments(texts: pa.Array) -> tuple[IntArray, BoolArray, BoolArray]:
    """Moments: nanoseconds since 1970, texts such as `2025-01-06T14:30:00Z` (UTC without an offset), or days. The moments [n],
    which texts are days [n], and which are no moments [n].
    """
    days = _matches(texts, _DATE)
    for pattern, cast in ((_NANOSECONDS, _nanoseconds), (f"{_DATE}|{_ISO}", _instants)):
        if _matches(texts, pattern).all():
            with suppress(pa.ArrowException):  # one of them is none: each by itself, then
                return cast(texts), days, np.zeros(len(texts), bool)
    encoded = texts.dictionary_encode()
    read = [moment_of(text) for text in encoded.dictionary.to_pylist()]
    rows = encoded.indices.to_numpy()
    return np.array([ns or 0 for ns in read], np.int64)[rows], days, np.array([ns is None for ns in read], bool)[rows]


def days_in_zone(values: IntArray, zone: str) -> tuple[IntArray, BoolArray]:
    """Midnights in UTC of the days that begin at these moments in a time zone, and which moments begin none."""
    distinct, places = np.unique(values, return_inverse=True)
    begun, bad = np.zeros(len(distinct), np.int64), np.zeros(len(distinct), bool)
    for place, moment in enumerate(distinct.tolist()):
        local = datetime.fromtimestamp(moment // SECOND, UTC).astimezone(ZoneInfo(zone))
        begun[place] = local.toordinal() - _EPOCH_ORDINAL
        bad[place] = bool(moment % SECOND) or (local.hour, local.minute, local.second) != (0, 0, 0)
    return begun[places] * DAY, bad[places]


def _matches(texts: pa.Array, pattern: str) -> BoolArray:
    found = pc.match_substring_regex(texts, f"^(?:{pattern})$").to_numpy(zero_copy_only=False)
    return np.array(found, bool)


def _decimals(texts: pa.Array) -> IntArray:
    """Exact ten-thousandths of texts that all are prices."""
    exact = texts.cast(pa.decimal128(38, 4))
    # Sixteen bytes a number, the low eight first: none of ours needs more.
    low: IntArray = np.frombuffer(exact.buffers()[1], np.int64)[2 * exact.offset : 2 * (exact.offset + len(exact)) : 2].copy()
    return low


def _integers(texts: pa.Array) -> IntArray:
    values: IntArray = np.array(texts.cast(pa.int64()).to_numpy(zero_copy_only=False))
    return values


def _nanoseconds(texts: pa.Array) -> IntArray:
    values = _integers(texts)
    if (values >= _MOST_NS).any():
        raise pa.ArrowInvalid("too large")
    return values


def _instants(texts: pa.Array) -> IntArray:
    plain = pc.replace_substring_regex(texts, "Z$", "")
    values: IntArray = plain.cast(pa.timestamp("ns")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    if (values < 0).any() or (values >= _MOST_NS).any():
        raise pa.ArrowInvalid("out of range")
    return values


def moment_of(text: str) -> int | None:
    """Return one moment, as `moments` reads them; None where the text is none."""
    if re.fullmatch(_NANOSECONDS, text):
        return int(text) if int(text) < _MOST_NS else None
    try:
        ns = parse_moment(text, "time")
    except ServiceError:
        return None
    return ns if 0 <= ns < _MOST_NS else None
