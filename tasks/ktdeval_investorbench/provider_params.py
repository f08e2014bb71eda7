"""Parameters of the providers, in a module of their own so that listing them imports
nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.values import option


@dataclass(frozen=True)
class FileParams:
    """Files to read."""

    folder: str = option(
        help="folder of the public .json files, one an asset, named by its symbol (msft.json)"
    )
    symbols: tuple[str, ...] = option(
        (), help="symbols to read; none: every file of a known symbol"
    )
    entities: str | None = option(
        None,
        help=(
            "more words that give an asset away in texts: a file with code, kind (name, former,"
            " ticker, product, person), text"
        ),
    )
    name: str = option("investorbench", help="name of the market")
    repair: tuple[str, ...] = option(
        (), help="repairs to apply; --check-only names those that fix what it finds"
    )


TWIN_VERSION = 2
"""Part of the twin's source line: a change of what the same parameters give changes it."""


@dataclass(frozen=True)
class TwinParams:
    """Everything that the synthetic market depends on."""

    seed: int = option(7, help="seed of the generator; each seed is another market", minimum=0)
    effect: float = option(
        1.0,
        help="multiplies what follows the news that tell; 0: news that say nothing",
        minimum=0,
        maximum=5,
    )
