"""Observations and requests made by hand, with the state that their prompts show."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from ktdeval.harness import Lesson, ModelRequest, Observation
from ktdeval.observation import ObservedState, recorded_state


def observation_of(step: int, system: str, user: str) -> Observation:
    """Return an observation with the state in its prompt."""
    state = recorded_state(user)
    if "constraints" in state.sections:  # a prompt's block has no limits
        block = re.findall(r"```json\n(.*?)\n```", user, re.DOTALL)[-1]
        user = user.replace(block, state.text)

    return Observation(step, system, user, state)


def lesson_of(day: str, text: str) -> Lesson:
    """Return a lesson with the state in its text."""
    return Lesson(day, text, recorded_state(text))


_POSITIONS = re.compile(r"[Aa]t most (\d+) (?:positions|stocks|names)")
_WEIGHT = re.compile(r"(?:beyond|above|BUY means to hold) (\d+(?:\.\d+)?) % of NAV")
_LOTS = re.compile(r"whole lots of (\d+) shares, on the STAR board at least (\d+) shares")
_CLOSES = re.compile(r"HOLD[^.]*\b(?:closes|no position|sells)")


def with_state(request: ModelRequest) -> ModelRequest:
    """Return a request with the state that its latest user message with one shows, as sessions set
    it. Its limits are those that the rules of the prompt name in words.
    """
    for message in reversed(request.messages):
        state = recorded_state(message.content)
        if message.role == "user" and state.sections:
            return replace(request, state=_with_limits(state, request))

    return request


def _with_limits(state: ObservedState, request: ModelRequest) -> ObservedState:
    """Return a state with the limits that a prompt has in words, where its block has none."""
    limits: dict[str, Any] = {}
    rules = "\n".join(message.content for message in request.messages)
    positions = _POSITIONS.search(rules)
    weight = _WEIGHT.search(rules)
    if positions:
        limits["max_positions"] = int(positions[1])
    if weight:
        limits["max_weight"] = float(weight[1]) / 100
    lots = _LOTS.search(rules)
    if lots:
        limits["lot_shares"] = int(lots[1])
        limits["star_min_shares"] = int(lots[2])
    if weight and not positions:
        limits["max_positions"] = len(state.assets)
    if any("decisions" in tool.parameters.get("properties", {}) for tool in request.tools):
        limits["hold"] = "close" if _CLOSES.search(rules) else "keep"

    if "constraints" in state.sections or not limits:
        return state
    return ObservedState({**state.sections, "constraints": json.dumps(limits)})
