"""No look-ahead, the whole catalogue at once: whatever the future is, everything said before it is
the same to the byte.

A story is played twice, over a market and over the same market whose future is another one:
accounts and sessions are opened, orders of every kind sent, time passes up to the moment, and then
everything is read that can be read.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.values import dumps_canonical
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.dataset import Dataset, open_dataset
from ktdeval_qfinzero.data.writing import save_dataset
from ktdeval_qfinzero.timestamps import DAY, MINUTE, SECOND, day_of, moment_text
from ktdeval_qfinzero.trading_hours import trading_hours
from loops import not_empty
from qfinzero_broker_play import thing
from qfinzero_poison import (
    FAR,
    LATER,
    NEAR,
    NEVER,
    NEW_COIN,
    NEW_STOCK,
    PUT,
    in_memory,
    known_bars,
    lawful,
    new_contracts,
    poison,
    small_world,
)
from qfinzero_synthetic import dataset_of, small_market
from qfinzero_world import at
from tables import on_each_row

Call = tuple[str, dict[str, Any]]
Story = Generator[Call, dict[str, Any], None]

LOG_HASH = re.compile(r'"log_hash":"[0-9a-f]{64}",')
ACCOUNT = "acct-000001"
CASH = "acct-000002"
SESSION = "sess-000001"
BOTH = {"account_id": ACCOUNT, "session_id": SESSION}


@dataclass(frozen=True)
class Setting:
    """Where a story takes place. `later, never`: a contract that is listed in the middle of the
    story, and one that never is; `start, end`: of the session.
    """

    #: contracts on AVLN: two calls that expire soon, and a put that expires later
    options: tuple[str, str, str]
    later: str
    never: str
    start: str
    end: str
    frequency: str  #: of its ticks


# ---- the story


def order(side: str, kind: str, symbol: str, qty: int, **more: Any) -> dict[str, Any]:
    return {"instrument": thing(symbol), "side": side, "order_type": kind, "qty": qty, **more}


def legs_of(bought: str, sold: str) -> list[dict[str, Any]]:
    return [
        {"instrument": thing(bought), "side": "BUY"},
        {"instrument": thing(sold), "side": "SELL"},
    ]


def placed(*arguments: Any, **more: Any) -> Call:
    return "PMB.order.place", {**BOTH, "order": order(*arguments, **more)}


def beginning(setting: Setting) -> Story:
    """Accounts and a session; orders of every type, a spread, and what is refused."""
    yield "PMB.account.create", {"initial_cash": 300_000}
    yield "PMB.account.create", {"initial_cash": 40_000, "account_type": "CASH"}
    universe = {
        "stocks": ["AVLN", "BRKT", "CSTL"],
        "options": [*setting.options, setting.later, setting.never],
    }
    span = {"start_ts": setting.start, "end_ts": setting.end, "frequency": setting.frequency}

    for symbol in (NEW_STOCK, "NONE"):
        yield (
            "PMB.session.create",
            {"account_id": ACCOUNT, **span, "universe": {"stocks": ["AVLN", symbol]}},
        )

    yield "PMB.session.create", {"account_id": ACCOUNT, **span, "universe": universe}
    near, far, put = setting.options
    gtc = {"time_in_force": "GTC"}
    yield placed("BUY", "MARKET", "AVLN", 500)
    yield placed("SELL", "MARKET", "BRKT", 200)
    yield placed("BUY", "MARKET", "CSTL", 15)
    yield placed("BUY", "LIMIT", "AVLN", 100, limit_price=90.0, **gtc)
    yield placed(
        "SELL", "LIMIT", "AVLN", 100, limit_price=104.0, time_in_force="GTD", expire_ts=setting.end
    )
    yield placed("SELL", "STOP", "CSTL", 5, stop_price=235.0, **gtc)
    yield placed("BUY", "STOP_LIMIT", "BRKT", 50, stop_price=50.5, limit_price=51.0, **gtc)
    yield placed("BUY", "LIMIT", "CSTL", 100_000, limit_price=200.0, **gtc)
    yield placed("BUY", "MARKET", near, 4)
    yield placed("SELL", "MARKET", put, 2)
    yield placed("SELL", "MARKET", "BRKT", 1_000_000)

    for symbol in (setting.later, setting.never):
        yield placed("BUY", "LIMIT", symbol, 1, limit_price=1.0)

    named = {
        **BOTH,
        "order": order("BUY", "LIMIT", "AVLN", 10, limit_price=95.0, **gtc),
        "client_order_id": "mine",
    }
    yield "PMB.order.place", named
    yield "PMB.order.place", named
    yield "PMB.spread.place", {**BOTH, "legs": legs_of(near, far), "qty": 2}
    yield "PMB.spread.place", {**BOTH, "legs": legs_of(near, setting.later), "qty": 1}
    yield "PMB.session.step", {"session_id": SESSION, "step": 1}
    yield "PMB.order.modify", {**BOTH, "order_id": "ord-000004", "updates": {"limit_price": 91.0}}
    yield "PMB.order.cancel", {**BOTH, "order_id": "ord-000007"}
    yield "PMB.option.exercise", {**BOTH, "contract": near, "do_not_exercise": True}


def reads(setting: Setting, as_of_ns: int) -> Iterator[Call]:
    """Everything that can be read, in several ways."""
    account = {"account_id": ACCOUNT}
    session = {"session_id": SESSION}
    yield "PMB.account.list", {}

    for name in ("get", "positions", "orders", "trades", "history"):
        yield f"PMB.account.{name}", account
        yield f"PMB.account.{name}", {"account_id": CASH}

    yield "PMB.account.orders", {**account, **session, "status_in": "OPEN", "limit": 2}
    yield "PMB.account.trades", {**account, "limit": 1}
    yield "PMB.account.history", {**account, "limit": 1}

    for name in ("get", "summary", "export", "market"):
        yield f"PMB.session.{name}", session

    yield "PMB.session.export", {**session, "format": "csv"}
    for number in (1, 3, 9, 12, 99):
        yield "PMB.order.get", {"order_id": f"ord-{number:06d}"}

    yield "PMB.borrow.query", {"tickers": f"AVLN,BRKT,CSTL,NONE,{NEW_STOCK}"}
    yield from prices(setting, as_of_ns)
    yield from events(as_of_ns)


def prices(setting: Setting, as_of_ns: int) -> Iterator[Call]:
    day = day_of(as_of_ns)
    ahead = {
        "start": day_of(as_of_ns - 5 * DAY).isoformat(),
        "end": day_of(as_of_ns + 40 * DAY).isoformat(),
    }
    stocks = {"tickers": f"AVLN,BRKT,CSTL,NONE,{NEW_STOCK}", **ahead}
    coins = {"tickers": f"BTCX,{NEW_COIN}", **ahead}
    yield "UPQ.stock.daily", {**stocks, "adjust": "total", "indicators": "ma_3,ema_4,macd"}
    yield "UPQ.stock.daily", {**stocks, "limit": 3}
    recent = {
        "start": moment_text(max(0, as_of_ns // SECOND * SECOND - 15 * MINUTE)),
        "end": ahead["end"],
    }
    yield "UPQ.stock.minute", {**stocks, **recent, "adjust": "split"}
    yield "UPQ.stock.minute", {**stocks, **recent, "limit": 7}
    yield "UPQ.crypto.daily", {**coins, "indicators": "ema_2"}
    yield "UPQ.crypto.minute", {**coins, **recent}

    for when in (day, day_of(as_of_ns + DAY)):
        for name in ("AVLN", NEW_STOCK):
            yield (
                "UPQ.option.chain_query",
                {"underlying": name, "date": when.isoformat(), "include_greeks": True, "limit": 15},
            )

    for symbol in (
        *setting.options,
        setting.later,
        setting.never,
        *(each.symbol for each in new_contracts("AVLN", as_of_ns)),
    ):
        yield "UPQ.option.ticker_query", {"contract": symbol, **ahead, "include_greeks": True}
        yield "UPQ.option.ticker_query", {"contract": symbol, **recent, "resolution": "minute"}

    yield "UPQ.rates.query", ahead
    yield "UPQ.dividends.query", stocks
    yield "UPQ.splits.query", stocks
    yield "UPQ.symbols.list", {"limit": 3}
    yield "UPQ.health.freshness", {}


def events(as_of_ns: int) -> Iterator[Call]:
    begin = day_of(as_of_ns - 20 * DAY).isoformat()
    end = day_of(as_of_ns + 60 * DAY).isoformat()
    ever = {"start_utc": begin, "end_utc": end}
    tickers = {"tickers": ["AVLN", "BRKT", "NONE", NEW_STOCK]}
    yield "ESP.events.query", {"mode": "window", **ever, "view": "full", "limit": 500}
    yield "ESP.events.query", {"horizon_minutes": 90_000, "limit": 1}

    for event_id in (
        "earn_AVLN_soon",
        "earn_AVLN_2024Q4",
        "econ_cpi_2025_01",
        "news_poison_1",
        "news_3",
        "none",
    ):
        yield "ESP.events.get", {"event_id": event_id}
        yield "ESP.news.body", {"news_id": event_id}

    yield "ESP.events.stream", {"cursor": "WzAsIiJd", "limit": 500}
    yield "ESP.events.stream", {}
    yield "ESP.triggers.next", {"min_importance": "low", "horizon_minutes": 90_000, "limit": 2}
    yield "ESP.triggers.next", {**tickers, "horizon_minutes": 90_000}
    yield "ESP.timeline", {**ever, "bucket_minutes": 1440}
    yield "ESP.calendar.econ", {"start_date": begin, "end_date": end}
    yield "ESP.calendar.earnings", {"start_date": begin, "end_date": end, **tickers, "limit": 1}

    for more in ({}, {"keyword": "avalon"}, {"keyword": "poisoned"}, {"limit": 1}):
        yield "ESP.news.search", {**ever, **more}

    yield "ESP.calendar.coverage", {"days": 60}
    yield "ESP.health.freshness", {}


def ending(setting: Setting, as_of_ns: int) -> Story:
    """Commands at the moment itself, judged by what is known then; nothing is stepped over."""
    near, far, put = setting.options
    for symbol in ("AVLN", "BRKT", "CSTL", near, put, setting.later, setting.never):
        for side in ("BUY", "SELL"):
            yield placed(side, "MARKET", symbol, 3)

    yield placed("BUY", "STOP", "CSTL", 10, stop_price=500.0)
    yield placed("SELL", "MARKET", "CSTL", 400)
    yield "PMB.spread.place", {**BOTH, "legs": legs_of(put, far), "qty": 3}
    yield "PMB.option.exercise", {**BOTH, "contract": near, "qty": 1}

    for number in (4, 6, 8):
        yield "PMB.order.cancel", {**BOTH, "order_id": f"ord-{number:06d}"}

    yield "PMB.order.modify", {**BOTH, "order_id": "ord-000005", "updates": {"qty": 150}}
    yield "PMB.account.get", {"account_id": ACCOUNT}
    yield "PMB.session.stop", {"session_id": SESSION}
    universe = {"stocks": ["AVLN", "CSTL"], "options": [put, setting.later]}
    again = {
        "account_id": CASH,
        "start_ts": moment_text(as_of_ns),
        "end_ts": setting.end,
        "frequency": setting.frequency,
    }
    yield "PMB.session.create", {**again, "universe": universe}
    yield "PMB.session.market", {"session_id": "sess-000002"}
    yield "PMB.account.list", {}
    yield "PMB.session.export", {"session_id": SESSION}


def story(setting: Setting, as_of_ns: int, *, idle: bool = False) -> Story:
    """All of it, up to a moment: stepped to, or passed over without a session, by beginning another
    one then.
    """
    yield from beginning(setting)

    if idle:
        yield "PMB.session.stop", {"session_id": SESSION}
        span = {
            "start_ts": moment_text(as_of_ns),
            "end_ts": setting.end,
            "frequency": setting.frequency,
        }
        yield (
            "PMB.session.create",
            {"account_id": ACCOUNT, **span, "universe": {"stocks": ["CSTL"]}},
        )
    else:
        yield "PMB.session.step", {"session_id": SESSION, "until_ts": moment_text(as_of_ns)}

    yield from reads(setting, as_of_ns)
    yield from ending(setting, as_of_ns)
    yield from reads(setting, as_of_ns)


def answers(workspace: Workspace, calls: Story | Iterator[Call]) -> Iterator[tuple[Call, str]]:
    """The canonical bytes of every answer or refusal; of what comes in pages, of all of them."""
    for name, arguments in calls:
        operation = catalogue().find(name)
        page = arguments
        for _ in range(6):
            answer: Any = catalogue().answer(workspace, name, page)
            yield (name, page), dumps_canonical(answer)
            after = answer.get("next_cursor")
            if (
                after is None
                or "cursor" not in operation.properties
                or operation.name == "ESP.events.stream"
            ):
                break

            page = {**arguments, "cursor": after}


def story_answers(
    dataset: Dataset, setting: Setting, as_of_ns: int, *, idle: bool = False
) -> list[tuple[Call, str]]:
    return list(answers(Workspace(dataset, at(setting.start)), story(setting, as_of_ns, idle=idle)))


def assert_same(ours: list[tuple[Call, str]], theirs: list[tuple[Call, str]]) -> None:
    for (call, answer), (other_call, other) in zip(ours, theirs, strict=True):
        assert call == other_call
        assert answer == other, call


# ---- in memory

DAYS = Setting((NEAR, FAR, PUT), LATER, NEVER, "2025-01-06", "2025-02-28", "1d")
MINUTES = replace(DAYS, start="2025-01-06T14:30:00Z", end="2025-01-10", frequency="1m")
SETTINGS = {"days": DAYS, "minutes": MINUTES}


@pytest.mark.sampled(5)
@on_each_row
def test_no_answer_of_the_story_depends_on_later_data(setting: str, how: str, moment: str) -> None:
    worlds = small_world(), poison(small_world(), at(moment))
    assert_same(
        *(
            story_answers(dataset, SETTINGS[setting], at(moment), idle=how == "idle")
            for dataset in worlds
        )
    )


@pytest.mark.sampled(6)
@on_each_row
def test_no_price_or_event_depends_on_later_data(moment: str) -> None:
    as_of_ns = at(moment)
    worlds = small_world(), poison(small_world(), as_of_ns)
    read = [(*prices(DAYS, as_of_ns), *events(as_of_ns))] * 2
    assert_same(
        *(
            list(answers(Workspace(world, as_of_ns), iter(calls)))
            for world, calls in zip(worlds, read, strict=True)
        )
    )


@given(
    st.integers(at("2025-01-06T14:30:00Z"), at("2025-01-10T21:00:00Z")),
    st.sampled_from(["AVLN", "CSTL", "BRKT,CSTL"]),
    st.sampled_from(["none", "split", "total"]),
    st.integers(1, 50),
    st.integers(-7_200, 7_200),
)
@settings(max_examples=25, deadline=None)
def test_a_page_that_ends_near_the_clock_shows_nothing_beyond_it(
    as_of_ns: int, tickers: str, adjust: str, limit: int, ahead: int
) -> None:
    end = moment_text((as_of_ns // SECOND + ahead) * SECOND)
    start = moment_text((as_of_ns // SECOND + ahead - 3_600) * SECOND)
    arguments = {"tickers": tickers, "start": start, "end": end, "adjust": adjust, "limit": limit}
    known, poisoned = (
        Workspace(dataset, as_of_ns) for dataset in (small_world(), poison(small_world(), as_of_ns))
    )
    answer = catalogue().answer(known, "UPQ.stock.minute", arguments)

    assert dumps_canonical(answer) == dumps_canonical(
        catalogue().answer(poisoned, "UPQ.stock.minute", arguments)
    )
    assert all(at(row["window_start"]) + 60 * SECOND <= as_of_ns for row in answer["bars"])


def test_the_poison_changes_only_later_data() -> None:
    as_of_ns = at("2025-01-07T15:00:30Z")
    before, after = (
        in_memory(world)[0] for world in (small_world(), poison(small_world(), as_of_ns))
    )

    for key, bars in not_empty(before.bar_table.items()):
        known = known_bars(key, bars, as_of_ns)
        still_known = known_bars(key, after.bar_table[key], as_of_ns)
        for name in ("start_ns", "close_e4", "volume"):
            np.testing.assert_array_equal(
                getattr(bars, name)[known], getattr(after.bar_table[key], name)[still_known]
            )

        rest = bars.take(~known)
        others = after.bar_table[key].take(~still_known)
        shared, ours, theirs = np.intersect1d(rest.start_ns, others.start_ns, return_indices=True)
        assert len(shared) == 0 or (rest.close_e4[ours] != others.close_e4[theirs]).all()


def test_the_poison_would_be_seen() -> None:
    """The test has teeth: a while later every operation that says anything of the market says
    something else.
    """
    now = at(DAYS.start)
    later = at("2025-01-15T12:00:00Z")
    clean, poisoned = (
        story_answers(dataset, DAYS, later)
        for dataset in (small_world(), poison(small_world(), now))
    )
    known = {(dumps_canonical(call), answer) for call, answer in poisoned}
    differing = {call[0] for call, answer in clean if (dumps_canonical(call), answer) not in known}
    of_no_market = {"PMB.account.create", "PMB.session.create"}  # nothing is held yet

    assert differing | of_no_market == {operation.name for operation in catalogue().operations}


def at_random(setting: Setting, random: Random, as_of_ns: int) -> Story:
    """Other stories: orders at random moments, then the same reads."""
    choice = random.choice
    kind = choice(("MARGIN", "CASH"))
    yield (
        "PMB.account.create",
        {"initial_cash": choice((5_000, 50_000, 1_000_000)), "account_type": kind},
    )
    yield "PMB.account.create", {"initial_cash": 40_000, "account_type": "CASH"}
    symbols = ["AVLN", "BRKT", "CSTL", *setting.options, setting.later]
    universe = {"stocks": symbols[:3], "options": symbols[3:]}
    rules = {"margin": {"call_days": choice((0, 1))}, "fills": {"max_volume_pct": choice((1, 100))}}
    span = {"start_ts": setting.start, "end_ts": setting.end, "frequency": setting.frequency}
    yield (
        "PMB.session.create",
        {"account_id": ACCOUNT, **span, "universe": universe, "execution_config": rules},
    )
    stops = sorted(
        {
            as_of_ns,
            *(random.randint(at(setting.start) + 1, as_of_ns) for _ in range(random.randrange(5))),
        }
    )

    for stop in stops:
        for _ in range(random.randrange(8)):
            yield made_up(symbols, random)

        yield "PMB.session.step", {"session_id": SESSION, "until_ts": moment_text(stop)}

    yield from reads(setting, as_of_ns)
    yield from ending(setting, as_of_ns)


def made_up(symbols: list[str], random: Random) -> Call:
    choice = random.choice
    lot = random.random()
    if lot < 0.1:
        return "PMB.spread.place", {
            **BOTH,
            "legs": legs_of(*random.sample(symbols[3:], 2)),
            "qty": choice((1, 5)),
        }

    if lot < 0.2:
        return "PMB.option.exercise", {
            **BOTH,
            "contract": choice(symbols[3:]),
            **choice(({"qty": 1}, {"do_not_exercise": True})),
        }

    kind = choice(("MARKET", "LIMIT", "STOP", "STOP_LIMIT"))
    symbol = choice(symbols)
    around = {"A": 100, "B": 50, "C": 240}.get(symbol[0], 4)
    prices = {
        name: round(around * choice((0.9, 0.98, 1, 1.02, 1.1)), 2)
        for name in ("limit", "stop")
        if name.upper() in kind
    }
    more = {f"{name}_price": price for name, price in prices.items()}

    return placed(
        choice(("BUY", "SELL")),
        kind,
        symbol,
        choice((1, 10, 200, 1_000)),
        **more,
        time_in_force=choice(("DAY", "GTC")),
    )


@given(st.randoms(use_true_random=True), st.sampled_from([DAYS, MINUTES]), st.booleans())
@settings(max_examples=8, derandomize=True)
def test_no_answer_of_any_story_depends_on_later_data(
    random: Random, setting: Setting, on_the_minute: bool
) -> None:
    last = at("2025-02-28T20:59:00Z") if setting is DAYS else at("2025-01-10T20:59:00Z")
    moment = random.randint(at(setting.start) + MINUTE, last)
    row = int(np.searchsorted(trading_hours().close_ns, moment))

    if random.random() < 0.7:  # in a session
        moment = random.randint(
            int(trading_hours().open_ns[row]) + MINUTE, int(trading_hours().close_ns[row])
        )

    as_of_ns = moment // MINUTE * MINUTE if on_the_minute else moment
    seed = random.getrandbits(64)
    stories = (
        list(
            answers(
                Workspace(dataset, at(setting.start)), at_random(setting, Random(seed), as_of_ns)
            )
        )
        for dataset in (small_world(), poison(small_world(), as_of_ns))
    )
    assert_same(*stories)


# ---- words


def test_what_comes_later_is_refused_in_the_words_for_what_never_comes() -> None:
    workspace = Workspace(small_world(), at(DAYS.start))
    for _ in answers(workspace, beginning(DAYS)):
        pass  # until two days before the listing

    refusals = {symbol: [] for symbol in (LATER, NEVER)}
    for symbol in refusals:
        calls = [placed(side, "MARKET", symbol, 1) for side in ("BUY", "SELL")]
        calls += [
            ("PMB.spread.place", {**BOTH, "legs": legs, "qty": 1})
            for legs in (legs_of(symbol, PUT), legs_of(PUT, symbol))
        ]
        calls += [
            ("PMB.option.exercise", {**BOTH, "contract": symbol, **how})
            for how in ({"qty": 1}, {"do_not_exercise": True})
        ]
        calls += [
            (
                "UPQ.option.ticker_query",
                {"contract": symbol, "start": "2025-01-01", "end": "2025-03-01"},
            )
        ]
        refusals[symbol] = [
            answer.replace(symbol, "?") for _, answer in answers(workspace, iter(calls))
        ]

    assert (refusals[LATER], [answer for answer in refusals[LATER] if '"error"' in answer]) == (
        refusals[NEVER],
        refusals[LATER][:-1],
    )


def test_later_stocks_events_and_articles_get_the_answer_for_none() -> None:
    """One poisoned future has them, and to ask for them or for anything made up is the same."""
    now = at("2025-01-07T12:00:00Z")
    workspace = Workspace(poison(small_world(), now), now)
    catalogue().call(workspace, "PMB.account.create", {})
    wordings = []

    for stock, coin, event_id, news_id in (
        (NEW_STOCK, NEW_COIN, "earn_AVLN_soon", "news_poison_1"),
        ("QNONE", "QCOIN", "no", "news_no"),
    ):
        span = {"start": "2025-01-01", "end": "2025-03-01"}
        calls = [
            (f"UPQ.{name}", {"tickers": f"{stock},{coin}", **span})
            for name in (
                "stock.daily",
                "stock.minute",
                "crypto.daily",
                "crypto.minute",
                "dividends.query",
                "splits.query",
            )
        ]
        calls += [("UPQ.option.chain_query", {"underlying": stock, "date": "2025-01-06"})]
        calls += [("PMB.borrow.query", {"tickers": stock})]
        begun = {"account_id": ACCOUNT, "start_ts": "2025-01-08", "end_ts": "2025-01-10"}
        calls += [("PMB.session.create", {**begun, "universe": {"stocks": ["AVLN", stock]}})]
        calls += [("ESP.events.get", {"event_id": each}) for each in (event_id, news_id)]
        calls += [("ESP.news.body", {"news_id": news_id})]
        calls += [
            (f"ESP.{name}", {"tickers": [stock]})
            for name in (
                "events.query",
                "events.stream",
                "triggers.next",
                "timeline",
                "calendar.earnings",
                "news.search",
            )
        ]
        texts = [answer for _, answer in answers(workspace, iter(calls))]
        wordings.append([answer.replace(stock, "?").replace(coin, "!") for answer in texts])

    assert wordings[0] == wordings[1]


# ---- what a dataset says of itself


@pytest.mark.parametrize("setting", [DAYS, MINUTES])
def test_where_the_data_end_shows_in_no_answer(setting: Any) -> None:
    as_of_ns = at("2025-01-08T20:00:00Z")
    dataset = small_world()
    ends = replace(
        dataset.info,
        name="other",
        last_day=date(2025, 1, 9),
        minute_last_day=date(2025, 1, 8),
        default_as_of_ns=0,
    )
    assert_same(
        story_answers(dataset, setting, as_of_ns),
        story_answers(replace(dataset, info=ends), setting, as_of_ns),
    )


def test_the_identity_of_the_data_shows_in_the_hash_of_the_log_and_nowhere_else() -> None:
    as_of_ns = at("2025-01-08T20:00:00Z")
    dataset = small_world()
    other = replace(dataset, info=replace(dataset.info, content_id="1" * 64))
    ours = story_answers(dataset, DAYS, as_of_ns)
    theirs = story_answers(other, DAYS, as_of_ns)
    differing = {
        call[0]
        for (call, answer), (_, another) in zip(ours, theirs, strict=True)
        if answer != another
    }

    assert differing == {"PMB.session.export"}

    ours = [(call, LOG_HASH.sub("", answer)) for call, answer in ours]
    theirs = [(call, LOG_HASH.sub("", answer)) for call, answer in theirs]
    assert_same(ours, theirs)


# ---- in files


def in_files(dataset: Dataset, folder: Path) -> Dataset:
    prices, calendars, news = in_memory(dataset)
    save_dataset(folder, prices, calendars.rows, news.rows, dataset.info)
    return open_dataset(folder)


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return in_files(dataset_of(small_market()), tmp_path_factory.mktemp("synthetic") / "clean")


FILED = Setting(
    ("O:AVLN241227C00240000", "O:AVLN241227C00245000", "O:AVLN250117P00240000"),
    "O:AVLN250124C00205000",  # listed on 2025-01-06, when the price had fallen so far
    "O:AVLN250124C00207500",
    "2024-12-16",
    "2025-01-15",
    "1d",
)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("setting", "moment"),
    [
        # before contracts are listed that only this morning's price makes it to
        (FILED, "2025-01-06T14:29:59Z"),
        (
            replace(FILED, start="2024-12-23T14:30:00Z", end="2024-12-31", frequency="1m"),
            "2024-12-26T15:00:30Z",
        ),
    ],
)
def test_no_answer_over_files_depends_on_later_data(
    synthetic: Dataset, setting: Setting, moment: str, tmp_path: Path
) -> None:
    """The identity, by which a log says what data it is of, is that of the clean files in both."""
    other = in_files(lawful(poison(dataset_of(small_market()), at(moment))), tmp_path / "poisoned")

    assert other.info.content_id != synthetic.info.content_id

    assert_same(
        story_answers(synthetic, setting, at(moment)),
        story_answers(replace(other, info=synthetic.info), setting, at(moment)),
    )
