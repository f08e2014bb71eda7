"""Record of a decision: question, answer and committed hashes."""

from __future__ import annotations

from datetime import datetime

from msgspec import UNSET, UnsetType

from ktdeval.cards import count, tally
from ktdeval.errors import StoreError
from ktdeval.harness import Decision, StepCounts, TranscriptEntry
from ktdeval.market import MarketSnapshot
from ktdeval.runner import DecidedStep
from ktdeval.trading import CountsRecord, Order, Provenance
from ktdeval.values import JsonValue, Value, content_hash, encode_canonical, sha256_hex, to_plain
from ktdeval_live.days.clock import Zoned
from ktdeval_live.record.chain import Decided, OfDecision


class PlannedOrder(Value):
    """One order, with true identities."""

    code: str | None  #: null for an asset that the model made up
    side: str
    confidence: float
    reason: str
    target_weight: float | None = None
    shares: int | None = None
    stock_id: str = ""  #: handle as submitted, with hidden identities withheld
    limit_ticks: int | UnsetType = UNSET  #: absent for an order without a limit


class Question(OfDecision):
    """Question that an entrant is asked on one day of a market."""

    step: int  #: number of the session in the test
    data: str  #: hash of the chain entry with the latest data shown
    salt: str  #: 32 random hexadecimal digits, so that hashes of short texts can't be guessed


class DecisionRecord(Value):
    """One decision of an entrant on a market, with the complete conversation."""

    question: Question
    asked_at: Zoned  #: time by the step's clock, UTC
    answered_at: Zoned
    provenance: Provenance
    orders: tuple[PlannedOrder, ...]
    overall_reason: str
    counts: CountsRecord
    transcript: TranscriptEntry
    memory: JsonValue
    shown: tuple[str, ...]  #: handles that the mask had shown so far

    @property
    def words(self) -> str:
        """Number of orders, with what was refused, repaired or failed before them."""
        words = count(len(self.orders), "order")
        if self.provenance == "model_after_retry":
            words += " after a retry"
        if any(self.counts.failures.values()):
            words += f" (failures: {tally(self.counts.failures)})"

        return words

    def commitment(self) -> Decided:
        """Return the hashes that are published before the fills."""
        asked = self.question
        prompts = []
        replies = []
        for exchange in self.transcript.exchanges:
            prompts.append({name: exchange[name] for name in exchange if name not in _ANSWERS})
            replies.append({name: exchange[name] for name in exchange if name in _ANSWERS})

        return Decided(
            **asked.key._asdict(),
            data=asked.data,
            record=sha256_hex(encode_canonical(self)),
            orders=self._salt_content("orders", to_plain(self.orders)),
            prompts=self._salt_content("prompts", to_plain(prompts)),
            replies=self._salt_content("replies", to_plain(replies)),
            memory=self._salt_content("memory", self.memory),
        )

    def _salt_content(self, part: str, content: JsonValue) -> str:
        return content_hash([self.question.salt, part, content])


_ANSWERS = ("reply", "error", "answered")
"""Fields of a recorded call that came from the model."""


def record_of(
    question: Question,
    asked_at: datetime,
    answered_at: datetime,
    decided: DecidedStep,
    snapshot: MarketSnapshot,
) -> DecisionRecord:
    """Return the record for a decision on `snapshot`, the market as it was shown."""
    decision = decided.decision
    stock_ids = decision.stock_ids or ("",) * len(decision.action)
    orders = []
    for order, stock_id in zip(decision.action, stock_ids, strict=True):
        code = None
        if order.asset is not None:
            code = snapshot.codes[order.asset]

        planned = PlannedOrder(
            code=code,
            side=order.side,
            confidence=order.confidence,
            reason=order.reason,
            target_weight=order.target_weight,
            shares=order.shares,
            stock_id=stock_id,
            limit_ticks=UNSET if order.limit_ticks is None else order.limit_ticks,
        )
        orders.append(planned)

    return DecisionRecord(
        question=question,
        asked_at=asked_at,
        answered_at=answered_at,
        provenance=decision.provenance,
        orders=tuple(orders),
        overall_reason=decision.overall_reason,
        counts=decided.counts,
        transcript=decided.transcript,
        memory=decided.memory,
        shown=tuple(sorted(decided.shown)),
    )


def decided_of(record: DecisionRecord, snapshot: MarketSnapshot) -> DecidedStep:
    """Return the decision in a record, ready to be settled.

    Raises StoreError if the code of an order is not in the snapshot.
    """
    action = []
    for planned in record.orders:
        asset = None
        if planned.code is not None:
            asset = snapshot.asset_index.get(planned.code)
            if asset is None:
                raise StoreError(
                    f"{record.question.day}: {planned.code} is not an asset of this market"
                )

        order = Order(
            asset,
            planned.side,  # type: ignore[arg-type]  # the executor rejects any other side
            planned.confidence,
            planned.reason,
            planned.target_weight,
            planned.shares,
            None if planned.limit_ticks is UNSET else planned.limit_ticks,
        )
        action.append(order)

    stock_ids = tuple(planned.stock_id for planned in record.orders)
    decision = Decision(
        tuple(action), record.provenance, record.overall_reason, stock_ids, record.memory
    )
    return DecidedStep(decision, record.counts, record.transcript, record.memory, record.shown)


def held_step(step: int, memory: JsonValue, shown: tuple[str, ...]) -> DecidedStep:
    """Return the step for a day without a decision. Positions are held, and the memory is carried
    over from the previous day.

    This equals the engine's hold after a failed call.
    """
    nothing = TranscriptEntry(step=step, exchanges=(), submission=None)
    held = Decision((), "error", memory=memory)
    return DecidedStep(held, StepCounts().record(), nothing, memory, shown)
