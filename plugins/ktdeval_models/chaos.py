"""`builtin/chaos`: a model that fails at random, in the ways in which real models fail.

The request's chance seed determines how the model fails. It misbehaves only in the text of its
replies. A run with this model must end without a traceback, must count every failure under its
kind, and must not leak the identity of a masked asset in any text that is sent back to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ktdeval.errors import ModelError
from ktdeval.harness import ModelRequest, ModelTraits, Reply, ToolCall
from ktdeval.keyless import SUBMIT, Conversation
from ktdeval.values import derive_seed, dumps_canonical, load_yaml
from ktdeval_models.params import ChaosParams

_WORDS = load_yaml(Path(__file__).with_name("chaos.yaml"))
_IDENTITIES: Sequence[str] = _WORDS["identities"]

ERROR_KINDS = ("timeout", "rate_limited", "server", "connection", "bad_response")

_ODD_NUMBERS = (
    "NaN",
    "Infinity",
    "-Infinity",
    "1e999",
    "-1e308",
    "9" * 400,
    "1e-400",
    "-0.0",
    "true",
    '"0.5"',
    "null",
    "[]",
)

_INVENTED_STOCK = "asset_0001"
_Option = TypeVar("_Option")
Misdeed = Callable[["_ReplyState"], Reply]


class _ReplyState:
    """State of one reply: the conversation, the random draws, and the stocks shown and held."""

    def __init__(self, request: ModelRequest) -> None:
        self.conversation = Conversation(request)
        self.chance = np.random.default_rng(derive_seed(request.chance_seed, "chaos"))
        self.shown = _shown_stocks(self.conversation)
        positions = self.conversation.rows(self.conversation.state.get("positions"))
        self.held = [str(row["stock_id"]) for row in positions]

    def pick(self, options: Sequence[_Option]) -> _Option:
        """Return a random element of a sequence."""
        return options[int(self.chance.integers(len(options)))]

    def stock(self) -> str:
        """Return one of the stocks shown, or an invented stock if none was shown."""
        if not self.shown:
            return _INVENTED_STOCK
        return self.pick(self.shown)

    def raw(self, name: str, *arguments: str) -> Reply:
        """Return calls to one tool, each with a raw argument string."""
        first = self.conversation.calls_made + 1
        calls = [ToolCall(f"call_{n}", name, text) for n, text in enumerate(arguments, first)]
        return Reply(tool_calls=tuple(calls), finish_reason="tool_calls")

    def order(self, stock: str, **changes: Any) -> dict[str, Any]:
        """Return a valid order with the given changes; a value of None removes the field."""
        side = "BUY"
        if stock in self.held and self.chance.random() < 0.5:
            side = "SELL"

        target = 0.0
        if side == "BUY":
            target = round(float(self.chance.uniform(0.01, 0.09)), 3)

        order = {
            "stock_id": stock,
            "side": side,
            "target_weight": target,
            "confidence": round(float(self.chance.random()), 2),
            "reason": self.conversation.reason("the dice like this one"),
        }
        return {key: value for key, value in (order | changes).items() if value is not None}

    def submission(self, **changes: Any) -> dict[str, Any]:
        """Return a submission with orders for one to four stocks, and apply the changes to the
        first order. If no stocks are shown, the order is for an invented stock.
        """
        shuffled = self.chance.permutation(self.shown or [_INVENTED_STOCK])
        count = int(self.chance.integers(1, 5))
        first, *others = shuffled[:count].tolist()
        orders = [self.order(first, **changes), *map(self.order, others)]
        return {"orders": orders, "overall_reason": "as the dice fell"}

    def text(self, **changes: Any) -> str:
        """Return a submission as the argument string of a call."""
        return dumps_canonical(self.submission(**changes))


class ChaosModel:
    """Model that misbehaves at random, with a given probability.

    The rest of the time it behaves well, so that trades happen too.
    """

    traits = ModelTraits(is_free=True, draws_chance=True)

    def __init__(self, params: ChaosParams) -> None:
        self.params = params

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request, or raise a ModelError of a random kind."""
        turn = _ReplyState(request)
        if turn.chance.random() < self.params.model_errors:
            raise ModelError(turn.pick(ERROR_KINDS), "the built-in chaos model failed on schedule")

        well_behaved: Misdeed = _research_well
        misdeeds = RESEARCH_MISDEEDS
        if turn.conversation.is_submission:
            well_behaved = _submit_well
            misdeeds = SUBMISSION_MISDEEDS

        if turn.chance.random() >= self.params.misbehaviour:
            return well_behaved(turn)
        return turn.pick(misdeeds)(turn)


