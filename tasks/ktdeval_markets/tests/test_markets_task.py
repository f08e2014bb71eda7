"""Tasks on any market: what is shown, in which words, and how fractional and short orders are
handled; the history table: which bars, adjusted for what, under which masks, and that it contains
nothing after the close.
"""

from __future__ import annotations

import dataclasses
import json
import re
from datetime import datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from ktdeval.errors import ConfigError, LeakError
from ktdeval.market import (
    Document,
    Documents,
    Instrument,
    MarketSnapshot,
    MinuteBars,
    duties_id,
    find_venue,
)
from ktdeval.market.snapshots.documents import Entity
from ktdeval.market.venues.close_times import Close
from ktdeval.masking import identities_of
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.registry import load_plugins
from ktdeval.runner.episodes.shown_account import SeenBooks
from ktdeval.task_api import Window
from ktdeval.task_api.scoring import market_problem
from ktdeval.testing import scene_on, snapshot_of_days
from ktdeval.trading import AccountConfig, MarketTape, trading_rules
from ktdeval_investorbench.markets import make_twin
from ktdeval_investorbench.provider_params import InvestorMarketParams
from ktdeval_markets import task as task_module
from ktdeval_markets.prompt_texts import board_lines
from ktdeval_markets.task import MarketTask
from support.tasks.markets_scenes import scene_from

CODES = ("BTC", "COST", "TSLA")
N_DAYS = 70
PLUGINS = load_plugins()


def market(poison_after: int | None = None) -> MarketSnapshot:
    """A coin and two stocks that rest at every third day; poisoned after a row where one is
    given.
    """
    chance = np.random.default_rng(3)
    prices = np.round(
        np.array([60_000.5, 940.0, 300.0])
        * np.cumprod(1 + 0.02 * chance.standard_normal((N_DAYS, 3)), axis=0),
        2,
    )
    prices[2::3, 1:] = np.nan

    if poison_after is not None:
        prices[poison_after + 1 :] *= 7.7

    instruments = (
        Instrument("crypto", "USD", "crypto_spot"),
        *(Instrument("stock", "USD", "us_equity"),) * 2,
    )
    made = snapshot_of_days(
        CODES,
        prices.tolist(),
        instruments=instruments,
        volume=np.where(np.isnan(prices), np.nan, 1234.5).tolist(),
    )
    meta = dataclasses.replace(made.meta, benchmark="")

    return dataclasses.replace(
        made,
        meta=meta,
        indices={},
        index_names={},
        days=np.datetime64("2025-01-01") + np.arange(N_DAYS),
    )


def task(name: str = "market_blinded") -> MarketTask:
    made = PLUGINS.make_task(name)
    assert isinstance(made, MarketTask)
    return made


def scene_of(snapshot: MarketSnapshot, name: str = "market_blinded", seed: int = 0) -> Any:
    return scene_on(task(name), snapshot, Window("w", "2025-03-05", "2025-03-10"), seed)


def state_of(user: str) -> dict[str, Any]:
    match = re.search(r"```json\n(.*?)\n```", user, re.DOTALL)
    assert match is not None
    shown: dict[str, Any] = json.loads(match[1])
    return shown


@pytest.mark.parametrize("name", ["market_blinded", "market_bright", "market_minutes_blinded"])
def test_nothing_after_the_close_changes_a_byte(name: str) -> None:
    for row in (62, 65, 68):
        shown = [
            scene_of(snapshot, name).observe(0, snapshot.as_of(row), None, None)
            for snapshot in (with_minutes(market()), with_minutes(market(poison_after=row), row))
        ]
        assert shown[0] == shown[1]
        assert ("intraday" in shown[0].user) == (name == "market_minutes_blinded")


