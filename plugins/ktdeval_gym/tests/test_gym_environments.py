"""Public environments: Gymnasium's checks, byte-identical results, no look-ahead, masks, episodes
recorded as runs. Skipped if the extra `gym` is not installed.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from inline_snapshot import snapshot

pytestmark = pytest.mark.slow

EXTRA = "needs gymnasium: pip install '.[gym]'"
gymnasium = pytest.importorskip("gymnasium", reason=EXTRA)

from gymnasium.utils.env_checker import check_env  # noqa: E402

import ktdeval_gym.envs  # noqa: E402, F401 - registers the environments
from ktdeval.cards import load_card  # noqa: E402
from ktdeval.cli.main import main  # noqa: E402
from ktdeval.errors import DataError, UsageError  # noqa: E402
from ktdeval.market import Instrument  # noqa: E402
from ktdeval.runner import load_ledger  # noqa: E402
from ktdeval.task_api import Window  # noqa: E402
from ktdeval.testing import errors_with  # noqa: E402
from ktdeval_gym.rewards import RewardConfig, RewardName  # noqa: E402
from ktdeval_gym.rollouts import RolloutJob, roll_out_all  # noqa: E402
from ktdeval_gym.single_asset_env import TradingEnv, TradingVectorEnv  # noqa: E402
from ktdeval_gym.single_asset_simulation import AssetMarket, TradingSimulation  # noqa: E402
from ktdeval_gym.wrappers import Masked  # noqa: E402
from support.market.trading_market import make_market  # noqa: E402
from support.tasks.gym_worlds import (  # noqa: E402
    LOOKBACK,
    MSFT,
    as_bytes,
    asset_market,
    drawn_windows,
    market_of,
    simulations,
)

INVESTORBENCH = "synthetic_investorbench"
SHORT = "2020-10-02:2020-10-08"
STEPS = int(os.environ.get("KTDEVAL_GYM_STEPS", "40"))
ENVIRONMENTS = [
    ("ktdeval/Trading-v0", {"windows": SHORT}),
    ("ktdeval/Trading-v0", {"task": "market_blinded", "data": "synthetic_us"}),
    ("ktdeval/Trading-v0", {"task": "investorbench_portfolio", "data": INVESTORBENCH}),
    ("ktdeval/KtdFin-v0", {"windows": "W1"}),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "options"), ENVIRONMENTS)
def test_an_environment_passes_gymnasiums_checks_and_repeats_itself(
    name: str, options: dict[str, Any], recwarn: pytest.WarningsRecorder
) -> None:
    env = gymnasium.make(name, render_mode="ansi", **options)
    check_env(env.unwrapped)

    assert [str(each.message) for each in recwarn if "WARN" in str(each.message)] == []

    env.action_space.seed(3)
    actions = [env.action_space.sample() for _ in range(2)]

    assert steps_of(env, actions) == steps_of(env, actions)
    assert env.render()


def steps_of(env: Any, actions: list[Any]) -> list[Any]:
    """What an environment returns for a list of actions, as bytes and numbers."""
    observation, _ = env.reset(seed=5)
    returned = [as_bytes(observation)]

    for action in actions:
        observation, reward, *ends, _ = env.step(action)
        returned.append((as_bytes(observation), reward, ends))

    return returned


# ---- N at once


MARKETS = [
    (MSFT, INVESTORBENCH, None, "log_return"),
    ("ama_tsla", "synthetic_arena", None, "after_costs"),
    ("ama_btc_close", "synthetic_arena", None, "benchmark_relative"),
    ("ama_tsla_long_flat", "synthetic_arena", None, "differential_sharpe"),
    ("ama_tsla", "synthetic_arena", "us_equity", "log_return"),
    ("ama_tsla", "synthetic_arena", "crypto_spot", "log_return"),
]


@pytest.mark.parametrize(("task", "data", "venue", "reward"), MARKETS)
def test_a_vector_of_windows_is_equal_to_single_ones_step_by_step(
    task: str, data: str, venue: str | None, reward: Any
) -> None:
    market = market_of(task, data, venue)
    rng = np.random.default_rng(0)
    windows = drawn_windows(market, MARKETS.index((task, data, venue, reward)), 6)
    vector = TradingVectorEnv(simulations(market, windows), RewardConfig(reward))
    makers = [
        partial(TradingEnv, each, RewardConfig(reward)) for each in simulations(market, windows)
    ]
    single = gymnasium.vector.SyncVectorEnv(makers)

    assert vector.reset()[0].tobytes() == single.reset()[0].tobytes()

    for _ in range(STEPS):
        actions = rng.integers(0, 3, 6)
        many = vector.step(actions)
        each = single.step(actions)
        for got, expected in zip(many[:4], each[:4], strict=True):
            assert np.asarray(got).tobytes() == np.asarray(expected).tobytes()

        np.testing.assert_array_equal(many[4]["nav"], each[4]["nav"])


def dated_market(code: str, first: str) -> AssetMarket:
    """The market of one asset that follows a random walk on weekdays from a given day on."""
    rng = np.random.default_rng(11)
    closes = np.round(20 * np.cumprod(1 + rng.normal(0, 0.01, size=(80, 1)), axis=0), 2)
    more = {}

    if "." not in code:
        more = {"instruments": (Instrument("stock", "USD", "us_equity"),)}

    made = make_market([code], closes.tolist(), **more)
    days = np.busday_offset(np.datetime64(first), np.arange(80), roll="forward")

    return asset_market(replace(made, days=days))


@pytest.mark.parametrize(
    ("code", "first"),
    [
        ("600001.SH", "2023-07-03"),  # stamp duty of 2023-08-28
        ("300003.SZ", "2022-03-07"),  # transfer fee of 2022-04-29
        ("688004.SH", "2023-07-03"),
        ("AAPL", "2024-04-01"),  # SEC's fee of 2024-05-22
        ("AAPL", "2025-03-24"),  # none from 2025-05-14 on
        ("AAPL", "2026-08-17"),  # FINRA's fee of 2026-10-01
    ],
)
def test_a_vector_pays_the_duties_of_the_day_as_the_executor_does(code: str, first: str) -> None:
    market = dated_market(code, first)
    assert len(market.tape.spells) == 2, "duties change within the days"

    days = [str(day) for day in market.snapshot.days]
    windows = [Window("own", days[start], days[-2]) for start in (20, 25, 30, 31, 40, 45)]
    vector = TradingVectorEnv(simulations(market, windows), RewardConfig("log_return"))
    makers = [partial(TradingEnv, each) for each in simulations(market, windows)]
    single = gymnasium.vector.SyncVectorEnv(makers)

    assert vector.reset()[0].tobytes() == single.reset()[0].tobytes()

    rng = np.random.default_rng(0)

    for _ in range(60):
        actions = rng.integers(0, 3, len(windows))
        many = vector.step(actions)
        each = single.step(actions)
        np.testing.assert_array_equal(many[4]["nav"], each[4]["nav"])
        np.testing.assert_array_equal(many[1], each[1])


# ---- no look-ahead


def poisoned(market: AssetMarket, row: int) -> AssetMarket:
    """The market with different prices and volumes from a row on."""
    snapshot = market.snapshot
    later = np.arange(len(snapshot.days))[:, None] >= row
    changed = {
        name: np.where(later, getattr(snapshot, name) * 7.5, getattr(snapshot, name))
        for name in ("open", "high", "low", "close", "volume", "amount")
    }

    return AssetMarket.of(market.task, replace(snapshot, **changed))


WRAPPERS: list[Any] = [
    lambda env: env,
    lambda env: Masked(env, "blinded"),
    lambda env: Masked(env, rebase_prices=True),
    lambda env: gymnasium.wrappers.FrameStackObservation(env, 3),
    lambda env: gymnasium.wrappers.NormalizeReward(gymnasium.wrappers.NormalizeObservation(env)),
]


def seen_by(env: Any, actions: list[Any]) -> list[Any]:
    """What an environment returns for a list of actions, including info and text."""
    observation, info = env.reset(seed=5)
    returned: list[Any] = [(as_bytes(observation), info, env.render())]

    for action in actions:
        observation, reward, *ends, info = env.step(action)
        returned.append((as_bytes(observation), float(reward), ends, info, env.render()))

    return returned


@pytest.mark.parametrize("name", get_args(RewardName))
def test_nothing_up_to_a_day_depends_on_later_days(name: Any) -> None:
    market = market_of(MSFT, INVESTORBENCH)
    (window,) = drawn_windows(market, 4, 1)
    last = int(np.searchsorted(market.snapshot.days, np.datetime64(window.last)))
    twins = (market, poisoned(market, last - 1))
    known = last - 2 - simulations(market, [window])[0].first
    actions = ([2, 0, 1] * 9)[: known + 1]

    assert 1 < known < len(actions)

    for wrap in WRAPPERS:
        first, second = (
            seen_by(
                wrap(TradingEnv(simulations(each, [window])[0], RewardConfig(name), "ansi")),
                actions,
            )
            for each in twins
        )
        assert first[: known + 1] == second[: known + 1]
        # one step later the changed prices are visible
        assert first[known + 1] != second[known + 1]

    seen = []
    for each in twins:
        vector = TradingVectorEnv(simulations(each, [window] * 2), RewardConfig(name))
        returned: list[Any] = [vector.reset()[0].tobytes()]
        for action in actions:
            *arrays, info = vector.step([action, 1])
            returned.append([array.tobytes() for array in (*arrays, info["nav"], info["side"])])

        seen.append(returned)

    assert seen[0][: known + 1] == seen[1][: known + 1]
    assert seen[0][known + 1] != seen[1][known + 1]


# ---- masks


def test_a_mask_hides_asset_and_day_and_changes_no_observation() -> None:
    market = market_of(MSFT, INVESTORBENCH)
    windows = drawn_windows(market, 1, 1)
    bare = TradingEnv(simulations(market, windows)[0], render_mode="ansi")
    masked = Masked(TradingEnv(simulations(market, windows)[0], render_mode="ansi"), "blinded")

    assert steps_of(bare, [2, 1]) == steps_of(masked, [2, 1])

    text = str(masked.render())
    assert "MSFT" not in text
    assert "20" not in text.split()[0]
    assert text.startswith("day_+2  asset_")
    assert bare.info()["asset"] == "MSFT"

    rebased = Masked(TradingEnv(simulations(market, windows)[0]), rebase_prices=True)
    assert rebased.reset()[1]["close"] == pytest.approx(100.0)


# ---- records


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ktdeval/Trading-v0", {"windows": SHORT}),
        (
            "ktdeval/Trading-v0",
            {"task": "investorbench_portfolio", "data": INVESTORBENCH, "windows": SHORT},
        ),
        ("ktdeval/KtdFin-v0", {"windows": "2024-04-01:2024-04-08"}),
    ],
)
def test_an_episode_is_written_as_a_run_that_verifies(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    env = gymnasium.make(name, out=str(tmp_path), **options)
    env.action_space.seed(2)
    env.reset(seed=1)
    is_over = False
    navs = []

    while not is_over:
        *_, is_ruined, is_last, info = env.step(env.action_space.sample())
        navs.append(info["nav"])
        is_over = is_ruined or is_last

    run = tmp_path / "episode_0001" / "run"
    (card,) = (run / "cards").glob("*.json")

    assert load_card(card)
    assert main(["card", "verify", str(card)]) == 0

    ledger = load_ledger(next(run.glob("episodes/*/ledger.parquet")))
    booked = [step.nav_minor / ledger.minor_per_unit for step in ledger.steps]

    assert booked == navs


# ---- roll-outs


def make_trading() -> TradingEnv:
    market = market_of(MSFT, INVESTORBENCH)
    return TradingEnv(simulations(market, drawn_windows(market, 2, 1))[0])


class Drawing:
    """Policy with random actions."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, _observation: Any) -> int:
        return int(self._rng.integers(3))


