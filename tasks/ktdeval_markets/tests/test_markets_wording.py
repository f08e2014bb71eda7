"""What a prompt says about length, order, confidence and fills, depending on the task and its mask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ktdeval.harness.agent import HarnessConfig
from ktdeval.harness.submissions.action import ActionForm
from ktdeval.registry import load_plugins
from ktdeval.task_api import Window
from ktdeval.task_api.trading_task import WindowDates
from ktdeval.trading.types import Scale
from support.masking.masking_market import lens_of
from test_markets_state import EMPTY, ROW, market, scene_of

PLUGINS = load_plugins()


def config_of(task: str, **changes: Any) -> Any:
    return replace(PLUGINS.make_task(task)._config, **changes)


@pytest.mark.parametrize("mask", ["date_blind", "blinded"])
def test_a_length_tells_no_window_where_dates_are_hidden(mask: str) -> None:
    task = PLUGINS.make_task(f"{mask}_open_research")
    said = {task._config.length_words(window) for window in task.windows.values()}
    # W5 has 54 days of the calendar, 7.7 weeks; `long` has 831, 118.7 weeks
    assert said == {
        "Episodes of this task usually last 7 to 119 weeks; you are not told when this one ends."
    }


# ---- the length of an episode


def test_a_length_is_a_date_where_dates_are_shown() -> None:
    for mask in ("bright", "stock_blind"):
        words = config_of(f"{mask}_open_research").length_words(
            Window("W", "2024-01-02", "2024-03-01")
        )
        assert words == (
            "The last day of the episode is 2024-03-01, or the last trading day before it."
        )


@pytest.mark.parametrize(
    ("last", "weeks"),
    [("2024-01-14", "2 weeks"), ("2024-01-15", "2 to 3 weeks")],
)
def test_a_window_of_ones_own_changes_no_word(last: str, weeks: str) -> None:
    windows = {"a": WindowDates("2024-01-01", last)}
    config = config_of("blinded_open_research", windows=windows)
    said = {
        config.length_words(Window("own", "2024-01-01", end))
        for end in ("2024-01-02", "2024-02-01", "2026-01-01")
    }
    assert said == {
        f"Episodes of this task usually last {weeks}; you are not told when this one ends."
    }


# ---- what rows, confidences and fills mean


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "Positions are listed by size, orders of the last step stand as they were submitted;"),
        (
            {"news": 5, "history": 3},
            "Positions are listed by size, `news` begins with the newest, `history` has the bars of"
            " each asset from the oldest to the newest, orders of the last step stand as they were"
            " submitted;",
        ),
    ],
)
def test_the_order_of_rows_excepts_what_is_ordered(options: dict[str, Any], said: str) -> None:
    snapshot = market()
    rules = scene_of(snapshot, **options).observe(0, snapshot.as_of(ROW), EMPTY, None).rules
    assert f"{said} the order of other rows means nothing." in rules


@pytest.mark.parametrize(
    ("fills", "said"),
    [
        (["same_close"], "Orders at the close shown;"),
        (["next_open"], "Orders for the next open;"),
        (["next_close", "next_close"], "Orders for the next close;"),
        (["next_open", "same_close"], "Orders, each at the price that the rules name"),
        ([], "Orders for the next open;"),
    ],
)
def test_the_submit_tool_says_when_orders_of_its_market_fill(fills: list[Any], said: str) -> None:
    scales = [Scale(fill=fill) for fill in fills]
    form = ActionForm(HarnessConfig(), lens_of("blinded"), scales)
    orders: Any = form.tool.parameters["properties"]["orders"]  # type: ignore[index,call-overload]
    assert orders["description"].startswith(said)


@pytest.mark.parametrize(
    ("trading", "said"),
    [
        ({"constraint_feedback": False}, None),
        ({"constraint_feedback": True}, "not held and can't be sold short, a buy beyond"),
        ({"constraint_feedback": True, "venue": "frictionless_long"}, "not held, a buy beyond"),
    ],
)
def test_a_submission_that_comes_back_as_a_whole_is_announced(
    trading: dict[str, Any], said: str | None
) -> None:
    snapshot = market()
    scene = scene_of(snapshot, trading=trading)
    submission = scene.observe(0, snapshot.as_of(ROW), EMPTY, None).submission
    assert ("as a whole: a label of no asset" in submission) == (said is not None)
    assert said is None or said in submission
