"""Report as text, CSV and LaTeX: one row an entrant."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from ktdeval.values import without_formula
from ktdeval_published.report import BoardReport, EntrantReport, IntervalEstimate
from ktdeval_published.words import NONE, money, number, percent

HEADS = (
    "entrant",
    "declared",
    "executed",
    "Sharpe, declared",
    "Sharpe, executed",
    "95 % interval",
    "PSR",
    "before",
    "after",
    "unknown",
    "break-even, bp",
)


def table_rows(report: BoardReport) -> list[tuple[str, ...]]:
    """Return the rows of a board's table; an entrant that can't be read has its reason."""
    return [_row(one) for one in report.entrants]


def _row(one: EntrantReport) -> tuple[str, ...]:
    if one.problem:
        return (one.name, one.problem, *([""] * (len(HEADS) - 2)))

    declared = IntervalEstimate() if one.declared is None else one.declared.sharpe
    executed = declared if one.executed is None else one.executed.sharpe
    live = ("", "", "")
    if one.live is not None:
        live = (str(one.live.before), str(one.live.after), str(one.live.unknown))
    even = one.costs[0].breakeven_bps if one.costs else None
    return (
        one.name,
        result_text(one, "declared"),
        result_text(one, "executed"),
        number(declared.value),
        number(None if one.executed is None else executed.value),
        interval_text(executed),
        number(one.luck.psr),
        *live,
        number(even, 1),
    )


def result_text(one: EntrantReport, which: str) -> str:
    """Return a result: a return in per cent, or without a capital a gain."""
    track = getattr(one, which)
    if track is None:
        return NONE
    if track.total_return is not None:
        return percent(track.total_return, signed=True)
    return money(track.gain, signed=True)


def interval_text(estimate: IntervalEstimate) -> str:
    """Return an interval, or a dash."""
    if estimate.low is None or estimate.high is None:
        return NONE
    return f"{estimate.low:.2f} to {estimate.high:.2f}"


def head_lines(report: BoardReport) -> list[str]:
    """Return the lines above the table."""
    figure = f" ({report.claim_figure})" if report.claim_figure else ""
    return [
        f"{report.title} · {report.period}",
        f"{report.repository} @ {report.commit} · {report.licence} · commit {report.commit_state}:"
        f" {report.commit_note}",
        "",
        report.sentence,
        "",
        f"claim    {report.claim}{figure} [{report.claim_where}]",
        f"fills    {report.fill_rule}",
    ]


def further_lines(report: BoardReport) -> list[str]:
    """Return the lines below the table: what was found, and what does not follow."""
    lines = ["", "Found"]
    lines += [f"  {text}" for text in report.findings]
    lines += ["", "Does not follow"]
    lines += [f"  {text}" for text in report.limits]
    lines += ["", "How the authors could close it"]
    return [*lines, *(f"  {text}" for text in report.close_gap)]


CSV_HEADS = (
    "board", "entrant", "arm", "problem", "currency", "declared_gain", "declared_return",
    "declared_sharpe", "executed_gain", "executed_return", "executed_sharpe", "sharpe_low",
    "sharpe_high", "unrepaired_gain", "unrepaired_sharpe", "residual", "rank_declared",
    "rank_executed", "days", "days_before", "days_after", "days_unknown", "psr", "dsr",
    "p_index_holm", "p_holding_holm", "p_random_holm", "breakeven_bps", "capacity", "clean_days",
    "likely_days", "logs", "logs_with_later_days", "logs_with_later_documents",
)  # fmt: skip


def csv_text(reports: Sequence[BoardReport]) -> str:
    """Return all entrants of boards as CSV."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(CSV_HEADS)
    for report in reports:
        for one in report.entrants:
            writer.writerow([_cell(value) for value in _csv_values(report, one)])
        for cell in report.cells:
            values: list[object] = [""] * len(CSV_HEADS)
            values[:3] = [report.name, cell.name, "difference to holding"]
            values[9], values[11], values[12] = cell.mean.value, cell.mean.low, cell.mean.high
            values[10] = ""
            writer.writerow([_cell(value) for value in values])
    return output.getvalue()


def _cell(value: object) -> object:
    return without_formula(value) if isinstance(value, str) else value


def _csv_values(report: BoardReport, one: EntrantReport) -> list[object]:
    declared, executed, raw = one.declared, one.executed, one.unrepaired
    track = executed or declared
    live, luck, logs, cutoff = one.live, one.luck, one.logs, one.cutoff
    return [
        report.name, one.name, one.arm, one.problem, report.currency,
        declared and declared.gain, declared and declared.total_return,
        declared and declared.sharpe.value,
        executed and executed.gain, executed and executed.total_return,
        executed and executed.sharpe.value,
        track and track.sharpe.low, track and track.sharpe.high,
        raw and raw.gain, raw and raw.sharpe.value,
        one.residual, one.rank_declared, one.rank_executed,
        track and track.days,
        live and live.before, live and live.after, live and live.unknown,
        luck.psr, luck.dsr, luck.p_index_holm, luck.p_holding_holm, luck.p_random_holm,
        one.costs[0].breakeven_bps if one.costs else None, one.capacity,
        cutoff and cutoff.clean, cutoff and cutoff.likely,
        logs and logs.logs, logs and logs.with_later, logs and logs.with_dated,
    ]  # fmt: skip


def latex_text(reports: Sequence[BoardReport]) -> str:
    """Return a LaTeX table of boards."""
    heads = ("entrant", "declared", "executed", "Sharpe", "95\\% interval", "before/after/unknown")
    lines = [
        "\\begin{tabular}{lrrrrr}",
        "\\toprule",
        " & ".join(heads) + " \\\\",
    ]
    for report in reports:
        lines += ["\\midrule", f"\\multicolumn{{6}}{{l}}{{{_tex(report.title)}}} \\\\"]
        for one in report.entrants:
            if one.problem:
                lines.append(f"{_tex(one.name)} & \\multicolumn{{5}}{{l}}{{not readable}} \\\\")
                continue
            row = _row(one)
            sharpe = row[4] if row[4] != NONE else row[3]
            cells = (row[0], row[1], row[2], sharpe, row[5], "/".join(row[7:10]))
            lines.append(" & ".join(map(_tex, cells)) + " \\\\")
        for cell in report.cells:
            cells = (cell.name, NONE, percent(cell.mean.value, signed=True), NONE,
                     f"{percent(cell.mean.low)} to {percent(cell.mean.high)}", NONE)  # fmt: skip
            lines.append(" & ".join(map(_tex, cells)) + " \\\\")
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])


def _tex(text: str) -> str:
    for character in "\\&%$#_{}":
        text = text.replace(
            character, "\\textbackslash{}" if character == "\\" else f"\\{character}"
        )
    return text.replace(NONE, "--").replace("+", "$+$")
