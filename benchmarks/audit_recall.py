"""Recall and false alarms of `ktdeval audit`: the tables of docs/audit.md.

    PYTHONPATH=benchmarks python benchmarks/audit_recall.py [--write] [--only KIND]

Runs without a key on embedded markets give clean logs. Each is written in six formats. Recall: into
six decisions of a log each, one kind of leak is planted; a leak is found if its rule has a finding of
the level that it should have, on the decision that has the leak. False alarms: findings on the clean
logs, also with texts that look like leaks and are none. `--write` stores the figures in
benchmarks/audit_recall.csv, to which a test holds the page.
"""

from __future__ import annotations

import argparse
import csv
import io
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit_leaks import LEAKS, Leak, LeakPlace, with_benign, with_documents
from audit_logs import FORMATS, LoggedDecision, decisions_of, write_log

from ktdeval.market import MarketSnapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import open_snapshot
from ktdeval.stats import clopper_pearson_upper
from ktdeval.values import LEVELS
from ktdeval_audit.audit import AuditReport, AuditSettings, audit_log
from ktdeval_audit.findings import RULES, Rule
from ktdeval_audit.readers import read_log

TABLE = Path(__file__).with_name("audit_recall.csv")
COLUMNS = ("part", "name", "rule", "found", "of", "low", "high")
PLANTED = 6  #: decisions of a log that get a leak
LEVEL = 0.95

RUNS: dict[str, tuple[str, str, int]] = {
    "bright_open_research": ("synthetic", "builtin/momentum", 40),
    "bright_fixed_candidate": ("synthetic", "builtin/momentum", 30),
    "ama_tsla_bright": ("synthetic_arena", "builtin/momentum", 60),
    "ama_btc_bright": ("synthetic_arena", "builtin/momentum", 40),
    "deepfund_berkshire_bright": ("synthetic_deepfund", "builtin/momentum", 40),
    "market_bright": ("synthetic_us", "builtin/momentum", 30),
    "investorbench_msft_bright": ("synthetic_investorbench", "builtin/momentum", 40),
    "ama_tsla": ("synthetic_arena", "builtin/momentum", 40),
}
"""Market, model and steps of each task; the last is masked."""

SOURCE, MASKED_SOURCE = "ama_tsla_bright", "ama_tsla"


@dataclass(frozen=True)
class Row:
    """One line of the table: how many were found of how many."""

    part: str
    name: str
    rule: str
    found: int
    of: int

    @property
    def bounds(self) -> tuple[float, float]:
        """Exact interval of the share (Clopper-Pearson)."""
        half = 1.0 - (1.0 - LEVEL) / 2.0
        low = 1.0 - clopper_pearson_upper(self.of - self.found, self.of, half)
        return low, clopper_pearson_upper(self.found, self.of, half)


def make_run(folder: Path, task: str) -> Path:
    """Return the run folder of a task, made without a key."""
    data, model, steps = RUNS[task]
    path = folder / task
    if not path.exists():
        command = [sys.executable, "-m", "ktdeval", "run", "--model", model, "--tasks", task]
        command += ["--data", data, "--limit", str(steps), "--out", str(path)]
        subprocess.run(command, check=True, capture_output=True)
    return path


def markets() -> dict[str, MarketSnapshot]:
    """Return the embedded markets by name."""
    plugins = load_plugins()
    return {data: open_snapshot(plugins, data, {}) for data, _, _ in RUNS.values()}


def audited(
    path: Path, market: MarketSnapshot, masked: str = "", rules: tuple[Rule, ...] = tuple(RULES)
) -> AuditReport:
    """Return the report of a log."""
    settings = AuditSettings(masked=masked or None, rules=rules)  # type: ignore[arg-type]  # of a leak
    return audit_log(read_log(path), market, settings)


# ---- recall


