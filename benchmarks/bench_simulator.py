"""Speed of the trading simulator alone: a top-20 dropout strategy over 300 names x 548 days, every
rule and invariant check on.

    python benchmarks/bench_simulator.py

Figures are medians of processor time; the strategy's own time is part of it. Ours is timed twice: fills
free of size, and with the preset `sqrt` of execution on. `all.py --only kernels --qlib-python ENV/bin/python
--peers FOLDER` times both beside Qlib's TopkDropoutStrategy and SimulatorExecutor, on the same market,
signal, capital and costs.

The names to sell and buy are chosen by the same rule. The sizes differ: Qlib splits 95 % of the
cash over the day's buys, ours target 95 % / 20 of the NAV each; and Qlib judges limits by the day's
close, ours by its open. So final values are near, not equal.
"""

from __future__ import annotations

import argparse
import cProfile
import dataclasses
import pstats
import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ktdeval.market.snapshots.snapshot import MarketSnapshot, SnapshotMeta
from ktdeval.trading.daily_settlement import Settlement, open_account
from ktdeval.trading.executor import settle
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Action, Order, TradingConfig

N_ASSETS, N_DAYS, TOP_K = 300, 548, 20
# Qlib's capital and costs in qlib_bt.py, so that both sides trade the same.
CONFIG = TradingConfig(initial_cash=100_000_000, buy_fee_bps=3.0, sell_fee_bps=8.0)
WITH_EXECUTION = dataclasses.replace(CONFIG, execution="sqrt")

FloatArray = npt.NDArray[np.float64]


class Market(NamedTuple):
    """A snapshot and the strategy's signal, [days, assets]."""

    snapshot: MarketSnapshot
    signal: FloatArray


def make_snapshot(
    open_: FloatArray, close: FloatArray, volume: FloatArray, codes: list[str]
) -> MarketSnapshot:
    """A snapshot of plain price arrays; every asset is a member on every day."""
    n_days = len(close)
    days = np.datetime64("2023-01-03", "D") + np.arange(n_days)
    return MarketSnapshot(
        meta=SnapshotMeta("benchmark", "generated", True, True, "000300.SH"),
        days=days,
        codes=tuple(codes),
        names=tuple(codes),
        industries=("unknown",) * len(codes),
        open=open_,
        high=np.fmax(open_, close),
        low=np.fmin(open_, close),
        close=close,
        volume=volume,
        amount=volume * close,
        factor=np.ones_like(close),
        member=np.ones(close.shape, dtype=bool),
        indices={"000300.SH": np.full(n_days, 1000.0)},
        index_names={"000300.SH": "CSI300"},
    )


def generate_market(seed: int) -> Market:
    """Fat-tailed returns within the boards' limits, 1 % suspensions, a slowly changing random
    signal.
    """
    chance = np.random.default_rng(seed)
    boards = chance.choice(["600", "000", "300", "688"], size=N_ASSETS, p=[0.45, 0.3, 0.15, 0.1])
    limit = np.where(np.isin(boards, ["300", "688"]), 0.2, 0.1)
    codes = [
        f"{board}{number:03d}.{'SH' if board[0] == '6' else 'SZ'}"
        for number, board in enumerate(boards)
    ]
    common = 0.008 * chance.standard_normal((N_DAYS, 1))
    returns = common * chance.uniform(0.5, 1.5, N_ASSETS) + 0.016 * chance.standard_t(
        4, (N_DAYS, N_ASSETS)
    )
    gaps = 0.006 * chance.standard_normal((N_DAYS, N_ASSETS))
    close = np.round(
        chance.uniform(5, 150, N_ASSETS) * np.cumprod(1 + np.clip(returns, -limit, limit), axis=0),
        2,
    )
    open_ = np.round(np.vstack([close[:1], close[:-1]]) * (1 + gaps), 2)
    volume = np.round(chance.lognormal(15, 1, close.shape))
    suspended = chance.random(close.shape) < 0.01
    close[suspended] = open_[suspended] = np.nan
    volume[suspended] = 0
    signal = chance.standard_normal(close.shape)
    for row in range(1, N_DAYS):
        signal[row] = 0.9 * signal[row - 1] + np.sqrt(1 - 0.81) * signal[row]
    order = np.argsort(codes)
    grids = [grid[:, order] for grid in (open_, close.astype(np.float64), volume)]
    return Market(make_snapshot(*grids, sorted(codes)), signal[:, order])


