"""Figures of a fork as aligned plain-text tables."""

from __future__ import annotations

from collections.abc import Iterator

from ktdeval.cards import count, percent
from ktdeval.runner import FamilyFigures, ForkFile, VariantFigures
from ktdeval_compare.table_columns import (
    UNDEFINED,
    Part,
    make_table,
)

_NULL = "asked again"


def fork_parts(file: ForkFile) -> Iterator[Part]:
    """Yield the parts of a fork's text."""
    yield (
        f"Forked: {count(len(file.places), 'step')} of {file.model} ({file.run}), asked again with one input"
        " changed; never ranked"
    )
    yield f"  {_sampling(file)}"
    yield ""
    yield "  turnover: half the sum of changed weights in % of the NAV, cash included"
    yield make_table(
        "changes", file.variants, cells={"p": lambda row: _p(row, file), "read": _verdict}
    )
    if file.families:
        yield ""
        yield f"  {_reading(file)}"
        yield make_table("families", file.families, cells={"share": _family_share})

    reasons = [row.reason for row in file.variants if row.reason]
    notes = list(dict.fromkeys([*reasons, *file.notes]))
    if notes:
        yield ""
        yield from (f"  {note}" for note in notes)


def _sampling(file: ForkFile) -> str:
    if not file.draws:
        told = "the model is deterministic, so any difference is exact"
    else:
        told = f"{count(file.samples, 'decision')} of each change at each step"

    if file.as_recorded is None:
        return told
    return f"{told}; {percent(file.as_recorded, '.0f')} of those {_NULL} are the recorded one"


def _reading(file: ForkFile) -> str:
    shown = sum(row.shown for row in file.families)
    read = sum(row.read for row in file.families)
    return f"Does it read what it is shown? {read} of {shown} inputs move its decisions"


def _family_share(row: FamilyFigures) -> str:
    return f"{100 * row.read / row.shown:.0f} %"


def _p(row: VariantFigures, file: ForkFile) -> str:
    if row.adjusted_p is None:
        return UNDEFINED
    if row.adjusted_p == 0.0 and not file.draws:
        return "exact"
    return f"{row.adjusted_p:.3f}"


def _verdict(row: VariantFigures) -> str:
    if row.is_read is None:
        return UNDEFINED
    if row.is_placebo:
        return "moves: a bias" if row.is_read else "no, as it should"
    return "yes" if row.is_read else "no"
