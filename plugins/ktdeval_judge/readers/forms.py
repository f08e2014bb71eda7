"""Forms of declarations: turn a table whose columns have roles into decisions, trades or values.

The roles in a table determine its form. If a form does not use a column's role, a note reports the
column. If such a column would change the meaning of the rows, the table is rejected (`unread.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ktdeval.cards import count
from ktdeval.errors import DataError
from ktdeval_judge.declared import Declared
from ktdeval_judge.readers.account_cash import initial_cash
from ktdeval_judge.readers.closed_trades import read_closed_trades
from ktdeval_judge.readers.flows import check_flows
from ktdeval_judge.readers.frames import (
    RETURNS_ONLY,
    first_value_of,
    ordered_orders,
    ordered_trades,
    values_of,
    with_lines,
    with_minutes,
)
from ktdeval_judge.readers.free_shares import check_free_shares
from ktdeval_judge.readers.keys import (
    check_moment_keys,
    check_target_keys,
    check_trade_keys,
    check_value_keys,
)
from ktdeval_judge.readers.left_out import rows_of_trades
from ktdeval_judge.readers.role_table import RoleTable, days_of
from ktdeval_judge.readers.roles import is_kind
from ktdeval_judge.readers.same_moments import without_repeats
from ktdeval_judge.readers.units import per_cent_of_returns, weights_as_shares
from ktdeval_judge.readers.unread import check_unread
from ktdeval_judge.readers.wide import read_wide
from ktdeval_tables.numbers import parse_figures, unit_of

FORMS = (
    "weight; position (the shares to hold); side with cash or shares; shares with price (a trade);"
    " entry and exit of a trade with their days; or a day with nav or return"
)
_RETURNS = ("return", "return fraction", "return percent", "log return")
_MONEY = frozenset(
    {"USD", "USDT", "USDC", "EUR", "GBP", "CHF", "CNY", "HKD", "JPY", "INR", "AUD", "CAD"}
)
#: largest gap between a return and the change in value that it explains
_SAME_RETURN = 1e-4
_FEW = 3  # maximum number of times that a code or day is repeated


@dataclass(frozen=True, kw_only=True)
class FormOptions:
    """Settings for a form that depend on the program."""

    program: str = "plain"
    #: role of an order's decision day, for a program whose fills are also its decisions
    decided: str = ""
    #: `first`: the first value is the initial cash. `before`: the first value is the initial cash
    #: and belongs to no day
    cash: str = ""
    signed_fees: bool = False  #: whether fees are cash flows, which are negative if a fee is paid
    flows: str = ""  #: column with deposits and withdrawals
    cash_before: float | None = None  #: initial cash, as given by the user


def form_of(table: RoleTable, given: Mapping[str, str]) -> str:
    """Return the name of a table's form, or an empty string if it has no form. Raises DataError if
    several forms match. `given` has the roles that the user names; their forms take precedence.
    """
    acts = "side" in table.roles or "is buy" in table.roles
    alone = _form_of_rows(table, acts=acts, is_nav_named="nav" in given)
    if alone:
        return alone

    shares = table.has("shares") or table.has("filled shares")
    price = table.has("price") or table.has("filled price")
    forms: list[str] = []
    if shares and price:
        forms.append("fills")
    elif acts and (shares or table.has("cash")):
        forms.append("orders")
    elif shares:
        forms.append("holdings")

    for role, form in (("weight", "weights"), ("position", "holdings")):
        if role in given:
            return form
        is_state = acts and forms  # columns that show the account's state, next to its trades
        if table.has(role) and form not in forms and not is_state:
            forms.append(form)

    if len(forms) > 1:
        return _refuse_mix(table, forms)
    if forms:
        return forms[0]
    return _form_of_values(table)


def _form_of_rows(table: RoleTable, *, acts: bool, is_nav_named: bool) -> str:
    """Return the form if rows are round-trip trades, or account values without codes. Return an
    empty string if another form is possible.
    """
    if table.has("exit price") or table.has("exit date"):
        return "closed"
    has_codes = "code" in table.roles or bool(table.code)
    is_trade = acts and table.has("shares") and not is_nav_named
    if table.has("nav") and not has_codes and not is_trade:
        return "values"
    return ""


def _refuse_mix(table: RoleTable, forms: list[str]) -> str:
    option = "--map weight=COLUMN or --map position=COLUMN"
    raise DataError(
        f"{table.place}: mixes {' and '.join(forms)}; a file must use one form: keep one of these "
        f"columns, or name it: {option}"
    )


def _form_of_values(table: RoleTable) -> str:
    codes = table.texts("code").nunique() if "code" in table.roles else 1
    if table.has("cash") and codes > 1:
        raise DataError(f"{table.place}: cash without a side; add a column side of buy and sell")
    if codes > 1:
        return ""
    if table.has("nav"):
        return "values"
    for role in (*_RETURNS, "cumulative return"):
        if table.has(role):
            return "returns"
    return "gains" if table.has("profit") else ""


def read_form(form: str, table: RoleTable, options: FormOptions) -> Declared:
    """Return the declarations in a table of the given form. Raises DataError at the first fault,
    and names its place.
    """
    if form not in ("values", "returns") and "high" in table.roles and "low" in table.roles:
        raise DataError(
            f"{table.place}: columns high and low: contains bars of a market, not decisions; "
            "import "
            "it with `ktdeval data make`"
        )
    found = _READERS[form](table, options)
    return Declared(
        program=options.program,
        source=table.path.name,
        notes=tuple(table.notes),
        **found,
    )


# ---- fills and orders


def read_fills(table: RoleTable, options: FormOptions) -> dict[str, Any]:
    """Read rows of purchases and sales. The side comes from a side column or from the sign of the
    shares.
    """
    size = "filled shares" if table.has("filled shares") else "shares"
    price = "filled price" if table.has("filled price") else "price"
    _check_one_price(table, price)
    table = rows_of_trades(_filled_rows(table, size), size, price)
    check_free_shares(table, price)
    shares = table.numbers(size)
    if "side" in table.roles or "is buy" in table.roles:
        sides = table.sides()
        acting = (sides != "hold") & (shares != 0)
        if not acting.all():
            table, sides = table.where(acting), sides[acting].reset_index(drop=True)
            shares = table.numbers(size)
        sides = _with_signs(table, size, sides, shares)
    else:
        table.check(shares != 0, table.column(size), "expected a number other than zero, was")
        sides = pd.Series(np.where(shares > 0, "buy", "sell"))
        _check_no_sides(table, shares)

    fills = pd.DataFrame(
        {
            "moment": _moments(table),
            "code": table.codes(),
            "side": sides,
            "shares": shares.abs(),
            "price": table.positive(price),
        }
    )
    _check_units(table, size, fills["code"])
    check_trade_keys(table, fills)
    check_unread("fills", table, options.flows, fills)
    if options.program == "plain":
        _note_repeated(table)
    fills["fee"] = _fees(table, options)
    if "decided" in table.roles and not options.decided:
        fills["decided"] = days_of(table.moments("decided"))

    signs = np.where(fills["side"] == "buy", 1.0, -1.0)
    paid = signs * fills["shares"] * fills["price"] + fills["fee"].fillna(0.0)
    found: dict[str, Any] = {
        "trades": ordered_trades(with_lines(fills, table), table.place),
        "cash": initial_cash(table, paid, fills["moment"]),
    }
    if options.decided:
        decided = table.moments(options.decided)
        orders = fills[["code", "side"]].assign(day=days_of(decided), amount=fills["shares"])
        orders = with_minutes(orders[["day", "code", "side", "amount"]], decided)
        found["decisions"] = ordered_orders(with_lines(orders, table), table.place)
    return found


def read_orders(table: RoleTable, options: FormOptions) -> dict[str, Any]:
    """Read orders. An order has a side, and a number of shares or an amount of cash."""
    size = "shares" if table.has("shares") else "cash"
    table = rows_of_trades(_filled_rows(table, size), size)
    sides = table.sides()
    table, sides = table.where(sides != "hold"), sides[sides != "hold"].reset_index(drop=True)
    check_unread("orders", table, options.flows)
    orders = pd.DataFrame(
        {
            "day": _decision_days(table),
            "code": table.codes(),
            "side": sides,
            "cash" if size == "cash" else "amount": table.positive(size),
        }
    )
    check_target_keys(table, orders)
    orders = with_minutes(orders, table.moments())
    decisions = ordered_orders(with_lines(orders, table), table.place)
    return {"decisions": decisions, "cash": table.fact("initial cash")}


def _filled_rows(table: RoleTable, size: str) -> RoleTable:
    """Return the rows of orders that were filled wholly or in part. Raises DataError if a status is
    not known.
    """
    total = len(table)
    if table.has("status"):
        words = table.words("status")
        is_done = is_kind(words, "done") | (words == "")
        if size == "filled shares":
            is_done |= is_kind(words, "partly")
        is_known = is_done | is_kind(words, "undone")
        if not is_known.all():
            row = int((~is_known).to_numpy().argmax())
            column = table.column("status")
            cell = table.texts("status").iloc[row][:40]
            table.refuse(
                row, column, f"{cell!r} is neither filled nor canceled; keep only rows of fills"
            )
        table = table.where(is_done)

    if size == "filled shares":
        table = table.where(table.numbers(size, may_lack=True).fillna(0.0) != 0)
    left_out = total - len(table)
    if left_out:
        table.note(f"Left out, as canceled or rejected: {count(left_out, 'order')}.")
    if not len(table):
        raise DataError(f"{table.place}: has no filled order; write one row per fill")
    return table


def _with_signs(table: RoleTable, size: str, sides: pd.Series, shares: pd.Series) -> pd.Series:
    """Return the sides. Raises DataError if sizes are negative, unless exactly the sales have
    negative sizes.
    """
    below = shares < 0
    if below.any() and not below.equals(sides == "sell"):
        row = int(below.to_numpy().argmax())
        words = f"{shares.iloc[row]:g} is below 0 although there is a side; write sizes above 0"
        table.refuse(row, table.column(size), words)
    _check_long(table)
    return sides


def _note_repeated(table: RoleTable) -> None:
    """Add a note on rows that are identical in all cells. Each row is read as a fill."""
    repeated = int(table.table.cells.duplicated().sum())
    if repeated:
        table.note(f"Identical rows: {repeated}; each is read as a separate fill.")


def _check_long(table: RoleTable) -> None:
    """Raise DataError if all rows say `long` or `short`, never buy or sell, so that some of them
    may close a position.
    """
    role = "side" if "side" in table.roles else "is buy"
    words = table.words(role)
    is_position = is_kind(words, "long") | (words == "short")
    if table.codes().duplicated().any() and is_position.all():
        raise DataError(
            f"{table.place}: column {table.column(role)}: long and short describe positions, and "
            "some rows may close them; write buy or sell"
        )


def _check_one_price(table: RoleTable, price: str) -> None:
    """Raise DataError if rows have an entry price as well as another price, such as the last price
    of a position that is still open.
    """
    if table.has("entry price"):
        entry = table.column("entry price")
        option = f"--map price={entry!r}"
        raise DataError(
            f"{table.place}: columns {entry!r} and {table.column(price)!r} may both be the price of a "
            f"trade; if rows are entries, choose {option}"
        )


def _check_units(table: RoleTable, size: str, codes: pd.Series) -> None:
    """Raise DataError if a size has the unit of money, such as `100USDT` of BTCUSDT."""
    units = unit_of(table.texts(size))
    pairs = zip(units, codes.str.upper(), strict=True)
    ends = [code.endswith(unit) and not code.startswith(unit) for unit, code in pairs]
    is_money = pd.Series(ends, index=units.index) & (units != "")
    table.check(~is_money, table.column(size), "expected a number of units, was money:")


def _check_no_sides(table: RoleTable, shares: pd.Series) -> None:
    """Raise DataError if neither a side nor a sign shows whether rows are purchases or holdings."""
    days = days_of(table.moments())
    is_held = (
        pd.DataFrame({"code": table.codes(), "day": days}).drop_duplicates()["code"].duplicated()
    )
    if (shares > 0).all() and is_held.any():
        raise DataError(
            f"{table.place}: has shares with a price, but neither a side nor a number below 0, so "
            "these may be purchases or holdings. Add a column side of buy and sell, or declare "
            f"holdings: --map position={table.column('shares')!r}"
        )


def _moments(table: RoleTable) -> pd.Series:
    """Return the rows' timestamps. If there is a separate time column, its times are added."""
    moments = table.moments()
    if "time" not in table.roles or (moments.dt.normalize() != moments).any():
        return moments

    digits = table.texts("time").str.replace(":", "").str.partition(".")[0].str.zfill(6)
    is_time = digits.str.fullmatch("[0-2][0-9][0-5][0-9][0-5][0-9]")
    if not is_time.all():
        return moments
    seconds = digits.str[:2].astype(int) * 3600 + digits.str[2:4].astype(int) * 60
    return moments + pd.to_timedelta(seconds + digits.str[4:].astype(int), unit="s")


