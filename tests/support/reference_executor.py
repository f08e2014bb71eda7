"""A slow simulator written from the rules alone: plain Python, Decimal CNY, parcels of shares with the day they were bought.

It shares no code and no representation with `ktdeval.trading`: money is Decimal yuan, a holding is a list of parcels, and every
figure is computed from the raw bars when it is needed. Where it and the engine agree, the rules are what both implement.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, getcontext

getcontext().prec = 80

FEN = Decimal("0.01")
TICK = Decimal("0.0001")
BILLIONTH = Decimal("0.000000001")
BOARD_LIMIT = {"main": Decimal("0.10"), "chinext": Decimal("0.20"), "star": Decimal("0.20"), "bse": Decimal("0.30")}


@dataclass
class Bar:
    """One asset on one day; prices are None when it has no bar."""

    open: Decimal | None
    close: Decimal | None
    volume: int
    factor: Decimal
    member: bool


@dataclass
class Asset:
    board: str
    bars: list[Bar]


@dataclass
class Rules:
    buy_bps: Decimal
    sell_bps: Decimal
    min_fee: Decimal
    lot: int
    star_min: int
    buffer: Decimal
    max_positions: int
    max_weight: Decimal


@dataclass
class Instruction:
    asset: int | None
    side: str
    weight: Decimal | None
    shares: int | None


@dataclass
class Result:
    status: str
    rule: str | None
    shares: int = 0
    price: Decimal = Decimal(0)
    notional: Decimal = Decimal(0)
    fee: Decimal = Decimal(0)


@dataclass
class Parcel:
    shares: int
    bought_on: int


@dataclass
class BrokerState:
    cash: Decimal
    parcels: dict[int, list[Parcel]] = field(default_factory=dict)
    paid_in_lieu: Decimal = Decimal(0)


def fen(amount: Decimal) -> Decimal:
    return amount.quantize(FEN, ROUND_HALF_UP)


def settled_factors(asset: Asset) -> list[Decimal]:
    """The factor, with moves of up to one part in 100,000 from the last accepted value ignored."""
    accepted = [asset.bars[0].factor]
    for bar in asset.bars[1:]:
        last = accepted[-1]
        accepted.append(last if abs(bar.factor - last) <= Decimal("0.00001") * last else bar.factor)
    return accepted


def ratio_on(asset: Asset, day: int) -> Decimal:
    if day == 0:
        return Decimal(1)
    factors = settled_factors(asset)
    return (factors[day] / factors[day - 1]).quantize(BILLIONTH, ROUND_HALF_EVEN)


def mark_at_close(asset: Asset, day: int) -> Decimal | None:
    """Last close, carried through suspended days; in the terms of `day`."""
    if day < 0:
        return None
    close = asset.bars[day].close
    return close if close is not None else reference_price(asset, day)


def reference_price(asset: Asset, day: int) -> Decimal | None:
    """The previous mark in today's terms, cut to 1/10,000 yuan where the factor changed."""
    previous = mark_at_close(asset, day - 1)
    if previous is None:
        return None
    ratio = ratio_on(asset, day)
    return previous if ratio == 1 else (previous / ratio).quantize(TICK, ROUND_FLOOR)


def trades(asset: Asset, day: int) -> bool:
    return asset.bars[day].open is not None and asset.bars[day].volume > 0


def price_at_open(asset: Asset, day: int) -> Decimal:
    """What a holding is worth at the open: the open, or where nothing trades the reference price."""
    price = asset.bars[day].open if trades(asset, day) else reference_price(asset, day)
    assert price is not None
    return price


def at_limit(asset: Asset, day: int, rules: Rules, sign: int) -> bool:
    """Is the open so near the upper (1) or lower (-1) limit, or beyond it, that it can't be bought or sold?"""
    reference = reference_price(asset, day)
    limit = BOARD_LIMIT[asset.board] - rules.buffer
    return reference is not None and sign * (price_at_open(asset, day) - reference * (1 + sign * limit)) >= 0


def held_shares(book: BrokerState, asset: int) -> int:
    return sum(parcel.shares for parcel in book.parcels.get(asset, []))


def sellable_shares(book: BrokerState, asset: int, day: int) -> int:
    return sum(parcel.shares for parcel in book.parcels.get(asset, []) if parcel.bought_on < day)


def overnight(book: BrokerState, market: list[Asset], day: int) -> None:
    """Factor changes: whole shares are kept, the rest of the value is paid out."""
    for number in list(book.parcels):
        asset = market[number]
        ratio = ratio_on(asset, day)
        if ratio == 1:
            continue
        before = held_shares(book, number)
        after = int((before * ratio).to_integral_value(ROUND_FLOOR))
        old_price, mark = mark_at_close(asset, day - 1), reference_price(asset, day)
        assert old_price is not None
        assert mark is not None
        # Worth at the ex-price itself; only where nothing trades that is the mark, which has whole ticks.
        worth = after * old_price / ratio if trades(asset, day) else after * mark
        paid = fen(before * old_price) - fen(worth)
        book.cash += paid
        book.paid_in_lieu += paid
        book.parcels[number] = [Parcel(after, day - 1)]
        if after == 0:
            del book.parcels[number]


def net_asset_value(book: BrokerState, market: list[Asset], day: int, at_open: bool) -> Decimal:
    total = book.cash
    for number in book.parcels:
        price = price_at_open(market[number], day) if at_open else mark_at_close(market[number], day)
        assert price is not None
        total += fen(held_shares(book, number) * price)
    return total


