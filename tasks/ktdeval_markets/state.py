"""State shown at a close: the account as booked, and a table of the market's assets with figures of their prices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ktdeval.attribution import filled_forward
from ktdeval.harness import StanceRule, Standing
from ktdeval.market import FloatArray, MarketSnapshot, MarketView
from ktdeval.masking import AssetRef, DayRef, Lens, OwnFigure, Payload, Price, Shares, ShownDocument, TextMask, figure, table
from ktdeval.ties import first_of, grouped, places
from ktdeval.trading import MarketRules, OrderRecord, Scale, StepRecord, TradingConfig, bar_of_fill

LOOKBACK_DAYS, LIQUIDITY_DAYS, VOLATILITY_DAYS = 60, 20, 20
RETURN_DAYS = (1, 5, 20, 60)
MOST_CHARACTERS = 1_000  #: of a document's text
_PARTS: tuple[Literal["open", "high", "low", "close"], ...] = ("open", "high", "low", "close")
_FIGURES = (*(f"return_{days}d_pct" for days in RETURN_DAYS), "volatility_20d_pct", "drawdown_60d_pct")
ASSET_COLUMNS = ("stock_id", "kind", "status", *_PARTS, "volume", *_FIGURES)
POSITION_COLUMNS = ("stock_id", "shares", "locked_shares", "last_close", "value", "weight", "member", "status")
ORDER_COLUMNS = ("stock_id", "side", "target_weight", "shares", "status", "rule", "filled_shares", "fill_price", "cost")
NEWS_COLUMNS = ("day", "source", "kind", "stock_ids", "title", "text")
INTRADAY_COLUMNS = ("stock_id", "day", "session_pct", *_PARTS, "volume")
SESSION_DAYS = 10  #: how many days back the last session is looked for
LEAST_PARTS, MOST_PARTS, PARTS_DAYS = 4, 20, 252  #: Parts of a session; days before the first decision whose shortest gives them
HISTORY_COLUMNS = ("stock_id", "day", *_PARTS, "volume")
OUTCOME_COLUMNS = ("stock_id", "next_day", "change_pct", "label")
CHARGE_COLUMNS = ("stock_id", "kind", "shares", "cash")


@dataclass(frozen=True)
class Stage:
    """Parts that do not change within an episode."""

    lens: Lens
    snapshot: MarketSnapshot
    rules: MarketRules
    trading: TradingConfig
    texts: TextMask
    shown: int  #: most assets in the table
    news: int  #: most documents shown; 0: none, and no word of them
    news_days: int  #: days that they may be old
    intraday: int = 0  #: most assets whose last session is shown; 0: none, and no word of it
    history: int = 0  #: most bars shown of each asset; 0: none, and no word of them
    only: frozenset[int] = frozenset()  #: columns of the assets that the task is about; empty: all
    _parts: dict[int, int] = field(default_factory=dict)

    def money(self, minor: int) -> Payload:
        """An amount of the account in units of its currency."""
        return OwnFigure(minor / self.rules.minor_per_unit)

    def session_parts(self, asset: int) -> int:
        """Parts that an asset's sessions are shown in, one number for the episode: by their number, bars would tell short days."""
        if asset not in self._parts:
            base_row = self.lens.base_row
            view, code = self.snapshot.as_of(base_row), self.snapshot.codes[asset]
            counts = [len(view.minutes(code, day)) for day in range(max(0, base_row - PARTS_DAYS + 1), base_row + 1)]
            fewest = min((count for count in counts if count), default=MOST_PARTS)
            self._parts[asset] = min(max(fewest, LEAST_PARTS), MOST_PARTS)
        return self._parts[asset]

    def rank(self, code: str) -> int:
        """Rank of an asset in the episode's own order, which is independent of its code."""
        return self.lens.rank[self.snapshot.asset_index[code]]

    def scale(self, code: str) -> tuple[int, Scale]:
        """Column and units of a code."""
        asset = self.snapshot.asset_index[code]
        return asset, self.rules.scales[asset]


