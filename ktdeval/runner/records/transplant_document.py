"""Folder of a transplant: figures, ledgers and cards for a run's decisions with different capital.

    OUT/transplant.json                          all figures, and their sources
    OUT/curve.svg                                the same as a plot, if vl-convert is installed
    OUT/at/<capital>/cards/<task>.json           card of a task with this capital, never ranked
    OUT/at/<capital>/episodes/<id>/ledger.parquet

The cards are validated like any other card; `transplant.json` is for display only.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.cards.table_types import UNDEFINED, count
from ktdeval.errors import UsageError
from ktdeval.runner.records.result_documents import load_result
from ktdeval.runner.records.run_file_names import MANIFEST
from ktdeval.trading.stale_values import StaleHoldings
from ktdeval.values.documents.format_versions import format_version
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.documents.typed_json import Value
from ktdeval.values.hashes import file_sha256

FORMAT = "transplant"
TRANSPLANT_VERSION = format_version(FORMAT)
TRANSPLANT = "transplant.json"
MIN_FILLED = 0.8
"""Minimum filled fraction of the requested notional. Below this fraction, too few decisions could
be executed for returns to describe them.
"""
_SUFFIX = "-transplanted"
_MEASURE_WORDS = {
    "excess_return": "excess over the benchmark",
    "net_selection": "selection net of costs",
}


class MeanLine(Value):
    """Mean over windows of each window's mean over its seeds, with its 95 % interval."""

    value: float | None
    low: float | None
    high: float | None
    windows: int  #: number of windows that have the figure
    reason: str | None  #: why the value or its interval is missing


class CostsLine(Value):
    """Costs as fractions of the initial capital; means over episodes."""

    commission: float
    duties: float  #: stamp duties, transfer fees and the like
    execution: float  #: spread and impact: fill prices against the day's prices
    financing: float  #: interest on shorts


class OtherStates(Value):
    """Steps at which the model would have seen a different state."""

    first_step: int | None  #: earliest such step of any episode; null: none
    share: float  #: fraction of all steps


class CapitalLine(Value):
    """Figures for a task's decisions with one capital. Returns are net of all costs, and withheld
    if less than `MIN_FILLED` of the requested notional was filled.
    """

    task: str
    capital: int  #: initial cash, in units of `currency`
    currency: str
    episodes: int
    total_return: MeanLine
    annualised_return: MeanLine  #: only from windows of a year or more
    excess_return: MeanLine  #: in excess of the benchmark
    selection_alpha: MeanLine
    net_selection: MeanLine  #: selection plus trading effect, i.e. net of fills and fees
    turnover: MeanLine  #: per year, two-way
    #: fraction of the requested notional that was filled, at the day's prices; null: no orders
    filled_share: float | None
    withheld: str | None  #: why returns are withheld
    costs: CostsLine
    other_states: OtherStates
    #: holdings without a bar at the last close, of the episode with most; null: none, or not
    #: recorded
    stale: StaleHoldings | None = None


class BreakEven(Value):
    """Capital at which a mean over windows falls to zero, by interpolation on the logarithm of the
    capital.
    """

    task: str
    measure: str  #: `excess_return` or `net_selection`
    capital: float | None
    #: 95 % interval: capitals at which the ends of the mean's interval fall to zero; null: outside
    #: the capitals tried
    low: float | None
    high: float | None
    windows: int
    reason: str | None  #: why the capital or its interval is missing

    def words(self, currency: str) -> str:
        """Return a sentence that reports the break-even capital."""
        name = _MEASURE_WORDS.get(self.measure, self.measure)
        over = f"over {count(self.windows, 'window')}"
        if self.capital is None:
            return f"break-even by {name}: {UNDEFINED} ({self.reason}; {over})"

        sentence = f"break-even by {name}: {currency} {self.capital:,.0f}"
        if self.low is None and self.high is None:
            why = self.reason or "both ends of its interval lie outside the capitals tried"
            return f"{sentence} ({why}; {over})"

        low = "below all" if self.low is None else f"{self.low:,.0f}"
        high = "above all" if self.high is None else f"{self.high:,.0f}"
        return f"{sentence} (95 % interval {low} … {high}, {over})"


class TransplantFile(Value):
    """Result of `ktdeval compare transplant` (`transplant.json`)."""

    version: int
    run: str  #: name of the run's folder
    manifest_sha256: str  #: hash of the run's manifest.json, which identifies the run
    model: str
    agent: str
    own_capital: dict[str, int]  #: initial cash of the run, by task
    #: coefficients of execution by task; null: the venue's own (none, unless it has some)
    execution: dict[str, dict[str, JsonValue] | None]
    own_execution: dict[str, dict[str, JsonValue] | None]  #: coefficients of the run
    weight_tolerance: float  #: maximum difference in a weight at which a state counts as the same
    lines: tuple[CapitalLine, ...]
    break_even: tuple[BreakEven, ...]
    notes: tuple[str, ...]

    def break_even_words(self, task: str) -> list[str]:
        """Return one sentence per measure about a task's break-even capital."""
        currency = next((line.currency for line in self.lines if line.task == task), "")
        return [found.words(currency) for found in self.break_even if found.task == task]


def capital_folder(folder: Path, capital: int) -> Path:
    """Return the subfolder for one capital in a transplant's folder."""
    return folder / "at" / str(capital)


def transplant_beside(run: Path) -> Path:
    """Return the default folder of a run's transplant."""
    run = run.resolve()
    return run.with_name(f"{run.name}{_SUFFIX}")


def load_transplant(folder: Path) -> TransplantFile:
    """Read a transplant's `transplant.json`. Raises StoreError if it is missing or unreadable."""
    return load_result(folder, TRANSPLANT, TransplantFile, FORMAT, "compare transplant")


def known_transplant(run: Path) -> TransplantFile | None:
    """Return the transplant stored next to a run; None if it is missing or belongs to another
    run.
    """
    folder = transplant_beside(run)
    if not (folder / TRANSPLANT).exists():
        return None

    file = load_transplant(folder)
    return file if file.manifest_sha256 == file_sha256(run / MANIFEST) else None


def transplanted_at(path: Path, capital: int) -> Path:
    """Return the folder with the cards for one capital. `path`: a transplant, or a run that has a
    transplant next to it.

    Raises UsageError if cards for this capital are missing, or if its figures are withheld.
    """
    folder = path
    if not (path / TRANSPLANT).exists():
        folder = transplant_beside(path)

    found = capital_folder(folder, capital)
    if found.is_dir():
        for line in load_transplant(folder).lines:
            if line.capital == capital and line.withheld is not None:
                raise UsageError(
                    f"{path}: {line.task} at {capital:,}: {line.withheld}; name another capital"
                )

        return found

    tried = sorted(int(each.name) for each in folder.glob("at/*") if each.name.isdigit())
    has = f"it has {', '.join(f'{each:,}' for each in tried)}" if tried else "it has none"
    raise UsageError(
        f"{path}: no transplant at {capital:,} ({has}); create one with"
        f" `ktdeval compare transplant RUN --cash {capital}`"
    )
