"""Manifest of the built-in agent scaffolds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.api import Spec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktdeval.api import Agent


def _make_react(params: None = None) -> Agent:  # noqa: ARG001 - the hook passes the parameters of the spec, here none
    from ktdeval_agents.react import ReactAgent

    return ReactAgent()


@hookimpl
def ktdeval_agents() -> Sequence[Spec]:
    """Agents that ship with ktdeval."""
    return [Spec("react", _make_react, "Two phases: free research with tools, then one forced submission with retries")]