def account(stage: Stage, last: StepRecord | None) -> Payload:
    """Cash, holdings and NAV as booked at the last close."""
    initial = stage.trading.initial_cash * stage.rules.minor_per_unit
    cash, held, nav = (initial, 0, initial) if last is None else (last.cash_minor, last.holdings_minor, last.nav_minor)
    return {
        "cash": stage.money(cash),
        "holdings": stage.money(held),
        "nav": stage.money(nav),
        "cash_weight": round(cash / nav, 4) if nav > 0 else 0.0,
        "portfolio_return_pct": round((nav / initial - 1.0) * 100.0, 3),
        "positions_held": 0 if last is None else len(last.positions),
    }


def positions(stage: Stage, view: MarketView, last: StepRecord | None) -> Payload:
    """Holdings and shorts, the largest first."""
    rows = []
    for held in sorted(last.positions if last else (), key=lambda held: (-abs(held.value_minor), stage.rank(held.code))):
        asset, scale = stage.scale(held.code)
        weight = round(held.value_minor / last.nav_minor, 4) if last and last.nav_minor > 0 else 0.0
        shares = (Shares(asset, held.shares / scale.steps_per_unit), Shares(asset, held.locked / scale.steps_per_unit))
        price = Price(asset, held.price_ticks / scale.ticks_per_unit, view.bar_row(asset, view.day))
        member = bool(view.member[view.day, asset])
        rows.append((AssetRef(asset), *shares, price, stage.money(held.value_minor), weight, member, status(view, asset)))
    return table(POSITION_COLUMNS, rows)


def standings(stage: Stage, last: StepRecord | None, shown: Sequence[int]) -> dict[int, Standing]:
    """How assets stand before a decision: what costs leave to invest, the position's weight, what the last step closed of it."""
    nav, held = (last.nav_minor, {position.code: position for position in last.positions}) if last else (0, {})
    venues, standing = stage.rules.venues, dict[int, Standing]()
    for asset in shown:
        position = held.get(code := stage.snapshot.codes[asset])
        value = abs(position.value_minor) if position else 0
        against = "SELL" if position and position.shares > 0 else "BUY"
        sold = (
            sum(order.notional_minor for order in last.orders if (order.code, order.side) == (code, against))
            if last and value
            else 0
        )
        weight = value / nav if nav > 0 else 0.0
        standing[asset] = Standing(StanceRule.invested(venues[asset].fees, weight), weight, sold / (sold + value) if sold else 0.0)
    return standing


def last_step(stage: Stage, record: StepRecord, day: int) -> Payload:
    """Outcomes of the previous step's orders, filled by the close of row `day`, and what the venue charged. A stock_id that was no
    asset shows as null.
    """
    shown: dict[str, Payload] = {
        "decided_by": record.provenance,
        "failures": dict(record.failures),
        "orders": table(ORDER_COLUMNS, [_order_row(stage, order, day) for order in record.orders]),
    }
    if record.charges:
        rows = []
        for charge in sorted(record.charges, key=lambda charge: stage.rank(charge.code)):
            asset, scale = stage.scale(charge.code)
            quantity = Shares(asset, charge.shares / scale.steps_per_unit)
            rows.append((AssetRef(asset), charge.kind, quantity, stage.money(charge.cash_minor)))
        shown["charges"] = table(CHARGE_COLUMNS, rows)
    return shown


def _order_row(stage: Stage, order: OrderRecord, day: int) -> Sequence[Payload]:
    head, tail = (order.side, order.target_weight), (order.status, order.rule)
    if order.code is None:  # what was submitted is not repeated: it may be an identity that the mask hides
        return (None, *head, None, *tail, 0, None, 0)
    asset, scale = stage.scale(order.code)
    ordered = None if order.shares is None else Shares(asset, order.shares / scale.steps_per_unit)
    price = Price(asset, order.price_ticks / scale.ticks_per_unit, *bar_of_fill(scale, day)) if order.filled_shares else None
    filled = Shares(asset, order.filled_shares / scale.steps_per_unit)
    return (AssetRef(asset), *head, ordered, *tail, filled, price, stage.money(order.fee_minor))


