"""The broker's environment: observations and rewards, no look-ahead, and the card of a session.
Skipped if the extra `gym` is not installed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import yaml

gymnasium = pytest.importorskip("gymnasium", reason="needs gymnasium: pip install '.[gym]'")

from gymnasium.utils.env_checker import check_env  # noqa: E402

import ktdeval_gym.envs  # noqa: E402, F401 - registers the environments
from gym_broker import broker_env, rewarded_by, session_samples  # noqa: E402
from ktdeval.cards import load_card  # noqa: E402
from ktdeval.cli.main import main  # noqa: E402
from ktdeval.errors import DataError, InvariantError, UsageError  # noqa: E402
from ktdeval_gym.action_submissions import SubmittedCall  # noqa: E402
from ktdeval_gym.broker_session import BrokerOptions, BrokerTools  # noqa: E402
from ktdeval_gym.rewards import RewardConfig, RewardName  # noqa: E402
from ktdeval_qfinzero.timestamps import parse_moment  # noqa: E402
from support.qfinzero.qfinzero_poison import poison, small_world  # noqa: E402

OPTIONS = BrokerOptions(as_of="2025-01-20T22:00:00Z", days=8, lookback=3)
HALVES = np.array([0.5, 0.4], dtype=np.float32)


SPLIT_STEP = 6  #: to 2025-01-29, on which BRKT's shares are split


def played(env: Any, actions: Sequence[Any]) -> list[Any]:
    """What an environment returns for a list of actions."""
    observation, _ = env.reset(seed=1)
    returned: list[Any] = [observation.tobytes()]

    for action in actions:
        observation, reward, *ends, _ = env.step(action)
        returned.append((observation.tobytes(), reward, ends))

    return returned


@pytest.mark.slow
def test_the_environment_passes_gymnasiums_checks_and_ends_truncated() -> None:
    env = broker_env(OPTIONS, small_world(), render_mode="ansi")
    check_env(env)
    env.reset(seed=3)
    ends = [env.step(HALVES)[2:4] for _ in range(OPTIONS.days)]

    assert ends == [(False, False)] * (OPTIONS.days - 1) + [(False, True)]
    assert str(env.render()).startswith("2025-01-30  equity")

    with pytest.raises(UsageError, match="call reset"):
        env.step(HALVES)

    with pytest.raises(UsageError, match="2 target weights of 0 to 1"):
        env.step(np.array([0.5, 1.5]))


def test_observed_returns_are_those_the_account_earned_through_a_split() -> None:
    env = broker_env(OPTIONS, small_world(), reward=rewarded_by("log_return"))
    env.reset()
    for _ in range(SPLIT_STEP):
        observation, _, _, _, before = env.step(HALVES)

    shares = dict(zip(OPTIONS.stocks, observation[-3:-1].tolist(), strict=True))
    observation, reward, _, _, after = env.step(HALVES)

    assert before["held"]["BRKT"] // 10 == after["held"]["BRKT"]

    returns = dict(zip(OPTIONS.stocks, env._scales, strict=True))

    for index, name in enumerate(OPTIONS.stocks):
        closes = env._closes[name]
        returns[name] = closes[-1] / closes[-2] - 1.0
        shown = observation[(index + 1) * OPTIONS.lookback - 1]
        assert shown == pytest.approx(
            np.clip(math.log1p(returns[name]) / env._scales[index], -10, 10), rel=1e-5
        )

    earned = math.fsum(shares[name] * returns[name] for name in OPTIONS.stocks)

    assert returns["BRKT"] < -0.85
    assert math.expm1(reward) == pytest.approx(
        earned, abs=2e-3
    )  # a fraction of a share is paid out in cash
    assert reward == pytest.approx(math.log(after["equity"] / before["equity"]), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", get_args(RewardName))
def test_nothing_up_to_a_day_depends_on_later_days(name: str) -> None:
    known = 4
    worlds = (small_world(), poison(small_world(), parse_moment("2025-01-24T22:00:00Z", "as_of")))
    actions = [HALVES, HALVES[::-1], 0 * HALVES, HALVES, HALVES]
    first, second = (
        played(broker_env(OPTIONS, world, reward=rewarded_by(name)), actions) for world in worlds
    )

    assert first[: known + 1] == second[: known + 1]
    assert first[known + 1] != second[known + 1]


def test_orders_are_for_whole_shares_towards_the_target_weights() -> None:
    """The first orders are sized by the closes before the session; the second step sells half of
    one holding, and nothing of the holding that is at its target weight.
    """
    env = broker_env(OPTIONS, small_world())
    env.reset()
    closes = {name: float(env._closes[name][-1]) for name in OPTIONS.stocks}

    *_, first = env.step(HALVES)

    expected = {
        "AVLN": math.floor(0.5 * OPTIONS.cash / closes["AVLN"]),
        "BRKT": math.floor(float(HALVES[1]) * OPTIONS.cash / closes["BRKT"]),
    }

    assert first["held"] == expected
    assert first["refused"] == 0

    closes = {name: float(env._closes[name][-1]) for name in OPTIONS.stocks}

    *_, second = env.step(np.array([0.25, 0.4]))

    assert second["held"]["AVLN"] == math.floor(0.25 * first["equity"] / closes["AVLN"])
    assert second["held"]["BRKT"] == expected["BRKT"]


def test_an_order_that_the_broker_refuses_is_counted() -> None:
    """A second, separate session has closed the first one's account to orders."""
    env = broker_env(OPTIONS, small_world())
    env.reset()
    env._session = "no session"

    env._send([0.5, 0.4])

    assert env._refused == 2
    assert env._info()["refused"] == 2


