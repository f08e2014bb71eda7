"""Boards of ranks: a ladder of dollars by rank, bought and sold at closes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from ktdeval.attribution import Fit
from ktdeval.errors import DataError
from ktdeval.market import Venue, find_venue, sessions
from ktdeval.stats import rank_among
from ktdeval.values import derive_seed
from ktdeval_published.board_parts import Rivals, add_luck, luck_of, with_ranks
from ktdeval_published.clone import Clone
from ktdeval_published.cost_ladder import ladder_of_gains
from ktdeval_published.cutoffs import cutoff_days
from ktdeval_published.estimates import GainPath, sharpe_of, track_of
from ktdeval_published.forms.rank_files import RankDay, iso_day, read_rank_days
from ktdeval_published.prices import Array, BoardBars, read_bars
from ktdeval_published.publication import FirstCommits, Status, close_of
from ktdeval_published.recipe import BoardRecipe, Ladder
from ktdeval_published.report import (
    Cause,
    CostLadder,
    EntrantReport,
    IntervalEstimate,
    Live,
)
from ktdeval_published.selection import fit_styles, selection_gains, selection_of

DRAWS = 999


@dataclass(frozen=True, eq=False)
class RanksMarket:
    """Prices of a board of ranks, with and without the repairs."""

    venue: Venue
    raw: BoardBars  #: as in the files
    repaired: BoardBars  #: with the splits of the recipe
    ranks: Mapping[str, list[RankDay]]  #: by entrant, with the days of entry and exit
    undated: int  #: files that state no entry or exit
    fit: Fit | None = None  #: styles of the prices; None without the history that they need


@dataclass(frozen=True, eq=False)
class LadderRun:
    """Ladder of one entrant over its days with an entry and an exit."""

    ranks: tuple[RankDay, ...]  #: [T]
    weights: Array  #: [T, N] dollars at the entry
    returns: Array  #: [T, N] from entry to exit; 0 without an exit price
    held: npt.NDArray[np.bool_]  #: [T, N] whether a name is on the ladder

    @property
    def gains(self) -> Array:
        """Gain of each day. Shape: [T]."""
        return np.asarray((self.weights * self.returns).sum(axis=1))

    @property
    def gross(self) -> float:
        """Mean of the sums of long and short dollars."""
        return float(np.abs(self.weights).sum(axis=1).mean())


def open_ranks_market(recipe: BoardRecipe, clone: Clone) -> RanksMarket:
    """Read the prices of a board of ranks."""
    assert recipe.market is not None, "the recipe was checked"
    raw = read_bars(clone, recipe.market.prices)
    venue = find_venue(recipe.market.venue)
    ranks = read_rank_days(recipe, clone)
    undated = sum(not (one.entry and one.exit) for days in ranks.values() for one in days)
    dated = {name: [dated_rank(one, raw, venue) for one in days] for name, days in ranks.items()}
    repaired = raw.with_splits(recipe.market.splits)
    first = min((one.exit for days in dated.values() for one in days if one.exit), default=None)
    fit = None if first is None else fit_styles(repaired, venue, np.datetime64(first))
    return RanksMarket(venue, raw, repaired, dated, undated, fit)


def dated_rank(one: RankDay, bars: BoardBars, venue: Venue) -> RankDay:
    """Return a rank with its days of entry and exit: as stated, else the next two days. The exit is
    missing if the prices end before it.
    """
    entry = one.entry or _next_day(one.day, bars, venue)
    exit_ = one.exit or _next_day(entry, bars, venue)
    if np.datetime64(exit_) not in bars.day_rows:
        return replace(one, entry=entry, exit=None)
    return replace(one, entry=entry, exit=exit_)


def _next_day(day: str, bars: BoardBars, venue: Venue) -> str:
    """Return the next day of the prices, or after their end the venue's next session."""
    later = bars.days[bars.days > np.datetime64(day)]
    if len(later):
        return str(later[0])
    start = np.datetime64(day)
    following = sessions(str(start + 1), str(start + 10), venue.calendar)
    return str(following[0])[:10]


def ladder_columns(symbols: Sequence[str], bars: BoardBars, row: int) -> list[int]:
    """Return the columns of the ranked names with a close at the entry, best first."""
    columns = [bars.column[symbol] for symbol in symbols if symbol in bars.column]
    return [column for column in columns if bars.close[row, column] > 0]


