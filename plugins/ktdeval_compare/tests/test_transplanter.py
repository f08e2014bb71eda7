"""Decisions of real runs, executed again at other capitals: orders, figures, states and refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import StoreError
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunConfig, RunFolder, evaluate, open_recorded_snapshot
from ktdeval_compare.transplants.transplanter import (
    FillFigures,
    TransplantedEpisode,
    TransplantedTask,
    Transplanter,
    trading_tasks,
)

WINDOW = "2024-04-01:2024-06-05"
CASH = 1_000_000
CODE = "009012.SZ"  # 23.12 CNY on the first day


def order(side: str, **size: float) -> dict[str, Any]:
    return {
        "stock_id": CODE,
        "side": side,
        "confidence": 0.5,
        "reason": "because the test says so",
        **size,
    }


def script(folder: Path, *steps: list[dict[str, Any]]) -> str:
    """A script with the orders of each step."""
    folder.mkdir(exist_ok=True)
    answers = [{"submit": {"orders": orders, "overall_reason": "as told"}} for orders in steps]
    path = folder / "script.json"
    path.write_text(json.dumps({"answers": answers}))
    return str(path)


def run_of(
    folder: Path, plugins: Plugins, *steps: list[dict[str, Any]], **changes: Any
) -> RunFolder:
    """The run of a script on the embedded market; or of what `changes` name."""
    settings: dict[str, Any] = {
        "model": "builtin/script",
        "tasks": ("bright_open_research",),
        "windows": (WINDOW,),
        "limit": len(steps),
        "mask_key": "0" * 32,
        "out": str(folder / "run"),
    }
    if steps:
        settings["model_args"] = {"file": script(folder, *steps)}

    result = evaluate(RunConfig(**(settings | changes)), plugins)
    assert not result.failed
    return RunFolder.load(result.folder)


def transplanter(folder: RunFolder, plugins: Plugins) -> Transplanter:
    (task,) = trading_tasks(folder, plugins)
    snapshot = open_recorded_snapshot(folder, plugins, {})
    return Transplanter(folder, task, snapshot, plugins)


def at(folder: RunFolder, plugins: Plugins, capital: int) -> TransplantedTask:
    made = transplanter(folder, plugins)
    trading = replace(made.own_trading, initial_cash=capital)
    return made.at(trading, {"initial_cash": capital})


def only(made: TransplantedTask) -> TransplantedEpisode:
    (episode,) = made.episodes
    return episode


def filled(made: TransplantedTask) -> list[int]:
    return [order.filled_shares for step in only(made).ledger.steps for order in step.orders]


# ---- the run's own capital


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "data"),
    [
        ("market_bright", "synthetic_us"),
        ("market_blinded", "synthetic_mixed"),
        ("blinded_rebased_open_research", "synthetic"),
    ],
)
def test_odd_orders_at_the_run_s_own_capital_give_every_step_of_its_ledger(
    task: str, data: str, tmp_path: Path, plugins: Plugins
) -> None:
    folder = run_of(tmp_path, plugins, model="builtin/chaos", tasks=(task,), data=data, limit=8)
    own = transplanter(folder, plugins)
    made = only(own.at(own.own_trading, {}))
    recorded = folder.load_ledger(made.of)
    contents = (folder.episode_path(made.of) / "ledger.parquet").read_bytes()

    # the spec names the transplant, so the file is another one; nothing else in it differs
    assert made.ledger.spec["task_hash"] != recorded.spec["task_hash"]
    assert made.encode() != contents
    assert replace(made, ledger=replace(made.ledger, spec=recorded.spec)).encode() == contents
    assert sum(order.filled_shares > 0 for step in recorded.steps for order in step.orders) > 2
    assert made.other_states == ()


# ---- orders at another capital


@pytest.mark.slow
def test_orders_by_shares_are_scaled_by_the_capital_in_whole_lots(
    tmp_path: Path, plugins: Plugins
) -> None:
    folder = run_of(tmp_path, plugins, [order("BUY", shares=300)], [order("SELL", shares=200)])
    assert filled(at(folder, plugins, CASH)) == [300, 200]
    assert filled(at(folder, plugins, 10 * CASH)) == [3000, 2000]
    # 150 shares are one lot and a half
    assert filled(at(folder, plugins, CASH // 2)) == [100, 100]


def test_an_order_by_shares_that_closes_a_position_closes_what_is_held(
    tmp_path: Path, plugins: Plugins
) -> None:
    folder = run_of(tmp_path, plugins, [order("BUY", shares=300)], [order("SELL", shares=300)])
    made = at(folder, plugins, CASH // 2)
    assert filled(made) == [100, 100]
    assert [len(step.positions) for step in only(made).ledger.steps] == [1, 0]


def test_orders_by_weight_are_taken_as_they_were_decided(tmp_path: Path, plugins: Plugins) -> None:
    folder = run_of(tmp_path, plugins, [order("BUY", target_weight=0.1)])
    large = only(at(folder, plugins, 1000 * CASH)).ledger.steps[0]
    assert large.orders[0].target_weight == 0.1
    assert large.orders[0].notional_minor == pytest.approx(0.1 * large.open_nav_minor, rel=1e-4)


def test_a_position_limit_and_lots_apply_anew(tmp_path: Path, plugins: Plugins) -> None:
    """A tenth of 2,000 buys no lot."""
    folder = run_of(tmp_path, plugins, [order("BUY", target_weight=0.1)])
    small = only(at(folder, plugins, 2_000)).ledger.steps[0].orders[0]
    assert (small.status, small.rule, small.filled_shares) == ("rejected", "lot", 0)


# ---- as a run at that capital would have been


SCRIPT = (
    [order("BUY", target_weight=0.1)],
    [order("BUY", target_weight=0.08)],
    [order("SELL", target_weight=0.03)],
    [order("SELL", target_weight=0.0)],
)


@pytest.mark.slow
def test_transplant_to_other_costs_equals_a_run_if_fills_are_unseen(
    tmp_path: Path, plugins: Plugins
) -> None:
    free = run_of(tmp_path / "free", plugins, *SCRIPT)
    paid = run_of(tmp_path / "paid", plugins, *SCRIPT, tasks=("bright_open_research_sqrt",))
    (spec,) = paid.manifest.specs

    own = transplanter(free, plugins)
    made = only(own.at(replace(own.own_trading, execution="sqrt"), {"execution": "sqrt"}))
    assert made.ledger.steps == paid.load_ledger(spec).steps
    assert made.figures.execution_minor > 0

    # and a run with costs, executed again with its own, is itself
    own = transplanter(paid, plugins)
    assert only(own.at(own.own_trading, {})).ledger.steps == paid.load_ledger(spec).steps


@pytest.mark.slow
def test_transplant_to_other_capital_equals_a_run_if_fills_are_unseen(
    tmp_path: Path, plugins: Plugins
) -> None:
    task = tmp_path / "rich.yaml"
    task.write_text(
        "family: rich\nversion: '1'\nvariants:\n  rich:\n    extends: bright_open_research\n"
        f"    trading: {{initial_cash: {30 * CASH}}}\n"
    )
    poor = run_of(tmp_path / "poor", plugins, *SCRIPT)
    rich = run_of(tmp_path / "rich", load_plugins(), *SCRIPT, tasks=(str(task),))
    (spec,) = rich.manifest.specs

    made = only(at(poor, plugins, 30 * CASH)).ledger
    recorded = rich.load_ledger(spec)
    assert made.steps == recorded.steps
    assert made.initial_cash_minor == recorded.initial_cash_minor


@pytest.mark.slow
def test_orders_sized_by_a_mask_are_resized_for_the_new_capital(
    tmp_path: Path, plugins: Plugins
) -> None:
    """Under prices that are rescaled: the first step's orders, before the model sees a fill."""
    task = tmp_path / "rich.yaml"
    task.write_text(
        "family: rich\nversion: '1'\nvariants:\n  rich:\n    extends: blinded_rebased_open_research\n"
        f"    trading: {{initial_cash: {30 * CASH}}}\n"
    )
    settings: dict[str, Any] = {"model": "builtin/momentum", "limit": 1}
    name = "blinded_rebased_open_research"
    poor = run_of(tmp_path / "poor", plugins, tasks=(name,), **settings)
    rich = run_of(tmp_path / "rich", load_plugins(), tasks=(str(task),), **settings)
    (spec,) = rich.manifest.specs

    made = only(at(poor, plugins, 30 * CASH)).ledger.steps[0]
    recorded = rich.load_ledger(spec).steps[0]
    filled_shares = {order.code: order.filled_shares for order in made.orders}
    assert len(filled_shares) > 5
    for order in recorded.orders:
        if order.code in filled_shares:
            assert filled_shares[order.code] == pytest.approx(order.filled_shares, rel=0.01)


