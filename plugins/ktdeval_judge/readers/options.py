"""Options for reading files that are judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ktdeval_tables.options import Decimal, ReadingOptions

#: What the day of a decision means: the day at whose close it was made, or the day of its fill
Dated = Literal["decision", "fill"]


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What a reader is told of a file: by the user, and by the market that it belongs to."""

    #: name of the program; if None, the program is detected from the file
    program: str | None = None
    zone: str = ""  #: IANA time zone, as given by the user; empty if not given
    #: market's time zone; empty if no market is given, or if the market has several time zones
    market_zone: str = ""
    sessions: tuple[int, ...] = ()  #: the market's trading days (yyyymmdd), ascending
    #: minutes after local midnight at which each session opens; if empty, at midnight
    opens: tuple[int, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)  #: role -> column, as given by the user
    code: str = ""  #: code of the asset, for a file without a code column
    #: column names, for a file without a header; `-` if a column is not read
    columns: tuple[str, ...] = ()
    date_format: str = ""  #: format of days, as for strptime, or one of the words in `days.WORDS`
    decimal: Decimal = "auto"  #: decimal separator
    flows: str = ""  #: column or file with deposits and withdrawals
    table: str = ""  #: name of the table, for a file with several tables
    #: column -> value that rows must have to be read, or `*` if rows of all values are one account
    keep: Mapping[str, str] = field(default_factory=dict)
    cash: int | None = None  #: initial cash, as given by the user
    keeps_others: bool = False  #: whether a day of targets may leave out holdings that are kept
    dated: Dated = "decision"
    is_nav: bool = False  #: whether the file is given with `--nav`, so that only values are read
    is_one_of_two: bool = False  #: whether another file is read with the same options

    @property
    def reading(self) -> ReadingOptions:
        """Options for reading cells, for one file. Collects notes."""
        return ReadingOptions(columns=self.columns, decimal=self.decimal)
