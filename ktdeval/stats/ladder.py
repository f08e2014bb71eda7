"""The information ladder: what each piece of information adds to a result, averaged over the orders in which it can be given.

The Shapley value (Shapley 1953; as a decomposition, Shorrocks 2013), with precedence where a piece can't come before another
(Faigle and Kern 1992): tools work on market data, so an order that has tools first does not exist. Contributions add up to the
whole difference, exactly but for rounding.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

MODE_PIECES: Mapping[str, frozenset[str]] = {
    "memory_only": frozenset(),
    "fixed_candidate": frozenset({"data"}),
    "open_research": frozenset({"data", "tools"}),
}
"""Mode -> pieces of information that it gives beyond the account and the handles."""

MODE_PRECEDENCE: Mapping[str, frozenset[str]] = {"tools": frozenset({"data"})}
"""Piece -> pieces that must be there before it."""


def orders(pieces: Collection[str], precedence: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, ...]]:
    """Every order of the pieces in which nothing comes before what it needs."""
    names = sorted(pieces)
    for order in itertools.permutations(names):
        places = {name: place for place, name in enumerate(order)}
        if all(places[need] < places[name] for name in names for need in precedence.get(name, frozenset()) if need in places):
            yield order


def order_averaged(
    values: Mapping[frozenset[str], Values], precedence: Mapping[str, frozenset[str]] = MODE_PRECEDENCE
) -> dict[str, Values]:
    """Order-averaged marginal contribution of each piece of information.

    Args:
        values: set of pieces given -> results, all of one shape; one entry for the set that all others contain, one for the set
            that contains all others, and one for every set between that an order can pass.
        precedence: piece -> pieces that it needs.

    Returns:
        Piece -> contributions of that shape; they add up to `values[full] - values[empty]`.

    Raises:
        ValueError: a set that an order passes has no results.
    """
    bottom = frozenset.intersection(*values)
    pieces = frozenset.union(*values) - bottom
    ways = list(orders(pieces, precedence))
    shape = next(iter(values.values())).shape
    totals = {piece: np.zeros(shape) for piece in sorted(pieces)}
    for order in ways:
        given = bottom
        for piece in order:
            richer = given | {piece}
            if given not in values or richer not in values:
                missing = sorted(richer if given in values else given)
                raise ValueError(f"no results with {', '.join(missing) or 'nothing'} given")
            totals[piece] += values[richer] - values[given]
            given = richer
    return {piece: total / len(ways) for piece, total in totals.items()}
