"""A team's memory on several assets: which decisions are kept and shown, in which order, and how
long a prompt it can make.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.harness import Decision
from ktdeval.observation import ObservedState, state_of_values
from ktdeval.trading import Order
from ktdeval_agents.role_graph import MemoryRule, load_team
from ktdeval_agents.team_memory import MAX_ASSETS, REFLECTION_CHARACTERS, TeamMemory
from support.paths import REPOSITORY

RULE = MemoryRule(same=5, cross=3)


def state_of(
    day: int, candidates: Sequence[str], weights: Mapping[str, float] = {}, **columns: Any
) -> ObservedState:
    """State of a day of a task that asks for decisions: candidates at a price of 100, and the
    weights of what is held. `columns`: further columns of the candidates, one value for all.
    """
    names = ["stock_id", "close", *columns]
    rows = [[asset, 100.0, *columns.values()] for asset in candidates]

    return state_of_values(
        {
            "day": f"day_+{day}",
            "account": {"nav": 1000.0},
            "constraints": {"hold": "keep"},
            "positions": {"columns": ["stock_id", "weight"], "rows": [*map(list, weights.items())]},
            "candidates": {"columns": names, "rows": rows},
        }
    )


def decided(
    memory: TeamMemory, day: int, state: ObservedState, sides: Mapping[str, str], reason: str = "so"
) -> None:
    """Remember a day's decisions, and forget what the rule does not keep."""
    decisions = [{"stock_id": asset, "decision": side} for asset, side in sides.items()]
    submitted = json.dumps({"decisions": decisions, "overall_reason": reason})
    memory.settle(day, state)
    memory.remember(day, state, Decision((), "model", reason), submitted, str)
    memory.forget(RULE, state)


def days_shown(text: str) -> dict[str, list[int]]:
    """Days of the decisions shown, by asset, in the order of the lines."""
    shown: dict[str, list[int]] = {}
    for line in text.splitlines():
        place, _, rest = line.removeprefix("- day_+").partition(": ")
        day, _, asset = place.partition(", ")
        if rest.startswith(("BUY", "SELL", "HOLD")):
            shown.setdefault(asset, []).append(int(day))

    return shown


# Of each day, the sides of the assets that were decided on.
HISTORIES = st.lists(
    st.dictionaries(
        st.sampled_from([f"asset_{number}" for number in range(30)]),
        st.sampled_from(["BUY", "SELL", "HOLD"]),
        min_size=1,
    ),
    min_size=1,
    max_size=14,
)


@pytest.mark.exhaustive
@given(HISTORIES, st.sets(st.integers(0, 29), max_size=20))
def test_each_shown_asset_has_its_own_latest_decisions(
    history: list[dict[str, str]], held: set[int]
) -> None:
    assets = [f"asset_{number}" for number in range(30)]
    weights = {f"asset_{number}": 0.01 for number in held}
    memory = TeamMemory()

    for day, sides in enumerate(history):
        decided(memory, day, state_of(day, assets, weights), sides)

    days_of = {}
    for asset in assets:
        days_of[asset] = [day for day, sides in enumerate(history) if asset in sides]

    shown = days_shown(memory.write_entries(RULE, state_of(len(history), assets, weights)))
    remembered = [asset for asset in assets if days_of[asset]]

    own = {asset: days for asset, days in shown.items() if days == days_of[asset][-RULE.same :]}

    assert len(own) >= min(RULE.assets, len(remembered))

    # what is held has the first claim
    held_and_remembered = [asset for asset in weights if asset in remembered]
    assert len(set(held_and_remembered) & set(own)) >= min(RULE.assets, len(held_and_remembered))

    others = [days for asset, days in shown.items() if asset not in own]
    assert sum(map(len, others)) <= RULE.cross
    assert all(days == sorted(days) for days in shown.values())


@pytest.mark.slow
def test_memory_of_fifty_assets_keeps_five_decisions_each_and_shows_twelve() -> None:
    assets = [f"asset_{number}" for number in range(50)]
    memory = TeamMemory()
    for day in range(20):
        decided(memory, day, state_of(day, assets), dict.fromkeys(assets, "HOLD"), "word " * 200)

    assert len(memory.entries) == 5 * 50

    # bought last, and held
    weights = {"asset_49": 0.1, "asset_48": 0.3}
    decided(memory, 20, state_of(20, assets, weights), {"asset_7": "BUY", "asset_3": "HOLD"})
    text = memory.write_entries(RULE, state_of(21, assets, weights))
    shown = days_shown(text)

    assert set(shown) >= {"asset_49", "asset_48", "asset_7", "asset_3"}
    assert sum(len(days) == 5 for days in shown.values()) == RULE.assets
    # a reason that fifty decisions share is shown once
    assert text.count("reason for all: word word") <= RULE.same + RULE.cross
    assert len(text) < 8_500


