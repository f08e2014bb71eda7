"""A trading episode step by step: observe, decide, settle; and its books in true identities."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from msgspec import structs
from msgspec.structs import asdict

from ktdeval.attribution.style_factor_panel import factor_history
from ktdeval.errors import StoreError
from ktdeval.harness.action import ActionForm, SubmissionForm
from ktdeval.harness.agent import Agent, Decision, Lesson
from ktdeval.harness.chat_messages import CallParams, Model
from ktdeval.harness.external_acts import NOT_A_RUN, Outside
from ktdeval.harness.predictor_scores import FactorHistory
from ktdeval.harness.session_parts import SessionParts
from ktdeval.harness.step_session import GuardedSession, TranscriptEntry
from ktdeval.harness.tool_definition import Tool
from ktdeval.harness.traits import close_agent
from ktdeval.market.rules.calendar import window_rows
from ktdeval.market.snapshots.snapshot import MarketSnapshot, MarketView
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.masking.lens import Lens
from ktdeval.runner.episodes.shown_account import SeenBooks, shown_account
from ktdeval.runner.plans.additional_models import session_models
from ktdeval.runner.records.episode_journal import Entry, JournalEntry
from ktdeval.runner.records.ledger_file import encode_ledger
from ktdeval.runner.records.run_folder import LEDGER
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.task_api.events import StepFinished
from ktdeval.task_api.trading_task import Scene, Task
from ktdeval.task_api.traits import task_traits
from ktdeval.trading.daily_settlement import Settlement, open_account, value_minor
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
from ktdeval.trading.market_tape import MarketTape, TradingDay
from ktdeval.trading.types import (
    Account,
    Charge,
    CorporateAction,
    Order,
    Outcome,
    Position,
    TradingConfig,
)
from ktdeval.trading.venue_terms import Terms, duties_of
from ktdeval.values.config_options import build
from ktdeval.values.seeds import derive_seed
from ktdeval.values.strict_json import JsonValue, dumps_canonical, loads_strict

T = TypeVar("T")


class Bookkeeper:
    """Account of an episode from step to step, its first on the day of `base_row`: settles
    decisions at the next opens.
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
        """Take up the account at the close of a record's fill day."""
        columns = self._snapshot.asset_index
        positions = {
            columns[held.code]: Position(held.shares, held.locked) for held in last.positions
        }
        working = tuple(
            Order(
                columns[rest.code],
                rest.side,
                rest.confidence,
                rest.reason,
                shares=rest.shares,
                limit_ticks=rest.limit_ticks,
            )
            for rest in last.working
        )
        self.account = Account(last.cash_minor, positions, working)
        self.last = last

    def book(self, step: int, decision: Decision, counts: CountsRecord) -> StepRecord:
        """Settle a decision and return its record. Raises InvariantError: the books don't add
        up.
        """
        row = self._base_row + step
        day = self._tape.day(row + 1)
        booked = settle(self.account, day, decision.action, row)
        codes = self._snapshot.codes
        days = self._snapshot.days
        self.account = booked.after
        self.last = StepRecord(
            **{name: getattr(counts, name) for name in CountsRecord.__struct_fields__},
            step=step,
            decided_on=str(days[row]),
            filled_on=str(days[row + 1]),
            provenance=decision.provenance,
            overall_reason=decision.overall_reason,
            orders=_orders(
                codes, decision.action, decision.stock_ids, booked.outcomes, day.rules.terms
            ),
            corporate_actions=_records_with_codes(
                CorporateActionRecord, codes, booked.corporate_actions
            ),
            charges=_charges(codes, booked.charges, day.rules.terms),
            positions=_positions(codes, booked, day),
            cash_minor=booked.after.cash_minor,
            holdings_minor=booked.holdings_minor,
            nav_minor=booked.nav_minor,
            open_nav_minor=booked.open_nav_minor,
            carried=_orders(codes, booked.carried, (), booked.carried_outcomes, day.rules.terms),
            working=_working(codes, booked.after.working),
        )

        return self.last


def _working(codes: Sequence[str], orders: Sequence[Order]) -> tuple[WorkingRecord, ...]:
    records = []
    for order in orders:
        if order.asset is None or order.shares is None:
            continue  # only orders of assets, in shares, are cut by volume

        record = WorkingRecord(
            code=codes[order.asset],
            side=order.side,
            confidence=order.confidence,
            reason=order.reason,
            shares=order.shares,
            limit_ticks=order.limit_ticks,
        )
        records.append(record)

    return tuple(records)


