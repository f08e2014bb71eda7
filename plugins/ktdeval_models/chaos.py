"""`builtin/chaos`: everything that goes wrong with real models, on a schedule drawn from the request's seed.

It misbehaves in the text of its replies only; it never touches the harness. A run with it must end without a traceback, with
every failure counted under its kind, and without an identity of a masked market in anything sent back to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ktdeval.errors import ModelError
from ktdeval.harness import ModelRequest, Reply, ToolCall
from ktdeval.jsonio import dumps_canonical
from ktdeval.seeds import derive_seed
from ktdeval_models.conversation import SUBMIT, Conversation
from ktdeval_models.params import ChaosParams

REAL_IDENTITIES = (
    "600519", "SH600519", "600519.SH", "sh.600036", "000001.SZ", "300750", "688981.SS", "sz000858", "６００５１９", "贵州茅台",
    "Kweichow Moutai", "000300.SH", "2024-09-24", "20240924", "2024/10/08", "24 September 2024", "2024年9月24日", "Friday",
)  # fmt: skip
"""Words of a model that recognises a market: codes in vendors' styles, names, an index, dates."""

ERROR_KINDS = ("timeout", "rate_limited", "server", "connection", "bad_response")

_ODD_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e999", "-1e308", "9" * 400, "1e-400", "-0.0", "true", '"0.5"', "null", "[]")

Misdeed = Callable[["_Turn"], Reply]


class _Turn:
    """One reply in the making."""

    def __init__(self, request: ModelRequest) -> None:
        self.conversation = Conversation(request)
        self.chance = np.random.default_rng(derive_seed(request.params.seed, "chaos"))
        self.shown = _shown_stocks(self.conversation)
        self.held = [str(row["stock_id"]) for row in self.conversation.rows(self.conversation.state.get("positions"))]

    def pick(self, options: Any) -> Any:
        """One of a sequence."""
        return options[int(self.chance.integers(len(options)))]

    def stock(self) -> str:
        """A stock that was shown, or one that never was."""
        return str(self.pick(self.shown)) if self.shown else "asset_0001"

    def raw(self, name: str, *arguments: str) -> Reply:
        """Calls of one tool with argument texts as they stand."""
        numbered = enumerate(arguments, self.conversation.calls_made + 1)
        return Reply(tool_calls=tuple(ToolCall(f"call_{n}", name, text) for n, text in numbered), finish_reason="tool_calls")

    def order(self, stock: str, **changes: Any) -> dict[str, Any]:
        """A sound order with changes; a value of None drops the field."""
        sells = stock in self.held and self.chance.random() < 0.5
        order = {
            "stock_id": stock,
            "side": "SELL" if sells else "BUY",
            "target_weight": 0.0 if sells else round(float(self.chance.uniform(0.01, 0.09)), 3),
            "confidence": round(float(self.chance.random()), 2),
            "reason": self.conversation.reason("the dice like this one"),
        }
        return {key: value for key, value in (order | changes).items() if value is not None}

    def submission(self, **changes: Any) -> dict[str, Any]:
        """A submission of one to four orders, one a stock, the first of which is changed. Where no stock was shown it names one."""
        stocks = self.chance.permutation(self.shown or ["asset_0001"])[: int(self.chance.integers(1, 5))].tolist()
        orders = [self.order(stock, **(changes if place == 0 else {})) for place, stock in enumerate(stocks)]
        return {"orders": orders, "overall_reason": "as the dice fell"}

    def text(self, **changes: Any) -> str:
        """The same as a call's arguments."""
        return dumps_canonical(self.submission(**changes))


class ChaosModel:
    """Misbehaves with a given chance, in a way drawn at random; behaves otherwise, so that trades happen too."""

    is_free = True  # it calls nobody

    def __init__(self, params: ChaosParams) -> None:
        self.params = params

    def reply(self, request: ModelRequest) -> Reply:
        """Answer one request, or raise a ModelError, of several kinds."""
        turn = _Turn(request)
        if turn.chance.random() < self.params.model_errors:
            raise ModelError(turn.pick(ERROR_KINDS), "the built-in chaos model failed on schedule")
        submits = turn.conversation.is_submission
        if turn.chance.random() >= self.params.misbehaviour:
            return _submit_well(turn) if submits else _research_well(turn)
        misdeed: Misdeed = turn.pick(SUBMISSION_MISDEEDS if submits else RESEARCH_MISDEEDS)
        return misdeed(turn)


