"""Orders with a limit from a task file to a verified card: what a model submits, is shown of it, and
what a ledger keeps.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ktdeval.market.rules.calendar import window_rows
from ktdeval.market.snapshots.snapshot import Board, MarketSnapshot, board_of
from ktdeval.market.snapshots.storage import load_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner.records.ledger_file import encode_ledger, load_ledger
from ktdeval.runner.scoring.score import rescore
from ktdeval.testing import errors_of
from ktdeval.trading.ledger import Ledger, OrderRecord
from support.runs.export_runs import script
from support.runs.forging import execute_again
from support.runs.run_support import SAME_MASK, WINDOW, Done, ktdeval

EXAMPLE = Path(__file__).parents[3] / "examples" / "limit_orders.yaml"
TASK = "bright_limit_orders"
TICKS = 10_000


def quiet_names(snapshot: MarketSnapshot, row: int) -> list[int]:
    """Members of the main board that trade below their open on a day."""
    names = []
    for asset, code in enumerate(snapshot.codes):
        opened = snapshot.open[row, asset]
        moves = snapshot.low[row, asset] + 0.015 < opened
        is_near = abs(opened / snapshot.close[row - 1, asset] - 1) < 0.05
        if moves and is_near and snapshot.member[row, asset] and board_of(code) is Board.MAIN:
            names.append(asset)

    return names


@pytest.fixture(scope="module")
def whole(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a script that buys three names: at the open, at its limit, and not at all."""
    folder = tmp_path_factory.mktemp("limits")
    snapshot = load_snapshot(market)
    row = window_rows(snapshot.days, *WINDOW.split(":"))[0]
    orders = []
    for asset, limit in zip(
        quiet_names(snapshot, row)[:3],
        (
            lambda asset: snapshot.open[row, asset] + 0.01,
            lambda asset: snapshot.low[row, asset] + 0.01,
            lambda asset: snapshot.low[row, asset],
        ),
        strict=True,
    ):
        order = {
            "stock_id": snapshot.codes[asset],
            "side": "BUY",
            "confidence": 0.5,
            "reason": "cheap at this price",
            "target_weight": 0.05,
            "limit": round(float(limit(asset)), 2),
        }
        orders.append(order)

    steps = [
        {"submit": {"orders": orders, "overall_reason": "below the market"}},
        {"submit": {"orders": [], "overall_reason": "wait"}},
    ]
    model = ("builtin/script", "--model-args", f"file={script(folder, 'limits', steps)}")
    words = ("--tasks", EXAMPLE, "--data", market, "--windows", WINDOW, "--limit", 2, *SAME_MASK)
    done = ktdeval("run", "--model", *model, *words, "--out", folder / "run", cwd=folder)
    assert done.code == 0, done

    return folder / "run"


def episode(run: Path) -> Path:
    (folder,) = (path for path in (run / "episodes").iterdir() if load_spec(path)["task"] == TASK)
    return folder


def load_spec(folder: Path) -> Any:
    return json.loads((folder / "episode.json").read_text())["spec"]


def first_orders(ledger: Ledger) -> tuple[OrderRecord, ...]:
    return ledger.steps[0].orders


@pytest.mark.slow
def test_a_ledger_keeps_limits_and_what_became_of_the_orders(whole: Path, market: Path) -> None:
    snapshot = load_snapshot(market)
    row = window_rows(snapshot.days, *WINDOW.split(":"))[0]
    opened, at_limit, missed = first_orders(load_ledger(episode(whole) / "ledger.parquet"))
    column = snapshot.asset_index[str(opened.code)]

    assert (opened.status, opened.price_ticks) == (
        "filled",
        round(float(snapshot.open[row, column]) * TICKS),
    )
    assert (at_limit.status, at_limit.price_ticks) == ("filled", at_limit.limit_ticks)
    assert (missed.status, missed.rule) == ("rejected", "limit")


def test_a_ledger_has_the_column_of_limits_only_where_an_order_has_one(whole: Path) -> None:
    ledger = load_ledger(episode(whole) / "ledger.parquet")
    assert encode_ledger(ledger) == (episode(whole) / "ledger.parquet").read_bytes()
    assert b"limit_ticks" in encode_ledger(ledger)

    held = Ledger(ledger.spec, ledger.initial_cash_minor, ledger.steps[1:])
    assert b"limit_ticks" not in encode_ledger(held)


def verify(run: Path) -> Done:
    return ktdeval("card", "verify", run, cwd=run.parent)


@pytest.mark.slow
def test_a_run_with_limits_verifies(whole: Path) -> None:
    assert verify(whole).code == 0


def _raised(steps: list[dict[str, Any]]) -> None:
    steps[0]["orders"][2]["limit_ticks"] += 20 * TICKS


def _without(steps: list[dict[str, Any]]) -> None:
    steps[0]["orders"][1]["limit_ticks"] = None


@pytest.mark.slow
@pytest.mark.parametrize("change", [_raised, _without])
def test_a_forged_limit_with_a_card_that_agrees_does_not_verify(
    run: Path, market: Path, change: Callable[[Any], None]
) -> None:
    plugins = load_plugins([str(EXAMPLE)])
    execute_again(run, episode(run), plugins, load_snapshot(market), change)
    (run / "cards" / f"{TASK}.json").unlink()
    rescore(run, plugins, {})

    done = verify(run)
    assert done.code == 1
    assert "does not follow from its replies" in done.out


# ---- which tasks take limits


def test_a_task_that_hides_prices_or_asks_for_decisions_takes_no_limits(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"

    def make(extended: str) -> None:
        path.write_text(
            "family: own\nversion: '1'\nvariants:\n"
            f"  mine: {{extends: {extended}, summary: x, trading: {{limit_orders: true}}}}\n"
        )
        load_plugins([str(path)]).make_task("mine")

    refused = errors_of(
        make,
        "blinded_fixed_candidate, round_digits: 3",
        "blinded_memory_only",
        "market_blinded, noise_pct: 1.0",
        "market_blinded, answers: stances",
        folder=tmp_path,
    )
    assert refused == snapshot("""\
ConfigError: FOLDER/mine.yaml: variants: mine: trading.limit_orders: fills within a limit would reveal the prices that round_digits and noise_pct hide; remove one of the two
ConfigError: FOLDER/mine.yaml: variants: mine: trading: limit_orders: mode memory_only shows no prices, but fills within a limit would reveal them; leave out limit_orders
ConfigError: FOLDER/mine.yaml: variants: mine: trading.limit_orders: fills within a limit would reveal the prices that round_digits and noise_pct hide; remove one of the two
ConfigError: FOLDER/mine.yaml: variants: mine: trading: limit_orders: only orders have limits, but the task asks for decisions; set answers: orders, or leave out limit_orders
""")
