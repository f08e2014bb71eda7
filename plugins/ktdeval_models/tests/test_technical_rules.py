"""Rules of technical analysis: by hand, against other computations, what must not change a signal,
and how they answer a task.
"""

from __future__ import annotations

import json
import math
from dataclasses import astuple
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ktdeval import errors
from ktdeval.errors import UsageError
from ktdeval.harness.chat_messages import Message, ModelRequest, ToolSpec
from ktdeval.registry import load_plugins
from ktdeval.testing import on_each_row
from ktdeval_models.params import CalendarParams, rules
from ktdeval_models.technical import RULES, AssetBars, RuleModel, rsi, smooth_values, turn_of_month
from support.paths import REPOSITORY
from support.tables import number
from support.tasks.shown_states import with_state

NAN = float("nan")
ON_PRICES = tuple(name for name in RULES if name != "turn_of_month")


def bars(close: Any, high: Any = None, low: Any = None) -> AssetBars:
    return AssetBars(
        *(
            np.array(close if values is None else values, dtype=float)
            for values in (close, high, low)
        )
    )


def walk(count: int = 240, seed: int = 5) -> AssetBars:
    chance = np.random.default_rng(seed)
    close = 80.0 * np.exp(np.cumsum(0.03 * chance.standard_normal(count)))
    wick = np.abs(chance.standard_normal((2, count))) * 0.01
    return AssetBars(close, close * (1 + wick[0]), close * (1 - wick[1]))


def same(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, np.array(expected, dtype=float), rtol=1e-9, atol=1e-9)


# A rule, its numbers, closes (with highs and lows), and the sides and figures that come of them.
@on_each_row(
    "name, numbers, prices, sides, figures",
    # Averages of 2 start at (2 + 4) / 2 = 3 and move by 2/3 of the difference; of 3 at 4, by 1/2; the signal at (1 + 1/6) / 2.
    # RSV (10 - 8) / (12 - 8) = 50 % and (13 - 9) / (14 - 9) = 80 %; gains 2, 0, 3 and losses 0, 1, 0.
    (
        "macd",
        {"fast": 2, "slow": 3, "signal": 2},
        [[2, 4, 6, 3, 9]],
        [0, 0, 0, -1, 1],
        {
            "macd": [math.nan, math.nan, 1, "1/6", "35/36"],
            "signal": [math.nan, math.nan, math.nan, "7/12", "91/108"],
        },
    ),
    # Held by its RSI.
    (
        "kdj_rsi",
        {"days": 3, "smooth": 3, "rsi_days": 2, "overbought": 90, "oversold": 30},
        [[9, 11, 10, 13], [10, 12, 11, 14], [8, 9, 10, 11]],
        [0, 0, 0, 1],
        {
            "k": [math.nan, math.nan, 50, 60],
            "d": [math.nan, math.nan, 50, "160/3"],
            "j": [math.nan, math.nan, 50, "220/3"],
            "rsi": [math.nan, math.nan, "200/3", "800/9"],
        },
    ),
    (
        "kdj_rsi",
        {"days": 3, "smooth": 3, "rsi_days": 2, "overbought": 70, "oversold": 30},
        [[9, 11, 10, 13], [10, 12, 11, 14], [8, 9, 10, 11]],
        [0, 0, 0, 0],
        {},
    ),
    # Mean 2, deviation ((4 * 1 + 16) / 5) ** 0.5 = 2: above the band, below it, and above it but in the range.
    (
        "bollinger",
        {
            "days": 5,
            "sigmas": 1.5,
            "levels": {"days": 3, "smooth": 1, "overbought": 80, "oversold": 20},
        },
        [[1, 1, 1, 1, 6]],
        [0, 0, 0, 0, -1],
        {
            "lower": [math.nan, math.nan, math.nan, math.nan, -1],
            "upper": [math.nan, math.nan, math.nan, math.nan, 5],
            "stochastic": [math.nan, math.nan, 50, 50, 100],
        },
    ),
    (
        "bollinger",
        {
            "days": 5,
            "sigmas": 1.5,
            "levels": {"days": 3, "smooth": 1, "overbought": 80, "oversold": 20},
        },
        [[6, 6, 6, 6, 1]],
        [0, 0, 0, 0, 1],
        {},
    ),
    (
        "bollinger",
        {
            "days": 5,
            "sigmas": 1.5,
            "levels": {"days": 3, "smooth": 1, "overbought": 80, "oversold": 20},
        },
        [[1, 1, 1, 1, 6], [1, 1, 1, 1, 9], None],
        [0, 0, 0, 0, 0],
        {"stochastic": [math.nan, math.nan, 50, 50, 62.5]},
    ),
    (
        "sma_cross",
        {"fast": 2, "slow": 3},
        [[1, 2, 3, 4, 0]],
        [0, 0, 1, 1, -1],
        {"sma_2": [math.nan, 1.5, 2.5, 3.5, 2], "sma_3": [math.nan, math.nan, 2, 3, "7/3"]},
    ),
    (
        "mean_reversion",
        {"days": 5, "entry": 1},
        [[1, 1, 1, 1, 6]],
        [0, 0, 0, 0, -1],
        {"z": [math.nan, math.nan, math.nan, math.nan, 2]},
    ),
    # True ranges 3, 2, 3, 6; their means of 2: 2.5, 2.75, 4.375. Known a bar later, times 1.5.
    # 111 / 100 and 111 / 100.5 are above 1.1, 110 / 100.5 is not.
    (
        "atr",
        {"days": 2, "multiple": 1.5},
        [[9, 11, 12, 14, 9], [10, 12, 13, 15, 12], [8, 9, 11, 13, 8]],
        [0, 0, 0, 0, -1],
        {
            "highest": [math.nan, math.nan, math.nan, 14, 14],
            "lowest": [math.nan, math.nan, math.nan, 14, 9],
            "distance": [math.nan, math.nan, math.nan, 3.75, 4.125],
        },
    ),
    (
        "zigzag",
        {"reversal_pct": 10},
        [[100, 105, 111, 100.5, 110]],
        [0, 0, 1, -1, -1],
        {"highest": [100, 105, 111, 111, 111], "lowest": [100, 100, 100, 100.5, 100.5]},
    ),
)
def test_rules_by_hand(
    name: str, numbers: dict[str, Any], prices: Any, sides: list[int], figures: dict[str, Any]
) -> None:
    signals = RULES[name](bars(*prices), **numbers)
    assert signals.sides.tolist() == sides
    for figure, expected in figures.items():
        same(signals.figures[figure], list(map(number, expected)))


