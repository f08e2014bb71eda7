"""The group `process` on a run: metrics of a transcript, asked for by the name of the group."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import UNSET

from ktdeval.cards import load_card
from ktdeval.harness import TranscriptEntry
from ktdeval.registry import load_plugins
from ktdeval.registry.metric_groups import metric_names
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.scoring.score import rescore
from ktdeval.runner.scoring.verify import verify_card
from ktdeval.stats import RecordedTranscript
from ktdeval.testing import check_metric
from ktdeval_rationale.claims.process_metrics import figure
from ktdeval_rationale.claims.recorded_reasons import recorded_steps
from support.accept.accept_runs import evaluate

NAMES = (
    "confidence_copied",
    "order_agrees",
    "reason_comparisons",
    "reason_right",
    "reason_shown",
    "reason_unplaced",
    "research_used",
    "warning_heeded",
    "weight_copied",
)
OF_REASONS = (
    "order_agrees",
    "reason_comparisons",
    "reason_right",
    "reason_shown",
    "reason_unplaced",
)
STATE = json.dumps(
    {
        "candidates": {
            "columns": ["stock_id", "status", "close", "rsi"],
            "rows": [["asset_0042", "trading", 15.63, 28.4], ["asset_0007", "limit_up", 7.2, 71.2]],
        }
    }
)


def entry(submission: dict[str, object] | None, *results: str) -> TranscriptEntry:
    """Return the conversation of a step: the state, and results of research."""
    sent: list[dict[str, object]] = [
        {"role": "user", "content": f"The state:\n\n```json\n{STATE}\n```\n"}
    ]
    for number, result in enumerate(results):
        call = {"id": f"c{number}", "name": "search_news", "arguments": "{}"}
        sent.append({"role": "assistant", "content": "", "tool_calls": [call]})
        sent.append({"role": "tool", "content": result, "tool_call_id": f"c{number}"})

    text = None if submission is None else json.dumps(submission)
    call = {
        "kept": 0,
        "sent": sent,
        "tools": [],
        "tool_choice": None,
        "seed": 0,
        "error": "timeout",
    }
    return TranscriptEntry(step=0, exchanges=(call,), submission=text, embedded=UNSET)


def order(label: str, side: str, reason: str) -> dict[str, object]:
    return {"stock_id": label, "side": side, "target_weight": 0.05, "reason": reason}


def value(name: str, *entries: TranscriptEntry) -> tuple[float | None, int, str | None]:
    metric = figure(name).of_transcript(RecordedTranscript(lambda: entries))
    result = metric.compute(None, None, "strict")  # type: ignore[arg-type]
    return result.value, result.n, result.reason


def test_a_step_with_two_orders_worked_by_hand() -> None:
    """First order: 28.4 was shown and is right, 16.1 was not shown and is wrong, RSI below 30 holds,
    bullish and BUY agree. Second order: a BUY at the limit up, with no figure.
    """
    step = entry(
        {
            "orders": [
                order("asset_0042", "BUY", "Bullish: RSI is 28.4, close is 16.1. RSI below 30."),
                order("asset_0007", "BUY", "I like this one."),
            ]
        },
        '{"documents": [{"title": "asset_0099 opens a plant"}]}',
    )

    assert value("reason_shown", step) == (0.5, 2, None)
    assert value("reason_right", step) == (0.5, 2, None)
    assert value("reason_unplaced", step) == (0.0, 2, None)
    assert value("reason_comparisons", step) == (1.0, 1, None)
    assert value("order_agrees", step) == (1.0, 1, None)
    assert value("warning_heeded", step) == (0.0, 1, None)
    assert value("research_used", step) == (0.0, 1, None)


def test_metrics_are_null_with_a_reason_where_no_reason_was_written() -> None:
    silent = entry({"orders": []})
    for name in OF_REASONS:
        assert value(name, silent) == (None, 0, "no reason text")

    fallback = entry(None)
    assert value("research_used", fallback) == (None, 0, "no research result")
    assert not list(recorded_steps([fallback]))


def test_confidences_of_the_prompts_example_are_counted_against_all_that_were_submitted() -> None:
    """The example has 0.6 and 0.05; 0 and 1 are bounds, and 15.63 and 28.4 are the day's data."""
    told = 'The confidence, from 0 to 1: {"target_weight": 0.05, "confidence": 0.6}. Or 0.65.'
    orders = [
        order("asset_0042", "BUY", "as in the example") | {"confidence": 0.6},
        order("asset_0007", "BUY", "of my own") | {"confidence": 0.61, "target_weight": 0.1},
        order("asset_0007", "SELL", "surely") | {"confidence": 1, "target_weight": 0},
        order("asset_0007", "SELL", "a part") | {"confidence": 0.28, "target_weight": None},
    ]
    step = entry({"orders": orders})
    step.exchanges[0]["sent"].insert(0, {"role": "system", "content": told})  # type: ignore[union-attr]

    assert value("confidence_copied", step) == (0.25, 4, None)
    assert value("weight_copied", step) == (pytest.approx(1 / 3), 3, None)


def test_without_a_value_there_is_no_share_of_copies() -> None:
    empty = entry({"orders": []})
    assert value("confidence_copied", empty) == (None, 0, "no confidence was submitted")
    assert value("weight_copied", empty) == (None, 0, "no target weight was submitted")


@pytest.mark.parametrize("name", NAMES)
def test_each_metric_is_documented_and_null_without_a_transcript(name: str) -> None:
    check_metric(figure(name))


def test_the_group_stands_for_its_metrics() -> None:
    plugins = load_plugins()
    assert metric_names(plugins, ["process"]) == NAMES
    assert metric_names(plugins, ["brier", "process", "brier"]) == ("brier", *NAMES)
    assert metric_names(plugins, ["no_such"]) == ("no_such",)


@pytest.mark.slow
def test_a_finished_run_is_scored_by_the_group_and_the_card_verifies(
    market: Path, tmp_path: Path
) -> None:
    words = ("--data", str(market), "--windows", "2024-03-01:2024-03-06")
    run = evaluate(tmp_path / "run", "builtin/momentum", ["blinded_open_research"], *words)
    assert isinstance(run, RunFolder)

    plugins = load_plugins()
    (path,) = rescore(run.path, plugins, {"metrics": ("process",)})
    assert path.parent.name == "process"

    card = load_card(path)
    assert set(NAMES) <= set(card.metrics)
    assert card.metrics["research_used"].n > 0
    assert not verify_card(path, plugins, {}).findings


@pytest.mark.exhaustive
def test_a_run_may_ask_for_the_group_at_once(market: Path, tmp_path: Path) -> None:
    words = ("--data", str(market), "--windows", "2024-03-01:2024-03-06", "--metrics", "process")
    run = evaluate(tmp_path / "run", "builtin/momentum", ["blinded_open_research"], *words)
    assert isinstance(run, RunFolder)

    assert run.manifest.metrics == NAMES
