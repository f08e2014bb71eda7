"""Accounts of dated actions: read, valued as declared, and executed again under a venue's rules.

An account is the rows of a `position.jsonl`: after row 0 (the start) each row holds a moment, an
action and the positions with CASH after it. The price of a fill is change of cash over quantity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from . import common

Price = Callable[[str, str], float | None]
STAR = "688"


@dataclass
class Row:
    """One decision: signed shares, the row of the state it began from, the state after."""

    moment: str
    number: int
    symbol: str
    shares: float
    kind: str
    cash: float
    held: dict[str, float]
    before: int


@dataclass
class Account:
    """Rows in file order; row 0 is the start."""

    rows: list[Row]

    @property
    def start_cash(self) -> float:
        """Cash of the first row."""
        return self.rows[0].cash

    @property
    def trades(self) -> list[int]:
        """Places of rows that move shares."""
        return [place for place, row in enumerate(self.rows) if row.shares]

    @property
    def chain(self) -> list[int]:
        """Places of the rows that the last row's state follows from, in order."""
        places = [len(self.rows) - 1]
        while places[-1] > 0:
            places.append(self.rows[places[-1]].before)
        return places[::-1]


def read_account(path: Path) -> Account:
    """Read the rows. A row whose id is not the next one begins from the latest row with id - 1."""
    rows: list[Row] = []
    last_place: dict[int, int] = {}
    for place, raw in enumerate(common.read_rows(path)):
        action = raw.get("this_action") or {}
        name = action.get("action", "start")
        sign = {"buy": 1.0, "sell": -1.0}.get(name.removesuffix("_crypto"), 0.0)
        held = {key: float(value) for key, value in raw["positions"].items() if value}
        cash = held.pop("CASH", 0.0)
        number = int(raw["id"])
        before = last_place.get(number - 1, max(place - 1, 0))
        shares = sign * float(action.get("amount") or 0)
        row = Row(raw["date"], number, action.get("symbol", ""), shares, name, cash, held, before)
        rows.append(row)
        last_place[number] = place
    return Account(rows)


def counts(account: Account) -> dict[str, Any]:
    """Rows by kind."""
    kinds: dict[str, int] = {}
    for row in account.rows:
        kinds[row.kind] = kinds.get(row.kind, 0) + 1
    moments = [row.moment for row in account.rows[1:]]
    abandoned = len(account.rows) - len(account.chain)
    return {
        "rows": len(account.rows),
        "decisions": len(account.rows) - 1,
        "kinds": kinds,
        "trades": len(account.trades),
        "amount_zero": sum(
            1 for row in account.rows if row.kind not in {"start", "no_trade"} and not row.shares
        ),
        "moments": len(set(moments)),
        "days": len({moment[:10] for moment in moments}),
        "first": moments[0],
        "last": moments[-1],
        "ids_repeated": len(account.rows) - len({row.number for row in account.rows}),
        "rows_of_abandoned_branches": abandoned,
    }


def moments_of(listed: dict[str, Account]) -> dict[str, list[str]]:
    """Different moments of the decisions of each account."""
    return {
        name: sorted({row.moment for row in account.rows[1:]}) for name, account in listed.items()
    }


def consistency(account: Account) -> dict[str, int]:
    """Rows whose change of positions is not their action: in file order, and along the ids.

    States of coins are rounded to four digits: up to 1e-4 is no difference.
    """
    found = {"file_order": 0, "by_id": 0}
    for place, row in enumerate(account.rows[1:], start=1):
        for way, before in (("file_order", place - 1), ("by_id", row.before)):
            held = dict(account.rows[before].held)
            if row.shares:
                held[row.symbol] = held.get(row.symbol, 0.0) + row.shares
            keys = set(held) | set(row.held)
            off = any(abs(held.get(key, 0.0) - row.held.get(key, 0.0)) > 1.01e-4 for key in keys)
            cash_off = not row.shares and abs(account.rows[before].cash - row.cash) > 1e-6
            found[way] += off or cash_off
    return found


