"""Boards of position rows: each entrant's account as declared, and executed again."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ktdeval.attribution import (
    AccountFill,
    AccountGap,
    AccountPath,
    GapCause,
    account_gap,
)
from ktdeval.errors import DataError, KtdevalError
from ktdeval.market import Venue, find_venue
from ktdeval.stats import rank_among
from ktdeval.values import cores
from ktdeval_published.board_parts import Rivals, add_luck, luck_of, with_ranks
from ktdeval_published.clone import Clone
from ktdeval_published.cost_ladder import ladder_of_gains
from ktdeval_published.cutoffs import cutoff_days
from ktdeval_published.entrants import BoardEntrant, find_entrants
from ktdeval_published.estimates import GainPath, path_of_nav, sharpe_of, track_of
from ktdeval_published.fills import breaches_of, infer_fills
from ktdeval_published.forms.position_rows import DeclaredAccount, read_account
from ktdeval_published.logs import ReadLogs, read_logs
from ktdeval_published.prices import Array, BoardBars, Stamps, read_bars
from ktdeval_published.publication import Status
from ktdeval_published.random_names import random_final_values
from ktdeval_published.recipe import BoardMarket, BoardRecipe
from ktdeval_published.replay import (
    Replay,
    ReplayTerms,
    day_ends,
    declared_nav,
    execute,
    honest_gap,
    nav_of,
    terms_of,
    traded_days,
)
from ktdeval_published.report import AccountTrack, Cause, CostLadder, EntrantReport, Fills, Live

_CAUSES: dict[GapCause, str] = {
    "price_and_moment": "price and moment of the fills",
    "lots_and_limits": "rules of the venue",
    "fees": "costs of the venue",
    "rows_left_out": "rows without a later price",
}


@dataclass(frozen=True, eq=False)
class PositionsMarket:
    """Market of a board of position rows."""

    recipe: BoardRecipe
    market: BoardMarket
    venue: Venue
    bars: BoardBars
    daily: BoardBars | None  #: daily bars of the same market
    index: BoardBars | None
    prices_folder: Path | None


@dataclass(frozen=True, eq=False)
class ReadEntrant:
    """Entrant with its account; without one, the reason."""

    entrant: BoardEntrant
    account: DeclaredAccount | None
    problem: str = ""


def open_market(recipe: BoardRecipe, clone: Clone, prices: Path | None) -> PositionsMarket:
    """Read the prices of a board. `prices`: folder of further price tables, if any."""
    market = recipe.market
    assert market is not None, "the recipe was checked"
    daily = None
    if market.daily is not None and prices is not None and (prices / market.daily.path).is_file():
        daily = read_bars(Clone(prices, "unverified", ""), market.daily)

    index = None
    if market.index is not None:
        index = read_bars(clone, market.index.prices)
        further = market.index.further
        if further is not None and prices is not None and (prices / further.path).is_file():
            index = read_bars(Clone(prices, "unverified", ""), further)
    bars = read_bars(clone, market.prices).with_splits(market.splits)
    return PositionsMarket(recipe, market, find_venue(market.venue), bars, daily, index, prices)


def read_entrants(recipe: BoardRecipe, clone: Clone, bars: BoardBars) -> list[ReadEntrant]:
    """Read all accounts. An account that can't be read keeps its reason."""
    found = []
    for entrant in find_entrants(recipe, clone):
        try:
            account = read_account(
                clone.read(entrant.path), Path(entrant.path), recipe.account.cash_key
            )
            _check_symbols(account, bars, entrant.path)
            if not len(traded_days(account, bars)):
                raise DataError(f"{entrant.path}: none of its days has prices")
            found.append(ReadEntrant(entrant, account))
        except KtdevalError as error:
            found.append(ReadEntrant(entrant, None, error.line))
    return found


def _check_symbols(account: DeclaredAccount, bars: BoardBars, where: str) -> None:
    held = {symbol for state in account.states for symbol in state.positions}
    without = sorted(held - set(bars.symbols))
    if without:
        raise DataError(f"{where}: holds {without[0]}, for which the board has no prices")


def positions_entrants(
    of: PositionsMarket, read: list[ReadEntrant], logs: dict[str, ReadLogs]
) -> list[EntrantReport]:
    """Return the reports of all entrants, with ranks and tests over all of them."""
    reports = []
    rivals: list[Rivals | None] = []
    for one in read:
        entrant = one.entrant
        if one.account is None:
            rivals.append(None)
            reports.append(
                EntrantReport(
                    name=entrant.name, arm=entrant.arm, pair=entrant.pair, problem=one.problem
                )
            )
            continue

        run = _execute_all(one.account, of)
        rivals.append(_rivals(of, run, entrant))
        reports.append(_report(of, entrant, run, logs.get(entrant.logs)))

    return with_ranks(add_luck(reports, luck_of(rivals)))