def test_step_shows_the_account_and_every_asset_with_figures_to_date() -> None:
    snapshot = market()
    scene = scene_of(snapshot, "market_bright")
    row = 62
    observation = scene.observe(0, snapshot.as_of(row), None, None)
    shown = state_of(observation.user)

    assert shown["account"] == {
        "cash": 1e5,
        "holdings": 0.0,
        "nav": 1e5,
        "cash_weight": 1.0,
        "portfolio_return_pct": 0.0,
        "positions_held": 0,
    }

    rows = {
        one[0]: dict(zip(shown["candidates"]["columns"], one, strict=True))
        for one in shown["candidates"]["rows"]
    }

    assert set(rows) == set(CODES)

    coin = rows["BTC"]
    closes = snapshot.close[: row + 1, 0]

    assert (coin["kind"], coin["status"], rows["TSLA"]["status"]) == ("crypto", "trading", "closed")
    assert coin["close"] == pytest.approx(closes[-1], rel=1e-5)
    assert coin["return_5d_pct"] == pytest.approx((closes[-1] / closes[-6] - 1) * 100, rel=1e-3)
    assert coin["return_60d_pct"] == pytest.approx((closes[-1] / closes[-61] - 1) * 100, rel=1e-3)

    moves = closes[-20:] / closes[-21:-1] - 1
    assert coin["volatility_20d_pct"] == pytest.approx(np.std(moves, ddof=1) * 100, rel=1e-3)
    assert coin["drawdown_60d_pct"] == pytest.approx(
        (closes[-1] / closes[-61:].max() - 1) * 100, rel=1e-3
    )


def test_the_blinded_task_shows_no_symbol_and_the_guard_knows_them() -> None:
    snapshot = market()
    scene = scene_of(snapshot)
    observation = scene.observe(0, snapshot.as_of(62), None, None)
    guard = LeakGuard(scene.lens, snapshot)
    guard.check(observation.system)
    guard.check(observation.user)

    assert set(re.findall(r"asset_\d{4}", observation.user)) == {
        scene.lens.asset_handle(asset) for asset in range(3)
    }

    for text in ("buy TSLA now", "(BTC-USD)", "$COST", "COST is up"):
        with pytest.raises(LeakError, match="which the mask hides"):
            guard.check(text)

        assert "[withheld]" in guard.redact(text)

    guard.check("it would cost much")

    assert scene.lens.is_hidden_identity("tsla")


def with_minutes(
    snapshot: MarketSnapshot, poison_after: int | None = None, ends: int = 20
) -> MarketSnapshot:
    """Bars of a quarter of an hour up to each close, and a trade after those of stocks; others
    after a row where one is given.
    """
    rows = []

    for row, day in enumerate(snapshot.days[50:], start=50):
        for code, close in zip(CODES, snapshot.close[row], strict=True):
            at = (
                Close.parse("24:00 UTC" if code == "BTC" else "16:00 America/New_York").instant(day)
                // 60_000_000
            )
            late = poison_after is not None and row > poison_after
            for index in range(ends if close == close else 0):
                price = close * (9.0 if late else 1.0 + (index - ends + 1) / 1000)
                rows.append(
                    (
                        code,
                        at - 15 * (ends - 1 - index),
                        price,
                        price * 1.01,
                        price * 0.99,
                        price,
                        10.0 + index,
                    )
                )

            if code != "BTC" and close == close:
                after = 777.0 if poison_after is not None and row >= poison_after else 666.0
                rows.append((code, at + 30, 1.0, after, 1.0, after, 5.0))

    table = pd.DataFrame(
        rows, columns=["code", "ends_at", "open", "high", "low", "close", "volume"]
    )
    table["ends_at"] = table["ends_at"].to_numpy().astype("M8[m]").astype("M8[s]")

    return dataclasses.replace(snapshot, minutes=MinuteBars.of(table))


