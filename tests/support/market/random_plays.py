"""Random markets in the form of the engine and of the slow broker, and random orders on them, also
with limits.
"""

from __future__ import annotations

import dataclasses
import random
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from ktdeval.market.snapshots.snapshot import Board, Instrument, MarketSnapshot, board_of
from ktdeval.market.venues.venue import Fees, Shorting, Venue, find_venue
from ktdeval.testing import snapshot_of_days
from ktdeval.trading.types import Action, Order, TradingConfig
from support.market import reference_broker as slow

A_SHARES = ("000002.SZ", "300003.SZ", "600001.SH", "600006.SH", "688004.SH", "830005.BJ")
LIMITS = {Board.MAIN: "0.10", Board.CHINEXT: "0.20", Board.STAR: "0.20", Board.BSE: "0.30"}
N_DAYS = 7
AROUND_LIMITS = (
    *(
        "-0.3",
        "-0.295",
        "-0.2",
        "-0.195",
        "-0.1",
        "-0.095",
        "-0.0949",
        "0.0949",
        "0.095",
        "0.1",
        "0.195",
        "0.295",
        "0.3",
    ),
    *("-0.03", "-0.01", "0", "0.01", "0.03") * 6,
)


class Play(NamedTuple):
    """A market in both forms, and the account that trades on it."""

    series: list[slow.Series]
    market: MarketSnapshot
    config: TradingConfig
    steps: list[int]  #: of a share of each asset


def number(value: Any) -> Any:
    return None if value is None else Decimal(str(value))


def random_venue(chance: random.Random, name: str) -> Venue:
    steps, ticks = chance.choice([(1, 10_000), (10, 1_000), (10_000, 10_000), (10**8, 10**8)])
    levied = chance.random() < 0.5
    fees = Fees(
        buy_bps=chance.choice([0.0, 5.0, 12.5]),
        sell_bps=chance.choice([0.0, 5.0, 12.5]),
        minimum=chance.choice([0.0, 0.0, 1.0]),
        per_unit=chance.choice([0.0, 0.005]) if levied else 0.0,
        maximum_bps=chance.choice([None, 100.0]) if levied else None,
        sell_levy_bps=0.278 if levied else 0.0,
        sell_levy_per_unit=0.000166 if levied else 0.0,
        sell_levy_most=chance.choice([None, 0.05]) if levied else None,
    )
    initial, maintenance = chance.choice([(50.0, 30.0), (0.0, 0.0), (100.0, 5.0)])
    borrow = chance.choice([0.0, 3.0, 250.0])
    short = Shorting(
        borrow_pct_a_year=borrow, initial_margin_pct=initial, maintenance_margin_pct=maintenance
    )

    return dataclasses.replace(
        find_venue("frictionless"),
        name=name,
        ticks_per_unit=ticks,
        steps_per_unit=steps,
        lot_steps=chance.choice([1, 1, 10, 25]),
        minimum_notional=chance.choice([0.0, 0.0, 5.0]),
        settlement_lock=chance.random() < 0.3,
        fill=chance.choice(["next_open", "next_open", "next_close", "same_close"]),
        fees=fees,
        short=chance.choice([None, short, short]),
    )


def house_of(venue: Venue) -> slow.House:
    short = venue.short
    step = 1 / Decimal(venue.steps_per_unit)
    return slow.House(
        tick=1 / Decimal(venue.ticks_per_unit),
        step=step,
        lot=venue.lot_steps * step,
        smallest=number(venue.minimum_notional),
        locks=venue.settlement_lock,
        fill=venue.fill,
        **{name: number(value) for name, value in dataclasses.asdict(venue.fees).items()},
        initial=number(short.initial_margin_pct) if short else None,
        maintenance=number(short.maintenance_margin_pct if short else 0),
        borrow=number(short.borrow_pct_a_year if short else 0),
    )