@dataclass(frozen=True, eq=False)
class _Run:
    """Executions of one account, each with one rule more than the one before."""

    account: DeclaredAccount
    days: Stamps
    declared: Array  #: value by day, by the file's own cash
    by_rules: Array  #: at the first price after each decision, under the rules on quantities
    executed: Array  #: and with the venue's costs
    rows: Replay  #: its orders at its own prices
    rules: Replay
    full: Replay
    terms: ReplayTerms

    @property
    def capital(self) -> float:
        return self.account.states[0].cash

    def path(self, nav: Array) -> GainPath:
        return path_of_nav(self.days, nav, self.capital)


def _execute_all(account: DeclaredAccount, of: PositionsMarket) -> _Run:
    bars = of.bars
    days = traded_days(account, bars)
    held = account.states[0].positions
    terms = terms_of(of.venue, of.market.stamp, of.market.star_lot)
    rules = execute(account, bars, terms)
    full = execute(account, bars, replace(terms, fees=of.venue.fees))
    return _Run(
        account=account,
        days=days,
        declared=declared_nav(account, bars, days),
        by_rules=nav_of(rules, bars, days, held),
        executed=nav_of(full, bars, days, held),
        rows=execute(account, bars, ReplayTerms("declared")),
        rules=rules,
        full=full,
        terms=terms,
    )


def _report(
    of: PositionsMarket, entrant: BoardEntrant, run: _Run, logs: ReadLogs | None
) -> EntrantReport:
    account = run.account
    a_year = of.recipe.days_a_year
    executed = run.path(run.executed)
    gap = _gap(of, run)
    return EntrantReport(
        name=entrant.name,
        arm=entrant.arm,
        pair=entrant.pair,
        declared=track_of(run.path(run.declared), a_year),
        executed=track_of(executed, a_year),
        unrepaired=_track_without_repair(of, run),
        causes=tuple(
            Cause(name=name, amount=-float(gap.parts[cause][-1])) for cause, name in _CAUSES.items()
        ),
        residual=-float(gap.parts["residual"][-1]),
        live=_live(of, executed, logs),
        fills=_fills(of, run),
        costs=(_ladder(run),),
        capacity=_capacity(of, run),
        cutoff=cutoff_days(entrant.model, run.days),
        logs=None if logs is None else logs.report,
        counts={
            "rows": account.rows,
            "orders": len(account.orders),
            "rows of no trade": account.without_trade,
            "rows of amount 0": account.of_zero,
            "forked rows": account.forked_rows,
            "repeated ids": account.repeated_ids,
            "rows whose change is not their action's": account.unexplained,
            "days with a decision": len(account.days),
        },
    )


def _track_without_repair(of: PositionsMarket, run: _Run) -> AccountTrack | None:
    """Return the executed account without the smallest size of STAR buys, which a board may not
    know; None where the venue has none.
    """
    if of.market.star_lot <= 1:
        return None
    terms = replace(run.terms, star_lot=0.0, fees=of.venue.fees)
    replay = execute(run.account, of.bars, terms)
    nav = nav_of(replay, of.bars, run.days, run.account.states[0].positions)
    return track_of(run.path(nav), of.recipe.days_a_year)


def _gap(of: PositionsMarket, run: _Run) -> AccountGap:
    """Return the gap between the declared and the executed account by cause, at each day's close."""
    closes = of.bars.last_close[day_ends(of.bars, run.days)]
    declared = AccountPath(fills=_account_fills(run, run.rows, of.bars), values=run.declared)
    executed = AccountPath(fills=_account_fills(run, run.full, of.bars), values=run.executed)
    return account_gap(declared, executed, closes, map(str, run.full.not_given))


def _account_fills(run: _Run, replay: Replay, bars: BoardBars) -> tuple[AccountFill, ...]:
    return tuple(
        AccountFill(
            row=int(np.searchsorted(run.days, bars.days[trade.row])),
            asset=trade.column,
            shares=trade.quantity,
            paid=trade.quantity * trade.price,
            fee=trade.fee,
            decision=str(trade.order),
        )
        for trade in replay.trades
    )


def _ladder(run: _Run) -> CostLadder:
    """Return the gains at each cost, for the fills under the venue's rules without its costs."""
    gain = float(run.by_rules[-1]) - run.capital
    return ladder_of_gains("each fill", gain, np.array([run.rules.traded]))


