"""Invented listings: codes that no security uses, names and industries that no text would mention by chance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ktdeval.api import Board, board_of

_LISTINGS = (
    ("609{:03d}.SH", range(1000), 170),
    ("009{:03d}.SZ", range(1000), 85),
    ("309{:03d}.SZ", range(1000), 42),
    ("6889{:02d}.SH", [number for number in range(100) if number != 81], 27),  # 688981 is a real company
    ("889{:03d}.BJ", range(1000), 6),
)
"""Code pattern, numbers to choose from, how many: the board mix of the CSI300 and its reserve, plus a few Beijing names."""

ASSET_COUNT = sum(count for _, _, count in _LISTINGS)

_ONSETS = (
    "Vor", "Quel", "Zan", "Myr", "Thol", "Brix", "Kev", "Jarn", "Wex", "Plov", "Dryn", "Skar", "Fyl", "Gund", "Hax",
    "Ilv", "Lorn", "Nym", "Osk", "Prax", "Rudv", "Syv", "Tamb", "Ulf", "Vex", "Yarl", "Zim", "Bolg", "Crev", "Dwul",
)  # fmt: skip
_ENDINGS = (
    "oxin", "athel", "urex", "ibund", "ovask", "estrix", "amphor", "uldren", "orvik", "eluth", "issolt", "aquen", "ontiv",
    "ygrad", "umbrel", "effin", "okarn", "intha", "ozzet", "erqual", "andrux", "ilvane", "oburk", "eskar", "unvol",
    "apteq", "ybdis", "ethax", "olgan", "uvandi",
)  # fmt: skip
_TRADES = (
    "Lending", "Insurance", "Brokerage", "Metals", "Coal", "Oil", "Chemicals", "Cement", "Steel", "Machinery", "Electrics",
    "Autos", "Semiconductors", "Software", "Telecom", "Media", "Pharma", "Devices", "Liquor", "Foods", "Utilities",
    "Transport", "Property", "Defence",
)  # fmt: skip


class Listings(NamedTuple):
    """The assets of a synthetic market, by ascending code.

    Attributes:
        codes, names, boards: one each.
        industry: [N] index into `industry_names`.
        industry_names: distinct invented industries.
    """

    codes: tuple[str, ...]
    names: tuple[str, ...]
    boards: tuple[Board, ...]
    industry: np.ndarray[tuple[int], np.dtype[np.intp]]
    industry_names: tuple[str, ...]


def make_listings(rng: np.random.Generator) -> Listings:
    """Draw codes, names and industries.

    No invented word is used twice, so a word of a name belongs to one asset or industry only.
    """
    codes = []
    for pattern, numbers, count in _LISTINGS:
        codes += [pattern.format(number) for number in rng.choice(np.array(numbers), size=count, replace=False)]
    codes.sort()
    vocabulary = [onset + ending for onset in _ONSETS for ending in _ENDINGS]
    words = iter([vocabulary[place] for place in rng.permutation(len(vocabulary))])
    industry_names = tuple(f"{next(words)} {trade}" for trade in _TRADES)
    names = tuple(f"{next(words)} {next(words)} {number}" for number in rng.integers(11, 100, size=len(codes)))
    # Industries differ in size, none is empty: a uniform share first, the rest by drawn weights.
    weights = rng.dirichlet(np.full(len(_TRADES), 2.0))
    least = np.arange(len(codes)) % len(_TRADES)
    drawn = rng.choice(len(_TRADES), size=len(codes), p=weights)
    industry = rng.permutation(np.where(np.arange(len(codes)) < 4 * len(_TRADES), least, drawn))
    return Listings(tuple(codes), names, tuple(board_of(code) for code in codes), industry, industry_names)
