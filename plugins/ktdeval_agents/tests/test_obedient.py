"""A model that obeys its instructions to the letter trades under every agent on every task: nothing
that an agent is told forbids what its task asks for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any

import pytest

from ktdeval.errors import ProviderError
from ktdeval.harness import Message, ModelRequest, ModelTraits, Reply, ToolSpec
from ktdeval.task_api.scoring import is_scoring
from ktdeval.testing import on_each_row
from ktdeval.trading import DECIDED
from support.providers.obedient_model import ObedientModel
from support.tables import beside
from support.tasks.planned_tasks import PLUGINS, TASKS, planned

TABLES = beside(__file__)
STEPS = 3
# which of the two depends on whether a mask hides dates
LENGTH = re.compile("- (The last day of the episode|Episodes of this task usually last) ")
AT_ONCE = {*DECIDED} - {"model_after_retry"}


def _cases() -> Iterator[Any]:
    """Every agent on every task of the table; tasks outside of `often` are slow."""
    for task in TABLES["tasks"]:
        marks = () if task in TABLES["often"] else (pytest.mark.slow,)
        for agent in TABLES["agents"]:
            if task not in TABLES["refused"].get(agent, ()):
                yield pytest.param(agent, task, marks=marks, id=f"{agent}-{task}")


@pytest.mark.exhaustive
@pytest.mark.parametrize(("agent", "task"), [*_cases()])
def test_an_obedient_model_buys_keeps_and_finds_no_contradiction(agent: str, task: str) -> None:
    model = ObedientModel()
    plan = planned(task, agent)
    episode = plan.factory.open(plan.specs[0], model)
    steps = [episode.run_step(number).step for number in range(STEPS)]

    assert not model.contradictions
    assert {step.provenance for step in steps} <= AT_ONCE

    failed = set(chain.from_iterable(step.failures for step in steps))
    assert failed <= set(TABLES["not_read"].get(task, ())), "an answer was not read as given"

    orders = chain.from_iterable(step.orders for step in steps)
    filled = [order for order in orders if order.filled_shares]

    assert filled, steps[0].orders

    if task not in TABLES["rebuilt"]:
        assert {order.side for order in filled} == {"BUY"}, "what it was told to keep was sold"


@pytest.mark.parametrize(
    ("agent", "task"),
    [(agent, task) for agent, tasks in TABLES["refused"].items() for task in tasks],
)
def test_an_agent_that_a_task_gives_nothing_to_decide_on_refuses_it(agent: str, task: str) -> None:
    plan = planned(task, agent)
    episode = plan.factory.open(plan.specs[0], ObedientModel())
    with pytest.raises(ProviderError, match="choose a task such as"):
        episode.run_step(0)


def test_every_agent_is_asked() -> None:
    # a file or a program of the user's own, whose instructions are not ours; and one for chats alone
    own = {"team", "chat", "command", "remote"}
    assert sorted(TABLES["agents"]) == sorted(set(PLUGINS.specs("agents")) - own)


@pytest.mark.exhaustive
def test_the_table_has_a_task_with_the_rules_of_each_task_that_trades() -> None:
    listed = {wording_of(task) for task in TABLES["tasks"]}
    missing = []
    for task in TASKS:
        if not is_scoring(planned(task).task) and wording_of(task) not in listed:
            missing.append(task)

    assert not missing


class Listener:
    """Keeps what it is told first."""

    traits = ModelTraits(is_free=True)

    def __init__(self) -> None:
        self.told: list[str] = []

    def reply(self, request: ModelRequest) -> Reply:
        self.told.append(request.messages[0].content)
        return Reply("I have nothing to say.")


@cache
def wording_of(task: str) -> str:
    """The rules of a task as a model reads them, without figures and names."""
    listener = Listener()
    plan = planned(task)
    plan.factory.open(plan.specs[0], listener).run_step(0)

    lines = [line for line in listener.told[0].splitlines() if not LENGTH.match(line)]
    return re.sub(r"[\d.,]+|`\w+`", "#", "\n".join(lines))


# -- the model itself


def submission(text: str, kind: str) -> tuple[list[dict[str, Any]], list[str]]:
    """What the model submits to a prompt, and the contradictions that it finds."""
    schema = {"type": "object", "properties": {kind: {"type": "array"}}}
    tool = ToolSpec("submit_action", "Submit.", schema)
    messages = (Message("user", text),)
    model = ObedientModel()
    reply = model.reply(ModelRequest(messages, (tool,), tool.name))

    return json.loads(reply.tool_calls[0].arguments)[kind], model.contradictions


def prompt(rules: str, rows: list[list[Any]], **sections: Any) -> str:
    """Rules, and a table of assets: label, status and close."""
    table = {"columns": ["stock_id", "status", "close"], "rows": rows}
    account = {"nav": 1000.0, "cash_weight": 1.0}
    state = {"account": account, "candidates": table, **sections}

    return f"{rules}\n\n```json\n{json.dumps(state)}\n```\n"


TWO = [["shut", "closed", 5.0], ["open", "trading", 10.0]]


@on_each_row(
    "rules, weight",
    ("Decide.", 0.99),
    ("a buy may not bring a stock above 10 % of NAV.", 0.1),
    ("an order may not bring one beyond 25 % of the NAV. Costs are small.", 0.25),
    ("- open: volatility 70.5 %, at most 14.25 % of NAV, 3 % left", 0.03),
    ("- open: volatility 70.5 %, at most 14.25 % of NAV, 3 % of NAV still free", 0.03),
    (("- shut: at most 5 % of NAV, 5 % left\n- open: at most 20 % of NAV, 20 % left"), 0.2),
    ("Position ratios on the grid: shut 0.1, open 0.05.", 0.05),
    ("Position ratios on the grid: shut 0.1.", 0.99),
    ("- open: at most 20 % of NAV, 0 % left", None),
    # 2 % of 1,000 are two shares of 10
    ("Buys are whole lots of 100 shares. At most 2 % of NAV in one.", None),
    ("Buys are whole lots of 2 shares. At most 2 % of NAV in one.", 0.02),
)
def test_orders_take_the_least_of_the_limits(rules: str, weight: float | None) -> None:
    orders, contradictions = submission(prompt(rules, TWO), "orders")
    if weight is None:
        assert not orders
        assert len(contradictions) == 1
        return

    assert [(order["stock_id"], order["target_weight"]) for order in orders] == [("open", weight)]
    assert not contradictions


# 15 % of 1,000 are 150 shares of 1
@on_each_row(
    "board, weight",
    ("main", 0.15),
    ("star", None),
    ("bse", None),
)
def test_a_purchase_is_at_least_a_lot_of_the_board_that_is_shown(
    board: str, weight: float | None
) -> None:
    rules = (
        "On the main board (`main`) buys are lots of 100 shares; on STAR (`star`) a buy is at least"
        " 200 shares. Position ratios on the grid: open 0.15."
    )
    table = {"columns": ["stock_id", "board", "status", "close"]}
    rows = [["open", board, "trading", 1.0]]
    orders, contradictions = submission(
        prompt(rules, [], candidates=table | {"rows": rows}), "orders"
    )

    assert [order["target_weight"] for order in orders] == ([] if weight is None else [weight])
    assert bool(contradictions) == (weight is None)


@on_each_row(
    "rules, decision",
    ("BUY: it shall be held.", "BUY"),
    ("- BUY means to hold 100 % of NAV in the asset.", "BUY"),
    (("- BUY means to hold 100 % of NAV.\n- open: at most 14.2 % of NAV, 0 % left"), "HOLD"),
    (("- BUY means to hold 100 % of NAV.\n- shut: at most 14.2 % of NAV, 0 % left"), "BUY"),
    (("- BUY means to hold 20 % of NAV.\n- open: at most 20 % of NAV, 20 % left"), "BUY"),
    (("- BUY means to hold 100 % of NAV.\nPosition ratios on the grid: open 0.4."), "HOLD"),
    (("- BUY means to hold 100 % of NAV.\nPosition ratios on the grid: open 1."), "BUY"),
    (("- BUY means to hold 100 % of NAV.\n- day_-1, open: BUY to 50 % of NAV, then +1 %."), "BUY"),
    (("- BUY means to hold 100 % of NAV.\n- BUY means to hold 50 % of NAV."), "HOLD"),
)
def test_decisions_are_to_buy_if_no_limit_is_below_what_that_means(
    rules: str, decision: str
) -> None:
    decisions, contradictions = submission(prompt(rules, TWO), "decisions")
    assert [item["decision"] for item in decisions] == ["HOLD", decision]
    assert bool(contradictions) == (decision == "HOLD")


def test_what_is_held_up_to_its_limit_is_kept_without_a_contradiction() -> None:
    held = {"columns": ["stock_id", "weight"], "rows": [["open", 0.25]]}
    rules = "- open: at most 25 % of NAV, 0 % left"
    assert submission(prompt(rules, TWO, positions=held), "orders") == ([], [])


@on_each_row(
    "rules, decision",
    ("- HOLD keeps the position as it is.", "HOLD"),
    ("BUY: it shall be held. HOLD: leave it as it is.", "HOLD"),
    ("- HOLD means no position; what is held or sold short is closed.", "BUY"),
    ("Decide.", "BUY"),
)
def test_a_holding_is_kept_by_the_decision_that_is_said_to_keep_it(
    rules: str, decision: str
) -> None:
    held = {"columns": ["stock_id", "weight"], "rows": [["open", 1.0]]}
    decisions, contradictions = submission(prompt(rules, TWO, positions=held), "decisions")
    assert decisions[1]["decision"] == decision
    assert not contradictions


def test_two_meanings_of_hold_contradict_each_other() -> None:
    rules = "- HOLD keeps the position as it is.\n- HOLD means no position."
    _, (contradiction,) = submission(prompt(rules, TWO), "decisions")
    assert contradiction == "'- HOLD keeps the position as it is.' and '- HOLD means no position.'"


def test_sides_that_share_the_account_are_all_bought() -> None:
    rows = [["a", "trading", 1.0], ["b", "trading", 1.0]]
    rules = "- The sizes of all weights sum to 1.\n- All sides decided on weigh the same."
    decisions, _ = submission(prompt(rules, rows), "decisions")

    assert [item["decision"] for item in decisions] == ["BUY", "BUY"]

    limited = f"{rules}\n- a: at most 40 % of NAV"
    decisions, contradictions = submission(prompt(limited, rows), "decisions")

    assert [item["decision"] for item in decisions] == ["HOLD", "HOLD"]
    assert len(contradictions) == 1


@on_each_row(
    "asked, answer",
    (
        'End with one JSON object, such as {"<label>": "<Bearish or Bullish>", "OTHERS": "<Bullish>"}.',
        {"open": "Bullish", "OTHERS": "Bullish"},
    ),
    (
        'End with your signals, in the form {"<label>": "<Bullish or Neutral>", "OTHERS": "<Bullish>"}.',
        {"open": "Bullish", "OTHERS": "Bullish"},
    ),
    (
        (
            "Choose among these ratios: 0, 0.05, 0.1. End with one JSON object such as "
            '{"<label>": <ratio>}.'
        ),
        {"open": 0.1},
    ),
)
def test_an_answer_follows_the_example_of_its_prompt(asked: str, answer: dict[str, Any]) -> None:
    request = ModelRequest((Message("user", prompt(asked, TWO)),))
    words, _, last = ObedientModel().reply(request).content.rpartition("\n")
    assert words.startswith("Buy open")
    assert json.loads(last) == answer


def test_an_analyst_who_is_told_no_form_answers_in_words() -> None:
    request = ModelRequest((Message("user", "You argue for buying."),))
    assert ObedientModel().reply(request).content.startswith("Buy what may be bought")


def test_a_choice_from_a_list_takes_all_of_it() -> None:
    names = {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}}
    schema = {"type": "object", "properties": {"names": names, "why": {"type": "string"}}}
    tool = ToolSpec("choose", "Choose.", schema)
    request = ModelRequest((Message("user", "Choose."),), (tool,), "choose")
    (call,) = ObedientModel().reply(request).tool_calls

    assert json.loads(call.arguments)["names"] == ["x", "y"]


@pytest.mark.parametrize("allowed", [None, ""])
def test_no_tool_is_called_where_none_may_be(allowed: str | None) -> None:
    look = ToolSpec("look", "Stocks that can be bought.", {"type": "object"})
    request = ModelRequest((Message("user", "Report."),), (look,), allowed)
    assert bool(ObedientModel().reply(request).tool_calls) == (allowed is None)


def test_what_is_not_shown_is_searched_for_with_the_least_arguments() -> None:
    factors = {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "minItems": 1}
    schema = {"type": "object", "properties": {"by": factors, "k": {}}, "required": ["by"]}
    look = ToolSpec("look", "Stocks that can be bought.", schema)
    request = ModelRequest((Message("user", "Decide."),), (look,))
    (call,) = ObedientModel().reply(request).tool_calls

    assert (call.name, json.loads(call.arguments)) == ("look", {"by": ["x"]})

    found = Message("tool", json.dumps({"found": {"columns": ["stock_id"], "rows": [["a"]]}}))
    later = ModelRequest((*request.messages, found), (look,))

    assert ObedientModel().reply(later).content.startswith("Buy a,")