def test_session_is_summarised_in_few_bars_under_handles() -> None:
    row = 62  # stocks rest
    snapshot = with_minutes(market(), ends=50)
    scene = scene_of(snapshot, "market_minutes_blinded")
    observation = scene.observe(0, snapshot.as_of(row), None, None)
    shown = state_of(observation.user)["intraday"]

    assert shown["columns"] == [
        "stock_id",
        "day",
        "session_pct",
        "open",
        "high",
        "low",
        "close",
        "volume",
    ]

    bars = {
        code: [one for one in shown["rows"] if one[0] == scene.lens.asset_handle(asset)]
        for asset, code in enumerate(CODES)
    }

    assert [len(listed) for listed in bars.values()] == [20, 20, 20]
    assert {one[1] for one in bars["BTC"]} == {scene.lens.day_handle(row)}
    # The stock rested on the day of the decision: its last session, and the trade after its close,
    # which is known by now.
    assert {one[1] for one in bars["TSLA"]} == {scene.lens.day_handle(row - 1)}

    coin = bars["BTC"]
    close = snapshot.close[row, 0]

    assert bars["TSLA"][-1][4] == 666
    assert [one[2] for one in coin] == sorted(one[2] for one in coin)

    # 50 bars in 20 parts of equal time: two bars end in the first, which has half of the third
    # one's volume.
    prices = [
        pytest.approx(close * part, rel=1e-5) for part in (0.951, 0.952 * 1.01, 0.951 * 0.99, 0.952)
    ]

    assert coin[0][2:] == [5.0, *prices, 10 + 11 + 12 / 2]

    prices = [pytest.approx(close * part, rel=1e-5) for part in (0.998, 1.01, 0.998 * 0.99, 1.0)]
    assert coin[-1][2:] == [100.0, *prices, 57 / 2 + 58 + 59]

    # On a day of trade, what ended after the close is not known yet.
    traded = state_of(scene.observe(0, snapshot.as_of(row - 1), None, None).user)["intraday"][
        "rows"
    ]

    assert {one[1] for one in traded} == {scene.lens.day_handle(row - 1)}
    assert 666 not in [one[4] for one in traded]

    guard = LeakGuard(scene.lens, snapshot)
    guard.check(observation.system)
    guard.check(observation.user)

    assert not re.search(r"\d\d:\d\d|2025|New_York|UTC|TSLA|COST", observation.user)
    assert "session_pct" in observation.system
    assert "$" not in observation.system

    plain = scene_of(snapshot).observe(0, snapshot.as_of(row), None, None)
    assert "intraday" not in plain.system + plain.user

    sentence = (Path(task_module.__file__).parent / "prompts" / "intraday.md").read_text().rstrip()
    order = " `intraday` goes through the session of each asset,"
    assert observation.system.replace(sentence, "").replace(order, "") == plain.system


def test_intraday_bars_are_optional_and_need_a_market_that_has_them() -> None:
    assert task().describe()["intraday"] is None
    assert sorted(task().describe()["prompts"]) == [
        "duties.yaml",
        "prompts/orders.md",
        "prompts/submit_orders.md",
        "prompts/user.md",
        "wording.yaml",
    ]
    assert "prompts/intraday.md" in task("market_minutes_blinded").describe()["prompts"]
    assert market_problem(task(), market()) is None
    assert market_problem(task("market_minutes_blinded"), with_minutes(market())) is None
    assert str(market_problem(task("market_minutes_blinded"), market())).startswith(
        "market_minutes_blinded shows bars within days; tiny has none: import some (--minutes)"
    )

    with pytest.raises(ConfigError, match="noise_pct and intraday cannot be combined"):
        history_of(market(), intraday=3, noise_pct=1.0)


def filled_within_day(fill: Any, name: str = "market_blinded", **options: Any) -> MarketTask:
    """A task whose orders trade under the rules of stocks, at a mean of the day's bars."""
    account = dataclasses.replace(task(name)._config.trading, venue="us_equity", fill=fill)
    return MarketTask(name, dataclasses.replace(task(name)._config, trading=account, **options))


