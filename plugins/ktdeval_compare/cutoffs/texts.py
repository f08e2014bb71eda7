"""Report of `compare cutoff` as plain text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ktdeval.values import load_yaml
from ktdeval_compare.cutoffs.compute import CutoffReport
from ktdeval_compare.study import COLUMNS
from ktdeval_compare.table_columns import Part, declared_table, note_parts


def cutoff_parts(report: CutoffReport) -> Iterator[Part]:
    """Yield the parts of the `compare cutoff` report."""
    yield (
        "Means a year, in %, before and after the end of the model's training data; decay: before"
        " less after"
    )
    rows = [row for row in report.cards if row.figure]
    if rows:
        columns = load_yaml(Path(__file__).with_name(COLUMNS))
        yield declared_table(columns["cards"], rows, report.alpha)

    yield "  before, across, after: days; days that contain the cutoff are in neither mean"
    notes = []
    for row in report.cards:
        if row.reason:
            notes.append(f"{row.card}: {row.figure or 'cutoff'}: {row.reason}")

    sources = [f"{row.model}: {row.source}" for row in rows if row.source]
    yield from note_parts(list(dict.fromkeys([*notes, *sources, *report.notes])))
