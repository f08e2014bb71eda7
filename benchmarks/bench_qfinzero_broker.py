"""Speed of the broker's engine: a session of minutes with every rule on, and its replay from the
log.

    python benchmarks/bench_qfinzero_broker.py [--symbols 50] [--days 252] [--orders 1000]

Orders of all types are spread evenly over the session; at the end the invariants are checked. The
run and a replay of the log's commands are timed in this one process; the two logs are compared byte
by byte.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import date
from pathlib import Path

import numpy as np

from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.rows import DatasetInfo
from ktdeval_qfinzero.pmb.broker import Broker, rerun
from ktdeval_qfinzero.pmb.log import state_of_log
from ktdeval_qfinzero.timestamps import Clock, day_of, moment_text
from ktdeval_qfinzero.trading_hours import trading_hours

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from support.qfinzero.qfinzero_invariants import check_invariants
from support.qfinzero.qfinzero_memory import MemoryCalendars, MemoryNews
from support.qfinzero.qfinzero_synthetic import generate_minutes

ORDER_TYPES = ("MARKET", "LIMIT", "STOP", "STOP_LIMIT")


def make_dataset(symbols: int, days: int) -> Dataset:
    """A generated market with minutes only."""
    prices = generate_minutes(symbols, days)
    starts = next(iter(prices.bar_table.values())).start_ns
    first, last = day_of(int(starts[0])), day_of(int(starts[-1]))
    info = DatasetInfo("benchmark", True, "0" * 64, first, last, first, last, int(starts[0]))
    return Dataset(info, prices, MemoryCalendars(), MemoryNews())


def play(dataset: Dataset, orders: int) -> tuple[Broker, int]:
    """A session over all minutes, with orders at even distances: (broker, ticks)."""
    broker = Broker(dataset, Clock(dataset.info.default_as_of_ns))
    symbols = [row.symbol for row in dataset.prices.symbols(dataset.info.default_as_of_ns)]
    account = broker.execute(
        "account.create", {"account_type": "MARGIN", "initial_cash": 10_000_000}
    ).id
    last = dataset.info.last_day
    span = {"start_ts": moment_text(broker.clock.as_of_ns), "end_ts": last.isoformat()}
    request = {"account_id": account, "frequency": "1m", **span, "universe": {"stocks": symbols}}
    session = broker.execute("session.create", request).id
    ticks = count_ticks(dataset.info.first_day, last)
    chance = np.random.default_rng(7)
    for number in range(orders):
        symbol = symbols[int(chance.integers(len(symbols)))]
        order = make_order(chance, symbol, broker.engine.marks().get(f"STOCK:{symbol}", 1_000_000))
        broker.execute(
            "order.place", {"session_id": session, "account_id": account, "order": order}
        )
        passing = ticks * (number + 1) // orders - ticks * number // orders
        broker.execute("session.step", {"session_id": session, "step": passing})
    return broker, ticks


def make_order(chance: np.random.Generator, symbol: str, mark_e4: int) -> dict[str, object]:
    """An order of any type, with prices near the last one."""
    side, order_type = str(chance.choice(["BUY", "SELL"])), str(chance.choice(ORDER_TYPES))
    sign = 1 if side == "BUY" else -1
    order = {
        "instrument": {"type": "STOCK", "symbol": symbol},
        "side": side,
        "order_type": order_type,
        "qty": int(chance.integers(1, 200)),
        "time_in_force": str(chance.choice(["DAY", "GTC"])),
    }
    if order_type == "LIMIT":
        order["limit_price"] = cents(mark_e4 * (1 - sign * chance.uniform(0, 0.01)))
    elif order_type != "MARKET":
        order["stop_price"] = cents(mark_e4 * (1 + sign * chance.uniform(0, 0.01)))
    if order_type == "STOP_LIMIT":
        order["limit_price"] = cents(mark_e4 * (1 + sign * 0.012))
    return order


def cents(price_e4: float) -> float:
    """A price in dollars, to the cent."""
    return max(1.0, round(price_e4 / 10_000, 2))


def count_ticks(first: date, last: date) -> int:
    """Minutes of all sessions of some days."""
    hours = trading_hours()
    rows = slice(hours.row_of(first), hours.row_of(last) + 1)
    return int((hours.close_ns[rows] - hours.open_ns[rows]).sum()) // 60_000_000_000


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--symbols", type=int, default=50)
    parser.add_argument("--days", type=int, default=252)
    parser.add_argument("--orders", type=int, default=1000)
    options = parser.parse_args()
    dataset = make_dataset(options.symbols, options.days)
    start = time.perf_counter()
    broker, ticks = play(dataset, options.orders)
    bare = time.perf_counter() - start
    check_invariants(broker)
    lines = broker.log.to_lines()
    start = time.perf_counter()
    again = rerun(lines, dataset)
    replayed = time.perf_counter() - start
    start = time.perf_counter()
    folded = state_of_log(lines)
    fold_seconds = time.perf_counter() - start
    rejected = sum(order.status == "REJECTED" for order in broker.state.orders.values())
    trades = len(broker.state.trades)
    print(f"{options.symbols} symbols, {options.days} days, {ticks:,} ticks")
    print(
        f"{options.orders:,} orders, {rejected:,} of them rejected, {trades:,} trades,"
        f" {len(lines):,} lines of log"
    )
    for name, seconds in (
        ("first run", bare),
        ("replay of the commands", replayed),
    ):
        print(f"  {name:36} {seconds:8.2f} s {ticks / seconds:12,.0f} ticks/s")
    print(f"  {'state folded from the log alone':36} {fold_seconds:8.2f} s {len(lines):12,} lines")
    print(f"logs identical: {again == lines}; folded state identical: {folded == broker.state}")


if __name__ == "__main__":
    main()
