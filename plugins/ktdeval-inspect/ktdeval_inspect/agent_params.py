"""Arguments of the agent `inspect`."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.values import option


@dataclass(frozen=True, kw_only=True)
class InspectAgentParams:
    """Which agent of Inspect decides a step."""

    agent: str = option(
        help="react, an agent of inspect_swe such as claude_code, or MODULE:FUNCTION, which gets"
        " the step's tools and returns an agent"
    )
    calls: int = option(
        200, help="maximum number of model calls in a step", minimum=1, maximum=100_000
    )