@pytest.mark.parametrize(
    ("fill", "words"),
    [
        ("vwap_30m", "the average price of the first 30 minutes of the next day, weighted by"),
        ("twap_day", "the average price of the whole next day, which may differ"),
    ],
)
def test_intraday_fills_are_in_the_rules_and_need_minute_data(fill: str, words: str) -> None:
    made = filled_within_day(fill)
    window = Window("w", "2025-03-05", "2025-03-10")
    snapshot = with_minutes(market())
    scene = scene_on(made, snapshot, window, 0)
    system = scene.observe(0, snapshot.as_of(62), None, None).system

    assert f"Your orders execute at {words}" in system
    assert "fills_within_day.yaml" in made.describe()["prompts"]
    assert market_problem(made, snapshot) is None
    assert market_problem(made, market()) == (
        f"market_blinded: orders fill at {fill}, which needs minute bars, but tiny has none;"
        " import some (--minutes), or choose another fill"
    )


def test_a_cap_by_volume_is_told_to_be_of_the_minutes() -> None:
    account = dataclasses.replace(
        task()._config.trading, venue="us_equity", fill="vwap_30m", execution="sqrt"
    )
    made = MarketTask("capped", dataclasses.replace(task()._config, trading=account))
    snapshot = with_minutes(market())
    scene = scene_on(made, snapshot, Window("w", "2025-03-05", "2025-03-10"), 0)
    system = scene.observe(0, snapshot.as_of(62), None, None).system
    assert "limited to a part of the day's volume, the volume of these minutes counts." in system


@pytest.mark.parametrize("options", [{"round_digits": 3}, {"noise_pct": 1.0}])
def test_fills_within_the_day_are_refused_under_masks_that_change_prices(
    options: dict[str, Any],
) -> None:
    made = filled_within_day("twap_day", **options)
    with pytest.raises(ConfigError, match=r"trading\.fill twap_day and round_digits or noise"):
        made._config.check("task x")

    # and where the venue of the market's own assets has the rule
    snapshot = with_minutes(market())
    scene = scene_on(made, snapshot, Window("w", "2025-03-05", "2025-03-10"), 0)
    tape = MarketTape.from_snapshot(snapshot, made.trading)
    with pytest.raises(ConfigError, match=r"orders fill at twap_day, .*this mask rounds prices"):
        SeenBooks(scene.lens, snapshot, tape, made.trading)


def test_news_of_one_moment_is_not_ordered_by_code() -> None:
    moment = datetime.fromisoformat("2025-03-03T15:00").replace(tzinfo=ZoneInfo("America/New_York"))
    items = [
        Document(moment, moment, "The Wire", "news", (code,), "Something happened", "")
        for code in CODES
    ]
    snapshot = dataclasses.replace(
        market(), documents=Documents.of(items, Close(16, 0, "America/New_York"))
    )
    seen = set()

    for seed in range(40):
        scene = scene_of(snapshot, "market_news_blinded", seed)
        rows = state_of(scene.observe(0, snapshot.as_of(62), None, None).user)["news"]["rows"]
        handles = [scene.lens.asset_handle(asset) for asset in range(3)]
        seen.add(tuple(handles.index(row[3][0]) for row in rows))

    assert len(seen) == 6, "every order of the three"


def test_venue_rule_overrides_are_part_of_the_task_and_need_a_venue() -> None:
    rules = trading_rules(
        {"initial_cash": 5, "venue": "frictionless", "fees": {"buy_bps": 5}, "fill": "next_close"},
        "card",
    )

    assert rules.venue is not None
    assert (rules.venue.fees.buy_bps, rules.venue.fill, rules.initial_cash) == (5, "next_close", 5)

    with pytest.raises(ConfigError, match="fees: name the venue"):
        trading_rules({"initial_cash": 5, "fees": {"buy_bps": 5}}, "card")

    assert trading_rules({"initial_cash": 7, "buy_fee_bps": 5.0}, "card").initial_cash == 7
    assert AccountConfig().rules("task").venue is None
    assert task().describe()["venue_rules"] is None