def test_averages_and_rsi_by_hand() -> None:
    same(smooth_values(np.array([NAN, 1.0, 2.0, 3.0, 6.0, 4.0]), 3, 0.5), [NAN, NAN, NAN, 2, 4, 4])
    # Gains 1, 2, 0, 0 and losses 0, 0, 1, 0: means 1.5 and 0, 0.75 and 0.5, 0.375 and 0.25.
    same(rsi(np.array([10.0, 11.0, 13.0, 12.0, 12.0]), 2), [NAN, NAN, 100, 60, 60])
    assert not np.isfinite(smooth_values(np.array([1.0, 2.0]), 3, 0.5)).any()


def test_month_turn_lasts_from_fifth_last_to_third_session() -> None:
    numbers = rules()["turn_of_month"]["numbers"]

    def bought(first: str, last: str, calendar: str) -> list[str]:
        days = np.arange(np.datetime64(first), np.datetime64(last) + np.timedelta64(1, "D"))
        signals = turn_of_month(days, calendar, **numbers)
        assert set(signals.sides.tolist()) <= {0, 1}
        return [str(day)[5:] for day, side in zip(days, signals.sides, strict=True) if side]

    # 2021-04-30 was a Friday, 05-31 Memorial Day. Days that are no sessions are as the session
    # before.
    turn = [
        day for day in bought("2021-04-20", "2021-05-20", "XNYS") if day not in ("05-01", "05-02")
    ]

    assert turn == ["04-26", "04-27", "04-28", "04-29", "04-30", "05-03", "05-04"]
    assert bought("2021-05-10", "2021-05-28", "XNYS")[0] == "05-24"
    assert bought("2021-04-10", "2021-05-20", "24/7") == [
        "04-26",
        "04-27",
        "04-28",
        "04-29",
        "04-30",
        "05-01",
        "05-02",
    ]


def ewm(values: pd.Series, days: int, weight: float) -> pd.Series:
    known = values.dropna()
    seeded = pd.concat(
        [pd.Series([known.iloc[:days].mean()], index=[known.index[days - 1]]), known.iloc[days:]]
    )
    return seeded.ewm(alpha=weight, adjust=False).mean().reindex(values.index)


def path(values: Any, distance: Any) -> list[int]:
    """Stop and reverse by looking back over all closes since the last turn."""
    sides = []
    side = 0
    since = None

    for row, far in enumerate(distance):
        if not np.isnan(far):
            since = row if since is None else since
            held = values[since : row + 1]
            turn = (
                1
                if side <= 0 and values[row] - min(held) > far
                else -1
                if side >= 0 and max(held) - values[row] > far
                else 0
            )
            side, since = (turn, row) if turn else (side, since)

        sides.append(side)

    return sides


