"""One question for each asset shown, and the answers combined: so a model that decides on one asset can run on any task."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal

import msgspec

from ktdeval.errors import ProviderError, StoreError
from ktdeval.harness import (
    Decision,
    Message,
    ModelRequest,
    Observation,
    StepSession,
    Submission,
    ToolSpec,
    as_object,
    rows_by_asset,
    shown_state,
    stance_schema,
    table_rows,
)
from ktdeval.jsonio import JsonValue, dumps_canonical, loads_untrusted
from ktdeval.keyless import buyable, equal_first, is_affordable, standing
from ktdeval.masking import Payload, table
from ktdeval.ties import whole_groups
from ktdeval.trading import Provenance
from ktdeval.typed import Value, from_plain, to_plain
from ktdeval_agents.sight import Sight, first_number
from ktdeval_agents.team import wordings

INVESTED = 0.98  #: of the NAV, shared out equally; the rest covers costs and gaps at the open
SMALLEST = 0.001  #: weight below which nothing is bought
_NEWS_FIELDS = ("day", "source", "kind", "stock_ids", "title", "text")


class _Answer(Value):
    stock_id: str
    decision: Literal["BUY", "SELL", "HOLD"]
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]
    reason: str


class _Submitted(Value):
    decisions: Annotated[tuple[_Answer, ...], msgspec.Meta(min_length=1, max_length=1)]
    overall_reason: str


class ByAssetAgent:
    """Asks the model about each asset shown, and each holding, as a task on this asset only: its price, bars, documents and
    position. The answer is BUY, SELL or HOLD; if one is not valid, the step is a hold (`fallback`). A failed call ends the step
    (`error`). If the task asks for decisions, these are submitted; if it asks for orders, SELL of a holding sells it, and BUYs of
    names not held share free cash equally, within the task's limits. Assets come in the order of their figures, which no mask
    changes; where a limit leaves some out, those that are equal in all figures are bought all or none.
    """

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step. Raises ModelError: a call failed; ProviderError: the task shows no assets in its prompt."""
        sight, state = Sight.of(observation), shown_state(observation.user)
        priced = [asset for group in _in_order(sight, sight.rows) for asset in group if asset in sight.prices]
        if not sight.candidates or not as_object(state.get("constraints")):
            raise ProviderError(
                f"the agent by_asset asks about the assets that a prompt shows, and this one shows none (step {observation.step}): "
                "choose a task such as blinded_fixed_candidate, deepfund_berkshire or ama_tsla"
            )
        answers, invalid = list[_Answer](), 0
        for asset in priced:
            answer, retries = self._ask(asset, sight, state, session)
            if answer is None:
                return Decision((), "fallback", memory=memory)
            answers.append(answer)
            invalid += retries
        submission = _submit(sight, state, answers, session)
        if submission.action is None:
            return Decision((), "fallback", memory=memory)
        provenance: Provenance = "model_after_retry" if invalid else "model"
        return Decision(submission.action, provenance, submission.overall_reason, submission.stock_ids, memory)

    def _ask(self, asset: str, sight: Sight, state: Mapping[str, Any], session: StepSession) -> tuple[_Answer | None, int]:
        """Return the answer on an asset, None if no attempt was valid, and the number of invalid ones before it."""
        words = wordings()
        shortest = int(first_number(as_object(state.get("constraints")), ("min_reason_chars",)) or 0)
        tool = ToolSpec(session.submit_tool.name, words["by_asset_tool"], _schema(shortest))
        prompt = json.dumps(_narrowed(asset, sight, state), ensure_ascii=False, separators=(",", ":"))
        messages = [Message("system", words["by_asset"]), Message("user", f"```json\n{prompt}\n```")]
        for attempt in range(session.submission_attempts):
            reply = session.ask(ModelRequest(tuple(messages), (tool,), tool.name, role="asset"))
            submissions = [call.arguments for call in reply.tool_calls if call.name == tool.name]
            try:
                (text,) = submissions
                (answer,) = from_plain(loads_untrusted(text), _Submitted, "answer").decisions
            except (ValueError, StoreError):
                answer = None
            if answer is not None and answer.stock_id == asset and len(answer.reason) >= shortest:
                return answer, attempt
            session.count_failure("schema" if submissions else "no_submission")
            messages.append(Message("user", words["by_asset_again"].format(asset=asset)))
        return None, session.submission_attempts