def _fees(table: RoleTable, options: FormOptions) -> pd.Series:
    """Return the fee that was paid for each row, [n]; NaN if not known."""
    role = "total fee" if table.has("total fee") else "fee"
    if role not in table.roles:
        return pd.Series(np.nan, index=table.table.cells.index)
    coins_of_fees = _fee_coins(table, role)
    if coins_of_fees is not None and not _are_paid_in_money(table, coins_of_fees):
        coins = ", ".join(coins_of_fees.unique()[:5])
        table.note(
            f"Fees are in {coins}, not all in the currency of the prices, so they are not read."
        )
        return pd.Series(np.nan, index=table.table.cells.index)

    fees = table.sum_of(role)
    is_flow = options.signed_fees or (fees.min() < 0 and not fees.max() > 0)
    if is_flow and not options.signed_fees:
        table.note("Negative fees are read as fees paid.")
    return -fees if is_flow else fees


def _fee_coins(table: RoleTable, role: str) -> pd.Series | None:
    """Return the currency or coin of each fee, from its own column or from the fees' cells, or None
    if it is not stated.
    """
    if table.has("fee coin"):
        return table.texts("fee coin")
    units = unit_of(table.texts(role))
    return units if (units != "").any() else None


def _are_paid_in_money(table: RoleTable, coins: pd.Series) -> bool:
    """Return whether fees are paid in the currency of prices: each in the quote currency of its
    pair, or all in one currency.
    """
    coins = coins.str.upper()
    codes = table.codes().str.upper()
    are_quotes = [code.endswith(coin) for code, coin in zip(codes, coins, strict=True)]
    is_one_currency = coins.nunique() == 1 and coins.iloc[0] in _MONEY
    return all(are_quotes) or is_one_currency


