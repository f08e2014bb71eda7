"""Markets with fewer names than a model of rules holds: it invests what it says, in equal parts of the
names that there are; on larger markets its orders are what they were.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, ToolCall, ToolSpec
from ktdeval.keyless import Conversation, holdable
from ktdeval.values import sha256_hex
from ktdeval_models.builtin_models import make_builtin
from ktdeval_models.params import EqualWeightParams, FirstListedParams, RandomParams, RankParams
from support.runs.run_support import card_of, ktdeval
from support.searching import examples
from support.tasks.shown_states import with_state

SUBMIT = ToolSpec("submit_action", "Submit.", {"type": "object"})
COLUMNS = (
    "stock_id",
    "status",
    "close",
    "volume",
    "return_20d_pct",
    "return_60d_pct",
    "volatility_20d_pct",
)
POSITION = ("stock_id", "weight", "member", "status")


RANKING = ("equal_weight", "momentum", "low_volatility", "reversal")


def asset(number: int, status: str = "trading") -> tuple[Any, ...]:
    """A row of a table of candidates whose figures differ from those of all others."""
    return (
        f"a{number:02d}",
        status,
        10.0,
        1e6 + number,
        number / 4,
        5.0 + number,
        20.0 - number / 8,
    )


def shown(names: Sequence[Any], positions: Sequence[Any] = (), **limits: Any) -> dict[str, Any]:
    """State of an account in cash but for its positions, with these candidates."""
    invested = math.fsum(row[1] for row in positions)
    return {
        "account": {"cash_weight": round(1.0 - invested, 4), "nav": 1e6},
        "positions": {"columns": list(POSITION), "rows": [list(row) for row in positions]},
        "constraints": {"max_positions": 40, "max_weight": 1.0, "min_reason_chars": 1, **limits},
        "candidates": {"columns": list(COLUMNS), "rows": [list(row) for row in names]},
    }


def request(state: Mapping[str, Any], seed: int = 1, *later: Message) -> ModelRequest:
    text = f"Day\n```json\n{json.dumps(state)}\n```\nDecide."
    messages = (Message("system", "s"), Message("user", text), *later)
    return with_state(ModelRequest(messages, (SUBMIT,), "submit_action", CallParams(seed=seed)))


def orders(model: Any, state: Mapping[str, Any], seed: int = 1) -> list[dict[str, Any]]:
    (call,) = model.reply(request(state, seed)).tool_calls
    return list(json.loads(call.arguments)["orders"])


def total(model: Any, state: Mapping[str, Any]) -> float:
    """Sum of the target weights of the purchases."""
    return math.fsum(
        each["target_weight"] for each in orders(model, state) if each["side"] == "BUY"
    )


def assets(count: int) -> list[tuple[Any, ...]]:
    return [asset(number) for number in range(count)]


# ---- a whole run, by hand


@pytest.mark.exhaustive
def test_equal_weight_of_four_assets_earns_what_the_arithmetic_says(tmp_path: Path) -> None:
    """Four assets stand at 10.00, and rise by 10, 20, 30 and 40 % on the window's second day. A task
    with at most 25 % a name takes 23.75 % of each: 2,375 of 10,000 shares' worth. The account
    earns 0.2375 x (0.1 + 0.2 + 0.3 + 0.4) = 23.75 %.
    """
    days = np.arange(np.datetime64("2024-01-01"), np.datetime64("2024-03-31"))
    lines = ["day,symbol,open,high,low,close,volume,amount"]

    for row, day in enumerate(days[np.is_busday(days)]):
        for number, symbol in enumerate(("AAA", "BBB", "CCC", "DDD")):
            price = 10.0 + (number + 1 if day > np.datetime64("2024-03-25") else 0)
            bar = ",".join([f"{price:.2f}"] * 4)
            lines.append(
                f"{day},{symbol},{bar},{1_000_000 + 10 * row + number},{price * 1_000_000:.0f}"
            )

    (tmp_path / "prices.csv").write_text("\n".join(lines) + "\n")
    words = ("--bars", "prices.csv", "--venue", "frictionless_long", "--out", "market")
    imported = ktdeval("data", "make", "long", *words, cwd=tmp_path)

    assert imported.code == 0, imported

    task = ("--tasks", "market_blinded", "--data", "market", "--windows", "2024-03-25:2024-03-26")
    run = ktdeval("--model", "builtin/equal_weight", *task, "--out", "run", cwd=tmp_path)

    assert run.code == 0, run

    (episode,) = card_of(tmp_path / "run", "market_blinded")["episodes"]
    assert episode["metrics"]["total_return"]["value"] == pytest.approx(0.2375, abs=1e-9)


@pytest.mark.parametrize("name", RANKING)
@examples(30)
@given(
    count=st.integers(1, 30),
    positions=st.integers(1, 40),
    most=st.integers(1, 40),
    invested=st.sampled_from([0.5, 0.98]),
    cap=st.sampled_from([0.1, 0.25, 1.0]),
)
def test_what_is_invested_is_bounded_by_the_tasks_limit_alone(
    name: str, count: int, positions: int, most: int, invested: float, cap: float
) -> None:
    params: Any = RankParams(positions=positions, invested=invested)
    if name == "equal_weight":
        params = EqualWeightParams(positions=positions, invested=invested)

    state = shown(assets(count), max_positions=most, max_weight=cap)
    names = min(count, positions, most)
    # The limit is judged at the next open: 95 % of it are used. Weights have four decimals.
    expected = min(invested, names * 0.95 * cap)

    assert total(make_builtin(name, params), state) == pytest.approx(expected, abs=names * 1e-4)


# ---- the sum of the weights


@examples(30)
@given(count=st.integers(1, 30), positions=st.integers(1, 40), cap=st.sampled_from([0.1, 1.0]))
def test_the_first_listed_share_what_is_invested(count: int, positions: int, cap: float) -> None:
    model = make_builtin("first_listed", FirstListedParams(positions=positions))
    expected = min(0.98, min(count, positions) * cap)
    assert total(model, shown(assets(count), max_weight=cap)) == pytest.approx(expected)


@examples(30)
@given(count=st.integers(1, 60), most=st.integers(1, 40))
def test_buy_and_hold_spends_the_cash_on_as_many_names_as_the_task_allows(
    count: int, most: int
) -> None:
    state = shown(assets(count), max_positions=most)
    assert total(make_builtin("buy_and_hold"), state) == pytest.approx(1.0)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("count", "part"), [(4, 0.25), (10, 0.1), (20, 0.05), (60, 0.05)])
def test_a_random_buy_is_on_average_an_equal_part_of_the_account(count: int, part: float) -> None:
    model = make_builtin("random", RandomParams(max_buys=1))
    weights = []
    for seed in range(200):
        weights += [each["target_weight"] for each in orders(model, shown(assets(count)), seed)]

    assert 60 < len(weights) < 140
    assert min(weights) >= 0.4 * part - 1e-4
    assert max(weights) <= 1.6 * part + 1e-4
    assert np.mean(weights) == pytest.approx(part, rel=0.1)


def test_a_random_trader_keeps_the_weight_that_it_is_given() -> None:
    given_weight = make_builtin("random", RandomParams(largest_weight=0.08, max_buys=3))
    bought = list(
        chain.from_iterable(orders(given_weight, shown(assets(4)), seed) for seed in range(20))
    )

    assert bought
    assert max(each["target_weight"] for each in bought) <= 0.08


def test_small_market_buys_the_best_half_and_shorts_the_worst() -> None:
    """Four names, two shorts: half of 98 % is on each side, and no name on both."""
    model = make_builtin("momentum", RankParams(shorts=2))
    submitted = orders(model, shown(assets(4), short_sales=True))

    assert {each["stock_id"]: (each["side"], each["target_weight"]) for each in submitted} == {
        "a03": ("BUY", 0.245),
        "a02": ("BUY", 0.245),
        "a00": ("SELL", -0.245),
        "a01": ("SELL", -0.245),
    }


# ---- which names count


@pytest.mark.parametrize(
    ("names", "positions", "limits", "count"),
    [
        pytest.param(assets(4), (), {}, 4, id="all members"),
        pytest.param([*assets(3), asset(9, "closed")], (), {}, 4, id="one that rests today"),
        pytest.param([*assets(3), asset(9, "not_listed")], (), {}, 3, id="one not listed yet"),
        pytest.param(assets(4), [("a01", 0.2, False, "trading")], {}, 3, id="one that has left"),
        pytest.param(assets(3), [("b00", 0.2, True, "trading")], {}, 4, id="a member held alone"),
    ],
)
def test_members_count_that_can_be_held(
    names: Any, positions: Any, limits: Any, count: int
) -> None:
    assert holdable(Conversation(request(shown(names, positions, **limits)))) == count


def test_a_name_too_dear_for_the_tasks_limit_does_not_count() -> None:
    """A lot of 100 at 1,000.00 is 10 % of the account, and the task allows 5 % a name."""
    columns = ["stock_id", "status", "close_cny"]
    rows = [["cheap", "trading", 10.0], ["dear", "trading", 1000.0]]
    state = shown((), max_weight=0.05, lot_shares=100, star_min_shares=200) | {
        "account": {"cash_weight": 1.0, "nav_cny": 1e6},
        "candidates": {"columns": columns, "rows": rows},
    }

    assert holdable(Conversation(request(state))) == 1


def test_members_of_a_market_that_is_looked_up_are_those_of_its_breadth() -> None:
    later = (
        Message("assistant", "", (ToolCall("1", "get_market_context", "{}"),)),
        Message("tool", json.dumps({"breadth": {"members": 12}}), tool_call_id="1"),
    )
    state = shown(())
    del state["candidates"]

    assert holdable(Conversation(request(state, 1, *later))) == 12


# ---- larger markets

HELD = [(f"a{number:02d}", 0.045, True, "trading") for number in range(3, 12)]


def digest(name: str, count: int) -> str:
    """Hash of a model's submissions on a market of so many names: with cash alone and with
    holdings, under five seeds.
    """
    texts = []

    for positions in ((), HELD):
        for seed in range(5):
            submitted = orders(
                make_builtin(name), shown(assets(count), positions, max_weight=0.25), seed
            )
            texts.append(json.dumps(submitted, sort_keys=True))

    return sha256_hex("\n".join(texts))[:16]


#: made before small markets had weights of their own
LARGE = {
    ("equal_weight", 20): "ca13eb4661529d99",
    ("equal_weight", 25): "c75caaa3c4efb28d",
    ("equal_weight", 60): "eb4423ad0e3ec1d9",
    ("momentum", 20): "cb57a6e8d9be6036",
    ("momentum", 25): "f127376a8110eb59",
    ("momentum", 60): "eeb4de3a4f39bbdb",
    ("low_volatility", 20): "c9f8edff14b86319",
    ("low_volatility", 25): "1c21f2b052a6ac7b",
    ("low_volatility", 60): "abb4c56f347ffa6a",
    ("reversal", 20): "d4ae805fccec2681",
    ("reversal", 25): "d4ae805fccec2681",
    ("reversal", 60): "d4ae805fccec2681",
    ("first_listed", 20): "170b94f9242555e3",
    ("first_listed", 25): "170b94f9242555e3",
    ("first_listed", 60): "170b94f9242555e3",
    ("random", 20): "5492c62ef88cd120",
    ("random", 25): "f14ead6d9742e86f",
    ("random", 60): "9216a3ef7dc25abb",
}


@pytest.mark.parametrize(("name", "count"), LARGE)
def test_orders_on_markets_of_twenty_names_and_more_are_what_they_were(
    name: str, count: int
) -> None:
    assert digest(name, count) == LARGE[name, count]
