"""Plugin of ktdeval: the agent `inspect`. With it, ktdeval verifies its cards without Inspect."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import maker
from ktdeval_inspect.agent_params import InspectAgentParams


@hookimpl
def ktdeval_agents() -> list[Spec]:
    """Return the agent that runs agents of Inspect."""
    summary = "An agent of Inspect decides; only within `inspect eval`"
    return [
        Spec("inspect", maker("ktdeval_inspect.agent:InspectAgent"), summary, InspectAgentParams)
    ]