def test_news_known_at_the_close_is_masked_and_never_cut_within_a_name() -> None:
    zone = ZoneInfo("America/New_York")

    def item(day: str, title: str, text: str = "", codes: tuple[str, ...] = ("TSLA",)) -> Document:
        moment = datetime.fromisoformat(f"{day}T15:00").replace(tzinfo=zone)
        return Document(moment, moment, "The Wire", "news", codes, title, text)

    long_text = "TSLA " * 600
    items = [
        item("2025-03-03", "TSLA up on 2025-03-02", long_text),
        item("2025-03-04", "Old coins and TSLA", codes=()),
        item("2025-03-05", "later"),
    ]
    entities = (Entity("TSLA", "name", "Tesla"),)
    snapshot = dataclasses.replace(
        market(), documents=Documents.of(items, Close(16, 0, "America/New_York"), entities)
    )
    scene = scene_of(snapshot, "market_news_blinded")
    row = snapshot.day_index("2025-03-04")
    news = state_of(scene.observe(0, snapshot.as_of(row), None, None).user)["news"]
    rows = [dict(zip(news["columns"], one, strict=True)) for one in news["rows"]]
    handle = scene.lens.asset_handle(2)

    assert [one["title"] for one in rows] == [f"Old coins and {handle}", f"{handle} up on day_-2"]
    assert [one["stock_ids"] for one in rows] == [[], [handle]]

    begin, end = re.split(r"\[… [0-9,]+ characters cut …\]", rows[1]["text"])
    assert {*begin.split(), *end.split()} == {handle}
    assert 1_900 < len(rows[1]["text"]) <= 2_000
    assert news["withheld"] == 0
    assert "newest documents" in scene.observe(0, snapshot.as_of(row), None, None).system
    assert "news" not in state_of(
        scene_of(snapshot).observe(0, snapshot.as_of(row), None, None).user
    )


@pytest.mark.exhaustive
def test_long_document_is_cut_between_words_so_no_cut_reads_as_a_month() -> None:
    moment = datetime.fromisoformat("2025-03-03T15:00").replace(tzinfo=ZoneInfo("America/New_York"))
    for shift in range(1, 45):
        long_text = f"{'x' * shift} {'Investment Decisions ' * 200}"
        documents = Documents.of(
            [Document(moment, moment, "The Wire", "news", (), "", long_text)],
            Close(16, 0, "America/New_York"),
        )
        snapshot = dataclasses.replace(market(), documents=documents)
        scene = scene_of(snapshot, "market_news_blinded")
        shown = scene.observe(0, snapshot.as_of(62), None, None).user
        text = state_of(shown)["news"]["rows"][0][-1]
        begin, end = re.split(r"\[… [0-9,]+ characters cut …\]", text)
        assert {*begin.split(), *end.split()} == {"x" * shift, "Investment", "Decisions"}
        assert not identities_of(snapshot, assets=True, dates=True).has_any(shown)


# ---- table of the last bars


ROW = 62
SPLIT = 60
COLUMNS = ["stock_id", "day", "open", "high", "low", "close", "volume"]


history_of = partial(scene_from, ROW)


def shown(
    scene: Any, snapshot: MarketSnapshot, row: int = ROW
) -> tuple[dict[str, list[list[Any]]], Any]:
    """Rows of the history and the row of the assets' table, by handle."""
    state = state_of(scene.observe(0, snapshot.as_of(row), None, None).user)

    assert state["history"]["columns"] == COLUMNS

    by_handle: dict[str, list[list[Any]]] = {}

    for handle, *rest in state["history"]["rows"]:
        by_handle.setdefault(handle, []).append(rest)

    return by_handle, {
        row[0]: dict(zip(state["candidates"]["columns"], row, strict=True))
        for row in state["candidates"]["rows"]
    }