@pytest.mark.sampled(1)
@pytest.mark.parametrize("assets", [1, 12, 50, 400])
def test_the_length_of_a_memory_has_a_bound_whatever_the_number_of_assets(assets: int) -> None:
    labels = [f"asset_{number:04}" for number in range(assets)]
    memory = TeamMemory()
    for day in range(8):
        state = state_of(day, labels)
        for label in labels:  # each with a reason of its own, as orders have one
            decided(memory, day, state, {label: "BUY"}, f"{label} {'word ' * 200}")

        for entry in memory.entries:
            entry.reflection = "r" * REFLECTION_CHARACTERS

    assert len(memory.entries) <= RULE.same * MAX_ASSETS

    entries = RULE.assets * RULE.same + RULE.cross
    text = memory.write_entries(RULE, state_of(8, labels))

    assert len(text) <= entries * 400 + RULE.same * (REFLECTION_CHARACTERS + 50)


@pytest.mark.parametrize("status", ["closed", "suspended"])
def test_a_day_without_a_trade_brings_no_outcome(status: str) -> None:
    memory = TeamMemory()
    decided(memory, 0, state_of(0, ["a"]), {"a": "BUY"})
    memory.settle(1, state_of(1, ["a"], status=status, return_1d_pct=0.0))

    assert [entry.change_pct for entry in memory.entries] == [None]

    memory.settle(2, state_of(2, ["a"], status="trading", return_1d_pct=4.0))
    # from price to price: the change of one day is not that since the decision
    assert [entry.change_pct for entry in memory.entries] == [0.0]


ORDER_COLUMNS = ["stock_id", "side", "status", "rule", "filled_shares", "fill_price"]


def after(*orders: Sequence[Any]) -> ObservedState:
    """State of day 1 with what became of the orders of day 0, and a price change of -2.1 %."""
    state = state_of(1, ["a", "b"], return_1d_pct=-2.1)
    last_step = {"orders": {"columns": ORDER_COLUMNS, "rows": [*map(list, orders)]}}
    return state_of_values({**state.values, "last_step": last_step})


BOUGHT = Decision((Order(0, "BUY", 0.5, "", 0.1, None),), "model", "so", ("a",))


def remembered(state: ObservedState) -> TeamMemory:
    """Memory of an order of day 0 on `a`, after the day that `state` shows."""
    memory = TeamMemory()
    first = state_of_values({**state_of(0, ["a", "b"]).values, "constraints": {}})
    memory.remember(0, first, BOUGHT, "{}", str)
    memory.settle(1, state)

    return memory


@pytest.mark.parametrize(
    ("orders", "expected"),
    [
        (
            [("a", "BUY", "filled", None, 0.5, 100.0)],  # 50 of 1000
            "BUY to 10 % of NAV (filled 5 % of NAV); the price then changed by -2.10 % to the next"
            " close. so",
        ),
        (
            [("a", "BUY", "partially_filled", "cash", 0.2, 100.0)],
            "BUY to 10 % of NAV (filled 2 % of NAV, cut by cash); the price then changed by"
            " -2.10 % to the next close. so",
        ),
        (
            [("a", "BUY", "rejected", "price_limit", 0, None)],
            "BUY to 10 % of NAV (rejected: price_limit); nothing was traded. so",
        ),
        (
            [("b", "BUY", "filled", None, 1, 100.0)],  # of another asset
            "BUY to 10 % of NAV (nothing traded); the price then changed by -2.10 % to the next close."
            " so",
        ),
    ],
)
def test_an_entry_says_what_became_of_its_order(orders: Any, expected: str) -> None:
    memory = remembered(after(*orders))
    assert memory.write_entries(RULE, state_of(1, ["a", "b"])) == f"- day_+0, a: {expected}"


def test_a_rejected_order_has_no_outcome_and_is_reflected_on_as_rejected() -> None:
    memory = remembered(after(("a", "BUY", "rejected", "t_plus_1", 0, None)))
    (entry,) = memory.entries

    assert (entry.change_pct, entry.is_rejected) == (None, True)
    assert memory.due() == [entry]

    memory.settle(2, state_of(2, ["a"], return_1d_pct=4.0))
    assert entry.change_pct is None


def test_an_order_for_what_is_no_asset_is_rejected_too() -> None:
    state = after((None, "BUY", "rejected", "universe", 0, None))
    wrong = dataclasses.replace(BOUGHT, stock_ids=("asset_9999",))
    memory = TeamMemory()
    memory.remember(0, state_of_values({"constraints": {}}), wrong, "{}", str)
    memory.settle(1, state)

    assert [entry.fill for entry in memory.entries] == ["rejected: universe"]


@pytest.mark.parametrize(
    ("name", "same", "cross"), [("investor", 7, 3), ("trade", 5, 3), ("deepfund", 5, 0)]
)
def test_a_team_remembers_as_many_decisions_as_its_original(
    name: str, same: int, cross: int
) -> None:
    rule = load_team(REPOSITORY / "plugins/ktdeval_agents/teams" / f"{name}.yaml").memory
    assert rule is not None
    assert (rule.same, rule.cross) == (same, cross)
