"""Transplants: recorded decisions executed again with different capital and costs, without a model.

Each episode is booked by the same `Bookkeeper` as in the run. Orders by target weight are used as
decided. Orders in shares are scaled by the ratio of the capitals, and rounded down to whole lots;
an order that closed a position in the run also closes it here. Orders that were sized under a mask
at decision time are sized again, at the prices that the mask showed. With execution costs, no
account can reflect both the costs and a coarse mask, so these orders are sized at the day's prices.
Lots, limits and rules are applied again. As long as the account equals the recorded account, the
orders equal the recorded orders. A transplant with the run's own capital and costs therefore
reproduces the run's ledger.

The model saw the fills of its own run, not the fills of the transplant. It would have seen a
different state at a step if the set of held names differs, if an order of the previous step ended
with a different status or rule, or if a weight differs by more than `WEIGHT_TOLERANCE`. Amounts of
money are not compared: with different capital, they differ from the first step on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from msgspec import structs

from ktdeval.cards import (
    NEVER_RANKED,
    NO_ATTACHMENT,
    TRANSPLANTED,
    CardInputs,
    TradingCard,
    build_card,
)
from ktdeval.errors import StoreError
from ktdeval.market import MarketSnapshot, window_rows
from ktdeval.registry import Plugins
from ktdeval.runner import (
    LEDGER,
    Bookkeeper,
    RunFolder,
    SeenBooks,
    encode_ledger,
    episode_ledger,
    make_inputs,
    recorded_decision,
)
from ktdeval.task_api import EpisodeSpec, Task, is_scoring
from ktdeval.trading import (
    PPB,
    Account,
    Action,
    ChargeRecord,
    Ledger,
    MarketTape,
    Order,
    OrderRecord,
    StepRecord,
    TradingConfig,
    TradingDay,
    in_lots,
    value_minor,
)
from ktdeval.values import JsonValue, Tell, content_hash, plain, sha256_hex, tell_nobody

T = TypeVar("T")

WEIGHT_TOLERANCE = 0.001
"""Maximum difference in a position's weight at which a state is still treated as the same. Rounding
to whole lots changes weights by less, unless the account is small.
"""
NEVER = "the decisions of a run, executed again at another capital or cost: not what the model saw"
FURTHER_METRICS = ("total_return", "selection_alpha", "trading_effect", "turnover")
"""Metrics on every transplanted card, in addition to those of its task and its run."""


@dataclass(frozen=True)
class FillFigures:
    """Notional and costs of orders and their fills, in minor units, summed over steps."""

    ordered_minor: int = 0  #: ordered notional, at fill-day prices before costs
    filled_minor: int = 0  #: filled notional, at the same prices
    commission_minor: int = 0
    duties_minor: int = 0
    execution_minor: int = 0  #: spread and impact: fill prices less the day's prices
    financing_minor: int = 0  #: interest on short positions

    def __add__(self, other: FillFigures) -> FillFigures:
        """Return the field-by-field sum."""
        return FillFigures(
            *(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__)
        )


@dataclass(frozen=True)
class TransplantedEpisode:
    """Episode executed with different capital or costs. `of`: spec of the recorded episode."""

    of: EpisodeSpec
    spec: EpisodeSpec
    ledger: Ledger
    figures: FillFigures
    other_states: tuple[int, ...]  #: steps at which the model would have seen a different state

    @property
    def path(self) -> str:
        """Path of the ledger in the folder for this capital."""
        return f"episodes/{self.spec.id}/{LEDGER}"

    def encode(self) -> bytes:
        """Return the contents of the ledger file."""
        return encode_ledger(self.ledger)


@dataclass(frozen=True)
class TransplantedTask:
    """All episodes of a task with one capital, and the resulting card."""

    trading: TradingConfig
    episodes: tuple[TransplantedEpisode, ...]
    card: TradingCard


def trading_tasks(folder: RunFolder, plugins: Plugins) -> list[Task]:
    """Return a run's trading tasks.

    Raises StoreError if the run has no trading task, or if an episode of a trading task is not
    complete.
    """
    specs = folder.manifest.specs
    names = list(dict.fromkeys(spec.task for spec in specs))
    made = [plugins.make_task(name) for name in names]
    tasks = [task for task in made if not is_scoring(task)]
    if not tasks:
        raise StoreError(
            f"{folder.path}: is not a trading run ({', '.join(names)}): its answers move no money, so"
            " there is nothing to execute again"
        )

    own = [spec for spec in specs if spec.task in {task.name for task in tasks}]
    done = sum(map(folder.is_complete, own))
    if done < len(own):
        raise StoreError(
            f"{folder.path}: {done} of {len(own)} trading episodes are finished; run its command"
            " again to resume it"
        )

    return tasks


class Transplanter:
    """Executes the recorded decisions of a task again, on the task's market."""

    def __init__(
        self, folder: RunFolder, task: Task, snapshot: MarketSnapshot, plugins: Plugins
    ) -> None:
        self._folder = folder
        self._task = task
        self._snapshot = snapshot
        self._plugins = plugins
        self._specs = folder.specs_of(task.name)
        names = dict.fromkeys((*folder.manifest.metrics, *FURTHER_METRICS))
        known = plugins.specs("metrics")
        manifest = replace(folder.manifest, metrics=tuple(name for name in names if name in known))
        inputs = make_inputs(RunFolder(folder.path, manifest), task, snapshot, plugins)
        assert isinstance(inputs, CardInputs), "only trading tasks are executed again"
        self._inputs = inputs
        self._description = self._inputs.task
        ledgers = zip(self._specs, self._inputs.ledgers, strict=True)
        self._recorded = {spec.id: ledger for spec, ledger in ledgers}

    @property
    def own_trading(self) -> TradingConfig:
        """Trading rules of the run."""
        return self._task.trading

    def at(
        self,
        trading: TradingConfig,
        changes: Mapping[str, JsonValue],
        tell: Tell = tell_nobody,
    ) -> TransplantedTask:
        """Execute every episode under other trading rules, and create the card.

        `changes`: differences from the task's `trading` options, as the card shows them.
        """
        tape = MarketTape.from_snapshot(self._snapshot, trading)
        description = self._describe_task(changes)
        task_hash = content_hash(plain(description))
        episodes = []
        for done, spec in enumerate(self._specs):
            tell(spec.label, done, len(self._specs))
            own = replace(spec, task_hash=task_hash)
            execution = _Execution(self._task, self._snapshot, tape, trading, spec)
            records, figures, others = execution.run(self._recorded[spec.id])
            ledger = episode_ledger(own, records, self._snapshot, tape, trading)
            episodes.append(TransplantedEpisode(spec, own, ledger, figures, others))

        return TransplantedTask(trading, tuple(episodes), self._card(description, episodes))

    def _describe_task(self, changes: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the task's description with the changed rules and the source of its decisions."""
        trading = self._description["trading"]
        assert isinstance(trading, Mapping), "every trading task describes its rules"
        return {
            **self._description,
            "trading": {**trading, **changes},
            TRANSPLANTED: {"task_hash": self._specs[0].task_hash},
            NEVER_RANKED: NEVER,
        }

    def _card(
        self, description: Mapping[str, JsonValue], episodes: Sequence[TransplantedEpisode]
    ) -> TradingCard:
        inputs = self._inputs
        ids = {episode.of.id: episode.spec.id for episode in episodes}
        artefacts = {}
        for episode in episodes:
            artefacts[episode.path] = sha256_hex(episode.encode())

        return build_card(
            replace(
                inputs,
                uncounted=_rename_ids(inputs.uncounted, ids),
                roles=_rename_ids(inputs.roles, ids),
                served=_rename_ids(inputs.served, ids),
                makers=_rename_ids(inputs.makers, ids),
                task=description,
                specs=[episode.spec for episode in episodes],
                ledgers=[episode.ledger for episode in episodes],
                artefacts=artefacts,
                certificate=NO_ATTACHMENT,
                registration=None,
            )
        )


def _rename_ids(by_id: Mapping[str, T], ids: Mapping[str, str]) -> dict[str, T]:
    return {ids[old]: value for old, value in by_id.items()}


class _Execution:
    """Execution of one episode's decisions under other trading rules."""

    def __init__(
        self,
        task: Task,
        snapshot: MarketSnapshot,
        tape: MarketTape,
        trading: TradingConfig,
        spec: EpisodeSpec,
    ) -> None:
        self._snapshot = snapshot
        self._tape = tape
        self._base_row = window_rows(snapshot.days, spec.span.first, spec.span.last)[0] - 1
        self._books = Bookkeeper(snapshot, tape, trading, self._base_row)
        self._run_books = Bookkeeper(snapshot, tape, task.trading, self._base_row)
        self._capital = (trading.initial_cash, task.trading.initial_cash)
        lens = task.scene(spec, snapshot).lens
        #: account as shown to the model, which sizes orders; None under a coarse mask with
        #: execution costs, where the executor sizes them
        self._seen: SeenBooks | None = None
        if not lens.mask.is_coarse or tape.liquidity is None:
            self._seen = SeenBooks(lens, snapshot, tape, trading)

    def run(self, recorded: Ledger) -> tuple[list[StepRecord], FillFigures, tuple[int, ...]]:
        """Return the step records, their fill figures, and the steps at which the model would have
        seen a different state. Raises InvariantError if the books don't balance.
        """
        books = self._books
        records: list[StepRecord] = []
        figures = FillFigures()
        others = []
        for step, was in enumerate(recorded.steps):
            if _shows_another_state(books.last, self._run_books.last):
                others.append(step)

            decision = recorded_decision(self._snapshot, was)
            if books.account != self._run_books.account:
                decision = replace(decision, action=self._sized_anew(decision.action))

            before = books.account
            record = books.book(step, decision, was)
            day = self._tape.day(self._base_row + step + 1)
            figures += _fill_figures(record, before, day, self._snapshot.asset_index)
            records.append(record)
            if self._seen is not None:
                self._seen.follow(books.account, record)

            self._run_books.resume(was)

        return records, figures, tuple(others)

    def _sized_anew(self, action: Action) -> Action:
        """Return recorded orders, sized for this account."""
        orders = []
        for order in action:
            if order.shares is None or order.asset is None:
                orders.append(order)
            elif order.target_weight is not None:
                # the model requested a weight; the share count was computed at decision time
                orders.append(structs.replace(order, shares=None))
            else:
                orders.append(structs.replace(order, shares=self._scale_order(order, order.asset)))

        if self._seen is None:
            return tuple(orders)
        return self._seen.size_orders(tuple(orders))

    def _scale_order(self, order: Order, asset: int) -> int:
        """Return an order's number of shares, scaled to this capital and rounded down to whole
        lots. The result is at least 1, so that the executor checks the order.
        """
        ordered = order.shares or 0
        sign = -1 if order.side == "SELL" else 1
        own = _count_held_shares(self._books.account, asset)
        was = _count_held_shares(self._run_books.account, asset)

        # shares that close the position, and shares beyond that
        closing = 0
        beyond = ordered
        if was * sign < 0 and ordered >= abs(was):
            closing = max(0, -sign * own)
            beyond = ordered - abs(was)

        now, then = self._capital
        lot = self._tape.rules_on(self._base_row).terms[asset].lot
        return max(1, closing + in_lots(beyond * now // then, lot))


def _count_held_shares(account: Account, asset: int) -> int:
    position = account.positions.get(asset)
    return 0 if position is None else position.shares


# ---- states that the model would have seen


def _shows_another_state(own: StepRecord | None, recorded: StepRecord | None) -> bool:
    """Return whether the state after a step differs from the recorded state (see the module
    docstring).
    """
    if own is None or recorded is None:
        return own is not recorded
    if _endings(own) != _endings(recorded):
        return True

    weights = own.weights
    known = recorded.weights
    has_other_sign = (own.nav_minor > 0) != (recorded.nav_minor > 0)
    if weights.keys() != known.keys() or has_other_sign:
        return True

    return any(abs(weights[code] - known[code]) > WEIGHT_TOLERANCE for code in known)


def _endings(record: StepRecord) -> list[tuple[str, str | None]]:
    return [(order.status, order.rule) for order in record.orders]


# ---- costs of fills


def _fill_figures(
    record: StepRecord, before: Account, day: TradingDay, columns: Mapping[str, int]
) -> FillFigures:
    """Return the figures of one step. `before`: the account at the previous close."""
    held = {asset: position.shares for asset, position in before.positions.items()}
    for action in record.corporate_actions:
        held[columns[action.code]] = action.shares_after

    figures = FillFigures()
    for charge in record.charges:
        if charge.kind == "borrow":
            figures += FillFigures(financing_minor=charge.costs_minor)
            continue

        asset = columns[charge.code]
        held[asset] = held.get(asset, 0) + charge.shares
        figures += _trade_costs(charge, charge.shares, asset, day)

    carried = len(record.carried)
    # the executor fills sells first
    numbered = sorted(enumerate(record.fills), key=lambda each: each[1].side != "SELL")
    for number, order in numbered:
        if order.code is None:
            figures += FillFigures(ordered_minor=_unread_minor(order, record.open_nav_minor))
            continue

        asset = columns[order.code]
        shares = order.filled_shares if order.side == "BUY" else -order.filled_shares
        filled = value_minor(order.filled_shares, day.open_ticks[asset], day.rules.units[asset])
        ordered = 0
        if number >= carried:  # a carried order was already counted on the day it was placed
            asked = _asked_minor(order, held.get(asset, 0), record.open_nav_minor, asset, day)
            # rounding to whole lots may fill more than was ordered
            ordered = max(asked, filled)

        held[asset] = held.get(asset, 0) + shares
        figures += FillFigures(ordered_minor=ordered, filled_minor=filled)
        figures += _trade_costs(order, shares, asset, day)

    return figures


def _trade_costs(
    trade: ChargeRecord | OrderRecord, shares: int, asset: int, day: TradingDay
) -> FillFigures:
    """Return the costs of a trade; `shares` is negative for a sale."""
    duties = sum(trade.duties.values())
    return FillFigures(
        commission_minor=trade.fee_minor - duties,
        duties_minor=duties,
        execution_minor=_execution_minor(shares, trade.price_ticks, asset, day),
    )


def _asked_minor(order: OrderRecord, held: int, nav_minor: int, asset: int, day: TradingDay) -> int:
    """Return the notional that an order requests, at the day's prices before costs."""
    price = day.open_ticks[asset]
    unit = day.rules.units[asset]
    if order.target_weight is None or order.shares:
        return value_minor(order.shares or 0, price, unit)

    goal = round(order.target_weight * PPB) * nav_minor // PPB
    gap = goal - value_minor(held, price, unit)
    return max(0, gap if order.side == "BUY" else -gap)


def _unread_minor(order: OrderRecord, nav_minor: int) -> int:
    """Return the notional that an order for no asset of the market requests: that of a purchase by
    weight. Of any other order it is unknown, and 0 here.
    """
    if order.target_weight is None or order.side != "BUY":
        return 0
    return round(max(0.0, order.target_weight) * PPB) * nav_minor // PPB


def _execution_minor(shares: int, price_ticks: int, asset: int, day: TradingDay) -> int:
    """Return the cost of a fill relative to the day's price; `shares` is negative for a sale."""
    if not shares:
        return 0

    unit = day.rules.units[asset]
    return value_minor(shares, price_ticks, unit) - value_minor(shares, day.open_ticks[asset], unit)
