"""Aliases of one episode: which handle stands for which asset and industry, and the order in which unranked rows are listed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ktdeval.seeds import derive_seed


def _shuffled(count: int, seed: int, stream: str) -> list[int]:
    """A permutation of 0..count-1 by sorting on hashes: equal on every machine and with every NumPy version."""
    return sorted(range(count), key=lambda place: derive_seed(seed, stream, place))


class AliasMap:
    """Secret names of assets and industries, drawn once per episode.

    Equal arguments give equal maps. The three permutations (asset numbers, sector numbers, listing order) are independent,
    so neither a number nor a place in a list says anything about a code.

    Args:
        seed: the episode's mask seed.
        n_assets: number of asset columns of the snapshot.
        industries: industry names; repeats and order don't matter.
    """

    def __init__(self, seed: int, n_assets: int, industries: Iterable[str]) -> None:
        self._asset_width = max(4, len(str(n_assets)))
        self._asset_at = tuple(_shuffled(n_assets, seed, "asset_alias"))
        numbers = [0] * n_assets
        for place, asset in enumerate(self._asset_at):
            numbers[asset] = place + 1
        self._numbers: Sequence[int] = tuple(numbers)
        names = sorted(set(industries))
        self._sector_width = max(2, len(str(len(names))))
        self._sector_at = tuple(names[place] for place in _shuffled(len(names), seed, "sector_alias"))
        self._sectors = {name: place + 1 for place, name in enumerate(self._sector_at)}
        self.order: tuple[int, ...] = tuple(_shuffled(n_assets, seed, "listing_order"))

    @property
    def n_assets(self) -> int:
        """Number of assets."""
        return len(self._asset_at)

    @property
    def industries(self) -> frozenset[str]:
        """All industry names that have an alias."""
        return frozenset(self._sectors)

    def asset_handle(self, asset: int) -> str:
        """`asset_0042` for an asset column.

        Raises:
            IndexError: there is no such column.
        """
        if asset < 0:
            raise IndexError(f"asset column {asset} is negative")
        return f"asset_{self._numbers[asset]:0{self._asset_width}d}"

    def asset_of(self, handle: str) -> int | None:
        """Asset column of a handle in its exact form, or None."""
        number = _number(handle, "asset_", self._asset_width)
        return self._asset_at[number - 1] if number is not None and 1 <= number <= len(self._asset_at) else None

    def sector_handle(self, industry: str) -> str:
        """`sector_07` for an industry name.

        Raises:
            KeyError: the industry is not one of the map's.
        """
        return f"sector_{self._sectors[industry]:0{self._sector_width}d}"

    def sector_of(self, handle: str) -> str | None:
        """Industry of a handle in its exact form, or None."""
        number = _number(handle, "sector_", self._sector_width)
        return self._sector_at[number - 1] if number is not None and 1 <= number <= len(self._sector_at) else None


def _number(handle: str, prefix: str, width: int) -> int | None:
    digits = handle.removeprefix(prefix)
    if digits == handle or len(digits) != width or not (digits.isascii() and digits.isdecimal()):
        return None
    return int(digits)
