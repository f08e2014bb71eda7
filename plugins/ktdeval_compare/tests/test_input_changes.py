"""One input of a state, changed before the mask."""

from __future__ import annotations

from typing import Any

import pytest
from inline_snapshot import snapshot

from ktdeval.masking import AssetRef, DayRef, OwnFigure, Price, Prose, Shares
from ktdeval.testing import errors_of
from ktdeval_compare.forks.change_forms import parse_change
from ktdeval_compare.forks.input_changes import (
    CannotChangeError,
    ChangedPayloads,
    changes_of_each,
    shown_fields,
)

DAY = 7
STATE: dict[str, Any] = {
    "day": DayRef(DAY),
    "account": {"cash": OwnFigure(900.0), "cash_weight": 0.9},
    "positions": {"columns": ["stock_id", "weight"], "rows": [[AssetRef(2), 0.1]]},
    "performance": {"benchmark_return_pct": 1.5},
    "last_step": None,
    "constraints": {"max_weight": 0.1},
    "candidates": {
        "columns": ["stock_id", "status", "close", "volume", "MOM_12_1"],
        "rows": [
            (AssetRef(0), "trading", Price(0, 10.0, DAY), Shares(0, 100.0, DAY), 0.3),
            (AssetRef(1), "trading", Price(1, 40.0, DAY), Shares(1, 300.0, DAY), None),
            (AssetRef(2), "halted", Price(2, 20.0, DAY), Shares(2, 200.0, DAY), 0.1),
        ],
    },
    "holdings": {
        "columns": ["stock_id", "status", "close", "volume", "MOM_12_1"],
        "rows": [(AssetRef(3), "trading", Price(3, 30.0, DAY), Shares(3, 400.0, DAY), 0.2)],
    },
    "news": {
        "columns": ["day", "stock_ids", "sentiment", "title"],
        "rows": [
            [DayRef(6), [AssetRef(0)], "negative", Prose(("A ", AssetRef(0)))],
            [DayRef(5), [AssetRef(1)], "neutral", Prose(("B",))],
        ],
        "withheld": 0,
    },
    "history": {
        "columns": ["stock_id", "day", "close"],
        "rows": [
            (AssetRef(0), DayRef(5), Price(0, 8.0, 5)),
            (AssetRef(0), DayRef(6), Price(0, 9.0, 6)),
            (AssetRef(1), DayRef(5), Price(1, 42.0, 5)),
            (AssetRef(1), DayRef(6), Price(1, 41.0, 6)),
        ],
    },
}


def changed(text: str, asset: int | None = None, **settings: Any) -> tuple[Any, ChangedPayloads]:
    change = ChangedPayloads(parse_change(text), asset, DAY, 1, **settings)
    return change(STATE), change


def column(state: Any, section: str, name: str) -> list[Any]:
    table = state[section]
    place = table["columns"].index(name)
    return [getattr(row[place], "value", row[place]) for row in table["rows"]]


# ---- what a change does


@pytest.mark.parametrize(
    ("text", "section", "name", "expected"),
    [
        ("MOM_12_1=1.5", "candidates", "MOM_12_1", [1.5, None, 1.5]),
        ("factor MOM_12_1=1.5", "holdings", "MOM_12_1", [1.5]),
        ("close=+1 %", "candidates", "close", [10.1, 40.4, 20.2]),
        ("close=-50%", "candidates", "close", [5.0, 20.0, 10.0]),
        ("MOM_12_1=*-1", "candidates", "MOM_12_1", [-0.3, None, -0.1]),
        ("MOM_12_1=+-0.1", "holdings", "MOM_12_1", [0.1]),
        ("news.sentiment=positive", "news", "sentiment", ["positive", "positive"]),
        ("news.sentiment=reversed", "news", "sentiment", ["neutral", "negative"]),
        # by size over candidates and holdings: 10 <-> 40, 20 <-> 30
        ("close=reversed", "candidates", "close", [40.0, 10.0, 30.0]),
        ("close=reversed", "holdings", "close", [20.0]),
        # 0.1, 0.2, 0.3: what is null stays so
        ("MOM_12_1=reversed", "candidates", "MOM_12_1", [0.1, None, 0.3]),
        # by day, within each asset
        ("history=reversed", "history", "close", [9.0, 8.0, 41.0, 42.0]),
        ("order of candidates=reversed", "candidates", "close", [20.0, 40.0, 10.0]),
    ],
)
def test_a_change_has_the_values_that_it_names(
    text: str, section: str, name: str, expected: list[Any]
) -> None:
    state, _ = changed(text)
    assert column(state, section, name) == pytest.approx(expected)


def test_changed_figure_keeps_its_type_so_the_mask_applies() -> None:
    state, change = changed("close=reversed")
    rows = state["candidates"]["rows"]

    assert rows[0][2] == Price(0, 40.0, DAY)
    assert change.cells == 4
    assert change.differences == {0: 30.0, 1: -30.0, 2: 10.0, 3: -10.0}


def test_a_change_of_one_stock_leaves_the_others() -> None:
    state, change = changed("MOM_12_1 of asset_0003=1", asset=2)
    assert column(state, "candidates", "MOM_12_1") == [0.3, None, 1.0]
    assert change.cells == 1

    state, _ = changed("news.sentiment of asset_0002=positive", asset=1)
    assert column(state, "news", "sentiment") == ["negative", "positive"]