def _shown_stocks(conversation: Conversation) -> list[str]:
    """Return the stock labels in the state and in tool results, in order of appearance and without
    duplicates.
    """
    tables = [conversation.state.get(name) for name in ("positions", "candidates", "holdings")]
    tables.append(conversation.result("screen_candidates").get("candidates"))
    tables.append(conversation.result("compare_candidates").get("grid"))

    shown: list[str] = []
    for table in tables:
        shown += [str(row["stock_id"]) for row in conversation.rows(table)]
    shown += conversation.state.get("universe", ())

    return list(dict.fromkeys(shown))


def _research_well(turn: _ReplyState) -> Reply:
    calls: list[tuple[str, Mapping[str, Any]]] = [
        ("get_market_context", {}),
        ("screen_candidates", {"factors": ["HIGH_52W", "-RV_60"], "k": 10}),
        ("portfolio_state", {}),
    ]
    if turn.shown:
        calls.append(("get_stock_snapshot", {"stock_id": turn.stock(), "lookback": 5}))
        calls.append(
            ("compare_candidates", {"stock_ids": turn.shown[:3], "dims": ["MOM_12_1", "SKEW"]})
        )
        calls.append(("risk_check", {"target_weights": {turn.stock(): 0.05}}))

    if turn.conversation.turns > 2 and turn.chance.random() < 0.5:
        return Reply("Enough seen.")

    if not turn.conversation.turns:
        return turn.conversation.call(calls[:2])
    return turn.conversation.call([turn.pick(calls)])


def _submit_well(turn: _ReplyState) -> Reply:
    submission = turn.submission()
    orders = submission["orders"]
    if not turn.shown:
        orders = []
    return turn.conversation.submit(orders, submission["overall_reason"])


# --- kinds of misbehaviour


def _bad_json(turn: _ReplyState) -> Reply:
    name = "screen_candidates"
    if turn.conversation.is_submission:
        name = SUBMIT

    broken = (
        '{"orders": [',
        "{'orders': []}",
        "",
        "orders",
        '{"orders": []} {}',
        "[" * 3000,
        "[1, 2]",
        '"text"',
        "\x00",
        "{,}",
    )
    return turn.raw(name, turn.pick(broken))


def _real_identity_looked_up(turn: _ReplyState) -> Reply:
    name = turn.pick(_IDENTITIES)
    lookups: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("get_stock_snapshot", {"stock_id": name}),
        ("compare_candidates", {"stock_ids": [name, turn.stock()], "dims": ["SKEW"]}),
        ("risk_check", {"target_weights": {name: 0.05}}),
    )
    tool, arguments = turn.pick(lookups)
    calls = turn.raw(tool, dumps_canonical(arguments)).tool_calls

    return Reply(f"This looks like {name} around {turn.pick(_IDENTITIES)}.", calls, "tool_calls")


def _prose(turn: _ReplyState) -> Reply:
    return Reply(
        f"I would buy {turn.pick(_IDENTITIES)}: in {turn.pick(_IDENTITIES)} it rose. {turn.text()}"
    )


