"""At what capital rules stop working on real prices. No speed.

    python benchmarks/capacity_curves.py --data shared/data [--keep FOLDER]

Each rule runs once under its task's own rules, and its decisions are executed again at each capital
with `--execution sqrt` (`ktdeval compare transplant`). Two markets: A-shares of the CSI300 over W1 to W10 of
`blinded_fixed_candidate`, and stocks of the NASDAQ-100 over four months of `market_blinded`, against
the fund QQQ. There, only rules that need no more than 20 days of history are run: data begin on
2025-06-02.

Spread and impact are in basis points of what was traded, both sides counted: the sum over fills of
their price against the day's open, over the sum of their notional in the ledgers. Takes about six
minutes. With `--keep` the runs and plots stay in FOLDER.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from ktdeval.cli.main import main as ktdeval
from ktdeval.runner import CapitalLine, TransplantFile, capital_folder, load_transplant
from ktdeval.runner.records.ledger_file import load_ledger

CAPITALS = "1e6,1e7,1e8,1e9,1e10"
RULES = ("equal_weight", "buy_and_hold", "random", "low_volatility", "momentum", "reversal")
_OF_A_MONTH = ("equal_weight", "buy_and_hold", "random", "reversal")
_MONTHS = "2025-07-01:2025-07-31,2025-08-01:2025-08-29,2025-09-02:2025-09-30,2025-10-01:2025-10-30"
BPS = 1e4


@dataclass(frozen=True)
class Study:
    """Rules on a market."""

    name: str
    market: Path  #: folder of the imported market
    task: str
    windows: str
    rules: tuple[str, ...]


@dataclass(frozen=True)
class Curve:
    """What became of a rule's decisions at each capital."""

    rule: str
    file: TransplantFile
    spread_and_impact: tuple[float | None, ...]  #: by capital, in bps of what was traded

    @property
    def lines(self) -> tuple[CapitalLine, ...]:
        """Figures by capital, ascending."""
        return self.file.lines


# ---- markets


def a_shares(data: Path, folder: Path) -> Path:
    """Import the CSI300, 2022 to 2026."""
    source = data / "a_share"
    out = folder / "a_share"
    silently(
        *("data", "make", "long", "--bars", source / "csi300_ever_daily.parquet"),
        *("--members", source / "csi300_members_by_rebalance.csv"),
        *("--benchmark", source / "index_daily.csv.gz"),
        *("--industry", source / "stock_industry.csv"),
        *("--map", "open=raw_open,high=raw_high,low=raw_low,close=raw_close", "--out", out),
    )
    return out


def us_stocks(data: Path, folder: Path) -> Path:
    """Import the NASDAQ-100 of June to October 2025, with the fund QQQ as its benchmark."""
    bars = data / "us_daily" / "nasdaq100_daily.csv.gz"
    stocks = folder / "stocks.csv"
    table = pd.read_csv(bars)
    table[table["code"] != "QQQ"].to_csv(stocks, index=False)
    splits = folder / "splits.csv"
    splits.write_text("code,date,ratio\nORLY,2025-06-10,15\n", encoding="utf-8")

    out = folder / "us_daily"
    silently(
        *("data", "make", "long", "--bars", stocks, "--venue", "us_equity", "--splits", splits),
        *("--benchmark", bars, "--benchmark-code", "QQQ", "--out", out),
    )
    return out


def studies(options: argparse.Namespace, folder: Path) -> Iterator[Study]:
    """Import each market that is asked for."""
    if "a_share" in options.markets:
        yield Study(
            name="A-shares (CSI300)",
            market=a_shares(options.data, folder),
            task="blinded_fixed_candidate",
            windows=options.windows or "W*",
            rules=RULES,
        )

    if "us_daily" in options.markets:
        yield Study(
            name="US stocks (NASDAQ-100)",
            market=us_stocks(options.data, folder),
            task="market_blinded",
            windows=options.windows or _MONTHS,
            rules=_OF_A_MONTH,
        )


# ---- curves


