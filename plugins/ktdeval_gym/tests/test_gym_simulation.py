"""Environment of one asset, on a hand-made market: features, amounts, texts and episode ends
checked by value. Skipped if the extra `gym` is not installed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot

from ktdeval_gym.single_asset_simulation import StepFacts

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install '.[gym]'")


from ktdeval.errors import DataError, UsageError  # noqa: E402
from ktdeval.market import Instrument  # noqa: E402
from ktdeval.task_api import Window  # noqa: E402
from ktdeval.testing import error_lines  # noqa: E402
from ktdeval_gym.single_asset_env import TradingEnv, TradingVectorEnv, prior_scale, render_info  # noqa: E402
from ktdeval_gym.single_asset_simulation import AssetMarket, TradingSimulation  # noqa: E402
from ktdeval_gym.training_checks import check_days, earliest_day, form_problem, span_problem  # noqa: E402
from ktdeval_gym.wrappers import Masked  # noqa: E402
from support.market.trading_market import make_market  # noqa: E402
from support.tasks.gym_worlds import asset_market  # noqa: E402

FIRST_DAY = "2024-03-04"
HALTED = 5
CLOSES = [100.0, 110.0, 99.0, 108.9, 98.01, None, 107.811, 97.0299, 97.0299, 106.73289]
"""Each close is 10% above or below the one before; none on `HALTED`, and none moves on row 8."""
UP = math.log(1.1)
DOWN = math.log(0.9)


def market_of(closes: list[float | None], **more: Any) -> AssetMarket:
    """One US share; each day opens at the previous close."""
    opens = [closes[0], *closes[:-1]]
    opens = [None if close is None else open_ for open_, close in zip(opens, closes, strict=True)]
    opens[HALTED + 1] = opens[HALTED + 1] or closes[HALTED - 1]
    rows = [[close] for close in closes]
    share = (Instrument("stock", "USD", "us_equity"),)
    made = make_market(["AAPL"], [[o] for o in opens], rows, instruments=share, first=FIRST_DAY)

    return asset_market(replace(made, **more))


MARKET = market_of(CLOSES)


def day_of(row: int) -> str:
    return str(np.datetime64(FIRST_DAY) + row)


def simulation(
    first: int,
    last: int,
    market: AssetMarket = MARKET,
    scale: float | None = 0.1,
    lookback: int = 2,
) -> TradingSimulation:
    """A simulation whose first and last fills are on these rows."""
    span = Window("own", day_of(first), day_of(last))
    return TradingSimulation(market.task, market.snapshot, span, lookback, scale, market)


@pytest.mark.parametrize(
    ("first", "scale", "expected"),
    [
        (4, 0.1, [DOWN / 0.1, UP / 0.1, 0.0]),
        (HALTED, 0.1, [UP / 0.1, DOWN / 0.1, 0.0]),
        # the halt's close is that of the previous day
        (HALTED + 1, 0.1, [UP / 0.1, DOWN / 0.1, 0.0]),
        (HALTED + 2, 0.1, [DOWN / 0.1, UP / 0.1, 0.0]),
        (4, 0.001, [-10.0, 10.0, 0.0]),
    ],
)
def test_features_are_returns_known_at_the_close_before_the_fill(
    first: int, scale: float, expected: list[float]
) -> None:
    made = simulation(first, 8, scale=scale)

    assert made.reset().tolist() == pytest.approx(expected, rel=1e-6)
    assert made.row == first - 1


def test_a_step_states_its_amounts() -> None:
    """USD 1,000,000 buys at 108.90, the close of the decision; the day closes at 98.01."""
    made = simulation(4, 8)
    made.reset()

    bought, is_ruined, is_last = made.advance(2)
    halted, _, _ = made.advance(2)
    sold, _, _ = made.advance(1)

    assert (is_ruined, is_last, made.side) == (False, False, 0)
    assert bought.nav_before == 100_000_000
    assert bought.traded == pytest.approx(100_000_000, rel=1e-4)
    assert bought.asset_return == pytest.approx(DOWN)
    assert math.log(bought.nav / bought.nav_before) == pytest.approx(DOWN, abs=6e-5)
    assert halted == StepFacts(bought.nav, bought.nav, 0, 0.0)
    # the holding is sold at the open, which is the close before the halt
    assert sold.traded == pytest.approx(bought.nav, rel=1e-4)
    assert sold.asset_return == pytest.approx(UP)
    assert made.nav == sold.nav


@pytest.mark.parametrize(("actions", "side"), [([], 0), ([2], 1), ([0], -1), ([2, 1], 0)])
def test_the_side_is_that_of_the_position(actions: list[int], side: int) -> None:
    made = simulation(3, 9)
    made.reset()

    for action in actions:
        made.advance(action)

    assert made.side == side
    assert made.observation()[-1] == side


def test_the_last_step_is_that_of_the_last_fill() -> None:
    made = simulation(3, HALTED)

    assert [made.advance(1)[1:] for _ in range(3)] == [
        (False, False),
        (False, False),
        (False, True),
    ]


# ---- what is told of a close


def test_info_and_text_tell_asset_day_close_nav_and_side() -> None:
    env = TradingEnv(simulation(4, 8), render_mode="ansi")
    _, before = env.reset()

    assert before == {
        "asset": "AAPL",
        "day": day_of(3),
        "close": 108.9,
        "nav": 1_000_000.0,
        "side": 0,
    }
    assert env.render() == f"{day_of(3)}  AAPL  close 108.9  NAV 1,000,000.00  flat"

    *_, after = env.step(0)

    assert (after["day"], after["close"], after["side"]) == (day_of(4), 98.01, -1)
    assert after["nav"] == env.simulation.nav / 100

    *_, halted = env.step(0)
    assert (halted["day"], halted["close"]) == (day_of(HALTED), 98.01)
    assert TradingEnv(simulation(4, 8)).render() is None


@pytest.mark.parametrize(("side", "word"), [(1, "long"), (0, "flat"), (-1, "short")])
def test_a_side_has_a_word(side: int, word: str) -> None:
    info = {"asset": "A", "day": "d", "close": 1.5, "nav": 1234.5, "side": side}

    assert render_info(info) == f"d  A  close 1.5  NAV 1,234.50  {word}"


def test_rebased_prices_count_from_the_close_before_the_episode() -> None:
    env = Masked(TradingEnv(simulation(4, 8), render_mode="ansi"), rebase_prices=True)

    _, before = env.reset()
    *_, after = env.step(1)

    assert (before["close"], before["day"]) == (pytest.approx(100.0), "day_+0")
    assert (after["close"], after["day"]) == (pytest.approx(90.0), "day_+1")
    assert str(env.render()).startswith("day_+1  asset_")
    assert Masked(TradingEnv(simulation(4, 8))).render() is None

    with pytest.raises(TypeError, match="Masked wraps ktdeval/Trading-v0 of one asset"):
        Masked(gymnasium.make("CartPole-v1"))


# ---- scale


@pytest.mark.parametrize(
    ("first", "returns"),
    [
        (3, [UP, DOWN]),
        (5, [UP, DOWN, UP, DOWN]),
        (HALTED + 1, [UP, DOWN, UP, DOWN]),
        (8, [UP, DOWN, UP, DOWN, UP, DOWN]),
    ],
)
def test_the_prior_scale_is_of_the_returns_before_the_first_decision(
    first: int, returns: list[float]
) -> None:
    span = Window("own", day_of(first), day_of(9))

    assert prior_scale(MARKET, span) == pytest.approx(np.std(returns))


@pytest.mark.parametrize("first", [0, 1, 2])
def test_fewer_than_two_returns_have_no_scale(first: int) -> None:
    with pytest.raises(DataError, match=f"does not move before {day_of(first)}, so that returns"):
        prior_scale(MARKET, Window("own", day_of(first), day_of(9)))


# ---- ends


def test_a_ruined_account_ends_the_episode_at_one_minor_unit() -> None:
    """A short of the whole NAV, followed by a close at three times the price."""
    closes: list[float | None] = [100.0, 110.0, 99.0, 108.9, 99.0, 350.0, 350.0, 350.0]
    written: list[Any] = []
    market = market_of(closes)
    env = TradingEnv(
        simulation(4, 7, market), writer=lambda steps, limit: written.append((steps, limit))
    )
    env.reset()
    env.step(0)
    before = env.simulation.nav

    _, reward, is_ruined, is_last, info = env.step(0)

    assert (is_ruined, is_last) == (True, False)
    assert info["nav"] < 0
    assert reward == pytest.approx(math.log(1 / before))
    assert written == [({0: ("SELL",), 1: ("SELL",)}, 2)]

    with pytest.raises(UsageError, match="call reset"):
        env.step(0)

    assert simulation(4, 7, market).step(0)[2:] == (False, False)


def test_an_episode_that_ends_with_its_days_is_written_without_a_length() -> None:
    written: list[Any] = []
    env = TradingEnv(simulation(3, 4), writer=lambda steps, limit: written.append((steps, limit)))
    env.reset()

    ends = [env.step(action)[2:4] for action in (2, 1)]

    assert ends == [(False, False), (False, True)]
    assert written == [({0: ("BUY",), 1: ("HOLD",)}, None)]


# ---- several at once


def test_vector_env_has_a_row_per_simulation_and_a_column_per_feature() -> None:
    vector = TradingVectorEnv([simulation(3, 5), simulation(4, 7), simulation(4, 6)])

    observations, info = vector.reset()

    assert vector.num_envs == 3
    assert vector.single_observation_space.shape == (3,)
    assert vector.observation_space.shape == observations.shape == (3, 3)
    assert vector.single_action_space.n == 3
    assert vector.action_space.shape == (3,)
    assert info["nav"].tolist() == [1_000_000.0] * 3
    assert info["side"].tolist() == [0, 0, 0]

    low = vector.single_observation_space.low.min()
    assert (low, vector.single_observation_space.high.max()) == (-10.0, 10.0)


def test_a_ruined_environment_of_many_is_terminated() -> None:
    closes: list[float | None] = [100.0, 110.0, 99.0, 108.9, 99.0, 350.0, 350.0, 350.0]
    market = market_of(closes)
    vector = TradingVectorEnv([simulation(4, 7, market), simulation(4, 7, market)])
    vector.step([0, 2])

    _, _, is_ruined, is_last, _ = vector.step([0, 2])

    assert is_ruined.tolist() == [True, False]
    assert is_last.tolist() == [False, False]


def test_environments_of_several_markets_or_none_are_no_vector() -> None:
    assert error_lines(
        lambda: TradingVectorEnv([]),
        lambda: TradingVectorEnv([simulation(4, 6), simulation(4, 6, lookback=1)]),
        lambda: TradingVectorEnv([simulation(4, 6), simulation(4, 6, market=market_of(CLOSES))]),
    ) == snapshot("""\
