"""Numbers and JSON as a model sees them: short, exact enough, and never to be mistaken for a code or a date.

A run of six digits can be a security code, one of eight a date, and `2024` a year. So numbers from 100,000 on are written
with an exponent, fractions have at most five digits, and whole numbers in the range of years carry a `.0`. Then the leak
guard can treat every standalone run of six or eight digits and every bare year as what it looks like.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from ktdeval.errors import PluginError
from ktdeval.jsonio import JsonValue

SIGNIFICANT_DIGITS = 6
DECIMALS = 5
FIRST_YEAR, LAST_YEAR = 1990, 2039

_EXPONENT_FROM = 10 ** (SIGNIFICANT_DIGITS - 1)
_YEARS = frozenset(str(year) for year in range(FIRST_YEAR, LAST_YEAR + 1))
_encode_text = json.JSONEncoder(ensure_ascii=False).encode


def render_number(value: int | float) -> str:
    """One number as JSON text.

    Floats keep 5 decimals and 6 significant digits, integers all their digits; from 100,000 on both are written with an
    exponent (`6.0312e5`). Whole numbers 1990…2039 are written `2024.0`. Negative zero is `0`; NaN and infinity are `null`.
    """
    if isinstance(value, int):
        text = _integer(value)
    elif not math.isfinite(value):
        return "null"
    else:
        text = _float(value)
    if text.removeprefix("-") in _YEARS:
        return text + ".0"
    return text


def _integer(value: int) -> str:
    text = str(value)
    if -_EXPONENT_FROM < value < _EXPONENT_FROM:
        return text
    sign, digits = ("-", text[1:]) if value < 0 else ("", text)
    fraction = digits[1:].rstrip("0")
    return f"{sign}{digits[0]}{'.' if fraction else ''}{fraction}e{len(digits) - 1}"


def _float(value: float) -> str:
    if -1.0 < value < 1.0:
        text = f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".")
        return "0" if text == "-0" else text
    text = f"{value:.{SIGNIFICANT_DIGITS}g}"
    if "e" not in text and len(text.lstrip("-").partition(".")[0]) < SIGNIFICANT_DIGITS:
        return text
    mantissa, _, exponent = f"{value:.{SIGNIFICANT_DIGITS - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def render_json(value: JsonValue) -> str:
    """Compact JSON of a plain value, keys in the order given, numbers as in `render_number`.

    Raises:
        PluginError: something in it is no JSON value; the message names its type.
    """
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts)


def _write(value: JsonValue, parts: list[str]) -> None:
    if isinstance(value, str):
        parts.append(_encode_text(value))
    elif value is None or value is True or value is False:
        parts.append("null" if value is None else "true" if value else "false")
    elif isinstance(value, (int, float)):
        parts.append(render_number(value))
    elif isinstance(value, Mapping):
        separator = "{"
        for key, item in value.items():
            if not isinstance(key, str):
                raise PluginError(f"a payload has a key of type {type(key).__name__}; keys must be text")
            parts.append(f"{separator}{_encode_text(key)}:")
            _write(item, parts)
            separator = ","
        parts.append("{}" if separator == "{" else "}")
    elif isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        separator = "["
        for item in value:
            parts.append(separator)
            _write(item, parts)
            separator = ","
        parts.append("[]" if separator == "[" else "]")
    else:
        raise PluginError(f"a payload holds a {type(value).__name__}; use plain JSON values and the field types of a payload")