def a_share_house(code: str, config: TradingConfig) -> slow.House:
    """Rules of an A-share: those of its venue with the costs, lots and limits of the config."""
    board = board_of(code)
    lot = Decimal(config.lot_shares)

    return dataclasses.replace(
        house_of(find_venue("a_share")),
        lot=lot,
        buy_bps=number(config.buy_fee_bps),
        sell_bps=number(config.sell_fee_bps),
        minimum=number(config.min_fee_cny),
        min_buy=max(lot, Decimal(config.star_min_shares)) if board is Board.STAR else lot,
        limit=Decimal(LIMITS[board]) - number(config.limit_buffer_pct) / 100,
    )


def random_series(chance: random.Random, house: slow.House) -> slow.Series:
    """A random history: factor changes, halts, membership changes; of A-shares with moves on and
    around the limits.
    """
    is_a_share = house.limit is not None
    series = slow.Series(house, [], [], [], [], [])
    price = Decimal(chance.choice(["0.02", "0.73", "9.5", "88.88", "412.25", "1405"]))
    factor = Decimal(chance.choice(["1", "3.7"]))
    decimals = Decimal(chance.choice(["0.01", "0.01", "0.0001"]))
    listed_on = chance.choice([0, 0, 0, 0, 2])
    ratios = ["1"] * 6 + ["1.000003", "1.00002", "1.0131", "1.3", "2", "3", "0.25", "0.1", "0.003"]

    for day in range(N_DAYS):
        ratio = (
            Decimal(chance.choice(ratios if price < 10_000 else ["1", "2"])) if day else Decimal(1)
        )
        factor *= ratio
        if is_a_share:
            moves = chance.choice(AROUND_LIMITS), chance.choice(["-0.02", "0", "0.015"])
            tick = decimals
        else:
            moves = (
                chance.choice(["-0.5", "-0.1", "0", "0.01", "0.9"]),
                chance.choice(["-0.1", "-0.01", "0", "0.1"]),
            )
            tick = max(house.tick, Decimal("0.01") if price > 1 else Decimal("0.0001"))

        price /= ratio
        prices = []
        for move in moves:
            price = max(price * (1 + Decimal(move)), tick).quantize(tick)
            prices.append(price)

        kinds = ["none", "halt"] if is_a_share else ["none", "halt", "close"]
        kind = "none" if day < listed_on else chance.choice(["bar"] * 9 + kinds)
        series.opens.append(prices[0] if kind in ("bar", "halt") else None)
        series.closes.append(None if kind == "none" else prices[1])
        series.volumes.append({"bar": 100, "none": None, "halt": 0, "close": None}[kind])
        series.factors.append(factor)
        series.members.append(chance.random() < 0.9)

    return series


def random_play(chance: random.Random, a_shares: bool) -> Play:
    if a_shares:
        config = TradingConfig(
            initial_cash=chance.choice((1, 8, 21, 3_000, 150_000, 1_000_000)),
            buy_fee_bps=chance.choice((5.0, 0.0, 2.5, 100.0)),
            sell_fee_bps=chance.choice((15.0, 0.0, 8.5)),
            min_fee_cny=chance.choice((5.0, 5.0, 0.0, 0.01)),
            lot_shares=chance.choice((100, 100, 1, 30)),
            star_min_shares=chance.choice((200, 1, 250)),
            limit_buffer_pct=chance.choice((0.5, 0.0, 0.51)),
            max_positions=chance.choice((20, 20, 2)),
            max_weight=chance.choice((0.1, 0.3, 1.0, 1.0)),
        )
        codes = A_SHARES
        houses = [a_share_house(code, config) for code in A_SHARES]
        more = {}
    else:
        limits = {"max_positions": chance.choice([2, 50]), "max_weight": chance.choice([0.3, 1.0])}
        config = TradingConfig(initial_cash=chance.choice([300, 10_000, 1_000_000]), **limits)
        venues = [random_venue(chance, "one"), random_venue(chance, "two")]
        of_asset = [chance.choice(venues) for _ in range(4)]
        codes = tuple(f"A{number}" for number in range(4))
        houses = [house_of(venue) for venue in of_asset]
        instruments = tuple(Instrument("stock", "USD", venue.name) for venue in of_asset)
        more = {"instruments": instruments, "rules": {venue.name: venue for venue in venues}}

    series = [random_series(chance, house) for house in houses]
    grids = {}
    for name in ("opens", "closes", "volumes", "factors", "members"):
        by_day = zip(*(getattr(one, name) for one in series), strict=True)
        grids[name] = [list(values) for values in by_day]

    market = snapshot_of_days(
        codes,
        grids["opens"],
        grids["closes"],
        factor=grids["factors"],
        volume=grids["volumes"],
        member=grids["members"],
        **more,
    )
    days = np.cumsum([0, *(chance.choice([1, 1, 3, 4]) for _ in range(N_DAYS - 1))]).astype(
        "datetime64[D]"
    )

    return Play(
        series,
        dataclasses.replace(market, days=days),
        config,
        [int(1 / house.step) for house in houses],
    )


