"""One question for each asset shown, or for several assets in one table. The answers are combined,
so that a model that decides on a single asset can run on any task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktdeval.calls import common_prefix
from ktdeval.cards import count
from ktdeval.errors import ProviderError
from ktdeval.harness import (
    AgentTraits,
    Decision,
    Message,
    ModelRequest,
    Observation,
    StepSession,
    ToolSpec,
    join_parts,
    stance_schema,
)
from ktdeval.keyless import buyable, equal_first, is_affordable, standing
from ktdeval.masking import table
from ktdeval.observation import ObservedState, state_of_values
from ktdeval.trading import Provenance
from ktdeval.values import JsonValue, dumps_canonical, to_plain, whole_groups
from ktdeval_agents import ByAssetParams
from ktdeval_agents.answers import AssetAnswer, read_answers
from ktdeval_agents.prompts import wordings

INVESTED = 0.98  #: share of the NAV to invest; the rest covers costs and gaps at the open
SMALLEST = 0.001  #: smallest weight that is bought
# values of `status` on days without a session, in markets where each exchange has its own calendar
_NO_SESSION = ("closed", "not_listed")
_STATE = "```json\n"  # text before a state
MAX_REASON = 200  #: maximum characters of a reason in the answer to a table
_NEWS_FIELDS = ("day", "source", "kind", "stock_ids", "title", "text")


class ByAssetAgent:
    """Asks the model about each asset shown and each holding, as if the task had only this asset:
    its price, bars, documents and position. With `assets` above 1, each question has a table of
    that many assets. The part that all questions of a day share comes first, so that providers'
    prompt caches can reuse it.

    The answer is BUY, SELL or HOLD. If an answer is not valid, the step is a hold (`fallback`). A
    failed call ends the step (`error`). If the task asks for decisions, the answers are submitted.
    If it asks for orders, SELL sells a holding, and all BUYs of assets not held share the free cash
    equally, within the task's limits.

    Assets are sorted by their figures, which no mask changes. If a limit excludes some assets,
    assets with identical figures are either all bought or not bought at all.
    """

    def __init__(self, params: ByAssetParams | None = None) -> None:
        self._most = (params or ByAssetParams()).assets
        if self._most == 1:
            self.traits = AgentTraits(plan_note=lambda: str(wordings()["by_asset_note"]))

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step. Raises ModelError if a call failed. Raises ProviderError if the task
        shows no assets in its prompt.
        """
        state = observation.state
        if state is None or not state.candidates or not state.limits.cells:
            raise ProviderError(
                "the agent by_asset asks about the assets that a prompt shows, and this one shows"
                f" none (step {observation.step}): choose a task such as blinded_fixed_candidate,"
                " deepfund_berkshire or ama_tsla"
            )

        answers = list[AssetAnswer]()
        invalid = 0
        for question in self._questions(observation, state, session):
            answered, retries = _ask(question, session)
            if answered is None:
                return Decision((), "fallback", memory=memory)

            answers += answered
            invalid += retries

        submission = session.parse_submission(dumps_canonical(_combined_submission(state, answers)))
        if submission.action is None:
            return Decision((), "fallback", memory=memory)

        provenance: Provenance = "model_after_retry" if invalid else "model"
        return Decision(
            submission.action, provenance, submission.overall_reason, submission.stock_ids, memory
        )

    def _questions(
        self, observation: Observation, state: ObservedState, session: StepSession
    ) -> list[AssetQuestion]:
        """Return the day's questions, ordered by the figures of their assets."""
        words = wordings()
        name = session.submit_tool.name
        shortest = state.limits.min_reason_chars
        groups = _in_order(state, state.assets)
        labels = [label for group in groups for label in group if _is_open(state, label)]
        form = "by_asset" if self._most == 1 else "by_table"
        system = _system_prompt(form, observation, state)
        if self._most == 1:
            questions = []
            for label in labels:
                tool = ToolSpec(name, words["by_asset_tool"], stance_schema(shortest, [label]))
                questions.append(
                    AssetQuestion(
                        (label,), system, about([label], state, [label]), tool, "by_asset"
                    )
                )
            return questions

        # All questions of a day list the same tool, because providers cache tools before messages.
        tool = ToolSpec(name, words["by_table_tool"], _short_answers(shortest, sorted(labels)))
        asked = []
        for first in range(0, len(labels), self._most):
            chunk = tuple(labels[first : first + self._most])
            asked.append((chunk, about(chunk, state, state.positions)))

        shared = 0
        if len(asked) > 1:
            shared = common_prefix(asked[0][1].text, asked[1][1].text)
        return [
            AssetQuestion(chunk, system, shown, tool, "by_table", shared) for chunk, shown in asked
        ]


