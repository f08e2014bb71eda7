"""Ties: no label decides. Ledgers of rule models and baselines are equal under permuted aliases,
under every mask, and on a market that ends with the window, though a third of the names have a twin
that is equal in every figure.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain, permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.harness.chat_messages import CallParams, Message, ModelRequest, ToolSpec
from ktdeval.keyless import choose_replaced, standing
from ktdeval.market import MarketSnapshot
from ktdeval.testing import small_market
from ktdeval.values import first_of, group_by_place, places
from ktdeval_agents.by_asset import ByAssetAgent
from ktdeval_board.ranking.head_to_head import MAX_PAIRED, paired_cards
from ktdeval_markets.config import MarketConfig
from ktdeval_markets.task import MarketTask
from ktdeval_models.builtin_models import make_builtin
from ktdeval_models.params import RankParams
from ktdeval_models.technical import RULES
from support.board.board_ranks import entry, make_board, ranked_tables
from support.masking.alias_play import MODELS, PLUGINS, cut, ledger, model_of, played, twins
from support.searching import examples
from support.tasks.shown_states import with_state

pytestmark = pytest.mark.slow

MASKS = ("bright", "stock_blind", "date_blind", "blinded")
TWINS = twins()
SINGLES = small_market()
SUBMIT = ToolSpec("submit_action", "Submit.", {"type": "object"})


# ---- the rule


def test_equal_items_share_a_place_and_undefined_ones_are_last() -> None:
    assert places([[1.0, 3.0, 3.0, np.nan]]) == [2, 0, 0, 3]
    assert places([[1.0, 1.0, 1.0], [0.0, -0.0, 5.0]]) == [1, 1, 0]
    assert places([[None, None], [2.0, 2.0]]) == [0, 0]
    assert places([[]]) == []


def test_a_choice_takes_whole_groups() -> None:
    groups = group_by_place(["c", "a", "b", "d"], [1, 0, 1, 3])
    assert groups == [["a"], ["c", "b"], ["d"]]
    assert [first_of(groups, most) for most in range(5)] == [
        [],
        ["a"],
        ["a"],
        ["a", "c", "b"],
        ["a", "c", "b", "d"],
    ]


def test_ranks_follow_the_items_in_any_input_order() -> None:
    figures = np.array([[1.0, 1.0, 2.0, 1.0], [5.0, 5.0, 0.0, 7.0]])
    by_item = dict(enumerate(places(list(figures))))
    for order in permutations(range(4)):
        assert places(list(figures[:, list(order)])) == [by_item[item] for item in order]


@examples(40, search=300)
@given(st.data())
def test_place_is_the_number_of_items_better_by_the_keys_in_turn(data: Any) -> None:
    count = data.draw(st.integers(0, 7))
    cells = st.sampled_from([-1.0, 0.0, -0.0, 2.5, np.nan])
    keys = data.draw(
        st.lists(st.lists(cells, min_size=count, max_size=count), min_size=1, max_size=3)
    )

    standings = []
    for item in zip(*keys, strict=True):
        standings.append([-np.inf if np.isnan(value) else value for value in item])

    expected = [sum(other > own for other in standings) for own in standings]
    assert places(keys) == expected
    assert places(iter(keys)) == expected


def test_rows_are_ordered_by_figures_that_no_mask_rescales() -> None:
    rows = [
        {"stock_id": "a", "close": 9.0, "return_5d_pct": 2.0, "volume": 5.0},
        {"stock_id": "b", "close": 1.0, "return_5d_pct": 1.0, "volume": 7.0},
        {"stock_id": "c", "close": 4.0, "return_5d_pct": 2.0, "volume": 6.0},
    ]

    assert [[row["stock_id"] for row in group] for group in standing(rows)] == [["b"], ["a", "c"]]
    assert [[row["stock_id"] for row in group] for group in standing(rows, [0.0, 0.0, 1.0])] == [
        ["c"],
        ["b"],
        ["a"],
    ]


# ---- sharing, by hand


def orders(
    rows: Any, positions: int, cash: float = 1.0, most: int = 20, held: Any = ()
) -> dict[str, float]:
    figures = ("stock_id", "board", "status", "close_cny", "MOM_12_1")
    limits = {
        "max_positions": most,
        "max_weight": 0.5,
        "lot_shares": 100,
        "star_min_shares": 200,
        "min_reason_chars": 1,
    }
    state = {
        "account": {"cash_weight": cash, "nav_cny": 1e6},
        "positions": {"columns": ["stock_id", "weight", "member", "status"], "rows": [*held]},
        "constraints": limits,
        "candidates": {
            "columns": figures,
            "rows": [[stock, "main", "trading", 10.0, value] for stock, value in rows],
        },
    }
    messages = (Message("system", "s"), Message("user", f"```json\n{json.dumps(state)}\n```"))
    model = make_builtin(
        "momentum", RankParams(positions=positions, keep_rank=positions, invested=0.9)
    )
    request = with_state(ModelRequest(messages, (SUBMIT,), "submit_action", CallParams()))
    (call,) = model.reply(request).tool_calls

    return {
        order["stock_id"]: order["target_weight"] for order in json.loads(call.arguments)["orders"]
    }


def test_equal_names_share_the_positions_that_are_left() -> None:
    rows = [("a", 3.0), ("b", 1.0), ("c", 1.0), ("d", 0.0)]
    assert orders(rows, 3) == {"a": 0.3, "b": 0.3, "c": 0.3}
    assert orders(rows, 2) == {"a": 0.45, "b": 0.225, "c": 0.225}
    assert orders(rows[::-1], 2) == orders(rows, 2)


def test_equally_ranked_names_are_omitted_if_room_or_cash_is_insufficient() -> None:
    rows = [("a", 3.0), ("b", 1.0), ("c", 1.0)]
    assert orders(rows, 2, most=2) == {"a": 0.45}

    # What is sold today may not sell, so that b and c wait for its cash, 0.45, while a, the only
    # one of its kind, does not.
    sold = [("x", 0.97, False, "trading")]
    assert orders(rows, 2, cash=0.03, held=sold) == {"x": 0.0, "a": 0.45}


def test_equal_names_are_ordered_first_so_that_none_of_them_is_cut() -> None:
    assert list(orders([("a", 3.0), ("b", 1.0), ("c", 1.0)], 3)) == ["b", "c", "a"]


def test_equal_holdings_give_way_all_or_none() -> None:
    scores = {"a": 9.0, "b": 8.0, "y": 0.0, "z": 0.0}
    placed = {"a": 0, "b": 1, "y": 2, "z": 2}
    best = [{"stock_id": name} for name in "ab"]

    assert choose_replaced(scores, ["y", "z"], best, 2, 0.0, placed) == {"y", "z"}
    assert choose_replaced(scores, ["y", "z"], best[:1], 2, 0.0, placed) == set()
    assert choose_replaced(scores, ["y", "z"], best[:1], 2, 0.0, placed | {"z": 3}) == {"z"}


# ---- ledgers under permuted aliases


@pytest.mark.sampled(3)
@pytest.mark.parametrize("market", [TWINS, SINGLES], ids=["twins", "singles"])
@pytest.mark.parametrize("mode", ["open_research", "fixed_candidate"])
@pytest.mark.parametrize("name", MODELS)
def test_a_ledger_is_the_same_under_all_aliases_and_masks(
    name: str, mode: str, market: MarketSnapshot
) -> None:
    model = model_of(name)
    first = ledger(played(f"bright_{mode}", model, market, key=0))
    for mask, key in product(MASKS, (1, 2)):
        other = ledger(played(f"{mask}_{mode}", model, market, key))
        assert other == first, (mask, key)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("task", ["blinded_open_research", "bright_fixed_candidate"])
@pytest.mark.parametrize("name", MODELS)
def test_market_cut_to_the_window_and_its_names_gives_the_same_ledger(name: str, task: str) -> None:
    model = model_of(name)
    shorter = cut(TWINS)

    assert (len(shorter.days), len(shorter.codes)) < (len(TWINS.days), len(TWINS.codes))

    short = ledger(played(task, model, shorter, key=3))
    assert short == ledger(played(task, model, TWINS, key=4))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mode", ["open_research", "fixed_candidate"])
@pytest.mark.parametrize("name", MODELS)
def test_a_rebased_task_has_one_ledger_for_all_aliases(name: str, mode: str) -> None:
    model = model_of(name)
    first, *others = (
        ledger(played(f"blinded_rebased_{mode}", model, TWINS, key)) for key in range(3)
    )

    assert others == [first, first]


def test_these_ledgers_have_trades_of_twins() -> None:
    """Otherwise the tests above would show nothing."""
    paired = {one for one, other in permutations(range(len(TWINS.codes)), 2) if is_twin(one, other)}
    traded: dict[str, int] = {}

    for name in MODELS:
        records = played("blinded_fixed_candidate", model_of(name), TWINS, key=1)
        orders = chain.from_iterable(step.orders for step in records)
        codes = [order.code for order in orders if order.filled_shares and order.code]
        traded[name] = sum(TWINS.asset_index[code] in paired for code in codes)

    assert {name for name, count in traded.items() if not count} == {"builtin/hold"}


def is_twin(one: int, other: int) -> bool:
    return bool(np.array_equal(TWINS.close[:, one], TWINS.close[:, other], equal_nan=True))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MODELS)
def test_a_market_task_has_one_ledger_though_not_all_assets_are_shown(name: str) -> None:
    task = market_task(shown=12)
    first, *others = (ledger(played(task, model_of(name), TWINS, key)) for key in range(3))
    assert others == [first, first]


STANCES: dict[str, dict[str, Any]] = {
    "keep": {},
    "flat": {"hold": "flat"},
    "equal": {"weights": "equal"},
    "optimised": {"weights": "optimised"},
}
DECIDING = [
    *(f"builtin/{rule}" for rule in RULES if rule != "turn_of_month"),
    "builtin/buy_and_hold",
    "builtin/momentum",
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("answers", STANCES)
@pytest.mark.parametrize("name", DECIDING)
def test_decisions_on_several_assets_have_one_ledger(name: str, answers: str) -> None:
    task = market_task(answers="stances", history=40, shown=9, **STANCES[answers])
    model = PLUGINS.make_model(name, {})
    first, *others = (ledger(played(task, model, TWINS, key, steps=4)) for key in range(3))
    assert others == [first, first]


def market_task(**changes: Any) -> MarketTask:
    """The task market_blinded with changes; a rebuilt portfolio may hold one asset alone."""
    made: Any = PLUGINS.make_task("market_blinded")
    config: MarketConfig = made._config
    trading = replace(config.trading, max_weight=1.0) if "weights" in changes else config.trading

    return MarketTask("market_blinded", replace(config, trading=trading, **changes))


@pytest.mark.parametrize("name", ["builtin/random", "builtin/buy_and_hold", "builtin/momentum"])
def test_asking_asset_by_asset_has_one_ledger(name: str) -> None:
    task = market_task(shown=6)
    first, *others = (
        ledger(played(task, model_of(name), TWINS, key, 4, ByAssetAgent())) for key in range(3)
    )

    assert others == [first, first]


@pytest.mark.parametrize("name", MODELS)
def test_only_random_trades_by_labels_if_labels_are_all_that_is_shown(
    name: str,
) -> None:
    """The one exception: in memory_only there is no figure to draw by."""
    one, other = (
        ledger(played("blinded_memory_only", model_of(name), SINGLES, key)) for key in (1, 2)
    )

    assert (one != other) == (name == "builtin/random")


# ---- boards


def test_cards_with_one_figure_share_a_rank_for_any_names() -> None:
    figures = [(0.3, 0.1), (0.1, 0.3), (0.3, 0.1), (0.5, 0.4), (0.0, 0.1)]
    names = ["house/a", "house/b", "house/c", "house/d", "house/e"]
    for order in list(permutations(range(5)))[::17]:
        entries = [entry(names[order[index]], *pair) for index, pair in enumerate(figures)]
        rows = ranked_tables(make_board(entries))["all"]["rows"]
        ranks = {row["model"]: row["rank"] for row in rows if row["rank"] is not None}
        assert [ranks[names[order[index]]] for index in range(5)] == [2, 2, 2, 1, 5]


def test_cards_that_share_a_rank_are_paired_all_or_none() -> None:
    rows = [
        {"card": f"{number}", "baseline": None, "rank": min(number + 1, MAX_PAIRED)}
        for number in range(MAX_PAIRED + 1)
    ]

    assert paired_cards(rows) == [str(number) for number in range(MAX_PAIRED - 1)]
