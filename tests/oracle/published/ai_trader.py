"""AI-Trader again: US hourly, A-shares daily and hourly, ten coins."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from . import accounts, common, random_symbols
from .accounts import Account, Price, Rules

Bars = dict[str, dict[str, tuple[float, float]]]


@dataclass
class Market:
    """What one board is executed on. `bars`: symbol → stamp → (open, close)."""

    days: list[str]
    close: Price
    honest: Price
    rules: Rules
    named: dict[str, Price]
    periods: float
    index: dict[str, Any]
    others: dict[str, Price]
    symbols: list[str]


def series_of(path: Path) -> tuple[str, dict[str, dict[str, str]]]:
    """Symbol and time series of a file in Alpha Vantage's form."""
    raw = json.loads(path.read_text(encoding="utf-8"))
    key = next(name for name in raw if name.startswith("Time Series"))
    return raw["Meta Data"]["2. Symbol"], raw[key]


def hourly_us(folder: Path) -> Bars:
    """US bars (stamp = start of the hour, 10:00 to 15:00) of the repository's files."""
    bars: Bars = {}
    for path in sorted(folder.glob("daily_prices_*.json")):
        symbol, series = series_of(path)
        bars[symbol] = {
            stamp: (float(bar["1. open"]), float(bar["4. close"])) for stamp, bar in series.items()
        }
    return bars


def csv_bars(table: pd.DataFrame, symbol: str, stamp: str) -> Bars:
    """Bars of a table with columns open and close."""
    bars: Bars = {}
    for row in table.to_dict("records"):
        bars.setdefault(row[symbol], {})[row[stamp]] = (float(row["open"]), float(row["close"]))
    return bars


def bar_price(bars: Bars, side: int, shift: int = 0) -> Price:
    """Open (0) or close (1) of the bar at a moment, or so many bars later."""
    order = {
        symbol: {s: n for n, s in enumerate(sorted(series))} for symbol, series in bars.items()
    }
    stamps = {symbol: sorted(series) for symbol, series in bars.items()}

    def lookup(symbol: str, moment: str) -> float | None:
        place = order.get(symbol, {}).get(moment)
        if place is None or not 0 <= place + shift < len(stamps[symbol]):
            return None
        return bars[symbol][stamps[symbol][place + shift]][side]

    return lookup


def day_price(bars: Bars, side: int, shift: int = 0) -> Price:
    """Open of the first or close of the last bar of a moment's day, or so many days later."""
    daily: Bars = {}
    for symbol, series in bars.items():
        for stamp in sorted(series):
            opened = daily.setdefault(symbol, {}).get(stamp[:10], series[stamp])[0]
            daily[symbol][stamp[:10]] = (opened, series[stamp][1])
    inner = bar_price(daily, side, shift)
    return lambda symbol, moment: inner(symbol, moment[:10])


def either(first: Price, second: Price) -> Price:
    """The first price, or the second where the first has none."""

    def lookup(symbol: str, moment: str) -> float | None:
        found = first(symbol, moment)
        return second(symbol, moment) if found is None else found

    return lookup


def broker_us(shares: float, price: float) -> float:
    """0.005 USD a share, at least 1 USD, at most 1 % of the order."""
    return min(max(0.005 * shares, 1.0), 0.01 * shares * price)


def buy_cn(shares: float, price: float) -> float:
    """5 bp, at least CNY 5."""
    return max(5.0, shares * price * 5e-4)


def sell_cn(shares: float, price: float) -> float:
    """15 bp, at least CNY 5."""
    return max(5.0, shares * price * 15e-4)


def hold(series: dict[str, tuple[float, float]], days: list[str], periods: float) -> dict[str, Any]:
    """Bought at the first day's first open, held to the last close; daily path."""
    first = min(stamp for stamp in series if stamp[:10] >= days[0])
    nav = [series[first][0]]
    for day in days:
        nav.append(series[max(stamp for stamp in series if stamp[:10] <= day)][1])
    return accounts.path_figures(nav, periods)


