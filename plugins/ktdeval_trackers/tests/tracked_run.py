"""Events of a run of two episodes, of which one fails, as trackers are told them, with its card."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ktdeval.harness import CallParams, Message, ModelRequest, Reply, ToolCall, Usage
from ktdeval.task_api import (
    CallFinished,
    EpisodeFailed,
    EpisodeFinished,
    EpisodeStarted,
    RunFinished,
    RunStarted,
    StepFinished,
)
from ktdeval.task_api.events import Event
from support.figures.card_cases import card, paid
from support.figures.compare_cards import save_card
from support.figures.metric_cases import spec

STEPS = 5
RUN_ID = "5e" * 32
PROMPT = "the account holds 100 of A17"  # a text that leaves only where somebody asks for it
REPLY = "I buy A17 since it rose"
MODEL = "openai/gpt-4.1"
CALL = paid()["call"]
DONE, BROKEN = spec(0, call=CALL), spec(1, call=CALL)


def call(step: int, outcome: str = "answered") -> CallFinished:
    """A call of the first episode, or of the second one where it fails."""
    reply = None
    if outcome in ("answered", "cached"):
        tool = ToolCall("call_1", "submit_action", '{"orders": []}')
        reply = Reply(
            REPLY,
            (tool,),
            "tool_calls",
            Usage(100, 20, cache_read_tokens=60),
            served_by="gpt-4.1-2025-04-14",
            response_id="chatcmpl-1",
        )

    return CallFinished(
        BROKEN if reply is None else DONE,
        step=step,
        model=MODEL,
        outcome=outcome,
        attempt=1,
        latency_s=0.5,
        cost_usd=None if reply is None else 0.25,
        request=ModelRequest((Message("user", PROMPT),), params=CallParams(temperature=0.3)),
        reply=reply,
    )


def step(number: int) -> StepFinished:
    """A step of the first episode; its NAV falls to 990 at the third."""
    return StepFinished(
        DONE,
        step=number,
        total_steps=STEPS,
        filled_on=f"2024-01-0{number + 3}",
        nav=1000.0 - 10 * (number == 2),
        orders=2,
        rejections=1,
        tokens=120,
        provenance="model",
        currency="CNY",
    )


def whole_run(folder: Path, recorded: int = 0) -> Iterator[Event]:
    """Yield the events of the run; `recorded`: steps of the first episode from an earlier session."""
    made = save_card(folder, card((0, 1), failed=(1,), **paid()))
    yield RunStarted(RUN_ID, str(folder), (DONE, BROKEN))
    yield EpisodeStarted(DONE, STEPS, recorded, tuple(map(step, range(recorded))))
    for number in range(recorded, STEPS):
        yield call(number, "cached" if number == 0 else "answered")
        yield step(number)

    yield EpisodeFinished(DONE, already_done=False)
    yield EpisodeStarted(BROKEN, STEPS, 0)
    yield call(0, "rate_limited")
    yield EpisodeFailed(BROKEN, "the model call failed")
    yield RunFinished(str(folder), (str(made),), 1, "failed")


def interrupted_run(folder: Path, steps: int) -> Iterator[Event]:
    """Yield the events of a session that ends after some steps of the first episode."""
    yield RunStarted(RUN_ID, str(folder), (DONE, BROKEN))
    yield EpisodeStarted(DONE, STEPS, 0)
    yield from map(step, range(steps))
    yield RunFinished(str(folder), (), 2, "interrupted")
