"""Orders whose text names no asset are listed by transplant and fork."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktdeval.registry import load_plugins
from ktdeval.runner import RunConfig, evaluate
from ktdeval.testing import Terminal
from ktdeval_compare.unread_orders import unread_notes

pytestmark = pytest.mark.needs("ktdeval_builtin", "ktdeval_ktdfin")

MODEL = """
from ktdeval.api import ModelTraits, Reply, Spec, ToolCall, hookimpl
from ktdeval.values import dumps_canonical


class Inventor:
    traits = ModelTraits(is_free=True)

    def reply(self, request):
        if request.tool_choice != "submit_action":
            return Reply("Nothing to look up.")
        order = {"stock_id": "asset_xyz", "side": "BUY", "target_weight": 0.05}
        order |= {"confidence": 0.5, "reason": "an invented stock"}
        arguments = dumps_canonical({"orders": [order], "overall_reason": "an invented stock"})
        return Reply(tool_calls=(ToolCall("1", "submit_action", arguments),))


@hookimpl
def ktdeval_models():
    return [Spec("mine/inventor", lambda name: Inventor(), "Orders a stock that does not exist")]
"""


# orders that break a rule are not returned to the model
TASK = """
family: mine
version: "1"
variants:
  mine: {extends: blinded_fixed_candidate, trading: {constraint_feedback: false}}
"""


def test_a_note_lists_texts_with_their_number_the_most_frequent_first() -> None:
    assert unread_notes([]) == []
    assert unread_notes(["BUY 'A'", "SELL 'B'", "SELL 'B'"]) == [
        "3 orders not read, because the text names no asset of that day: SELL 'B' × 2, BUY 'A' × 1"
    ]


def test_orders_for_no_asset_are_listed_and_count_as_ordered(
    tmp_path: Path, terminal: Terminal
) -> None:
    plugin = tmp_path / "inventor.py"
    plugin.write_text(MODEL)
    task = tmp_path / "mine.yaml"
    task.write_text(TASK)
    config = RunConfig(
        model="mine/inventor",
        tasks=(str(task),),
        windows=("W1",),
        limit=2,
        mask_key="0" * 32,
        out=str(tmp_path / "run"),
        quiet=True,
    )
    assert not evaluate(config, load_plugins([str(plugin)])).failed

    note = "not read, because the text names no asset of that day: BUY 'asset_xyz'"
    own = ("--plugin", plugin, "--json")
    transplanted = terminal.out(
        "compare", "transplant", tmp_path / "run", "--cash", "1e6,1e7", *own
    )
    assert f"2 orders {note} × 2" in transplanted
    assert '"filled_share": 0.0' in transplanted
    assert note in terminal.out("fork", tmp_path / "run", *own)