def equal_hold(bars: Bars, days: list[str], periods: float) -> dict[str, Any]:
    """Equal money in every symbol at the first open, held."""
    paths = []
    for series in bars.values():
        stamps = [stamp for stamp in series if stamp[:10] >= days[0]]
        if not stamps or min(stamps)[:10] != days[0]:
            continue
        opened = series[min(stamps)][0]
        path = [1.0]
        path += [series[max(s for s in series if s[:10] <= day)][1] / opened for day in days]
        paths.append(path)
    return accounts.path_figures(list(np.mean(paths, axis=0)), periods) | {"symbols": len(paths)}


def us_market(folder: Path, shared: Path, last: str) -> Market:
    """US hourly: honest is the open of the bar at the stamp; valued at the 15:00 bar's close."""
    bars = hourly_us(folder)
    daily = pd.read_csv(shared / "us_daily/nasdaq100_daily.csv.gz")
    raw = csv_bars(daily, "code", "date")
    _, index = series_of(folder / "Adaily_prices_QQQ.json")
    qqq = {stamp: (float(bar["1. open"]), float(bar["4. close"])) for stamp, bar in index.items()}
    days = sorted({stamp[:10] for stamp in bars["AAPL"] if "2025-10-01" <= stamp[:10] <= last})
    close = day_price(bars, 1)
    opened = bar_price(bars, 0)
    named = {
        "open_of_day": day_price(raw, 0),
        "open_of_bar": opened,
        "close_of_bar": bar_price(bars, 1),
        "close_of_previous_bar": bar_price(bars, 1, -1),
        "open_of_first_bar": day_price(bars, 0),
        "close_of_day": day_price(raw, 1),
        "close_of_previous_day": day_price(raw, 1, -1),
    }
    rules = Rules(buy_fee=broker_us, sell_fee=broker_us)
    index_figures = {"QQQ": hold(qqq, days, 252.0), "equal_weight": equal_hold(bars, days, 252.0)}
    others = {"close_of_bar": bar_price(bars, 1)}
    return Market(days, close, opened, rules, named, 252.0, index_figures, others, sorted(bars))


def limits_cn(raw: Bars, before: dict[tuple[str, str], float], hourly: Bars | None) -> Any:
    """Side that a price limit forbids: ±10 %, STAR ±20 %, of the previous close, in raw prices."""

    def forbidden(symbol: str, moment: str, price: float) -> str | None:
        day = moment[:10]
        base = before.get((symbol, day))
        if base is None:
            return None
        if hourly is not None:
            last = max(stamp for stamp in hourly[symbol] if stamp[:10] == day)
            price = price * raw[symbol][day][1] / hourly[symbol][last][1]
        width = 0.2 if symbol.startswith(accounts.STAR) else 0.1
        if price >= round(base * (1 + width), 2) - 0.005:
            return "buy"
        if price <= round(base * (1 - width), 2) + 0.005:
            return "sell"
        return None

    return forbidden


def cn_tables(folder: Path) -> tuple[Bars, dict[tuple[str, str], float], Bars]:
    """Raw daily bars, previous closes (as the exchange states them), hourly bars (stamp = end)."""
    base = folder / "A_stock/A_stock_data"
    daily = pd.read_csv(base / "daily_prices_sse_50.csv", dtype={"trade_date": str})
    daily["day"] = pd.to_datetime(daily["trade_date"]).dt.strftime("%Y-%m-%d")
    before = {(row["ts_code"], row["day"]): row["pre_close"] for row in daily.to_dict("records")}
    hourly = pd.read_csv(base / "A_stock_hourly.csv")
    hourly["stamp"] = hourly["trade_date"] + ":00"
    return csv_bars(daily, "ts_code", "day"), before, csv_bars(hourly, "stock_code", "stamp")


def index_cn(shared: Path) -> dict[str, tuple[float, float]]:
    """SSE 50 index."""
    table = pd.read_csv(shared / "a_share_sse50/index_sse50_daily.csv.gz")
    date = next(name for name in table.columns if "date" in name)
    return {
        str(row[date]): (float(row["open"]), float(row["close"]))
        for row in table.to_dict("records")
    }


def cn_rules(limits: Any) -> Rules:
    """Rules of the A-share market: T+1, lots, STAR minimum, limits, 5/15 bp, at least CNY 5."""
    return Rules(100, 200, True, True, True, limits, buy_cn, sell_cn)


