"""Tasks of Agent Market Arena on the generated market: what is shown and said of the rules, and how
reversals are filled.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ktdeval
from ktdeval.cli.main import main
from ktdeval.errors import ConfigError
from ktdeval.harness import ModelRequest, Reply, ToolCall, shown_state, table_rows
from ktdeval.market import MarketSnapshot, save_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, RunFolder, evaluate
from ktdeval.testing import on_each_row, scene_on
from ktdeval_data.params import TwinParams
from ktdeval_data.synthetic_us_crypto import make_twin
from ktdeval_markets.config import MarketConfig

PLUGINS = load_plugins()


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, MarketSnapshot]:
    folder = tmp_path_factory.mktemp("arena") / "twin"
    return folder, save_snapshot(
        make_twin("arena", TwinParams(first="2025-03-03", last="2025-10-10")), folder
    )


def scene_of(name: str, market: MarketSnapshot) -> Any:
    task = PLUGINS.make_task(name)
    return scene_on(task, market, task.windows["live"])


@on_each_row(
    "name, hold, sell",
    ("ama_tsla", "keeps the position", "hold it short; a holding is sold before"),
    ("ama_bmrn", "keeps the position", "hold it short; a holding is sold before"),
    ("ama_eth", "keeps the position", "hold it short; a holding is sold before"),
    ("ama_btc_flat", "means no position", "hold it short; a holding is sold before"),
    ("ama_btc_close", "keeps the position", "SELL means to close a holding"),
    (
        "ama_btc_pyramid",
        "keeps the position",
        (
            "each closes a part of what it was before the first of them: 1/6, 2/6, and at last "
            "all that is left"
        ),
    ),
    ("ama_tsla_long", "keeps the position", "SELL means to hold nothing"),
    ("ama_tsla_long_flat", "means no position", "SELL means to hold nothing"),
)
def test_a_masked_prompt_states_the_rules_without_names_or_days(
    name: str, hold: str, sell: str, market: tuple[Path, MarketSnapshot]
) -> None:
    scene = scene_of(name, market[1])
    row = market[1].day_index("2025-08-01")
    seen = scene.observe(0, market[1].as_of(row), type("Account", (), {"positions": {}})(), None)

    assert f"HOLD {hold}" in seen.system
    assert sell in seen.system
    assert "5 basis points of a buy and 5 of a sell" in seen.system
    assert "execute at the close that you are shown" in seen.system

    state = shown_state(seen.user)
    assert (len(table_rows(state["candidates"])), len(table_rows(state["history"]))) == (1, 64)

    text = seen.system + seen.user

    for word in ("TSLA", "BMRN", "BTC", "ETH", "Arena", "2025", *market[1].names):
        assert word not in text, word


@pytest.mark.parametrize(
    ("name", "sessions"),
    [("ama_tsla", 63), ("ama_btc", 92)],  # from May to July; bitcoin trades every day
)
def test_agents_that_learn_are_shown_the_papers_three_months_of_sessions(
    market: tuple[Path, MarketSnapshot], name: str, sessions: int
) -> None:
    row = market[1].day_index("2025-08-01")
    scene = scene_of(name, market[1])
    assert len(list(scene.lessons(market[1].as_of(row)))) == sessions


@pytest.mark.exhaustive
@pytest.mark.parametrize("task", ["ama_tsla", "ama_eth"])
def test_every_reversal_is_filled_at_the_close_of_the_decision(
    task: str, market: tuple[Path, MarketSnapshot], tmp_path: Path
) -> None:
    config = RunConfig(
        model="builtin/random",
        model_args={"sell_probability": 0.5, "short_probability": 0.5, "largest_weight": 1.0},
        tasks=(task,),
        data=str(market[0]),
        out=str(tmp_path / "run"),
    )

    assert not evaluate(config, PLUGINS).failed

    folder = RunFolder.load(tmp_path / "run")
    (spec,) = folder.manifest.specs
    side = 0
    reversals = 0
    column = market[1].asset_index[task[4:].upper()]

    for step in folder.load_ledger(spec).steps:
        close = market[1].close[market[1].day_index(step.decided_on), column]
        for order in step.orders:
            assert (order.status, order.rule) == (
                ("filled", None) if close == close else ("rejected", "suspended")
            )
            assert not order.price_ticks or order.price_ticks == round(close * 1e8)

        now = sum((one.shares > 0) - (one.shares < 0) for one in step.positions)
        reversals += side * now < 0
        side = now

    assert reversals > 3


@pytest.mark.exhaustive
def test_an_exit_in_parts_by_hand(market: tuple[Path, MarketSnapshot], tmp_path: Path) -> None:
    """Decisions, and what they leave of the units that an opening bought or sold short: in sixths;
    a reversal needs one more.
    """
    script = [
        ("BUY", 6),
        ("HOLD", 6),
        ("SELL", 5),
        ("BUY", 5),
        ("SELL", 5 * 5 / 6),
        ("SELL", 2.5),
        ("HOLD", 2.5),
        ("SELL", 2.5 * 5 / 6),
        ("SELL", 1.25),
        ("SELL", 0),
        ("HOLD", 0),
        ("SELL", -6),
        ("SELL", -6),
        ("BUY", -5),
        ("BUY", -3),
        ("BUY", 0),
        ("BUY", 6),
    ]

    def scripted(request: ModelRequest) -> Reply:
        step = int(re.search(r"\(step (\d+)\)", request.messages[1].content)[1])  # type: ignore[index]
        stock = table_rows(shown_state(request.messages[1].content)["candidates"])[0]["stock_id"]
        decisions = {
            "stock_id": stock,
            "decision": script[step][0],
            "confidence": 0.5,
            "reason": "as the script has it",
        }
        done = json.dumps({"decisions": [decisions], "overall_reason": "scripted"})

        return Reply("", (ToolCall("1", "submit_action", done),), "tool_calls")

    run = ktdeval.evaluate(
        scripted,
        "ama_btc_pyramid",
        data=str(market[0]),
        out=str(tmp_path / "run"),
        limit=len(script),
        quiet=True,
    )
    folder = RunFolder.load(run.folder)
    (spec,) = folder.manifest.specs
    column = market[1].asset_index["BTC"]
    first = market[1].day_index("2025-08-01")
    closes = market[1].close[first:, column]
    cash = 100_000.0
    units = 0.0
    opened = 0.0
    sixths = 0.0

    for step, price, (_, left) in zip(folder.load_ledger(spec).steps, closes, script, strict=False):
        if left and not sixths:  # all of it is invested, less 5 basis points and a millionth
            opened = (1 if left > 0 else -1) * cash / (1 + 5e-4) * (1 - 1e-6) / price

        wanted = opened * abs(left) / 6
        fee = 5e-4 * abs(wanted - units) * price
        assert [order.status for order in step.orders] == ["filled"] * int(
            abs(wanted - units) > 1e-12
        )
        assert sum(order.fee_minor for order in step.orders) == pytest.approx(100 * fee, abs=1.0)
        cash = cash - (wanted - units) * price - fee
        units = wanted
        sixths = left
        held = sum(one.shares for one in step.positions) / 1e8
        assert held == pytest.approx(units, rel=3e-6, abs=1e-7)
        assert step.cash_minor / 100 == pytest.approx(cash, abs=0.5)

    assert main(["card", "verify", str(run.folder)]) == 0


@on_each_row(
    "more, message",
    ({"exit": [3, 2, 1]}, "non-decreasing whole numbers"),
    ({"exit": [1]}, "two or more non-decreasing"),
    ({"exit": [0, 1]}, "numbers from 1"),
    ({"exit": [1, 2], "hold": "flat"}, "hold: keep"),
    ({"exit": [1, 2], "sell": "close"}, "without sell or weights"),
)
def test_parts_that_can_not_be_an_exit_are_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MarketConfig.load({**PLUGINS.spec("tasks", "ama_btc").extra["config"], **more}, "t")


def test_only_decision_tasks_mention_that_a_sell_closes() -> None:
    with pytest.raises(
        ConfigError,
        match=(
            "sell: close applies to decisions, but the task asks for orders; set answers: stances"
        ),
    ):
        MarketConfig.load(
            {**PLUGINS.spec("tasks", "market_blinded").extra["config"], "sell": "close"}, "t"
        )