# ---- targets


def read_weights(table: RoleTable, options: FormOptions) -> dict[str, Any]:
    """Read target weights. The code `CASH` denotes cash."""
    cash = is_kind(table.codes().str.lower(), "cash")
    weights = weights_as_shares(table, table.numbers("weight"), table.column("weight"), _day_sums)
    frame = _targets(table, "weight", weights)
    check_unread("weights", table, options.flows)
    return {"decisions": frame[~cash.to_numpy()].reset_index(drop=True)}


def read_holdings(table: RoleTable, options: FormOptions) -> dict[str, Any]:
    """Read target shares."""
    role = "position" if table.has("position") else "shares"
    check_unread("holdings", table, options.flows)
    shares = table.numbers(role)
    is_unclear = table.column(role).strip().lower() in ("position", "positions")
    if is_unclear and 0 < shares.abs().max() <= 1:
        raise DataError(
            f"{table.place}: column {table.column(role)}: no number is beyond 1, so these may be "
            "weights or signals; name the column weight, or target_shares if it contains shares"
        )
    return {"decisions": _targets(table, "shares", shares)}


def _day_sums(table: RoleTable, numbers: pd.Series) -> pd.Series:
    return numbers.abs().groupby(_decision_days(table)).sum()


def _decision_days(table: RoleTable) -> pd.Series:
    """Return the day on which each row was decided, [n]. Raises DataError if a decision is later
    than the row's day.
    """
    days = days_of(table.moments())
    if not table.has("decided"):
        return days

    decided = days_of(table.moments("decided"))
    table.check(decided <= days, table.column("decided"), "is later than the day of the row:")
    column = table.column("decided")
    table.note(
        f"Decided on the day of {column!r}; the day of {table.column('date')!r} is not read."
    )
    return decided


