"""Tables from papers in YAML: one file per paper, and one table per name (`ktdeval paper table
--like NAME`).

A file maps names to the fields of `PaperTable`. A plugin offers the file through
`ktdeval.registry.task_files.table_specs`. The field `rows` is either a kind of row that the command
builds from cards, such as `models`, or a function `module:function` in the paper's own package. The
function is called with the given paths, the table and a `TableChoices`. It returns a
`pandas.DataFrame` with one row per line of the table; its `attrs` contain `notes` (lines of text).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ktdeval.errors import ConfigError
from ktdeval.values.documents.typed_json import Value, from_plain

if TYPE_CHECKING:
    from ktdeval.registry.plugin_registry import Plugins

Median = Literal["trajectory", "figures"]
RuleSet = Literal["strict", "paper"]


class Pivot(Value, kw_only=True):
    """Layout of a table as text if it has a row for each pair: each name gets a numbered column."""

    head: str  #: heading of the first column
    by: str  #: field shown in the first column
    names: tuple[str, ...]  #: fields that give the name of a column
    cell: str  #: format string for the fields of a row


class PaperTable(Value, kw_only=True):
    """Table from a paper.

    Attributes:
        caption, source: what the table shows, and where it is in the paper.
        rows: what a row is; see the module docstring.
        columns: heading, field and format of each column. The format is percent, share, ratio,
            small, points or rank, or a format string for the fields of a row, in which `NAME_pct`
            is a fraction in per cent.
        notes: lines below the table. `note_of_strict` is added if the cards use other rules than
            the paper, `note_of_several` if a card has several episodes.
        takes: fields of `TableChoices` that apply to the table.
        pivot: layout as text.
        settings: other settings that the function in `rows` needs.
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
        """Fields shown in the columns."""
        return [field for _, field, _ in self.columns]


@dataclass(frozen=True, kw_only=True)
class TableChoices:
    """Options that users can set for a table, in addition to its name and cards.

    Attributes:
        cohort: `NAME=PATTERN,…`, systems whose mean is shown in one column.
        rules: use only cards with this rule set.
        median: figures of the episode with the median Sharpe ratio, or the median of each figure.
        classes: `MODEL=TYPE:BILLIONS`, or files with patterns.
        data: location of the market, if it has moved since the run.
        plugins: loaded plugins.
    """

    plugins: Plugins
    cohort: tuple[str, ...] = ()
    rules: RuleSet | None = None
    median: Median = "trajectory"
    classes: tuple[str, ...] = ()
    data: str | None = None


def read_table(where: str, fields: Mapping[str, Any]) -> PaperTable:
    """Return a table, given its fields in a file. Raises ConfigError, with a message that starts
    with `where`, if a field is unknown, missing or of the wrong type.
    """
    return from_plain(dict(fields), PaperTable, where, ConfigError)