def fill_price(account: Account, place: int, by_id: bool = True) -> float:
    """Price of a row's fill: change of cash over quantity."""
    row = account.rows[place]
    before = row.before if by_id else place - 1
    return abs(row.cash - account.rows[before].cash) / abs(row.shares)


def conventions(account: Account, named: dict[str, Price], by_id: bool = True) -> dict[str, Any]:
    """Count of fills that match each named price, and those that match none.

    Tolerance: 1e-4 for cash rounded to four digits, over the quantity, plus 1e-4 of a unit.
    """
    hits = dict.fromkeys(named, 0)
    unmatched = []
    for place in account.trades:
        row = account.rows[place]
        price = fill_price(account, place, by_id)
        room = 5.1e-3 / abs(row.shares) + 1e-4
        matched = False
        for name, lookup in named.items():
            quoted = lookup(row.symbol, row.moment)
            if quoted and abs(quoted - price) <= room:
                hits[name] += 1
                matched = True
        if not matched:
            unmatched.append([row.moment, row.symbol, row.shares, price])
    return {"fills": len(account.trades), "matches": hits, "unmatched": unmatched}


def violations(account: Account, a_shares: bool = True) -> dict[str, int]:
    """T+1: sells of more than what was held at the day's start and is left. Lots: of 100; STAR 200."""
    found = {
        "t1_rows": 0,
        "t1_shares": 0.0,
        "lot_rows": 0,
        "star_below_200_buys": 0,
        "star_below_200_sells": 0,
        "negative_cash_rows": 0,
    }
    day = ""
    locked: dict[str, float] = {}
    for place in account.trades:
        row = account.rows[place]
        held = account.rows[row.before].held.get(row.symbol, 0.0)
        if row.moment[:10] != day:
            day, locked = row.moment[:10], {}
        found["negative_cash_rows"] += row.cash < -1e-6
        if row.shares > 0:
            locked[row.symbol] = locked.get(row.symbol, 0.0) + row.shares
            star = row.symbol.startswith(STAR)
            found["star_below_200_buys"] += star and row.shares < 200
            found["lot_rows"] += (not star) and row.shares % 100 != 0
        else:
            excess = -row.shares - (held - locked.get(row.symbol, 0.0))
            if excess > 1e-9 and locked.get(row.symbol, 0.0) > 0:
                found["t1_rows"] += 1
                found["t1_shares"] += excess
                locked[row.symbol] -= excess
            whole = abs(held + row.shares) < 1e-9
            star = row.symbol.startswith(STAR)
            found["star_below_200_sells"] += star and -row.shares < 200 and not whole
            found["lot_rows"] += (not star) and -row.shares % 100 != 0 and not whole
    if not a_shares:
        kept = {"sold_same_day_rows": found["t1_rows"], "sold_same_day_shares": found["t1_shares"]}
        return kept | {"negative_cash_rows": found["negative_cash_rows"]}
    return found


def declared_nav(
    account: Account, days: Sequence[str], close: Price, chain: bool = False
) -> list[float]:
    """Start cash, then cash + positions at each day's close, by the last row up to that day."""
    places = account.chain if chain else range(len(account.rows))
    rows = [account.rows[place] for place in places]
    nav = [account.start_cash]
    for day in days:
        state = [row for row in rows if row.moment[:10] <= day][-1]
        worth = state.cash
        for symbol, shares in state.held.items():
            price = close(symbol, day)
            if price is None:
                raise ValueError(f"{symbol} has no close on {day}")
            worth += shares * price
        nav.append(worth)
    return nav


@dataclass
class Rules:
    """Rules of a venue. lot 0: any quantity. limits(symbol, moment, price) forbids a side.

    An order that breaks a rule is cut to what is allowed; with refuse_whole it is refused.
    """

    lot: int = 0
    star_minimum: int = 0
    t_plus_1: bool = False
    whole_shares: bool = True
    cash_bound: bool = True
    limits: Callable[[str, str, float], str | None] | None = None
    buy_fee: Callable[[float, float], float] = lambda _shares, _price: 0.0
    sell_fee: Callable[[float, float], float] = lambda _shares, _price: 0.0
    refuse_whole: bool = False