def other_way(name: str, made: AssetBars) -> Any:
    """Sides by pandas, or by a slow loop."""
    close, high, low = (pd.Series(values) for values in astuple(made))

    def stochastic(days: int) -> pd.Series:
        bottom = low.rolling(days).min()
        return 100 * (close - bottom) / (high.rolling(days).max() - bottom)

    middle = close.rolling(20).mean()
    sigma = close.rolling(20).std(ddof=0)
    if name == "macd":
        line = ewm(close, 7, 2 / 8) - ewm(close, 14, 2 / 15)
        return np.sign(line - ewm(line, 9, 2 / 10))

    if name == "kdj_rsi":
        k = (
            pd.concat([pd.Series([50.0], index=[7]), stochastic(9).dropna()])
            .ewm(alpha=1 / 3, adjust=False)
            .mean()
        )
        d = (
            pd.concat([pd.Series([50.0], index=[7]), k.iloc[1:]])
            .ewm(alpha=1 / 3, adjust=False)
            .mean()
        )
        gain, loss = (ewm((sign * close.diff()).clip(lower=0), 14, 1 / 14) for sign in (1, -1))
        strength = 100 - 100 / (1 + gain / loss)
        raw = np.sign(k - d).iloc[1:].reindex(close.index)
        return raw.where((raw > 0) & (strength <= 70) | (raw < 0) & (strength >= 30), 0.0)

    if name == "bollinger":
        slow = stochastic(14).rolling(3).mean()
        return ((close < middle - 2 * sigma) & (slow < 20)) * 1 - (
            (close > middle + 2 * sigma) & (slow > 80)
        ) * 1

    if name == "sma_cross":
        return np.sign(close.rolling(10).mean() - middle)

    if name == "mean_reversion":
        z = (close - middle) / sigma
        return (z <= -1) * 1 - (z >= 1) * 1

    if name == "atr":
        ranges = pd.concat(
            [high - low, (high - close.shift()).abs(), (low - close.shift()).abs()], axis=1
        )
        true_range = ranges.max(axis=1).where(close.shift().notna())
        return path(close.tolist(), (1.5 * ewm(true_range, 14, 1 / 14)).shift())

    return path(np.log(close).tolist(), np.full(len(close), np.log(1.05)))


@pytest.mark.parametrize("name", ON_PRICES)
def test_rules_as_computed_another_way(name: str) -> None:
    made = [walk(seed=seed) for seed in range(8)]
    sides = set[int]()
    for one in made:
        signals = RULES[name](one, **rules()[name]["numbers"]).sides
        assert (
            signals.tolist()
            == pd.Series(np.asarray(other_way(name, one), dtype=float))
            .fillna(0)
            .astype(int)
            .tolist()
        )
        sides |= set(signals[40:].tolist())

    assert {-1, 1} <= sides


FIRST = {
    "macd": 22,
    "kdj_rsi": 15,
    "bollinger": 20,
    "sma_cross": 20,
    "mean_reversion": 20,
    "atr": 16,
    "zigzag": 1,
}


@pytest.mark.parametrize("name", ON_PRICES)
def test_figures_begin_with_the_documented_bar(name: str) -> None:
    figures = RULES[name](walk(30), **rules()[name]["numbers"]).figures
    assert int(np.isfinite(list(figures.values())).all(axis=0).argmax()) + 1 == FIRST[name]

    page = (REPOSITORY / "docs/models.md").read_text(encoding="utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `builtin/{name}` |"))

    assert row.endswith(f"| {FIRST[name]} |")


@pytest.mark.parametrize("name", ON_PRICES)
def test_the_unit_of_prices_changes_no_signal(name: str) -> None:
    made = walk()
    numbers = rules()[name]["numbers"]
    sides = RULES[name](made, **numbers).sides.tolist()

    for factor in (1e-3, 0.37, 7.0, 1e4):
        scaled = AssetBars(*(values * factor for values in astuple(made)))
        assert RULES[name](scaled, **numbers).sides.tolist() == sides, factor


@pytest.mark.parametrize("name", ON_PRICES)
def test_later_bars_change_no_signal(name: str) -> None:
    made = walk()
    numbers = rules()[name]["numbers"]
    signals = RULES[name](made, **numbers)

    for count in (1, 5, 14, 23, 60, 200):
        earlier = RULES[name](AssetBars(*(values[:count] for values in astuple(made))), **numbers)
        assert earlier.sides.tolist() == signals.sides[:count].tolist()
        for figure, values in earlier.figures.items():
            assert np.array_equal(values, signals.figures[figure][:count], equal_nan=True)


