"""Parameters of the providers, in a module of their own so that listing the providers imports
nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.values import option


@dataclass(frozen=True)
class FileParams:
    """Files to read."""

    folder: str = option(
        help="folder of the public .json files, one per asset, named by its symbol (msft.json)"
    )
    symbols: tuple[str, ...] = option(
        (), help="symbols to read; none: all files with a known symbol"
    )
    entities: str | None = option(
        None,
        help=(
            "more words that identify an asset in texts: a file with code, kind (name, former, "
            "ticker, product, person, place), text"
        ),
    )
    name: str = option("investorbench", help="name of the market")
    repair: tuple[str, ...] = option(
        (), help="repairs to apply; --check-only lists the repairs that fix its findings"
    )


TWIN_VERSION = 2
"""Part of the twin's source line; increase it if the same parameters give a different market."""


@dataclass(frozen=True)
class InvestorMarketParams:
    """All parameters of the synthetic market."""

    seed: int = option(
        7, help="seed of the generator; each seed gives a different market", minimum=0
    )
    effect: float = option(
        1.0,
        help="multiplies the price effect of informative news; 0: news without information",
        minimum=0,
        maximum=5,
    )