@dataclass
class Replay:
    """An account executed again."""

    nav: list[float]
    fees: float = 0.0
    traded: float = 0.0
    cut: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    unpriced: int = 0
    final_cash: float = 0.0


@dataclass
class _State:
    cash: float
    held: dict[str, float] = field(default_factory=dict)
    locked: dict[str, float] = field(default_factory=dict)
    day: str = ""


def _allowed(
    state: _State, symbol: str, shares: float, price: float, rules: Rules
) -> tuple[float, str]:
    """Shares that the rules let through, and the rule that cut them."""
    if shares < 0:
        return _allowed_sale(state, symbol, -shares, rules)
    wanted, cause = shares, ""
    star = symbol.startswith(STAR) and rules.star_minimum > 0
    step = 1 if star or not rules.lot else rules.lot
    minimum = rules.star_minimum if star else (rules.lot or 0)
    if rules.lot and not star and wanted % step:
        wanted, cause = wanted // step * step, "lot"
    if star and wanted < minimum:
        return 0.0, "star_minimum"
    if rules.cash_bound:
        grid = step if rules.whole_shares else None
        while wanted > 1e-12 and wanted * price + rules.buy_fee(wanted, price) > state.cash + 1e-6:
            cause = "cash"
            if grid is None:
                wanted = (
                    max(state.cash, 0.0) / (price + rules.buy_fee(1e9, price) / 1e9) * (1 - 1e-12)
                )
                break
            wanted -= grid
            if wanted < minimum:
                wanted = 0.0
    return max(wanted, 0.0), cause


def _allowed_sale(state: _State, symbol: str, shares: float, rules: Rules) -> tuple[float, str]:
    """Signed shares of a sale that the rules let through."""
    held = state.held.get(symbol, 0.0)
    free = held - (state.locked.get(symbol, 0.0) if rules.t_plus_1 else 0.0)
    wanted, cause = shares, ""
    if wanted > held + 1e-9 and rules.cash_bound:
        wanted, cause = held, "not_held"
    if rules.t_plus_1 and wanted > free + 1e-9:
        wanted, cause = free, "t_plus_1"
    whole = abs(wanted - held) < 1e-9
    if rules.lot and not whole:
        star = symbol.startswith(STAR) and rules.star_minimum > 0
        if star and wanted < rules.star_minimum:
            return 0.0, cause or "star_minimum"
        if not star and wanted % rules.lot:
            wanted, cause = wanted // rules.lot * rules.lot, cause or "lot"
    return -wanted, cause


def replay(
    account: Account, days: Sequence[str], price: Price, close: Price, rules: Rules
) -> Replay:
    """Execute the actions of the surviving chain at `price`, in order; value at `close`.

    `price(symbol, moment)` also fixes when: a fill whose price lies on a later day counts from the
    day of the row (only a row after the last close is left out, as unpriced).
    """
    done = Replay([account.start_cash])
    state = _State(account.start_cash)
    rows = [account.rows[place] for place in account.chain if account.rows[place].shares]
    place = 0
    for day in days:
        while place < len(rows) and rows[place].moment[:10] <= day:
            _trade(rows[place], state, price, rules, done)
            place += 1
        worth = state.cash
        for symbol, shares in state.held.items():
            if abs(shares) > 1e-12:
                quoted = close(symbol, day)
                if quoted is None:
                    raise ValueError(f"{symbol} has no close on {day}")
                worth += shares * quoted
        done.nav.append(worth)
    done.final_cash = state.cash
    return done


