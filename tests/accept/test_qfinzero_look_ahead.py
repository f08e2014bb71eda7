"""No look-ahead, the whole catalogue at once: whatever the future is, everything said before it is
the same to the byte.

A story is played twice, over a market and over the same market whose future is another one:
accounts and sessions are opened, orders of every kind sent, time passes up to the moment, and then
everything is read that can be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.testing import not_empty, on_each_row
from ktdeval.values import dumps_canonical
from ktdeval_qfinzero.benchmark.template_slots import SlotWording
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.data.dataset import Dataset, open_dataset
from ktdeval_qfinzero.data.writing import save_dataset
from ktdeval_qfinzero.timestamps import DAY, MINUTE, SECOND, day_of, moment_text
from ktdeval_qfinzero.trading_hours import trading_hours
from support.qfinzero.qfinzero_broker_play import thing
from support.qfinzero.qfinzero_poison import (
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
from support.qfinzero.qfinzero_synthetic import dataset_of, small_market
from support.qfinzero.qfinzero_world import at
from support.tables import beside

Call = tuple[str, dict[str, Any]]
Story = Iterator[Call]

LOG_HASH = re.compile(r'"log_hash":"[0-9a-f]{64}",')
ACCOUNT = "acct-000001"
SESSION = "sess-000001"
BOTH = {"account_id": ACCOUNT, "session_id": SESSION}
#: Days around the moment, as calls name them
DAYS_AWAY = {
    "day": 0,
    "next_day": 1,
    "five_days_ago": -5,
    "in_forty_days": 40,
    "twenty_days_ago": -20,
    "in_sixty_days": 60,
}


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


def rows_of(part: str, facts: dict[str, Any]) -> Iterator[Call]:
    """Calls of a table, whose slots name facts. A row `order` places one."""
    wording = SlotWording(np.random.default_rng(0), {}, facts)
    for name, arguments, *more in map(wording.fill, beside(__file__)[part]):
        if name == "order":
            yield placed(arguments, *more[:3], **dict(*more[3:]))
        else:
            yield name, arguments


def calls_of(part: str, setting: Setting, as_of_ns: int) -> Iterator[Call]:
    """Calls of a part of the story, in a setting and at a moment."""
    near, far, put = setting.options
    facts = {
        **vars(setting),
        "near": near,
        "far": far,
        "put": put,
        "unlisted": [each.symbol for each in new_contracts("AVLN", as_of_ns)],
        "now": moment_text(as_of_ns),
        "a_quarter_ago": moment_text(max(0, as_of_ns // SECOND * SECOND - 15 * MINUTE)),
        **{name: day_of(as_of_ns + days * DAY) for name, days in DAYS_AWAY.items()},
    }
    return rows_of(part, facts)


def reads(setting: Setting, as_of_ns: int) -> Iterator[Call]:
    """Everything that can be read, in several ways."""
    for part in ("broker", "prices", "events"):
        yield from calls_of(part, setting, as_of_ns)


def story(setting: Setting, as_of_ns: int, *, idle: bool = False) -> Story:
    """All of it, up to a moment: stepped to, or passed over without a session, by beginning another
    one then.
    """
    yield from calls_of("beginning", setting, as_of_ns)

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
    yield from calls_of("ending", setting, as_of_ns)
    yield from reads(setting, as_of_ns)


def answers(workspace: Workspace, calls: Story) -> Iterator[tuple[Call, str]]:
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
@on_each_row(
    "setting, how, moment",
    # a dividend's ex-day opens
    ("days", "stepped", "2025-01-08T14:30:00Z"),
    # the last moment of a day, and of a contract that is not listed
    ("days", "stepped", "2025-01-08T20:59:59.999999999Z"),
    # an expiry
    ("days", "stepped", "2025-01-17T21:00:00Z"),
    # a weekend
    ("days", "idle", "2025-01-18T12:00:00Z"),
    # before a split
    ("days", "stepped", "2025-01-21T14:29:59.999999999Z"),
    # after another one
    ("days", "idle", "2025-01-29T15:00:00Z"),
    ("days", "stepped", "2025-02-21T20:59:59Z"),
    ("minutes", "stepped", "2025-01-06T14:31:00Z"),
    ("minutes", "stepped", "2025-01-06T15:01:59.999999999Z"),
    ("minutes", "idle", "2025-01-07T03:00:00Z"),
    ("minutes", "stepped", "2025-01-10T20:59:59Z"),
)
def test_no_answer_of_the_story_depends_on_later_data(setting: str, how: str, moment: str) -> None:
    worlds = small_world(), poison(small_world(), at(moment))
    assert_same(
        *(
            story_answers(dataset, SETTINGS[setting], at(moment), idle=how == "idle")
            for dataset in worlds
        )
    )


@pytest.mark.sampled(6)
# Just before and just at the ends of bars, corporate actions, announcements, publications, releases and a revision.
@on_each_row(
    "moment",
    ("2024-11-01T00:00:00Z",),
    ("2024-12-31T00:00:00Z",),
    ("2025-01-03T12:00:00Z",),
    ("2025-01-06T14:30:00Z",),
    ("2025-01-06T14:30:59.999999999Z",),
    ("2025-01-06T15:01:59.999999999Z",),
    ("2025-01-06T20:59:59Z",),
    ("2025-01-06T21:00:00Z",),
    ("2025-01-06T23:00:00Z",),
    ("2025-01-07T00:00:00Z",),
    ("2025-01-07T21:30:00Z",),
    ("2025-01-08T12:00:00Z",),
    ("2025-01-09T15:00:00Z",),
    ("2025-01-10T21:00:00Z",),
    ("2025-01-13T14:30:00Z",),
    ("2025-01-15T13:29:59.999999999Z",),
    ("2025-01-15T13:30:00Z",),
    ("2025-01-21T14:29:59Z",),
    ("2025-01-21T14:30:00Z",),
    ("2025-02-12T13:29:00Z",),
    ("2025-02-21T21:00:00Z",),
    ("2025-03-15T00:00:00Z",),
)
def test_no_price_or_event_depends_on_later_data(moment: str) -> None:
    as_of_ns = at(moment)
    worlds = small_world(), poison(small_world(), as_of_ns)
    read = [(*calls_of("prices", DAYS, as_of_ns), *calls_of("events", DAYS, as_of_ns))] * 2
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
    yield from calls_of("ending", setting, as_of_ns)


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
    for _ in answers(workspace, calls_of("beginning", DAYS, at(DAYS.start))):
        pass  # until two days before the listing

    refusals: dict[str, list[str]] = {}
    for symbol in (LATER, NEVER):
        calls = rows_of("of_a_contract", {"symbol": symbol, "put": PUT})
        refusals[symbol] = [answer.replace(symbol, "?") for _, answer in answers(workspace, calls)]

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
        facts = {"stock": stock, "coin": coin, "event_id": event_id, "news_id": news_id}
        calls = rows_of("of_later_things", facts)
        texts = [answer for _, answer in answers(workspace, calls)]
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


def test_data_identity_shows_only_in_the_hash_of_the_log() -> None:
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