def cn_daily(folder: Path, shared: Path) -> Market:
    """A-shares daily: the row has a date only; honest is the open of that day (others beside)."""
    raw, before, _ = cn_tables(folder)
    days = sorted(next(iter(raw.values())))
    rules = cn_rules(limits_cn(raw, before, None))
    named = {
        "open_of_day": bar_price(raw, 0),
        "close_of_day": bar_price(raw, 1),
        "close_of_previous_day": bar_price(raw, 1, -1),
        "open_of_next_day": bar_price(raw, 0, 1),
    }
    index = {
        "SSE50": hold(index_cn(shared), days, 252.0),
        "equal_weight": equal_hold(raw, days, 252.0),
    }
    others = {
        "close_of_day": bar_price(raw, 1),
        "open_of_next_day": either(bar_price(raw, 0, 1), bar_price(raw, 1)),
    }
    return Market(
        days, bar_price(raw, 1), bar_price(raw, 0), rules, named, 252.0, index, others, sorted(raw)
    )


def cn_hourly(folder: Path, shared: Path) -> Market:
    """A-shares hourly: stamps are ends of bars; honest is the close at the stamp."""
    raw, before, bars = cn_tables(folder)
    days = sorted(next(iter(raw.values())))
    rules = cn_rules(limits_cn(raw, before, bars))
    named = {
        "open_of_bar": bar_price(bars, 0),
        "close_of_bar": bar_price(bars, 1),
        "close_of_previous_bar": bar_price(bars, 1, -1),
        "open_of_next_bar": bar_price(bars, 0, 1),
        "open_of_day": day_price(raw, 0),
    }
    index = {
        "SSE50": hold(index_cn(shared), days, 252.0),
        "equal_weight": equal_hold(bars, days, 252.0),
    }
    others = {"open_of_next_bar": either(bar_price(bars, 0, 1), bar_price(bars, 1))}
    close = day_price(bars, 1)
    return Market(days, close, bar_price(bars, 1), rules, named, 252.0, index, others, sorted(bars))


def coin_bars(folder: Path) -> Bars:
    """Daily bars of the ten coins (UTC), without the last, partial day."""
    bars: Bars = {}
    for line in (folder / "crypto/crypto_merged.jsonl").read_text().splitlines():
        raw = json.loads(line)
        key = next(name for name in raw if name.startswith("Time Series"))
        bars[raw["Meta Data"]["2. Symbol"]] = {
            stamp: (float(bar["1. buy price"]), float(bar["4. sell price"]))
            for stamp, bar in raw[key].items()
            if "4. sell price" in bar
        }
    return bars


def coins(folder: Path) -> Market:
    """Coins: the row has a date only; honest is the open of that day; 10 bp a side."""
    bars = coin_bars(folder)
    days = sorted(s for s in bars["BTC-USDT"] if "2025-11-02" <= s <= "2025-11-15")

    def fee(amount: float, price: float) -> float:
        return amount * price * 1e-3

    rules = Rules(whole_shares=False, buy_fee=fee, sell_fee=fee)
    named = {
        "open_of_day": bar_price(bars, 0),
        "close_of_day": bar_price(bars, 1),
        "close_of_previous_day": bar_price(bars, 1, -1),
    }
    weights = {"BTC": 0.7456, "ETH": 0.1597, "XRP": 0.0520, "SOL": 0.0353, "ADA": 0.0076}
    cd5 = {
        day: tuple(
            sum(
                share * bars[f"{coin}-USDT"][day][side] / bars[f"{coin}-USDT"][days[0]][0]
                for coin, share in weights.items()
            )
            for side in (0, 1)
        )
        for day in days
    }
    index = {
        "CD5_bought_and_held": hold(cd5, days, 365.0),
        "BTC": hold(bars["BTC-USDT"], days, 365.0),
        "equal_weight": equal_hold(bars, days, 365.0),
    }
    others = {"close_of_day": bar_price(bars, 1)}
    return Market(
        days,
        bar_price(bars, 1),
        bar_price(bars, 0),
        rules,
        named,
        365.0,
        index,
        others,
        sorted(bars),
    )


