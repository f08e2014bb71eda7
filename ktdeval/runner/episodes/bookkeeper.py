"""Books of a trading episode, in true identities: they settle decisions and record the results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from msgspec import Struct, structs

from ktdeval.errors import StoreError
from ktdeval.harness.agent import Decision
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.trading.daily_settlement import open_account, value_minor
from ktdeval.trading.executor import settle
from ktdeval.trading.ledger import (
    ChargeRecord,
    CorporateActionRecord,
    CountsRecord,
    Ledger,
    OrderRecord,
    PositionRecord,
    StepRecord,
    WorkingRecord,
)
from ktdeval.trading.market_tape import MarketTape
from ktdeval.trading.trading_day import TradingDay
from ktdeval.trading.types import Account, Charge, Order, Outcome, Position, TradingConfig
from ktdeval.trading.venue_terms import duties_of

R = TypeVar("R", CorporateActionRecord, ChargeRecord, WorkingRecord)


class Bookkeeper:
    """Account of an episode from step to step, starting on the day of `base_row`. Each decision is
    settled at the next open.
    """

    def __init__(
        self, snapshot: MarketSnapshot, tape: MarketTape, trading: TradingConfig, base_row: int
    ) -> None:
        self.account = open_account(trading, tape.rules.minor_per_unit)
        self.last: StepRecord | None = None
        self._snapshot = snapshot
        self._tape = tape
        self._base_row = base_row

    def resume(self, last: StepRecord) -> None:
        """Restore the account at the close of a record's fill day."""
        columns = self._snapshot.asset_index
        positions = {
            columns[held.code]: Position(held.shares, held.locked) for held in last.positions
        }
        working = tuple(_recorded_order(rest, columns[rest.code]) for rest in last.working)
        self.account = Account(last.cash_minor, positions, working)
        self.last = last

    def book(self, step: int, decision: Decision, counts: CountsRecord) -> StepRecord:
        """Settle a decision and return its record. Raises InvariantError if the books don't
        balance.
        """
        row = self._base_row + step
        day = self._tape.day(row + 1)
        booked = settle(self.account, day, decision.action, row)
        self.account = booked.after
        records = _DayRecords(self._snapshot.codes, day)
        self.last = StepRecord(
            **{name: getattr(counts, name) for name in CountsRecord.__struct_fields__},
            step=step,
            decided_on=str(self._snapshot.days[row]),
            filled_on=str(self._snapshot.days[row + 1]),
            provenance=decision.provenance,
            overall_reason=decision.overall_reason,
            orders=records.orders(decision.action, booked.outcomes, decision.stock_ids),
            corporate_actions=records.of_assets(CorporateActionRecord, booked.corporate_actions),
            charges=tuple(map(records.charge, booked.charges)),
            positions=records.positions(booked.after),
            cash_minor=booked.after.cash_minor,
            holdings_minor=booked.holdings_minor,
            nav_minor=booked.nav_minor,
            open_nav_minor=booked.open_nav_minor,
            carried=records.orders(booked.carried, booked.carried_outcomes),
            working=records.of_assets(WorkingRecord, booked.after.working),
        )

        return self.last