def status(view: MarketView, asset: int) -> str:
    """`trading`, `closed` (no trade this day) or `not_listed` at this close."""
    if np.isfinite(view.close[view.day, asset]) and view.volume[view.day, asset] != 0:
        return "trading"
    return "closed" if np.isfinite(view.close[:, asset]).any() else "not_listed"


def assets(stage: Stage, view: MarketView, shown: Sequence[int]) -> Payload:
    """Figures of the assets shown."""
    closes = filled_forward(view.adjusted_close[max(0, view.day - LOOKBACK_DAYS) :])
    return table(ASSET_COLUMNS, [_asset_row(stage, view, closes, asset) for asset in shown])


def listed(stage: Stage, view: MarketView, last: StepRecord | None, most: int) -> list[int]:
    """Members and what is held, in the episode's own order; the most traded ones where there are too many to show. Assets that are
    traded alike are told apart by their volumes and prices of the day; equal ones are shown all or none.
    """
    day, order = view.day, stage.lens.order
    held = {stage.snapshot.asset_index[position.code] for position in (last.positions if last else ())}
    assets = [asset for asset in order if (not stage.only or asset in stage.only) and (view.member[day, asset] or asset in held)]
    if len(assets) <= most:
        return assets
    window = slice(max(0, day + 1 - LIQUIDITY_DAYS), day + 1)
    traded = np.nan_to_num(view.volume[window] * view.close[window]).sum(axis=0)
    is_held = [float(asset in held) for asset in assets]
    keys = [traded, *(getattr(view, name)[day] for name in ("volume", *_PARTS))]
    placed = places([is_held, *(key[assets] for key in keys)])
    chosen = set(first_of(grouped(assets, placed), most))
    return [asset for asset in assets if asset in chosen]


def intraday(stage: Stage, view: MarketView, last: StepRecord | None) -> Payload:
    """Last session of what is held and traded most, each in as many parts of equal time on short days as on others."""
    rows = list[Sequence[Payload]]()
    for asset in listed(stage, view, last, stage.intraday):
        for day in range(view.day, max(view.day - SESSION_DAYS, -1), -1):
            if len(bars := view.minutes(view.codes[asset], day)):
                rows += _session(asset, day, bars, stage.session_parts(asset))
                break
    return table(INTRADAY_COLUMNS, rows)


def _session(asset: int, day: int, bars: Any, parts: int) -> Iterator[Sequence[Payload]]:
    """Rows of a session's parts. A bar's prices belong to the part that it ends in, its volume to those that it lies in, by their
    shares of its time. A part that no bar ends in has the price before it.
    """
    ends = bars["ends_at"].astype(np.int64)
    length = np.diff(ends).min() if len(ends) > 1 else 1
    start = ends[0] - length
    size = (ends[-1] - start) / parts
    until, since = (ends - start) / size, (ends - length - start) / size  # in parts
    price, price_before = np.ceil(until - 1e-9).astype(np.int64) - 1, float(bars["open"][0])
    for part in range(parts):
        chunk = bars[price == part]
        quoted = (price_before,) * 4
        if len(chunk):
            quoted = (chunk["open"][0], chunk["high"].max(), chunk["low"].min(), chunk["close"][-1])
        price_before = float(quoted[-1])
        shown = (Price(asset, float(value), day, name) for name, value in zip(_PARTS, quoted, strict=True))
        shares = np.clip(np.minimum(until, part + 1) - np.maximum(since, part), 0.0, None) / (until - since)
        volume = float((shares * bars["volume"])[shares > 0].sum())
        elapsed = figure((part + 1) / parts * 100.0, 3)
        yield (AssetRef(asset), DayRef(day), elapsed, *shown, Shares(asset, volume, day))


