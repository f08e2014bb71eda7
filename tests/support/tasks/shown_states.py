"""Observations and requests made by hand, with the state that their prompts show."""

from __future__ import annotations

from dataclasses import replace

from ktdeval.harness import Lesson, ModelRequest, Observation
from ktdeval.observation import recorded_state


def observation_of(step: int, system: str, user: str) -> Observation:
    """Return an observation with the state in its prompt."""
    return Observation(step, system, user, recorded_state(user))


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
