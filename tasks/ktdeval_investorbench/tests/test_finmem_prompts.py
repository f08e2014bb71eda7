"""What the FinMem agent is told: its role, the profiles of its assets, each text once, memories by
asset, and the outcomes of its decisions.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ktdeval.harness import ModelRequest, Observation, Reply
from ktdeval_investorbench.finmem import FinmemAgent
from ktdeval_memory.params import MemoryParams
from support.tasks.agent_sessions import NEWS, Learner, Session, lesson
from support.tasks.shown_states import observation_of

ASSETS = ("stock_id", "kind", "return_1d_pct", "return_20d_pct", "volatility_20d_pct")
AGENT = FinmemAgent(MemoryParams(parameters="investorbench"))

Row = tuple[Any, ...]


def shown_day(
    step: int,
    assets: tuple[Row, ...],
    news: tuple[Row, ...] = (),
    more: dict[str, Any] | None = None,
    columns: tuple[str, ...] = NEWS,
) -> Observation:
    """Return a day with a table of assets and documents about (labels, text)."""
    rows = [[f"day_{step}", "feed", "news", *document] for document in news]
    state = {
        "day": f"day_{step}",
        "account": {"nav": 100.0 + step},
        "constraints": {"hold": "flat"},
        "candidates": {"columns": ASSETS, "rows": assets},
        "news": {"columns": columns, "rows": rows, "withheld": 2},
    } | (more or {})
    block = json.dumps(state, separators=(",", ":"))
    day = observation_of(step, "You trade.", f"Day {step}.\n\n```json\n{block}\n```\n")

    return replace(day, submission="Submit so.", request="Decide.")


def asked(*days: Observation, agent: FinmemAgent = AGENT, conclusion: str = "") -> list[Session]:
    """Return the sessions of steps, with what was asked in them; each decides alike."""
    memory: Any = None
    sessions = []

    for day in days:
        session = Session("I decide. [memory: M1]")
        session.conclusion = conclusion
        memory = agent.decide(day, session, memory).memory  # type: ignore[arg-type]
        sessions.append(session)

    return sessions


def words_of(session: Session) -> str:
    """Return the last request of a step, all messages of it."""
    return "\n\n".join(message.content for message in session.asked[-1].messages)


ONE = (("MSFT", "stock", 1.0, 4.0, 1.5),)
MASKED = (("asset_0042", "stock", 1.0, 4.0, 1.5),)
TWO = (("asset_1", "stock", 2.0, 3.0, 1.0), ("asset_2", "crypto", -2.0, None, None))


# ---- texts of the day


def about(*labels: str) -> list[str]:
    return list(labels)


MANY = tuple((about("MSFT"), "", f"story {number} of its own") for number in range(8))


def test_the_days_texts_are_shown_where_they_are_recalled_and_nowhere_else() -> None:
    (session,) = asked(shown_day(0, ONE, MANY))
    prompt = words_of(session)
    stories = [prompt.count(text) for _, _, text in MANY]

    assert sorted(stories) == [0, 0, 0, 1, 1, 1, 1, 1]

    (state,) = {request.state.text for request in session.asked if request.state is not None}
    news = json.loads(state)["news"]

    assert news["columns"] == ["day", "source", "kind", "stock_ids", "memory"]
    assert [row[-1] for row in news["rows"]] == [f"M{number}" for number in range(1, 9)]
    assert news["withheld"] == 2


def test_with_all_texts_in_full_each_is_shown_once() -> None:
    agent = FinmemAgent(MemoryParams(parameters="investorbench", texts="full"))
    first, second = asked(
        shown_day(0, ONE, MANY), shown_day(1, ONE, MANY[:1], columns=NEWS), agent=agent
    )
    prompt = words_of(first)

    assert [prompt.count(text) for _, _, text in MANY] == [1] * 8
    assert prompt.count("(its text is in the table `news`)") == 5

    later = words_of(second)
    assert [later.count(text) for _, _, text in MANY][:1] == [2]  # a new text of the same words


def test_a_text_about_two_assets_is_shown_once() -> None:
    both = (about("asset_1", "asset_2"), "", "they merge")
    (session,) = asked(shown_day(0, TWO, (both,)))
    prompt = words_of(session)

    assert prompt.count("they merge") == 1
    assert prompt.count("- M1: ") == 2
    assert "- M1: (above)" in prompt


def test_a_masked_asset_has_its_kind_and_figures_alone() -> None:
    (session,) = asked(shown_day(0, MASKED))
    prompt = session.asked[-1].messages[1].content
    profile = prompt.partition("\n\nDay 0")[0]

    assert profile == (
        "# What you trade\n\n- asset_0042 is a stock. Until day_0: +4.0 % in 20 days, daily changes"
        " with a standard deviation of 1.5 %."
    )


def test_the_history_in_a_profile_is_that_before_the_first_decision() -> None:
    session = Learner(("a", "b"), (lesson(-2, "rain", 1.0, 1.0), lesson(-1, "sun", 1.0, 1.0)))
    day = shown_day(0, (("asset_1", "stock", 1.0, 4.0, 1.5),))
    memory: Any = AGENT.decide(day, session, None).memory  # type: ignore[arg-type]
    later = Session("x")
    AGENT.decide(shown_day(1, (("asset_1", "stock", 1.0, 9.9, 1.5),)), later, memory)  # type: ignore[arg-type]

    assert "Until day_0: +4.0 % in 20 days" in words_of(session)
    assert "Until day_0: +4.0 % in 20 days" in words_of(later)


# ---- what is asked


def test_a_task_without_prices_and_news_is_not_told_of_them() -> None:
    plain = observation_of(0, "You trade.", 'Q\n\n```json\n{"day": "day_0"}\n```\n')
    session = Session("x")
    AGENT.decide(plain, session, None)  # type: ignore[arg-type]
    prompt = words_of(session)

    for title in ("# Sentiment", "# Momentum", "# What you trade", "`news`"):
        assert title not in prompt


# ---- what came of decisions


def test_the_model_concludes_from_outcomes_once_they_are_known() -> None:
    days = [shown_day(step, ONE) for step in range(6)]
    sessions = asked(*days, conclusion="Buy on rain.")
    # the look-back of this set is three steps
    roles = []

    for session in sessions:
        roles.append([request.role for request in session.asked])

    assert roles == [["finmem"]] * 3 + [["reflection", "finmem"]] * 3

    question = sessions[3].asked[0].messages[1].content.partition("# Looking back")[2]
    moved = "the price of MSFT changed by +3.03 %, the NAV changed by +3.00 %."

    assert (
        f"Your decision of day_0 (no order): to today's close {moved} Your reason is M1."
        in question
    )

    remembered = f"day_3, outcome of your decision of day_0 (no order): {moved} Buy on rain."
    assert remembered in words_of(sessions[4])


class Holder(Session):
    """Decides HOLD of MSFT."""

    def ask(self, request: ModelRequest) -> Reply:
        reply = super().ask(request)
        calls = []
        for call in reply.tool_calls:
            held = {"stock_id": "msft", "decision": "HOLD"}
            arguments = {**json.loads(call.arguments), "decisions": [held]}
            calls.append(replace(call, arguments=json.dumps(arguments)))

        return replace(reply, tool_calls=tuple(calls))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([["MSFT", "SELL", "filled", 0.5, 100.0]], "HOLD MSFT; MSFT filled 49.5 % of NAV"),
        ([["MSFT", "SELL", "rejected", 0, None]], "HOLD MSFT; MSFT rejected"),
        ([], "HOLD MSFT"),
    ],
)
def test_an_outcome_of_hold_says_what_was_traded_by_it(rows: list[Row], said: str) -> None:
    columns = ["stock_id", "side", "status", "filled_shares", "fill_price"]
    first = Holder("I hold. [memory: M1]")
    memory: Any = AGENT.decide(shown_day(0, ONE), first, None).memory  # type: ignore[arg-type]

    for step in range(1, 4):
        orders = {"columns": columns, "rows": rows if step == 1 else []}
        day = shown_day(step, ONE, more={"last_step": {"orders": orders}})
        session = Session("I decide.")
        memory = AGENT.decide(day, session, memory).memory  # type: ignore[arg-type]

    question = session.asked[0].messages[1].content.partition("# Looking back")[2]

    assert f"Your decision of day_0 ({said}): to today's close" in question