UsageError: a vector environment needs at least one window
UsageError: the environments of a vector share one market and one lookback
UsageError: the environments of a vector share one market and one lookback
""")


# ---- days that can be trained on


@pytest.mark.parametrize(
    ("lookback", "day"),
    [
        (1, day_of(2)),
        (4, day_of(5)),
        # the sixth close with trade is on the day after the halt
        (5, day_of(7)),
        (7, day_of(9)),
        # the ninth is the last day, after which there is no fill
        (8, None),
        (9, None),
    ],
)
def test_the_first_fill_can_see_its_returns(lookback: int, day: str | None) -> None:
    assert earliest_day(MARKET.snapshot, 0, lookback) == day


@pytest.mark.parametrize(
    ("lookback", "evaluated", "known"),
    [
        (4, day_of(6), None),
        (4, day_of(5), f"from {day_of(5)} on"),
        (4, day_of(4), f"from {day_of(5)} on"),
        (8, day_of(9), "on no day"),
    ],
)
def test_days_of_training_lie_before_those_evaluated(
    lookback: int, evaluated: str, known: str | None
) -> None:
    windows = [Window("a", evaluated, day_of(9)), Window("b", day_of(9), day_of(9))]
    if known is None:
        check_days(MARKET.task, MARKET.snapshot, lookback, windows)
        return

    with pytest.raises(DataError) as refused:
        check_days(MARKET.task, MARKET.snapshot, lookback, windows)

    assert str(refused.value) == (
        f"tiny has no days to train on: a decision needs {lookback} earlier returns, which are available {known}, and"
        f" evaluation begins {evaluated}; give a shorter --lookback, later --windows, or data of"
        " earlier days"
    )


@pytest.mark.parametrize(
    ("first", "closes", "problem"),
    [
        (3, 3, None),
        (3, 2, "2 closes from {first} to {last}; choose days from {first} to {last}, at least 3"),
        (2, 9, "before {second} fewer than 3 closes are known, which 2 returns need; choose days"),
    ],
)
def test_a_span_needs_three_closes_and_its_returns_before(
    first: int, closes: int, problem: str | None
) -> None:
    span = Window("own", day_of(first), day_of(9))

    found = span_problem(MARKET.snapshot, 0, 2, span, closes)

    if problem is None:
        assert found is None
    else:
        days = {"first": day_of(3), "last": day_of(9), "second": day_of(2)}
        assert found is not None
        assert found.startswith(problem.format(**days))


@pytest.mark.parametrize(
    ("changes", "is_fit"),
    [
        ({}, True),
        ({"answers": "orders"}, False),
        ({"weights": "optimised"}, False),
        ({"exit": [1, 2]}, False),
        ({"assets": []}, False),
        ({"assets": ["A", "B"]}, False),
        ({"assets": None}, False),
    ],
)
def test_a_policy_decides_on_one_asset_as_a_whole(changes: dict[str, Any], is_fit: bool) -> None:
    rules = {"answers": "stances", "weights": None, "exit": None, "assets": ["A"]}
    problem = "does not ask for BUY, SELL or HOLD of one asset, each a whole position"

    assert form_problem({**rules, **changes}) == (None if is_fit else problem)
