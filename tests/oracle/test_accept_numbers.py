"""Every figure that a card or a tool gives, against one worked out again from ledgers and prices
without ktdeval.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.market.snapshots.storage import save_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.testing import not_empty, small_market, snapshot_of_days
from ktdeval.trading.daily_settlement import open_account
from ktdeval.trading.executor import execute, settle
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.types import Account, Order, Position, TradingConfig
from support.accept.accept_figures import (
    Prices,
    episodes,
    figures,
    transcript_of,
)  # fmt: skip
from support.accept.accept_runs import conversations, evaluate, silently
from support.figures.card_checks import card_of, check_card
from support.market import reference_broker
from support.searching import is_searching
from support.tasks.ktdfin_market import FIRST, LAST, rows, spec_of

pytestmark = pytest.mark.slow

RUNS = {
    "chaos": ("builtin/chaos", "blinded_open_research", ("--windows", "W5", "--seeds", "2")),
    # in the season of dividends
    "random": ("builtin/random", "blinded_fixed_candidate", ("--windows", "W2", "--seeds", "2")),
    "reversal": ("builtin/reversal", "blinded_open_research", ("--windows", "W2")),
    "equal_weight": ("builtin/equal_weight", "blinded_fixed_candidate", ("--windows", "W7")),
    "hold": ("builtin/hold", "blinded_memory_only", ("--windows", "W5")),
}
LONG = list(  # with `--hypothesis-profile search`
    itertools.product(
        ("momentum", "reversal", "equal_weight", "random", "chaos"),
        ("open_research", "fixed_candidate"),
    )
)
LONG_RUNS = {
    f"{model} {mode}": (f"builtin/{model}", f"blinded_{mode}", ("--windows", "long"))
    for model, mode in (LONG if is_searching() else LONG[:1])
}


# ---- runs


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded market in a folder of Parquet files."""
    folder = tmp_path_factory.mktemp("market") / "synthetic"
    assert silently(["data", "make", "synthetic", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def prices(market: Path) -> Prices:
    return Prices(market)


@pytest.fixture(scope="module", params=[*RUNS, *LONG_RUNS])
def run(
    request: pytest.FixtureRequest, market: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A finished run folder."""
    model, task, words = {**RUNS, **LONG_RUNS}[request.param]
    return evaluate(
        tmp_path_factory.mktemp("runs") / "run", model, [task], "--data", str(market), *words
    ).path


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rules", ["strict", "paper"])
def test_every_figure_on_a_card_follows_from_ledgers_and_prices(
    run: Path, prices: Prices, rules: str, tmp_path: Path
) -> None:
    check_card(run, prices, rules, tmp_path)


@pytest.mark.sampled(2)
def test_the_books_of_an_episode_add_up_from_prices_alone(run: Path, prices: Prices) -> None:
    folder = RunFolder.load(run)
    for spec in folder.manifest.specs:
        reference_broker.keep(prices.tables, folder.load_ledger(spec).steps)


def is_submission(exchange: dict[str, Any]) -> bool:
    """Whether a submission was asked for, or made during research, which the task accepts."""
    calls = exchange.get("reply", {}).get("tool_calls", ())
    return exchange["tool_choice"] == "submit_action" or any(
        call["name"] == "submit_action" for call in calls
    )


def test_counts_of_a_step_are_those_of_its_conversation(run: Path) -> None:
    """Submissions, retries and tokens as the transcript has them."""
    for episode in not_empty(episodes(run, card_of(run))):
        transcript = transcript_of(run, episode)
        for step, entry in not_empty(zip(episode.steps, transcript, strict=True)):
            asked = sum(map(is_submission, entry["exchanges"]))
            failed = [exchange["error"] for exchange in entry["exchanges"] if "error" in exchange]
            assert step["submissions"] == asked
            assert {
                "model": asked == 1 and not failed,
                "model_after_retry": 2 <= asked <= 4 and not failed,
                "fallback": asked == 4 and not failed,
                "error": len(failed) == 1,
            }[step["provenance"]]
            if step["provenance"] in ("fallback", "error"):
                assert step["orders"] == []
            else:
                submitted = json.loads(entry["submission"])["orders"]
                for name in ("side", "confidence", "target_weight", "shares"):
                    assert [order.get(name) for order in submitted] == [
                        order[name] for order in step["orders"]
                    ]


# ---- what a model is shown


SMALL = small_market()
PLUGINS = load_plugins()
BRIGHT = PLUGINS.make_task("bright_open_research")
TOOLS = {tool.name: tool for tool in PLUGINS.tools(BRIGHT.tools)}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Prices:
    folder = tmp_path_factory.mktemp("small") / "market"
    save_snapshot(SMALL, folder)
    return Prices(folder)


def scene_at(step: int, account: Account | None = None) -> Any:
    scene = BRIGHT.scene(spec_of("bright_open_research", "bright", "open_research"), SMALL)
    return scene, scene.tool_context(
        step, SMALL.as_of(scene.lens.base_row + step), account or Account(0, {})
    )


def answer(name: str, step: int, account: Account | None = None, **arguments: Any) -> Any:
    scene, context = scene_at(step, account)
    return json.loads(scene.lens.render_text(TOOLS[name].function(context, **arguments)))


def as_shown(value: float | None) -> Any:
    """Four significant digits and at most five decimals; null where undefined."""
    return (
        None if value is None or math.isnan(value) else pytest.approx(value, rel=5.1e-4, abs=6e-6)
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("step", [0, 7, 13, 20])
def test_figures_of_stocks_are_those_of_their_prices(small: Prices, step: int) -> None:
    day = small.days[SMALL.day_index(FIRST) - 1 + step]
    names = list(figures(small, day, SMALL.codes[0]))
    grid = rows(
        answer("compare_candidates", step, stock_ids=list(range(len(SMALL.codes))), dims=names)[
            "grid"
        ]
    )

    assert [row["stock_id"] for row in grid] == list(SMALL.codes)

    for row in grid:
        code = row["stock_id"]
        assert row["close_cny"] == pytest.approx(small.mark(day, code), rel=6e-6)
        expected = figures(small, day, code)
        assert {name: row[name] for name in names} == {
            name: as_shown(value) for name, value in expected.items()
        }, (day, code)


@pytest.mark.parametrize("step", [0, 12])
def test_the_market_context_is_that_of_the_prices(small: Prices, step: int) -> None:
    day = small.days[SMALL.day_index(FIRST) - 1 + step]
    last = small.days.index(day)
    context = answer("get_market_context", step)

    for row, code in zip(rows(context["indices"]), SMALL.indices, strict=True):
        level = small.indices[code].iloc[: last + 1]
        expected = {
            f"return_{days}d_pct": 100 * (level.iloc[-1] / level.iloc[-1 - days] - 1)
            for days in (1, 5, 20, 60)
        }
        expected["volatility_20d_pct"] = (
            100 * math.sqrt(252) * np.log(level).diff().iloc[-20:].std()
        )
        expected["drawdown_60d_pct"] = 100 * (level.iloc[-1] / level.iloc[-60:].max() - 1)
        assert {name: row[name] for name in expected} == {
            name: as_shown(value) for name, value in expected.items()
        }

    members = [code for code in SMALL.codes if small.tables["member"].at[day, code]]
    change = (small.marks.iloc[last] / small.marks.iloc[last - 1] - 1)[members]
    trading = change[small.tables["close"].loc[day, members].notna()]
    breadth = context["breadth"]

    assert (breadth["members"], breadth["suspended"]) == (len(members), len(members) - len(trading))
    assert (breadth["advancing"], breadth["declining"]) == (
        (trading > 0).sum(),
        (trading < 0).sum(),
    )
    assert breadth["median_return_1d_pct"] == as_shown(100 * trading.median())
    assert breadth["amount_cny"] == as_shown(small.tables["amount"].loc[day, members].sum())

    month = (
        (small.marks.iloc[last] / small.marks.iloc[last - 20] - 1)[members]
        .groupby(small.sectors[members])
        .mean()
    )
    ranked = month.sort_values(ascending=False)

    assert [row["sector"] for row in rows(context["sectors"]["strongest_20d"])] == list(
        ranked.index[:4]
    )
    assert [row["sector"] for row in rows(context["sectors"]["weakest_20d"])] == list(
        ranked.index[:3:-1]
    )
    assert context["sectors"]["total"] == len(ranked)

    for row in (
        *rows(context["sectors"]["strongest_20d"]),
        *rows(context["sectors"]["weakest_20d"]),
    ):
        assert row["return_20d_pct"] == as_shown(100 * ranked[row["sector"]])
        assert row["members"] == (small.sectors[members] == row["sector"]).sum()


def test_a_sector_without_returns_is_neither_strong_nor_weak() -> None:
    """Members without prices (merged, never recorded) are no weak sector."""
    blank = small_market()
    column = {
        name: getattr(blank, name).copy()
        for name in ("open", "high", "low", "close", "volume", "amount")
    }

    for values in column.values():
        values[:, 9] = np.nan

    industries = tuple(
        "Unpriced" if place == 9 else name for place, name in enumerate(blank.industries)
    )
    market = replace(blank, **column, industries=industries)
    scene = BRIGHT.scene(spec_of("bright_open_research", "bright", "open_research"), market)
    context = scene.tool_context(3, market.as_of(scene.lens.base_row + 3), Account(0, {}))
    sectors = json.loads(scene.lens.render_text(TOOLS["get_market_context"].function(context)))[
        "sectors"
    ]

    for name in ("strongest_20d", "weakest_20d"):
        assert "Unpriced" not in [row["sector"] for row in rows(sectors[name])]

    assert sectors["total"] == 8


def test_the_state_that_a_model_sees_is_that_of_the_ledger(tmp_path: Path, small: Prices) -> None:
    save_snapshot(SMALL, tmp_path / "market")
    words = ("--data", str(tmp_path / "market"), "--windows", f"{FIRST}:{LAST}")
    folder = evaluate(tmp_path / "run", "builtin/random", ["bright_open_research"], *words)
    (episode,) = episodes(folder.path, card_of(folder.path))
    transcript = folder.load_transcript(folder.manifest.specs[0])
    before: dict[str, Any] = {
        "nav_minor": 100_000_000,
        "cash_minor": 100_000_000,
        "holdings_minor": 0,
        "positions": [],
    }
    first = episode.steps[0]["decided_on"]

    for step, entry in zip(episode.steps, transcript, strict=True):
        text = next(iter(conversations(entry)))[1]["content"]
        state = json.loads(text.split("```json")[1].split("```")[0])
        day = step["decided_on"]
        assert state["day"] == day
        for name in ("nav", "cash", "holdings"):
            assert state["account"][f"{name}_cny"] == pytest.approx(
                before[f"{name}_minor"] / 100, rel=6e-6
            )

        own = before["nav_minor"] / 1e8 - 1
        market = small.benchmark[day] / small.benchmark[first] - 1
        performance = state["performance"]
        assert performance["portfolio_return_pct"] == pytest.approx(100 * own, abs=6e-4)
        assert performance["benchmark_return_pct"] == pytest.approx(100 * market, abs=6e-4)
        assert performance["excess_return_pct"] == pytest.approx(100 * (own - market), abs=6e-4)
        positions = {row["stock_id"]: row for row in rows(state["positions"])}
        assert set(positions) == {row["code"] for row in before["positions"]}
        for row in before["positions"]:
            seen = positions[row["code"]]
            assert (seen["shares"], seen["locked_shares"]) == (row["shares"], row["locked"])
            assert seen["value_cny"] == pytest.approx(row["value_minor"] / 100, rel=6e-6)
            assert seen["weight"] == pytest.approx(
                row["value_minor"] / before["nav_minor"], abs=6e-5
            )

        if state["last_step"] is not None:
            for seen, order in zip(
                rows(state["last_step"]["orders"]), before["orders"], strict=True
            ):
                # a column with nothing in any row is left out
                ended = {name: order[name] for name in ("status", "rule", "filled_shares")}
                assert {"rule": None, **seen} | ended == {"rule": None, **seen}
                assert "rule" in seen or all(each["rule"] is None for each in before["orders"])
                assert seen["cost_cny"] == pytest.approx(order["fee_minor"] / 100, rel=6e-6)

        before = step

    assert any(step["positions"] for step in episode.steps)


@pytest.fixture(scope="module")
def repeated_days() -> list[Any]:
    """For each step a fill day that opens at the closes of the decision day and changes nothing
    else.
    """
    first = SMALL.day_index(FIRST) - 1
    days = []

    for row in range(first, first + 21):
        fields = {
            name: getattr(SMALL, name).copy()
            for name in ("open", "high", "low", "close", "volume", "member", "factor")
        }
        for name, values in fields.items():
            values[row + 1] = (
                SMALL.close[row] if name in ("open", "high", "low", "close") else values[row]
            )

        days.append(
            MarketTape.from_snapshot(replace(SMALL, **fields), TradingConfig()).day(row + 1)
        )

    return days


def test_a_risk_check_agrees_with_the_executor(repeated_days: list[Any]) -> None:
    """When the next open repeats the close: whatever the account and the weights."""
    rng = random.Random(20)
    seen: Counter[str | None] = Counter()

    for _ in range(200):
        step = rng.randrange(21)
        held = rng.sample(range(len(SMALL.codes)), rng.choice([0, 3, 12, 19, 20]))
        positions = {asset: Position(rng.choice([100, 150, 37, 900, 4_000])) for asset in held}
        account = Account(rng.choice([0, 50_000, 3_000_000, 100_000_000]), positions)
        _, context = scene_at(step, account)
        if not context.nav_fen:
            continue

        weights = {}
        for asset in rng.sample(range(len(SMALL.codes)), 12):
            now = context.held_fen.get(asset, 0) / context.nav_fen
            weights[asset] = min(
                1.0,
                rng.choice(
                    [0.0, 0.001, 0.03, 0.05, 0.1, 0.1001, 0.104, 0.5, now, 1.2 * now, round(now, 4)]
                ),
            )

        report = answer("risk_check", step, account, target_weights=weights)
        plan = dict(zip(weights, rows(report["plan"]), strict=True))
        seen.update(line["violation"] for line in plan.values())
        if "price_limit" in [line["violation"] for line in plan.values()]:
            # a name that closed at its limit: the check takes it to stay there, an open at the
            # close is off it
            continue

        orders = tuple(
            Order(asset, line["side"], 0.5, "", target_weight=weights[asset])
            for asset, line in plan.items()
        )
        after, outcomes = execute(account, repeated_days[step], orders)
        for line, outcome in zip(plan.values(), outcomes, strict=True):
            assert (line["violation"], line["shares"]) == (outcome.rule, outcome.shares)
            assert line["amount_cny"] == pytest.approx(outcome.notional_minor / 100, rel=6e-6)
            assert line["cost_cny"] == pytest.approx(outcome.fee_minor / 100, rel=6e-6)

        assert report["projected"]["cash_cny"] == pytest.approx(after.cash_minor / 100, rel=6e-6)
        assert report["projected"]["positions_held"] == len(after.positions)
        assert report["violations"] == sum(outcome.rule is not None for outcome in outcomes)

    rules = "universe suspended position_limit weight_limit target lot cash"
    assert set(seen) >= {None, *rules.split()}


# ---- by hand


HAND_CODES = ("000001.SZ", "300002.SZ", "600003.SH", "688004.SH")
HAND_OPENS = [
    [10.00, 20.00, 33.33, 300.00],
    [10.00, 20.00, 33.33, 300.00],
    [10.95, 23.90, 33.34, 310.00],
    [10.94, None, 16.70, 320.00],
    [11.00, 12.00, 16.00, 330.00],
]
HAND_CLOSES = [
    [10.00, 20.00, 33.33, 300.00],
    [10.00, 20.00, 33.33, 300.00],
    [10.50, 24.00, 33.40, 310.00],
    [10.60, None, 16.80, 320.00],
    [11.00, 12.50, 16.10, 330.00],
]
HAND = snapshot_of_days(
    HAND_CODES, HAND_OPENS, HAND_CLOSES, factor=[[1, 1, 1, 1]] * 3 + [[1, 2, 2, 1]] * 2
)


def order(asset: int, side: str, weight: float | None = None, shares: int | None = None) -> Order:
    return Order(asset, side, 0.5, "", weight, shares)  # type: ignore[arg-type]


def test_four_days_worked_out_by_hand() -> None:
    config = TradingConfig()
    tape = MarketTape.from_snapshot(HAND, config)

    # Day 1. NAV 1,000,000.00. Exactly 10 % is 10,000 shares at 10.00; 10,100 would be more. 100 at
    # 20.00 cost the minimum. 6 % is exactly 200 STAR shares at 300.00; 5 % is 166, no whole order.
    # 300 at 33.33 = 9,999.00, 5 bps = 4.9995: minimum.
    actions = (
        order(0, "BUY", weight=0.10), order(0, "BUY", shares=100), order(1, "BUY", shares=100),
        order(3, "BUY", weight=0.05), order(3, "BUY", weight=0.06), order(2, "BUY", shares=300),
    )  # fmt: skip
    day = settle(open_account(config), tape.day(1), actions, 0)

    assert [
        (end.status, end.rule, end.shares, end.notional_minor, end.fee_minor)
        for end in day.outcomes
    ] == [
        ("filled", None, 10_000, 10_000_000, 5_000),
        ("rejected", "weight_limit", 0, 0, 0),
        ("filled", None, 100, 200_000, 500),
        ("rejected", "lot", 0, 0, 0),
        ("filled", None, 200, 6_000_000, 3_000),
        ("filled", None, 300, 999_900, 500),
    ]

    cash = 100_000_000 - 10_005_000 - 200_500 - 6_003_000 - 1_000_400
    assert (day.after.cash_minor, day.nav_minor) == (cash, 100_000_000 - 5_000 - 500 - 3_000 - 500)

    # Day 2. 10.95 is exactly 9.5 % above 10.00: no buying, but selling. 23.90 is exactly 19.5 %
    # above 20.00. 33.34 * 100 = 3,334.00, 15 bps = 5.001: 5.00. Selling 1,000 at 10.95 = 10,950.00
    # costs 16.425: 16.43 (half a fen rounds up).
    actions = (
        order(0, "BUY", shares=100),
        order(1, "BUY", shares=100),
        order(2, "SELL", shares=100),
        order(0, "SELL", shares=1_000),
    )
    day = settle(day.after, tape.day(2), actions, 1)

    assert [(end.rule, end.notional_minor, end.fee_minor) for end in day.outcomes] == [
        ("price_limit", 0, 0),
        ("price_limit", 0, 0),
        (None, 333_400, 500),
        (None, 1_095_000, 1_643),
    ]

    cash += 333_400 - 500 + 1_095_000 - 1_643
    assert day.after.cash_minor == cash
    assert day.nav_minor == cash + 9_000 * 1_050 + 100 * 2_400 + 200 * 3_340 + 200 * 31_000

    # Day 3. Two for one in 1 (suspended) and 2: twice the shares at half the price, no fen gained
    # or lost; the suspended holding stays worth 2,400.00, the other opens at its reference of
    # 16.70.
    actions = (order(1, "SELL", weight=0.0), order(2, "SELL", weight=0.0))
    before = day
    day = settle(day.after, tape.day(3), actions, 2)

    assert [
        (action.shares_before, action.shares_after, action.cash_minor)
        for action in day.corporate_actions
    ] == [
        (100, 200, 0),
        (200, 400, 0),
    ]
    assert day.open_nav_minor - before.nav_minor == 9_000 * (1_094 - 1_050) + 200 * (
        32_000 - 31_000
    )
    assert [(end.rule, end.shares, end.notional_minor, end.fee_minor) for end in day.outcomes] == [
        ("suspended", 0, 0, 0), (None, 400, 668_000, 1_002),
    ]  # fmt: skip

    cash += 668_000 - 1_002
    assert (day.after.cash_minor, day.nav_minor) == (
        cash,
        cash + 9_000 * 1_060 + 200 * 1_200 + 200 * 32_000,
    )

    # Day 4. 1 trades again at 12.00, its own reference: sold whole. 330.00 * 200 = 66,000.00 at 15
    # bps = 99.00.
    day = settle(
        day.after, tape.day(4), (order(1, "SELL", weight=0.0), order(3, "SELL", weight=0.0)), 3
    )
    cash += 240_000 - 500 + 6_600_000 - 9_900

    assert (day.after.cash_minor, day.nav_minor) == (cash, cash + 9_000 * 1_100)
    assert day.after.positions == {0: Position(9_000)}