def _trade(row: Row, state: _State, price: Price, rules: Rules, done: Replay) -> None:
    """Execute one row."""
    if row.moment[:10] != state.day:
        state.day, state.locked = row.moment[:10], {}
    quoted = price(row.symbol, row.moment)
    if quoted is None:
        done.unpriced += 1
        return
    forbidden = rules.limits(row.symbol, row.moment, quoted) if rules.limits else None
    side = "buy" if row.shares > 0 else "sell"
    if forbidden == side:
        done.refused["price_limit"] = done.refused.get("price_limit", 0) + 1
        return
    shares, cause = _allowed(state, row.symbol, row.shares, quoted, rules)
    if cause and rules.refuse_whole:
        shares = 0.0
    if cause:
        kind = done.cut if abs(shares) > 1e-12 else done.refused
        kind[cause] = kind.get(cause, 0) + 1
    if abs(shares) <= 1e-12:
        return
    fee_of = rules.buy_fee if shares > 0 else rules.sell_fee
    fee = fee_of(abs(shares), quoted)
    state.cash -= shares * quoted + fee
    state.held[row.symbol] = state.held.get(row.symbol, 0.0) + shares
    if shares > 0:
        state.locked[row.symbol] = state.locked.get(row.symbol, 0.0) + shares
    done.fees += fee
    done.traded += abs(shares) * quoted


def own_fills(account: Account) -> Price:
    """Prices that the account itself booked, by symbol and moment (calls in order of the rows)."""
    queue: dict[tuple[str, str], list[float]] = {}
    for place in account.chain:
        row = account.rows[place]
        if row.shares:
            queue.setdefault((row.symbol, row.moment), []).append(fill_price(account, place))

    def lookup(symbol: str, moment: str) -> float | None:
        return queue[symbol, moment].pop(0)

    return lookup


def gap(
    account: Account, days: Sequence[str], honest: Price, close: Price, rules: Rules
) -> dict[str, Any]:
    """Declared and executed total return and the causes of the difference, in order.

    rows_left_out: own fills along the surviving chain, less declared (file order); also the rounding
    of states. price: honest prices in place of own fills, no rules. rules: lots, limits, T+1, cash, no fees. fees: the rest.
    executed = declared + the four; residual is what is left (0 by construction, kept as a check).
    """
    free = Rules(cash_bound=False, whole_shares=False)
    no_fees = replace(rules, buy_fee=free.buy_fee, sell_fee=free.sell_fee)
    start = account.start_cash
    declared = declared_nav(account, days, close)
    steps = [
        replay(account, days, own_fills(account), close, free),
        replay(account, days, honest, close, free),
        replay(account, days, honest, close, no_fees),
        replay(account, days, honest, close, rules),
    ]
    ends = [declared[-1], *(step.nav[-1] for step in steps)]
    causes = [(after - before) / start for before, after in pairwise(ends)]
    last = steps[-1]
    return {
        "declared": declared[-1] / start - 1,
        "executed": last.nav[-1] / start - 1,
        "gap": {
            "rows_left_out": causes[0],
            "price": causes[1],
            "rules": causes[2],
            "fees": causes[3],
            "residual": (last.nav[-1] - declared[-1]) / start - sum(causes),
        },
        "fees": last.fees,
        "traded": last.traded,
        "cut": last.cut,
        "refused": last.refused,
        "unpriced": last.unpriced,
        "nav": last.nav,
        "gross_nav_end": steps[2].nav[-1],
    }


def path_figures(nav: Sequence[float], periods: float) -> dict[str, Any]:
    """Total return, Sharpe ratio with its interval, drawdown of a NAV path that starts with cash."""
    returns = common.returns_of(nav)
    return {
        "start": nav[0],
        "end": nav[-1],
        "days": len(nav) - 1,
        "total_return": nav[-1] / nav[0] - 1,
        "sharpe": common.sharpe(returns, periods),
        "interval95": common.sharpe_interval(returns, periods),
        "sharpe_without_first_day": common.sharpe(returns[1:], periods),
        "max_drawdown": common.max_drawdown(nav),
    }


def cost_ladder(nav_end: float, start: float, traded: float) -> dict[str, Any]:
    """Return after 0, 1, 5, 10 bp of all that was traded, and the cost at which none is left.

    Linear: the same trades, costs paid from cash at the end.
    """
    total = nav_end - start
    return {
        "traded": traded,
        "turnover": traded / start,
        "net_return": {str(bp): (total - traded * bp / 1e4) / start for bp in (0, 1, 5, 10)},
        "break_even_bp": total / traded * 1e4 if total > 0 and traded > 0 else None,
    }