def test_roll_outs_that_are_resumed_give_the_same_bytes(tmp_path: Path) -> None:
    jobs = [RolloutJob(f"seed-{seed}", make_trading, Drawing, seed) for seed in range(3)]
    whole = roll_out_all(jobs, tmp_path / "whole")

    assert len({each.rewards for each in whole}) == 3

    # killed after one record, while the next was being written
    roll_out_all(jobs[:1], tmp_path / "cut")
    assert roll_out_all(jobs, tmp_path / "cut") == whole

    for job in jobs:
        name = f"{job.name}.json"
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()

    (tmp_path / "cut" / "seed-1.json").write_text(json.dumps({"format": "other"}))
    with pytest.raises(DataError, match="seed-1"):
        roll_out_all(jobs, tmp_path / "cut")

    with pytest.raises(UsageError, match="letters"):
        roll_out_all([replace(jobs[0], name="../x")], tmp_path)


# ---- refusals


def test_an_option_that_does_not_fit_is_refused() -> None:
    assert errors_with(
        partial(gymnasium.make, "ktdeval/Trading-v0"),
        {"reward": "sharpe"},
        {"lookbak": 3},
        {"windows": "1999-01-04:1999-02-01"},
        {"task": "qfinzero_calling"},
        {"task": "market_blinded", "data": "synthetic_us", "lookback": 3},
    ) == snapshot("""\
UsageError: reward 'sharpe' is unknown: choose log_return, after_costs, benchmark_relative, differential_sharpe
UsageError: no option lookbak; did you mean 'lookback'?; choose from cost_bps, data, data_args, eta, lookback, out, render_mode, reward, seed, windows
DataError: task investorbench_msft_history: the price does not move before 1999-01-04, so that returns have no scale; choose a later window
UsageError: task qfinzero_calling is not a trading task; choose one (`ktdeval list tasks`)
UsageError: lookback: task market_blinded is not a single-asset task; leave it out
""")


def test_a_wrong_action_is_refused() -> None:
    market = market_of(MSFT, INVESTORBENCH)
    simulation: TradingSimulation = simulations(market, drawn_windows(market, 2, 1))[0]
    with pytest.raises(UsageError, match="0 \\(SELL\\)"):
        TradingEnv(simulation).step(3)

    with pytest.raises(UsageError, match="must be 1 of"):
        TradingVectorEnv([simulation]).step([0, 1])

    assert simulation.lookback == LOOKBACK

    env = TradingEnv(simulation)
    env.reset()

    while not any(env.step(1)[2:4]):
        pass

    with pytest.raises(UsageError, match="call reset"):
        env.step(1)
