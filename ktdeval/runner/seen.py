"""Account as a model may know it: its shares are true, its money is that of the prices as the mask shows them.

Under a mask that rounds prices or lays noise over them, an account in true money answers questions that the mask does not: what a
fill cost, what a holding is worth, how many lots a weight buys. Asked day by day with other quantities, each tells the price to its
last digit. So a scene gets these books in place of the true ones. They are a function of what is shown and of the shares that were
filled, and drift from the true ones by no more than the rounding of the fills. The ledger is of the true market.

For the same reason an order is sized when it is decided: its weight is cut to the digits of the mask and turned into shares at the
prices as known, and its weight is what the weight limit judges. The ledger has the weight and the shares, so that it can be settled
again. What true prices still decide is how much of a buy the cash covers, and outside A-shares the margin and the smallest order.
"""

from __future__ import annotations

from msgspec import UNSET, structs

from ktdeval.market.snapshot import MarketSnapshot
from ktdeval.masking.draws import Part
from ktdeval.masking.lens import Lens
from ktdeval.trading.account import interest_minor, open_account, value_minor
from ktdeval.trading.constraints import Breach, known_breaches
from ktdeval.trading.ledger import ChargeRecord, CorporateActionRecord, OrderRecord, PositionRecord, StepRecord
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.terms import PPB, Terms, cost, in_lots, worth_steps
from ktdeval.trading.types import Account, Action, Order, TradingConfig, bar_of_fill


