"""Portfolio weights: computed by hand, against other solvers, and as orders that are all filled.
Warm-up lessons: each day with its outcome, with the right or the opposite sign, and nothing later.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize

from ktdeval.errors import ConfigError, DataError
from ktdeval.harness import HarnessConfig, StanceForm, StanceRule, shown_state, table_rows
from ktdeval.market import Instrument, MarketSnapshot
from ktdeval.masking import Lens, MaskConfig
from ktdeval.registry import load_plugins
from ktdeval.task_api import Window
from ktdeval.testing import on_each_row, scene_on, snapshot_of_days
from ktdeval.trading import AccountConfig, MarketRules, MarketTape
from ktdeval.trading.daily_settlement import open_account
from ktdeval.trading.executor import settle
from ktdeval_markets.config import MarketConfig
from ktdeval_markets.portfolio import (
    PortfolioRebuild,
    WeightRule,
    box_optimum,
    first_used,
    moments,
    scale_weights,
    weights,
)
from ktdeval_markets.task import MarketTask
from support.searching import examples
from support.tables import number

COIN = Instrument("crypto", "USD", "frictionless")
MEANS = np.array([0.03, 0.01])
COVARIANCE = np.array([[0.02, 0.01], [0.01, 0.03]])


@on_each_row(
    "sides, times, optimum, weighed",
    # both inside: half the inverse covariance times the means
    ([1, -1], 1, [0.8, -0.1], [0.888889, -0.111111]),
    # the second is against its side, and the first alone is m / 2s
    ([1, 1], 1, [0.75, 0], [1, 0]),
    ([-1, 1], 1, [0, "1/6"], [0, 1]),
    ([0, 1], 1, [0, "1/6"], [0, 1]),
    # both are against their sides
    ([-1, -1], 1, [0, 0], [0, 0]),
    ([0, 0], 1, [0, 0], [0, 0]),
    # (8, -1) without bounds; with the first at 1 the second is 4/3
    ([1, 1], 10, [1, 1], [0.5, 0.5]),
    ([1, 1], 4, [1, "1/3"], [0.75, 0.25]),
)
def test_optima_of_two_assets_worked_by_hand(
    sides: Any, times: float, optimum: Any, weighed: Any
) -> None:
    solution = box_optimum(times * MEANS, COVARIANCE, np.array(sides))
    assert solution == pytest.approx(list(map(number, optimum)), abs=1e-12)
    assert scale_weights(solution).tolist() == weighed


def test_moments_are_shrunk_to_the_overall_mean_and_average_variance() -> None:
    # returns .1, .1 and -.1, .1
    means, covariance = moments(np.array([[100.0, 100.0], [110.0, 90.0], [121.0, 99.0]]))
    assert means == pytest.approx([0.095, 0.005], abs=1e-14)
    assert covariance == pytest.approx(np.array([[0.001, 0.0], [0.0, 0.019]]), abs=1e-14)
    # no variance
    assert weights(
        np.cumprod(np.full((9, 1), 1.01), axis=0), np.array([1]), "optimised"
    ).tolist() == [1.0]


def prices(chance: np.random.Generator, days: int, n: int) -> Any:
    common = np.eye(n) + chance.uniform(-0.3, 0.6, (n, n))
    moves = chance.standard_normal((days, n)) @ common * chance.uniform(
        0.002, 0.04, n
    ) + chance.normal(0, 0.004, n)
    return 100.0 * np.exp(np.cumsum(moves, axis=0))


@pytest.mark.parametrize("seed", range(40))
def test_no_other_solver_finds_more_and_the_conditions_of_an_optimum_hold(seed: int) -> None:
    chance = np.random.default_rng(seed)
    n = 1 + seed % 5
    closes = prices(chance, 8 + seed, n)
    sides = chance.choice([-1, 0, 1, 1, -1], n)
    means, covariance = moments(closes)
    solution = box_optimum(means, covariance, sides)

    def worth(some: Any) -> Any:
        return some @ means - ((some @ covariance) * some).sum(axis=-1)

    boxes = [(min(side, 0), max(side, 0)) for side in sides.tolist()]
    other = minimize(
        lambda w: -1e3 * worth(w),
        solution * 0.0,
        jac=lambda w: -1e3 * (means - 2 * covariance @ w),
        bounds=boxes,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )

    assert other.x == pytest.approx(solution, abs=2e-4)

    grid = np.array(
        list(
            itertools.product(
                *(np.linspace(low, high, 11 if low != high else 1) for low, high in boxes)
            )
        )
    )

    assert max(worth(other.x), worth(grid).max()) <= worth(solution) + 1e-12

    slope = sides * (means - 2 * covariance @ solution)  # in the direction of the side

    for size, side, gain in zip(np.abs(solution), sides, slope / np.abs(means).max(), strict=True):
        assert 0 <= size <= abs(side)
        assert not side or (
            gain <= 1e-12
            if size < 1e-9
            else gain >= -1e-12
            if size > 1 - 1e-9
            else abs(gain) <= 1e-12
        )

    whole = weights(closes, sides, "optimised")
    # a largest weight takes it, and of several each an equal part
    rest = 1_000_000 - int(np.rint(np.abs(whole) * 1e6).sum())
    largest = int((np.abs(whole) == np.abs(whole).max()).sum())

    assert 0 <= rest < largest if (np.abs(solution) > 1e-7).any() else rest == 1_000_000
    assert (whole * sides >= 0).all()

    order = chance.permutation(n)  # neither rounding nor the order of assets shows
    again = weights(
        (closes * (1 + 1e-13 * chance.standard_normal(closes.shape)))[:, order],
        sides[order],
        "optimised",
    )

    assert again == pytest.approx(whole[order], abs=1.1e-6)
    assert weights(closes * (1 + 1e-13), sides, "optimised").tolist() == whole.tolist()


def test_equal_weights_and_fewer_than_seven_closes() -> None:
    closes = prices(np.random.default_rng(1), 7, 4)
    sides = np.array([1, -1, 0, 1])
    equal = [0.333333, -0.333333, 0.0, 0.333333]  # equal sides stay equal: a millionth is left over

    assert weights(closes, sides, "equal").tolist() == equal
    assert weights(closes[1:], sides, "optimised").tolist() == equal

    optimised = weights(closes, sides, "optimised").tolist()
    assert optimised != equal

    gaps = np.insert(closes, 3, [np.nan, 1.0, 1.0, 1.0], axis=0)  # a day on which one has no close
    assert weights(gaps, sides, "optimised").tolist() == optimised
    assert weights(gaps[1:], sides, "optimised").tolist() == equal
    assert weights(closes, sides * 0, "equal").tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("missing", "first_decision", "position"),
    [
        ([], 10, 3),  # rows 3 to 9 are the seven before
        ([10], 10, 3),  # one asset has no close on the day of the decision
        ([5, 10], 10, 2),  # row 2, as row 5 is no shared day
        ([], 4, 0),
    ],
)
def test_closes_begin_at_the_seventh_shared_day_before_the_first_decision(
    missing: list[int], first_decision: int, position: int
) -> None:
    shared = np.setdiff1d(np.arange(20), missing)

    assert first_used(shared, first_decision) == position


@pytest.mark.exhaustive
@examples(20)
@given(
    seed=st.integers(0, 10_000),
    rule=st.sampled_from(["optimised", "equal"]),
    hold=st.sampled_from(["flat", "keep"]),
    start=st.floats(0.01, 50_000),
)
def test_every_order_is_filled_whole_and_leaves_the_weights_of_the_day(
    seed: int, rule: WeightRule, hold: Any, start: float
) -> None:
    chance = np.random.default_rng(seed)
    closes = np.round(start * np.cumprod(chance.uniform(0.85, 1.18, (20, 4)), axis=0), 6)
    names = ("AAA", "BBB", "CCC", "DDD")
    market = snapshot_of_days(names, closes.tolist(), instruments=(COIN,) * 4)
    config = AccountConfig(initial_cash=1_000_000, max_positions=4, max_weight=1.0).rules("test")
    tape = MarketTape.from_snapshot(market, config)
    rules = MarketRules.of(market, config)
    form = StanceForm(
        HarnessConfig(), Lens(MaskConfig("bright"), 1, market, 0), StanceRule(1.0, hold, True)
    )
    account = open_account(config)
    nav = 1_000_000_00
    decided = [0] * 4

    for row in range(9, 19):
        view = market.as_of(row)
        form.today(
            range(4),
            account.positions,
            PortfolioRebuild(view, row - 9, (2, 0, 3, 1), nav, rules, rule),
        )
        sides = chance.choice(["BUY", "SELL", "HOLD"], 4).tolist()
        items = [
            {"stock_id": name, "decision": what, "confidence": 0.6, "reason": "because it fits"}
            for name, what in zip(names, sides)
        ]
        done = form.read(json.dumps({"decisions": items, "overall_reason": "so"})).submission
        assert done.action is not None
        day = settle(account, tape.day(row + 1), done.action, row)
        assert [outcome.status for outcome in day.outcomes] == ["filled"] * len(done.action)
        held = {
            asset: int(np.sign(position.shares)) for asset, position in account.positions.items()
        }
        targets = [held.get(asset, 0) if hold == "keep" else 0 for asset in range(4)]
        decided = [
            {"BUY": 1, "SELL": -1, "HOLD": targets[asset]}[what] for asset, what in enumerate(sides)
        ]
        wanted = weights(closes[2 : row + 1], np.array(decided), rule)
        units = [
            day.after.positions[asset].shares / 1e8 if asset in day.after.positions else 0.0
            for asset in range(4)
        ]
        assert np.array(units) * closes[row] / (nav / 100) == pytest.approx(wanted, abs=3e-6)
        account = day.after
        nav = day.nav_minor
        if nav < 10_000_000:
            break


def test_a_rebuilt_portfolio_wants_decisions_and_the_whole_nav() -> None:
    made = load_plugins().make_task("investorbench_portfolio")
    assert isinstance(made, MarketTask)

    config = made._config

    with pytest.raises(
        ConfigError,
        match=(
            r"weights needs decisions without a weight limit; set answers: stances and"
            r" trading.max_weight: 1"
        ),
    ):
        dataclasses.replace(config, answers="orders").check("x")

    with pytest.raises(ConfigError, match="max_weight"):
        dataclasses.replace(
            config, trading=dataclasses.replace(config.trading, max_weight=0.5)
        ).check("x")

    assert list(made.describe()["prompts"]) == [
        "prompts/portfolio.md",
        "weights.yaml",
        "prompts/submit_stances.md",
        "prompts/user.md",
        "wording.yaml",
        "duties.yaml",
        "prompts/lesson.md",
    ]  # type: ignore[call-overload]


# ---- lessons of a warm-up


PLUGINS = load_plugins()
CODES = ("ADA", "BTC")
#: Of the second asset: up, down, none, from 99 to 108.9 over it, as it was; then the base day and
#: days that nobody may see.
PRICES = [
    [10, 100],
    [11, 110],
    [11, 99],
    [11, None],
    [12, 108.9],
    [6, 108.9],
    [7, 100],
    [70, 1000],
    [1, 5],
]
WINDOW = Window("w", "2024-01-08", "2024-01-09")  # decided on from 2024-01-07


def market(prices: Any = PRICES, **changes: Any) -> MarketSnapshot:
    coins = (Instrument("crypto", "USD", "crypto_spot"),) * 2
    made = snapshot_of_days(
        CODES,
        prices,
        instruments=coins,
        volume=[[1.0, 1.0]] * len(prices),
        first="2024-01-01",
        **changes,
    )
    return dataclasses.replace(
        made, meta=dataclasses.replace(made.meta, benchmark=""), indices={}, index_names={}
    )


def task_of(**changes: Any) -> MarketTask:
    made = PLUGINS.make_task("market_blinded")
    assert isinstance(made, MarketTask)

    dates = {"w": {"first": WINDOW.first, "last": WINDOW.last}}
    plain = {
        **made.describe(),
        "windows": dates,
        "default_windows": ["w"],
        "warm_up": {"w": "2024-01-01"},
        **changes,
    }

    for name in ("name", "mode", "venue_rules", "duties", "prompts"):
        plain.pop(name)

    return MarketTask("t", MarketConfig.load(plain, "t"))


def lessons(
    snapshot: MarketSnapshot, window: Window = WINDOW, seed: int = 0, **changes: Any
) -> list[Any]:
    """The lessons of a task as (day, rows of outcomes by asset, whole text), assets by their true
    codes.
    """
    made = task_of(**changes)
    scene = scene_on(made, snapshot, window, seed)

    assert not scene.lens.shown  # an agent that does not ask for them is shown nothing

    days = list(scene.lessons(snapshot.as_of(6)))
    handles = {scene.lens.asset_handle(column): code for column, code in enumerate(snapshot.codes)}

    return [
        (lesson.day, {handles[row["stock_id"]]: (row["next_day"], row["change_pct"], row["label"])
                   for row in table_rows(shown_state(lesson.text)["outcomes"])}, lesson.text)
        for lesson in days
    ]  # fmt: skip


def test_each_lesson_has_the_next_price_over_days_without_one() -> None:
    by_day = [(day, outcomes) for day, outcomes, _ in lessons(market(), assets=["BTC"])]
    assert by_day == [
        ("day_-6", {"BTC": ("day_-5", 10.0, "BUY")}),
        ("day_-5", {"BTC": ("day_-4", -10.0, "SELL")}),
        ("day_-4", {"BTC": ("day_-2", 10.0, "BUY")}),  # 108.9 of 99, over a day without a price
        ("day_-2", {"BTC": ("day_-1", 0.0, "HOLD")}),
        ("day_-1", {"BTC": ("day_+0", pytest.approx(-8.172, abs=1e-3), "SELL")}),
    ]

    both = lessons(market())
    assert [sorted(outcomes) for _, outcomes, _ in both] == [["ADA", "BTC"]] * 3 + [["ADA"]] + [
        ["ADA", "BTC"]
    ] * 2
    assert [outcomes["ADA"][2] for _, outcomes, _ in both] == [
        "BUY",
        "HOLD",
        "HOLD",
        "BUY",
        "SELL",
        "BUY",
    ]


def test_inverted_labels_fall_on_the_days_before_the_opposite_move() -> None:
    right = lessons(market(), assets=["BTC"])
    inverted = lessons(market(), assets=["BTC"], labels="inverted")
    opposite = {"BUY": "SELL", "SELL": "BUY", "HOLD": "HOLD"}

    for (day, own, text), (other_day, other, other_text) in zip(right, inverted, strict=True):
        assert day == other_day
        assert other["BTC"][2] == opposite[own["BTC"][2]]
        # p_t / p_t+1 - 1
        assert (1 + own["BTC"][1] / 100) * (1 + other["BTC"][1] / 100) == pytest.approx(1, abs=1e-4)
        # nothing else differs
        assert text.partition('"outcomes"')[0] == other_text.partition('"outcomes"')[0]


def test_a_split_is_no_move_and_the_mask_holds_in_lessons() -> None:
    split = [
        [10, 100],
        [5, 100],
        [5, 100],
        [5, 100],
        [5, 100],
        [5, 100],
        [5, 100],
        [5, 100],
        [5, 100],
    ]
    factor = [[1.0, 1.0], *([[2.0, 1.0]] * 8)]

    assert {outcomes["ADA"][1:] for _, outcomes, _ in lessons(market(split, factor=factor))} == {
        (0.0, "HOLD")
    }

    for mask, hidden in (
        ("blinded", (*CODES, "2024")),
        ("stock_blind", CODES),
        ("date_blind", ("2024",)),
    ):
        for day, _, text in lessons(market(), mask=mask):
            assert not re.search("|".join(hidden), day + text), mask

    day, outcomes, text = lessons(market(), mask="bright")[0]

    assert (day, outcomes["BTC"][0]) == ("2024-01-01", "2024-01-02")
    assert '"BTC"' in text

    rebased = lessons(market(), rebase_prices=True)  # returns stay what they are
    assert [outcomes for _, outcomes, _ in rebased] == [
        outcomes for _, outcomes, _ in lessons(market())
    ]


def test_warm_up_shows_nothing_after_the_first_step() -> None:
    poisoned = [*PRICES[:7], [9999, 9999], [8888, 8888]]
    assert lessons(market()) == lessons(market(poisoned))

    later = lessons(market(), warm_up={"w": "2024-01-04"})
    assert [day for day, *_ in later] == ["day_-3", "day_-2", "day_-1"]
    # a window that has none
    assert lessons(market(), Window("other", WINDOW.first, WINDOW.last)) == []

    with pytest.raises(
        DataError,
        match=r"^the warm-up begins on 2023-12-30, but tiny only on 2024-01-01; import earlier days$",
    ):
        lessons(market(), warm_up={"w": "2023-12-30"})


@on_each_row(
    "changes, problem",
    ({"warm_up": {"v": "2024-01-01"}}, "t: warm_up: no window 'v'"),
    (
        {"warm_up": {"w": "2024-01-08"}},
        "t: warm_up.w: 2024-01-08 is not before the window, which begins 2024-01-08",
    ),
    ({"warm_up": {"w": "soon"}}, "t: warm_up.w: "),
    ({"warm_up": {}, "labels": "inverted"}, "t: labels: inverted requires a warm-up; set warm_up"),
    ({"labels": "wrong"}, "t: labels: "),
)
def test_what_agrees_with_no_window_is_refused(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(problem)}"):
        task_of(**changes)
