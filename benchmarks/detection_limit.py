"""How little memory masks show: report of the study that comes with the package, and a check of it.

    python benchmarks/detection_limit.py [--write] [--check RUNS]

Without options it prints the report of `ktdeval_compare/doses/memory_doses.csv`. `--write` makes the table
of cards (`ktdeval/stats/memory_limits.csv`) and the plot of docs/detection.md again. `--check` runs
some of the study's runs anew, a minute each, and compares every episode with the shipped figure.
"""

from __future__ import annotations

import argparse
import csv
import io
import tempfile
from dataclasses import replace
from pathlib import Path

from ktdeval.errors import DataError
from ktdeval.registry import load_plugins
from ktdeval.stats import memory_limits
from ktdeval_compare.doses.dose_plot import dose_svg
from ktdeval_compare.doses.dose_response import (
    Premiums,
    dose_report,
    drawn_sizes,
    effect_sizes,
    effects_limit,
)
from ktdeval_compare.doses.dose_rows import HIDDEN, MEMORY, DoseStudy, shipped_study
from ktdeval_compare.doses.dose_study import DosePlan, run_units
from ktdeval_compare.doses.dose_texts import dose_parts
from ktdeval_compare.table_columns import lines_of

ROOT = Path(__file__).parents[1]
PLOT = ROOT / "docs" / "images" / "detection-limit.svg"
TABLE = Path(memory_limits.__file__).with_name("memory_limits.csv")
FAMILY = "ktdfin"
SHORTEST = 40
"""Trading days of the shortest window of the study."""
CARD_WINDOWS = range(6, 31)
LEVELS = (0.05, 0.8)
TOLERANCE = 1e-7
"""Of a return: the file keeps eight digits."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="make table and plot again")
    parser.add_argument("--check", type=int, default=0, metavar="RUNS", help="runs to repeat")
    options = parser.parse_args()
    study = shipped_study()
    if options.check:
        print(check(study, options.check))
        return

    report = dose_report(study, *LEVELS)
    print("\n".join(lines_of(dose_parts(report), 100)))
    if options.write:
        TABLE.write_text(card_table(study))
        plot = dose_svg(report)
        if plot is None:
            raise SystemExit("no plot: pip install '.[report]'")

        PLOT.write_bytes(plot)


def card_table(study: DoseStudy) -> str:
    """Limits by number of windows, as CSV; the limit never rises with the windows."""
    premiums = Premiums(study)
    test = premiums.test(LEVELS[0])
    sizes = effect_sizes({dose: premiums.at(dose) for dose in premiums.doses})
    drawn = drawn_sizes(premiums)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["family", "days", "windows", "effective", "limit", "low", "high"])
    for windows in CARD_WINDOWS:
        line = effects_limit(premiums, sizes, drawn, windows, LEVELS)
        shares = [
            "" if share is None else f"{share:.4g}" for share in (line.limit, line.low, line.high)
        ]
        effective = f"{test.effective(windows):.2f}"
        writer.writerow([FAMILY, SHORTEST, windows, effective, *shares])

    return text.getvalue()


def check(study: DoseStudy, runs: int) -> str:
    """Run the study's first runs anew. Raises DataError: an episode has another figure."""
    shipped = {replace(row, value=0.0): row.value for row in study.rows}
    units = [unit for unit in DosePlan().units() if unit.kind == MEMORY]
    # full memory first: it is in sight of every fact
    chosen = sorted(units, key=lambda unit: (-unit.dose, HIDDEN in unit.masks))[:runs]
    with tempfile.TemporaryDirectory() as folder:
        found = run_units(chosen, DosePlan().windows, Path(folder), load_plugins())

    for row in found:
        known = shipped[replace(row, value=0.0)]
        if abs(known - row.value) > TOLERANCE:
            raise DataError(f"{row}: the shipped figure is {known}")

    return f"{len(found)} episodes of {runs} runs have the shipped figures"


if __name__ == "__main__":
    main()