@pytest.mark.parametrize("text", ["MOM_12_1=2", "performance=*-1", "news.title=reversed"])
def test_all_but_the_field_stays(text: str) -> None:
    state, _ = changed(text)
    differing = {name for name in STATE if state[name] != STATE[name]}
    assert differing <= {"candidates", "holdings", "performance", "news"}
    assert column(state, "candidates", "close") == column(STATE, "candidates", "close")


def test_a_day_of_a_warm_up_stays_as_it_was() -> None:
    change = ChangedPayloads(parse_change("MOM_12_1=2"), None, DAY + 1, 1)
    assert change(STATE) == STATE

    lesson = {name: STATE[name] for name in ("day", "candidates")} | {"outcomes": {}}
    assert change(lesson) == lesson
    assert change.cells == 0


# ---- results of tools


def test_results_of_tools_agree_with_the_state() -> None:
    _, change = changed("MOM_12_1=reversed")
    grid = {"grid": {"columns": ["stock_id", "MOM_12_1"], "rows": [(AssetRef(0), 0.3)]}}
    snapshot = {"stock_id": AssetRef(2), "factors": {"MOM_12_1": 0.1, "RV_60": 0.5}}

    result: Any = change(grid)
    assert result["grid"]["rows"] == [[AssetRef(0), 0.1]]
    result = change(snapshot)
    assert result["factors"] == {"MOM_12_1": 0.3, "RV_60": 0.5}


def test_a_ranking_by_the_changed_figure_is_refused() -> None:
    change = ChangedPayloads(parse_change("MOM_12_1=1"), None, DAY, 1, has_tools=True)
    ranking = {"columns": ["stock_id", "close", "score", "MOM_12_1"], "rows": []}
    with pytest.raises(CannotChangeError, match="a tool ranked by MOM_12_1"):
        change({"candidates": ranking})

    other = ChangedPayloads(parse_change("close=+1 %"), None, DAY, 1, has_tools=True)
    assert other({"candidates": ranking}) == {"candidates": ranking}


# ---- all inputs


def test_each_input_is_offered_but_for_the_account_and_identities() -> None:
    assert [change.text for change in changes_of_each(STATE)] == [
        "performance=*-1",
        "status=reversed",
        "close=reversed",
        "volume=reversed",
        "MOM_12_1=reversed",
        "news.sentiment=reversed",
        "news.title=reversed",
        "history=reversed",
    ]
    assert shown_fields(STATE)[:6] == ["order", "labels", "status", "close", "volume", "MOM_12_1"]


def test_a_single_asset_s_figures_get_the_other_sign_or_are_halved() -> None:
    table = STATE["candidates"]
    alone = {**STATE, "candidates": {**table, "rows": table["rows"][:1]}}
    texts = [change.text for change in changes_of_each(alone)]
    assert texts[1:4] == ["close=-50 %", "volume=-50 %", "MOM_12_1=*-1"]


# ---- refusals


def test_a_change_of_another_form_is_one_line() -> None:
    texts = (
        "MOM_12_1",
        "=1",
        "order=3",
        "MOM_12_1 of asset_0001=reversed",
        "MOM_12_1=1e999",
        f"news.title={'a' * 201}",
        "news.title=a\tb",
    )
    assert errors_of(parse_change, *texts) == snapshot("""\
UsageError: --change 'MOM_12_1': expected FIELD=VALUE, such as MOM_12_1=reversed, news.sentiment=positive, close=+1 %, 'MOM_12_1 of asset_0042=1.5', order=shuffled, 'text of OLD=NEW', or each
UsageError: --change '=1': expected FIELD=VALUE, such as MOM_12_1=reversed, news.sentiment=positive, close=+1 %, 'MOM_12_1 of asset_0042=1.5', order=shuffled, 'text of OLD=NEW', or each
UsageError: --change 'order=3': order can only be reversed or shuffled, for all stocks together
UsageError: --change 'MOM_12_1 of asset_0001=reversed': reversed permutes the values of all stocks; for asset_0001 only, give a value
UsageError: --change 'MOM_12_1=1e999': 1e999 is not a finite number
UsageError: --change 'news.title=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: a text may have at most 200 printable characters
UsageError: --change 'news.title=a\\tb': a text may have at most 200 printable characters
""")


def test_what_can_t_be_changed_is_refused_in_one_line() -> None:
    texts = (
        "MOM_12=1",
        "news.tone=1",
        "news.day=1",
        "news.stock_ids=1",
        "close=high",
        "status=1",
        "performance.benchmark_return_pct=reversed",
    )
    assert errors_of(changed, *texts) == snapshot("""\
CannotChangeError: the step shows no MOM_12; did you mean 'MOM_12_1'?
CannotChangeError: the step shows no news.tone; did you mean 'news.title' or 'news.stock_ids' or 'news.day'?
CannotChangeError: news.day names a stock or a day, which can't be changed; change another of its values
CannotChangeError: news.stock_ids is not a number; give it a text, or reversed
CannotChangeError: close is not a text; give it a number
CannotChangeError: status is not a number; give it a text, or reversed
CannotChangeError: performance.benchmark_return_pct has no rows among which values could be permuted; give it a value, or a factor such as *-1
""")
