"""Security codes and exchange boards of the Chinese A-share market."""

from __future__ import annotations

import re
from enum import StrEnum

from ktdeval.errors import DataError


class Board(StrEnum):
    """Boards whose price limits differ; decided by the code's leading digits (KTD-Fin Appendix H)."""

    MAIN = "main"
    CHINEXT = "chinext"
    STAR = "star"
    BSE = "bse"


DAILY_LIMIT_PCT = {Board.MAIN: 10.0, Board.CHINEXT: 20.0, Board.STAR: 20.0, Board.BSE: 30.0}

_DIGITS_FIRST = re.compile(r"(\d{6})(?:[.\-_ ]?(SH|SS|SSE|XSHG|SHH|SZ|SZSE|XSHE|SHZ|BJ|BSE|XBSE))?", re.IGNORECASE)
_LETTERS_FIRST = re.compile(r"(SH|SZ|BJ)[.\-_ ]?(\d{6})", re.IGNORECASE)
_EXCHANGE = {
    "SH": "SH", "SS": "SH", "SSE": "SH", "XSHG": "SH", "SHH": "SH",
    "SZ": "SZ", "SZSE": "SZ", "XSHE": "SZ", "SHZ": "SZ",
    "BJ": "BJ", "BSE": "BJ", "XBSE": "BJ",
}  # fmt: skip


def board_of(code: str) -> Board:
    """Return the board of a normalised code.

    Raises:
        DataError: the digits belong to no board of the A-share market.
    """
    digits = code[:6]
    if digits.startswith(("688", "689")):
        return Board.STAR
    if digits.startswith("30"):
        return Board.CHINEXT
    if digits.startswith(("6", "00")):
        return Board.MAIN
    if digits.startswith(("8", "4", "92")):
        return Board.BSE
    raise DataError(f"code {code!r} belongs to no A-share board (6, 00, 30, 688, 8, 4 or 92 at its start)")


def parse_code(text: str) -> str | None:
    """Return the normalised form `600519.SH` of any vendor style (600519, 600519.SS, SH600519, sh.600519), or None.

    Bare digits get the exchange of their board: 6 is Shanghai, 00 and 30 Shenzhen, 8, 4 and 92 Beijing.
    """
    text = text.strip()
    if match := _LETTERS_FIRST.fullmatch(text):
        return f"{match[2]}.{match[1].upper()}"
    match = _DIGITS_FIRST.fullmatch(text)
    if match is None:
        return None
    digits, suffix = match[1], match[2]
    if suffix is not None:
        return f"{digits}.{_EXCHANGE[suffix.upper()]}"
    if digits.startswith("6"):
        return f"{digits}.SH"
    if digits.startswith(("00", "30")):
        return f"{digits}.SZ"
    if digits.startswith(("8", "4", "92")):
        return f"{digits}.BJ"
    return None
