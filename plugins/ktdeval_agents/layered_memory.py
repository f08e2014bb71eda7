"""The investor with a layered memory of documents and reasons instead of a list of decisions."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ktdeval.errors import ConfigError
from ktdeval.harness import Agent
from ktdeval_agents import InvestorParams, TeamParams
from ktdeval_agents.team import make_team
from ktdeval_memory.agent import MemoryAgent
from ktdeval_memory.params import MemoryParams

NAME = "investor"


def make_investor(params: InvestorParams | None = None) -> Agent:
    """Return the investor with the requested memory. Raises ConfigError if an argument applies only
    to the other memory. Raises UsageError if `embedding` can't be used.
    """
    params = params or InvestorParams()
    if params.memory == "layered":
        _refuse(params, TeamParams(), "decisions")
        return MemoryAgent(NAME, MemoryParams(**_field_values(params, MemoryParams)))

    _refuse(params, MemoryParams(), "layered")
    return make_team(NAME, TeamParams(**_field_values(params, TeamParams)))


def _field_values(params: InvestorParams, type_: type[TeamParams | MemoryParams]) -> dict[str, Any]:
    return {field.name: getattr(params, field.name) for field in fields(type_)}


def _refuse(params: InvestorParams, unused: TeamParams | MemoryParams, other: str) -> None:
    """Raise ConfigError if an argument was given that is not used."""
    for field in fields(unused):
        if getattr(params, field.name) != getattr(unused, field.name):
            raise ConfigError(
                f"{field.name}: has no effect with memory={params.memory}; leave it out, or set "
                f"memory={other}"
            )