def history(stage: Stage, view: MarketView, shown: Sequence[int]) -> Payload:
    """Last bars of each asset shown, the oldest first, days without trade left out. Prices and volumes count in shares of the
    decision's day, so that a split makes no jump and the last bar is that of the assets' table.
    """
    rows = list[Sequence[Payload]]()
    for asset in shown:
        traded = np.isfinite(view.close[:, asset]) & (view.volume[:, asset] != 0)
        factors = view.factor[:, asset] / view.factor[view.day, asset]
        for day in np.flatnonzero(traded)[-stage.history :].tolist():
            values = ((part, float(getattr(view, part)[day, asset] * factors[day])) for part in _PARTS)
            prices = (Price(asset, value, day, part) if value == value else None for part, value in values)
            volume = Shares(asset, float(view.volume[day, asset] / factors[day]), day)
            rows.append((AssetRef(asset), DayRef(day), *prices, volume))
    return table(HISTORY_COLUMNS, rows)


def news(stage: Stage, view: MarketView) -> Payload:
    """Newest documents that are known at this close, as the mask shows them; those that can't be masked safely are counted."""
    chosen, withheld = dict[int, ShownDocument](), 0
    about = [*(stage.snapshot.codes[asset] for asset in stage.only), ""] if stage.only else None
    for row in stage.lens.in_turn(view.documents, view.documents.rows(stage.news_days, about).tolist()):
        if len(chosen) == stage.news:
            break
        if (document := stage.texts.show(view.documents[row], view.day, MOST_CHARACTERS)) is None:
            withheld += 1
        else:
            chosen[row] = document
    rows = list[Sequence[Payload]]()
    for row in stage.lens.listed(view.documents, chosen):
        document, day = chosen[row], DayRef(view.documents.day_of(row))
        rows.append((day, document.source, document.kind, list(document.assets), document.title, document.text))
    return {**table(NEWS_COLUMNS, rows), "withheld": withheld}


def outcomes(view: MarketView, day: int, shown: Sequence[int], inverted: bool) -> list[Sequence[Payload]]:
    """Change of each price from its close on an earlier day to its next one up to now, and the action that it called for."""
    rows = list[Sequence[Payload]]()
    for asset in shown:
        path = view.adjusted_close[day:, asset]
        known = np.flatnonzero(np.isfinite(path[1:])) + 1
        if not np.isfinite(path[0]) or not len(known):
            continue
        later = int(known[0])
        since, until = (later, 0) if inverted else (0, later)
        change, ref = float(path[until] / path[since] - 1.0), AssetRef(asset)
        label = "BUY" if change > 0 else "SELL" if change < 0 else "HOLD"
        shown_change = ref.change_pct(figure(change * 100.0) or 0.0, day + until, day + since)
        rows.append((ref, DayRef(day + later), shown_change, label))
    return rows


def _asset_row(stage: Stage, view: MarketView, closes: FloatArray, asset: int) -> Sequence[Payload]:
    day, path, ref = view.day, closes[:, asset], AssetRef(asset)
    prices = ((part, float(getattr(view, part)[day, asset])) for part in _PARTS)
    changes = list[Payload]()
    for days in RETURN_DAYS:
        change = figure((path[-1] / path[-1 - days] - 1.0) * 100.0) if len(path) > days else None
        last, since = view.bar_row(asset, day), view.bar_row(asset, day - days)
        changes.append(None if change is None or last is None or since is None else ref.change_pct(change, last, since))
    recent = path[-1 - VOLATILITY_DAYS :]
    moves = recent[1:] / recent[:-1] - 1.0
    spread = figure(np.std(moves, ddof=1) * 100.0) if len(moves) == VOLATILITY_DAYS else None
    fall = figure((path[-1] / np.fmax.reduce(path) - 1.0) * 100.0)
    shown = (Price(asset, value, day, part) if value == value else None for part, value in prices)
    traded = Shares(asset, float(view.volume[day, asset]), day)
    risks = zip(_FIGURES[-2:], (spread, fall), strict=True)
    changes += [None if value is None else ref.figure(value, name, day) for name, value in risks]
    return (ref, stage.snapshot.kinds[asset], status(view, asset), *shown, traded, *changes)