def _orders(
    codes: Sequence[str],
    action: Sequence[Order],
    stock_ids: Sequence[str],
    outcomes: Sequence[Outcome],
    terms: Sequence[Terms],
) -> tuple[OrderRecord, ...]:
    records = []
    for number, (order, outcome) in enumerate(zip(action, outcomes, strict=True)):
        code = None
        submitted = None
        duties: dict[str, int] = {}
        if order.asset is not None:
            code = codes[order.asset]
            if outcome.shares:
                is_sell = order.side == "SELL"
                duties = duties_of(
                    outcome.shares, outcome.notional_minor, terms[order.asset], is_sell
                )
        elif stock_ids:
            submitted = stock_ids[number]

        record = OrderRecord(
            code=code,
            stock_id=submitted,
            side=order.side,
            confidence=order.confidence,
            reason=order.reason,
            target_weight=order.target_weight,
            shares=order.shares,
            status=outcome.status,
            rule=outcome.rule,
            message=outcome.message,
            filled_shares=outcome.shares,
            price_ticks=outcome.price_ticks,
            notional_minor=outcome.notional_minor,
            fee_minor=outcome.fee_minor,
            duties=duties,
            limit_ticks=order.limit_ticks,
        )
        records.append(record)

    return tuple(records)


def _charges(
    codes: Sequence[str], charges: Sequence[Charge], terms: Sequence[Terms]
) -> tuple[ChargeRecord, ...]:
    records = []
    named = _records_with_codes(ChargeRecord, codes, charges)
    for charge, record in zip(charges, named, strict=True):
        if charge.kind == "margin_call":
            shares = abs(charge.shares)
            is_sell = charge.shares < 0
            duties = duties_of(shares, record.notional_minor, terms[charge.asset], is_sell)
            record = structs.replace(record, duties=duties)

        records.append(record)

    return tuple(records)


def _records_with_codes(
    record: Callable[..., T], codes: Sequence[str], values: Sequence[CorporateAction | Charge]
) -> tuple[T, ...]:
    """Records of what the executor booked: the same fields, with the code instead of the column."""
    records = []
    for value in values:
        fields = asdict(value)
        code = codes[fields.pop("asset")]
        records.append(record(code=code, **fields))

    return tuple(records)


def _positions(
    codes: Sequence[str], booked: Settlement, day: TradingDay
) -> tuple[PositionRecord, ...]:
    """Positions at the close; ascending columns are ascending codes."""
    ticks = day.close_ticks
    return tuple(
        PositionRecord(
            code=codes[asset],
            shares=held.shares,
            locked=held.locked,
            price_ticks=ticks[asset],
            value_minor=value_minor(held.shares, ticks[asset], day.rules.units[asset]),
        )
        for asset, held in sorted(booked.after.positions.items())
    )


def recorded_decision(snapshot: MarketSnapshot, record: StepRecord) -> Decision:
    """Return the decision that a record was made from. Raises StoreError: an order's code is not an
    asset of the snapshot.
    """
    columns = snapshot.asset_index
    action = []
    for recorded in record.orders:
        if recorded.code is not None and recorded.code not in columns:
            raise StoreError(
                f"step {record.step}: {recorded.code} is not an asset of snapshot {snapshot.meta.name}"
            )

        order = Order(
            None if recorded.code is None else columns[recorded.code],
            recorded.side,  # type: ignore[arg-type]  # the executor rejects any other side
            recorded.confidence,
            recorded.reason,
            recorded.target_weight,
            recorded.shares,
            recorded.limit_ticks,
        )
        action.append(order)

    stock_ids = tuple(recorded.stock_id or "" for recorded in record.orders)
    return Decision(tuple(action), record.provenance, record.overall_reason, stock_ids)


def episode_ledger(
    spec: EpisodeSpec,
    records: Sequence[StepRecord],
    snapshot: MarketSnapshot,
    tape: MarketTape,
    trading: TradingConfig,
) -> Ledger:
    """Return the ledger of an episode's records; `tape`: the market under these rules."""
    initial_cash = open_account(trading, tape.rules.minor_per_unit).cash_minor
    return Ledger(spec.to_json(), initial_cash, records).in_units_of(snapshot, tape.rules)


