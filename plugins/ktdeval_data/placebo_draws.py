"""Which residual each bar of a placebo market gets, and with which sign: all that chance decides.

Whatever the kind, a residual is multiplied by a fair sign that is drawn apart from everything else, so its mean is zero given the
whole source market and the whole past of the placebo. The kinds differ in what of the residuals they leave in place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ktdeval.market import Board, BoolArray, FloatArray
from ktdeval.seeds import derive_seed
from ktdeval_data.params import Kind

IndexArray = npt.NDArray[np.intp]


class Draws(NamedTuple):
    """For each of D days and N assets, whose residual it gets. `day, asset`: [D, N] where it is taken from, a bar of the same board
    wherever there is one.
    """

    day: IndexArray
    asset: IndexArray
    sign: FloatArray  # [D, N] +1 or -1


class Recipe(NamedTuple):
    """Recipe of the draws."""

    kind: Kind  # as in `PlaceboParams`
    seed: int  # of all streams
    block_days: int  # as in `PlaceboParams`, filled in; 1 where the kind has no blocks

    def stream(self, purpose: str) -> np.random.Generator:
        """Return the random stream of one purpose."""
        return np.random.default_rng(derive_seed(self.seed, "placebo market", self.kind, purpose))


def draw(recipe: Recipe, has_return: BoolArray, boards: tuple[Board, ...], styled: int) -> Draws:
    """Draw a placebo. `has_return`: [D, N] bars that have a residual. `styled`: first day on which all styles are defined; the days
    before are resampled among themselves, since their residuals hold what styles would explain. Returns the draws. Those of
    `sign_flip` and `shuffle` for a day don't depend on how many days follow it.
    """
    days, assets = has_return.shape
    own_day = np.broadcast_to(np.arange(days)[:, None], has_return.shape)
    own_asset = np.broadcast_to(np.arange(assets), has_return.shape)
    if recipe.kind == "sign_flip":
        blocks = -(-days // recipe.block_days)
        signs = _signs(recipe.stream("signs"), (blocks, assets))
        return Draws(own_day, own_asset, np.repeat(signs, recipe.block_days, axis=0)[:days])
    signs = np.broadcast_to(_signs(recipe.stream("signs"), (days, 1)), has_return.shape)
    members = [np.flatnonzero([own is board for own in boards]) for board in dict.fromkeys(boards)]
    if recipe.kind == "shuffle":
        return Draws(own_day, _shuffled(recipe.stream("order"), has_return, members), signs)
    drawn = _stationary_days(recipe, days, styled)
    asset = _substituted(recipe.stream("substitutes"), has_return, has_return[drawn], members)
    return Draws(np.broadcast_to(drawn[:, None], has_return.shape), asset, signs)


def _signs(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def _shuffled(rng: np.random.Generator, has_return: BoolArray, members: list[IndexArray]) -> IndexArray:
    """[D, N] a permutation of the assets with a bar, within each day and board."""
    keys = rng.random(has_return.shape)
    asset = np.tile(np.arange(has_return.shape[1]), (len(has_return), 1))
    for day, present in enumerate(has_return):
        for board in members:
            here = board[present[board]]
            asset[day, here] = here[np.argsort(keys[day, here])]
    return asset


def _stationary_days(recipe: Recipe, days: int, styled: int) -> IndexArray:
    """[D] days of a stationary bootstrap (Politis and Romano 1994), those before and from `styled` on each by themselves."""
    rng = recipe.stream("days")
    starts, begins = rng.random(days), rng.random(days) < 1.0 / recipe.block_days
    drawn = np.empty(days, dtype=np.intp)
    for first, stop in ((0, min(styled, days)), (min(styled, days), days)):
        for day in range(first, stop):
            if day == first or begins[day]:
                drawn[day] = first + int(starts[day] * (stop - first))
            else:
                drawn[day] = drawn[day - 1] + 1 if drawn[day - 1] + 1 < stop else first
    return drawn


def _substituted(rng: np.random.Generator, wanted: BoolArray, there: BoolArray, members: list[IndexArray]) -> IndexArray:
    """[D, N] each asset itself, but where it has no residual on the drawn day one of its board that has (or, at need, of any)."""
    asset = np.tile(np.arange(wanted.shape[1]), (len(wanted), 1))
    for day in np.flatnonzero((wanted & ~there).any(axis=1)):
        everybody = np.flatnonzero(there[day])
        for board in members:
            lacking = board[wanted[day, board] & ~there[day, board]]
            if len(lacking):
                pool = board[there[day, board]]
                pool = pool if len(pool) else everybody
                asset[day, lacking] = rng.choice(pool, len(lacking)) if len(pool) else lacking
    return asset