def _targets(table: RoleTable, form: str, numbers: pd.Series) -> pd.DataFrame:
    frame = pd.DataFrame({"day": _decision_days(table), "code": table.codes(), form: numbers})
    check_target_keys(table, frame)
    words = "the same day and code appear twice; keep one row"
    table.check_once(frame[["day", "code"]], table.column("date"), words)

    frame = with_minutes(frame, table.moments())
    frame = with_lines(frame, table).sort_values(["day", "code"], kind="stable", ignore_index=True)
    return frame.astype({"day": "int64", "code": "object"})


# ---- values


def read_values(table: RoleTable, options: FormOptions) -> dict[str, Any]:
    """Read account values, and the benchmark's returns if the table has them."""
    table = without_repeats(table, options.flows)
    numbers = table.numbers("nav")
    table.check(numbers > 0, table.column("nav"), "expected a number above zero, was")
    moments = table.moments()
    check_value_keys(table, moments, numbers)
    values = values_of(table, moments, numbers)
    check_unread("values", table, options.flows, values)
    check_flows(table, values, options.flows)
    start = first_value_of(moments, numbers)
    if options.flows and options.flows in table.table.header:
        flows = table.numbers_in(options.flows, may_lack=True).fillna(0.0)
        by_day = flows.groupby(days_of(moments)).sum()
        if start is not None:
            # the flows of the first day are in its close, but not in its first value
            first = float(values.iloc[0])
            start *= first / (first - float(by_day.iloc[0]))
        values = without_flows(values, by_day, table.note)

    initial = table.fact("initial cash") or start
    if initial is None and not options.cash and not options.flows:
        initial = _value_before(table, values)
    found: dict[str, Any] = {"values": values, "cash": initial}
    if options.cash:
        found["cash"] = float(values.iloc[0])
    if options.cash == "before":
        found["values"] = values.iloc[1:]
    if table.has("benchmark return"):
        returns = table.numbers("benchmark return", may_lack=True).fillna(0.0)
        found["benchmark"] = values_of(table, moments, returns).rename("benchmark")
    return found