@dataclass(frozen=True, slots=True)
class AssetQuestion:
    """A question about some assets."""

    labels: tuple[str, ...]
    system: str  #: system prompt
    shown: ObservedState  #: the state of the day, with only these assets
    tool: ToolSpec  #: tool for the answer
    form: str  #: prefix of the names of the texts for this form of question
    #: number of characters at the start of the state's text that all questions of the day share
    shared: int = 0

    @property
    def messages(self) -> list[Message]:
        """The first messages of the question's conversation."""
        text = f"{_STATE}{self.shown.text}\n```"
        ends = (len(_STATE) + self.shared,) if self.shared else ()
        return [Message("system", self.system), Message("user", text, shared=ends)]


def _ask(question: AssetQuestion, session: StepSession) -> tuple[Sequence[AssetAnswer] | None, int]:
    """Return the answers to a question (None if no attempt was valid), and the number of invalid
    attempts made.
    """
    words = wordings()
    tool = question.tool
    shown = question.shown
    shortest = shown.limits.min_reason_chars
    messages = question.messages
    for attempt in range(session.submission_attempts):
        request = ModelRequest(tuple(messages), (tool,), tool.name, role="asset", state=shown)
        reply = session.ask(request)
        submissions = [call.arguments for call in reply.tool_calls if call.name == tool.name]
        submitted = read_answers(submissions)
        answers = () if submitted is None else submitted.decisions
        is_complete = sorted(answer.stock_id for answer in answers) == sorted(question.labels)
        if is_complete and all(len(answer.reason) >= shortest for answer in answers):
            return answers, attempt

        session.count_failure("schema" if submissions else "no_submission")
        again = "again"
        if not reply.tool_calls and reply.content.strip():
            again = "text"
            messages.append(reply.as_message())
        text = words[f"{question.form}_{again}"]
        asset = ", ".join(question.labels)
        told = text.format(asset=asset, tool=tool.name, **_reason_lengths(shortest))
        messages.append(Message("user", told))

    return None, session.submission_attempts


def _short_answers(shortest: int, labels: Sequence[str]) -> dict[str, Any]:
    """Return the schema of decisions with reasons of at most `MAX_REASON` characters."""
    schema = stance_schema(shortest, labels)
    most = {"maxLength": _reason_lengths(shortest)["most"]}
    schema["properties"]["overall_reason"] |= most
    decision = schema["properties"]["decisions"]["items"]
    decision["properties"]["reason"] |= most
    return schema


# ---- what the model is shown of the assets in a question


def _system_prompt(form: str, observation: Observation, state: ObservedState) -> str:
    """Return the instructions for a decision on one asset or on a table of assets. They include the
    task's rules: limits, costs, trading rules, and the meaning of its figures.
    """
    words = wordings()
    role = words[f"{form}_decisions" if state.limits.asks_decisions else form]
    submit = words[f"{form}_submit"].format(**_reason_lengths(state.limits.min_reason_chars))
    return join_parts(role, observation.rules, submit)


def _reason_lengths(least: int) -> dict[str, int]:
    """Return the bounds of a reason in characters, as texts name them."""
    return {"least": least, "most": max(MAX_REASON, least)}


def about(labels: Sequence[str], state: ObservedState, held: Iterable[str]) -> ObservedState:
    """Return the state of a day with only the assets `labels`, and with only the positions `held`.
    The state has the form and the limits of tasks that ask for decisions. Columns without values
    for these assets are dropped.
    """
    positions = [state.positions[label].cells for label in held if label in state.positions]
    bars = [bar.cells for label in labels for bar in state.history.get(label, ())]
    news_fields = [*_NEWS_FIELDS]
    if any(document.sentiment for document in state.documents):
        news_fields.insert(news_fields.index("title"), "sentiment")

    documents = []
    for document in state.documents:
        if not document.labels or not set(labels).isdisjoint(document.labels):
            documents.append({field: document.cells.get(field) for field in news_fields})

    candidates = []
    for label in labels:
        asset = state.assets[label]
        figures = dict(asset.cells)
        figures.pop("stock_id", None)
        figures.pop("close", None)
        candidates.append({"stock_id": label, "close": asset.price, **figures})

    values: dict[str, JsonValue] = {
        "day": state.values.get("day"),
        "account": state.account.cells,
        "positions": _as_table(positions),
    }
    # Tasks without bars or documents have no such sections.
    if bars:
        values["history"] = _as_table(bars)
    if documents:
        values["news"] = _as_table(documents)

    values["candidates"] = _as_table(candidates)
    limits: dict[str, JsonValue] = {"hold": "keep", **state.limits.cells}
    values["constraints"] = limits
    return state_of_values(values).with_older_apart_as(state)


def _as_table(rows: Sequence[Mapping[str, JsonValue]]) -> JsonValue:
    columns: dict[str, None] = {}
    for row in rows:
        columns.update(dict.fromkeys(column for column, cell in row.items() if cell is not None))

    cells = []
    for row in rows:
        cells.append([row.get(column) for column in columns])

    value: JsonValue = table(list(columns), cells)
    return value


# ---- combined answers


