"""Environment of a multi-asset task, on a hand-made market: observations, weights, rewards and
episode ends checked by value. Skipped if the extra `gym` is not installed.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs gymnasium: pip install '.[gym]'")

from gym_worlds import BASE, MSFT, moved_market, opened_on
from ktdeval.attribution import market_levels
from ktdeval.errors import DataError, UsageError
from ktdeval.market import Instrument, MarketSnapshot
from ktdeval.testing import snapshot_of_days
from ktdeval_gym.rewards import RewardConfig
from ktdeval_gym.task_env import TaskEnv, benchmark_return, market_scale

ORDERS = "market_blinded"
COLUMNS = (
    "return_1d_pct",
    "return_5d_pct",
    "return_20d_pct",
    "return_60d_pct",
    "volatility_20d_pct",
    "drawdown_60d_pct",
)
MARKET = moved_market()
DAYS = (BASE + 1, BASE + 4)


def env_of(
    name: str = ORDERS, market: MarketSnapshot = MARKET, days: Any = DAYS, **options: Any
) -> TaskEnv:
    opened = opened_on(market, name, [days])
    return TaskEnv(opened, opened.windows[0], **options)


def bought(env: TaskEnv, slot: int, weight: float) -> Any:
    """An action that holds one slot at a weight."""
    action = np.zeros(env.action_space.shape, dtype=np.float32)
    action[slot] = weight
    return action


def slot_of(observation: Any, figure: float) -> int:
    """The slot whose daily return is a given figure."""
    (slot,) = np.flatnonzero(np.isclose(observation["figures"][:, 0], figure))
    return int(slot)


def test_figures_are_per_cents_over_ten_cut_at_ten_and_0_where_unknown() -> None:
    env = env_of()

    observation, _ = env.reset()

    assert env.form.columns == COLUMNS

    of_day = sorted(observation["figures"][:, 0].tolist())
    # CCC fell by 1%, DDD was unchanged, AAA rose by 10%, and the 200% of BBB are clipped
    assert of_day == pytest.approx([-0.1, 0.0, 1.0, 10.0])

    new = slot_of(observation, 0.0)
    assert observation["known"][new].tolist() == [1, 1, 0, 0, 0, 1]
    assert observation["figures"][new].tolist() == [0.0] * len(COLUMNS)

    known = np.delete(observation["known"], new, axis=0)
    assert known.tolist() == [[1] * len(COLUMNS)] * 3


# ---- what is observed


def test_environment_starts_with_cash_at_the_close_before_its_window() -> None:
    env = env_of(render_mode="ansi")

    observation, info = env.reset()

    assert observation["weights"].tolist() == [0.0] * 4
    assert observation["cash"].tolist() == [1.0]
    assert (info["nav"], info["day"]) == (100_000.0, "day_+0")
    assert len(set(info["assets"])) == 4
    assert info.keys() == {"nav", "day", "assets"}
    assert str(env.render()).startswith('{"day":"day_+0","account":{"cash":100000.0,')
    assert env_of().render() is None


@pytest.mark.parametrize(
    ("shown", "most", "slots"), [(1, 1, 2), (2, 1, 3), (3, 40, 4), (120, 40, 4)]
)
def test_there_are_slots_for_what_is_listed_and_what_may_be_held(
    shown: int, most: int, slots: int
) -> None:
    opened = opened_on(MARKET, ORDERS, [DAYS])
    config = opened.task._config
    changed = replace(config, shown=shown, trading=replace(config.trading, max_positions=most))
    task = type(opened.task)(ORDERS, changed)

    env = TaskEnv(replace(opened, task=task), opened.windows[0])

    assert env.form.slots == slots


def test_a_position_is_shown_at_its_share_of_the_nav_that_it_earned() -> None:
    """A quarter of USD 100,000 buys AAA at 55: 454.5454 shares for 25,000.00, rounded up, and 0.5
    cents each of commission, USD 2.28. At 66 they are worth 29,999.9964.
    """
    env = env_of()
    observation, _ = env.reset()
    slot = slot_of(observation, 1.0)

    observation, reward, is_ruined, is_last, info = env.step(bought(env, slot, 0.25))

    cash = 100_000 - 25_000.00 - 2.28
    nav = cash + 30_000.00

    assert info["nav"] == pytest.approx(nav, abs=1e-9)
    assert reward == pytest.approx(math.log(nav / 100_000), abs=1e-12)
    assert observation["weights"][slot] == np.float32(round(30_000 / nav, 4))
    assert np.count_nonzero(observation["weights"]) == 1
    assert observation["cash"][0] == np.float32(round(cash / nav, 4))
    assert (is_ruined, is_last) == (False, False)
    assert (info["day"], info["decided_by"], info["rejected"]) == ("day_+1", "model", 0)


# ---- what is settled and earned


@pytest.mark.parametrize(
    ("name", "reward_of"),
    [
        ("log_return", lambda nav: math.log(nav / 100_000)),
        # the index went from an even to an odd row
        ("benchmark_relative", lambda nav: math.log(nav / 100_000) - math.log(1010 / 1000)),
        # USD 25,000.00 of 100,000 were traded, at 40 basis points
        ("after_costs", lambda nav: math.log(nav / 100_000) - 0.25 * 0.004),
        # D of a first return R, with A = 0 and B = s^2: R / s; the index moved by log(1.01) a day
        ("differential_sharpe", lambda nav: (nav / 100_000 - 1) / math.log(1.01)),
    ],
)
def test_each_reward_is_of_the_steps_amounts(name: Any, reward_of: Any) -> None:
    env = env_of(reward=RewardConfig(name, cost_bps=40.0))
    observation, _ = env.reset()

    _, reward, _, _, info = env.step(bought(env, slot_of(observation, 1.0), 0.25))

    assert reward == pytest.approx(reward_of(info["nav"]), rel=1e-6)


def test_orders_that_are_not_filled_are_counted() -> None:
    """CCC does not trade on the first day of fills."""
    volume = np.array(MARKET.volume)
    volume[BASE + 1, 2] = 0.0
    opens = np.array(MARKET.open)
    opens[BASE + 1, 2] = np.nan
    env = env_of(market=replace(MARKET, open=opens, volume=volume))
    observation, _ = env.reset()

    *_, info = env.step(bought(env, slot_of(observation, -0.1), 0.25))

    assert (info["rejected"], info["nav"]) == (1, 100_000.0)


# ---- ends


def jumping_market() -> MarketSnapshot:
    """One share that rises by a per cent, and opens at five times its price on the second fill
    day.
    """
    opens = [[19.8], *([[20.0]] * (BASE + 1)), [100.0], [100.0]]
    share = (Instrument("stock", "USD", "us_equity"),)
    return snapshot_of_days(["BBB"], opens, instruments=share)


def test_ruined_account_ends_the_episode_and_its_length_is_recorded() -> None:
    written: list[Any] = []
    env = env_of(
        MSFT,
        jumping_market(),
        (BASE + 1, BASE + 3),
        writer=lambda steps, limit: written.append((dict(steps), limit)),
    )
    env.reset()

    ends = [env.step([0])[2:4] for _ in range(2)]

    assert ends == [(False, False), (True, False)]
    assert env._nav < 0
    assert written == [({0: ["SELL"], 1: ["SELL"]}, 2)]

    with pytest.raises(UsageError, match="call reset"):
        env.step([0])


# ---- benchmark and scale


def levels_of(levels: list[float], benchmark: str = "000300.SH") -> MarketSnapshot:
    made = snapshot_of_days(["600001.SH"], [[10.0]] * len(levels))
    meta = replace(made.meta, benchmark=benchmark)
    return replace(made, meta=meta, indices={"000300.SH": np.array(levels)})


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([1000.0, 1100.0], math.log(1.1)),
        ([1000.0, math.nan], 0.0),
        ([1000.0, 0.0], 0.0),
    ],
)
def test_the_benchmark_is_the_markets_index(levels: list[float], expected: float) -> None:
    assert benchmark_return(market_levels(levels_of(levels)), 0, 1) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("closes", "factor", "member", "expected"),
    [
        ([[10.0, 20.0], [11.0, 26.0]], None, None, math.log(1.2)),
        ([[10.0, 20.0], [5.5, 26.0]], [[1.0, 1.0], [2.0, 1.0]], None, math.log(1.2)),
        ([[10.0, 20.0], [11.0, 26.0]], None, [[True, False], [True, True]], math.log(1.1)),
        ([[10.0, 20.0], [11.0, None]], None, None, math.log(1.05)),
        ([[10.0, 20.0], [None, None]], None, None, 0.0),
    ],
    ids=["mean", "adjusted", "members of the day before", "suspended", "none"],
)
def test_without_an_index_the_benchmark_is_the_mean_of_the_members(
    closes: Any, factor: Any, member: Any, expected: float
) -> None:
    market = snapshot_of_days(["600001.SH", "600002.SH"], closes, factor=factor, member=member)
    market = replace(market, meta=replace(market.meta, benchmark=""))

    assert benchmark_return(market_levels(market), 0, 1) == pytest.approx(expected)


def test_the_benchmark_of_a_monday_is_the_move_since_friday() -> None:
    """A stock of an index, and a coin: the stock's exchange is closed at the weekend."""
    stock = [10.0, None, None, 12.0]
    coin = [10.0, 11.0, 11.0, 11.0]
    market = snapshot_of_days(["600001.SH", "600002.SH"], list(zip(stock, coin, strict=True)))
    index = np.array([100.0, math.nan, math.nan, 120.0])
    indexed = replace(market, indices={market.meta.benchmark: index})
    equal = market_levels(replace(market, meta=replace(market.meta, benchmark="")))
    of_index = market_levels(indexed)

    assert [benchmark_return(of_index, row - 1, row) for row in (1, 2, 3)] == pytest.approx(
        [0.0, 0.0, math.log(1.2)]
    )
    assert [benchmark_return(equal, row - 1, row) for row in (1, 2, 3)] == pytest.approx(
        [math.log(1.05), 0.0, math.log(1.1)]
    )


def scale_before(row: int, levels: list[float]) -> float:
    market = levels_of(levels)
    opened = opened_on(MARKET, ORDERS, [DAYS])
    spec = opened.spec(opened.windows[0])
    day = str(market.days[row])

    assert spec.window is not None

    on_market = replace(opened, snapshot=market)
    return market_scale(on_market, replace(spec, window=replace(spec.window, first=day, last=day)))


def test_the_scale_is_the_deviation_of_the_indexs_last_250_returns() -> None:
    """Before the first fill's row 262 the last known close is row 261: returns to rows 12 to 261."""
    rng = np.random.default_rng(5)
    levels = (1000 * np.cumprod(1 + rng.normal(0, 0.01, size=263))).tolist()
    levels[:11] = [1.0] * 11

    returns = np.diff(np.log(levels))[11:261]

    assert len(returns) == 250
    assert scale_before(262, levels) == pytest.approx(np.std(returns), rel=1e-12)


@pytest.mark.parametrize("row", [1, 2])
def test_a_market_that_has_not_moved_has_no_scale(row: int) -> None:
    with pytest.raises(DataError, match=r"tiny: no day before 1970-01-0. moves, so returns"):
        scale_before(row, [1000.0, 1000.0, 1100.0])
