"""Files as vendors of any market ship them: zones, columns named once, many decimals, no symbols;
their calendars and tickers.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from ktdeval.cli.main import main
from ktdeval.errors import DataError
from ktdeval.testing import Terminal
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.check import check_dataset
from ktdeval_qfinzero.data.dataset import Dataset, open_dataset
from ktdeval_qfinzero.data.ingest import ingest_dataset, ingest_update
from ktdeval_qfinzero.data.ingest_spec import load_spec
from ktdeval_qfinzero.data.rows import MomentSpan
from ktdeval_qfinzero.timestamps import moment_text, parse_moment
from ktdeval_qfinzero.trading_hours import trading_hours
from support.paths import REPOSITORY
from support.qfinzero.qfinzero_calls import ask, refused

pytestmark = pytest.mark.slow

SHARED = REPOSITORY.parent / "shared" / "data"
EVER = MomentSpan(0, 2**62)
HEAD = "name: vendor\ndefault_as_of: 2025-01-08\n"


def imported(folder: Path, spec: str, **files: str) -> int:
    """Exit code of an import of some files."""
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)

    (folder / "spec.yaml").write_text(HEAD + spec)

    return main(
        ["data", "make", "qfinzero_files", str(folder / "spec.yaml"), "--out", str(folder / "made")]
    )


def made(folder: Path, spec: str, **files: str) -> Path:
    """A dataset imported from some files."""
    assert imported(folder, spec, **files) == 0
    return folder / "made"


TIMES = {
    "A": ("2025-01-06 09:30:00-05:00", "2025-01-06 09:31:00-05:00", ""),
    "B": ("2025-01-06 14:30:00+00:00", "2025-01-06 14:31:00+00:00", ", zone: UTC"),
    "C": ("2025-01-06T09:30:00-0500", "2025-01-06T09:31:00-0500", ""),
    "D": ("2025-01-06 09:30:00", "2025-01-06 09:31:00", ""),
    "E": ("2025-01-06T09:30", "2025-01-06T09:31", ", zone: America/New_York"),
    "F": ("2025-01-06 14:30:00 UTC", "2025-01-06 14:31:00 UTC", ""),
    "G": ("2025-01-06 14:30:00", "2025-01-06 14:31:00", ", zone: UTC"),
}  #: By ticker: two spellings of times, and what its source says of its zone; the spec says New York


def test_minute_times_use_their_own_zone_or_that_of_source_or_spec(
    tmp_path: Path,
) -> None:
    head = "Datetime,Ticker,Open,High,Low,Close,Volume\n"
    files = {}
    for ticker, (*times, _) in TIMES.items():
        rows = [f"{time},{ticker},10.123456,11,9.5,10.5,100\n" for time in times]
        files[ticker] = head + "".join(rows)

    days = head + "".join(f"2025-01-06,{ticker},10,11,9.5,10.5,200\n" for ticker in TIMES)
    sources = [
        f"  - {{file: {ticker}.csv, asset_class: stock, resolution: minute{zone}}}\n"
        for ticker, (*_, zone) in TIMES.items()
    ]
    spec = (
        "zone: America/New_York\nbars:\n  - {file: days.csv, asset_class: stock, resolution: day}\n"
        + "".join(sources)
    )
    prices = open_dataset(made(tmp_path, spec, days=days, **files)).prices

    for ticker in TIMES:
        starts = prices.bars("stock", ticker, "minute", EVER).start_ns.tolist()
        assert [moment_text(start) for start in starts] == [
            "2025-01-06T14:30:00Z",
            "2025-01-06T14:31:00Z",
        ], ticker


@pytest.mark.parametrize("time", ["2024-03-10 02:30", "2024-11-03 01:30"])
def test_local_time_skipped_or_repeated_by_clock_changes_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], time: str
) -> None:
    head = "time,open,high,low,close,volume"
    row = "10,11,9.5,10.5,100"
    source = "asset_class: stock, symbol: AVLN, resolution"
    spec = (
        f"zone: America/New_York\nbars:\n  - {{file: days.csv, {source}: day}}\n  - {{file:"
        f" minutes.csv, {source}: minute}}\n"
    )
    days = f"{head}\n2024-03-08,{row}\n"

    assert imported(tmp_path, spec, days=days, minutes=f"{head}\n{time},{row}\n") == 2

    error = capsys.readouterr().err
    assert f"which clocks in America/New_York show once, was '{time}'" in error


def test_minutes_may_be_stamped_with_their_end_across_a_lunch_break(
    tmp_path: Path, terminal: Terminal
) -> None:
    clock = product((9, 10, 11, 13, 14, 15), range(60))
    times = [f"{hour:02}:{minute:02}" for hour, minute in clock]
    ends = [time for time in times if "09:31" <= time <= "11:30" or "13:01" <= time <= "15:00"]
    rows = [
        f"2025-01-06 {time},{10 + index},{10 + index},{10 + index},{10 + index},100"
        for index, time in enumerate(ends)
    ]
    files = {
        "minutes": "\n".join(["time,open,high,low,close,volume", *rows]),
        "days": "time,open,high,low,close,volume\n2025-01-06,10,249,10,249,24000\n",
    }
    source = "asset_class: stock, symbol: 600519.SH, resolution"
    spec = (
        "calendar: XSHG\nzone: Asia/Shanghai\nbars:\n  - {file: days.csv, %s: day}\n  - {file:"
        " minutes.csv, %s: minute%s}\n"
    )

    for name, stamped, warned in (("a", "", True), ("b", ", stamped: end", False)):
        (tmp_path / name).mkdir()
        folder = made(tmp_path / name, spec % (source, source, stamped), **files)
        printed = terminal.out("data", "check", folder)
        assert (
            "2 bars start outside the exchange's sessions" in printed
            and "`stamped: end`" in printed
        ) is warned

    given = {"tickers": "600519.SH", "start": "2025-01-06", "end": "2025-01-06", "interval": "60m"}
    morning = [("01:30", "02:30", 10), ("02:30", "03:30", 70)]
    for as_of, afternoon in (
        ("2025-01-06T07:00:00Z", [("05:00", "06:00", 130), ("06:00", "07:00", 190)]),
        ("2025-01-06T05:10:30Z", [("05:00", "05:10", 130)]),
    ):
        workspace = Workspace(open_dataset(folder), parse_moment(as_of, "as_of"))
        bars = ask(workspace, "UPQ.stock.minute", **given)["bars"]
        shown = [
            (row["window_start"][11:16], row["window_end"][11:16], row["open"]) for row in bars
        ]
        assert shown == morning + afternoon


def test_columns_are_named_once_and_decimals_rounded_with_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = (
        "zone: America/New_York\ncolumns: {symbol: code, open: o, high: h, low: l, close: c,"
        " volume: v}\nignore: [Adj Close]\nbars:\n  - {file: one.csv, asset_class: stock,"
        " resolution: day}\n  - {file: two.csv, asset_class: crypto, resolution: day}\n"
    )
    head = "Date,code,o,h,l,c,v,Adj Close\n"
    one = f"{head}2025-01-06 00:00:00-05:00,AVLN,10.12345,11,9.5,10.50000001,100.0,10\n"
    folder = made(tmp_path, spec, one=one, two=f"{head}2025-01-06,BTC-USD,1,2,1,2,0.5,2\n")
    printed = capsys.readouterr().out

    assert (
        "note: 2 prices had more than four decimals and were rounded to these; `round: false`"
        " refuses them" in printed
    )
    assert (
        "note: no symbols were given: 2 were made of the bars, each listed from its first one on"
        in printed
    )

    dataset = open_dataset(folder)
    bars = dataset.prices.bars("stock", "AVLN", "day", EVER)

    assert (moment_text(int(bars.start_ns[0])), int(bars.open_e4[0])) == (
        "2025-01-06T00:00:00Z",
        101_234,
    )
    assert [row.symbol for row in dataset.prices.symbols(2**62)] == ["AVLN", "BTC-USD"]
    assert main(["data", "check", str(folder)]) == 0


@pytest.mark.exhaustive
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"needs the data at {SHARED}")
def test_real_vendor_files_are_imported_with_one_column_map(tmp_path: Path) -> None:
    us = SHARED / "us_daily" / "nasdaq100_daily.csv.gz"
    coins = SHARED / "crypto_daily" / "crypto10_daily.csv.gz"
    spec = (
        f"columns: {{symbol: code}}\nbars:\n  - {{file: {us}, asset_class: stock, resolution:"
        f" day}}\n  - {{file: {coins}, asset_class: crypto, resolution: day}}\n"
    )
    dataset = open_dataset(made(tmp_path, spec))
    bars = dataset.prices.bars("stock", "AAPL", "day", EVER)

    assert (len(bars), int(bars.close_e4[0])) == (106, 2_017_000)
    assert len(dataset.prices.symbols(2**62)) == 112


# -- markets of other venues


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
# the Spring Festival closes the exchange in between
DAYS = ("2025-01-23", "2025-01-24", "2025-01-27", "2025-02-05")
CONTRACT = "O:SPXW250321C06000000"


def bars(*symbols: str, days: tuple[str, ...] = DAYS) -> str:
    rows = [
        f"{symbol},{day},10,11,9,{10 + index / 10},100000"
        for symbol, (index, day) in product(symbols, enumerate(days))
    ]
    return "\n".join(["symbol,time,open,high,low,close,volume", *rows])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    symbols = [
        *("600519.SH,stock,Moutai,2020-01-01,false", "^GSPC,stock,Index,2020-01-01,true"),
        *("BTC-USD,crypto,Bitcoin,2020-01-01,false", "1INCH-USD,crypto,1inch,2020-01-01,false"),
    ]
    texts = {
        "stocks.csv": bars("600519.SH", "^GSPC"),
        "coins.csv": bars("BTC-USD", "1INCH-USD"),
        "options.csv": bars(CONTRACT),
        "symbols.csv": "\n".join(["symbol,asset_class,name,listed,has_options", *symbols]),
        "contracts.csv": f"symbol,listed,underlying\n{CONTRACT},2025-01-02,^GSPC",
        "spec.yaml": SPEC.format(calendar="XSHG"),
        "open.yaml": SPEC.format(calendar="24/7"),
    }

    for name, text in texts.items():
        (folder / name).write_text(text + "\n")

    return folder


@pytest.fixture(scope="module")
def dataset(files: Path) -> Dataset:
    folder = files / "made"
    ingest_dataset(load_spec(files / "spec.yaml"), files, folder)
    assert check_dataset(folder) == ()
    return open_dataset(folder)


@pytest.mark.parametrize(
    ("name", "ticker"),
    [("stock", "600519.SH"), ("stock", "^GSPC"), ("crypto", "BTC-USD"), ("crypto", "1INCH-USD")],
)
def test_tickers_of_any_market_are_stored_and_found(
    dataset: Dataset, name: str, ticker: str
) -> None:
    answer = ask(
        Workspace(dataset),
        f"UPQ.{name}.daily",
        tickers=ticker,
        start="2025-01-23",
        end="2025-02-05",
        fields="close",
    )

    # as of the session's close
    assert [row["close"] for row in answer["bars"]] == ([10.0, 10.1] if name == "stock" else [10.0])


@pytest.mark.parametrize(
    "ticker", ["aapl", "A_B", "A/B", "../X", "A B", "-A", ".A", "A" * 17, "=X"]
)
def test_an_invalid_ticker_is_refused_with_its_form(dataset: Dataset, ticker: str) -> None:
    days = {"start": "2025-01-23", "end": "2025-02-05"}
    assert "tickers: expected tickers in capitals, separated by commas" in str(
        refused(ask, Workspace(dataset), "UPQ.stock.daily", tickers=ticker, **days)
    )


def test_an_option_is_found_by_its_underlying_though_its_root_is_another(
    dataset: Dataset, files: Path, tmp_path: Path
) -> None:
    workspace = Workspace(dataset)
    chain = ask(
        workspace,
        "UPQ.option.chain_query",
        underlying="^GSPC",
        date="2025-01-24",
        include_greeks=True,
    )
    (row,) = chain["contracts"]

    assert (row["contract"], row["underlying"], row["strike"], row["greek_spot"]) == (
        CONTRACT,
        "^GSPC",
        6000,
        10.1,
    )

    history = ask(
        workspace,
        "UPQ.option.ticker_query",
        contract=CONTRACT,
        start="2025-01-23",
        end="2025-02-05",
    )

    assert [each["underlying"] for each in history["bars"]] == ["^GSPC"] * 2

    updated = shutil.copytree(files / "made", tmp_path / "made")
    (tmp_path / "options.csv").write_text(bars(CONTRACT, days=("2025-02-06",)))
    (tmp_path / "more.yaml").write_text(
        "name: more\nbars: [{file: options.csv, asset_class: option, resolution: day}]"
    )
    ingest_update(load_spec(tmp_path / "more.yaml"), tmp_path, updated)

    assert len(open_dataset(updated).prices.chain_bars("^GSPC", "day", MomentSpan(0, 2**62))) == 1


def test_sessions_and_money_follow_the_datasets_market(dataset: Dataset) -> None:
    workspace = Workspace(dataset)
    assert "CNY" in str(refused(ask, workspace, "PMB.account.create", base_currency="USD"))

    opened = ask(workspace, "PMB.account.create", initial_cash=10_000)
    assert opened["account"]["base_currency"] == "CNY"

    account = {"account_id": opened["account_id"]}
    span = {
        "frequency": "1d",
        "start_ts": "2025-01-25",
        "end_ts": "2025-02-28",
        "universe": {"stocks": ["600519.SH"]},
    }
    session = {"session_id": ask(workspace, "PMB.session.create", **account, **span)["session_id"]}
    order = {
        "instrument": {"type": "STOCK", "symbol": "600519.SH"},
        "side": "BUY",
        "order_type": "MARKET",
        "qty": 10,
    }
    ask(workspace, "PMB.order.place", **account, **session, order=order)
    closes = [ask(workspace, "PMB.session.step", **session)["as_of_ts"] for _ in range(2)]

    assert closes == ["2025-01-27T07:00:00Z", "2025-02-05T07:00:00Z"]
    assert ask(workspace, "PMB.account.positions", **account)["positions"][0]["qty"] == 10


def test_always_open_market_has_a_session_each_day(files: Path, tmp_path: Path) -> None:
    files = shutil.copytree(files, tmp_path / "files")
    (files / "stocks.csv").write_text(
        bars("600519.SH", "^GSPC", days=("2025-01-24", "2025-01-25", "2025-01-26"))
    )
    info, _ = ingest_dataset(load_spec(files / "open.yaml"), files, files / "open")

    assert check_dataset(files / "open") == ()  # a weekend is no day outside of sessions
    assert info.hours.session_day(info.default_as_of_ns).isoformat() == "2025-01-24"
    assert all(info.hours.open_ns[1:] == info.hours.close_ns[:-1])

    (files / "moon.yaml").write_text(SPEC.format(calendar="MOON"))

    with pytest.raises(DataError, match="XSHG or 24/7, was 'MOON'"):
        ingest_dataset(load_spec(files / "moon.yaml"), files, files / "moon")

    assert not (files / "moon").exists()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "first_year"), [("AIXK", 2017), ("XSAU", 2021)])
def test_a_calendar_reaches_as_far_as_its_holidays_are_known(name: str, first_year: int) -> None:
    assert trading_hours(name).day(0).year == first_year


# which of them fail depends on the versions of exchange_calendars and pandas
@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["ASEX", "XBEL", "XTAE"])
def test_a_calendar_that_can_not_be_made_is_refused(name: str) -> None:
    with suppress(DataError):
        assert (np.diff(trading_hours(name).close_ns) > 0).all()


def test_coins_trade_around_the_clock_in_parts_by_a_step(tmp_path: Path) -> None:
    """A unit is a thousandth of a coin: 7 units are 0.007 coins, at a thousandth of its price."""
    days = [
        f"2025-01-{day:02},{60_000 + 100 * day}.15,{61_000 + 100 * day},59000,{60_500 + 100 * day}.25,12.3456"
        for day in range(3, 14)
    ]
    (tmp_path / "btc.csv").write_text("\n".join(["Date,Open,High,Low,Close,Volume", *days]) + "\n")
    (tmp_path / "spec.yaml").write_text(
        "name: coins\ncalendar: 24/7\ncurrency: USD\ndefault_as_of: 2025-01-10\nbars: [{file:"
        " btc.csv, asset_class: stock, resolution: day, symbol: BTC-USD, unit: 0.001}]\n"
    )
    ingest_dataset(load_spec(tmp_path / "spec.yaml"), tmp_path, tmp_path / "made")

    assert check_dataset(tmp_path / "made") == ()

    workspace = Workspace(open_dataset(tmp_path / "made"))
    assert ask(workspace, "UPQ.symbols.list")["symbols"][0]["name"] == "0.001 BTC-USD"

    account = {"account_id": ask(workspace, "PMB.account.create", initial_cash=1_000)["account_id"]}
    span = {
        "frequency": "1d",
        "start_ts": "2025-01-10",
        "end_ts": "2025-01-13",
        "universe": {"stocks": ["BTC-USD"]},
    }
    rules = {"fills": {"slippage_bps": 0, "max_volume_pct": 100}, "fees": {"stock_per_share_e4": 0}}
    error = refused(ask, workspace, "PMB.session.create", **account, **{**span, "frequency": "1m"})

    assert "the market has no bars of minutes; take 1d" in str(error)

    begun = ask(workspace, "PMB.session.create", **account, **span, execution_config=rules)
    session = {"session_id": begun["session_id"]}
    order = {
        "instrument": {"type": "STOCK", "symbol": "BTC-USD"},
        "side": "BUY",
        "order_type": "MARKET",
        "qty": 7,
    }
    ask(workspace, "PMB.order.place", **account, **session, order=order)
    stepped = ask(workspace, "PMB.session.step", **session, step=2)

    # the eleventh is a Saturday, and over at its midnight
    assert stepped["as_of_ts"] == "2025-01-12T00:00:00Z"

    (trade,) = ask(workspace, "PMB.account.trades", **account)["trades"]
    assert (trade["qty"], trade["price"]) == (7, 61.0002)  # 61,000.15 of the tenth
    assert ask(workspace, "PMB.account.get", **account)["account"]["cash"] == pytest.approx(
        1_000 - 7 * 61.0002
    )

    good = {
        **order,
        "side": "SELL",
        "order_type": "LIMIT",
        "limit_price": 61.0,
        "time_in_force": "GTD",
        "expire_ts": "2025-01-12",
    }
    ask(workspace, "PMB.order.place", **account, **session, order=good)
    stepped = ask(workspace, "PMB.session.step", **session, step=5)

    assert stepped["as_of_ts"] == "2025-01-14T00:00:00Z"  # to the end of the thirteenth

    (sold,) = ask(workspace, "PMB.account.trades", **account)["trades"][1:]
    # 61,200.15 of the twelfth, whose bar ends with the day
    assert (sold["qty"], sold["price"]) == (7, 61.2002)

    summary = ask(workspace, "PMB.session.summary", **session)
    closes = np.array([61.5002, 61.6002]) * 7 + 1_000 - 7 * 61.0002
    levels = [1_000, *closes, *[1_000 + 7 * 0.2] * 2]
    returns = np.diff(levels) / levels[:-1]

    assert summary["sharpe"] == pytest.approx(returns.mean() / returns.std(ddof=1) * 365**0.5)
