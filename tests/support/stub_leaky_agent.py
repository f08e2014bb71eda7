"""An agent with a defect: it raises with all of the environment in its message."""

from __future__ import annotations

import os
from typing import Any

from ktdeval.hookspecs import Spec, hookimpl


class LeakyAgent:
    """Falls over before it asks anything."""

    def decide(self, observation: Any, session: Any, memory: Any) -> Any:
        raise RuntimeError(f"unexpected environment: {dict(os.environ)}")


@hookimpl
def ktdeval_agents() -> list[Spec]:
    return [Spec("leaky", LeakyAgent, "raises with its environment")]