def with_limits(chance: random.Random, play: Play) -> Play:
    """A play whose bars have extremes, some of them unknown, and whose task takes limits."""
    for one in play.series:
        tick = one.house.tick
        for opened, closed in zip(one.opens, one.closes, strict=True):
            known = [price for price in (opened, closed) if price is not None]
            one.highs.append(None)
            one.lows.append(None)
            if len(known) == 2 and chance.random() < 0.9:
                high = max(known) * Decimal(chance.choice(("1", "1.001", "1.05", "1.4")))
                low = min(known) * Decimal(chance.choice(("1", "0.999", "0.95", "0.6")))
                one.highs[-1] = high.quantize(tick)
                one.lows[-1] = max(low.quantize(tick), tick)

    grids = {}
    for field, name in (("high", "highs"), ("low", "lows")):
        by_day = zip(*(getattr(one, name) for one in play.series), strict=True)
        grids[field] = np.array([list(values) for values in by_day], dtype=float)

    return play._replace(
        market=dataclasses.replace(play.market, id="", **grids),
        config=dataclasses.replace(play.config, limit_orders=True),
    )


def random_orders(chance: random.Random, play: Play) -> Action:
    """Sensible and senseless orders in like measure."""
    orders = []
    for _ in range(chance.randrange(6)):
        asset = chance.choice((None, *range(len(play.series)), *range(len(play.series))))
        side: Any = chance.choice(("BUY", "BUY", "SELL"))
        house = play.series[asset or 0].house
        steps = play.steps[asset or 0]
        if chance.random() < 0.5:
            sold_short = (-1.0, -0.5, -0.31, -0.1, -0.05) if house.initial is not None else (-0.1,)
            near = (
                0.0,
                1e-9,
                0.0003,
                0.05,
                0.0999,
                0.1,
                0.1001,
                0.25,
                0.5,
                0.7,
                1.0,
                chance.randrange(10**6) / 10**6,
            )
            orders.append(
                Order(
                    asset,
                    side,
                    0.5,
                    "",
                    chance.choice(near if chance.random() < 0.7 else sold_short),
                )
            )
        elif chance.random() < 0.03:
            form = chance.choice(
                (
                    (None, None),
                    (0.1, -1),
                    (float("nan"), None),
                    (1.5, None),
                    (None, 0),
                    ("HOLD", 100),
                )
            )
            if form[0] == "HOLD":
                side = "HOLD"
                form = (None, 100)

            orders.append(Order(asset, side, 0.5, "", *form))
        else:
            lot = int(house.lot * steps)
            round_lots = max(1, steps // chance.choice([1, 10, 500])) // lot * lot or lot
            lots = round_lots * chance.choice((1, 2, 7, 40, 1_000))
            shares = chance.choice(
                (lots, lots, lots, lots + 1, 30, 99, 130, 10**30, chance.randrange(1, 2_000))
            )
            if chance.random() < 0.3:  # sized when it was decided
                weight = chance.choice((-0.1, 0.0, 0.05, 0.1, 0.25, 1.0))
                orders.append(
                    Order(
                        asset, side, 0.5, "", weight, chance.choice((0, lots, lots, lots + 1, 30))
                    )
                )
            else:
                orders.append(Order(asset, side, 0.5, "", None, shares))

    return tuple(orders)


def with_narrow_weights(chance: random.Random, play: Play) -> Play:
    """A play whose limit of one name is below the weights that are sold short."""
    narrow = chance.choice((0.02, 0.05, 0.1, 0.3))
    return play._replace(config=dataclasses.replace(play.config, max_weight=narrow))


def sold_short(chance: random.Random, play: Play, action: Action) -> Action:
    """The orders, some of them short sales that were sized when they were decided, or purchases
    beyond a short.
    """
    orders = []
    for order in action:
        if order.asset is None or chance.random() < 0.5:
            orders.append(order)
            continue

        house = play.series[order.asset].house
        lot = int(house.lot * play.steps[order.asset])
        shares = lot * chance.choice((1, 3, 20, 400))
        if chance.random() < 0.6:
            weight = chance.choice((-0.01, -0.05, -0.051, -0.1, -0.25))
            orders.append(replace(order, side="SELL", target_weight=weight, shares=shares))
        else:
            orders.append(replace(order, side="BUY", target_weight=None, shares=shares))

    return tuple(orders)


def with_shorts(chance: random.Random, play: Play, holdings: dict[int, int]) -> dict[int, int]:
    """The holdings, most of them sold short where the venue allows it."""
    turned = {}
    for asset, steps in holdings.items():
        allows_shorts = play.series[asset].house.initial is not None
        if allows_shorts and chance.random() < 0.7:
            steps = -steps
        turned[asset] = steps

    return turned


def random_holdings(chance: random.Random, play: Play) -> dict[int, int]:
    """Shares held at the start, odd lots among them; only of names that have had a price."""
    sizes = (0, 0, 0, 1, 30, 100, 130, 200, 2_450, 10_000)
    priced = [asset for asset, one in enumerate(play.series) if one.closes[0] is not None]
    held = {asset: chance.choice(sizes) * chance.choice((1, play.steps[asset])) for asset in priced}

    return {asset: shares for asset, shares in held.items() if shares}


def asked(
    play: Play, action: Action
) -> list[tuple[int | None, str, Decimal | None, Decimal | None]]:
    """Orders as the slow broker takes them: asset, side, weight, quantity."""
    quantities = [
        None if one.shares is None else Decimal(one.shares) / play.steps[one.asset or 0]
        for one in action
    ]
    return [
        (one.asset, one.side, number(one.target_weight), quantity)
        for one, quantity in zip(action, quantities, strict=True)
    ]


def limited(chance: random.Random, play: Play, row: int, action: Action) -> Action:
    """The orders with limits in and around the day's bar, in prices of the day before."""
    orders = []
    for order in action:
        if order.asset is None or chance.random() < 0.3:
            orders.append(order)
            continue

        series = play.series[order.asset]
        price = series.open_price(row)
        extremes = [one for one in (series.highs[row], series.lows[row]) if one is not None]
        moved = price * Decimal(chance.choice(("0.5", "0.9", "0.97", "1", "1.03", "1.1", "2")))
        price = chance.choice([price, moved, moved, *extremes])
        price *= chance.choice((series.ratios[row], series.ratios[row], Decimal(1)))
        ticks = int(price / series.house.tick) + chance.choice((-1, 0, 0, 1))
        orders.append(replace(order, limit_ticks=max(0, ticks)))

    return tuple(orders)


def limits_of(play: Play, action: Action) -> list[Decimal | None]:
    """Limits of orders as the slow broker takes them."""
    limits: list[Decimal | None] = []
    for order in action:
        limit = None
        if order.limit_ticks is not None and order.asset is not None:
            limit = order.limit_ticks * play.series[order.asset].house.tick
        limits.append(limit)

    return limits