def _shown_stocks(conversation: Conversation) -> list[str]:
    """Stock labels found in the state and in tool results, without duplicates, in order of appearance."""
    tables = [conversation.state.get(name) for name in ("positions", "candidates", "holdings")]
    tables.append(conversation.result("screen_candidates").get("candidates"))
    tables.append(conversation.result("compare_candidates").get("grid"))
    shown = [str(row["stock_id"]) for table in tables for row in conversation.rows(table)]
    return list(dict.fromkeys([*shown, *conversation.state.get("universe", ())]))


def _research_well(turn: _Turn) -> Reply:
    calls: list[tuple[str, Mapping[str, Any]]] = [
        ("get_market_context", {}), ("screen_candidates", {"factors": ["HIGH_52W", "-RV_60"], "k": 10}), ("portfolio_state", {}),
    ]  # fmt: skip
    if turn.shown:
        calls.append(("get_stock_snapshot", {"stock_id": turn.stock(), "lookback": 5}))
        calls.append(("compare_candidates", {"stock_ids": turn.shown[:3], "dims": ["MOM_12_1", "SKEW"]}))
        calls.append(("risk_check", {"target_weights": {turn.stock(): 0.05}}))
    if turn.conversation.turns > 2 and turn.chance.random() < 0.5:
        return Reply("Enough seen.")
    return turn.conversation.call([turn.pick(calls)] if turn.conversation.turns else calls[:2])


def _submit_well(turn: _Turn) -> Reply:
    submission = turn.submission()
    return turn.conversation.submit(submission["orders"] if turn.shown else [], submission["overall_reason"])


# --- misdeeds


def _bad_json(turn: _Turn) -> Reply:
    name = SUBMIT if turn.conversation.is_submission else "screen_candidates"
    broken = ('{"orders": [', "{'orders': []}", "", "orders", '{"orders": []} {}', "[" * 3000, "[1, 2]", '"text"', "\x00", "{,}")
    return turn.raw(name, turn.pick(broken))


def _unknown_tool(turn: _Turn) -> Reply:
    return turn.raw(turn.pick(("get_news", "screen_candidate", "python", "", "600519", "submit-action")), '{"query": "why"}')


def _wrong_arguments(turn: _Turn) -> Reply:
    return turn.raw(*turn.pick(_WRONG_ARGUMENTS))


_WRONG_ARGUMENTS = (
    ("screen_candidates", "{}"),
    ("screen_candidates", '{"factors": ["ALPHA"], "k": 5}'),
    ("screen_candidates", '{"factors": "MOM_12_1"}'),
    ("screen_candidates", '{"factors": ["SKEW"], "k": 1e9}'),
    ("screen_candidates", '{"factors": ["SKEW"], "k": NaN}'),
    ("get_stock_snapshot", '{"lookback": 5}'),
    ("get_stock_snapshot", '{"stock_id": 42}'),
    ("get_market_context", '{"date": "2024-09-24"}'),
    ("compare_candidates", '{"stock_ids": [], "dims": ["SKEW"]}'),
    ("risk_check", '{"target_weights": {"asset_9999": 0.1}}'),
    ("risk_check", '{"target_weights": [0.1]}'),
    ("risk_check", '{"target_weights": {"x": 1e999}}'),
)


def _real_identity_looked_up(turn: _Turn) -> Reply:
    name = turn.pick(REAL_IDENTITIES)
    lookups = (
        ("get_stock_snapshot", {"stock_id": name}),
        ("compare_candidates", {"stock_ids": [name, turn.stock()], "dims": ["SKEW"]}),
        ("risk_check", {"target_weights": {name: 0.05}}),
    )
    tool, arguments = turn.pick(lookups)
    calls = turn.raw(tool, dumps_canonical(arguments)).tool_calls
    return Reply(f"This looks like {name} around {turn.pick(REAL_IDENTITIES)}.", calls, "tool_calls")


def _flood(turn: _Turn) -> Reply:
    return turn.raw("get_market_context", *["{}"] * int(turn.chance.integers(5, 25)))


def _premature_submission(turn: _Turn) -> Reply:
    return turn.raw(SUBMIT, turn.text())


def _empty(turn: _Turn) -> Reply:
    return Reply(turn.pick(("", " ", "\n")))


