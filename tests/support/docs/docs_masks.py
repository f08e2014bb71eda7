"""What each masked task gives away: rows of docs/masks.md, from the files that benchmarks keep."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean

from scipy import stats

from support.docs.docs_markdown import code, table
from support.paths import REPOSITORY

FAMILIES = REPOSITORY / "benchmarks/informed_families.csv"
KTDFIN = REPOSITORY / "benchmarks/informed_returns.csv"
HEADER = (
    "task",
    "market",
    "day found",
    "the holder, at least",
    "foresight, at most",
    "`builtin/first_listed`",
    "`builtin/random`",
)
#: Tasks of the families' file with other prices to look up, or other rules, than the ones before
SHOWN = (
    "market_blinded",
    "market_blinded, rebased, three digits",
    "market_news_blinded",
    "market_minutes_blinded",
    "investorbench_msft",
    "investorbench_msft, the paper's whole window",
    "investorbench_msft_stock_blind",
    "investorbench_msft_date_blind",
    "investorbench_jnj",
    "investorbench_jnj, the paper's whole window",
    "investorbench_btc",
    "investorbench_btc, the paper's whole window",
    "investorbench_portfolio",
    "investorbench_portfolio_equal",
    "ama_tsla",
    "ama_tsla_long",
    "ama_tsla_pyramid",
    "ama_tsla, the paper's whole window",
    "ama_btc",
    "ama_btc, the paper's whole window",
    "ama_eth",
    "ama_eth, the paper's whole window",
    "deepfund_berkshire, with AAPL, AMZN, COST, NVDA, PEP",
    "deepfund_berkshire",
    "deepfund_oil",
    "views_blinded",
)

Row = Mapping[str, str]
Cells = tuple[str, ...]


def read_rows(path: object) -> list[Row]:
    """Return all rows of a benchmark's file; none where it is not written yet."""
    file = REPOSITORY / str(path)
    if not file.is_file():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def gives_away_table() -> str:
    """Return what a holder of the price history earns, by family, mask and mode."""
    return table(HEADER, [*_ktdfin_cells(), *_family_cells()])


def _ktdfin_cells() -> Iterator[Cells]:
    """Yield the tasks of KTD-Fin, in the order of their file."""
    returns: dict[str, dict[str, list[float]]] = {}
    found: dict[tuple[str, str], str] = {}
    for row in read_rows(KTDFIN):
        by_trader = returns.setdefault(row["task"], {})
        by_trader.setdefault(row["trader"], []).append(float(row["return_pct"]))
        found[row["task"], row["trader"]] = row["day_found"]

    for task, by_trader in returns.items():
        informed = [trader for trader in by_trader if "informed" in trader]
        best = max(informed, key=lambda trader: mean(by_trader[trader]))
        yield (
            code(task),
            "CSI 300",
            _day_found(task, found[task, best]),
            _of_returns(by_trader[best]),
            percent(mean(by_trader["perfect foresight"])),
            _of_returns(by_trader["builtin/first_listed"]),
            _of_returns(by_trader["builtin/random"]),
        )


def _family_cells() -> Iterator[Cells]:
    """Yield the tasks of the other families that are shown."""
    by_task: dict[str, dict[tuple[str, str], Row]] = {}
    for row in read_rows(FAMILIES):
        by_task.setdefault(row["task"], {})[row["market"], row["trader"]] = row

    for name in SHOWN:
        task, _, variant = name.partition(", ")
        rows = by_task[name]
        for market in dict.fromkeys(market for market, _ in rows):
            informed = rows[market, "informed"]
            found = f"{informed['days_found']} of {informed['episodes']}"
            yield (
                f"{code(task)}, {variant}" if variant else code(task),
                f"generated, {code(market)}" if market.startswith("synthetic") else market,
                _day_found(name, f"{found}, by step {informed['latest_step']}"),
                _of_row(informed),
                percent(float(informed["at_most_pct"])),
                _of_row(rows[market, "builtin/first_listed"]),
                _of_row(rows[market, "builtin/random"]),
            )


def _day_found(task: str, found: str) -> str:
    """Return in how many episodes the day was found, unless the task shows it."""
    return "shown" if "stock_blind" in task else found or "not found"


def _of_returns(returns: Sequence[float]) -> str:
    """Return a mean with Student's 95 % interval, in per cent."""
    center = mean(returns)
    half = stats.t.ppf(0.975, len(returns) - 1) * stats.sem(returns)
    return percent(center, float(center - half), float(center + half))


def _of_row(row: Row) -> str:
    bounds = [float(row[name]) for name in ("low_pct", "high_pct") if row[name]]
    return percent(float(row["mean_pct"]), *bounds)


def percent(center: float, *bounds: float) -> str:
    """Return a mean in per cent, with its interval if it has one. From 100 % on, without decimals."""
    if center == 0.0 and not any(bounds):
        return "0.0 %"

    digits = 0 if abs(center) >= 100 else 1
    rounded = [round(value, digits) or 0.0 for value in (center, *bounds)]  # no minus before 0
    shown, *interval = (f"{value:+,.{digits}f}".replace("-", "−") for value in rounded)
    return f"{shown} % ({' … '.join(interval)})" if interval else f"{shown} %"