def planted(
    leak: Leak, source: Sequence[LoggedDecision], market: MarketSnapshot
) -> list[LoggedDecision]:
    """Return decisions of a log, each with the leak."""
    step = max(1, len(source) // PLANTED)
    chosen = source[::step][:PLANTED]
    if leak.over_log:
        chosen = source[: 5 * PLANTED]
    return [leak.plant(LeakPlace(decision, market)) for decision in chosen]


def found_of(leak: Leak, report: AuditReport, decisions: int) -> tuple[int, int]:
    """Return how many of the leaks were found, and how many there are."""
    severe = LEVELS[: LEVELS.index(leak.least) + 1]
    hits = [
        finding
        for finding in report.findings
        if finding.rule == leak.rule and finding.level in severe
    ]
    if leak.over_log:
        return int(any(not finding.part for finding in hits)), 1
    return len({finding.part for finding in hits if finding.part}), decisions


def recall_rows(folder: Path, only: str | None) -> Iterator[Row]:
    """Yield the recall of each kind over all formats, and of each format over all kinds."""
    market = with_documents(markets()["synthetic_arena"])
    sources = {
        "": [*decisions_of(make_run(folder, SOURCE))],
        "masked": [_masked(each) for each in decisions_of(make_run(folder, MASKED_SOURCE))],
    }
    by_format = dict.fromkeys(FORMATS, (0, 0))
    for leak in LEAKS:
        if only and only not in leak.name:
            continue

        found = total = 0
        decisions = planted(leak, sources["masked" if leak.masked else ""], market)
        for kind in FORMATS:
            path = write_log(folder, kind, decisions)
            hits, of = found_of(
                leak, audited(path, market, leak.masked, (leak.rule,)), len(decisions)
            )
            found += hits
            total += of
            if not leak.is_hard:
                before = by_format[kind]
                by_format[kind] = (before[0] + hits, before[1] + of)

        part = "hard" if leak.is_hard else "recall"
        print(f"{leak.name}: {found} of {total}", file=sys.stderr, flush=True)
        yield Row(part, leak.name, leak.rule, found, total)

    for kind, (hits, of) in by_format.items():
        yield Row("format", kind, "", hits, of)


def _masked(decision: LoggedDecision) -> LoggedDecision:
    return LoggedDecision(
        name=decision.name,
        day=decision.day,
        model=decision.model,
        texts=decision.texts,
        names_day=False,
    )


# ---- false alarms


def alarm_rows(folder: Path) -> Iterator[Row]:
    """Yield decisions of clean logs with a false error, and with a false error or warning."""
    all_markets = markets()
    counts = {"error": 0, "error or warning": 0}
    total = 0
    for task, (data, _, _) in RUNS.items():
        source = decisions_of(make_run(folder, task))
        masked = "both" if task == MASKED_SOURCE else ""
        if masked:
            source = [_masked(each) for each in source]

        total += len(source)
        path = write_log(folder, "openai", source)
        _count(audited(path, all_markets[data], masked), counts)

    for name, number in counts.items():
        yield Row("clean", name, "", number, total)

    market = all_markets["synthetic_arena"]
    source = decisions_of(make_run(folder, SOURCE))
    decisions = [with_benign(LeakPlace(each, market), number) for number, each in enumerate(source)]
    counts = {"error": 0, "error or warning": 0}
    for kind in FORMATS:
        _count(audited(write_log(folder, kind, decisions), market), counts)
    for name, number in counts.items():
        yield Row("look-alikes", name, "", number, len(decisions) * len(FORMATS))


def _count(report: AuditReport, counts: dict[str, int]) -> None:
    errors = {(each.part, each.day) for each in report.findings if each.level == "error"}
    others = {(each.part, each.day) for each in report.findings if each.level == "warning"}
    counts["error"] += len(errors)
    counts["error or warning"] += len(errors | others)


def as_csv(rows: Sequence[Row]) -> str:
    """Return the table as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        low, high = row.bounds
        cells = [row.part, row.name, row.rule, row.found, row.of, f"{low:.4f}", f"{high:.4f}"]
        writer.writerow(cells)
    return text.getvalue()


def main() -> None:
    """Print the table, or store it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="store the table")
    parser.add_argument("--only", help="part of the name of the kinds to plant")
    parser.add_argument("--runs", type=Path, help="folder of runs that are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.runs or Path(temporary)
        rows = list(recall_rows(folder, options.only))
        if not options.only:
            rows += alarm_rows(folder)

    text = as_csv(rows)
    if options.write:
        TABLE.write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
