"""History of the benchmarks: one report a line in `history.jsonl`, and a page of it in Markdown."""

from __future__ import annotations

from pathlib import Path

from figures import Figure, Report

from ktdeval.values import decode_json, dumps_pretty, encode_canonical, json_schema

HERE = Path(__file__).resolve().parent
HISTORY = HERE / "history.jsonl"
PAGE = HERE / "history.md"
SCHEMA = HERE / "report.schema.json"
_SHOWN = 6  #: runs that a table shows, the latest first

_INTRODUCTION = """\
# Benchmarks: the latest runs

`make benchmarks` appends a run and writes this page. A figure is a ratio beside its peer in the same
run, or an exponent. A ratio is the median of pairs, one side right after the other, with the least
and largest of them, then ours and the peer's. Compare a column with another only where machine and
load are alike. **Bold** figures miss their bar; – was not measured.
"""


def append(report: Report, history: Path = HISTORY) -> None:
    """Keep a report."""
    with history.open("ab") as stream:
        stream.write(encode_canonical(report).encode() + b"\n")


def read(history: Path = HISTORY) -> list[Report]:
    """Return all reports, the oldest first. Raises StoreError: a line is none."""
    if not history.exists():
        return []

    lines = history.read_bytes().splitlines()
    return [
        decode_json(line, Report, f"{history.name}: line {number}")
        for number, line in enumerate(lines, start=1)
    ]


def page(reports: list[Report]) -> str:
    """Return the page of the latest runs, in Markdown."""
    shown = reports[: -_SHOWN - 1 : -1]
    parts = [_INTRODUCTION]
    if not shown:
        return "\n".join([*parts, "No run is kept yet.", ""])

    parts += [_runs(shown), _figures(shown)]
    latest = shown[0]
    parts += ["How the latest run measured:", ""]
    parts += [f"* {figure.name}: {figure.note}" for figure in latest.figures if figure.note]
    return "\n".join([*parts, ""])


def _runs(shown: list[Report]) -> str:
    rows = [
        "| run | revision | scale | machine | load before, after | Python |",
        "|---|---|---|---|---|---|",
    ]
    for report in shown:
        machine = report.machine
        place = f"{machine.processor}, {machine.cores} cores, {machine.memory_gib:g} GiB"
        load = f"{machine.load_before:g}, {machine.load_after:g}"
        rows.append(
            f"| {report.at} | {report.revision} | {report.scale} | {place} | {load} |"
            f" {machine.python} |"
        )

    return "\n".join([*rows, ""])


def _figures(shown: list[Report]) -> str:
    """A row for each figure of any run, in the order in which they first appear."""
    latest: dict[str, Figure] = {}
    for report in shown:
        for figure in report.figures:
            latest.setdefault(figure.name, figure)

    heads = " | ".join(report.at[:10] for report in shown)
    rows = [f"| figure | beside | bar | {heads} |", "|---|---|---|" + "---|" * len(shown)]
    for name, figure in latest.items():
        cells = " | ".join(_cell(report, name) for report in shown)
        rows.append(f"| {name} | {figure.peer_name or '–'} | {_bar(figure)} | {cells} |")

    return "\n".join([*rows, ""])


def _bar(figure: Figure) -> str:
    if figure.bar is None:
        return "–"
    sign = "≥" if figure.direction == "at_least" else "≤"
    return f"{sign} {figure.bar:g}"


def _cell(report: Report, name: str) -> str:
    for figure in report.figures:
        if figure.name == name and figure.ratio is not None:
            text = f"{figure.ratio:.2f}"
            if figure.peer is not None:
                text += " ×"
            if figure.spread is not None:
                low, high = figure.spread
                text += f" ({low:.2f} to {high:.2f})"
            if figure.peer is not None:
                text += f"; {figure.ours:.3g} / {figure.peer:.3g} {figure.unit}"
            if figure.holds is False:
                text = f"**{text}**"
            return text

    return "–"


def write_page() -> None:
    """Write the page of the kept runs."""
    PAGE.write_text(page(read()), encoding="utf-8")


def schema() -> str:
    """Return the JSON Schema of a report."""
    return dumps_pretty(json_schema(Report, "urn:ktdeval:benchmarks:1", "Report of the benchmarks"))


def write_schema() -> None:
    """Write the schema of a report."""
    SCHEMA.write_text(schema(), encoding="utf-8")
