"""Parameters of agents with a layered memory, in a separate module so that listing the agents
imports nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ktdeval.values import Address, option


@dataclass(frozen=True)
class MemoryParams:
    """Parameters of a layered memory, and of the agent that uses it."""

    parameters: Literal["paper", "finmem", "investorbench", "generative_agents"] = option(
        "paper",
        help=(
            "parameter set of the memory; generative_agents: one stream under one score, without"
            " layers"
        ),
    )
    character: Literal["seeking", "averse", "self_adaptive"] = option(
        "self_adaptive",
        help=(
            "attitude to risk; self_adaptive: averse where the momentum of the asset is below 0,"
            " else seeking"
        ),
    )
    momentum_days: int = option(3, help="days of the momentum", minimum=1)
    texts: Literal["recalled", "full"] = option(
        "recalled",
        help=("texts of the day in the prompt: only those recalled from memory, or all in full"),
    )
    reflection: bool = option(
        True, help="ask the model what it learns from the outcomes of its decisions"
    )
    characters: int = option(
        2000, help="maximum characters kept of a document or of the model's text", minimum=40
    )
    summarise: bool = option(
        False,
        help=(
            "ask the model for a summary of each document that is longer than `characters`;"
            " otherwise it is cut"
        ),
    )
    embedding: str = option(
        "hashing",
        help=(
            "vectors of texts: hashing, sentence:NAME (a local model) or openai:NAME (of a server)"
        ),
    )
    weights: str = option(
        "", help="hash of that model's files; if it is missing, the error names it"
    )
    embedding_url: Address | None = option(
        None, help="address of a server that speaks OpenAI's /embeddings; default: OpenAI's"
    )
    embedding_floats: int = option(
        0, help="length of its vectors, if the model has several; 0: its default", minimum=0
    )
    seed: int = option(
        0, help="seed that initial importances are drawn from, with each text", minimum=0
    )