# ---- figures


@pytest.mark.slow
def test_what_was_asked_for_and_filled_is_as_worked_by_hand(
    tmp_path: Path, plugins: Plugins
) -> None:
    """A buy by weight asks for 10 % of the capital, of which whole lots are filled; a buy of it
    again asks for what is missing.
    """
    folder = run_of(tmp_path, plugins, [order("BUY", target_weight=0.1)])
    made = only(at(folder, plugins, CASH))
    (step,) = made.ledger.steps
    bought = step.orders[0]
    lots = CASH * 10 * 10_000 // 100 // (bought.price_ticks * 100) * 100

    assert bought.filled_shares == lots
    assert made.figures == FillFigures(
        ordered_minor=CASH * 10,
        filled_minor=lots * bought.price_ticks // 100,
        commission_minor=bought.fee_minor,
    )


@pytest.mark.slow
def test_the_steps_after_another_fill_would_have_seen_another_state(
    tmp_path: Path, plugins: Plugins
) -> None:
    folder = run_of(tmp_path, plugins, [], [order("BUY", target_weight=0.1)], [], [])
    assert only(at(folder, plugins, CASH)).other_states == ()
    # nothing is bought, where the run held a tenth
    assert only(at(folder, plugins, 2_000)).other_states == (2, 3)