def curve(study: Study, rule: str, capitals: str, folder: Path) -> Curve:
    """Run a rule, and execute its decisions at each capital."""
    run = folder / f"{study.market.name}-{rule}"
    silently(
        *("--model", f"builtin/{rule}", "--tasks", study.task, "--windows", study.windows),
        *("--data", study.market, "--out", run),
    )
    out = folder / f"{run.name}-transplanted"
    silently("compare", "transplant", run, "--cash", capitals, "--execution", "sqrt", "--out", out)
    file = load_transplant(out)
    costs = tuple(spread_and_impact_bps(line, out) for line in file.lines)

    return Curve(rule=rule, file=file, spread_and_impact=costs)


def spread_and_impact_bps(line: CapitalLine, transplant: Path) -> float | None:
    """Return spread and impact in basis points of what was traded, both sides; None: nothing was.
    `transplant`: folder of the transplant, with the ledgers.
    """
    episodes = capital_folder(transplant, line.capital) / "episodes"
    traded_minor = 0
    capital_minor = 0
    for path in episodes.glob("*/ledger.parquet"):
        ledger = load_ledger(path)
        capital_minor += ledger.initial_cash_minor
        for step in ledger.steps:
            traded_minor += sum(order.notional_minor for order in step.fills)

    if not traded_minor:
        return None
    return BPS * line.costs.execution * capital_minor / traded_minor


# ---- tables


def print_study(study: Study, curves: Sequence[Curve]) -> None:
    """Print a table of each figure: a rule a row, a capital a column."""
    lines = curves[0].lines
    print(f"\n{study.name}: `{study.task}`, {lines[0].episodes} windows, {lines[0].currency}")
    heads = [f"{line.capital:.0e}".replace("e+", "e").replace("e0", "e") for line in lines]

    _print_table("turnover a year, two-way", heads, curves, _turnovers)
    _print_table("filled, % of what was asked for", heads, curves, _filled)
    _print_table("spread and impact, bps of what was traded", heads, curves, _costs)
    _print_table("excess over the benchmark, % a window", heads, curves, _excess)
    _print_table("selection net of costs, % a window", heads, curves, _net_selection)
    for each in curves:
        for words in each.file.break_even_words(study.task):
            print(f"{each.rule}: {words}")


def _print_table(
    title: str, heads: Sequence[str], curves: Sequence[Curve], cells: Callable[[Curve], list[str]]
) -> None:
    print(f"\n| {title} | " + " | ".join(heads) + " |")
    print("|---" * (len(heads) + 1) + "|")
    for each in curves:
        print(f"| {each.rule} | " + " | ".join(cells(each)) + " |")


def _turnovers(of: Curve) -> list[str]:
    return [_number(line.turnover.value, 1.0, ".1f") for line in of.lines]


def _filled(of: Curve) -> list[str]:
    return [_number(line.filled_share, 100.0, ".1f") for line in of.lines]


def _costs(of: Curve) -> list[str]:
    return [_number(cost, 1.0, ".1f") for cost in of.spread_and_impact]


def _excess(of: Curve) -> list[str]:
    return [_number(line.excess_return.value, 100.0, "+.2f") for line in of.lines]


def _net_selection(of: Curve) -> list[str]:
    return [_number(line.net_selection.value, 100.0, "+.2f") for line in of.lines]


def _number(value: float | None, scale: float, form: str) -> str:
    if value is None:
        return "–"
    return format(scale * value, form)


# ---- command


def silently(*words: object) -> None:
    """Run a command of ktdeval; raise SystemExit with what it printed if it fails."""
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        status = ktdeval([str(word) for word in words])

    if status:
        raise SystemExit(printed.getvalue())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("shared/data"))
    parser.add_argument("--markets", default="a_share,us_daily")
    parser.add_argument("--rules", default="", help="default: all of a market")
    parser.add_argument("--windows", default="", help="default: W1 to W10, and four months")
    parser.add_argument("--cash", default=CAPITALS)
    parser.add_argument("--keep", type=Path, help="new folder for the runs and plots")
    options = parser.parse_args(arguments)
    options.data = options.data.resolve()

    with TemporaryDirectory(prefix="capacity-curves-") as temporary:
        folder = Path(temporary)
        if options.keep is not None:
            folder = options.keep
            folder.mkdir(parents=True)

        for study in studies(options, folder):
            rules = [
                rule
                for rule in study.rules
                if not options.rules or rule in options.rules.split(",")
            ]
            print_study(study, [curve(study, rule, options.cash, folder) for rule in rules])


if __name__ == "__main__":
    main()
