"""Generate placebo markets, which equal a source market in everything that attribution explains and
are unpredictable in the rest.

Each day's returns are split into a common part, a style part and a residual. The placebo has the
same common and style returns on each day, but they act on exposures computed from the placebo's own
history, and the residuals have random signs. See docs/synthetic-market.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ktdeval.attribution import Fit, factor_values, fit_factors
from ktdeval.errors import ConfigError, DataError
from ktdeval.market import (
    DAILY_LIMIT_PCT,
    NO_MARKET,
    Board,
    BoolArray,
    FloatArray,
    MarketSnapshot,
    Quotes,
    load_snapshot,
    with_id,
)
from ktdeval.values import JsonValue, derive_seed, dumps_canonical, near_matches, stored_market
from ktdeval_data.params import (
    DEFAULT_BLOCK_DAYS,
    PLACEBO_VERSION,
    Kind,
    PlaceboParams,
    SyntheticParams,
)
from ktdeval_data.synthetic import GrowingMarket, make_synthetic

IndexArray = npt.NDArray[np.intp]

SYNTHETIC = "synthetic"
#: days over which mean turnover gives a name's weight in the daily regression, as in attribution
AMOUNT_DAYS = 20
_PRICES = ("open", "high", "low", "close")
_REBUILT = (*_PRICES, "amount")
#: tick in CNY for prices that were supplied adjusted and so are not in whole fen
_TICK_WITHOUT_FACTOR = 0.0001
FEN = 0.01
CLOSE, OPEN = 0, 1
"""Indices of a bar's two returns: from the previous close to the close, and to the open."""


def make_with_files(params: PlaceboParams) -> tuple[MarketSnapshot, Mapping[str, bytes]]:
    """Return a placebo, without an id, and `placebo.json` to store next to it.

    The file states the source and how the placebo was drawn. It states `alpha: 0` if, by
    construction, no selection can earn anything. Raises DataError if the source is not a stored
    snapshot or is too short; ConfigError if a block length is given for a kind without blocks.
    """
    default = DEFAULT_BLOCK_DAYS[params.kind]
    if default is None and params.block_days is not None:
        raise ConfigError(f"placebo: kind {params.kind} has no blocks; leave block_days out")

    recipe = PlaceboRecipe(params.kind, params.seed, params.block_days or default or 1)
    source = open_source(params.of)
    alpha: int | None = 0
    if recipe.kind == "sign_flip" and recipe.block_days > 1:
        # Days that share a sign keep their common component, whose value is unknown.
        alpha = None

    facts: dict[str, JsonValue] = {
        "placebo_of": source.id,
        "name": source.meta.name,
        **asdict(recipe),
        "block_days": recipe.block_days if default else None,
        "version": PLACEBO_VERSION,
        "alpha": alpha,
    }
    content = dumps_canonical(facts) + "\n"

    return placebo_of(source, recipe), {"placebo.json": content.encode()}


def open_source(of: str) -> MarketSnapshot:
    """Return the source market, with its id. Raises DataError if `of` is neither the embedded
    market nor a stored snapshot.
    """
    if of == SYNTHETIC:
        return with_id(make_synthetic(SyntheticParams()))

    stored = stored_market(of)
    if stored is None:
        hint = near_matches(of, [SYNTHETIC]) or "; `ktdeval data make` makes one"
        raise DataError(
            f"placebo: of={of!r} is neither {SYNTHETIC!r} nor the folder of a stored snapshot{hint}"
        )

    return load_snapshot(stored)