def _prose(turn: _Turn) -> Reply:
    return Reply(f"I would buy {turn.pick(REAL_IDENTITIES)}: in {turn.pick(REAL_IDENTITIES)} it rose. {turn.text()}")


def _refusal(_turn: _Turn) -> Reply:
    return Reply("I can't give investment advice.", finish_reason="refusal")


def _filtered(_turn: _Turn) -> Reply:
    return Reply("", finish_reason="content_filter")


def _truncated(turn: _Turn) -> Reply:
    text = turn.text()
    calls = turn.raw(SUBMIT, text[: int(turn.chance.integers(len(text)))]).tool_calls
    return Reply("", calls if turn.chance.random() < 0.7 else (), "length")


def _missing_field(turn: _Turn) -> Reply:
    submission = turn.submission()
    if turn.chance.random() < 0.3:
        del submission[turn.pick(("orders", "overall_reason"))]
    else:
        submission["orders"][0].pop(turn.pick(("stock_id", "side", "confidence", "reason")))
    return turn.raw(SUBMIT, dumps_canonical(submission))


def _submission_with(*changes: Mapping[str, Any]) -> Misdeed:
    """Return a submission whose first order has one of these changes."""
    return lambda turn: turn.raw(SUBMIT, turn.text(**turn.pick(changes)))


_both_sizes = _submission_with({"target_weight": 0.05, "shares": 100}, {"target_weight": None})
_wrong_values = _submission_with(
    {"side": "HOLD"}, {"side": "buy"}, {"confidence": 1.5}, {"confidence": "high"}, {"reason": "x"}, {"reason": 7},
    {"target_weight": None, "shares": 0}, {"target_weight": None, "shares": -100}, {"target_weight": None, "shares": 150.5},
    {"target_weight": 1.2}, {"target_weight": -0.1}, {"stock_id": 42}, {"stock_id": ""}, {"price": 10.0},
)  # fmt: skip
_huge_shares = _submission_with(*({"target_weight": None, "shares": shares} for shares in (10**8, 10**30, 7, 101)))
_against_the_rules = _submission_with({"target_weight": 0.6}, {"side": "SELL", "target_weight": 0.0})
_unknown_stock = _submission_with(
    *({"stock_id": name} for name in ("asset_9999", "asset_42", "ASSET_0001", "cash", "999999", "day_+3"))
)


def _odd_numbers(turn: _Turn) -> Reply:
    return turn.raw(SUBMIT, turn.text(target_weight="#", side="BUY").replace('"#"', turn.pick(_ODD_NUMBERS)))


def _real_identity_ordered(turn: _Turn) -> Reply:
    name = turn.pick(REAL_IDENTITIES)
    reason = turn.conversation.reason(f"{name} always rises after {turn.pick(REAL_IDENTITIES)}")
    submission = turn.submission(stock_id=name, reason=reason) | {"overall_reason": f"I recognise {name}."}
    return turn.raw(SUBMIT, dumps_canonical(submission))


def _odd_text(turn: _Turn) -> Reply:
    odd = ("\\ud800 lone surrogate", "\\u0000 and control \\u001b[31m", "\\u202e right to left", "🚀" * 40, "a" * 20000)
    reason = turn.pick(odd)
    return turn.raw(SUBMIT, turn.text(reason="#" * 12).replace("#" * 12, reason, 1))


def _wrong_tool(turn: _Turn) -> Reply:
    return turn.raw("get_market_context", "{}")


def _several_submissions(turn: _Turn) -> Reply:
    return turn.raw(SUBMIT, turn.text(), turn.text())


RESEARCH_MISDEEDS: tuple[Misdeed, ...] = (
    _bad_json, _unknown_tool, _wrong_arguments, _real_identity_looked_up, _flood, _premature_submission, _empty, _prose,
    _refusal, _filtered, _truncated,
)  # fmt: skip
SUBMISSION_MISDEEDS: tuple[Misdeed, ...] = (
    _bad_json, _unknown_tool, _missing_field, _both_sizes, _wrong_values, _odd_numbers, _huge_shares, _real_identity_ordered,
    _odd_text, _wrong_tool, _several_submissions, _unknown_stock, _against_the_rules, _empty, _prose, _refusal, _filtered,
    _truncated,
)  # fmt: skip