def run_ladder(
    ranks: Sequence[RankDay], bars: BoardBars, ladder: Ladder, zero_is_price: bool = False
) -> LadderRun:
    """Execute the ladders of an entrant. A name without a close at the exit is valued at its entry;
    with `zero_is_price`, as lost, which is how a table of zeros reads literally.
    """
    done = [one for one in ranks if one.entry and one.exit]
    shape = (len(done), len(bars.symbols))
    weights = np.zeros(shape)
    held = np.zeros(shape, dtype=bool)
    returns = np.zeros(shape)
    for place, one in enumerate(done):
        entry, exit_ = (_row(bars, day, one.path) for day in (one.entry, one.exit))
        columns = ladder_columns(one.symbols, bars, entry)
        weights[place, columns] = np.linspace(ladder.top, ladder.bottom, len(columns))
        held[place, columns] = True
        ratio = bars.close[exit_] / bars.close[entry] - 1
        missing = -1.0 if zero_is_price else 0.0
        known = bars.close[entry] > 0
        returns[place] = np.where(known, np.where(np.isnan(ratio), missing, ratio), 0.0)
    return LadderRun(tuple(done), weights, returns, held)


def _row(bars: BoardBars, day: str | None, where: str) -> int:
    found = bars.day_rows.get(np.datetime64(day))
    if found is None:
        raise DataError(f"{where}: the prices have no day {day}")
    return found[0]


def path_of(run: LadderRun) -> GainPath:
    """Return the daily gains of a ladder, dated by exit."""
    days = np.array([one.exit for one in run.ranks], dtype="datetime64[D]")
    return GainPath(days, run.gains, None, run.gross or 1.0)


def changed_ladder(run: LadderRun) -> Array:
    """Return the dollars traded each day if the ladder of a day is changed into the next one. The
    first opens from cash, the last is closed. Shape: [T + 1].
    """
    nothing = np.zeros(run.weights.shape[1])
    traded = []
    held = nothing
    held_until = None
    for place, one in enumerate(run.ranks):
        if held_until is not None and held_until != one.entry:
            traded.append(float(np.abs(held).sum()))  # no ladder starts where this one ends
            held = nothing
        traded.append(float(np.abs(run.weights[place] - held).sum()))
        held = run.weights[place] * (1 + run.returns[place])
        held_until = one.exit
    traded.append(float(np.abs(held).sum()))
    return np.array(traded)


def closed_ladder(run: LadderRun) -> Array:
    """Return the dollars traded each day if every ladder is opened from cash and closed."""
    opened = np.abs(run.weights).sum(axis=1)
    closed = np.abs(run.weights * (1 + run.returns)).sum(axis=1)
    return np.asarray(opened + closed)


def random_ladders(run: LadderRun, name: str) -> Array:
    """Return the total gains of ladders whose names are swapped at random, once for all days, so
    that their turnover by rank is the same. Shape: [draws].
    """
    names = np.flatnonzero(run.held.all(axis=0))
    generator = np.random.default_rng(derive_seed(name, "random names"))
    fixed = np.delete(np.arange(run.weights.shape[1]), names)
    base = float((run.weights[:, fixed] * run.returns[:, fixed]).sum())
    products = run.weights[:, names].T @ run.returns[:, names]  # [names, names]
    places = np.arange(len(names))
    return np.array(
        [base + float(products[places, generator.permutation(places)].sum()) for _ in range(DRAWS)]
    )


def read_stated(recipe: BoardRecipe, clone: Clone, names: Sequence[str]) -> Mapping[str, Array]:
    """Return the daily gains that the board states, by entrant."""
    stated = recipe.stated
    if stated is None or not stated.daily:
        return {}
    found = {}
    column = stated.daily_columns.get("gain", "gain")
    for name in names:
        inside = stated.daily.replace("{entrant}", name)
        table = pd.read_csv(io.BytesIO(clone.read(inside)), dtype=str)
        if column not in table:
            raise DataError(f"{clone.root / inside}: has no column {column!r}")
        found[name] = pd.to_numeric(table[column]).to_numpy(float)
    return found


def read_stated_days(recipe: BoardRecipe, clone: Clone, name: str) -> list[str]:
    """Return the exit days of the stated gains of an entrant."""
    assert recipe.stated is not None, "stated gains were read"
    inside = recipe.stated.daily.replace("{entrant}", name)
    table = pd.read_csv(io.BytesIO(clone.read(inside)), dtype=str)
    column = recipe.stated.daily_columns.get("day", "exit_date")
    if column not in table:
        raise DataError(f"{clone.root / inside}: has no column {column!r}")
    return [iso_day(day, inside) for day in table[column]]