def _combined_submission(state: ObservedState, answers: Sequence[AssetAnswer]) -> JsonValue:
    """Return the combined answers in the task's own form."""
    counts = Counter(answer.decision for answer in answers)
    listed = ", ".join(f"{count} {decision}" for decision, count in counts.items())
    summary = f"{count(len(answers), 'asset')} asked about: {listed}."

    if state.limits.asks_decisions:
        return {"decisions": list(_decisions(state, answers)), "overall_reason": summary}
    return {"orders": list(_orders(state, answers)), "overall_reason": summary}


def _decisions(state: ObservedState, answers: Sequence[AssetAnswer]) -> Iterator[JsonValue]:
    """Yield one decision for each candidate."""
    for answer in answers:
        if answer.stock_id in state.candidates:
            yield to_plain(answer)

    for label in state.candidates:
        if not _is_open(state, label):
            hold = AssetAnswer(
                stock_id=label, decision="HOLD", confidence=0.5, reason="It has no price today."
            )
            yield to_plain(hold)


def _orders(state: ObservedState, answers: Sequence[AssetAnswer]) -> Iterator[dict[str, JsonValue]]:
    """Yield the orders that follow from the answers: first sales of holdings, then purchases that
    share the free cash.
    """
    room = _PurchaseRoom.of(state)
    for answer in answers:
        position = state.positions.get(answer.stock_id)
        if answer.decision != "SELL" or position is None:
            continue
        if position.is_sellable:
            room.free += position.weight or 0.0
            room.names += 1
            yield _target_order(answer, 0.0)

    wanted: dict[str, AssetAnswer] = {}
    for answer in answers:
        if answer.decision == "BUY" and answer.stock_id not in state.positions:
            wanted[answer.stock_id] = answer

    eligible = _eligible(state, wanted, room)
    weight = room.weight_of_each(len(eligible))
    if weight < SMALLEST:
        return

    for row in eligible:
        if is_affordable(row, state.values, weight):
            yield _target_order(wanted[str(row["stock_id"])], weight)


@dataclass
class _PurchaseRoom:
    """The cash and the number of positions left for purchases."""

    free: float  #: free cash as a share of the NAV
    names: int  #: number of positions that the task still allows
    largest: float  #: maximum weight of one purchase

    @classmethod
    def of(cls, state: ObservedState) -> _PurchaseRoom:
        """Return the cash and positions that are available before any sale."""
        assets = sum(asset.status != "not_listed" for asset in state.candidates.values())
        most = state.limits.max_positions or assets
        largest = INVESTED / max(1, min(most, assets))

        # Kept below the weight limit, because the limit is checked at the next open, not at this
        # close.
        limit = state.limits.max_weight or 1.0
        largest = min(largest, 0.95 * limit if limit < 1 else limit)

        free = (state.account.cash_weight or 0.0) - (1 - INVESTED)
        return cls(free, most - len(state.positions), largest)

    def weight_of_each(self, purchases: int) -> float:
        """Return the weight of each of `purchases` equal purchases, rounded down to four decimals."""
        weight = min(self.largest, self.free / max(1, purchases))
        return int(max(weight, 0.0) * 10_000) / 10_000


def _eligible(
    state: ObservedState, labels: Iterable[str], room: _PurchaseRoom
) -> list[Mapping[str, JsonValue]]:
    """Return the rows of the assets to buy, at most as many as the task still allows. Assets with
    identical figures are either all included or all excluded.
    """
    rows = {label: _asset_row(state, label) for label in labels}
    open_labels = {row["stock_id"] for row in buyable(list(rows.values()))}
    groups = []
    for group in _in_order(state, rows):
        open_group = [label for label in group if label in open_labels]
        if open_group:
            groups.append(open_group)

    chosen = whole_groups(groups, max(0, room.names))
    return [rows[label] for label in equal_first(chosen)]


def _is_open(state: ObservedState, label: str) -> bool:
    """Return whether an asset can be decided on: it has a price, and its exchange is open."""
    asset = state.assets[label]
    return asset.price is not None and asset.status not in _NO_SESSION


def _asset_row(state: ObservedState, label: str) -> Mapping[str, JsonValue]:
    """Return an asset's figures with the columns that rule-based models expect."""
    asset = state.assets[label]
    return {"status": "trading", "close": asset.price, **asset.cells, "stock_id": label}


def _in_order(state: ObservedState, labels: Iterable[str]) -> list[list[str]]:
    """Return groups of assets with identical figures, sorted by figures that no mask changes."""
    rows = [state.assets[label].cells for label in labels]
    return [[str(row["stock_id"]) for row in group] for group in standing(rows)]


def _target_order(answer: AssetAnswer, weight: float) -> dict[str, JsonValue]:
    return {
        "stock_id": answer.stock_id,
        "side": "BUY" if weight else "SELL",
        "target_weight": weight,
        "confidence": answer.confidence,
        "reason": answer.reason,
    }