def splitting(days: int = 64) -> MarketSnapshot:
    """A share at 100 … 163 whose 2-for-1 split halves its price from row 60 on; row 61 is a
    holiday, and row 58 is recorded without a trade. A second share has closes alone.
    """
    bars = np.arange(100.0, 100 + days) / np.where(np.arange(days) < SPLIT, 1.0, 2.0)
    bars[61] = np.nan
    opens = np.column_stack([bars, np.full(days, np.nan)]).tolist()
    closes = np.column_stack([bars, np.full(days, 7.25)]).tolist()
    volume = np.column_stack(
        [np.where(np.arange(days) < SPLIT, 500.0, 1000.0), np.full(days, np.nan)]
    )
    volume[58, 0], volume[61, 0] = 0.0, np.nan
    factor = np.column_stack([np.where(np.arange(days) < SPLIT, 3.0, 6.0), np.ones(days)]).tolist()
    made = snapshot_of_days(
        ("600001.SH", "600002.SH"), opens, closes, volume=volume.tolist(), factor=factor
    )

    return dataclasses.replace(made, high=made.open, low=made.open)


def test_bars_are_the_last_ones_with_trade_in_shares_of_the_decisions_day() -> None:
    snapshot = splitting()
    bars, table = shown(history_of(snapshot, "bright", history=5), snapshot)
    days = [str(day) for day in snapshot.days]
    # Rows 56, 57 and 59 stood at 156, 157 and 159 before each share became two; 58 saw no trade,
    # and 61 was a holiday.
    expected = [(56, 78.0), (57, 78.5), (59, 79.5), (60, 80.0), (62, 81.0)]

    assert bars["600001.SH"] == [[days[row], *[price] * 4, 1000] for row, price in expected]
    assert bars["600001.SH"][-1][1:] == [table["600001.SH"][name] for name in COLUMNS[2:]]
    assert bars["600002.SH"] == [[day, None, None, None, 7.25, None] for day in days[58:63]]
    # On a day of rest, and before the split, the bars are those known so far.
    assert shown(history_of(snapshot, "bright", history=1), snapshot, 61)[0]["600001.SH"] == [
        [days[60], 80, 80, 80, 80, 1000]
    ]
    assert shown(history_of(snapshot, "bright", history=1), snapshot, 59)[0]["600001.SH"] == [
        [days[59], 159, 159, 159, 159, 500]
    ]
    assert (
        len(shown(history_of(snapshot, "bright", history=500), snapshot)[0]["600002.SH"]) == ROW + 1
    )


@pytest.mark.parametrize("mask", ["blinded", "bright"])
def test_nothing_after_the_close_changes_a_byte_of_the_last_bars(mask: str) -> None:
    for row in (62, 65, 68):
        shown = [
            history_of(one, mask, history=60).observe(0, one.as_of(row), None, None)
            for one in (market(), market(row))
        ]
        assert shown[0] == shown[1]
        assert '"history"' in shown[0].user

    split = splitting()
    later = splitting()
    later = dataclasses.replace(
        later, factor=np.where(np.arange(64)[:, None] > 62, 99.0, later.factor)
    )
    shown = [
        history_of(one, mask, history=60).observe(0, one.as_of(62), None, None)
        for one in (split, later)
    ]

    assert shown[0] == shown[1]


@pytest.mark.parametrize(
    "options",
    [{}, {"rebase_prices": True}, {"noise_pct": 2.0}, {"noise_pct": 2.0, "rebase_prices": True}],
    ids=str,
)
def test_masks_hold_and_bars_agree_with_the_asset_table_across_steps(
    options: dict[str, Any],
) -> None:
    snapshot = splitting()
    scene = history_of(snapshot, history=20, **options)
    before, today = (shown(scene, snapshot, row) for row in (ROW - 2, ROW))
    (bars, table), (earlier, _) = today, before
    share, other = (scene.lens.asset_handle(asset) for asset in range(2))

    assert bars[share][-1][1:] == [table[share][name] for name in COLUMNS[2:]]
    assert [row[0] for row in bars[share]][-4:] == [
        scene.lens.day_handle(row) for row in (57, 59, 60, 62)
    ]
    assert bars[share][:-1] == earlier[share][-19:], "days shown twice are shown alike"

    closes = {row[0]: row[4] for row in bars[share]}
    growth = closes[scene.lens.day_handle(62)] / closes[scene.lens.day_handle(60)]

    assert table[share]["return_1d_pct"] == pytest.approx(100 * growth - 100, abs=0.01), (
        "a day of rest has no noise of its own"
    )

    if options == {"rebase_prices": True}:
        assert closes[scene.lens.day_handle(60)] == 100, "last close known on day_+0, a day of rest"
        assert closes[scene.lens.day_handle(59)] == pytest.approx(100 * 79.5 / 80)

    changes = np.diff(np.log(list(closes.values())))

    assert np.abs(changes).max() < (0.1 if "noise_pct" in options else 0.02), "no jump at the split"
    assert bars[other][0][1] is None

    user = scene.observe(0, snapshot.as_of(ROW), None, None)
    LeakGuard(scene.lens, snapshot).check(user.system + user.user)

    assert "600001" not in user.user + user.system
    assert "1970" not in user.user


