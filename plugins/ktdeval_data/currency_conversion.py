"""Convert prices to the account's currency with daily exchange rates that were already known at the
time of the price.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import pandas as pd

from ktdeval.cards import count
from ktdeval.errors import DataError, UsageError
from ktdeval.market import QUOTE_COLUMNS
from ktdeval_data.bar_column_checks import reading_of
from ktdeval_data.params import LongParams
from ktdeval_raw_markets.sources.raw_tables import RawMarket
from ktdeval_tables.dated_events import read_events

MAX_AGE_DAYS = 10  #: maximum age of an exchange rate in days
#: below this number of ticks, rounding a price to its venue's tick could move it by more than 0.1 %
MIN_TICKS = 500
_SLACK = 1 + 1e-6  # tolerance for prices in single precision; the same as in the check of bars
_MAX_NAMED = 8


def convert(raw: RawMarket, params: LongParams, mapping: Mapping[str, str]) -> RawMarket:
    """Return a market with prices and amounts in `params.currency`, with the exchange rates added
    as indices.

    Raises UsageError if an option is missing or has no effect; DataError if a rate is missing or
    invalid, or if a venue's rules do not fit the converted prices.
    """
    account = params.currency
    where = params.fx
    if account is None or where is None:
        raise UsageError(
            "--fx and --currency go together: give the file of rates and the currency of the"
            " account"
        )

    quoted = _other_currencies(raw, account, params)
    rates = read_events(
        where, "currency", "rate", mapping, _strip_texts, reading_of(params).beside("fx")
    )
    bars = _convert_bars(raw, quoted, rates, params)

    currencies = sorted(set(quoted.values()))
    days = raw.table.days.astype("datetime64[ns]")
    pairs = pd.MultiIndex.from_product([days, currencies], names=["date", "currency"])
    grid = pairs.to_frame(index=False)
    levels = grid.assign(code=grid["currency"] + account, close=_rates_at(grid, rates, where))

    notes = []
    unused = sorted(set(rates["currency"]).difference(currencies))
    if unused:
        notes.append(f"rates not needed: {', '.join(unused)}")

    for currency in currencies:
        codes = [code for code, own in quoted.items() if own == currency]
        named = ", ".join(codes[:_MAX_NAMED])
        if len(codes) > _MAX_NAMED:
            named += f" and {len(codes) - _MAX_NAMED} more"

        notes.append(
            f"prices of {count(len(codes), 'asset')} in {currency} are converted to {account} by the"
            " rates"
            f" of each day: {named}"
        )

    index_names = {}
    for currency in currencies:
        index_names[f"{currency}{account}"] = f"{account} for one {currency}"

    instruments = {}
    for code in raw.codes:
        instruments[code] = dataclasses.replace(raw.instrument(code), currency=account)

    return dataclasses.replace(
        raw,
        bars=bars,
        indices=pd.concat([raw.indices, levels[["date", "code", "close"]]], ignore_index=True),
        index_names=index_names,
        notes=(*raw.notes, *notes),
        instruments=instruments,
    )


def _other_currencies(raw: RawMarket, account: str, params: LongParams) -> dict[str, str]:
    """Return the currency of each code that is not quoted in the account's currency.

    Raises UsageError if all codes are quoted in the account's currency, or if the benchmark or
    intraday bars would have to be converted.
    """
    quoted = {}
    for code in raw.codes:
        currency = raw.instrument(code).currency
        if currency != account:
            quoted[code] = currency

    if not quoted:
        raise UsageError(
            f"--fx: all prices are already in {account}; leave --fx and --currency out"
        )
    if params.index_is_asset and raw.benchmark not in set(raw.codes).difference(quoted):
        raise UsageError(
            f"--benchmark: {raw.benchmark} is not in {account}; give its levels in {account} in "
            "a separate file"
        )

    minutes = sorted(set(raw.minutes.codes).intersection(quoted))
    if minutes:
        raise UsageError(
            "--minutes: bars within days are not converted; leave out those of"
            f" {', '.join(minutes[:_MAX_NAMED])}"
        )

    return quoted


def _strip_texts(column: pd.Series) -> pd.Series:
    return column.astype(str).str.strip()


def _convert_bars(
    raw: RawMarket, quoted: Mapping[str, str], rates: pd.DataFrame, params: LongParams
) -> pd.DataFrame:
    """Return the bars in the account's currency.

    A day's rate is known only at its close. The open is therefore converted at the last rate before
    the day, and high and low are widened to contain the converted open.
    """
    # The check of bars takes a flat bar for a halt. A flat bar may no longer be flat after
    # conversion, so halts are marked explicitly.
    halts = raw.table.in_source(raw.table.suspended)
    where = params.fx or ""
    bars = raw.bars.assign(traded=~halts, date=raw.bars["date"].astype("datetime64[ns]"))
    own = bars.assign(currency=bars["code"].astype(str).map(quoted)).dropna(subset="currency")
    now = _rates_at(own, rates, where)
    before = _rates_at(own[own["open"].notna()], rates, where, opens=True).reindex(own.index)
    # If the open lies outside the bar's range, the whole bar is converted at one rate: it stays
    # wrong, and the check finds it.
    wrong = (own["open"] > own["high"] * _SLACK) | (own["open"] * _SLACK < own["low"])
    before = before.mask(wrong, now)
    contained = (own["open"].clip(own["low"], own["high"]) * before).mask(wrong)
    # A day's last quotes are from its close.
    quotes = [name for name in QUOTE_COLUMNS if name in bars.columns]
    fields = ["open", "high", "low", "close", "amount", *quotes]
    converted = own[fields].mul(now, axis=0).assign(open=own["open"] * before)
    bars.loc[own.index, fields] = converted.assign(
        high=converted["high"].clip(contained), low=converted["low"].clip(upper=contained)
    )
    lowest = bars[bars["close"] > 0].groupby("code", observed=True)["close"].min()

    for code in quoted:
        venue = raw.venue(code)
        text = f"{code}: its prices are converted to {params.currency}, and venue {venue.name} has"
        if venue.currency != params.currency or venue.has_boards:
            raise DataError(
                f"{text} {venue.currency} fees and limits; make {venue.currency} the --currency, or"
                " name another venue"
            )
        if lowest.get(code, MIN_TICKS) * venue.ticks_per_unit < MIN_TICKS:
            raise DataError(
                f"{text} ticks too coarse for {lowest[code]:g}; name another venue, or leave it out"
            )

    return bars


def _rates_at(
    rows: pd.DataFrame, rates: pd.DataFrame, where: str, *, opens: bool = False
) -> pd.Series:
    """Return, for each row, the last rate of its currency up to the row's date or, with `opens`,
    before it.

    Raises DataError if there is no rate, or if it is too old.
    """
    sorted_rows = rows[["date", "currency"]].sort_values("date", kind="stable")
    oldest = pd.Timedelta(days=MAX_AGE_DAYS)
    matched = pd.merge_asof(
        sorted_rows,
        rates,
        on="date",
        by="currency",
        tolerance=oldest,
        allow_exact_matches=not opens,
    )

    lacking = matched[matched["rate"].isna()]
    if not lacking.empty:
        day = f"{lacking['date'].iloc[0]:%Y-%m-%d}"
        when = f"up to {day}"
        if opens:
            when = f"before {day}, for its opens"

        currency = lacking["currency"].iloc[0]
        raise DataError(
            f"{where}: no rate of {currency} in the {MAX_AGE_DAYS} days {when}; add one"
        )

    return matched["rate"].set_axis(sorted_rows.index)
