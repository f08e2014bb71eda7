"""Options for reading the files of a market, and observations made while reading."""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from ktdeval_tables.days import DayForm

Decimal = Literal["auto", "point", "comma"]


@dataclass(frozen=True)
class ReadingOptions:
    """Options for reading files. The reader adds its observations to `notes`, `columns_of`,
    `header`, `titles`, `times` and `signs`.
    """

    file: str = ""  #: option of the file, such as `members`; empty: the bars
    #: columns of a file without a header; `-` for a column that is not read
    columns: tuple[str, ...] = ()
    code: str = ""  #: code for a file without a column of codes
    code_width: int = 0  #: digits of a code; shorter ones get their zeros back
    date_format: str = ""  #: format of days: a strptime format, or one of `days.WORDS`
    date_zone: str = ""  #: time zone in which days begin at midnight
    decimal: Decimal = "auto"  #: decimal mark of numbers
    has_map: bool = True  #: whether the import has `--map`
    #: column -> its value in the rows to read
    keep: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  #: notes as text
    columns_of: MutableMapping[str, str] = field(default_factory=dict)  #: field -> its column
    header: list[str] = field(default_factory=list)  #: names of all columns
    titles: list[str] = field(default_factory=list)  #: texts above headers
    times: list[str] = field(
        default_factory=list,
    )  #: first cells of a time column next to the day column
    no_counts: list[str] = field(
        default_factory=list
    )  #: columns that, by their cells, contain no volume
    sources: MutableMapping[str, Sequence[str]] = field(
        default_factory=dict
    )  #: column that distinguishes rows with the same day and code -> its values
    signs: MutableMapping[str, str] = field(default_factory=dict)  #: column -> its currency sign

    @property
    def days(self) -> DayForm:
        """Form of the days."""
        return DayForm(self.date_format, self.date_zone)

    def beside(self, file: str) -> ReadingOptions:
        """Return options for another file, which has a separate header and codes; `file`: its
        option.
        """
        own = replace(
            self, columns=(), code="", columns_of={}, header=[], times=[], titles=[], signs={}
        )
        return replace(own, file=file, no_counts=[], sources={}, keep={})

    def name_mapping_option(self, columns: Mapping[str, str]) -> str:
        """Return the option that maps fields of the file to columns; for an import without it, how
        to change the file.
        """
        if not self.has_map:
            renamed = [f"{column!r} to {field!r}" for field, column in columns.items()]
            return f"rename {', '.join(renamed)}"

        prefix = f"{self.file}." if self.file else ""
        pairs = [f"{prefix}{field}={column}" for field, column in columns.items()]
        text = ",".join(pairs)
        return f"--map '{text}'" if re.search(r"[^\w.,=:/-]", text) else f"--map {text}"

    def note(self, words: str) -> None:
        """Keep a note, once."""
        if words not in self.notes:
            self.notes.append(words)
