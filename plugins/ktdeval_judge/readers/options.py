"""How the files of a judgement are to be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ktdeval_tables.options import Decimal, ReadingOptions


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What a reader is told besides the file."""

    program: str | None = None  #: name of the program; None: by what the file holds
    zone: str = ""  #: IANA time zone, as the user says; empty: not said
    market_zone: str = ""  #: that of the market; empty: none is named, or it has several
    sessions: tuple[int, ...] = ()  #: trading days of the market (yyyymmdd), ascending
    roles: Mapping[str, str] = field(default_factory=dict)  #: role -> column, as the user says
    code: str = ""  #: of a file that has no column of codes
    columns: tuple[str, ...] = ()  #: of a file without a header; `-` for one that is not read
    date_format: str = ""  #: of days, as of strptime, or one of the words of `days.WORDS`
    decimal: Decimal = "auto"  #: mark between the whole and the parts of a number
    flows: str = ""  #: column of deposits and withdrawals
    table: str = ""  #: part of a file that holds several tables
    is_one_of_two: bool = False  #: whether another file is read with the same options

    @property
    def reading(self) -> ReadingOptions:
        """How the cells of one file are read; gets notes."""
        return ReadingOptions(columns=self.columns, decimal=self.decimal)