def _narrowed(asset: str, sight: Sight, state: Mapping[str, Any]) -> dict[str, Payload]:
    """Return the state of a day with one asset, in the form of tasks on one asset."""
    limits = as_object(state.get("constraints"))
    tables: dict[str, list[Mapping[str, Any]]] = {
        name: [row for row in table_rows(state.get(name)) if row.get("stock_id") == asset] for name in ("positions", "history")
    }
    tables["news"] = [
        {field: row.get(field) for field in _NEWS_FIELDS}
        for row in table_rows(state.get("news"))
        if not row.get("stock_ids") or asset in row["stock_ids"]
    ]
    figures = {name: value for name, value in sight.rows[asset].items() if name not in ("stock_id", "close")}
    tables["candidates"] = [{"stock_id": asset, "close": sight.prices[asset], **figures}]
    shortest = {name: limits[name] for name in ("min_reason_chars",) if name in limits}
    return {
        "day": state.get("day"),
        "account": dict(as_object(state.get("account"))),
        **{name: _as_table(rows) for name, rows in tables.items() if rows or name in ("candidates", "positions")},
        "constraints": {"hold": "keep", "max_positions": 1, "max_weight": 1.0, **shortest},
    }


def _as_table(rows: Sequence[Mapping[str, Any]]) -> Payload:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return table(columns, ([row.get(name) for name in columns] for row in rows))


def _submit(sight: Sight, state: Mapping[str, Any], answers: Sequence[_Answer], session: StepSession) -> Submission:
    """Submit the answers in the task's own form."""
    counts = Counter(answer.decision for answer in answers)
    summary = f"{len(answers)} assets asked about: {', '.join(f'{count} {name}' for name, count in counts.items())}."
    if sight.asks_stances:
        unpriced = [
            _Answer(stock_id=asset, decision="HOLD", confidence=0.5, reason="It has no price today.")
            for asset in sight.candidates
            if asset not in sight.prices
        ]
        decisions = [to_plain(answer) for answer in (*answers, *unpriced) if answer.stock_id in sight.candidates]
        return session.parse_submission(dumps_canonical({"decisions": decisions, "overall_reason": summary}))
    orders = list(_orders(sight, state, answers))
    return session.parse_submission(dumps_canonical({"orders": orders, "overall_reason": summary}))


def _orders(sight: Sight, state: Mapping[str, Any], answers: Sequence[_Answer]) -> Iterator[dict[str, JsonValue]]:
    """Yield the orders of answers: sales of holdings, then purchases that share the free cash."""
    limits, account = as_object(state.get("constraints")), as_object(state.get("account"))
    weights = rows_by_asset(state.get("positions"))
    free = (first_number(account, ("cash_weight",)) or 0.0) - (1 - INVESTED)
    left = (sight.most_positions or len(sight.candidates)) - len(weights)
    for answer in answers:
        row = weights.get(answer.stock_id)
        if answer.decision == "SELL" and row is not None and row.get("shares", 0) > row.get("locked_shares", 0):
            free, left = free + float(row["weight"]), left + 1
            yield _order(answer, 0.0)
    bought = {answer.stock_id: answer for answer in answers if answer.decision == "BUY" and answer.stock_id not in weights}
    open_to = {row["stock_id"] for row in buyable([_row(sight, asset) for asset in bought])}
    groups = [[asset for asset in group if asset in open_to] for group in _in_order(sight, bought)]
    chosen = whole_groups(filter(None, groups), max(0, left))
    eligible = [_row(sight, asset) for asset in equal_first(chosen)]
    slots = min(sight.most_positions or len(sight.candidates), len(sight.candidates))
    most = first_number(limits, ("max_weight",)) or 1.0
    # Below the weight limit, since it is checked at the next open and not at this close.
    part = min(INVESTED / slots, 0.95 * most if most < 1 else most, free / max(1, len(eligible)))
    weight = int(max(part, 0.0) * 10_000) / 10_000
    for row in eligible if weight >= SMALLEST else ():
        if is_affordable(row, state, weight):
            yield _order(bought[row["stock_id"]], weight)


def _row(sight: Sight, asset: str) -> Mapping[str, Any]:
    return {"status": "trading", "close": sight.prices[asset], **sight.rows[asset], "stock_id": asset}


def _in_order(sight: Sight, assets: Iterable[str]) -> list[list[str]]:
    """Return assets by figures that no mask changes; those that are equal in all of them are one group."""
    rows = [{**sight.rows[asset], "stock_id": asset} for asset in assets]
    ordered = []
    for group in standing(rows):
        ordered.append([row["stock_id"] for row in group])
    return ordered


def _order(answer: _Answer, weight: float) -> dict[str, JsonValue]:
    side = "BUY" if weight else "SELL"
    order: dict[str, JsonValue] = {"stock_id": answer.stock_id, "side": side, "target_weight": weight}
    return order | {"confidence": answer.confidence, "reason": answer.reason}


@cache
def _schema(shortest: int) -> dict[str, JsonValue]:
    """Return the schema of an answer: that of decisions, for one, with at least `shortest` characters in its reason."""
    schema = stance_schema(shortest)
    schema["properties"]["decisions"] |= {"minItems": 1, "maxItems": 1}
    return schema
