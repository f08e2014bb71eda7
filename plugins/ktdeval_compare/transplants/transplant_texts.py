"""Figures of a transplant as aligned plain-text tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktdeval.cards import percent
from ktdeval.runner import CapitalLine, TransplantFile
from ktdeval_compare.table_columns import (
    Part,
    make_table,
)


def transplant_parts(file: TransplantFile) -> Iterator[Part]:
    """Yield the parts of a transplant's text."""
    yield (
        f"Transplanted: the decisions of {file.model} ({file.run}), executed again without the"
        " model"
    )
    tasks = list(dict.fromkeys(line.task for line in file.lines))
    for task in tasks:
        lines = [line for line in file.lines if line.task == task]
        yield ""
        yield f"{task}: {execution_words(file, task)}"
        yield "  means over windows in %, net of costs; costs in % of the first capital"
        yield make_table("capitals", lines, cells={"other states": _states})
        yield from (f"  {words}" for words in _missing(lines))
        yield from (f"  {words}" for words in file.break_even_words(task))

    if file.notes:
        yield ""
        yield from (f"  {note}" for note in file.notes)


def _missing(lines: Sequence[CapitalLine]) -> Iterator[str]:
    """Yield the reasons why figures are missing, and what they assume of holdings without a bar."""
    for line in lines:
        if line.withheld is not None:
            yield f"{line.capital:,}: {line.withheld}"
        if line.stale is not None:
            yield f"{line.capital:,}: {line.stale.words}"

    yearly = [line.annualised_return for line in lines if line.withheld is None]
    reasons = [line.reason for line in yearly if line.value is None]
    yield from (f"a year: {reason}" for reason in dict.fromkeys(reasons))


def execution_words(file: TransplantFile, task: str) -> str:
    """Return a description of the costs of fills that are charged in addition to the venue's
    fees.
    """
    execution = file.execution.get(task)
    if execution is None:
        return "execution is the venue's own; its cost does not depend on size unless stated"

    shown = []
    for name, value in sorted(execution.items()):
        if name != "name" and value is not None:
            shown.append(f"{name} {value}")

    return f"execution {execution.get('name', 'own')} ({', '.join(shown)})"


def _states(row: CapitalLine) -> str:
    states = row.other_states
    if states.first_step is None:
        return "none"
    return f"{percent(states.share, '.0f')} from step {states.first_step}"