class SeenBooks:
    """Account of an episode as its lens lets it be known; it follows the true books from record to record."""

    def __init__(self, lens: Lens, snapshot: MarketSnapshot, tape: MarketTape, trading: TradingConfig) -> None:
        self.account = open_account(trading, tape.rules.minor_per_unit)  #: cash as known, shares as they are
        self.last: StepRecord | None = None  #: the last record in money as known
        self._lens, self._snapshot, self._trading = lens, snapshot, trading
        self._tape, self._rules = tape, tape.rules
        self._columns = snapshot.asset_index
        self._row = lens.base_row  # of the close of `account`

    def follow(self, account: Account, record: StepRecord) -> None:
        """Take up a record of the true books and the account that it leaves."""
        if not self._lens.mask.is_coarse:
            self.account, self.last = account, record
            return
        self._row += 1
        orders = tuple(map(self._known_order, record.orders))
        actions = tuple(map(self._known_action, record.corporate_actions))
        charges = UNSET if record.charges is UNSET else tuple(map(self._known_charge, record.charges or ()))
        positions = tuple(map(self._known_position, record.positions))
        opened_minor = self.account.cash_minor + sum(action.cash_minor for action in actions)
        opened_minor += sum(charge.cash_minor for charge in charges or ())
        cash_minor = opened_minor + sum(_flow_minor(order) for order in orders)
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

    def sized(self, action: Action) -> Action:
        """Return orders as the mask lets them be decided: unchanged where it shows prices as they are, else sized, each as if those
        before it were filled, in the order of the executor.
        """
        if not self._lens.mask.is_coarse:
            return action
        held = {asset: position.shares for asset, position in self.account.positions.items()}
        sized = list(map(self._weighed, action))
        for index in sorted(range(len(action)), key=lambda index: action[index].side != "SELL"):
            sized[index] = self._sized(sized[index], held)
        return tuple(sized)

    def breaches(self, action: Action) -> list[Breach]:
        """Return the orders that break a rule as known at the last closes; none where the task gives no feedback on them."""
        if not self._trading.constraint_feedback:
            return []
        held_minor = {self._columns[held.code]: held.value_minor for held in self.last.positions} if self.last else {}
        weighed = tuple(map(self._weighed, action))
        return known_breaches(self.account, held_minor, weighed, self._trading, self._rules.terms)

    # --- orders

    def _weighed(self, order: Order) -> Order:
        """Order with its weight at the digits of the mask."""
        if order.target_weight is None:
            return order
        return structs.replace(order, target_weight=self._lens.known_weight(order.target_weight))

    def _sized(self, order: Order, held: dict[int, int]) -> Order:
        """Order with a weight and shares, which are added to what is `held`."""
        asset, weight = order.asset, order.target_weight
        if asset is None:
            return order
        price, now, is_buy = self._mark_ticks(asset, self._row), held.get(asset, 0), order.side == "BUY"
        if not is_buy and weight == 0.0 and now >= 0:
            held[asset] = 0
            return order  # all of it, whatever it is worth
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
        if not is_buy and after >= 0:
            return order
        if not price:
            return order
        return structs.replace(order, target_weight=_weight(after * price, self._nav_minor * self._rules.terms[asset].unit))

    def _steps(self, weight: float, held: int, is_buy: bool, price: int, terms: Terms) -> int:
        """Steps to trade to a target weight at a price as known, as in the executor; 0 where it is reached already."""
        if not price or self._nav_minor <= 0:
            return 0
        target = worth_steps(weight, self._nav_minor, price, terms.unit)
        if not is_buy:
            return max(0, held - in_lots(target, terms.lot)) if target < held else 0
        if held < 0:
            return max(0, in_lots(target, terms.lot) - held)
        whole = in_lots(max(0, in_lots(target, terms.lot) - held), terms.lot)
        # Less than a lot is ordered as such, so that the executor names the rule that it breaks.
        return whole or min(max(0, target - held), terms.lot - 1)

    @property
    def _nav_minor(self) -> int:
        return self.last.nav_minor if self.last else self.account.cash_minor

    # --- prices and money

    def _ticks(self, asset: int, true_ticks: int, row: int, part: Part) -> int:
        """Price as known in ticks; `row`, `part`: of the bar that it is of."""
        scale = self._rules.scales[asset].ticks_per_unit
        known = self._lens.known_price(asset, true_ticks / scale, row, part)
        return max(1, int(known * scale + 0.5)) if true_ticks else 0

    def _mark_ticks(self, asset: int, row: int) -> int:
        true_ticks = int(self._tape.close_ticks[row, asset])
        bar_row = self._snapshot.as_of(row).bar_row(asset, row)
        return 0 if bar_row is None else self._ticks(asset, true_ticks, bar_row, "close")

    def _fill_ticks(self, asset: int, true_ticks: int) -> int:
        return self._ticks(asset, true_ticks, *bar_of_fill(self._rules.scales[asset], self._row))

    def _known_order(self, order: OrderRecord) -> OrderRecord:
        if order.code is None or not order.filled_shares:
            return order
        asset = self._columns[order.code]
        ticks, is_sell = self._fill_ticks(asset, order.price_ticks), order.side == "SELL"
        notional_minor, fee_minor = cost(order.filled_shares, ticks, self._rules.terms[asset], is_sell)
        return structs.replace(order, notional_minor=notional_minor, fee_minor=fee_minor)

    def _known_action(self, action: CorporateActionRecord) -> CorporateActionRecord:
        """Factor change with the fraction of a step paid at the mark as known."""
        asset = self._columns[action.code]
        mark, unit = self._mark_ticks(asset, self._row - 1), self._rules.units[asset]
        fraction = action.shares_before * action.ratio - action.shares_after
        paid_minor = int(fraction * mark / (action.ratio * unit) + 0.5) if fraction > 0 else 0
        return structs.replace(action, cash_minor=paid_minor)

    def _known_charge(self, charge: ChargeRecord) -> ChargeRecord:
        asset = self._columns[charge.code]
        terms, day = self._rules.terms[asset], self._tape.day(self._row)
        if charge.kind == "borrow":
            interest = interest_minor(charge.shares, self._mark_ticks(asset, self._row - 1), asset, day)
            return structs.replace(charge, cash_minor=-interest)
        ticks, is_sell = self._fill_ticks(asset, charge.price_ticks), charge.shares < 0
        notional_minor, fee_minor = cost(abs(charge.shares), ticks, terms, is_sell)
        change_minor = (notional_minor if is_sell else -notional_minor) - fee_minor
        return structs.replace(charge, cash_minor=change_minor, fee_minor=fee_minor)

    def _known_position(self, position: PositionRecord) -> PositionRecord:
        asset = self._columns[position.code]
        ticks = self._mark_ticks(asset, self._row)
        return structs.replace(position, value_minor=value_minor(position.shares, ticks, self._rules.units[asset]))

    def _opened_holdings_minor(self, record: StepRecord) -> int:
        """Value of what was held before the fills, at the prices of fills as known."""
        shares = {self._columns[held.code]: held.shares for held in record.positions}
        for order in record.orders:
            if order.code is not None and order.filled_shares:
                asset = self._columns[order.code]
                change = order.filled_shares if order.side == "BUY" else -order.filled_shares
                shares[asset] = shares.get(asset, 0) - change
        day, total = self._tape.day(self._row), 0
        for asset, number in shares.items():
            is_traded = bool(day.tradable[asset])
            ticks = self._fill_ticks(asset, day.open_ticks[asset]) if is_traded else self._mark_ticks(asset, self._row - 1)
            total += value_minor(number, ticks, self._rules.units[asset])
        return total


def _flow_minor(order: OrderRecord) -> int:
    """Change in cash of an order."""
    if not order.filled_shares:
        return 0
    return (order.notional_minor if order.side == "SELL" else -order.notional_minor) - order.fee_minor


def _weight(worth: int, nav: int) -> float:
    """Ratio in parts per billion; 1 at most, and where there is no NAV to compare with."""
    return max(-1.0, min(1.0, round(worth * PPB / nav) / PPB)) if nav > 0 else 1.0
