"""One question for each asset: what is shown of it, what answers amount to by hand, and what an
invalid one comes to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness import (
    Decision,
    ModelRequest,
    Observation,
    Reply,
    Submission,
    ToolCall,
    shown_state,
    table_rows,
)
from ktdeval.observation import first_number
from ktdeval.testing import on_each_row
from ktdeval_agents import ByAssetParams
from ktdeval_agents.by_asset import ByAssetAgent
from support.tasks.agent_sessions import PreparedSession
from support.tasks.shown_states import observation_of

LIMITS = {
    "max_positions": 4,
    "max_weight": 0.3,
    "lot_shares": 100,
    "star_min_shares": 200,
    "min_reason_chars": 5,
}


class Session(PreparedSession):
    """Answers for each asset as `says` has it, one text an attempt (None: the call fails); takes
    what is submitted.
    """

    def __init__(self, says: Callable[[str, int], str | None]) -> None:
        super().__init__()
        self.says = says
        self.submitted: dict[str, Any] = {}
        self.states: dict[str, Any] = {}

    def ask(self, request: ModelRequest) -> Reply:
        state = shown_state(request.messages[1].content)
        (row,) = table_rows(state["candidates"])
        asset = row["stock_id"]
        self.asked.append(asset)
        self.states[asset] = state
        text = self.says(asset, self.asked.count(asset))

        if text is None:
            raise ModelError("timeout", "no reply")

        return Reply(text, (ToolCall("c", "submit_action", text),) if text.startswith("{") else ())

    def parse_submission(self, text: str) -> Submission:
        self.submitted = json.loads(text)
        return Submission((), self.submitted["overall_reason"], ())


def table(columns: str, *rows: Sequence[Any]) -> dict[str, Any]:
    return {"columns": columns.split(), "rows": rows}


def shown(**changes: Any) -> Observation:
    state = {
        "day": "day_+3",
        "account": {"nav_cny": 100_000.0, "cash_weight": 0.5},
        "positions": table(
            "stock_id shares locked_shares weight", ("H", 100, 0, 0.3), ("L", 100, 100, 0.2)
        ),
        "candidates": table(
            "stock_id status close_cny board return_1d_pct",
            ("U", "limit_up", 10.0, "main", 0.3),
            ("L", "trading", 200.0, "main", 0.6),
            ("S", "trading", 60.0, "star", 0.2),
            ("A", "trading", 10.0, "main", 0.1),
            ("B", "trading", 20.0, "main", 0.4),
            ("H", "trading", 300.0, "main", 0.5),
        ),
        "news": table(
            "day source kind stock_ids title text",
            ("d", "x", "news", ["A"], "t", "of A"),
            ("d", "x", "news", [], "t", "of all"),
        ),
        "constraints": LIMITS,
        **changes,
    }
    return observation_of(3, "system", f"```json\n{json.dumps(state)}\n```")


def answer(asset: str, side: str, **changes: Any) -> str:
    made = {"stock_id": asset, "decision": side, "confidence": 0.7, "reason": "because", **changes}
    return json.dumps({"decisions": [made], "overall_reason": "so"})


def decided(says: Callable[[str, int], str | None], **changes: Any) -> tuple[Decision, Session]:
    session = Session(says)
    return ByAssetAgent().decide(shown(**changes), session, None), session  # type: ignore[arg-type]


def test_decision_prompts_state_task_limits_and_order_prompts_agent_limits() -> None:
    limits = {**LIMITS, "hold": "flat", "short_sales": True}
    requests: list[ModelRequest] = []
    for constraints in (limits, LIMITS):
        session = Session(lambda asset, _: answer(asset, "HOLD"))
        ask = session.ask
        session.ask = lambda request, ask=ask: (requests.append(request), ask(request))[1]  # type: ignore[method-assign]
        rules = replace(shown(constraints=constraints), rules="HOLD means no position.")
        ByAssetAgent().decide(rules, session, None)  # type: ignore[arg-type]

    decisions = requests[0]
    orders = requests[-1]

    assert "HOLD means no position." in decisions.messages[0].content
    assert decisions.state is not None
    assert decisions.state.limits.cells == limits
    # the rules of the task: its limits, costs, lots, T+1, and what its figures are
    assert "HOLD means no position." in orders.messages[0].content
    assert "HOLD that it keeps what it has" in orders.messages[0].content
    assert orders.state is not None
    assert orders.state.limits.cells == {"hold": "keep", **LIMITS}


def test_orders_share_free_places_by_hand() -> None:
    made, session = decided(lambda asset, _: answer(asset, "SELL" if asset in "HL" else "BUY"))
    # H is sold (30 %), L is locked. Two of four places are held and one comes free: of A, S, U, B
    # those that trade, the first three by their figures, share 0.5 - 0.02 + 0.3 = 0.78, at most .98
    # / 4 = 0.245 each and 0.95 x 0.3. 200 shares of S are 12,000 of 24,500.
    orders = [
        (order["stock_id"], order["side"], order["target_weight"])
        for order in session.submitted["orders"]
    ]

    assert orders == [
        ("H", "SELL", 0.0),
        ("A", "BUY", 0.245),
        ("S", "BUY", 0.245),
        ("B", "BUY", 0.245),
    ]
    assert (made.provenance, made.overall_reason) == (
        "model",
        "6 assets asked about: 4 BUY, 2 SELL.",
    )

    poor = {"nav_cny": 100_000.0, "cash_weight": 0.13}
    _, session = decided(lambda asset, _: answer(asset, "BUY"), account=poor)
    # No place is freed: A and S share 0.11, and 200 shares of S, 12,000, are more than 5,500.
    (order,) = session.submitted["orders"]

    assert (order["stock_id"], order["target_weight"]) == ("A", pytest.approx(0.055, abs=1.5e-4))


@pytest.mark.parametrize(("most", "bought"), [(4, ["C"]), (5, ["A", "B", "C"])])
def test_equal_names_are_bought_all_or_none(most: int, bought: Any) -> None:
    equal = table(
        "stock_id status close_cny return_1d_pct",
        ("A", "trading", 10.0, 0.1),
        ("B", "trading", 10.0, 0.1),
        ("C", "trading", 10.0, 0.0),
    )
    # Of those that are bought, equal ones are ordered first: what falls short at the open falls
    # short for others.
    limits = {**LIMITS, "max_positions": most}
    _, session = decided(
        lambda asset, _: answer(asset, "BUY"), candidates=equal, constraints=limits
    )

    assert [order["stock_id"] for order in session.submitted["orders"]] == bought


def test_each_question_shows_the_sentiments_of_its_documents() -> None:
    news = table(
        "day source kind stock_ids sentiment title text",
        ("d", "x", "news", ["A"], "positive", "t", "of A"),
        ("d", "x", "news", [], None, "t", "of all"),
    )
    _, session = decided(lambda asset, _: answer(asset, "HOLD"), news=news)
    shown = table_rows(session.states["A"]["news"])

    assert [row["sentiment"] for row in shown] == ["positive", None]


def test_each_question_shows_one_asset_and_what_belongs_to_it() -> None:
    _, session = decided(lambda asset, _: answer(asset, "HOLD"))
    assert session.asked == ["A", "S", "U", "B", "H", "L"]
    assert session.submitted["orders"] == []
    assert [row["text"] for row in table_rows(session.states["A"]["news"])] == ["of A", "of all"]
    assert [row["text"] for row in table_rows(session.states["S"]["news"])] == ["of all"]
    assert [row["weight"] for row in table_rows(session.states["H"]["positions"])] == [0.3]
    assert table_rows(session.states["A"]["positions"]) == []
    assert table_rows(session.states["A"]["candidates"])[0]["close"] == 10.0
    assert "300" not in json.dumps(session.states["A"])


def test_decisions_are_submitted_one_per_candidate_where_the_task_asks() -> None:
    two = table("stock_id status close", ("A", "trading", 1.0), ("N", "not_listed", None))
    _, session = decided(
        lambda asset, _: answer(asset, "SELL"),
        candidates=two,
        constraints={"hold": "keep"},
        positions=table("stock_id"),
    )

    assert [(one["stock_id"], one["decision"]) for one in session.submitted["decisions"]] == [
        ("A", "SELL"),
        ("N", "HOLD"),
    ]


# Answers for the asset A: other fields of a sound one, or the text itself.
@on_each_row(
    "wrong, kind",
    ("words", "no_submission"),
    ("{}", "schema"),
    # of another asset
    ({"stock_id": "B"}, "schema"),
    ({"decision": "BUY, later"}, "schema"),
    ({"confidence": 2}, "schema"),
    # shorter than the task wants
    ({"reason": "no"}, "schema"),
    # Two decisions in one.
    (
        (
            '{"decisions": [{"stock_id": "A", "decision": "SELL", "decision": "BUY", '
            '"confidence": 0.7, "reason": "because"}], "overall_reason": "so"}'
        ),
        "schema",
    ),
)
def test_an_invalid_answer_is_asked_for_again_and_then_the_step_is_a_hold(
    wrong: Any, kind: str
) -> None:
    wrong = wrong if isinstance(wrong, str) else answer("A", "BUY", **wrong)
    made, session = decided(
        lambda asset, attempt: wrong if asset == "A" and attempt == 1 else answer(asset, "HOLD")
    )

    assert (made.provenance, session.failures) == ("model_after_retry", [kind])

    made, session = decided(lambda asset, _: wrong if asset == "A" else answer(asset, "BUY"))
    assert (made.action, made.provenance, session.failures, session.asked) == (
        (),
        "fallback",
        [kind, kind],
        ["A", "A"],
    )


def test_failed_call_is_an_error_and_missing_assets_name_alternatives() -> None:
    with pytest.raises(ModelError):
        decided(lambda asset, _: None if asset == "B" else answer(asset, "BUY"))

    with pytest.raises(ProviderError, match=r"this one shows none .* blinded_fixed_candidate"):
        decided(lambda asset, _: answer(asset, "BUY"), candidates=None, positions=None)


@pytest.mark.parametrize(
    "account", [{"nav_cny": 100_000.0}, {"nav_cny": 100_000.0, "cash_weight": None}, {}]
)
def test_an_account_that_shows_no_cash_buys_nothing(account: Any) -> None:
    _, session = decided(
        lambda asset, _: answer(asset, "BUY"), account=account, positions=table("stock_id")
    )
    assert session.submitted["orders"] == []


def test_submission_refused_by_the_task_becomes_a_fallback() -> None:
    session = Session(lambda asset, _: answer(asset, "BUY"))
    session.parse_submission = lambda text: Submission(None, "", ())  # type: ignore[method-assign]
    made = ByAssetAgent().decide(shown(), session, {"kept": 1})  # type: ignore[arg-type]
    assert (made.action, made.provenance, made.memory) == ((), "fallback", {"kept": 1})


@pytest.mark.parametrize(
    ("row", "number"),
    [
        ({"a": 2, "b": 3.0}, 2.0),
        ({"b": 3.0}, 3.0),
        ({"a": None, "b": 3.0}, 3.0),
        ({"a": True, "b": 3.0}, 3.0),  # a truth value is no number
        ({"a": "2", "b": 3.0}, 3.0),
        ({"a": 1e999, "b": 3.0}, 3.0),
        ({"a": -1.5}, -1.5),
        ({}, None),
    ],
)
def test_the_first_finite_number_of_the_named_fields_counts(
    row: dict[str, Any], number: float | None
) -> None:
    assert first_number(row, "a", "b") == number


# ---- several assets in one question


class TableSession(PreparedSession):
    """Answers each asset of a table by `says`; the first reply leaves out `lacking`."""

    def __init__(self, says: Callable[[str], str], lacking: str = "") -> None:
        super().__init__()
        self.says = says
        self.lacking = lacking
        self.submitted: dict[str, Any] = {}

    def ask(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        rows = table_rows(shown_state(request.messages[1].content)["candidates"])
        labels = [row["stock_id"] for row in rows]
        if len(self.asked) == 1 and self.lacking:
            labels.remove(self.lacking)

        decisions = [
            json.loads(answer(label, self.says(label)))["decisions"][0] for label in labels
        ]
        text = json.dumps({"decisions": decisions, "overall_reason": "so"})
        return Reply("", (ToolCall("c", "submit_action", text),))

    def parse_submission(self, text: str) -> Submission:
        self.submitted = json.loads(text)
        return Submission((), self.submitted["overall_reason"], ())


@pytest.mark.parametrize(("assets", "questions"), [(2, 3), (4, 2), (30, 1)])
def test_a_table_of_assets_leads_to_the_orders_of_one_question_each(
    assets: int, questions: int
) -> None:
    def side(asset: str) -> str:
        return "SELL" if asset in "HL" else "BUY"

    _, one_each = decided(lambda asset, _: answer(asset, side(asset)))
    session = TableSession(side)
    made = ByAssetAgent(ByAssetParams(assets)).decide(shown(), session, None)  # type: ignore[arg-type]

    assert len(session.asked) == questions
    assert session.submitted == one_each.submitted
    assert made.provenance == "model"

    tools = {json.dumps(request.tools[0].parameters) for request in session.asked}
    texts = [request.messages[1] for request in session.asked]
    assert len(tools) == 1  # tools come first in a prompt, so they must be the same
    for text in texts[1:]:
        (end,) = text.shared
        assert text.content[:end] == texts[0].content[:end]
        assert '"positions"' in text.content[:end]


def test_a_table_that_lacks_an_asset_is_asked_for_again() -> None:
    session = TableSession(lambda _: "HOLD", lacking="S")
    made = ByAssetAgent(ByAssetParams(30)).decide(shown(), session, None)  # type: ignore[arg-type]

    assert (made.provenance, session.failures) == ("model_after_retry", ["schema"])
    assert "on each of A, S, U, B, H, L" in session.asked[1].messages[-1].content