def placebo_of(source: MarketSnapshot, recipe: PlaceboRecipe) -> MarketSnapshot:
    """Return the placebo of a market, without an id.

    Calendar, codes, names, industries, membership, suspensions, volumes, adjustment factors and
    index levels are copied from the source; prices and amounts are generated. Bars without a
    previous close (on the first day, or of a new listing) are also copied. Raises DataError if the
    market has fewer than two days.
    """
    if len(source.days) < 2:
        raise DataError(
            f"placebo of {source.meta.name}: it has fewer than two trading days; choose a longer"
            " market"
        )

    parts = take_apart(source)
    # The first day on which every style has a value for some asset, or the number of days if no
    # day has one.
    is_styled = (parts.fit.exposures.design[:, 1:] != 0.0).any(axis=2).all(axis=1)
    styled = len(is_styled)
    if is_styled.any():
        styled = int(is_styled.argmax())

    draws = draw(recipe, parts.fit.has_return, source.boards, styled)
    grids = _Rebuilder(source, parts, draws).run().grids

    block = ""
    if DEFAULT_BLOCK_DAYS[recipe.kind] is not None:
        block = f", block days {recipe.block_days}"

    meta = dataclasses.replace(
        source.meta,
        name=f"{source.meta.name}-placebo-{recipe.kind}-{recipe.seed}",
        source=(
            f"placebo of snapshot {source.id or source.meta.name}: {recipe.kind}, seed"
            f" {recipe.seed}{block}, version {PLACEBO_VERSION}; {source.meta.source}"
        ),
        placebo=True,
    )
    rebuilt: dict[str, Any] = {name: grids[name] for name in _REBUILT}

    # Quotes are as far from the close as in the source, so that spreads are the same, as volumes
    # are.
    moved = rebuilt["close"] / source.close
    quotes = {name: grid * moved for name, grid in source.quotes.arrays.items()}

    # The source's documents and intraday bars contradict the placebo's prices.
    return dataclasses.replace(
        source,
        meta=meta,
        documents=NO_MARKET.documents,
        minutes=NO_MARKET.minutes,
        quotes=Quotes(**quotes),
        id="",
        **rebuilt,
    )


