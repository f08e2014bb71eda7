"""Steps as an export sees them, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ktdeval.harness import Message, ModelRequest, Reply, ToolSpec
from ktdeval.masking import UNMASKED
from ktdeval.registry import load_plugins
from ktdeval.task_api import EpisodeSpec, Window
from ktdeval.testing import ledger_of, step_record, tiny_snapshot
from ktdeval_export.conversations import ModelCall
from ktdeval_export.replayed_steps import TracedEpisode, TracedStep

TASK = "blinded_open_research"
MARKET = tiny_snapshot({"609001.SH": [10.0] * 6})
SPEC = EpisodeSpec(
    task=TASK,
    task_version="1",
    task_hash="ab",
    snapshot="tiny",
    mask="blinded",
    mode="market",
    window=Window("W1", "2024-01-03", "2024-01-05"),
    model="builtin/hold",
    model_args={},
    agent="react",
    agent_args={},
)
SYSTEM = Message("system", "You trade.")
ASKED = Message("user", "What now?")
SUBMIT = ToolSpec("submit_action", "Submits.", {"type": "object", "properties": {}})


def model_call(
    reply: Reply,
    *messages: Message,
    tools: Sequence[ToolSpec] = (SUBMIT,),
    role: str | None = None,
) -> ModelCall:
    """A call with these messages; the usual two if none are given."""
    sent = messages or (SYSTEM, ASKED)
    return ModelCall(ModelRequest(tuple(sent), tuple(tools), role=role), reply)


def traced(number: int = 0, *calls: ModelCall, **fields: Any) -> TracedStep:
    """A step that asked the model once, unless calls are given; `fields` of its record."""
    return TracedStep(
        spec=SPEC,
        where=f"run: W1, step {number}",
        number=number,
        record=step_record(MARKET, number, number + 1, **fields),
        calls=calls or (model_call(Reply("I hold.")),),
        lens=UNMASKED,
    )


def episode_of(*steps: TracedStep, **fields: Any) -> TracedEpisode:
    """A trading episode of these steps; `fields` replace its own."""
    records: Any = [step.record for step in steps]
    made = TracedEpisode(
        spec=SPEC,
        task=load_plugins().make_task(TASK),
        where="run: W1",
        trace=lambda: steps,
        ledger=ledger_of(records),
        market=MARKET,
        registration=None,
    )

    return replace(made, **fields)