def entrant(account: Account, market: Market, a_shares: bool) -> dict[str, Any]:
    """All figures of one account on its market."""
    declared = accounts.declared_nav(account, market.days, market.close)
    chained = accounts.declared_nav(account, market.days, market.close, chain=True)
    executed = accounts.gap(account, market.days, market.honest, market.close, market.rules)
    free = accounts.Rules(cash_bound=False, whole_shares=False)
    own = accounts.replay(account, market.days, accounts.own_fills(account), market.close, free)
    others = {}
    variants = {name: (price, market.rules) for name, price in market.others.items()}
    variants["refuse_whole_orders"] = (market.honest, replace(market.rules, refuse_whole=True))
    if a_shares:
        variants["without_star_minimum"] = (market.honest, replace(market.rules, star_minimum=0))
    for name, (price, rules) in variants.items():
        figures = accounts.gap(account, market.days, price, market.close, rules)
        figures.pop("nav")
        others[name] = figures
    nav = executed.pop("nav")
    return {
        "counts": accounts.counts(account),
        "days_without_row": [
            day for day in market.days if day not in {row.moment[:10] for row in account.rows}
        ],
        "consistency": accounts.consistency(account),
        "declared": accounts.path_figures(declared, market.periods) | {"nav": declared},
        "declared_surviving_chain": accounts.path_figures(chained, market.periods),
        "executed": executed | accounts.path_figures(nav, market.periods) | {"nav": nav},
        "executed_variants": others,
        "convention": accounts.conventions(account, market.named),
        "convention_in_file_order": accounts.conventions(account, market.named, by_id=False)[
            "matches"
        ],
        "violations": accounts.violations(account, a_shares),
        "random_symbols": random_symbols.shuffles(account, market),
        "costs_of_declared": accounts.cost_ladder(declared[-1], account.start_cash, own.traded),
    }


def convention_by_period(listed: dict[str, Account], market: Market, edge: str) -> dict[str, Any]:
    """Matches of all accounts before a day, and from it on."""
    found: dict[str, Any] = {"before": {"fills": 0}, "from": {"fills": 0, "unmatched": []}}
    for account in listed.values():
        figures = accounts.conventions(account, market.named)
        late = {tuple(row[:2]) for row in figures["unmatched"]}
        for place in account.trades:
            row = account.rows[place]
            part = found["before" if row.moment[:10] < edge else "from"]
            part["fills"] += 1
            price = accounts.fill_price(account, place)
            for name, lookup in market.named.items():
                quoted = lookup(row.symbol, row.moment)
                if quoted and abs(quoted - price) <= 5.1e-3 / abs(row.shares) + 1e-4:
                    part[name] = part.get(name, 0) + 1
            if (row.moment, row.symbol) in late:
                part["none"] = part.get("none", 0) + 1
    return {"edge": edge, **found}


