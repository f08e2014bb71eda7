"""Actions as orders and submissions, and the model that replays recorded actions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("gymnasium", reason="needs gymnasium: pip install '.[gym]'")

from gym_worlds import BASE, moved_market, opened_on
from ktdeval.errors import DataError, UsageError
from ktdeval.harness import Message, ModelRequest, Reply, ToolCall, ToolSpec
from ktdeval.runner import EpisodeFactory
from ktdeval_gym.action_submissions import (
    ActionsModel,
    SubmittedCall,
    TargetMove,
    actions_of,
    bound_weights,
    calls_of,
    make_submission,
    moves,
    read_actions,
    scaled_down,
    write_actions,
)
from ktdeval_gym.policies.params import ActionsParams

# ---- target weights


def limits(most: int | None, largest: float | None) -> Any:
    return SimpleNamespace(max_positions=most, max_weight=largest)


@pytest.mark.parametrize(
    ("weights", "most", "largest", "expected"),
    [
        ([0.3, 0.9, 0.2, 0.001], 2, 0.6, [0.3, 0.6, 0.0, 0.0]),
        ([0.9, 0.9, 0.9], 2, 0.6, [0.0, 0.0, 0.0]),  # the order shown does not matter
        ([0.3, 0.2], 2, 0.6, [0.3, 0.2]),
        ([0.3, 0.2, 0.1], None, 0.6, [0.3, 0.2, 0.1]),
        ([0.005, 0.004999], 2, 0.6, [0.005, 0.0]),
        ([0.9], 2, None, [0.9]),
        ([1.0], 2, None, [0.995]),
        ([0.1234567], 2, None, [0.123457]),
        ([0.9, 0.8], 2, 1.0, [0.526765, 0.468235]),
        ([0.9, 0.8], 2, 0.4, [0.4, 0.4]),
    ],
)
def test_target_weights_are_cut_to_the_tasks_limits(
    weights: list[float], most: int | None, largest: float | None, expected: list[float]
) -> None:
    assert bound_weights(weights, limits(most, largest)) == expected


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ([0.5, 0.495], [0.5, 0.495]),
        ([0.5, 0.5], [0.4975, 0.4975]),
        ([2.0, 1.98], [0.5, 0.495]),
        ([], []),
    ],
)
def test_weights_that_leave_nothing_for_costs_are_scaled_down(
    weights: list[float], expected: list[float]
) -> None:
    assert scaled_down(weights) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("held", "weights", "expected"),
    [
        ([None, 0.3], [0.2, 0.1], [TargetMove(1, "SELL", 0.1), TargetMove(0, "BUY", 0.2)]),
        ([0.5, 0.1], [0.1, 0.5], [TargetMove(0, "SELL", 0.1), TargetMove(1, "BUY", 0.5)]),
        ([None], [0.0], []),
        ([None], [0.005], [TargetMove(0, "BUY", 0.005)]),
        ([None], [0.0049], []),
        ([0.25], [0.2549], []),
        ([0.25], [0.255], [TargetMove(0, "BUY", 0.255)]),
        ([0.25], [0.2451], []),
        # a holding is sold completely, however small it is
        ([0.001], [0.0], [TargetMove(0, "SELL", 0.0)]),
        ([0.0], [0.0], [TargetMove(0, "SELL", 0.0)]),
    ],
)
def test_moves_go_from_positions_to_target_weights_sells_first(
    held: Sequence[float | None], weights: list[float], expected: list[TargetMove]
) -> None:
    assert moves(held, weights) == expected


def test_decisions_are_one_row_for_each_label() -> None:
    assert make_submission(["a", "b"], ["BUY", "HOLD"], "because") == {
        "decisions": [
            {"stock_id": "a", "decision": "BUY", "confidence": 0.5, "reason": "because"},
            {"stock_id": "b", "decision": "HOLD", "confidence": 0.5, "reason": "because"},
        ],
        "overall_reason": "because",
    }

    with pytest.raises(ValueError, match="zip"):
        make_submission(["a"], ["BUY", "HOLD"], "because")


# ---- the model


MARKET = moved_market()


def model_of(path: Path, content: Any, sha256: str | None = None) -> ActionsModel:
    write_actions(path, content)
    return ActionsModel("", ActionsParams(str(path), sha256))


@pytest.mark.parametrize(
    ("steps", "is_recorded"),
    [
        ({0: [0.0] * 4}, True),
        ({0: [0.0] * 5}, True),
        ({0: [0.0] * 3}, False),
        ({1: [0.0] * 4}, False),
    ],
)
def test_a_step_needs_an_action_on_each_asset_shown(
    steps: dict[int, list[float]], is_recorded: bool, tmp_path: Path
) -> None:
    opened = opened_on(MARKET, "market_blinded", [(BASE + 1, BASE + 2)])
    model = model_of(tmp_path / "actions.json", actions_of("market_blinded", steps))
    factory = EpisodeFactory({"market_blinded": opened.task}, opened.plugins, MARKET)

    record = factory.open(opened.spec(opened.windows[0]), model).run_step(0).step

    assert record.provenance == ("model" if is_recorded else "error")
    assert list(record.failures) == ([] if is_recorded else ["model_no_recorded_action"])


ROUNDS = [
    [SubmittedCall(tool="look", arguments={"day": 1}), SubmittedCall(tool="wait", arguments={})],
    [SubmittedCall(tool="order", arguments={"qty": 2})],
]


def asked(turns: int, tool_choice: str | None = None) -> ModelRequest:
    """A request after this number of rounds of calls."""
    called = Message("assistant", "", (ToolCall("c", "look", "{}"),))
    tools = (ToolSpec("look", "", {}), ToolSpec("finish", "", {}))
    return ModelRequest((Message("user", "Go."), *[called] * turns), tools, tool_choice)


def called(reply: Reply) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in reply.tool_calls]


def test_recorded_calls_are_made_round_by_round_and_then_ended(tmp_path: Path) -> None:
    model = model_of(tmp_path / "actions.json", calls_of("broker", ROUNDS))

    replies = [model.reply(asked(turns)) for turns in range(3)]
    form = model.reply(asked(2, "finish"))

    assert called(replies[0]) == [("look", {"day": 1}), ("wait", {})]
    assert called(replies[1]) == [("order", {"qty": 2})]
    assert replies[2] == Reply("Recorded calls of an environment's episode.")
    assert called(form) == [("finish", {"summary": "Recorded calls of an environment's episode."})]


def test_research_is_declined(tmp_path: Path) -> None:
    model = model_of(tmp_path / "actions.json", actions_of("market_blinded", {}))

    assert model.reply(asked(0)) == Reply("No research.")


def test_a_file_of_actions_can_be_pinned(tmp_path: Path) -> None:
    path = tmp_path / "actions.json"
    content = actions_of("market_blinded", {0: [0.5]})
    write_actions(path, content)
    read, digest = read_actions(path)

    assert read == content
    assert model_of(path, content, digest).traits.recorded_args == {"sha256": digest}

    with pytest.raises(
        UsageError, match=f"has the SHA-256 {digest}, not 00; give the recorded file"
    ):
        model_of(path, content, "00")

    with pytest.raises(DataError, match="name a file that an environment with `out` wrote"):
        read_actions(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("more", "message"), [(0, "actions .*: "), (1, "more than 67108864 bytes")]
)
def test_a_file_of_actions_has_64_mebibytes_at_most(
    more: int, message: str, tmp_path: Path
) -> None:
    """A file of exactly that size is read, and found to be invalid JSON."""
    path = tmp_path / "actions.json"
    with path.open("wb") as file:
        file.truncate(64 * 1024**2 + more)

    with pytest.raises(DataError, match=message) as refused:
        read_actions(path)

    assert ("bytes" in str(refused.value)) == bool(more)