class _Rebuilder:
    """Day loop that computes exposures from the placebo's own history, then returns, then bars."""

    def __init__(self, source: MarketSnapshot, parts: BarParts, draws: ResidualDraws) -> None:
        self.source = source
        self.parts = parts
        self.tick = FEN if source.meta.has_factor else _TICK_WITHOUT_FACTOR
        drawn = (draws.day, draws.asset)
        self.residuals = np.stack([series[drawn] * draws.sign for series in parts.residuals])

        # A reversed sign turns a bar upside down: its upward reach becomes its downward reach.
        upright = draws.sign > 0
        up = parts.reach_up[drawn]
        down = parts.reach_down[drawn]
        self.reach_up = np.where(upright, up, down)
        self.reach_down = np.where(upright, down, up)

        self.market = GrowingMarket(source.days, len(source.codes))
        self.market.grids["factor"] = source.factor
        self.market.grids["volume"] = source.volume
        self.last = np.full(len(source.codes), np.nan)  # adjusted close of the latest bar

    def run(self) -> GrowingMarket:
        """Rebuild all days."""
        self._record(0, self._bars_of_source(0))
        for row in range(1, len(self.source.days)):
            placebo = self._bars(row)
            original = self._bars_of_source(row)
            has_return = self.parts.fit.has_return[row - 1]
            bars = {}
            for name, values in original.items():
                bars[name] = np.where(has_return, placebo[name], values)
            self._record(row, bars)

        return self.market

    def _bars_of_source(self, row: int) -> dict[str, FloatArray]:
        return {name: getattr(self.source, name)[row] for name in _REBUILT}

    def _record(self, row: int, bars: Mapping[str, FloatArray]) -> None:
        grids = self.market.grids
        for name, values in bars.items():
            grids[name][row] = values

        for name in ("open", "close"):
            grids[f"adjusted_{name}"][row] = grids[name][row] * self.source.factor[row]

        traded = np.isfinite(bars["close"])
        self.last[traded] = grids["adjusted_close"][row, traded]
        self.market.day = row

    def _bars(self, row: int) -> dict[str, FloatArray]:
        """Return open, high, low, close and amount on one day. They are meaningful only for assets
        with a return in the source.
        """
        day = row - 1
        design = self._design(row)
        expected = self.parts.coefficients[:, day] @ design

        # Residuals are projected off the columns, so that the day's regression reproduces the
        # source's factor returns. The residuals' mean is still zero, since the columns are known
        # the day before.
        residuals = self.residuals[:, day]
        explained = regress(design, self._weights(row, design), residuals) @ design
        residuals = residuals - explained

        # The residual is clipped symmetrically. If the whole return were clipped at the limit, the
        # residual would have a non-zero mean.
        room = np.maximum(self.parts.bound[day] - np.abs(expected), 0.0)
        returns = expected + np.clip(residuals, -room, room)

        # Prices are in ticks, and within the day's limits.
        reference = self.last / self.source.factor[row] / self.tick
        lowest = np.maximum(np.ceil(reference * (1.0 - self.parts.bound[day]) - 1e-6), 1.0)
        highest = np.maximum(np.floor(reference * (1.0 + self.parts.bound[day]) + 1e-6), lowest)
        close = np.clip(np.rint(reference * (1.0 + returns[CLOSE])), lowest, highest)
        first = np.clip(np.rint(reference * (1.0 + returns[OPEN])), lowest, highest)
        above = np.maximum(first, close)
        below = np.minimum(first, close)
        high = np.maximum(np.minimum(np.rint(above * (1.0 + self.reach_up[day])), highest), above)
        low = np.minimum(np.maximum(np.rint(below * (1.0 - self.reach_down[day])), lowest), below)
        bars = {"open": first, "high": high, "low": low, "close": close}
        per_cny = round(1.0 / self.tick)
        prices = {name: ticks / per_cny for name, ticks in bars.items()}

        return {**prices, "amount": self._amounts(row, prices)}

    def _design(self, row: int) -> FloatArray:
        """Return a row of ones and the exposures from the placebo's own history, [P, N]; an
        undefined exposure is 0.
        """
        exposures = factor_values(self.market.history()).standardise_over(
            self.source.member[row - 1]
        )
        defined = np.where(np.isfinite(exposures), exposures, 0.0)
        return np.vstack([np.ones(exposures.shape[1]), defined])

    def _weights(self, row: int, design: FloatArray) -> FloatArray:
        """Return regression weights, [N]: the square root of the mean amount on earlier days, and 0
        for names that are not in the regression.

        A name without amounts gets the members' median weight.
        """
        source = self.source
        defined = design[1:].any(axis=0)
        takes_part = (
            source.member[row - 1]
            & np.isfinite(source.close[row - 1])
            & np.isfinite(source.close[row])
        )
        takes_part &= defined | ~defined.any()
        amount = self.market.grids["amount"][max(0, row - AMOUNT_DAYS) : row]
        traded = amount > 0
        count = traded.sum(axis=0)
        weights = np.sqrt(np.where(traded, amount, 0.0).sum(axis=0) / np.maximum(count, 1))
        weighed = source.member[row - 1] & (count > 0)
        if not weighed.any():
            return np.where(takes_part, 1.0, 0.0)

        weights = np.where(count > 0, weights, np.median(weights[weighed]))
        return np.where(takes_part, weights, 0.0)

    def _amounts(self, row: int, bars: Mapping[str, FloatArray]) -> FloatArray:
        """Return the source's amounts scaled by the ratio of the bars' mean prices, [N] CNY.

        If the source's mean price (amount / volume) lies inside its bar, the placebo's does, too.
        """
        source = self.source
        volume = self.source.volume[row]
        own = {name: getattr(source, name)[row] for name in _PRICES}
        own_amount = source.amount[row]
        price_sum = sum(bars[name] for name in _PRICES)
        own_price_sum = sum(own[name] for name in _PRICES)
        amount = own_amount * price_sum / own_price_sum

        inside = (own_amount >= own["low"] * volume) & (own_amount <= own["high"] * volume)
        inside_bar = np.clip(amount, bars["low"] * volume, bars["high"] * volume)
        rounded: FloatArray = np.round(np.where(inside, inside_bar, amount), 2)

        return rounded


# ---- daily decomposition of a market's bars into the part that attribution explains and the rest


@dataclasses.dataclass(frozen=True)
class BarParts:
    """Explained and unexplained parts of a market's bars.

    There are D = T - 1 days of N assets (day d is row d + 1 of the snapshot) and P = 1 + 9
    explanatory columns. `reach_up, reach_down`: [D, N] how far high and low lie beyond open and
    close, as fractions of open and close.
    """

    fit: Fit  # regressions of close-to-close returns on an intercept and nine styles
    # [2, D, P] common and style returns per unit of exposure, to the close and to the open
    coefficients: FloatArray
    residuals: FloatArray  # [2, D, N] residuals of each asset's two returns; 0 if undefined
    reach_up: FloatArray
    reach_down: FloatArray
    #: [D, N] maximum distance of a price from its reference, as a fraction: the board's limit or,
    #: on a day without one (such as a new listing's first), the maximum distance in the source's
    #: bar
    bound: FloatArray


