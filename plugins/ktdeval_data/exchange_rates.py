"""Prices in other currencies than the account's, converted by daily exchange rates known no later than the price."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pandas as pd

from ktdeval.errors import DataError, UsageError
from ktdeval.market import RawMarket
from ktdeval_data.columns import read_events
from ktdeval_data.params import LongParams

MAX_AGE_DAYS = 10  #: Days for which a rate is used after its own
FEWEST_TICKS = 500  #: Rounding a smaller price to a tick of its venue could move it by more than 0.1 %
_SLACK = 1 + 1e-6  # of prices in single precision, as in the check of bars


def convert(raw: RawMarket, params: LongParams, mapping: Mapping[str, str]) -> RawMarket:
    """Return a market with its prices and amounts in `params.currency`, and the rates among its indices. Raises UsageError: an
    option is missing or without effect; DataError: a rate is missing or wrong, or a venue does not fit.
    """
    account, where = params.currency, params.fx
    if account is None or where is None:
        raise UsageError("--fx and --currency go together: give the file of rates and the currency of the account")
    quoted = {code: currency for code in raw.codes if (currency := raw.instrument(code).currency) != account}
    if not quoted:
        raise UsageError(f"--fx: all prices are in {account} already; leave --fx and --currency out")
    if params.index_is_asset and raw.benchmark not in set(raw.codes).difference(quoted):
        raise UsageError(f"--benchmark: {raw.benchmark} is not in {account}; give its levels in {account} in a file of its own")
    if minutes := sorted(set(raw.minutes.codes).intersection(quoted)):
        raise UsageError(f"--minutes: bars within days are not converted; leave out those of {', '.join(minutes[:8])}")
    rates = read_events(where, "currency", "rate", mapping, lambda column: column.astype(str).str.strip())
    bars = _converted(raw, quoted, rates, params)
    currencies = sorted(set(quoted.values()))
    days = pd.MultiIndex.from_product([raw.table.days.astype("datetime64[ns]"), currencies], names=["date", "currency"])
    levels = (grid := days.to_frame(index=False)).assign(code=grid["currency"] + account, close=_at(grid, rates, where))
    notes = [f"rates not needed: {', '.join(unused)}"] if (unused := sorted({*rates["currency"]}.difference(currencies))) else []
    for currency in currencies:
        codes = [code for code, own in quoted.items() if own == currency]
        named = ", ".join(codes[:8]) + (f" and {len(codes) - 8} more" if len(codes) > 8 else "")
        notes.append(f"prices of {len(codes)} assets in {currency} are converted to {account} by the rates of each day: {named}")
    return dataclasses.replace(
        raw,
        bars=bars,
        indices=pd.concat([raw.indices, levels[["date", "code", "close"]]], ignore_index=True),
        index_names={f"{currency}{account}": f"{account} for one {currency}" for currency in currencies},
        notes=(*raw.notes, *notes),
        instruments={code: dataclasses.replace(raw.instrument(code), currency=account) for code in raw.codes},
    )


def _converted(raw: RawMarket, quoted: Mapping[str, str], rates: pd.DataFrame, params: LongParams) -> pd.DataFrame:
    """Bars in the account's currency: an open takes the last rate before its day, and high and low are widened to hold it."""
    halts, where = raw.table.in_source(raw.table.suspended), params.fx or ""  # a flat bar without trade may not stay flat
    bars = raw.bars.assign(traded=~halts, date=raw.bars["date"].astype("datetime64[ns]"))
    own = bars.assign(currency=bars["code"].astype(str).map(quoted)).dropna(subset="currency")
    now, before = _at(own, rates, where), _at(own[own["open"].notna()], rates, where, opens=True).reindex(own.index)
    wrong = (own["open"] > own["high"] * _SLACK) | (own["open"] * _SLACK < own["low"])  # converted alike, so that it stays wrong
    before = before.mask(wrong, now)
    held = (own["open"].clip(own["low"], own["high"]) * before).mask(wrong)
    fields = ["open", "high", "low", "close", "amount"]
    converted = own[fields].mul(now, axis=0).assign(open=own["open"] * before)
    bars.loc[own.index, fields] = converted.assign(high=converted["high"].clip(held), low=converted["low"].clip(upper=held))
    lowest = bars[bars["close"] > 0].groupby("code", observed=True)["close"].min()
    for code, venue in ((code, raw.venue(code)) for code in quoted):
        text = f"{code}: its prices are converted to {params.currency}, and venue {venue.name} has"
        if venue.currency != params.currency or venue.has_boards:
            raise DataError(f"{text} {venue.currency} fees and limits; make {venue.currency} the --currency, or name another venue")
        if lowest.get(code, FEWEST_TICKS) * venue.ticks_per_unit < FEWEST_TICKS:
            raise DataError(f"{text} ticks too coarse for {lowest[code]:g}; name another venue, or leave it out")
    return bars


def _at(rows: pd.DataFrame, rates: pd.DataFrame, where: str, *, opens: bool = False) -> pd.Series:
    """Last rate of each row's currency on its date, or before it. Raises DataError: there is none, or it is too old."""
    sorted_rows, oldest = rows[["date", "currency"]].sort_values("date", kind="stable"), pd.Timedelta(days=MAX_AGE_DAYS)
    matched = pd.merge_asof(sorted_rows, rates, on="date", by="currency", tolerance=oldest, allow_exact_matches=not opens)
    if (lacking := matched[matched["rate"].isna()]).size:
        when = f"before {lacking['date'].iloc[0]:%Y-%m-%d}, for its opens" if opens else f"up to {lacking['date'].iloc[0]:%Y-%m-%d}"
        raise DataError(f"{where}: no rate of {lacking['currency'].iloc[0]} in the {MAX_AGE_DAYS} days {when}; add one")
    return matched["rate"].set_axis(sorted_rows.index)
