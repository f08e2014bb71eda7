"""A plugin for the tests of runs: models that take their time or miscount, odd agents, a metric,
and sudden death.

How slow and when to die comes from the environment, not from parameters: a parameter would make it
another episode.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
import zlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ktdeval.errors import ModelError
from ktdeval.harness import (
    NO_TOOL,
    ROLE_HEADING,
    SIGNAL_FORM,
    SIGNALS,
    ModelRequest,
    Reply,
    Usage,
)
from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.market import MarketSnapshot
from ktdeval.runner import Event, StepFinished
from ktdeval.stats import MetricValue, RuleSet
from ktdeval.trading import Ledger
from ktdeval.values import option

SLEEP_MS = "RUN_PLUGIN_SLEEP_MS"  # how long each model call takes
HOLD = "RUN_PLUGIN_HOLD"  # file: model calls wait for as long as it is there
CALL_LOG = "RUN_PLUGIN_CALL_LOG"  # file that gets a line for each model call
DIE_AFTER_STEP = "RUN_PLUGIN_DIE_AFTER_STEP"  # kill the process once this step is on disk
# `3:before`, `3:after`: kill it around the third rename of a file
DIE_AT_RENAME = "RUN_PLUGIN_DIE_AT_RENAME"
DEFECT_AT_CALL = "RUN_PLUGIN_DEFECT_AT_CALL"  # raise at this model call


class Mixed:
    """Momentum in one half of the steps, chaos in the other, by what is observed; counts some
    tokens. Calls that would be an outage fail as the model's own, since an outage stops a run.
    """

    def __init__(self) -> None:
        from ktdeval_models.builtin_models import make_builtin

        self._models = (make_builtin("momentum"), make_builtin("chaos"))
        self._calls = 0

    def reply(self, request: ModelRequest) -> Reply:
        """Answer as the chosen model does."""
        self._calls += 1
        time.sleep(float(os.environ.get(SLEEP_MS, "0")) / 1000)

        while HOLD in os.environ and Path(os.environ[HOLD]).exists():
            time.sleep(0.005)

        if log := os.environ.get(CALL_LOG):
            with Path(log).open("a") as stream:
                stream.write(f"{request.params.seed}\n")

        if os.environ.get(DEFECT_AT_CALL) == str(self._calls):
            raise ZeroDivisionError("a defect\nof the model")

        observation = request.messages[1].content
        try:
            reply = self._models[zlib.crc32(observation.encode()) % 2].reply(request)
        except ModelError as error:
            raise ModelError("bad_response", str(error)) from error

        usage = Usage(
            sum(len(message.content) for message in request.messages) // 4,
            7 + len(reply.tool_calls),
        )

        return Reply(reply.content, reply.tool_calls, reply.finish_reason, usage)


class Naming:
    """`builtin/random` that rests each decision on the first two memories shown of FinMem, and says
    what day it is.
    """

    def __init__(self) -> None:
        from ktdeval_models.builtin_models import make_builtin

        self._random = make_builtin("random")

    def reply(self, request: ModelRequest) -> Reply:
        """Answer as the random model does, with ids."""
        reply = self._random.reply(request)
        shown = request.messages[1].content
        ids = re.findall(r"^- (M\d+): ", shown, re.MULTILINE)[:2]

        if not (step := re.findall(r"\(step (\d+)\)", shown)):
            day = re.findall(r"^Day (\S+) is a day of a warm-up", shown, re.MULTILINE)[0]
            return replace(reply, content=f"Lesson of {day} [memory: {', '.join(ids) or 'none'}]")

        calls = []
        for call in reply.tool_calls:
            arguments = json.loads(call.arguments)
            if "overall_reason" in arguments:
                arguments["overall_reason"] = (
                    f"Reason {step[0]} [memory: {', '.join(ids) or 'none'}]"
                )

            calls.append(replace(call, arguments=json.dumps(arguments)))

        return replace(reply, tool_calls=tuple(calls))


class Member:
    """`builtin/random` that has something to say to the roles of a team, true identities among it,
    and counts tokens.
    """

    def __init__(self) -> None:
        from ktdeval_models.builtin_models import make_builtin

        self._random = make_builtin("random")

    def reply(self, request: ModelRequest) -> Reply:
        """Answer as the random model does; without tools, in words."""
        reply = self._random.reply(request)
        usage = Usage(sum(len(message.content) for message in request.messages) // 4, 9)

        if request.tools and request.tool_choice != NO_TOOL:
            return replace(reply, usage=usage)

        labels = re.findall(r"asset_\d+", request.messages[-1].content)[:2]
        given: dict[str, float | str] = dict.fromkeys(labels, 0.1)
        if SIGNAL_FORM in request.messages[-1].content.rpartition(ROLE_HEADING)[2]:
            given = {
                label: SIGNALS[zlib.crc32(f"{label}{request.params.seed}".encode()) % 3]
                for label in (*labels, "OTHERS")
            }

        content = (
            "This is 600519.SH on 2024-03-05, or TSLA. I ask the technical analyst and the macro"
            f" analyst. {json.dumps(given)}"
        )

        return Reply(content if request.params.seed % 5 else "", usage=usage)


@dataclass(frozen=True)
class RememberingParams:
    """Arguments of `--agent-args` for `remembering`."""

    every: int = option(3, help="submits on every n-th step only", minimum=1)


class Remembering:
    """Decides as `react` does on every n-th step and repeats itself in between; only its memory
    says which step that is.
    """

    def __init__(self, params: RememberingParams) -> None:
        from ktdeval_builtin.react import ReactAgent

        self._react = ReactAgent()
        self._every = params.every

    def decide(self, observation: Any, session: Any, memory: Any) -> Any:
        """Decide one step."""
        from ktdeval.harness import Decision

        count = 0 if memory is None else memory["count"]

        if count % self._every:
            return Decision(
                (),
                "model",
                f"waiting since {memory['last']}",
                memory={**memory, "count": count + 1},
            )

        decision = self._react.decide(observation, session, None)

        return replace(decision, memory={"count": count + 1, "last": observation.step})


class Leaky:
    """Falls over before it asks anything, with all of the environment in its message."""

    def decide(self, observation: Any, session: Any, memory: Any) -> Any:
        """Raise."""
        raise RuntimeError(f"unexpected environment: {dict(os.environ)}")


class DaysUp:
    """Share of days on which the NAV rose."""

    name = "days_up"
    formula = "days_up/1: #{t: r_t > 0} / n"
    unit = "fraction"
    better: Literal["higher", "lower", "neither"] = "higher"
    source = "the tests"
    headline = False
    range = (0.0, 1.0)

    def compute(self, ledger: Ledger, market: MarketSnapshot, rules: RuleSet) -> MetricValue:
        """The metric of one episode."""
        return MetricValue(float((ledger.returns > 0).mean()), len(ledger.returns))


@hookimpl
def ktdeval_models() -> list[Spec]:
    naming = Spec("test/naming", lambda name: Naming(), "random, and names memories")
    member = Spec("test/member", lambda name: Member(), "random, and talks to a team")
    return [Spec("test/mixed", lambda name: Mixed(), "momentum and chaos by turns"), naming, member]


@hookimpl
def ktdeval_agents() -> list[Spec]:
    leaky = Spec("leaky", Leaky, "raises with its environment")
    return [
        Spec("remembering", Remembering, "decides on every n-th step", RememberingParams),
        leaky,
    ]


@hookimpl
def ktdeval_metrics() -> list[Spec]:
    return [Spec("days_up", DaysUp, "share of days on which the NAV rose")]


@hookimpl
def ktdeval_event(event: Event) -> None:
    if isinstance(event, StepFinished) and os.environ.get(DIE_AFTER_STEP) == str(event.step):
        os.kill(os.getpid(), signal.SIGKILL)


def _die_at_rename(wanted: str) -> None:
    number, moment = wanted.split(":")
    rename = Path.replace
    seen = 0

    def replace(path: Path, target: Any) -> Path:
        nonlocal seen
        seen += 1
        if seen == int(number) and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)

        result = rename(path, target)
        if seen == int(number):
            os.kill(os.getpid(), signal.SIGKILL)

        return result

    Path.replace = replace  # type: ignore[method-assign]


if DIE_AT_RENAME in os.environ:
    _die_at_rename(os.environ[DIE_AT_RENAME])