@dataclass(frozen=True)
class _DayRecords:
    """Converts the executor's bookings on a day into records, which have the same fields but
    contain the asset's code instead of its column.
    """

    codes: Sequence[str]
    day: TradingDay

    def of_assets(self, record: type[R], values: Iterable[Any]) -> tuple[R, ...]:
        """Return one record per value. All fields except the code are copied."""
        return tuple(
            record(code=self.codes[value.asset], **_shared_values(record, value))
            for value in values
        )

    def orders(
        self, action: Sequence[Order], outcomes: Sequence[Outcome], stock_ids: Sequence[str] = ()
    ) -> tuple[OrderRecord, ...]:
        """Return the records of orders. `stock_ids`: the assets as the model wrote them."""
        records = []
        for number, (order, outcome) in enumerate(zip(action, outcomes, strict=True)):
            code = submitted = None
            duties: dict[str, int] = {}
            if order.asset is not None:
                code = self.codes[order.asset]
                signed = -outcome.shares if order.side == "SELL" else outcome.shares
                duties = self._duties(order.asset, signed, outcome.notional_minor)
            elif stock_ids:
                submitted = stock_ids[number]

            fields = {**_shared_values(OrderRecord, outcome), **_shared_values(OrderRecord, order)}
            record = OrderRecord(
                code=code,
                stock_id=submitted,
                filled_shares=outcome.shares,
                duties=duties,
                **fields,
            )
            records.append(record)

        return tuple(records)

    def charge(self, charge: Charge) -> ChargeRecord:
        """Return the record of a charge. Duties are only added to margin calls."""
        (record,) = self.of_assets(ChargeRecord, [charge])
        if charge.kind != "margin_call":
            return record

        duties = self._duties(charge.asset, charge.shares, record.notional_minor)
        return structs.replace(record, duties=duties)

    def _duties(self, asset: int, signed_shares: int, notional_minor: int) -> dict[str, int]:
        """Return the duties on a fill, whose number of shares is negative for a sale; empty if no
        shares were filled.
        """
        if not signed_shares:
            return {}

        terms = self.day.rules.terms[asset]
        return duties_of(abs(signed_shares), notional_minor, terms, signed_shares < 0)

    def positions(self, account: Account) -> tuple[PositionRecord, ...]:
        """Return the positions at the close, in the snapshot's asset order."""
        records = []
        for asset, held in sorted(account.positions.items()):
            ticks = self.day.close_ticks[asset]
            record = PositionRecord(
                code=self.codes[asset],
                shares=held.shares,
                locked=held.locked,
                price_ticks=ticks,
                value_minor=value_minor(held.shares, ticks, self.day.rules.units[asset]),
            )
            records.append(record)

        return tuple(records)


def _shared_values(record: type[Struct], value: Struct) -> dict[str, Any]:
    """Return the fields that a value shares with the record type."""
    return {name: getattr(value, name) for name in _shared_names(record, type(value))}


@cache
def _shared_names(record: type[Struct], value: type[Struct]) -> tuple[str, ...]:
    return tuple(name for name in value.__struct_fields__ if name in record.__struct_fields__)


def _recorded_order(record: OrderRecord | WorkingRecord, asset: int | None) -> Order:
    """Return an order as it was decided. If its side is neither BUY nor SELL, the executor rejects
    it.
    """
    return Order(asset=asset, **_shared_values(Order, record))


def recorded_decision(snapshot: MarketSnapshot, record: StepRecord) -> Decision:
    """Return the decision behind a record. Raises StoreError if an order's code is not an asset of
    the snapshot.
    """
    columns = snapshot.asset_index
    action = []
    for recorded in record.orders:
        if recorded.code is not None and recorded.code not in columns:
            raise StoreError(
                f"step {record.step}: {recorded.code} is not an asset of snapshot {snapshot.meta.name}"
            )

        asset = None if recorded.code is None else columns[recorded.code]
        action.append(_recorded_order(recorded, asset))

    stock_ids = tuple(recorded.stock_id or "" for recorded in record.orders)
    return Decision(tuple(action), record.provenance, record.overall_reason, stock_ids)


def episode_ledger(
    spec: EpisodeSpec,
    records: Sequence[StepRecord],
    snapshot: MarketSnapshot,
    tape: MarketTape,
    trading: TradingConfig,
) -> Ledger:
    """Return the ledger of an episode, given its records. `tape`: the market under the trading
    rules.
    """
    initial_cash = open_account(trading, tape.rules.minor_per_unit).cash_minor
    return Ledger(spec.to_json(), initial_cash, records).in_units_of(snapshot, tape.rules)