def _fills(of: PositionsMarket, run: _Run) -> Fills:
    account = run.account
    return Fills(
        orders=len(account.orders),
        counts=infer_fills(account.orders, of.bars, of.daily),
        stale_worth=honest_gap(account.orders, of.bars, of.market.stamp),
        breaches=breaches_of(account, of.venue, of.market.star_lot),
        refused=dict(run.rules.refused),
    )


def _live(of: PositionsMarket, path: GainPath, logs: ReadLogs | None) -> Live:
    """Return the days by publication; a day without evidence is unknown."""
    statuses: list[Status] = ["unknown"] * len(path.days)
    if of.recipe.published.by == "backtest":
        statuses = ["after"] * len(path.days)
    elif of.recipe.published.by == "log_clocks" and logs is not None:
        statuses = [logs.status.get(day, "unknown") for day in path.days]
    return live_of(path, statuses, of.recipe.days_a_year)


def live_of(path: GainPath, statuses: list[Status], a_year: int) -> Live:
    """Return the counts of days by status, with the Sharpe ratio before and after."""
    named = np.array(statuses)
    return Live(
        before=int((named == "before").sum()),
        after=int((named == "after").sum()),
        unknown=int((named == "unknown").sum()),
        sharpe_before=sharpe_of(path.where(named == "before"), a_year),
        sharpe_after=sharpe_of(path.where(named == "after"), a_year),
    )


def _rivals(of: PositionsMarket, run: _Run, entrant: BoardEntrant) -> Rivals:
    """Return what an entrant is compared with; itself after costs, but against random traders
    before costs, as these have none.
    """
    path = run.path(run.executed)
    random_p = random_rank = None
    reasons = {}
    if run.account.states[0].positions:
        reasons["random"] = "the account does not begin in cash"
    elif run.rules.trades:
        values = random_final_values(
            run.rules.trades, of.bars, run.capital, run.days, f"{of.recipe.name} {entrant.name}"
        )
        random_rank, random_p = rank_among(float(run.by_rules[-1]), values)

    index = _index_returns(of, run.days)
    if index is None:
        reasons["index"] = of.market.no_index or "the index has no price on each of these days"
    return Rivals(path, index, _holding_returns(of.bars, run.days), random_p, random_rank, reasons)


def _index_returns(of: PositionsMarket, days: Stamps) -> Array | None:
    """Return the daily returns of the index, the first from the open of the first day."""
    if of.index is None or any(day not in of.index.day_rows for day in days):
        return None
    return _returns(of.index, days, _index_column(of))


def _index_column(of: PositionsMarket) -> int:
    assert of.index is not None
    assert of.market.index is not None
    return of.index.column.get(of.market.index.symbol, 0)


def _returns(bars: BoardBars, days: Stamps, column: int) -> Array:
    rows = [bars.day_rows[day] for day in days]
    closes = np.array([bars.last_close[end - 1, column] for _, end in rows])
    start = bars.open[rows[0][0], column]
    return np.asarray(closes / np.concatenate([[start], closes[:-1]]) - 1)


def _holding_returns(bars: BoardBars, days: Stamps) -> Array:
    """Return the daily returns of all names, bought in equal amounts at the first open."""
    first, _ = bars.day_rows[days[0]]
    start = bars.open[first]
    known = ~np.isnan(start)
    ends = np.array([bars.day_rows[day][1] - 1 for day in days])
    levels = (bars.last_close[ends][:, known] / start[known]).mean(axis=1)
    return np.asarray(levels / np.concatenate([[1.0], levels[:-1]]) - 1)


def _capacity(of: PositionsMarket, run: _Run) -> float | None:
    """Return the capital at which 95 % of the fills are at most 1 % of the bar's volume."""
    shares = []
    for trade in run.rules.trades:
        volume = of.bars.volume[trade.row, trade.column]
        if volume > 0:
            shares.append(abs(trade.quantity) / volume)
    if not shares:
        return None
    return float(run.capital * 0.01 / np.quantile(shares, 0.95))


def read_all_logs(
    recipe: BoardRecipe, clone: Clone, venue: Venue, entrants: list[BoardEntrant], audited: bool
) -> dict[str, ReadLogs]:
    """Return the logs of all entrants, by their pattern. They are searched in two processes."""
    patterns = [one.logs for one in entrants if one.logs]
    clock = recipe.published.clock
    plain = replace(clone, git=None)
    if not audited or len(patterns) < 2:
        return {one: read_logs(plain, one, clock, venue, audited) for one in patterns}

    with ProcessPoolExecutor(min(2, cores()), multiprocessing.get_context("spawn")) as pool:
        jobs = {one: pool.submit(read_logs, plain, one, clock, venue, True) for one in patterns}
        return {one: job.result() for one, job in jobs.items()}
