"""Parameters of the provider and the agent, in a module of their own so that listing them imports nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ktdeval.fields import option


@dataclass(frozen=True)
class FileParams:
    """Files to read."""

    folder: str = option(help="folder of the public .json files, one an asset, named by its symbol (msft.json)")
    symbols: tuple[str, ...] = option((), help="symbols to read; none: every file of a known symbol")
    entities: str | None = option(
        None,
        help="more words that give an asset away in texts: a file with code, kind (name, former, ticker, product, person), text",
    )
    name: str = option("investorbench", help="name of the market")
    repair: tuple[str, ...] = option((), help="repairs to apply; `ktdeval data check` names those that fix what it finds")


TWIN_VERSION = 2
"""Part of the twin's source line: a change of what the same parameters give changes it."""


@dataclass(frozen=True)
class TwinParams:
    """Everything that the synthetic market depends on."""

    seed: int = option(7, help="seed of the generator; each seed is another market", minimum=0)
    effect: float = option(1.0, help="multiplies what follows the news that tell; 0: news that say nothing", minimum=0, maximum=5)


@dataclass(frozen=True)
class FinmemParams:
    """Parameters of the agent `finmem`."""

    parameters: Literal["paper", "finmem", "investorbench", "generative_agents"] = option(
        "paper", help="parameter set of the memory; generative_agents: one stream under one score, without layers"
    )
    character: Literal["seeking", "averse", "self_adaptive"] = option(
        "self_adaptive", help="attitude to risk; self_adaptive: averse after a loss over `adaptive_days`, else seeking"
    )
    adaptive_days: int = option(3, help="days whose return the self-adaptive character goes by", minimum=1)
    characters: int = option(400, help="most characters kept of a document or a reason", minimum=40)
    summarise: bool = option(
        False, help="ask the model for a summary of each document that is longer than `characters`; otherwise it is cut"
    )
    embedding: str = option("hashing", help="vectors of texts: hashing, sentence:NAME (a local model) or openai:NAME (of a server)")
    weights: str = option("", help="hash of that model's files; the error without it names it")
    embedding_url: str | None = option(None, help="address of a server that speaks OpenAI's /embeddings; default: OpenAI's")
    embedding_floats: int = option(0, help="length of its vectors, where the model has several; 0: its own", minimum=0)
    seed: int = option(0, help="seed that initial importances are drawn from, with each text", minimum=0)