def _truncate_turn(turn: _ReplyState) -> Reply:
    text = turn.text()
    end = int(turn.chance.integers(len(text)))
    calls = turn.raw(SUBMIT, text[:end]).tool_calls
    if turn.chance.random() >= 0.7:
        calls = ()  # the reply was cut off before the call began
    return Reply("", calls, "length")


def _missing_field(turn: _ReplyState) -> Reply:
    submission = turn.submission()
    if turn.chance.random() < 0.3:
        del submission[turn.pick(("orders", "overall_reason"))]
    else:
        submission["orders"][0].pop(turn.pick(("stock_id", "side", "confidence", "reason")))
    return turn.raw(SUBMIT, dumps_canonical(submission))


def _submission_with(*changes: Mapping[str, Any]) -> Misdeed:
    """Return a misdeed that submits orders, the first of which has one of these changes."""
    return lambda turn: turn.raw(SUBMIT, turn.text(**turn.pick(changes)))


def _real_identity_ordered(turn: _ReplyState) -> Reply:
    name = turn.pick(_IDENTITIES)
    reason = turn.conversation.reason(f"{name} always rises after {turn.pick(_IDENTITIES)}")
    submission = turn.submission(stock_id=name, reason=reason) | {
        "overall_reason": f"I recognise {name}."
    }

    return turn.raw(SUBMIT, dumps_canonical(submission))


def _odd_text(turn: _ReplyState) -> Reply:
    odd = (
        "\\ud800 lone surrogate",
        "\\u0000 and control \\u001b[31m",
        "\\u202e right to left",
        "🚀" * 40,
        "a" * 20000,
    )
    reason = turn.pick(odd)
    # The escapes are inserted into the JSON text, not as a value, so that they reach the parser
    # unchanged.
    marker = "#" * 12
    return turn.raw(SUBMIT, turn.text(reason=marker).replace(marker, reason, 1))


def _odd_number(turn: _ReplyState) -> Reply:
    text = turn.text(target_weight="#", side="BUY")
    return turn.raw(SUBMIT, text.replace('"#"', turn.pick(_ODD_NUMBERS)))


def _flood(turn: _ReplyState) -> Reply:
    count = int(turn.chance.integers(5, 25))
    return turn.raw("get_market_context", *["{}"] * count)


_HUGE_SHARES = [{"target_weight": None, "shares": shares} for shares in (10**8, 10**30, 7, 101)]

_MISDEEDS: Mapping[str, Misdeed] = {
    "bad_json": _bad_json,
    "unknown_tool": lambda turn: turn.raw(turn.pick(_WORDS["unknown_tools"]), '{"query": "why"}'),
    "wrong_arguments": lambda turn: turn.raw(*turn.pick(_WORDS["wrong_arguments"])),
    "real_identity_looked_up": _real_identity_looked_up,
    "flood": _flood,
    "premature_submission": lambda turn: turn.raw(SUBMIT, turn.text()),
    "empty": lambda turn: Reply(turn.pick(("", " ", "\n"))),
    "prose": _prose,
    "refusal": lambda _: Reply("I can't give investment advice.", finish_reason="refusal"),
    "filtered": lambda _: Reply("", finish_reason="content_filter"),
    "truncated": _truncate_turn,
    "missing_field": _missing_field,
    "odd_numbers": _odd_number,
    "huge_shares": _submission_with(*_HUGE_SHARES),
    "real_identity_ordered": _real_identity_ordered,
    "odd_text": _odd_text,
    "wrong_tool": lambda turn: turn.raw("get_market_context", "{}"),
    "several_submissions": lambda turn: turn.raw(SUBMIT, turn.text(), turn.text()),
    **{name: _submission_with(*changes) for name, changes in _WORDS["changed_orders"].items()},
}
RESEARCH_MISDEEDS = tuple(_MISDEEDS[name] for name in _WORDS["research"])
SUBMISSION_MISDEEDS = tuple(_MISDEEDS[name] for name in _WORDS["submission"])
