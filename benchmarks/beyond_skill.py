"""Who gets the label `beyond skill`: accounts that know the next returns, that hide it, that have a
skill of known size, that have none, and the rules and trained baselines of ktdeval.

    python benchmarks/beyond_skill.py [--data ../shared/data] [--accounts 100]
    python benchmarks/beyond_skill.py --parts accounts     # or attacks, or rules

Real CSI 300, windows W1 to W10 of KTD-Fin, its rules of trading; one card of all windows for each
account, and one of each window (by default, 1,000 of each kind). Accounts decide at the close, hold
ten names of nearly 10 % each and change them every day. A planted skill of 0.10 buys the ten highest
of a score whose correlation with the normal scores of the next returns is 0.10. `attacks` plays the attacker of
`informed_traders.py`. `rules` runs the
rule models, and the baselines that train without torch on the years before the windows. Without real
data, it prints one line that says so.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
from informed_traders import InformedTrader, KnownHistory, opened, policies_of
from msgspec.structs import replace
from played_episodes import PLUGINS
from scipy.stats import norm, rankdata

from ktdeval.cards.fields.returns.rank_correlation import MAX_SKILL
from ktdeval.cli.main import main as ktdeval
from ktdeval.market.snapshots.snapshot import FloatArray, MarketSnapshot
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import RunFolder
from ktdeval.stats.holding_correlation import HoldingCorrelation, holding_correlation
from ktdeval.testing.ledger_fixtures import step_record
from ktdeval.trading import (
    Ledger,
    MarketTape,
    PositionRecord,
    StepRecord,
    TradingConfig,
    open_account,
)
from ktdeval.trading.account_arrays import (
    AccountArrays,
    BuyArrays,
    DayArrays,
    SellArrays,
    execute_arrays,
    open_accounts,
)

IntArray = npt.NDArray[np.int64]
NAMES = 10
WEIGHT = 0.099
AT_ONCE = 100  #: accounts that are played together

#: Returns [P, N] scores of assets for the fills of a day, from the returns that follow
Score = Callable[[FloatArray, np.random.Generator, int], FloatArray]


@dataclass(frozen=True)
class Size:
    """How many accounts there are, and how many names each holds."""

    accounts: int
    names: int


@dataclass(frozen=True)
class Market:
    """A market with all that accounts need of it."""

    snapshot: MarketSnapshot
    tape: MarketTape
    config: TradingConfig
    windows: Mapping[str, Sequence[int]]  #: rows of the fill days

    @classmethod
    def of(cls, snapshot: MarketSnapshot) -> Market:
        """Return a market under the rules of KTD-Fin."""
        config = TradingConfig()
        task = load_plugins().make_task("blinded_open_research")
        windows = {}
        for name, window in task.windows.items():
            if name != "long":
                days = snapshot.days
                inside = (days >= np.datetime64(window.first)) & (
                    days <= np.datetime64(window.last)
                )
                windows[name] = np.flatnonzero(inside).tolist()

        return cls(snapshot, MarketTape.from_snapshot(snapshot, config), config, windows)

    def next_returns(self, row: int) -> FloatArray:
        """Return the returns from the fills on a day to those of the next; -inf for what can't be
        bought. Shape: [N].
        """
        opens = self.snapshot.adjusted_open
        returns = np.full(opens.shape[1], -np.inf)
        if row + 1 < len(opens):
            returns = opens[row + 1] / opens[row] - 1.0

        tape = self.tape
        can_buy = tape.member[row] & tape.tradable[row] & ~tape.limit_up[row]
        return np.where(can_buy & np.isfinite(returns), returns, -np.inf)


def play(
    market: Market, rows: Sequence[int], score: Score, rng: np.random.Generator, size: Size
) -> list[Ledger]:
    """Return the ledgers of accounts that hold the names with the highest scores."""
    cash = open_account(market.config).cash_minor
    accounts = AccountArrays.open(cash, size.accounts)
    steps: list[list[StepRecord]] = [[] for _ in range(size.accounts)]
    for number, row in enumerate(rows):
        day = DayArrays(market.tape.day(row))
        accounts = open_accounts(accounts, day)
        nav = day.nav(accounts, day.opens)
        returns = market.next_returns(row)
        scores = np.where(np.isfinite(returns), score(returns, rng, size.accounts), -np.inf)
        best = np.argpartition(-scores, size.names, axis=1)[:, : size.names]
        sells, buys = _orders(accounts, day, nav, best)
        accounts, _ = execute_arrays(accounts, day, nav, sells, buys)
        record = step_record(market.snapshot, number, row)
        for account, own in enumerate(_positions(market, accounts, day)):
            amounts = {"open_nav_minor": int(nav[account])}
            steps[account].append(replace(record, positions=own, **amounts))

        closing = day.nav(accounts, day.closes).tolist()
        for account, value in enumerate(closing):
            steps[account][-1] = replace(steps[account][-1], nav_minor=value)

    return [Ledger({"seed": 0}, cash, own) for own in steps]


def _orders(
    accounts: AccountArrays, day: DayArrays, nav: IntArray, best: IntArray
) -> tuple[SellArrays, BuyArrays]:
    """Return sells of all that is not wanted, and buys of what is not held, at equal weights.
    `best`: [P, K] assets.
    """
    number, count = accounts.assets.shape
    columns = np.arange(count)
    is_wanted = np.zeros((count, day.nothing + 1), dtype=np.bool_)
    is_wanted[columns[:, None], best] = True
    is_held = np.zeros_like(is_wanted)
    for assets in accounts.assets:
        is_held[columns, assets] = True

    keeps = is_wanted[columns, accounts.assets] | ~day.can_sell[accounts.assets]
    places = np.broadcast_to(np.arange(number)[:, None], accounts.assets.shape)
    sells = SellArrays(places, np.where(keeps, 0, accounts.shares))

    assets = best.T.astype(np.int32)
    amount = (WEIGHT * nav).astype(np.int64) * day.unit
    lots = day.lots[assets]
    shares = amount // day.divisors[assets] // lots * lots
    is_bought = ~is_held[columns, assets] & day.can_buy[assets] & (shares >= day.min_buy[assets])
    buys = BuyArrays(assets, np.full(assets.shape, -1), np.where(is_bought, shares, 0))
    return sells, buys


def _positions(
    market: Market, accounts: AccountArrays, day: DayArrays
) -> Iterator[tuple[PositionRecord, ...]]:
    """Yield the positions of each account at the close."""
    values = day.value(accounts.assets, accounts.shares, day.closes)
    rows = zip(
        accounts.assets.T.tolist(), accounts.shares.T.tolist(), values.T.tolist(), strict=True
    )
    for assets, shares, worth in rows:
        records = []
        for asset, number, value in zip(assets, shares, worth, strict=True):
            if number:
                record = PositionRecord(
                    code=market.snapshot.codes[asset],
                    shares=number,
                    locked=0,
                    price_ticks=int(day.closes[asset]),
                    value_minor=value,
                )
                records.append(record)

        yield tuple(records)


# ---- scores


def foresight(returns: FloatArray, _rng: np.random.Generator, accounts: int) -> FloatArray:
    """Know the next returns."""
    return np.broadcast_to(returns, (accounts, len(returns)))


def at_random(returns: FloatArray, rng: np.random.Generator, accounts: int) -> FloatArray:
    """Know nothing."""
    return rng.random((accounts, len(returns)))


def planted(skill: float) -> Score:
    """Return a score with this correlation with the normal scores of the next returns."""

    def score(returns: FloatArray, rng: np.random.Generator, accounts: int) -> FloatArray:
        known = np.isfinite(returns)
        number = int(known.sum())
        truth = np.zeros(len(returns))
        ranks = rankdata(returns[known], method="ordinal")
        truth[known] = norm.ppf(ranks / (number + 1))
        scores = rng.normal(size=(accounts, len(returns))) * math.sqrt(1 - skill**2)
        scores += skill * truth
        return scores

    return score


def hiding(foreseen: int) -> Score:
    """Return a score by which this number of the ten names is foreseen, the rest at random."""

    def score(returns: FloatArray, rng: np.random.Generator, accounts: int) -> FloatArray:
        scores = rng.random((accounts, len(returns)))
        scores[:, np.argsort(-returns)[:foreseen]] += 1.0
        return scores

    return score


def rarely(share: float) -> Score:
    """Return a score that knows the next returns on this share of days."""

    def score(returns: FloatArray, rng: np.random.Generator, accounts: int) -> FloatArray:
        scores = rng.random((accounts, len(returns)))
        knows = rng.random(accounts) < share
        scores[knows] = returns
        return scores

    return score


# ---- accounts


@dataclass
class Tally:
    """Cards of accounts of one kind."""

    values: list[float]  #: of the card over all windows
    floors: list[float]
    returns: list[float]  #: of each window
    labels: int = 0  #: cards of one window with the label
    windows: int = 0

    def line(self, kind: str) -> str:
        """Return a row of the table."""
        labelled = sum(floor > MAX_SKILL for floor in self.floors)
        number = len(self.floors)
        if not number:
            return f"| {kind} | not defined | | | | {100 * float(np.mean(self.returns)):+.1f} |"
        return (
            f"| {kind} | {median(self.values):+.3f} | {max(self.floors):+.3f} |"
            f" {labelled:,} of {number:,} | {self.labels:,} of {self.windows:,} |"
            f" {100 * float(np.mean(self.returns)):+.1f} |"
        )

    def add(self, found: Sequence[HoldingCorrelation | str], returns: Sequence[float]) -> None:
        """Count the card of all windows, which comes first, and those of one window."""
        whole, *ones = found
        if not isinstance(whole, str):
            self.values.append(whole.value)
            self.floors.append(whole.floor)

        self.returns += returns
        self.windows += len(ones)
        for one in ones:
            self.labels += not isinstance(one, str) and one.floor > MAX_SKILL


def tally(market: Market, score: Score, accounts: int, names: int = NAMES) -> Tally:
    """Return the cards of accounts of one kind."""
    found = Tally([], [], [])
    rng = np.random.default_rng(0)
    for done in range(0, accounts, AT_ONCE):
        size = Size(min(AT_ONCE, accounts - done), names)
        played = [play(market, rows, score, rng, size) for rows in market.windows.values()]
        for ledgers in zip(*played, strict=True):
            cards = [holding_correlation(ledgers, market.snapshot)]
            if done == 0:  # cards of one window, of a part of the accounts
                cards += [holding_correlation([ledger], market.snapshot) for ledger in ledgers]
            found.add(cards, [float(ledger.nav[-1] / ledger.nav[0] - 1) for ledger in ledgers])

    return found


def print_accounts(market: Market, accounts: int) -> None:
    """Print the lines of accounts that are drawn."""
    few = max(1, accounts // 10)
    kinds: list[tuple[str, Score, int, int]] = [
        ("knows the next returns, ten names", foresight, 1, NAMES),
        ("knows the next returns, one name", foresight, 1, 1),
        ("random", at_random, accounts, NAMES),
        ("random, one name", at_random, accounts, 1),
        ("planted skill 0.05", planted(0.05), accounts, NAMES),
        ("planted skill 0.10", planted(0.10), accounts, NAMES),
        ("planted skill 0.15", planted(0.15), few, NAMES),
        ("planted skill 0.20", planted(0.20), few, NAMES),
        *((f"hides: {k} of ten names foreseen", hiding(k), few, NAMES) for k in (1, 2, 3)),
        *(
            (f"hides: {100 * s:.0f} % of days foreseen", rarely(s), few, NAMES)
            for s in (0.1, 0.2, 0.3)
        ),
    ]
    for kind, score, number, names in kinds:
        print(tally(market, score, number, names).line(kind), flush=True)


# ---- the attacker of `informed_traders.py`


ATTACKED = ("blinded_open_research", "blinded_fixed_candidate", "bright_open_research")


def print_attacks(market: Market) -> None:
    """Print the lines of the trader that reads the day and the stocks out of what a task shows."""
    history = KnownHistory(market.snapshot)
    for name in ATTACKED:
        policy = policies_of(name)[0]
        task = PLUGINS.make_task(name)
        starts = {rows[0] - 1: rows[-1] for rows in market.windows.values()}
        ledgers = []
        for window in market.windows:
            digits = task._config.round_digits
            trader = InformedTrader(history, policy, digits, starts, task.trading)
            episode = opened(market.snapshot, name, trader, window, 0)
            steps = [episode.run_step(step).step for step in range(episode.total_steps)]
            ledgers.append(Ledger({"seed": 0}, 100 * task.trading.initial_cash, steps))

        found = Tally([], [], [])
        cards = [holding_correlation(ledgers, market.snapshot)]
        cards += [holding_correlation([ledger], market.snapshot) for ledger in ledgers]
        found.add(cards, [float(ledger.nav[-1] / ledger.nav[0] - 1) for ledger in ledgers])
        print(found.line(f"attacker of `{name}`, policy {policy}"), flush=True)


# ---- rules and trained baselines

#: Rule models by task of KTD-Fin
RULES = {
    "blinded_open_research": ("equal_weight", "low_volatility", "momentum", "random", "reversal"),
    "blinded_fixed_candidate": ("buy_and_hold", "low_volatility", "momentum", "reversal"),
    "blinded_memory_only": ("first_listed",),
}
#: Rule models of one asset, on real prices of InvestorBench
RULES_OF_ONE_ASSET = (
    *("atr", "bollinger", "kdj_rsi", "macd", "mean_reversion", "random", "sma_cross", "zigzag"),
)
ASSETS = ("investorbench_btc_history", "investorbench_jnj_history", "investorbench_msft_history")
TRAINED = ("linear", "lightgbm", "xgboost", "catboost")  #: baselines that train without torch


def print_rules(market: Market, folder: Path) -> None:
    """Print the lines of rule models, each on its card of ten windows. `folder`: the market's."""
    with TemporaryDirectory() as runs:
        out = Path(runs)
        for task, models in RULES.items():
            for name in models:
                _print_run(market, (f"builtin/{name}", task), folder, out, ())

        models_folder = out / "models"
        for name in TRAINED:
            error = _silently(
                *("train", "qlib", f"qlib/{name}", "--data", folder, "--out", models_folder),
                *("--train", "2022-01-04:2023-06-30", "--valid", "2023-07-03:2023-12-29"),
            )
            if error:
                print(f"qlib/{name}: {error}", flush=True)
                continue

            trained = ("--model-args", f"trained={models_folder}")
            _print_run(market, (f"qlib/{name}", "blinded_open_research"), folder, out, trained)