def rewards_of(**options: Any) -> list[float]:
    env = broker_env(OPTIONS, small_world(), **options)
    env.reset()
    return [float(env.step(HALVES)[1]) for _ in range(2)]


@pytest.mark.slow
def test_each_reward_is_of_the_days_amounts() -> None:
    """The benchmark is the mean of the stocks' returns; on the first day 90 % of the equity is
    traded.
    """
    env = broker_env(OPTIONS, small_world())
    env.reset()
    env.step(HALVES)
    ratios = [closes[-1] / closes[-2] for closes in env._closes.values()]
    plain = rewards_of()
    relative = rewards_of(reward=rewarded_by("benchmark_relative"))
    costly = rewards_of(reward=RewardConfig("after_costs", cost_bps=100.0))
    sharpe = rewards_of(reward=rewarded_by("differential_sharpe"))

    assert plain[0] - relative[0] == pytest.approx(math.log(sum(ratios) / 2), abs=1e-12)
    assert plain[0] - costly[0] == pytest.approx(0.9 * 0.01, rel=0.05)
    assert abs(plain[1] - costly[1]) < 0.05 * 0.01

    # D of a first return R is R divided by the scale of the previous returns
    env.reset()
    scale = float(np.mean(env._scales))

    assert sharpe[0] == pytest.approx(math.expm1(plain[0]) / scale, rel=1e-6)


def test_the_text_of_a_close_states_day_equity_cash_and_shares() -> None:
    env = broker_env(OPTIONS, small_world(), render_mode="ansi")
    env.reset()
    before = env.render()

    *_, info = env.step(HALVES)

    held = info["held"]

    assert before == "2025-01-20  equity 100,000.00  cash 100,000.00  0 AVLN, 0 BRKT"
    assert env.render() == (
        f"{info['day']}  equity {info['equity']:,.2f}  cash {env._cash:,.2f}"
        f"  {held['AVLN']} AVLN, {held['BRKT']} BRKT"
    )
    assert broker_env(OPTIONS, small_world()).render() is None


def test_an_observation_has_the_returns_of_each_stock_its_share_and_cash() -> None:
    env = broker_env(OPTIONS, small_world())

    observation, info = env.reset()

    assert env.observation_space.shape == observation.shape == (2 * OPTIONS.lookback + 3,)
    assert (env.observation_space.low.min(), env.observation_space.high.max()) == (-10.0, 10.0)
    assert env.action_space.shape == (2,)
    assert (env.action_space.low.min(), env.action_space.high.max()) == (0.0, 1.0)
    assert observation[-3:].tolist() == [0.0, 0.0, 1.0]
    assert info == {
        "day": "2025-01-20",
        "equity": 100_000.0,
        "held": {"AVLN": 0, "BRKT": 0},
        "refused": 0,
    }

    for index, name in enumerate(OPTIONS.stocks):
        returns = np.diff(np.log(env._closes[name]))
        shown = observation[index * OPTIONS.lookback : (index + 1) * OPTIONS.lookback]
        assert len(returns) == OPTIONS.lookback
        np.testing.assert_allclose(shown, returns / np.std(returns), rtol=1e-5)


# ---- the session


def test_session_task_file_states_the_session_and_its_required_calls() -> None:
    """20 days with two orders and four other calls each, two additional orders, and 20 calls before
    them.
    """
    assert yaml.safe_load(BrokerOptions().task_file) == {
        "family": "qfinzero_session",
        "version": "1",
        "summary": "A session of the broker, traded day by day",
        "variants": {
            "broker_session": {
                "extends": "qfinzero_planning_live",
                "data_seed": 0,
                "harness": {"max_tool_calls": 142},
                "session": {
                    "as_of": "2025-01-23T22:00:00Z",
                    "stocks": ["AVLN", "BRKT"],
                    "days": 20,
                    "cash": 100_000.0,
                },
            }
        },
    }
    assert (BrokerOptions().lookback, BrokerOptions().out) == (10, None)


