"""Datasets of any market: tickers, OPRA roots, calendars and currencies that are not those of US stocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import DataError
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.data.check import check_dataset
from ktdeval_qfinzero.data.folder import open_dataset
from ktdeval_qfinzero.data.ingest import ingest_dataset, ingest_update
from ktdeval_qfinzero.data.ingest_spec import load_spec
from ktdeval_qfinzero.data.stores import Dataset, Span
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.workspace import Workspace

SPEC = """
name: shanghai
calendar: {calendar}
currency: CNY
default_as_of: 2025-01-24T07:00:00Z
bars:
  - {{file: stocks.csv, asset_class: stock, resolution: day}}
  - {{file: coins.csv, asset_class: crypto, resolution: day}}
  - {{file: options.csv, asset_class: option, resolution: day}}
symbols: [{{file: symbols.csv}}]
contracts: [{{file: contracts.csv}}]
"""
DAYS = ("2025-01-23", "2025-01-24", "2025-01-27", "2025-02-05")  # the Spring Festival closes the exchange in between
CONTRACT = "O:SPXW250321C06000000"


def bars(*symbols: str, days: tuple[str, ...] = DAYS) -> str:
    rows = [f"{symbol},{day},10,11,9,{10 + place / 10},100000" for symbol in symbols for place, day in enumerate(days)]
    return "\n".join(["symbol,time,open,high,low,close,volume", *rows])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    symbols = [
        *("600519.SH,stock,Moutai,2020-01-01,false", "^GSPC,stock,Index,2020-01-01,true"),
        *("BTC-USD,crypto,Bitcoin,2020-01-01,false", "1INCH-USD,crypto,1inch,2020-01-01,false"),
    ]
    written = {
        "stocks.csv": bars("600519.SH", "^GSPC"),
        "coins.csv": bars("BTC-USD", "1INCH-USD"),
        "options.csv": bars(CONTRACT),
        "symbols.csv": "\n".join(["symbol,asset_class,name,listed,has_options", *symbols]),
        "contracts.csv": f"symbol,listed,underlying\n{CONTRACT},2025-01-02,^GSPC",
        "spec.yaml": SPEC.format(calendar="XSHG"),
        "open.yaml": SPEC.format(calendar="24/7"),
    }
    for name, text in written.items():
        (folder / name).write_text(text + "\n")
    return folder


@pytest.fixture(scope="module")
def dataset(files: Path) -> Dataset:
    folder = files / "made"
    ingest_dataset(load_spec(files / "spec.yaml"), files, folder)
    assert check_dataset(folder) == ()
    return open_dataset(folder)


def ask(workspace: Workspace, name: str, **given: Any) -> Any:
    return catalogue().find(name).call(workspace, given)


@pytest.mark.parametrize(
    ("name", "ticker"),
    [*(("stock", each) for each in ("600519.SH", "^GSPC")), *(("crypto", each) for each in ("BTC-USD", "1INCH-USD"))],
)
def test_tickers_of_any_market_are_stored_and_found(dataset: Dataset, name: str, ticker: str) -> None:
    found = ask(Workspace(dataset), f"UPQ.{name}.daily", tickers=ticker, start="2025-01-23", end="2025-02-05", fields="close")
    assert [row["close"] for row in found["bars"]] == ([10.0, 10.1] if name == "stock" else [10.0])  # as of the session's close


@pytest.mark.parametrize("ticker", ["aapl", "A_B", "A/B", "../X", "A B", "-A", ".A", "A" * 17, "=X"])
def test_what_is_no_ticker_is_refused_with_examples(dataset: Dataset, ticker: str) -> None:
    with pytest.raises(ServiceError, match=r"600519\.SH"):
        ask(Workspace(dataset), "UPQ.stock.daily", tickers=ticker, start="2025-01-23", end="2025-02-05")


def test_an_option_is_found_by_its_underlying_though_its_root_is_another(dataset: Dataset, files: Path) -> None:
    workspace = Workspace(dataset)
    chain = ask(workspace, "UPQ.option.chain_query", underlying="^GSPC", date="2025-01-24", include_greeks=True)
    (row,) = chain["contracts"]
    assert (row["contract"], row["underlying"], row["strike"], row["greek_spot"]) == (CONTRACT, "^GSPC", 6000, 10.1)
    history = ask(workspace, "UPQ.option.ticker_query", contract=CONTRACT, start="2025-01-23", end="2025-02-05")
    assert [each["underlying"] for each in history["bars"]] == ["^GSPC"] * 2
    (files / "options.csv").write_text(bars(CONTRACT, days=("2025-02-06",)))
    (files / "more.yaml").write_text("name: more\nbars: [{file: options.csv, asset_class: option, resolution: day}]")
    ingest_update(load_spec(files / "more.yaml"), files, files / "made")
    assert len(open_dataset(files / "made").prices.chain_bars("^GSPC", "day", Span(0, 2**62))) == 1


def test_sessions_and_money_are_those_of_the_datasets_market(dataset: Dataset) -> None:
    workspace = Workspace(dataset)
    with pytest.raises(ServiceError, match="CNY"):
        ask(workspace, "PMB.account.create", base_currency="USD")
    opened = ask(workspace, "PMB.account.create", initial_cash=10_000)
    assert opened["account"]["base_currency"] == "CNY"
    account = {"account_id": opened["account_id"]}
    span = {"frequency": "1d", "start_ts": "2025-01-25", "end_ts": "2025-02-28", "universe": {"stocks": ["600519.SH"]}}
    session = {"session_id": ask(workspace, "PMB.session.create", **account, **span)["session_id"]}
    order = {"instrument": {"type": "STOCK", "symbol": "600519.SH"}, "side": "BUY", "order_type": "MARKET", "qty": 10}
    ask(workspace, "PMB.order.place", **account, **session, order=order)
    closes = [ask(workspace, "PMB.session.step", **session)["as_of_ts"] for _ in range(2)]
    assert closes == ["2025-01-27T07:00:00Z", "2025-02-05T07:00:00Z"]
    assert ask(workspace, "PMB.account.positions", **account)["positions"][0]["qty"] == 10


def test_a_market_that_never_closes_has_a_session_each_day_and_an_unknown_calendar_is_named(files: Path) -> None:
    (files / "stocks.csv").write_text(bars("600519.SH", "^GSPC", days=("2025-01-24", "2025-01-25", "2025-01-26")))
    info, _ = ingest_dataset(load_spec(files / "open.yaml"), files, files / "open")
    assert check_dataset(files / "open") == ()  # a weekend is no day outside of sessions
    assert info.hours.session_day(info.default_as_of_ns).isoformat() == "2025-01-24"
    assert all(info.hours.open_ns[1:] == info.hours.close_ns[:-1])
    (files / "moon.yaml").write_text(SPEC.format(calendar="MOON"))
    with pytest.raises(DataError, match="XSHG or 24/7, was 'MOON'"):
        ingest_dataset(load_spec(files / "moon.yaml"), files, files / "moon")
    assert not (files / "moon").exists()


def test_coins_trade_around_the_clock_in_parts_by_a_step(tmp_path: Path) -> None:
    """A unit is a thousandth of a coin: 7 units are 0.007 coins, at a thousandth of its price."""
    days = [
        f"2025-01-{day:02},{60_000 + 100 * day}.15,{61_000 + 100 * day},59000,{60_500 + 100 * day}.25,12.3456"
        for day in range(3, 14)
    ]
    (tmp_path / "btc.csv").write_text("\n".join(["Date,Open,High,Low,Close,Volume", *days]) + "\n")
    (tmp_path / "spec.yaml").write_text(
        "name: coins\ncalendar: 24/7\ncurrency: USD\ndefault_as_of: 2025-01-10\n"
        "bars: [{file: btc.csv, asset_class: stock, resolution: day, symbol: BTC-USD, unit: 0.001}]\n"
    )
    ingest_dataset(load_spec(tmp_path / "spec.yaml"), tmp_path, tmp_path / "made")
    assert check_dataset(tmp_path / "made") == ()
    workspace = Workspace(open_dataset(tmp_path / "made"))
    assert ask(workspace, "UPQ.symbols.list")["symbols"][0]["name"] == "0.001 BTC-USD"
    account = {"account_id": ask(workspace, "PMB.account.create", initial_cash=1_000)["account_id"]}
    span = {"frequency": "1d", "start_ts": "2025-01-10", "end_ts": "2025-01-13", "universe": {"stocks": ["BTC-USD"]}}
    rules = {"fills": {"slippage_bps": 0, "max_volume_pct": 100}, "fees": {"stock_per_share_e4": 0}}
    begun = ask(workspace, "PMB.session.create", **account, **span, execution_config=rules)
    session = {"session_id": begun["session_id"]}
    order = {"instrument": {"type": "STOCK", "symbol": "BTC-USD"}, "side": "BUY", "order_type": "MARKET", "qty": 7}
    ask(workspace, "PMB.order.place", **account, **session, order=order)
    stepped = ask(workspace, "PMB.session.step", **session, step=2)
    assert stepped["as_of_ts"] == "2025-01-12T00:00:00Z"  # the eleventh is a Saturday, and over at its midnight
    (trade,) = ask(workspace, "PMB.account.trades", **account)["trades"]
    assert (trade["qty"], trade["price"]) == (7, 61.0002)  # 61,000.15 of the tenth
    assert ask(workspace, "PMB.account.get", **account)["account"]["cash"] == pytest.approx(1_000 - 7 * 61.0002)
