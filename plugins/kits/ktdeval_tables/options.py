"""Options for reading the files of a market, and observations made while reading them."""

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

    file: str = ""  #: option that gives the file, such as `members`; empty: the bars
    #: names of the columns in a file without a header; `-` for a column that is not read
    columns: tuple[str, ...] = ()
    code: str = ""  #: code for a file without a code column
    code_width: int = 0  #: number of digits of a code; shorter codes are padded with zeros
    date_format: str = ""  #: format of the days: a strptime format, or one of `days.WORDS`
    date_zone: str = ""  #: time zone in which days begin at midnight
    decimal: Decimal = "auto"  #: decimal mark of numbers
    has_map: bool = True  #: whether the import has `--map`
    #: column -> value that rows must have to be read
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
    )  #: columns whose cells show that they contain no volume
    sources: MutableMapping[str, Sequence[str]] = field(
        default_factory=dict
    )  #: column that distinguishes rows with the same day and code -> its values
    signs: MutableMapping[str, str] = field(default_factory=dict)  #: column -> its currency sign

    @property
    def days(self) -> DayForm:
        """Form of the days."""
        return DayForm(self.date_format, self.date_zone)

    def beside(self, file: str) -> ReadingOptions:
        """Return the options for another file, which has a header and codes of its own. `file`: the
        file's option.
        """
        own = replace(
            self, columns=(), code="", columns_of={}, header=[], times=[], titles=[], signs={}
        )
        return replace(own, file=file, no_counts=[], sources={}, keep={})

    def name_mapping_option(self, columns: Mapping[str, str]) -> str:
        """Return the option that maps fields of the file to columns or, for an import without this
        option, how to change the file.
        """
        if not self.has_map:
            renamed = [f"{column!r} to {field!r}" for field, column in columns.items()]
            return f"rename {', '.join(renamed)}"

        prefix = f"{self.file}." if self.file else ""
        pairs = [f"{prefix}{field}={column}" for field, column in columns.items()]
        text = ",".join(pairs)
        return f"--map '{text}'" if re.search(r"[^\w.,=:/-]", text) else f"--map {text}"

    def note(self, words: str) -> None:
        """Add a note, unless it has already been added."""
        if words not in self.notes:
            self.notes.append(words)