def print_single_assets(data: Path) -> None:
    """Print the lines of rule models of one asset."""
    with TemporaryDirectory() as folder:
        made = Path(folder) / "investorbench"
        source = data / "investorbench"
        error = _silently("data", "make", "investorbench", "--folder", source, "--out", made)
        if error:
            raise SystemExit(error)

        snapshot = load_snapshot(made)
        for name in RULES_OF_ONE_ASSET:
            for task in ASSETS:
                found = Tally([], [], [])
                out = Path(folder) / f"{name}-{task}"
                model = f"builtin/{name}"
                error = _silently("--model", model, "--tasks", task, "--data", made, "--out", out)
                if not error:
                    codes = snapshot.codes if len(snapshot.codes) == 1 else ()
                    _count(found, out, snapshot, codes or (task.split("_")[1].upper(),))

                print(error or found.line(f"`{model}`, `{task}`"), flush=True)


def _print_run(
    market: Market, of: tuple[str, str], data: Path, folder: Path, more: Sequence[str]
) -> None:
    """Run a model on a task over all windows, and print its line. `of`: model and task."""
    model, task = of
    found = Tally([], [], [])
    out = folder / f"{model.replace('/', '-')}-{task}"
    error = _silently(
        *("--model", model, "--tasks", task, "--windows", ",".join(market.windows)),
        *("--data", data, "--out", out, *more),
    )
    if not error:
        _count(found, out, market.snapshot)

    print(f"{model}: {error}" if error else found.line(f"`{model}`, `{task}`"), flush=True)