def load_market(path: Path) -> Market:
    """The market that Qlib trades (`market.npz`): unrounded adjusted prices, no factor."""
    with np.load(path) as arrays:
        codes = [f"{str(code)[2:]}.SH" for code in arrays["codes"]]
        open_, close, volume = (
            arrays[name].astype(np.float64) for name in ("open", "close", "vol")
        )
        return Market(make_snapshot(open_, close, volume, codes), arrays["sig"].astype(np.float64))


def dropout_action(scores: FloatArray, held: set[int], n_drop: int) -> Action:
    """Qlib's TopkDropout: sell the worst `n_drop` of those held and the best newcomers, buy as many
    newcomers.
    """
    order = np.argsort(-scores)[: 2 * TOP_K + n_drop].tolist()
    newcomers = [asset for asset in order if asset not in held][: n_drop + TOP_K - len(held)]
    worst = sorted((*held, *newcomers), key=scores.data.__getitem__)[:n_drop]
    sells = [asset for asset in worst if asset in held]
    buys = newcomers[: len(sells) + TOP_K - len(held)]
    return (
        *[Order(asset, "SELL", 0.5, "left the top", 0.0) for asset in sells],
        *[Order(asset, "BUY", 0.5, "entered the top", 0.95 / TOP_K) for asset in buys],
    )


def simulate(tape: MarketTape, signal: FloatArray, n_drop: int) -> list[Settlement]:
    """Trade every day from row 2, as Qlib's script does; decisions one row before."""
    account, days = open_account(CONFIG), []
    for row in range(1, len(signal) - 1):
        action = dropout_action(signal[row - 1], set(account.positions), n_drop)
        day = settle(account, tape.day(row), action, row - 1)
        account = day.after
        days.append(day)
    return days


def measure(market: Market, n_drop: int, repeats: int, config: TradingConfig = CONFIG) -> float:
    """Days a second of the loop; prints what was traded."""
    tape_s, loop_s, days = [], [], []
    for _ in range(repeats):
        begin = time.process_time()
        tape = MarketTape.from_snapshot(market.snapshot, config)
        middle = time.process_time()
        days = simulate(tape, market.signal, n_drop)
        tape_s.append(middle - begin)
        loop_s.append(time.process_time() - middle)
    outcomes = [outcome for day in days for outcome in day.outcomes]
    rejected = sum(outcome.status == "rejected" for outcome in outcomes)
    speed = len(days) / statistics.median(loop_s)
    name = "ktdeval" if config.execution is None else f"{config.execution.name:7}"
    print(
        f"{name}  {speed:10,.0f} days/s  (best {len(days) / min(loop_s):,.0f}; {1e6 / speed:.0f}"
        f" us a day, tape {statistics.median(tape_s) * 1e3:.0f} ms once)  {len(outcomes)} orders,"
        f" {rejected} rejected, final NAV {days[-1].nav_minor / 100:,.0f} CNY"
    )
    return speed


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--n-drop",
        type=int,
        default=5,
        help="names replaced a day; 20 replaces the whole portfolio",
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--profile", action="store_true", help="print where the time goes instead")
    arguments = parser.parse_args()
    market = generate_market(arguments.seed)
    if arguments.profile:
        tape, profile = MarketTape.from_snapshot(market.snapshot, CONFIG), cProfile.Profile()
        profile.runcall(simulate, tape, market.signal, arguments.n_drop)
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)
        return 0
    print(
        f"{N_ASSETS} names x {N_DAYS} days, top {TOP_K}, n_drop {arguments.n_drop}, whole-fen"
        " prices, four boards"
    )
    measure(market, arguments.n_drop, arguments.repeats)
    measure(market, arguments.n_drop, arguments.repeats, WITH_EXECUTION)
    return 0


if __name__ == "__main__":
    sys.exit(main())
