"""Options for reading the files of a judgement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ktdeval_tables.options import Decimal, ReadingOptions


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options for a reader."""

    program: str | None = None  #: name of the program; None: detected from the file
    zone: str = ""  #: IANA time zone, as given by the user; empty: not given
    market_zone: str = ""  #: market's time zone; empty: no market is named, or it has several
    sessions: tuple[int, ...] = ()  #: the market's trading days (yyyymmdd), ascending
    roles: Mapping[str, str] = field(default_factory=dict)  #: role -> column, as given by the user
    code: str = ""  #: code of the asset, for a file without a code column
    columns: tuple[str, ...] = ()  #: names, for a file without a header; `-`: column not read
    date_format: str = ""  #: format of days, as in strptime, or one of the words in `days.WORDS`
    decimal: Decimal = "auto"  #: decimal separator
    flows: str = ""  #: column of deposits and withdrawals
    table: str = ""  #: name of the table in a file with several
    is_one_of_two: bool = False  #: whether another file is read with the same options

    @property
    def reading(self) -> ReadingOptions:
        """Options for the cells of one file; collects notes."""
        return ReadingOptions(columns=self.columns, decimal=self.decimal)