def take_apart(snapshot: MarketSnapshot) -> BarParts:
    """Explain every day's returns, to the close and to the open, by the market and the nine styles.

    Each day has its own regression, on exposures known the day before, so that no later data are
    used. `snapshot` has at least two days.
    """
    fit = fit_factors(snapshot, 1, len(snapshot.days) - 1, "paper")
    before = pd.DataFrame(snapshot.adjusted_close).ffill().to_numpy()[:-1]
    to_open = np.where(fit.has_return, snapshot.adjusted_open[1:] / before - 1.0, 0.0)
    to_open = np.where(np.isfinite(to_open), to_open, 0.0)
    opening = _coefficients(fit, to_open)
    design = fit.exposures.design
    explained_open = (opening[:, None, :] @ design)[:, 0, :]
    open_residuals = np.where(fit.has_return, to_open - explained_open, 0.0)

    closing = np.concatenate([fit.common[:, None], fit.style], axis=1)
    close_residuals = np.where(fit.has_return, fit.residuals, 0.0)
    above = np.maximum(snapshot.open[1:], snapshot.close[1:])
    below = np.minimum(snapshot.open[1:], snapshot.close[1:])

    return BarParts(
        fit=fit,
        coefficients=np.stack([closing, opening]),
        residuals=np.stack([close_residuals, open_residuals]),
        reach_up=_reach(snapshot.high[1:] / above - 1.0),
        reach_down=_reach(1.0 - snapshot.low[1:] / below),
        bound=_bounds(snapshot, before / snapshot.factor[1:]),
    )


def _coefficients(fit: Fit, values: FloatArray) -> FloatArray:
    """Return the coefficients of a weighted least squares regression of values [D, N] on a fit's
    columns with its weights, [D, P]. Days with few names are treated as in the fit.
    """
    design = fit.exposures.design
    weights = fit.weights
    coefficients = np.zeros(design.shape[:2])

    for day in range(len(design)):
        coefficients[day] = regress(design[day], weights[day], values[day][None, :])[0]

    return coefficients


def regress(design: FloatArray, weights: FloatArray, values: FloatArray) -> FloatArray:
    """Return the coefficients of one day's weighted least squares regression, [S, P].

    `design`: [P, N] columns, the first an intercept. `weights`: [N], 0 for assets that are not in
    the regression. `values`: [S, N] series, explained separately. If there are no more assets than
    columns, only the intercept is estimated; without assets all coefficients are 0.
    """
    used = np.flatnonzero(weights)
    coefficients = np.zeros((len(values), len(design)))
    if not len(used):
        return coefficients

    root = np.sqrt(weights[used])
    columns = (design[:, used] * root).T
    targets = (values[:, used] * root).T
    solution, _, rank, _ = np.linalg.lstsq(columns, targets, rcond=1e-9)

    if len(used) <= rank:
        coefficients[:, 0] = columns[:, 0] @ targets / (columns[:, 0] @ columns[:, 0])
    else:
        coefficients[:] = solution.T

    return coefficients


def _reach(fractions: FloatArray) -> FloatArray:
    return np.maximum(np.where(np.isfinite(fractions), fractions, 0.0), 0.0)


def _bounds(snapshot: MarketSnapshot, reference: FloatArray) -> FloatArray:
    limit = np.array([DAILY_LIMIT_PCT[board] for board in snapshot.boards]) / 100.0
    prices = np.stack([snapshot.open[1:], snapshot.high[1:], snapshot.low[1:], snapshot.close[1:]])
    reached = np.abs(prices / reference - 1.0)
    farthest = np.where(np.isfinite(reached), reached, 0.0).max(axis=0)

    # An exchange rounds a limit price to the nearest fen, so a fen beyond the limit is still at the
    # limit.
    return np.where(farthest > limit + FEN / reference, farthest, limit)


# ---- random draws: which residual each bar gets, and with which sign


@dataclass(frozen=True, slots=True)
class ResidualDraws:
    """Choice of the residual for each of D days and N assets. `day, asset`: [D, N] bar whose
    residual is used, from an asset on the same board if possible.
    """

    day: IndexArray
    asset: IndexArray
    sign: FloatArray  # [D, N] +1 or -1