def trade(book: BrokerState, market: list[Asset], day: int, instructions: list[Instruction], rules: Rules) -> list[Result]:
    """Fill one list of orders at the opens of `day`."""
    nav = net_asset_value(book, market, day, at_open=True)
    results: dict[int, Result] = {}
    for wanted_side in ("SELL", "BUY"):
        for place, instruction in enumerate(instructions):
            if instruction.side == wanted_side:
                fill = sell if wanted_side == "SELL" else buy
                results[place] = (
                    Result("rejected", "schema") if malformed(instruction) else fill(book, market, day, instruction, rules, nav)
                )
    return [results.get(place, Result("rejected", "schema")) for place in range(len(instructions))]


def malformed(instruction: Instruction) -> bool:
    if (instruction.weight is None) == (instruction.shares is None):
        return True
    if instruction.weight is not None:
        return instruction.weight.is_nan() or not 0 <= instruction.weight <= 1
    return instruction.shares < 1


def target_shares(weight: Decimal, nav: Decimal, price: Decimal) -> int:
    return int((weight.quantize(BILLIONTH, ROUND_HALF_EVEN) * nav / price).to_integral_value(ROUND_FLOOR))


def whole_lots(shares: int, lot: int) -> int:
    lots = 0 if shares < 0 else shares // lot
    return lots * lot


def sell(book: BrokerState, market: list[Asset], day: int, instruction: Instruction, rules: Rules, nav: Decimal) -> Result:
    if instruction.asset is None:
        return Result("rejected", "universe")
    asset, held = market[instruction.asset], held_shares(book, instruction.asset)
    if held == 0:
        return Result("rejected", "holding")
    if not trades(asset, day):
        return Result("rejected", "suspended")
    if at_limit(asset, day, rules, -1):
        return Result("rejected", "price_limit")
    price = price_at_open(asset, day)
    if instruction.shares is not None:
        wanted = instruction.shares
    else:
        target = target_shares(instruction.weight, nav, price)
        if target >= held:
            return Result("rejected", "target")
        wanted = held - whole_lots(target, rules.lot)
    sellable = sellable_shares(book, instruction.asset, day)
    if sellable == 0:
        return Result("rejected", "t_plus_1")
    sold = min(wanted, sellable)
    odd_remainder = sellable % rules.lot
    if sold % rules.lot not in (0, odd_remainder):
        return Result("rejected", "lot")
    notional = fen(sold * price)
    fee = max(rules.min_fee, fen(notional * rules.sell_bps / 10_000))
    if book.cash + notional - fee < 0:
        return Result("rejected", "cash")
    book.cash += notional - fee
    take_from_parcels(book, instruction.asset, sold, day)
    if sold == wanted:
        return Result("filled", None, sold, price, notional, fee)
    return Result("partially_filled", "t_plus_1" if held > sellable else "holding", sold, price, notional, fee)


def take_from_parcels(book: BrokerState, number: int, shares: int, day: int) -> None:
    for parcel in book.parcels[number]:
        if parcel.bought_on < day:
            taken = min(parcel.shares, shares)
            parcel.shares -= taken
            shares -= taken
    assert shares == 0
    book.parcels[number] = [parcel for parcel in book.parcels[number] if parcel.shares]
    if not book.parcels[number]:
        del book.parcels[number]


def buy(book: BrokerState, market: list[Asset], day: int, instruction: Instruction, rules: Rules, nav: Decimal) -> Result:
    if instruction.asset is None or not market[instruction.asset].bars[day].member:
        return Result("rejected", "universe")
    asset, held = market[instruction.asset], held_shares(book, instruction.asset)
    if not trades(asset, day):
        return Result("rejected", "suspended")
    if at_limit(asset, day, rules, 1):
        return Result("rejected", "price_limit")
    if held == 0 and len(book.parcels) >= rules.max_positions:
        return Result("rejected", "position_limit")
    price = price_at_open(asset, day)
    if instruction.shares is not None:
        wanted = instruction.shares
    else:
        target = target_shares(instruction.weight, nav, price)
        if target <= held:
            return Result("rejected", "target")
        wanted = whole_lots(whole_lots(target, rules.lot) - held, rules.lot)
    if (held + wanted) * price > rules.max_weight * nav:
        return Result("rejected", "weight_limit")
    smallest = max(rules.lot, rules.star_min) if asset.board == "star" else rules.lot
    if wanted % rules.lot != 0 or wanted < smallest:
        return Result("rejected", "lot")
    bought = wanted
    if bought > book.cash / price:
        bought = whole_lots(int(book.cash / price) + rules.lot, rules.lot)
    while bought >= smallest and cost(bought, price, rules) > book.cash:
        bought -= rules.lot
    if bought < smallest:
        return Result("rejected", "cash")
    book.cash -= cost(bought, price, rules)
    book.parcels.setdefault(instruction.asset, []).append(Parcel(bought, day))
    notional = fen(bought * price)
    status, rule = ("filled", None) if bought == wanted else ("partially_filled", "cash")
    return Result(status, rule, bought, price, notional, cost(bought, price, rules) - notional)


def cost(shares: int, price: Decimal, rules: Rules) -> Decimal:
    notional = fen(shares * price)
    return notional + max(rules.min_fee, fen(notional * rules.buy_bps / 10_000))