@dataclass(frozen=True)
class EpisodeParts:
    """Everything that an episode's outcome depends on besides its spec. `tape` is the snapshot
    under the task's trading rules.
    """

    task: Task
    tools: tuple[Tool, ...]
    snapshot: MarketSnapshot
    tape: MarketTape
    model: Model
    agent: Agent
    #: further models by the name that the agent asks them by; None: `model` answers for them
    further: Mapping[str, Model] | None = None
    outside: Outside = NOT_A_RUN  #: what the run gives to agents outside of this code

    def bookkeeper(self, spec: EpisodeSpec) -> Bookkeeper:
        """Return the books of an episode at its start."""
        base_row = window_rows(self.snapshot.days, spec.span.first, spec.span.last)[0] - 1
        return Bookkeeper(self.snapshot, self.tape, self.task.trading, base_row)

    def ledger(self, spec: EpisodeSpec, records: Sequence[StepRecord]) -> Ledger:
        """Return the ledger of an episode's records."""
        return episode_ledger(spec, records, self.snapshot, self.tape, self.task.trading)


@dataclass(frozen=True)
class DecidedStep:
    """One step that is decided and not settled yet."""

    decision: Decision  #: orders as the executor takes them
    counts: CountsRecord
    transcript: TranscriptEntry
    memory: JsonValue  #: of the agent, after the step
    shown: tuple[str, ...]  #: handles that the mask has shown so far


