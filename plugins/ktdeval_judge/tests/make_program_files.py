"""Make small files of backtest programs by the programs themselves, from bars of the embedded market.

Each program has a command and runs in an environment of its own, where it is installed:

    python make_program_files.py market      # with ktdeval: bars of eight assets, files/market.csv
    python make_program_files.py backtrader  # with backtrader
    python make_program_files.py bt          # with bt
    python make_program_files.py vectorbt    # with vectorbt
    python make_program_files.py qlib        # with pyqlib
    python make_program_files.py zipline     # with zipline-reloaded and pyfolio-reloaded
    python make_program_files.py finrl SRC   # with gymnasium; SRC holds FinRL's source
    python make_program_files.py aihf SRC    # with pydantic; SRC holds ai-hedge-fund's source

`files/programs.csv` says which versions made the committed files. Files of programs that can't be
run here are written by their documented format in `formatted_files.py`.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import types
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

FILES = Path(__file__).parent / "files"
BARS = FILES / "market.csv"
CODES = (
    "009005.SZ", "009012.SZ", "009034.SZ", "009083.SZ", "009116.SZ", "009129.SZ", "009164.SZ",
    "009181.SZ",
)  # fmt: skip
INDEX = "999300.SH"
FIRST = "2025-03-03"
DAYS = 60
CASH = 1_000_000.0
COMMISSION = 0.0003


def make_market() -> None:
    """Write the bars of eight assets that no corporate action touches, and the index."""
    from ktdeval_data.synthetic import SyntheticParams, make_synthetic

    market = make_synthetic(SyntheticParams())
    start = int(np.searchsorted(market.days, np.datetime64(FIRST)))
    rows = slice(start, start + DAYS)
    parts = []
    for code in CODES:
        asset = market.asset_index[code]
        bars = {
            name: getattr(market, name)[rows, asset].round(2)
            for name in ("open", "high", "low", "close")
        }
        volume = market.volume[rows, asset].astype(int)
        parts.append(
            pd.DataFrame({"date": market.days[rows], "code": code, **bars, "volume": volume})
        )

    level = market.indices[INDEX][rows].round(2)
    index = dict.fromkeys(("open", "high", "low", "close"), level)
    parts.append(pd.DataFrame({"date": market.days[rows], "code": INDEX, **index, "volume": 0}))
    pd.concat(parts).to_csv(BARS, index=False)


def panel(field: str) -> pd.DataFrame:
    """Return a field of the assets' bars, days by codes."""
    bars = pd.read_csv(BARS, parse_dates=["date"])
    return bars.pivot(index="date", columns="code", values=field)[list(CODES)]


def chosen() -> pd.DataFrame:
    """Return the target weights of a rule on past closes: each fifth day the two assets with the best
    five days before; NaN on other days.
    """
    momentum = panel("close").pct_change(5)
    weights = pd.DataFrame(np.nan, index=momentum.index, columns=momentum.columns)
    for row in range(5, len(momentum), 5):
        best = momentum.iloc[row].nlargest(2).index
        weights.iloc[row] = 0.0
        weights.loc[weights.index[row], best] = 0.45

    return weights


def folder(*parts: str) -> Path:
    """Return an empty folder of a program."""
    made = FILES.joinpath(*parts)
    made.mkdir(parents=True, exist_ok=True)
    return made


# ---- backtrader


def make_backtrader() -> None:
    """Write transactions, returns, orders and the writer's text; and orders filled at the close that
    they were decided on.
    """
    _run_backtrader(folder("backtrader"))
    _run_backtrader(folder("backtrader_writer"), writes=True)
    _run_backtrader(folder("backtrader_cheat_on_close"), cheats=True)