@pytest.mark.parametrize("name", ON_PRICES)
def test_prices_that_do_not_move_give_no_signal(name: str) -> None:
    flat = RULES[name](bars(np.full(60, 0.1)), **rules()[name]["numbers"])
    assert not flat.sides.any()
    assert np.isfinite([values[-1] for values in flat.figures.values()]).all()


# ---- as models


def request(closes: dict[str, Any], **more: Any) -> ModelRequest:
    history: list[list[Any]] = []
    for stock, known in closes.items():
        history += [
            [stock, f"2021-04-{day:02d}", None, None, None, close, None]
            for day, close in enumerate(known, 1)
        ]

    columns = ["stock_id", "day", "open", "high", "low", "close", "volume"]
    state = {
        "day": "2021-04-27",
        "account": {},
        "positions": {"columns": [], "rows": []},
        "constraints": {"hold": "flat"},
        "candidates": {
            "columns": ["stock_id", "kind"],
            "rows": [[stock, "stock"] for stock in closes],
        },
        "history": {"columns": columns, "rows": history},
        **more,
    }
    user = Message(
        "user",
        f"```json\n{json.dumps({key: value for key, value in state.items() if value is not None})}\n```",
    )
    tool = ToolSpec("submit_action", "", {})

    return with_state(ModelRequest((user,), (tool,), tool.name))


def decided(model: RuleModel, asked: ModelRequest) -> dict[str, tuple[str, str]]:
    (call,) = model.reply(asked).tool_calls
    return {
        item["stock_id"]: (item["decision"], item["reason"])
        for item in json.loads(call.arguments)["decisions"]
    }


def test_each_asset_has_a_decision_with_figures_and_short_history_is_noted() -> None:
    rising = [100.0 + day for day in range(25)]
    falling = [100.0 - day for day in range(25)]
    asked = request({"a": rising, "b": falling, "c": rising[:19], "d": [], "e": [5.0] * 25})
    decisions = decided(RuleModel("sma_cross"), asked)

    assert decisions == {
        "a": ("BUY", "sma_cross: BUY, sma_10 119.5, sma_20 114.5"),
        "b": ("SELL", "sma_cross: SELL, sma_10 80.5, sma_20 85.5"),
        "c": ("HOLD", "sma_cross: HOLD, 19 bars are too few"),
        "d": ("HOLD", "sma_cross: HOLD, 0 bars are too few"),
        "e": ("HOLD", "sma_cross: HOLD, sma_10 5, sma_20 5"),
    }

    decisions = decided(RuleModel("turn_of_month"), asked)
    assert {stock: decision for stock, (decision, _) in decisions.items()} == dict(
        zip("abcde", ("HOLD",) * 5, strict=True)
    )
    assert decisions["a"][1] == "turn_of_month: HOLD, session 16, sessions_left 5"

    bought, why = decided(RuleModel("turn_of_month"), request({"a": [*rising, 1.0]}))["a"]
    assert (bought, why) == ("BUY", "turn_of_month: BUY, session 17, sessions_left 4")


@on_each_row(
    "name, more, error, words",
    (
        "macd",
        {"history": None},
        "ProviderError",
        "builtin/macd needs bars, and the task shows none; set its history",
    ),
    ("macd", {"constraints": {}}, "ProviderError", "asks for orders; set its answers: stances"),
    (
        "turn_of_month",
        {"day": "day_+3"},
        "ProviderError",
        "needs days, and the task's mask hides them",
    ),
    ("atr", {"account": None}, "ModelError", "shows no account"),
)
def test_task_a_rule_cannot_answer_is_refused(
    name: str, more: dict[str, Any], error: str, words: str
) -> None:
    with pytest.raises(getattr(errors, error), match=words):
        RuleModel(name).reply(request({"a": [1.0] * 25}, **more))


def test_the_table_of_rules_is_complete() -> None:
    assert set(rules()) == set(RULES)
    assert all(rule.keys() == {"summary", "numbers", "source"} for rule in rules().values())


def test_the_turn_of_the_month_follows_the_calendar_of_its_exchange() -> None:
    asked = request({"a": [1.0] * 25})
    assert decided(RuleModel("turn_of_month", CalendarParams("24/7")), asked)["a"][1].endswith(
        "session 25, sessions_left 5"
    )

    with pytest.raises(UsageError, match="exchange 'XNYZ' is unknown"):
        load_plugins().make_model("builtin/turn_of_month", {"calendar": "XNYZ"})