def _value_before(table: RoleTable, values: pd.Series) -> float | None:
    """Return the account value before the first one, if a column of returns explains the changes of
    the values and has a first return. Otherwise, return None.
    """
    columns = [column for role in _RETURNS for column in table.roles.get(role, ())]
    if not columns or len(values) != len(table):
        return None
    returns, bad = parse_figures(table.table.cells[columns[0]], table.table.decimal)
    order = table.moments().argsort(kind="stable")
    ordered = returns.iloc[order].fillna(0.0).to_numpy()
    gaps = np.abs(values.pct_change().iloc[1:].to_numpy() - ordered[1:])
    if bad.any() or len(gaps) == 0 or gaps.max() > _SAME_RETURN or not ordered[0]:
        return None

    start = float(values.iloc[0] / (1.0 + ordered[0]))
    table.note(
        f"The first return of {columns[0]!r} counts: the account's value before it is {start:,.6g}."
    )
    return start


def without_flows(values: pd.Series, flows: pd.Series, note: Callable[[str], None]) -> pd.Series:
    """Return account values net of flows. A flow is assumed to be paid at the close of its day."""
    paid = flows.reindex(values.index).fillna(0.0)
    growth = (values - paid) / values.shift(1)
    growth.iloc[0] = 1.0
    total = float(paid.sum())
    note(
        f"Deposits and withdrawals of {total:,.2f} in total are removed, each at the close of "
        "its day."
    )
    without: pd.Series = values.iloc[0] * growth.cumprod()
    return without


