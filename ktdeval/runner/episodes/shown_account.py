"""Account that a model may see. Share counts are true; amounts of money are computed from the
prices that the mask shows.

Suppose that a mask rounds prices or adds noise to them. The true account would then reveal more
than the mask does, for example by the cost of a fill, the value of a holding, or the number of lots
that a weight buys. An agent that varies its quantities from day to day could compute the price to
its last digit. A scene therefore gets these books instead of the true books. They are a function of
shown prices and filled shares, and differ from the true books by no more than the rounding of the
fills. The ledger records the true market.

For the same reason, an order is sized at decision time. Its weight is rounded to the digits of the
mask and converted into shares at the shown prices. This rounded weight is compared with the weight
limit. The ledger records both the weight and the shares, so that the order can be settled again.
True prices still determine how much of a buy the cash covers and, outside A-shares, the margin and
the minimum order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import structs

from ktdeval.errors import ConfigError
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.market.venues.venue import FILLS_OF_MINUTES
from ktdeval.masking.aliases_and_noise import Part
from ktdeval.masking.lens import Lens
from ktdeval.masking.payload_types import Shares
from ktdeval.runner.episodes.book_account import BookAccount
from ktdeval.task_api.trading_task import Task
from ktdeval.task_api.traits import task_traits
from ktdeval.trading.daily_settlement import interest_minor, open_account, value_minor
from ktdeval.trading.ledger import (
    ChargeRecord,
    CorporateActionRecord,
    OrderRecord,
    PositionRecord,
    StepRecord,
)
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.rule_breaches import RuleBreach, known_breaches
from ktdeval.trading.types import Account, Action, Order, TradingConfig, bar_of_fill
from ktdeval.trading.venue_terms import PPB, Terms, cost, duties_of, in_lots, worth_steps


def shown_account(
    task: Task, lens: Lens, snapshot: MarketSnapshot, tape: MarketTape
) -> SeenBooks | BookAccount:
    """Return the account that a task shows in an episode. Raises ConfigError as `SeenBooks`
    does.
    """
    if task_traits(task).account_at_book:
        return BookAccount(task.trading, snapshot.asset_index)
    return SeenBooks(lens, snapshot, tape, task.trading)


class SeenBooks:
    """Account of an episode as its mask shows it. It follows the true books, record by record.

    Raises:
        ConfigError: if the mask can't show the prices of fills.
    """

    def __init__(
        self, lens: Lens, snapshot: MarketSnapshot, tape: MarketTape, trading: TradingConfig
    ) -> None:
        rules = {scale.fill for scale in tape.rules.scales} & FILLS_OF_MINUTES
        if rules and lens.mask.is_coarse:
            raise ConfigError(
                f"orders fill at {' and '.join(sorted(rules))}, whose prices are means over part"
                " of the day; this mask rounds prices or adds noise, which is not possible for"
                " such means: choose another mask or another fill"
            )

        if lens.mask.is_coarse and tape.liquidity is not None:
            raise ConfigError(
                "venue: its execution would reveal prices and volumes that round_digits and"
                " noise_pct hide; set trading.execution to none, or choose a mask without them"
            )

        #: cash computed from shown prices, and true share counts
        self.account = open_account(trading, tape.rules.minor_per_unit)
        self.last: StepRecord | None = None  #: last record, at shown prices
        self._lens = lens
        self._snapshot = snapshot
        self._trading = trading
        self._tape = tape
        self._rules = tape.rules
        self._columns = snapshot.asset_index
        self._row = lens.base_row  # row of the close at which `account` is valued

    def follow(self, account: Account, record: StepRecord) -> None:
        """Apply a record of the true books, together with the account that resulted."""
        self._row += 1
        if not self._lens.mask.is_coarse:
            self.account = account
            self.last = record
            return

        orders = tuple(map(self._known_order, record.orders))
        actions = tuple(map(self._known_action, record.corporate_actions))
        charges = tuple(map(self._known_charge, record.charges))
        positions = tuple(map(self._known_position, record.positions))
        opened_minor = self.account.cash_minor + sum(action.cash_minor for action in actions)
        opened_minor += sum(charge.cash_minor for charge in charges)
        flows = [
            _flow_minor(_bought(order), order.notional_minor, order.fee_minor)
            for order in orders
            if order.filled_shares
        ]
        cash_minor = opened_minor + sum(flows)
        holdings_minor = sum(position.value_minor for position in positions)
        self.last = structs.replace(
            record,
            orders=orders,
            corporate_actions=actions,
            charges=charges,
            positions=positions,
            cash_minor=cash_minor,
            holdings_minor=holdings_minor,
            nav_minor=cash_minor + holdings_minor,
            open_nav_minor=opened_minor + self._opened_holdings_minor(record),
        )
        self.account = Account(cash_minor, account.positions)

    def size_orders(self, action: Action) -> Action:
        """Return orders as the model meant them.

        An order in shares that equals the shown position closes the position. If the mask changes
        prices, all orders are converted to shares at shown prices. Each one is sized as if the
        orders that the executor handles before it were filled.
        """
        action = self._closing(action)
        if not self._lens.mask.is_coarse:
            return action

        held = {asset: position.shares for asset, position in self.account.positions.items()}
        sized = list(map(self._round_weight, action))

        # the executor fills sells first
        sells_first = sorted(range(len(action)), key=lambda index: action[index].side != "SELL")
        for index in sells_first:
            sized[index] = self._size_order(sized[index], held)

        return tuple(sized)

    def breaches(self, action: Action) -> list[RuleBreach]:
        """Return the orders that break a rule at the last shown closes; empty if the task gives no
        feedback about broken rules.
        """
        if not self._trading.constraint_feedback:
            return []

        held_minor: dict[int, int] = {}
        if self.last is not None:
            for held in self.last.positions:
                held_minor[self._columns[held.code]] = held.value_minor

        weighed = tuple(map(self._round_weight, self._closing(action)))
        return known_breaches(self.account, held_minor, weighed, self._trading, self._rules.terms)

    def last_prices(self, asset: int) -> Iterator[float]:
        """Yield an asset's last close, adjusted to current shares, and then the prices in its bar
        for that day.
        """
        ticks = int(self._tape.close_ticks[self._row, asset])
        yield ticks / self._rules.scales[asset].ticks_per_unit
        for name in ("open", "high", "low", "close"):
            price = float(getattr(self._snapshot, name)[self._row, asset])
            if price == price:
                yield price

    # --- orders

    def _closing(self, action: Action) -> Action:
        """Return the orders, changing those that are meant to close a position so that they do.

        A position is shown with fewer digits than its true size. Selling the shown number of shares
        would therefore leave a small remainder or a small short position. An order for the shown
        number also closes a position whose share count was changed by an overnight factor change.
        """
        closing = list(action)
        ordered: dict[int, int] = {}  # steps ordered against each position so far
        for index, order in enumerate(action):
            held = self._closed_by(order)
            if order.asset is None or not held or order.shares is None:
                continue

            before = ordered.get(order.asset, 0)
            ordered[order.asset] = before + order.shares
            if self._are_shown_alike(order.asset, before + order.shares, held):
                rest = held - before
                if before and rest > 0:
                    closing[index] = structs.replace(order, shares=rest)
                else:
                    closing[index] = structs.replace(order, target_weight=0.0, shares=None)

        return tuple(closing)

    def _closed_by(self, order: Order) -> int:
        """Return the size, in steps, of the position that an order in shares reduces; 0 for any
        other order, or if share counts are shown exactly.
        """
        position = None
        if order.asset is not None and self._hides_digits(order.asset):
            position = self.account.positions.get(order.asset)
        if position is None or order.target_weight is not None:
            return 0

        is_against = (order.side == "SELL") == (position.shares > 0)
        return abs(position.shares) if is_against else 0

    def _hides_digits(self, asset: int) -> bool:
        """Return whether an asset's share counts have more digits than the mask shows."""
        return self._lens.mask.rebase_prices or self._rules.scales[asset].steps_per_unit > 1

    def _are_shown_alike(self, asset: int, one: int, other: int) -> bool:
        """Return whether two step counts are shown as the same number of shares."""
        steps = self._rules.scales[asset].steps_per_unit
        shown = [self._lens.render_text(Shares(asset, number / steps)) for number in (one, other)]
        return shown[0] == shown[1]

    def _round_weight(self, order: Order) -> Order:
        """Return an order with its weight rounded to the digits of the mask."""
        if order.target_weight is None:
            return order
        return structs.replace(
            order, target_weight=self._lens.figures.known_weight(order.target_weight)
        )

    def _size_order(self, order: Order, held: dict[int, int]) -> Order:
        """Return an order with its share count and, if the weight limit applies, its weight. Update
        `held` with the resulting position.
        """
        asset = order.asset
        weight = order.target_weight
        if asset is None:
            return order

        price = self._mark_ticks(asset, self._row)
        now = held.get(asset, 0)
        is_buy = order.side == "BUY"

        if not is_buy and weight == 0.0 and now >= 0:
            held[asset] = 0
            return order  # sells the whole position, whatever its value

        if weight is None:
            shares = order.shares or 0
        else:
            shares = self._steps(weight, now, is_buy, price, self._rules.terms[asset])

        after = now + shares if is_buy else now - shares
        if self._rules.terms[asset].margin is None:
            after = max(0, after)

        held[asset] = after
        if weight is not None:
            return structs.replace(order, shares=shares)

        # The weight limit applies to the weight after a buy or a short sale.
        is_limited = is_buy or after < 0
        if not is_limited or not price:
            return order

        nav = self._nav_minor * self._rules.terms[asset].unit
        return structs.replace(order, target_weight=_weight(after * price, nav))

    def _steps(self, weight: float, held: int, is_buy: bool, price: int, terms: Terms) -> int:
        """Return the number of steps to trade to reach a target weight at a shown price, computed
        as in the executor; 0 if the target has already been reached.
        """
        if not price or self._nav_minor <= 0:
            return 0

        target = worth_steps(weight, self._nav_minor, price, terms.unit)
        target_in_lots = in_lots(target, terms.lot)
        if not is_buy:
            if target >= held:
                return 0
            return max(0, held - target_in_lots)
        if held < 0:
            return max(0, target_in_lots - held)

        whole = in_lots(max(0, target_in_lots - held), terms.lot)
        # Quantities below one lot stay unchanged, so that the executor reports the broken rule.
        return whole or min(max(0, target - held), terms.lot - 1)

    @property
    def _nav_minor(self) -> int:
        return self.last.nav_minor if self.last else self.account.cash_minor

    # --- prices and money

    def _ticks(self, asset: int, true_ticks: int, row: int, part: Part) -> int:
        """Return a price as the mask shows it, in ticks. `row` and `part` say which bar, and which
        part of the bar, the price is from.
        """
        scale = self._rules.scales[asset].ticks_per_unit
        if not true_ticks:
            return 0

        known = self._lens.figures.known_price(asset, true_ticks / scale, row, part)
        return max(1, int(known * scale + 0.5))

    def _mark_ticks(self, asset: int, row: int) -> int:
        true_ticks = int(self._tape.close_ticks[row, asset])
        bar_row = self._snapshot.as_of(row).bar_row(asset, row)
        if bar_row is None:
            return 0
        return self._ticks(asset, true_ticks, bar_row, "close")

    def _fill_ticks(self, asset: int, true_ticks: int) -> int:
        return self._ticks(asset, true_ticks, *bar_of_fill(self._rules.scales[asset], self._row))

    def _known_fill(self, asset: int, bought: int, true_ticks: int) -> dict[str, Any]:
        """Return the notional, fee and duties of a fill at its shown price. `bought` is negative
        for a sale.
        """
        ticks = self._fill_ticks(asset, true_ticks)
        terms = self._tape.rules_on(self._row).terms[asset]
        notional_minor, fee_minor = cost(abs(bought), ticks, terms, bought < 0)
        duties = duties_of(abs(bought), notional_minor, terms, bought < 0)
        return {"notional_minor": notional_minor, "fee_minor": fee_minor, "duties": duties}

    def _known_order(self, order: OrderRecord) -> OrderRecord:
        if order.code is None or not order.filled_shares:
            return order

        asset = self._columns[order.code]
        return structs.replace(order, **self._known_fill(asset, _bought(order), order.price_ticks))

    def _known_action(self, action: CorporateActionRecord) -> CorporateActionRecord:
        """Return a corporate action in which fractions of a step are paid in cash at the shown
        price.
        """
        asset = self._columns[action.code]
        mark = self._mark_ticks(asset, self._row - 1)
        unit = self._rules.units[asset]
        fraction = action.shares_before * action.ratio - action.shares_after
        paid_minor = 0
        if fraction > 0:
            paid_minor = int(fraction * mark / (action.ratio * unit) + 0.5)

        return structs.replace(action, cash_minor=paid_minor)

    def _known_charge(self, charge: ChargeRecord) -> ChargeRecord:
        asset = self._columns[charge.code]
        if charge.kind == "borrow":
            mark = self._mark_ticks(asset, self._row - 1)
            interest = interest_minor(charge.shares, mark, asset, self._tape.day(self._row))
            return structs.replace(charge, cash_minor=-interest)

        fill = self._known_fill(asset, charge.shares, charge.price_ticks)
        cash_minor = _flow_minor(charge.shares, fill.pop("notional_minor"), fill["fee_minor"])
        return structs.replace(charge, cash_minor=cash_minor, **fill)

    def _known_position(self, position: PositionRecord) -> PositionRecord:
        asset = self._columns[position.code]
        ticks = self._mark_ticks(asset, self._row)
        return structs.replace(
            position, value_minor=value_minor(position.shares, ticks, self._rules.units[asset])
        )

    def _opened_holdings_minor(self, record: StepRecord) -> int:
        """Return the value of the holdings just before the fills, at the shown fill prices."""
        shares = {self._columns[held.code]: held.shares for held in record.positions}
        for order in record.orders:
            if order.code is not None and order.filled_shares:
                asset = self._columns[order.code]
                shares[asset] = shares.get(asset, 0) - _bought(order)

        day = self._tape.day(self._row)
        total = 0
        for asset, number in shares.items():
            if day.tradable[asset]:
                ticks = self._fill_ticks(asset, day.open_ticks[asset])
            else:
                ticks = self._mark_ticks(asset, self._row - 1)

            total += value_minor(number, ticks, self._rules.units[asset])

        return total


def _bought(order: OrderRecord) -> int:
    """Return the number of shares that an order bought; negative for a sale."""
    return -order.filled_shares if order.side == "SELL" else order.filled_shares


def _flow_minor(bought: int, notional_minor: int, fee_minor: int) -> int:
    """Return the change in cash caused by a fill. `bought` is negative for a sale."""
    if bought < 0:
        return notional_minor - fee_minor
    return -notional_minor - fee_minor


def _weight(worth: int, nav: int) -> float:
    """Return a weight from -1 to 1, rounded to parts per billion; 1 if the NAV is not positive."""
    if nav <= 0:
        return 1.0

    ratio = round(worth * PPB / nav) / PPB
    return max(-1.0, min(1.0, ratio))