def board(listed: dict[str, Account], market: Market, a_shares: bool = False) -> dict[str, Any]:
    """Figures of all entrants, their ranks, luck, and who is above the index."""
    entrants = {name: entrant(account, market, a_shares) for name, account in listed.items()}
    returns = {
        way: {name: figures[way]["total_return"] for name, figures in entrants.items()}
        for way in ("declared", "executed")
    }
    names = list(entrants)
    tau = stats.kendalltau(
        [returns["declared"][name] for name in names], [returns["executed"][name] for name in names]
    )
    above = {}
    for index, figures in market.index.items():
        above[index] = {
            way: sorted(name for name in names if returns[way][name] > figures["total_return"])
            for way in returns
        }
    paths = {
        way: {name: common.returns_of(figures[way]["nav"]) for name, figures in entrants.items()}
        for way in ("declared", "executed")
    }
    totals: dict[str, Any] = {}
    for figures in entrants.values():
        for key, value in figures["violations"].items():
            totals[key] = totals.get(key, 0) + value
    fills = sum(figures["convention"]["fills"] for figures in entrants.values())
    matches: dict[str, int] = {}
    for figures in entrants.values():
        for key, value in figures["convention"]["matches"].items():
            matches[key] = matches.get(key, 0) + value
    n_days = len(market.days)
    chances = {name: figures["random_symbols"]["p"] for name, figures in entrants.items()}
    return {
        "valued_days": [market.days[0], market.days[-1], n_days],
        "entrant_count": len(entrants),
        "decisions": sum(figures["counts"]["decisions"] for figures in entrants.values()),
        "trades": sum(figures["counts"]["trades"] for figures in entrants.values()),
        "gainers": {
            way: sum(value > 0 for value in found.values()) for way, found in returns.items()
        },
        "gainers_at_bp": {
            bp: sum(f["costs_of_declared"]["net_return"][bp] > 0 for f in entrants.values())
            for bp in ("0", "1", "5", "10")
        },
        "kendall_tau": tau.statistic,
        "order": {
            way: sorted(names, key=lambda name, way=way: -returns[way][name]) for way in returns
        },
        "index": market.index,
        "above_index": above,
        "fills": fills,
        "convention_totals": matches,
        "violation_totals": totals,
        "random_symbols_holm": common.holm({k: v for k, v in chances.items() if v is not None}),
        "luck_declared": common.luck(paths["declared"], market.periods),
        "luck_executed": common.luck(paths["executed"], market.periods),
        "power": {
            "days_for_1": common.days_needed(1.0, market.periods),
            "days_for_2": common.days_needed(2.0, market.periods),
            "detectable": common.detectable(n_days, market.periods),
        },
        "entrants": entrants,
    }


def accounts_of(folder: Path) -> dict[str, Account]:
    """Accounts in the folders of a board."""
    return {
        path.parent.parent.name: accounts.read_account(path)
        for path in sorted(folder.glob("*/position/position.jsonl"))
    }


def adjusted_files(folder: Path, earlier: Path, shared: Path) -> dict[str, Any]:
    """US files whose prices are not the raw ones.

    against_raw: median and last ratio of the 15:00 bar's close to the raw close of the day, where
    the median is beyond 7e-4. against_earlier: ratio to the same bar in files fetched on 6 November.
    """
    bars, before = hourly_us(folder), hourly_us(earlier)
    raw = csv_bars(pd.read_csv(shared / "us_daily/nasdaq100_daily.csv.gz"), "code", "date")
    found: dict[str, Any] = {"against_raw": {}, "against_earlier": {}}
    for symbol, series in bars.items():
        days = sorted({stamp[:10] for stamp in series} & set(raw.get(symbol, {})))
        ratios = [series[f"{day} 15:00:00"][1] / raw[symbol][day][1] for day in days]
        if days and abs(np.median(ratios) - 1) > 7e-4:
            found["against_raw"][symbol] = [float(np.median(ratios)), ratios[-1], len(days)]
        stamps = sorted(set(series) & set(before.get(symbol, {})))
        ratio = series[stamps[-1]][1] / before[symbol][stamps[-1]][1] if stamps else 1.0
        if abs(ratio - 1) > 1e-4:
            found["against_earlier"][symbol] = [ratio, stamps[-1]]
    return found


def valued_too_low(account: Account, market: Market, ratios: dict[str, list[Any]]) -> float:
    """Money that the last valuation lacks because later dividends were taken out of the closes."""
    held = account.rows[-1].held
    total = 0.0
    for symbol, (ratio, _) in ratios.items():
        close = market.close(symbol, market.days[-1]) or 0.0
        total += held.get(symbol, 0.0) * close * (1 / ratio - 1)
    return total


def dividends_cn(raw: Bars, before: dict[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Cash a share on ex-days: yesterday's close less the stated previous close."""
    found = {}
    for symbol, series in raw.items():
        days = sorted(series)
        for yesterday, day in pairwise(days):
            drop = series[yesterday][1] - before[symbol, day]
            if abs(drop) > 0.005:
                found[symbol, day] = drop
    return found


def missed_dividends(account: Account, paid: dict[tuple[str, str], float]) -> float:
    """Money of ex-days not credited: shares held at the end of the day before."""
    total = 0.0
    for (symbol, day), cash in paid.items():
        rows = [row for row in account.rows if row.moment[:10] < day]
        total += rows[-1].held.get(symbol, 0.0) * cash
    return total
