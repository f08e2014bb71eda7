"""Figures of a transplant as tables of aligned plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktdeval.runner import CapitalLine, MeanLine, TransplantFile
from ktdeval_compare.table_columns import UNDEFINED, Part, ReportColumn, both, figure, grid


def transplant_parts(file: TransplantFile) -> Iterator[Part]:
    """Parts of the text of a transplant."""
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
        yield grid(
            lines,
            ReportColumn("capital", lambda row: f"{row.capital:,}"),
            ReportColumn("return", lambda row: figure(row.total_return.value, "fraction")),
            ReportColumn("a year", lambda row: figure(row.annualised_return.value, "fraction")),
            _mean("excess [95 %]", "excess_return"),
            ReportColumn("selection", lambda row: figure(row.selection_alpha.value, "fraction")),
            _mean("net selection [95 %]", "net_selection"),
            ReportColumn("turnover", lambda row: _plain(row.turnover)),
            ReportColumn("filled", lambda row: _share(row.filled_share)),
            _cost("commission"),
            _cost("duties"),
            _cost("spread+impact", "execution"),
            _cost("financing"),
            ReportColumn("other states", _states),
        )
        yield from (f"  {words}" for words in _missing(lines))
        yield from (f"  {words}" for words in file.break_even_words(task))

    if file.notes:
        yield ""
        yield from (f"  {note}" for note in file.notes)


def _missing(lines: Sequence[CapitalLine]) -> Iterator[str]:
    """Yield why figures are not there."""
    for line in lines:
        if line.withheld is not None:
            yield f"{line.capital:,}: {line.withheld}"

    yearly = [line.annualised_return for line in lines if line.withheld is None]
    reasons = [line.reason for line in yearly if line.value is None]
    yield from (f"a year: {reason}" for reason in dict.fromkeys(reasons))


def execution_words(file: TransplantFile, task: str) -> str:
    """Return what fills cost beyond the venue's fees."""
    execution = file.execution.get(task)
    if execution is None:
        return "execution is the venue's own: free of size unless it says so"

    shown = []
    for name, value in sorted(execution.items()):
        if name != "name" and value is not None:
            shown.append(f"{name} {value}")

    return f"execution {execution.get('name', 'own')} ({', '.join(shown)})"


def _mean(head: str, name: str) -> ReportColumn[CapitalLine]:
    def cell(row: CapitalLine) -> str:
        line: MeanLine = getattr(row, name)
        shown = figure(line.value, "fraction")
        if line.low is None:
            return shown
        return f"{shown} [{both(line.low, line.high, 'fraction')}]"

    return ReportColumn(head, cell)


def _plain(line: MeanLine) -> str:
    return UNDEFINED if line.value is None else f"{line.value:.2f}"


def _share(value: float | None) -> str:
    return UNDEFINED if value is None else f"{100 * value:.1f} %"


def _cost(head: str, name: str = "") -> ReportColumn[CapitalLine]:
    return ReportColumn(head, lambda row: f"{100 * getattr(row.costs, name or head):.3f}")


def _states(row: CapitalLine) -> str:
    states = row.other_states
    if states.first_step is None:
        return "none"
    return f"{100 * states.share:.0f} % from step {states.first_step}"