def _run_backtrader(out: Path, *, cheats: bool = False, writes: bool = False) -> None:
    import backtrader as bt

    weights = chosen()

    class Orders(bt.Analyzer):
        def start(self) -> None:
            self.rows: list[dict[str, object]] = []

        def notify_order(self, order) -> None:
            if order.status == order.Completed:
                self.rows.append({
                    "created": bt.num2date(order.created.dt),
                    "executed": bt.num2date(order.executed.dt),
                    "data": order.data._name,
                    "size": order.executed.size,
                    "price": order.executed.price,
                    "commission": order.executed.comm,
                })  # fmt: skip

    class Momentum(bt.Strategy):
        def next(self) -> None:
            targets = weights.loc[pd.Timestamp(self.data.datetime.date(0))]
            if targets.isna().all():
                return
            value = self.broker.getvalue()
            moves = []
            for data in self.datas:
                target = int(targets[data._name] * value / data.close[0] // 100 * 100)
                moves.append((target - self.getposition(data).size, data))
            for size, data in sorted(moves, key=lambda move: move[0]):
                if size:
                    self.buy(data, size) if size > 0 else self.sell(data, -size)

    cerebro = bt.Cerebro()
    cerebro.broker.setcash(CASH)
    cerebro.broker.setcommission(COMMISSION)
    if cheats:
        cerebro.broker.set_coc(True)
    if writes:
        cerebro.addwriter(bt.WriterFile, csv=True, out=str(out / "writer.csv"), rounding=4)
    bars = pd.read_csv(BARS, parse_dates=["date"])
    for code in CODES:
        frame = bars[bars.code == code].set_index("date").drop(columns="code")
        data = bt.feeds.PandasData(dataname=frame)
        data.csv = code == CODES[0]  # the writer's text stays small
        cerebro.adddata(data, name=code)
    cerebro.addstrategy(Momentum)
    if writes:
        cerebro.run()  # without analyzers, whose results the writer would add
        return
    cerebro.addanalyzer(bt.analyzers.PyFolio, _name="pyfolio")
    cerebro.addanalyzer(Orders, _name="orders")
    strategy = cerebro.run()[0]
    returns, _, transactions, _ = strategy.analyzers.pyfolio.get_pf_items()
    transactions.to_csv(folder(f"{out.name}_transactions") / "transactions.csv")
    pd.DataFrame(strategy.analyzers.orders.rows).to_csv(out / "orders.csv", index=False)
    if not cheats:
        returns.to_csv(out / "returns.csv")
    print(bt.__version__, strategy.broker.getvalue())


# ---- bt


def make_bt() -> None:
    """Write transactions, the strategy's values and its prices."""
    import bt

    weights = chosen().dropna(how="all")
    strategy = bt.Strategy(
        "momentum",
        [bt.algos.RunOnDate(*weights.index), bt.algos.WeighTarget(weights), bt.algos.Rebalance()],
    )
    test = bt.Backtest(
        strategy,
        panel("close"),
        initial_capital=CASH,
        commissions=lambda quantity, price: abs(quantity) * price * COMMISSION,
    )
    result = bt.run(test)
    out = folder("bt")
    result.get_transactions().to_csv(out / "transactions.csv")
    result.backtests["momentum"].strategy.values.to_csv(out / "values.csv")
    result.prices.to_csv(folder("bt_prices") / "prices.csv")
    print(bt.__version__)


# ---- vectorbt


def make_vectorbt() -> None:
    """Write orders, trades and the value of a portfolio with shared cash."""
    import vectorbt as vbt

    portfolio = vbt.Portfolio.from_orders(
        panel("close"),
        size=chosen(),
        size_type="targetpercent",
        init_cash=CASH,
        fees=COMMISSION,
        cash_sharing=True,
        group_by=True,
        call_seq="auto",
    )
    out = folder("vectorbt")
    portfolio.orders.records_readable.to_csv(out / "orders.csv", index=False)
    portfolio.trades.records_readable.to_csv(folder("vectorbt_trades") / "trades.csv", index=False)
    portfolio.value().to_csv(out / "value.csv")
    print(vbt.__version__)


# ---- Qlib


def make_qlib() -> None:
    """Write the report and the positions of a TopkDropout backtest that trades at the open."""
    warnings.filterwarnings("ignore")
    with tempfile.TemporaryDirectory() as place:
        _write_qlib_data(Path(place))
        _run_qlib(place)


def _write_qlib_data(place: Path) -> None:
    bars = pd.read_csv(BARS, parse_dates=["date"])
    days = sorted(bars.date.unique())
    (place / "calendars").mkdir()
    (place / "instruments").mkdir()
    lines = [f"{day:%Y-%m-%d}\n" for day in map(pd.Timestamp, days)]
    (place / "calendars/day.txt").write_text("".join(lines))
    span = f"{days[0]:%Y-%m-%d}\t{days[-1]:%Y-%m-%d}"
    (place / "instruments/all.txt").write_text("".join(f"{code}\t{span}\n" for code in CODES))
    for code, group in bars.groupby("code"):
        features = place / "features" / str(code).lower()
        features.mkdir(parents=True)
        group = group.assign(factor=1.0, change=group.close.pct_change())
        for name in ("open", "close", "volume", "factor", "change"):
            column = np.hstack([[0.0], group[name].to_numpy()]).astype("<f4")
            column.tofile(features / f"{name}.day.bin")


def _run_qlib(place: str) -> None:
    import qlib
    from qlib.backtest import backtest
    from qlib.contrib.strategy import TopkDropoutStrategy

    qlib.init(provider_uri=place, region="cn", logging_level=logging.ERROR, kernels=1)
    momentum = panel("close").pct_change(5).stack()
    momentum.index.names = ["datetime", "instrument"]
    days = panel("close").index
    metrics, _ = backtest(
        start_time=days[6],
        end_time=days[-2],
        strategy=TopkDropoutStrategy(signal=momentum, topk=3, n_drop=1),
        executor={
            "class": "SimulatorExecutor",
            "module_path": "qlib.backtest.executor",
            "kwargs": {"time_per_step": "day", "generate_portfolio_metrics": True},
        },
        benchmark=INDEX,
        account=CASH,
        exchange_kwargs={
            "freq": "day",
            "limit_threshold": 0.095,
            "deal_price": "open",
            "open_cost": 0.0003,
            "close_cost": 0.0008,
            "min_cost": 5,
            "codes": list(CODES),
        },
    )
    report, positions = metrics["1day"]
    out = folder("qlib")
    report.to_csv(out / "report.csv")
    report.to_parquet(folder("qlib_parquet") / "report.parquet")
    rows = [
        (day, code, book.get_stock_amount(code), book.get_stock_price(code))
        for day, book in positions.items()
        for code in sorted(book.get_stock_list())
    ]
    names = ["datetime", "instrument", "amount", "price"]
    pd.DataFrame(rows, columns=names).to_csv(out / "positions.csv", index=False)

    # `parse_position` lies in a package that imports plotly, which it does not need.
    for name in ("report", "report.analysis_position"):
        package = types.ModuleType(f"qlib.contrib.{name}")
        package.__path__ = [str(Path(qlib.__file__).parent / "contrib" / name.replace(".", "/"))]
        sys.modules[package.__name__] = package
    from qlib.contrib.report.analysis_position.parse_position import parse_position

    pd.DataFrame.fillna = _fillna  # pandas 3 has no `method`, which it calls
    parse_position(positions).to_csv(folder("qlib_parsed") / "positions.csv")
    print(qlib.__version__, report.head(3).to_string())


def _fillna(frame: pd.DataFrame, *, method: str, inplace: bool) -> None:
    assert (method, inplace) == ("ffill", True)
    frame[:] = frame.ffill()


# ---- zipline and pyfolio


def _zipline_bundle(_environ, assets, _minutes, bars_writer, adjustments, *_: object) -> None:
    bars = pd.read_csv(BARS, parse_dates=["date"]).set_index("date")
    frames = [(sid, bars[bars.code == code].drop(columns="code")) for sid, code in enumerate(CODES)]
    bars_writer.write(iter(frames), show_progress=False)
    first, last = bars.index.min(), bars.index.max()
    equities = pd.DataFrame({
        "symbol": CODES, "asset_name": CODES, "start_date": first, "end_date": last,
        "auto_close_date": last + pd.Timedelta(days=1), "exchange": "XSHG",
    })  # fmt: skip
    exchanges = pd.DataFrame([["XSHG", "XSHG", "CN"]],
                             columns=["exchange", "canonical_name", "country_code"])  # fmt: skip
    assets.write(equities=equities, exchanges=exchanges)
    adjustments.write()


def make_zipline() -> None:
    """Write returns, positions and transactions as pyfolio takes them from a zipline run, and the
    table of the run itself.
    """
    import zipline
    from pyfolio.utils import extract_rets_pos_txn_from_zipline
    from zipline.api import order_target_percent, set_commission, symbol
    from zipline.data.bundles import ingest, register
    from zipline.finance.commission import PerDollar

    os.environ["ZIPLINE_ROOT"] = tempfile.mkdtemp()
    register("judge", _zipline_bundle, calendar_name="XSHG")
    ingest("judge", show_progress=False)
    weights = chosen()

    def initialize(context) -> None:
        set_commission(PerDollar(COMMISSION))

    def handle_data(context, data) -> None:
        day = zipline.api.get_datetime().tz_convert("Asia/Shanghai").normalize().tz_localize(None)
        targets = weights.loc[day]
        if not targets.isna().all():
            for code in CODES:
                order_target_percent(symbol(code), targets[code])

    perf = zipline.run_algorithm(
        start=weights.index[0],
        end=weights.index[-1],
        initialize=initialize,
        handle_data=handle_data,
        capital_base=CASH,
        bundle="judge",
        trading_calendar=zipline.utils.calendar_utils.get_calendar("XSHG"),
        benchmark_returns=pd.Series(0.0, index=weights.index),
    )
    returns, positions, transactions = extract_rets_pos_txn_from_zipline(perf)
    out = folder("zipline")
    returns.to_csv(out / "returns.csv")
    positions.to_csv(out / "positions.csv")
    transactions.to_csv(out / "transactions.csv")
    keep = [
        "portfolio_value",
        "starting_value",
        "starting_cash",
        "returns",
        "algorithm_period_return",
    ]
    perf[keep].to_csv(folder("zipline_perf") / "perf.csv")
    print(zipline.__version__)


# ---- FinRL


def make_finrl(source: str) -> None:
    """Write actions and account values of FinRL's own environments, with fixed actions."""
    vec_env = types.ModuleType("stable_baselines3.common.vec_env")
    vec_env.DummyVecEnv = object  # what the module imports and this run does not use
    for name in ("stable_baselines3", "stable_baselines3.common"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules[vec_env.__name__] = vec_env
    sys.path.insert(0, str(Path(source) / "finrl/meta/env_stock_trading"))
    from env_stocktrading import StockTradingEnv

    bars = pd.read_csv(BARS)
    bars = bars[bars.code.isin(CODES[:4])].rename(columns={"code": "tic"})
    bars = bars.sort_values(["date", "tic"]).reset_index(drop=True)
    bars["flag"] = 0.0
    bars.index = bars.date.factorize()[0]
    out = folder("finrl")
    os.chdir(tempfile.mkdtemp())
    Path("results").mkdir()
    env = StockTradingEnv(
        bars,
        stock_dim=4,
        hmax=2_000,
        initial_amount=int(CASH),
        num_stock_shares=[0] * 4,
        buy_cost_pct=[COMMISSION] * 4,
        sell_cost_pct=[COMMISSION] * 4,
        reward_scaling=1e-4,
        state_space=1 + 3 * 4,
        action_space=4,
        tech_indicator_list=["flag"],
        model_name="fixed",
        mode="trade",
        iteration=1,
    )
    env.reset()
    draw = np.random.default_rng(7)
    is_over = False
    while not is_over:
        _, _, is_over, _, _ = env.step(draw.uniform(-1, 1, 4))
    _run_finrl_portfolio(source, bars)
    for name in ("actions", "account_value"):
        text = Path(f"results/{name}_trade_fixed_1.csv").read_text()
        (out / f"{name}.csv").write_text(text)


def _run_finrl_portfolio(source: str, bars: pd.DataFrame) -> None:
    sys.path.insert(0, str(Path(source) / "finrl/meta/env_portfolio_allocation"))
    from env_portfolio import StockPortfolioEnv

    bars = bars.assign(cov_list=[np.eye(4)] * len(bars))
    env = StockPortfolioEnv(
        bars, stock_dim=4, hmax=100, initial_amount=int(CASH), transaction_cost_pct=0,
        reward_scaling=1, state_space=4, action_space=4, tech_indicator_list=["flag"],
    )  # fmt: skip
    env.reset()
    draw = np.random.default_rng(11)
    for _ in range(DAYS - 1):
        env.step(draw.uniform(0, 3, 4))
    out = folder("finrl_portfolio")
    env.save_action_memory().to_csv(out / "actions.csv")
    env.save_asset_memory().to_csv(out / "returns.csv", index=False)


# ---- ai-hedge-fund


def make_aihf(source: str) -> None:
    """Write the result of ai-hedge-fund's own backtest of a fund, with a rule as its analyst."""
    sys.path.insert(0, source)
    from hedge_fund.backtesting.fund import backtest_fund
    from hedge_fund.data.models import Price
    from hedge_fund.fund.spec import Fund, FundSpec
    from hedge_fund.models import Signal

    weights = chosen()
    bars = pd.read_csv(BARS)

    class Bars:
        def get_prices(self, ticker: str, start: str, end: str, **_: object) -> list[Price]:
            rows = bars[(bars.code == ticker) & (bars.date >= start) & (bars.date <= end)]
            return [
                Price(open=row.open, high=row.high, low=row.low, close=row.close,
                      volume=row.volume, time=row.date)
                for row in rows.itertuples()
            ]  # fmt: skip

    class Momentum:
        name = "momentum"

        def predict(self, ticker: str, as_of: str, _client: object) -> Signal:
            last = weights.loc[:as_of].ffill().iloc[-1].fillna(0.0)
            return Signal(model_name=self.name, ticker=ticker, date=as_of,
                          value=1.0 if last[ticker] > 0 else 0.0, reasoning="rule")  # fmt: skip

    spec = FundSpec(
        name="momentum-fund",
        strategies=[{"name": "momentum", "models": [{"name": "momentum"}]}],
        risk={"max_position_pct": 0.5, "max_gross_exposure": 0.9},
        capital=CASH,
        rebalance="weekly",
        benchmark=INDEX,
    )
    fund = Fund(spec, models={"momentum": [Momentum()]})
    result = backtest_fund(fund, "2025-03-10", "2025-05-29", Bars(), list(CODES[:5]))
    (folder("ai_hedge_fund") / "backtest.json").write_text(result.model_dump_json())


COMMANDS = {
    "market": make_market, "backtrader": make_backtrader, "bt": make_bt,
    "vectorbt": make_vectorbt, "qlib": make_qlib, "zipline": make_zipline,
    "finrl": make_finrl, "aihf": make_aihf,
}  # fmt: skip

if __name__ == "__main__":
    COMMANDS[sys.argv[1]](*sys.argv[2:])
