"""Plugin of ktdeval: the agent `inspect`, so that its cards are verified without Inspect's help."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import maker
from ktdeval_inspect.agent_params import InspectAgentParams


@hookimpl
def ktdeval_agents() -> list[Spec]:
    """Return the agent that is an agent of Inspect."""
    summary = "An agent of Inspect decides; only within `inspect eval`"
    return [
        Spec("inspect", maker("ktdeval_inspect.agent:InspectAgent"), summary, InspectAgentParams)
    ]
