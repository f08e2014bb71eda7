"""Training of a policy on one asset, on a hand-made market: features, rewards, the end of an
episode, scale and days, checked by value. Skipped if the extra `gym` is not installed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install '.[gym]'")

from gymnasium.utils.env_checker import check_env  # noqa: E402

from gym_worlds import MSFT, opened_on  # noqa: E402
from ktdeval.errors import DataError  # noqa: E402
from ktdeval.market import Instrument, MarketSnapshot  # noqa: E402
from ktdeval.task_api import Window  # noqa: E402
from ktdeval.testing import snapshot_of_days  # noqa: E402
from ktdeval_gym.policies.policy_training import PolicyTraining  # noqa: E402
from ktdeval_gym.policies.training_checks import (  # noqa: E402
    check_days,
    earliest_day,
    form_problem,
    span_problem,
)
from ktdeval_gym.rl.policy_env import PolicyEnv  # noqa: E402

FIRST_DAY = "2024-03-04"
HALTED = 5
CLOSES = [100.0, 110.0, 99.0, 108.9, 98.01, None, 107.811, 97.0299, 97.0299, 106.73289]
"""Each close is 10% above or below the one before; none on `HALTED`, and none moves on row 8."""
UP = math.log(1.1)
DOWN = math.log(0.9)


def market_of(closes: list[float | None]) -> MarketSnapshot:
    """One US share; each day opens at the previous close."""
    opens = [closes[0], *closes[:-1]]
    opens = [None if close is None else open_ for open_, close in zip(opens, closes, strict=True)]
    opens[HALTED + 1] = opens[HALTED + 1] or closes[HALTED - 1]
    rows = [[close] for close in closes]
    share = (Instrument("stock", "USD", "us_equity"),)
    return snapshot_of_days(
        ["AAPL"], [[o] for o in opens], rows, instruments=share, first=FIRST_DAY
    )


MARKET = market_of(CLOSES)
TASK = opened_on(MARKET, MSFT, [(3, 9)]).task


def day_of(row: int) -> str:
    return str(np.datetime64(FIRST_DAY) + row)


def training(
    first: int,
    last: int,
    market: MarketSnapshot = MARKET,
    scale: float | None = 0.1,
    lookback: int = 2,
) -> PolicyTraining:
    """A training whose first and last fills are on these rows."""
    return PolicyTraining.of(opened_on(market, MSFT, [(first, last)]), lookback, scale)


def test_the_environment_is_one_of_gymnasium() -> None:
    check_env(PolicyEnv(training(4, 8)), skip_render_check=True)


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
    env = PolicyEnv(training(first, 8, scale=scale))

    # the table `history` has closes of six digits
    assert env.reset()[0].tolist() == pytest.approx(expected, abs=1e-3)
    assert env.account.row == first - 1


def test_a_step_is_rewarded_by_the_log_return_of_nav() -> None:
    """USD 1,000,000 buys at 108.90, the close of the decision; the day closes at 98.01."""
    env = PolicyEnv(training(4, 8))
    env.reset()

    bought, bought_reward, *_ = env.step(2)
    nav = env.account.nav_minor
    halted, halted_reward, *_ = env.step(2)
    sold, sold_reward, *ends, _ = env.step(1)

    assert [bought[-1], halted[-1], sold[-1]] == [1, 1, 0]
    assert bought_reward == pytest.approx(DOWN, abs=6e-5)
    assert bought_reward == math.log(nav / 100_000_000)
    # the holding is sold at the open, which is the close before the halt
    assert (halted_reward, sold_reward) == (0.0, pytest.approx(0.0, abs=1e-4))
    assert ends == [False, False]
    assert env.reset()[0][-1] == 0
    assert env.account.nav_minor == 100_000_000


@pytest.mark.parametrize(("actions", "side"), [([], 0), ([2], 1), ([0], -1), ([2, 1], 0)])
def test_the_side_is_that_of_the_position(actions: list[int], side: int) -> None:
    env = PolicyEnv(training(3, 9))
    observation, _ = env.reset()

    for action in actions:
        observation, *_ = env.step(action)

    assert observation[-1] == side


def test_an_episode_ends_with_the_last_fill() -> None:
    env = PolicyEnv(training(3, HALTED))

    assert [env.step(1)[2:4] for _ in range(3)] == [
        (False, False),
        (False, False),
        (False, True),
    ]


def test_a_ruined_account_ends_the_episode_at_one_minor_unit() -> None:
    """A short of the whole NAV, followed by a close at three times the price."""
    closes: list[float | None] = [100.0, 110.0, 99.0, 108.9, 99.0, 350.0, 350.0, 350.0]
    env = PolicyEnv(training(4, 7, market_of(closes)))
    env.step(0)
    before = env.account.nav_minor

    _, reward, is_ruined, is_last, _ = env.step(0)

    assert (is_ruined, is_last) == (True, False)
    assert env.account.nav_minor < 0
    assert reward == pytest.approx(math.log(1 / before))


def test_nothing_up_to_a_day_depends_on_later_days() -> None:
    later = np.arange(len(MARKET.days))[:, None] >= 7
    changed = {
        name: np.where(later, getattr(MARKET, name) * 1.5, getattr(MARKET, name))
        for name in ("open", "high", "low", "close", "volume", "amount")
    }
    seen = []
    for market in (MARKET, replace(MARKET, **changed)):
        env = PolicyEnv(training(4, 8, market))
        returned: list[Any] = [env.reset()[0].tolist()]
        for action in (2, 0, 2, 0):
            observation, *others = env.step(action)
            returned.append((observation.tolist(), others))
        seen.append(returned)

    # the first fill is on row 4: the changed prices are visible after four steps
    assert seen[0][:4] == seen[1][:4]
    assert seen[0][4] != seen[1][4]


# ---- scale


@pytest.mark.parametrize(
    ("first", "last", "returns"),
    [
        (4, 8, [DOWN, UP, DOWN, 0.0]),
        (3, HALTED, [UP, DOWN]),
    ],
)
def test_the_scale_is_of_the_returns_within_the_days(
    first: int, last: int, returns: list[float]
) -> None:
    assert training(first, last, scale=None).scale == pytest.approx(np.std(returns))


def test_a_price_that_does_not_move_has_no_scale() -> None:
    with pytest.raises(DataError, match=f"does not move from {day_of(3)} to {day_of(8)}; choose"):
        training(3, 8, market_of([10.0] * 10), scale=None)


def test_a_policy_file_states_the_training() -> None:
    assert training(4, 8).facts == {
        "task": MSFT,
        "snapshot": MARKET.id,
        "first": day_of(4),
        "last": day_of(8),
        "hold": "flat",
        "lookback": 2,
        "scale": 0.1,
    }


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
    assert earliest_day(MARKET, 0, lookback) == day


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
        check_days(TASK, MARKET, lookback, windows)
        return

    with pytest.raises(DataError) as refused:
        check_days(TASK, MARKET, lookback, windows)

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

    found = span_problem(MARKET, 0, 2, span, closes)

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
