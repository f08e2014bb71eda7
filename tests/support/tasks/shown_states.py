"""Observations and requests made by hand, with the state that their prompts show."""

from __future__ import annotations

import re
from dataclasses import replace

from ktdeval.harness import Lesson, ModelRequest, Observation
from ktdeval.observation import recorded_state


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


def with_state(request: ModelRequest) -> ModelRequest:
    """Return a request with the state that its latest user message with one shows, as sessions set
    it.
    """
    for message in reversed(request.messages):
        state = recorded_state(message.content)
        if message.role == "user" and state.sections:
            return replace(request, state=state)

    return request