def ranks_entrants(
    recipe: BoardRecipe, clone: Clone, market: RanksMarket, publication: FirstCommits
) -> list[EntrantReport]:
    """Return the reports of all entrants."""
    assert recipe.ladder is not None, "the recipe was checked"
    ranks = market.ranks
    stated = read_stated(recipe, clone, list(ranks))
    reports, rivals = [], []
    for name, days in ranks.items():
        raw = run_ladder(days, market.raw, recipe.ladder)
        run = run_ladder(days, market.repaired, recipe.ladder)
        path = path_of(run)
        values = random_ladders(run, f"{recipe.name} {name}")
        random_rank, random_p = rank_among(float(run.gains.sum()), values)
        rivals.append(Rivals(path, np.zeros(len(path.gains)), None, random_p, random_rank))
        declared = stated.get(name)
        declared_path = None
        if declared is not None:
            exits = np.array(read_stated_days(recipe, clone, name), dtype="datetime64[D]")
            declared_path = GainPath(exits, declared, None, run.gross)
        reports.append(
            _report(recipe, market, (name, days), (raw, run), declared_path, publication)
        )

    return with_ranks(add_luck(reports, luck_of(rivals)))


def _report(
    recipe: BoardRecipe,
    market: RanksMarket,
    named: tuple[str, Sequence[RankDay]],
    runs: tuple[LadderRun, LadderRun],
    declared: GainPath | None,
    publication: FirstCommits,
) -> EntrantReport:
    name, days = named
    raw, run = runs
    a_year = recipe.days_a_year
    path = path_of(run)
    gain = float(run.gains.sum())
    costs: tuple[CostLadder, ...] = (
        ladder_of_gains("ladder changed each day", gain, changed_ladder(run)),
        ladder_of_gains("ladder closed and opened each day", gain, closed_ladder(run)),
        ladder_of_gains(
            "ladder changed each day, data unrepaired", float(raw.gains.sum()), changed_ladder(raw)
        ),
    )
    residual = None
    if declared is not None:
        residual = float(raw.gains.sum() - declared.gains.sum())
    return EntrantReport(
        name=name,
        pair=name,
        declared=None if declared is None else track_of(declared, a_year),
        executed=track_of(path, a_year),
        unrepaired=track_of(path_of(raw), a_year),
        causes=(Cause(name="split", amount=gain - float(raw.gains.sum())),),
        residual=residual,
        live=_live(recipe, market, days, path, publication),
        costs=costs,
        selection=_selection(run, market),
        capacity=_capacity(run, market.repaired),
        cutoff=cutoff_days(recipe.entrants.models.get(name, name), path.days),
        counts={"ranked days": len(days), "days with a gain": len(run.ranks)},
    )


def _live(
    recipe: BoardRecipe,
    market: RanksMarket,
    days: Sequence[RankDay],
    path: GainPath,
    publication: FirstCommits,
) -> Live:
    statuses: list[Status] = [
        publication.status(one.path, close_of(str(one.entry), market.venue)) for one in days
    ]
    with_gain = np.array([bool(one.entry and one.exit) for one in days])
    named = np.array(statuses)
    return Live(
        before=statuses.count("before"),
        after=statuses.count("after"),
        unknown=statuses.count("unknown"),
        sharpe_before=sharpe_of(path.where(named[with_gain] == "before"), recipe.days_a_year),
        sharpe_after=sharpe_of(path.where(named[with_gain] == "after"), recipe.days_a_year),
    )


def _selection(run: LadderRun, market: RanksMarket) -> IntervalEstimate | None:
    """Return the selection of a ladder whose positions last one day each; None otherwise."""
    if market.fit is None:
        return None
    bars = market.repaired
    steps = [_row(bars, one.exit, one.path) - _row(bars, one.entry, one.path) for one in run.ranks]
    if any(step != 1 for step in steps):
        return None
    exits = np.array([one.exit for one in run.ranks], dtype="datetime64[D]")
    return selection_of(selection_gains(run.weights, exits, market.fit, bars.symbols))


def _capacity(run: LadderRun, bars: BoardBars) -> float | None:
    """Return the gross size at which 95 % of the positions are at most 1 % of the day's volume."""
    shares = []
    for place, one in enumerate(run.ranks):
        row = _row(bars, one.entry, one.path)
        worth = bars.volume[row] * bars.close[row]
        known = (worth > 0) & (run.weights[place] != 0)
        shares.append(np.abs(run.weights[place][known]) / worth[known])
    if not shares:
        return None
    return float(run.gross * 0.01 / np.quantile(np.concatenate(shares), 0.95))


def commits_path(folder: Path, archive: str) -> Path | None:
    """Return the table of commits beside an archive, if it is there."""
    path = folder / f"{archive}-commits.csv.gz"
    return path if path.is_file() else None