def _count(found: Tally, run: Path, snapshot: MarketSnapshot, codes: Sequence[str] = ()) -> None:
    """Count the cards of a run: that of all windows, and those of one."""
    folder = RunFolder.load(run)
    ledgers = [folder.load_ledger(spec) for spec in folder.complete_specs()]
    cards = [holding_correlation(ledgers, snapshot, codes)]
    cards += [holding_correlation([ledger], snapshot, codes) for ledger in ledgers]
    found.add(cards, [float(ledger.nav[-1] / ledger.nav[0] - 1) for ledger in ledgers])


def _silently(*words: object) -> str:
    """Run a command of ktdeval. Return the last line that it printed if it failed, or ""."""
    output = StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        code = ktdeval([str(word) for word in words])
    if not code:
        return ""
    return output.getvalue().strip().splitlines()[-1]


# ---- the command


def a_shares(data: Path, folder: Path) -> Path:
    """Import the CSI 300, 2022 to 2026."""
    source = data / "a_share"
    out = folder / "csi300"
    error = _silently(
        *("data", "make", "long", "--bars", source / "csi300_ever_daily.parquet"),
        *("--members", source / "csi300_members_by_rebalance.csv"),
        *("--benchmark", source / "index_daily.csv.gz"),
        *("--industry", source / "stock_industry.csv"),
        *("--map", "open=raw_open,high=raw_high,low=raw_low,close=raw_close", "--out", out),
    )
    if error:
        raise SystemExit(error)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--accounts", type=int, default=100)
    parser.add_argument("--parts", default="accounts,attacks,rules")
    options = parser.parse_args()
    if not (options.data / "a_share").is_dir():
        print(f"skipped: no real market data in {options.data / 'a_share'}")
        return

    with TemporaryDirectory() as folder:
        data = a_shares(options.data, Path(folder))
        market = Market.of(load_snapshot(data))
        columns = (
            *("account", "rank correlation, median", "highest floor", "labels"),
            *("labels of one window", "return of a window, mean %"),
        )
        print(f"| {' | '.join(columns)} |")
        print("|---" * len(columns) + "|")
        if "accounts" in options.parts:
            print_accounts(market, options.accounts)
        if "attacks" in options.parts:
            print_attacks(market)
        if "rules" in options.parts:
            print_rules(market, data)
            print_single_assets(options.data)


if __name__ == "__main__":
    main()