# ---- the card


@pytest.mark.exhaustive
def test_a_transplanted_card_says_so_and_is_never_ranked(tmp_path: Path, plugins: Plugins) -> None:
    folder = run_of(tmp_path, plugins, [order("BUY", target_weight=0.1)], limit=None)
    own = json.loads((folder.path / "cards" / "bright_open_research.json").read_text())
    assert own["rankable"]["value"] is False or "transplanted" not in own["labels"]

    card = at(folder, plugins, 10 * CASH).card
    assert "transplanted" in card.labels
    assert card.rankable.value is False
    assert any("executed again at another capital" in reason for reason in card.rankable.reasons)
    assert card.task.hash != own["task"]["hash"]
    assert card.task.config["trading"]["initial_cash"] == 10 * CASH


# ---- refusals


def test_a_run_that_is_not_finished_is_refused(tmp_path: Path, plugins: Plugins) -> None:
    folder = run_of(tmp_path, plugins, [])
    (spec,) = folder.manifest.specs
    (folder.episode_path(spec) / "episode.json").unlink()
    with pytest.raises(StoreError, match="0 of 1 trading episodes are finished; run its command"):
        trading_tasks(folder, plugins)


QUESTIONS = """
from ktdeval.api import QATask, hookimpl


@hookimpl
def ktdeval_tasks():
    sample = {"question": "What is 2 + 3?", "gold": "5"}
    task = QATask([sample], lambda answer, sample: answer == sample["gold"], name="sums", summary="x")
    return [task.spec()]
"""


def test_a_run_of_questions_is_refused(tmp_path: Path) -> None:
    plugin = tmp_path / "transplanted_questions.py"
    plugin.write_text(QUESTIONS)
    plugins = load_plugins([str(plugin)])
    folder = run_of(
        tmp_path,
        plugins,
        model="builtin/trivial",
        tasks=("sums",),
        mask_key=None,
        windows=(),
        limit=1,
    )
    with pytest.raises(
        StoreError, match=r"is not a trading run \(sums\): its answers move no money"
    ):
        trading_tasks(folder, plugins)