@pytest.mark.exhaustive
def test_it_is_an_option_shown_in_the_prompt_and_changes_no_other_task() -> None:
    plugins = load_plugins()
    snapshot = make_twin(InvestorMarketParams())
    base, more = (plugins.make_task(f"investorbench_msft{end}") for end in ("", "_history"))

    assert base.describe()["history"] is None
    assert (
        more.describe()["history"],
        set(more.describe()["prompts"]) - set(base.describe()["prompts"]),
    ) == (
        64,
        {"prompts/history.md"},
    )

    described = {
        name: value
        for name, value in more.describe().items()
        if name not in ("history", "prompts", "name", "summary")
    }

    assert described == {
        name: value for name, value in base.describe().items() if name in described
    }

    window = Window("stock", "2020-10-02", "2021-05-05")
    row = snapshot.day_index("2020-10-01")
    nothing: Any = SimpleNamespace(positions={})
    scenes = [scene_on(task, snapshot, window, name=base.name) for task in (base, more)]
    observations = [scene.observe(0, snapshot.as_of(row), nothing, None) for scene in scenes]
    sentence = (
        (Path(task_module.__file__).parent / "prompts" / "history.md").read_text().rstrip("\n")
    )

    order = " `history` has the bars of each asset from the oldest to the newest,"
    assert observations[1].system.replace(sentence, "").replace(order, "") == observations[0].system

    state = state_of(observations[1].user)
    assert len(state["history"]["rows"]) == 64
    assert {key: value for key, value in state.items() if key != "history"} == state_of(
        observations[0].user
    )

    closes = snapshot.close[: row + 1, snapshot.asset_index["MSFT"]]
    # a market of closes alone: no column of what it does not have
    assert state["history"]["columns"] == ["stock_id", "day", "close"]
    assert "open" not in state["candidates"]["columns"]
    assert [one[2] for one in state["history"]["rows"]] == pytest.approx(
        closes[np.isfinite(closes)][-64:], rel=1e-5
    )


def test_a_task_that_rounds_figures_explains_how_orders_count() -> None:
    for options, words in (
        (
            {"round_digits": 3},
            "are rounded. A `target_weight` counts with 3 digits, the rest being cut off,",
        ),
        (
            {"round_digits": 1, "noise_pct": 1.0},
            "are rounded and not exact. A `target_weight` counts with one digit, the rest",
        ),
        (
            {"noise_pct": 1.0},
            "are not exact. A `target_weight` counts with all its digits and is turned into shares",
        ),
    ):
        made = history_of(market(), **options)
        assert words in made.observe(0, market().as_of(62), None, None).system

    assert (
        "counts with" not in history_of(market()).observe(0, market().as_of(62), None, None).system
    )


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("exchange", "on STAR (`star`) a buy is at least 200 shares"),
        ("paper", "within half a point of the daily limit"),
    ],
)
def test_the_prompt_has_the_rules_of_boards_that_are_in_force(rules: Any, words: str) -> None:
    (line,) = board_lines(rules, [find_venue("us_equity"), find_venue("a_share")])
    assert words in line
    assert board_lines(rules, [find_venue("us_equity")]) == []