class TradingEpisode:
    """A trading episode; from step to step go its books and the agent's memory. Members as of
    `Episode`.
    """

    entry_type: type[Entry] = JournalEntry[StepRecord]

    def __init__(self, spec: EpisodeSpec, parts: EpisodeParts) -> None:
        start, stop = window_rows(parts.snapshot.days, spec.span.first, spec.span.last)
        self.total_steps = stop - start
        if spec.limit is not None:
            self.total_steps = min(spec.limit, self.total_steps)

        self._spec = spec
        self._parts = parts
        self._base_row = start - 1
        self._books = parts.bookkeeper(spec)
        self._memory: JsonValue = None
        self._scene: Scene = parts.task.scene(spec, parts.snapshot)
        scene = self._scene
        lens = scene.lens
        rules = parts.tape.rules
        traits = task_traits(parts.task)
        self._is_at_book = traits.account_at_book
        self._seen = shown_account(parts.task, lens, parts.snapshot, parts.tape)
        self._lessons = traits.lessons
        #: whether the first step begins with the task's lessons
        self.has_warm_up = traits.lessons is not None
        form: SubmissionForm
        if traits.submission_form is None:
            limits = None
            if isinstance(self._seen, SeenBooks) and parts.task.trading.limit_orders:
                limits = self._seen.last_prices
            form = ActionForm(
                parts.task.harness,
                lens,
                rules.scales,
                rules.shorts,
                limits,
                weights_only=traits.account_at_book,
            )
        else:
            form = traits.submission_form(scene)

        self._session_parts = SessionParts(
            model=parts.model,
            lens=lens,
            guard=LeakGuard(lens, parts.snapshot),
            tools=parts.tools,
            form=form,
            harness=parts.task.harness,
            params=build(CallParams, spec.call, "call"),
            seed=spec.call_seed,
            chance_seed=spec.chance_seed,
            name=spec.model,
            further=session_models(spec, parts.model, parts.further),
            outside=parts.outside,
        )

    def is_own(self, step: int, entry: JournalEntry[StepRecord]) -> bool:
        """Whether an entry can be that of this step of this episode."""
        record = entry.step
        days = self._parts.snapshot.days
        row = self._base_row + step
        codes_exist = all(
            held.code in self._parts.snapshot.asset_index for held in record.positions
        )

        return codes_exist and (record.step, record.decided_on, record.filled_on) == (
            step,
            str(days[row]),
            str(days[row + 1]),
        )

    def resume(self, entries: Sequence[JournalEntry[StepRecord]]) -> None:
        """Take up where the journal of these entries, at least one, ends."""
        for entry in entries:
            self._books.resume(entry.step)
            self._seen.follow(self._books.account, entry.step)
        self._memory = entries[-1].memory
        self._scene.lens.recall(entries[-1].shown)

    def run_step(self, step: int) -> JournalEntry[StepRecord]:
        """Decide and settle one step."""
        return self.settle_step(step, self.decide_step(step))

    def decide_step(self, step: int) -> DecidedStep:
        """Ask the agent at one close; the books stay as they are. Raises KtdevalError."""
        seen = self._seen
        view = self._parts.snapshot.as_of(self._base_row + step)
        observation = self._scene.observe(step, view, seen.account, seen.last)
        session = GuardedSession(
            self._session_parts,
            step,
            context=self._scene.tool_context(step, view, seen.account),
            breaches=seen.breaches,
            teach=self._teach(step, view),
            # style factors are figures of the market, which an account at book goes without
            history=None if self._is_at_book else partial(self._history, view),
        )
        outcome = session.decide(self._parts.agent, observation, self._memory)
        decision = replace(outcome.decision, action=seen.sized(outcome.decision.action))
        # so that a resumed agent gets the very same
        memory = loads_strict(dumps_canonical(outcome.decision.memory))

        return DecidedStep(
            decision, outcome.counts, outcome.transcript, memory, self._scene.lens.shown
        )

    def settle_step(self, step: int, decided: DecidedStep) -> JournalEntry[StepRecord]:
        """Settle a decision, and take up its memory. The days of its fills must be known."""
        record = self._books.book(step, decided.decision, decided.counts)
        self._seen.follow(self._books.account, record)
        self._memory = decided.memory

        return JournalEntry(
            step=record,
            transcript=decided.transcript,
            memory=decided.memory,
            shown=decided.shown,
        )

    @property
    def lens(self) -> Lens:
        """The mask of the episode."""
        return self._scene.lens

    def draw_anew(self, *words: str | int) -> None:
        """Ask from now on with other seeds of calls and of chance, which follow from `words`."""
        parts = self._session_parts
        chance = parts.chance_seed
        self._session_parts = replace(
            parts,
            seed=derive_seed(parts.seed, *words),
            chance_seed=None if chance is None else derive_seed(chance, *words),
        )

    @property
    def has_documents(self) -> bool:
        """Whether the market has documents, of which a day may show many or none."""
        return len(self._parts.snapshot.documents) > 0

    def shown_bytes(self, step: int) -> int:
        """Return the UTF-8 bytes that the task shows at a step, at which nothing is held."""
        seen = self._seen
        view = self._parts.snapshot.as_of(self._base_row + step)
        observation = self._scene.observe(step, view, seen.account, seen.last)
        return len(observation.user.encode())

    def recall(self, shown: Collection[str]) -> None:
        """Treat handles that the mask has shown earlier as shown."""
        self._scene.lens.recall(shown)

    def _teach(self, step: int, view: MarketView) -> Callable[[], Iterable[Lesson]] | None:
        """Return what makes the lessons of a warm-up, at the first step of a task with one."""
        if step > 0 or not self.has_warm_up or self._lessons is None:
            return None
        return partial(self._lessons, self._scene, view)

    def _history(self, view: MarketView, days: int) -> FactorHistory:
        """Style factors of today's index members over the latest days, in an order that says
        nothing about codes.
        """
        inside = view.member[view.day]
        members = [asset for asset in self._scene.lens.order if inside[asset]]
        return FactorHistory(members, factor_history(view, days)[:, members])

    def close(self) -> None:
        """End what the agent holds."""
        close_agent(self._parts.agent)

    def event(self, record: StepRecord) -> StepFinished:
        """Return the event of a recorded step."""
        return StepFinished(
            self._spec,
            step=record.step,
            total_steps=self.total_steps,
            filled_on=record.filled_on,
            nav=record.nav_minor / self._parts.tape.rules.minor_per_unit,
            orders=len(record.orders),
            rejections=sum(order.status == "rejected" for order in record.orders),
            tokens=record.input_tokens + record.output_tokens,
            provenance=record.provenance,
            currency=self._parts.tape.rules.currency,
        )

    def encode(self, records: Sequence[StepRecord]) -> tuple[str, bytes]:
        """Return the ledger of all steps, as its file."""
        return LEDGER, encode_ledger(self._parts.ledger(self._spec, records))
