"""Tables from papers in YAML: one file per paper, one table per name (`ktdeval paper table --like
NAME`).

A file maps names to the fields of `PaperTable`; a plugin offers it through
`ktdeval.registry.task_files.table_specs`. `rows` is a kind of row that the command builds from
cards, such as `models`, or `module:function` from the paper's own package. That function is called
with the given paths, the table and a `TableChoices`, and returns a `pandas.DataFrame` with one row
per line of the table and, in its `attrs`, `notes` (lines of text).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ktdeval.errors import ConfigError
from ktdeval.values.typed_json import Value, from_plain

if TYPE_CHECKING:
    from ktdeval.registry.plugin_registry import Plugins

Median = Literal["trajectory", "figures"]
RuleSet = Literal["strict", "paper"]


class Pivot(Value, kw_only=True):
    """How a table with a row for each pair is shown as text: one column a name, which are numbered."""

    head: str  #: of the first column
    by: str  #: field of the first column
    names: tuple[str, ...]  #: fields that name a column
    cell: str  #: format of a row's fields


class PaperTable(Value, kw_only=True):
    """A table of a paper.

    Attributes:
        caption, source: what it shows, and the place in the paper.
        rows: what a row is; see the module.
        columns: head, field and how it is shown: percent, share, ratio, small, points, rank, or a
            format of the row's fields, in which `NAME_pct` is a fraction in per cent.
        notes: lines below the table. `note_of_strict`: where the cards are by other rules than the
            paper's. `note_of_several`: where a card has several episodes.
        takes: fields of `TableChoices` that mean something for it.
        pivot: how it is shown as text.
        settings: what the maker of its rows needs besides.
    """

    name: str
    caption: str
    source: str
    rows: str
    columns: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()
    note_of_strict: str = ""
    note_of_several: str = ""
    takes: tuple[str, ...] = ()
    pivot: Pivot | None = None
    settings: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def metrics(self) -> list[str]:
        """Fields of the columns."""
        return [field for _, field, _ in self.columns]


@dataclass(frozen=True, kw_only=True)
class TableChoices:
    """Options for a table that a user can set, in addition to its name and cards.

    Attributes:
        cohort: `NAME=PATTERN,…`, systems whose mean is shown in one column.
        rules: only cards with this rule set.
        median: figures of the episode with the median Sharpe ratio, or the median of each figure.
        classes: `MODEL=TYPE:BILLIONS`, or files of patterns.
        data: the market, if it has moved since the run.
        plugins: loaded plugins.
    """

    plugins: Plugins
    cohort: tuple[str, ...] = ()
    rules: RuleSet | None = None
    median: Median = "trajectory"
    classes: tuple[str, ...] = ()
    data: str | None = None


def read_table(where: str, fields: Mapping[str, Any]) -> PaperTable:
    """Return a table from its fields in a file. Raises ConfigError, which starts with `where`, if a
    field is unknown, missing or of the wrong type.
    """
    return from_plain(dict(fields), PaperTable, where, ConfigError)