@pytest.mark.parametrize("name", ["market_blinded", "market_bright"])
def test_a_market_of_a_shares_shows_the_board_that_each_rule_is_about(name: str) -> None:
    codes = ["300002.SZ", "600001.SH", "688004.SH", "899001.BJ"]
    boards = ["chinext", "main", "star", "bse"]
    shares = snapshot_of_days(codes, [[10.0, 20.0, 30.0, 40.0]] * 70, first="2024-01-02")
    window = Window("W", str(shares.days[65]), str(shares.days[67]))
    scene = scene_on(task(name), shares, window)
    observed = scene.observe(65, shares.as_of(65), None, None)
    table = state_of(observed.user)["candidates"]
    shown = {row[0]: row[table["columns"].index("board")] for row in table["rows"]}
    handles = map(scene.lens.asset_handle, range(len(codes)))

    assert shown == dict(zip(handles, boards, strict=True))

    (line,) = [line for line in observed.system.splitlines() if line.startswith("- Boards")]
    assert [board for board in boards if f"(`{board}`)" in line] == boards


# ---- duties of the day


def shares_until(last: str) -> MarketSnapshot:
    """Two A-shares on 70 weekdays that end on a day."""
    made = snapshot_of_days(["600001.SH", "688004.SH"], [[10.0, 20.0]] * 70)
    days = np.busday_offset(np.datetime64(last), np.arange(-69, 1))
    return dataclasses.replace(made, days=days)


def observed_on(last: str, name: str, **trading: Any) -> Any:
    """What is shown at the close before the last day."""
    shares = shares_until(last)
    made = task(name)
    config = dataclasses.replace(
        made._config, trading=dataclasses.replace(made._config.trading, **trading)
    )
    window = Window("W", str(shares.days[65]), str(shares.days[69]))
    scene = scene_on(MarketTask(name, config), shares, window)

    return scene.observe(4, shares.as_of(68), None, None)


def test_a_mask_of_dates_hides_the_duties_of_the_day() -> None:
    """Days before and after the stamp duty was halved: the same words, but for handles."""
    before, after = (observed_on(last, "market_blinded") for last in ("2023-08-25", "2024-08-30"))

    assert before.system == after.system

    shown = [one.user.split('"candidates"')[0] for one in (before, after)]
    assert shown[0] == shown[1]
    assert "stamp duty and transfer fee as due on the day of the fill;" in before.system
    assert "costs 5 basis points of a buy and 5 of a sell, at least CNY 5 an order" in before.system
    assert "duties" not in state_of(before.user)


def test_only_todays_duties_are_shown_if_days_are_visible() -> None:
    # the last day is the Monday on which the stamp duty was halved; the Friday before is shown
    observed = observed_on("2023-08-28", "market_bright")
    assert "as due on the day of the fill (`duties` has those of today)" in observed.system
    assert state_of(observed.user)["duties"]["rows"] == [
        ["a_share", None, "stamp_duty", "sell", 10.0, 0.0, None],
        ["a_share", None, "transfer_fee", "both", 0.1, 0.0, None],
    ]

    (tomorrow, *_) = state_of(observed_on("2023-08-29", "market_bright").user)["duties"]["rows"]
    assert tomorrow[4] == 5.0


def test_under_the_rules_of_the_paper_the_flat_costs_are_stated() -> None:
    observed = observed_on("2023-08-28", "market_bright", board_rules="paper")
    assert "costs 5 basis points of a buy and 15 of a sell, at least CNY 5" in observed.system
    assert "duties" not in observed.system
    assert "duties" not in state_of(observed.user)


def test_task_whose_fills_may_pay_dated_duties_hashes_their_table() -> None:
    assert task().describe()["duties"] == task("market_bright").describe()["duties"] == duties_id()
    assert "duties" not in task("market_coins_bright").describe()
