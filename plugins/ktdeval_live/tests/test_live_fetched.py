"""Days of a forward test from a vendor: against a local server with answers in its format."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot

from ktdeval.errors import DataError
from ktdeval.market import save_snapshot
from ktdeval.testing import errors_of
from ktdeval_live.days.clock import of_text
from ktdeval_live.days.day_sources import DaySource, make_source
from ktdeval_live.days.market_increments import market_as_known
from ktdeval_live.deciding.beginning import begin
from ktdeval_live.deciding.past_replay import InlineAsker, SetClock
from ktdeval_live.deciding.step import LiveStep, StepReport
from ktdeval_live.plan import PlannedMarket
from ktdeval_live.record.folder import LiveFolder
from support.live.live_drops import plugins
from support.live.live_plans import plan_of
from support.market.vendor_answers import ALPACA_KEYS, COIN_DAYS, DAYS, VendorServer, vendor_server

NOW = datetime(2024, 2, 7, 22, 0, tzinfo=UTC)
SPLIT_DAY = "2024-01-30"
DIVIDEND_DAY = "2024-02-02"  # of AAPL: 4 for 1, and 0.5 a share


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[VendorServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("APCA_API_KEY_ID", ALPACA_KEYS[0])
    monkeypatch.setenv("APCA_API_SECRET_KEY", ALPACA_KEYS[1])

    with vendor_server() as running:
        yield running


def source(server: VendorServer, home: Path, **changes: Any) -> DaySource:
    """Return the source of two US stocks."""
    args = {
        "vendor": "alpaca",
        "symbols": ["AAPL", "BRK.B"],
        "endpoint": server.endpoint,
        "per_minute": 100000,
        "accept_gaps": True,  # the vendor's days begin on 25 January
        **changes.pop("args", {}),
    }
    planned = PlannedMarket(
        data="-", task="market_bright", source=changes.pop("source", "us"), source_args=args
    )

    return make_source(planned, "live", plugins(), home)


@pytest.mark.exhaustive
def test_day_has_the_vendors_bars_and_the_change_of_its_factor(
    server: VendorServer, tmp_path: Path
) -> None:
    days = source(server, tmp_path)
    found = days.day("us", "2024-01-29", NOW)

    assert found is not None

    bar = found.bars[0]
    assert (bar.code, bar.open, bar.close, bar.volume) == ("AAPL", 402.0, 402.0, 1002.0)
    assert (bar.factor, bar.factor_change) == (None, 1.0)

    split = days.day("us", SPLIT_DAY, NOW)
    assert split is not None
    assert [bar.factor_change for bar in split.bars] == [4.0, 1.0]

    paid = days.day("us", DIVIDEND_DAY, NOW)
    assert paid is not None

    close_before = 105.0
    assert paid.bars[0].factor_change == pytest.approx(close_before / (close_before - 0.5))


@pytest.mark.exhaustive
def test_days_one_by_one_have_the_factor_of_all_days_at_once(
    server: VendorServer, tmp_path: Path
) -> None:
    args = {
        "vendor": "alpaca", "symbols": ["AAPL", "BRK.B"], "endpoint": server.endpoint,
        "per_minute": 100000, "accept_gaps": True, "first": DAYS[0], "answers": str(tmp_path / "a"),
    }  # fmt: skip
    base = plugins().make_snapshot("us", {**args, "last": DAYS[2]})
    whole = plugins().make_snapshot(
        "us", {**args, "last": DAYS[-1], "answers": str(tmp_path / "b")}
    )
    days = source(server, tmp_path)
    increments = []

    for day in DAYS[3:]:
        found = days.day("us", day, NOW)
        assert found is not None
        increments.append(found)

    known = market_as_known(base, DAYS[3:], increments)
    np.testing.assert_array_equal(known.close, whole.close)
    ratio = whole.factor / known.factor
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[0], ratio.shape), rtol=1e-12)


@pytest.mark.exhaustive
def test_halt_before_a_day_does_not_hide_a_split(server: VendorServer, tmp_path: Path) -> None:
    halted = ("2024-01-29", SPLIT_DAY)

    def edit(api: str, params: dict[str, str], reply: dict[str, Any]) -> dict[str, Any]:
        bars = reply.get("bars", {}).get("AAPL")
        if bars is not None:
            reply["bars"]["AAPL"] = [bar for bar in bars if bar["t"][:10] not in halted]

        return reply

    server.edit = edit
    found = source(server, tmp_path).day("us", "2024-01-31", NOW)

    assert found is not None
    assert found.bars[0].factor_change == 4.0


@pytest.mark.exhaustive
def test_vendor_that_is_late_has_no_day_yet(server: VendorServer, tmp_path: Path) -> None:
    late = DAYS[-1]

    def edit(api: str, params: dict[str, str], reply: dict[str, Any]) -> dict[str, Any]:
        for code, bars in reply.get("bars", {}).items():
            reply["bars"][code] = [bar for bar in bars if bar["t"][:10] != late]

        return reply

    server.edit = edit

    assert source(server, tmp_path).day("us", late, NOW) is None

    strict = source(server, tmp_path, args={"accept_gaps": False})

    with pytest.raises(DataError, match=f"us {late}: alpaca"):
        strict.day("us", late, NOW)

    server.edit = lambda api, params, reply: reply

    assert source(server, tmp_path).day("us", late, NOW) is not None  # no answer was kept


def test_day_that_is_not_over_by_the_vendors_clock_has_no_data_yet(
    server: VendorServer, tmp_path: Path
) -> None:
    tomorrow = str((datetime.now(UTC) + timedelta(days=2)).date())
    assert source(server, tmp_path).day("us", tomorrow, NOW) is None
    assert server.asked == []


@pytest.mark.exhaustive
def test_revised_bar_is_seen_by_the_next_look(server: VendorServer, tmp_path: Path) -> None:
    days = source(server, tmp_path)
    first = days.day("us", "2024-02-05", NOW)

    def edit(api: str, params: dict[str, str], reply: dict[str, Any]) -> dict[str, Any]:
        for bar in reply.get("bars", {}).get("AAPL", []):
            if bar["t"].startswith("2024-02-05"):
                bar["v"] += 500

        return reply

    server.edit = edit
    second = days.day("us", "2024-02-05", NOW)

    assert first is not None
    assert second is not None
    assert second.bars[0].volume == first.bars[0].volume + 500
    assert second.bars[1:] == first.bars[1:]


def test_refusal_of_the_vendor_is_one_line_with_market_and_day(
    server: VendorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = "another-secret-0123456789"
    monkeypatch.setenv("APCA_API_SECRET_KEY", wrong)
    with pytest.raises(DataError, match=r"^us 2024-02-05: alpaca .*HTTP 403") as caught:
        source(server, tmp_path).day("us", "2024-02-05", NOW)

    assert "\n" not in str(caught.value)
    assert wrong not in str(caught.value)

    monkeypatch.delenv("APCA_API_SECRET_KEY")

    with pytest.raises(DataError, match=r"^us 2024-02-05: .*APCA_API_SECRET_KEY"):
        source(server, tmp_path).day("us", "2024-02-05", NOW)


@pytest.mark.slow
def test_coins_have_no_factor_that_changes(server: VendorServer, tmp_path: Path) -> None:
    coins = {"vendor": "binance", "symbols": ["BTCUSDT"]}
    found = source(server, tmp_path, source="crypto", args=coins).day("coins", COIN_DAYS[5], NOW)

    assert found is not None
    assert (found.bars[0].code, found.bars[0].open) == ("BTCUSDT", 42005.5)
    assert (found.bars[0].factor, found.bars[0].factor_change) == (None, 1.0)


@pytest.mark.exhaustive
def test_error_of_the_vendor_is_a_problem_and_then_a_gap(
    server: VendorServer, tmp_path: Path
) -> None:
    args = {
        "vendor": "alpaca", "symbols": ["AAPL", "BRK.B"], "endpoint": server.endpoint,
        "per_minute": 100000, "accept_gaps": True,
    }  # fmt: skip
    span = {"first": DAYS[0], "last": DAYS[2], "answers": str(tmp_path / "answers")}
    save_snapshot(plugins().make_snapshot("us", {**args, **span}), tmp_path / "us")
    planned = {
        "data": str(tmp_path / "us"), "task": "market_bright", "source": "us", "source_args": args,
    }  # fmt: skip
    plan = plan_of(first=DAYS[4], last=DAYS[6], markets={"us": planned})
    clock = SetClock(of_text("2024-01-25T00:00:00Z"))
    test = begin(plan, tmp_path / "test", plugins(), clock)

    def step(time: str) -> StepReport:
        clock.time = of_text(time)
        now = LiveFolder(test.path)
        with now.lock():
            return LiveStep(now, plugins(), clock, InlineAsker(now, plugins(), clock)).run()

    server.edit = lambda api, params, reply: {"bars": {"AAPL": [{"t": "2024-01-25T05:00:00Z"}]}}
    failed = step(f"{DAYS[3]}T23:00:00Z")

    assert failed.decided == []
    assert len(failed.problems) == 1
    assert failed.problems[0].startswith(f"us {DAYS[3]}: alpaca v2/stocks/bars: the answer has no")

    assert step(f"{DAYS[4]}T14:30:00Z").gaps == [f"momentum/us {DAYS[3]}: no_data"]

    server.edit = lambda api, params, reply: reply
    healed = step(f"{DAYS[4]}T23:00:00Z")

    assert [line.split(":")[0] for line in healed.frozen] == [f"us {DAYS[3]}", f"us {DAYS[4]}"]
    assert [line.split(":")[0] for line in healed.decided] == [f"momentum/us {DAYS[4]}"]


def test_arguments_that_can_not_be_are_refused_when_the_test_begins(
    server: VendorServer, tmp_path: Path
) -> None:
    assert errors_of(
        lambda args: source(server, tmp_path, args=args),
        {"first": "2024-01-01"},
        {"answers": "kept"},
        {"vendor": "nobody"},
        {"simbols": ["AAPL"]},
    ) == snapshot("""\
ConfigError: source us: first: is set by each step; leave it out
ConfigError: source us: answers: is set by each step; leave it out
ConfigError: source us: vendor: expected one of alpaca, yfinance, was 'nobody'
ConfigError: source us: unknown field 'simbols'; did you mean 'symbols'?
""")


def test_source_without_days_to_come_is_refused(tmp_path: Path) -> None:
    def refused(name: str) -> None:
        planned = PlannedMarket(data="-", task="market_bright", source=name)
        make_source(planned, "live", plugins(), tmp_path)

    assert errors_of(refused, "stored", "synthetic", "dropp") == snapshot("""\
ConfigError: source stored: has only past days; set kind: rehearsal
ConfigError: source synthetic: does not fetch days; use drop, or a provider that fetches (`ktdeval data` lists them)
ConfigError: source 'dropp' is unknown; did you mean 'drop'?; use drop, or a provider that fetches (`ktdeval data` lists them)
""")