@dataclass(frozen=True, slots=True)
class PlaceboRecipe:
    """Parameters of the random draws."""

    kind: Kind  # as in `PlaceboParams`
    seed: int  # seed of all streams
    block_days: int  # as in `PlaceboParams`, with defaults resolved; 1 for a kind without blocks

    def stream(self, purpose: str) -> np.random.Generator:
        """Return the random stream for one purpose."""
        return np.random.default_rng(derive_seed(self.seed, "placebo market", self.kind, purpose))


def draw(
    recipe: PlaceboRecipe, has_return: BoolArray, boards: tuple[Board, ...], styled: int
) -> ResidualDraws:
    """Draw the residuals of a placebo with [D, N] bars.

    For every kind, a residual is multiplied by a fair random sign that is independent of everything
    else. Its mean is therefore zero, given the whole source market and the placebo's whole past.
    The kinds differ in which properties of the residuals they preserve.

    `styled` is the first day on which all styles are defined. Earlier days are resampled among
    themselves, since their residuals contain what styles would explain. With `sign_flip` and
    `shuffle`, the draws for a day do not depend on the number of days that follow.
    """
    days, assets = has_return.shape
    own_day = np.broadcast_to(np.arange(days)[:, None], has_return.shape)
    own_asset = np.broadcast_to(np.arange(assets), has_return.shape)

    if recipe.kind == "sign_flip":
        blocks = -(-days // recipe.block_days)
        signs = _signs(recipe.stream("signs"), (blocks, assets))
        return ResidualDraws(own_day, own_asset, np.repeat(signs, recipe.block_days, axis=0)[:days])

    signs = np.broadcast_to(_signs(recipe.stream("signs"), (days, 1)), has_return.shape)
    members = []
    for board in dict.fromkeys(boards):
        is_member = [own is board for own in boards]
        members.append(np.flatnonzero(is_member))

    if recipe.kind == "shuffle":
        return ResidualDraws(
            own_day, _shuffle_assets(recipe.stream("order"), has_return, members), signs
        )

    drawn = _stationary_days(recipe, days, styled)
    asset = _choose_substitutes(
        recipe.stream("substitutes"), has_return, has_return[drawn], members
    )
    return ResidualDraws(np.broadcast_to(drawn[:, None], has_return.shape), asset, signs)


def _signs(rng: np.random.Generator, shape: tuple[int, int]) -> FloatArray:
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def _shuffle_assets(
    rng: np.random.Generator, has_return: BoolArray, members: list[IndexArray]
) -> IndexArray:
    """Permute the assets that have a bar, within each day and board, [D, N]."""
    keys = rng.random(has_return.shape)
    asset = np.tile(np.arange(has_return.shape[1]), (len(has_return), 1))
    for day, present in enumerate(has_return):
        for board in members:
            here = board[present[board]]
            asset[day, here] = here[np.argsort(keys[day, here])]

    return asset


def _stationary_days(recipe: PlaceboRecipe, days: int, styled: int) -> IndexArray:
    """Draw the days of a stationary bootstrap (Politis and Romano 1994), [D]. Days before `styled`
    and days from `styled` on are drawn separately.
    """
    rng = recipe.stream("days")
    starts = rng.random(days)
    begins = rng.random(days) < 1.0 / recipe.block_days
    drawn = np.empty(days, dtype=np.intp)

    middle = min(styled, days)
    for first, stop in ((0, middle), (middle, days)):
        for day in range(first, stop):
            if day == first or begins[day]:
                drawn[day] = first + int(starts[day] * (stop - first))
                continue

            following = drawn[day - 1] + 1
            drawn[day] = following if following < stop else first  # circular

    return drawn


def _choose_substitutes(
    rng: np.random.Generator,
    has_return: BoolArray,
    has_residual: BoolArray,
    members: list[IndexArray],
) -> IndexArray:
    """Return the asset whose residual each asset gets, [D, N].

    Normally this is the asset itself. If it has no residual on the drawn day, a random asset with a
    residual is used, from the same board if there is one, otherwise from any board.
    """
    asset = np.tile(np.arange(has_return.shape[1]), (len(has_return), 1))
    for day in np.flatnonzero((has_return & ~has_residual).any(axis=1)):
        everybody = np.flatnonzero(has_residual[day])
        for board in members:
            lacking = board[has_return[day, board] & ~has_residual[day, board]]
            if not len(lacking):
                continue

            pool = board[has_residual[day, board]]
            if not len(pool):
                pool = everybody
            if len(pool):
                asset[day, lacking] = rng.choice(pool, len(lacking))

    return asset