def test_the_days_executions_are_worth_their_shares_times_prices() -> None:
    """Sells count like buys; other events are ignored."""
    events = [
        {"type": "TRADE", "data": {"qty": 10, "price": 2.5}},
        {"type": "TRADE", "data": {"qty": -4, "price": 5.0}},
        {"type": "ORDER", "data": {"qty": 100, "price": 1.0}},
    ]
    answer = {
        "events": events,
        "clock": {"current_ts": "2025-01-21T21:00:00Z", "status": "DONE"},
        "account": {"equity": 5.0, "cash": 1.0},
    }
    answers = SimpleNamespace(name="pmb_session_step", function=lambda _context, _given: answer)
    tools = BrokerTools([answers], None)  # type: ignore[list-item]

    day, is_running, account, traded = tools.step("s1")

    assert (day, is_running, traded) == ("2025-01-21", False, 45.0)
    assert (account.equity, account.cash) == (5.0, 1.0)
    assert tools.calls == [
        SubmittedCall(tool="pmb_session_step", arguments={"session_id": "s1", "step": 1})
    ]


# ---- the card


def answer_to(samples: Any, rounds: Sequence[Sequence[SubmittedCall]]) -> Any:
    """What a run records if a model makes these calls."""
    environment = samples.sample(0).environment
    tools = {tool.name: tool for tool in environment.tools}

    for calls in rounds:
        for call in calls:
            tools[call.tool].function(environment, call.arguments)

    return environment.complete_answer({"summary": "made again"})


@pytest.mark.exhaustive
def test_a_sessions_calls_earn_what_the_environment_showed() -> None:
    samples = session_samples(OPTIONS, small_world())
    recorded: list[Any] = []
    env = broker_env(OPTIONS, small_world(), writer=recorded.append)
    env.reset()
    equities = [OPTIONS.cash, *(env.step(HALVES)[-1]["equity"] for _ in range(OPTIONS.days))]
    (rounds,) = recorded

    assert len(rounds) == OPTIONS.days + 1

    answer = answer_to(samples, rounds)
    earned = samples.score(0, answer)
    peaks = np.maximum.accumulate(equities)
    returns = np.diff(equities) / equities[:-1]

    assert earned["total_return"] == pytest.approx(equities[-1] / OPTIONS.cash - 1)
    assert earned["max_drawdown"] == pytest.approx(float(np.max(1 - equities / peaks)))

    sharpe = returns.mean() / returns.std(ddof=1) * math.sqrt(252)
    assert earned["sharpe"] == pytest.approx(sharpe, rel=1e-6)
    assert (earned["problem"], earned["days"]) == ("", OPTIONS.days)
    assert earned["calls"] == earned["accepted"] == sum(map(len, rounds))

    # with one day less, or with a second account, the figure is undefined
    short = samples.score(0, answer_to(samples, rounds[:-1]))
    assert (short["total_return"], short["problem"]) == (None, "7 days were traded, not 8")

    other = SubmittedCall(tool="pmb_account_create", arguments={"initial_cash": 5.0})
    double = samples.score(0, answer_to(samples, [*rounds, [other]]))

    assert (double["total_return"], double["sharpe"]) == (None, None)
    assert "2 accounts" in str(double["problem"])

    with pytest.raises(InvariantError, match="another state"):
        samples.score(0, {**answer, "calls": answer["calls"][:-3]})


@pytest.mark.exhaustive
def test_an_episode_is_written_as_a_run_whose_card_verifies(tmp_path: Path) -> None:
    env = gymnasium.make("ktdeval/Broker-v0", days=4, out=str(tmp_path))
    check_env(env.unwrapped, skip_render_check=True)
    env.reset()

    for _ in range(4):
        info = env.step(HALVES)[-1]

    run = tmp_path / "episode_0001" / "run"
    (path,) = (run / "cards").glob("*.json")
    scores = load_card(path).plain["scores"]

    assert scores["total_return"]["value"] == pytest.approx(info["equity"] / 100_000 - 1)
    assert main(["card", "verify", str(path)]) == 0


# ---- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stocks": "AVLN"}, "name symbols in a list"),
        ({"stocks": []}, "name symbols in a list"),
        ({"days": 0}, "days is 0; choose a whole number of 1 or more"),
        ({"days": 1.5}, "days is 1.5; choose a whole number of 1 or more"),
        ({"lookback": 1}, "lookback is 1; choose a whole number of 2 or more"),
        ({"cash": math.nan}, "cash is nan"),
        ({"cash": math.inf}, "cash is inf"),
        ({"cash": 0}, "cash is 0; choose a number of dollars above 0"),
        ({"stock": ["AVLN"]}, "no option stock"),
        ({"reward": "sharpe"}, "differential_sharpe"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        gymnasium.make("ktdeval/Broker-v0", **options)


def test_the_least_values_of_options_are_accepted() -> None:
    BrokerOptions(days=1, lookback=2, cash=0.01).check()


def test_a_stock_with_too_few_days_is_refused() -> None:
    early = BrokerOptions(as_of="2025-01-06T22:00:00Z", lookback=10)
    with pytest.raises(DataError, match="closes are known on 2025-01-06"):
        broker_env(early, small_world())

    with pytest.raises(DataError, match="NOPE"):
        broker_env(BrokerOptions(as_of=OPTIONS.as_of, stocks=("NOPE",)), small_world())