def read_returns(table: RoleTable, options: FormOptions) -> dict[str, Any]:
    """Read returns, and convert them to the values of an account that starts at 1."""
    moments = table.moments()
    role = next((each for each in _RETURNS if table.has(each)), "cumulative return")
    numbers = table.numbers(role, may_lack=True)
    order = moments.argsort(kind="stable")
    is_first = pd.Series(numbers.index == order.iloc[0], index=numbers.index)
    table.check(numbers.notna() | is_first, table.column(role), "expected a number, was")
    check_unread("returns", table, options.flows)

    column = table.column(role)
    numbers = per_cent_of_returns(table, role, column, numbers.fillna(0.0))
    growth = np.exp(numbers) if role == "log return" else 1.0 + numbers
    table.check(growth > 0, column, "expected a return above -100 %, was")
    values = growth
    if role != "cumulative return":
        values = growth.iloc[order].cumprod().reindex(growth.index)
    table.note(RETURNS_ONLY)
    return {"values": values_of(table, moments, values), "cash": 1.0}


def read_gains(table: RoleTable, options: FormOptions) -> dict[str, Any]:
    """Read gains in money, of days or of single trades, as the values of an account that starts
    with the cash that the user gives.
    """
    column = table.column("profit")
    if options.cash_before is None:
        raise DataError(
            f"{table.place}: column {column!r} contains gains in money, which need the account's "
            "initial cash: --cash N"
        )

    gains = table.numbers("profit")
    moments = table.moments()
    check_moment_keys(table, moments)
    by_day = gains.groupby(days_of(moments)).sum().sort_index()
    growth = 1.0 + by_day.cumsum() / options.cash_before
    if (growth <= 0).any():
        raise DataError(
            f"{table.place}: column {column!r}: losses exceed the initial cash of "
            f"{options.cash_before:,.0f}; give more with --cash N"
        )
    table.note(f"{column!r} is read as gains in money on {options.cash_before:,.0f}.")
    table.note(RETURNS_ONLY)
    values = pd.Series(growth.to_numpy(), index=growth.index.rename("day"), name="value")
    return {"values": values, "cash": 1.0}


def read_closed(table: RoleTable, options: FormOptions) -> dict[str, Any]:
    """Read closed trades. Each row is an entry and, if the trade is closed, an exit."""
    return read_closed_trades(table, options.flows)


def read_wide_weights(table: RoleTable, _options: FormOptions) -> dict[str, Any]:
    """Read weights from a table with days as rows and codes as columns."""
    return read_wide(table)


_READERS: Mapping[str, Callable[[RoleTable, FormOptions], dict[str, Any]]] = {
    "closed": read_closed,
    "fills": read_fills,
    "orders": read_orders,
    "weights": read_weights,
    "holdings": read_holdings,
    "values": read_values,
    "returns": read_returns,
    "gains": read_gains,
    "wide": read_wide_weights,
}
