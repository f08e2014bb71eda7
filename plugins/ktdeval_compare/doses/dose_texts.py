"""Detection limits for memory as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ktdeval.cards import count, percent, points
from ktdeval_compare.doses.dose_response import (
    AlarmLine,
    CurveLine,
    DoseLine,
    DoseReport,
    LimitLine,
    MemoryPower,
)
from ktdeval_compare.table_columns import (
    Part,
    ReportColumn,
    format_column,
    grid,
    interval_head,
    make_table,
    text,
)

_FRACTION = "fraction"


def short_percent(share: float) -> str:
    """Return a share in per cent with two significant digits, such as `0.35 %`."""
    return percent(share, ".0f" if 100 * share >= 10 else ".2g")


def dose_parts(report: DoseReport) -> Iterator[Part]:
    """Yield the parts of the `compare masks --dose-response` report."""
    yield "Memory premium: return with visible labels minus return under the mask, per window"
    yield make_table(
        "doses",
        report.doses,
        report.alpha,
        cells={"facts": lambda row: short_percent(row.dose), "found": _describe_finding},
    )
    yield (
        "  found: seeds whose own test over all windows is significant and positive; power: by the"
        " model of `ktdeval compare power`; both allow for the days that windows share"
    )
    yield (
        f"  under the mask, two doses differ by at most {short_percent(report.hidden_spread)} in a window"
    )

    yield ""
    yield (
        f"Smallest memory that is detected with probability {report.wanted:g}, level "
        f"{report.alpha:g}"
    )
    yield grid(
        report.limits,
        text("detector"),
        ReportColumn("with", lambda row: f"{row.count} {row.unit}", is_left=True),
        ReportColumn("share of facts", limit_text),
        ReportColumn(interval_head(report.alpha), limit_interval),
    )
    yield (
        "  probes: a memory of figures names stock and day of the facts that it remembers, and guesses"
        " nothing; seen: more hits than a guesser's"
    )

    yield ""
    yield alarm_text(report.false_alarms)
    if report.curves:
        yield ""
        yield "How well a study is distinguished from one of a control that knows nothing"
        yield grid(
            report.curves,
            ReportColumn("facts", lambda row: short_percent(row.dose)),
            text("windows", is_left=False),
            format_column("AUC", "auc", "{:.3f}"),
            ReportColumn(
                interval_head(report.alpha), lambda row: f"{row.low:.3f} … {row.high:.3f}"
            ),
            ReportColumn("seen at 5 % false alarms", _describe_seen),
        )

    for note in report.notes:
        yield f"  {note}"


def _describe_finding(row: DoseLine) -> str:
    return f"{row.found} of {row.seeds}"


def _describe_seen(row: CurveLine) -> str:
    place = row.false_rates.index(0.05)
    return percent(row.true_rates[place], ".0f")


def limit_text(row: LimitLine) -> str:
    """Return a limit as text: `0.35 %`, `below 0.1 %`, or the reason why it is undefined."""
    if row.limit is None:
        return f"none: {row.reason}"

    text_of = short_percent(row.limit)
    return f"below {text_of}" if row.is_below else text_of


def limit_interval(row: LimitLine) -> str:
    """Return the interval of a limit; may be empty."""
    if row.low is None:
        return ""

    high = "more than all" if row.high is None else short_percent(row.high)
    return f"{short_percent(row.low)} … {high}"


def alarm_text(row: AlarmLine) -> str:
    """Return a sentence on false alarms."""
    if row.value is None or row.low is None or row.high is None:
        return f"False alarms: unknown, {row.reason}"

    return (
        f"False alarms: {row.alarms} of {row.studies} studies of a control that knows nothing"
        f" ({percent(row.value)}, exact interval {points(row.low, '.1f')} … {percent(row.high)})"
    )


def memory_parts(report: MemoryPower, origin: Mapping[str, str]) -> Iterator[Part]:
    """Yield the parts of the `compare power --memory` report."""
    yield (
        f"A memory of {short_percent(report.memory)} of the facts,"
        f" {count(report.windows, 'window')}, level"
        f" {report.alpha:g}: seen with probability {report.power:.2f} (interval {report.low:.2f} …"
        f" {report.high:.2f})"
    )
    yield (
        f"  windows share days as W1 to W10 do: {report.windows} overlapping windows ="
        f" {report.effective_windows:.1f} effective windows"
    )
    limit = report.limit
    if limit.limit is None:
        yield f"  smallest memory that is seen with probability {report.wanted:g}: {limit_text(limit)}"
    else:
        ends = limit_interval(limit)
        yield (
            f"  smallest memory that is seen with probability {report.wanted:g}:"
            f" {limit_text(limit)} of the facts (interval {ends})"
        )

    yield make_table("probes", report.probes, cells={"see, of the facts": limit_text})
    yield (
        f"  from {origin['command']} of {origin['date']} on {origin['market']}, task"
        f" {origin['task']}: this kind of memory, on this market, of a model without chance of its"
        " own; docs/detection.md"
    )
