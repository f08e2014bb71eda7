"""What the FinMem agent is told: its role, the profiles of its assets, each text once, memories by
asset, and the outcomes of its decisions.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agent_sessions import NEWS, Learner, Session, lesson
from ktdeval.harness import NO_TOOL, ModelRequest, Observation, Reply
from ktdeval_investorbench.finmem import FinmemAgent
from ktdeval_memory.params import MemoryParams
from shown_states import observation_of

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


def test_the_figures_of_the_day_are_shown_as_the_task_has_them() -> None:
    day = shown_day(0, ONE, MANY)
    (session,) = asked(day)
    state = session.asked[-1].state

    assert state is not None
    assert day.state is not None

    before = {name: text for name, text in day.state.sections.items() if name != "news"}
    after = {name: text for name, text in state.sections.items() if name != "news"}

    assert before == after
    assert state.text in session.asked[-1].messages[1].content


# ---- sentiment


def test_the_sentiment_stays_with_a_text_that_is_cut() -> None:
    columns = (*NEWS[:4], "sentiment", *NEWS[4:])
    long = (about("MSFT"), "Positive", "", "word " * 100)
    agent = FinmemAgent(MemoryParams(characters=40))
    (session,) = asked(shown_day(0, ONE, (long,), columns=columns), agent=agent)
    prompt = words_of(session)

    assert "- M1: day_0, news, sentiment positive: word" in prompt
    assert "# Sentiment" in prompt


# ---- profiles


def test_an_asset_under_its_own_name_has_its_profile() -> None:
    (session,) = asked(shown_day(0, ONE))
    prompt = session.asked[-1].messages[1].content
    assert prompt.startswith("# What you trade\n\n- Microsoft, a US software company.")
    assert "Until day_0: +4.0 % in 20 days" in prompt


def test_a_masked_asset_has_its_kind_and_figures_alone() -> None:
    (session,) = asked(shown_day(0, MASKED))
    prompt = session.asked[-1].messages[1].content
    profile = prompt.partition("\n\nDay 0")[0]

    assert profile == (
        "# What you trade\n\n- asset_0042 is a stock. Until day_0: +4.0 % in 20 days, daily changes"
        " with a standard deviation of 1.5 %."
    )


def test_the_profile_is_what_memories_are_recalled_by() -> None:
    news = tuple((about("MSFT"), "", text) for text in ("rain " * 5, "sun " * 5, "cloud services"))
    (session,) = asked(
        shown_day(0, ONE, news), agent=FinmemAgent(MemoryParams(parameters="finmem"))
    )
    shown = session.asked[-1].messages[1].content.partition("## Short-term")[2]
    masked_news = tuple((about("asset_0042"), "", text) for *_, text in news)
    (other,) = asked(
        shown_day(0, MASKED, masked_news), agent=FinmemAgent(MemoryParams(parameters="finmem"))
    )

    assert shown.index("cloud services") < shown.index("rain rain")
    assert "Microsoft" not in words_of(other)
    assert "cloud services" not in words_of(other).partition("# What you remember")[0]


def test_the_history_in_a_profile_is_that_before_the_first_decision() -> None:
    session = Learner(("a", "b"), (lesson(-2, "rain", 1.0, 1.0), lesson(-1, "sun", 1.0, 1.0)))
    day = shown_day(0, (("asset_1", "stock", 1.0, 4.0, 1.5),))
    memory: Any = AGENT.decide(day, session, None).memory  # type: ignore[arg-type]
    later = Session("x")
    AGENT.decide(shown_day(1, (("asset_1", "stock", 1.0, 9.9, 1.5),)), later, memory)  # type: ignore[arg-type]

    assert "Until day_0: +4.0 % in 20 days" in words_of(session)
    assert "Until day_0: +4.0 % in 20 days" in words_of(later)


# ---- memories by asset


def test_a_portfolio_has_the_best_memories_of_each_asset() -> None:
    many = tuple((about("asset_1"), "", f"one {number}") for number in range(30))
    few = ((about("asset_2"), "", "two"), (about(), "", "rates rose"))
    (session,) = asked(shown_day(0, TWO, (*many, *few)))
    prompt = session.asked[-1].messages[1].content
    first = prompt.partition("# What you remember of asset_1")[2]
    first, _, second = first.partition("# What you remember of asset_2")
    second, _, rest = second.partition("# What you remember beyond these assets")

    assert first.count("\n- M") == 5
    assert "news: two" in second
    assert "rates rose" in rest


def test_momentum_and_character_are_those_of_each_asset() -> None:
    *_, last = asked(*(shown_day(step, TWO) for step in range(3)))
    prompt = words_of(last)
    assert "- asset_1: +5.94 % in 3 days; risk-seeking" in prompt
    assert "- asset_2: -6.06 % in 3 days; risk-averse" in prompt


def test_a_list_of_candidates_for_orders_has_one_memory_and_one_for_each_holding() -> None:
    held = {
        "constraints": {"max_positions": 2},
        "positions": {"columns": ["stock_id", "shares"], "rows": [["asset_2", 3]]},
    }
    news = ((about("asset_1"), "", "one"), (about("asset_2"), "", "two"))
    (session,) = asked(shown_day(0, TWO, news, held))
    prompt = words_of(session)

    assert "# What you remember of asset_2" in prompt
    assert "# What you remember of asset_1" not in prompt
    assert "news: one" in prompt.partition("beyond these assets")[2]


# ---- what is asked


def test_the_task_comes_first_and_what_is_asked_last() -> None:
    *_, last = asked(*(shown_day(step, ONE) for step in range(5)), conclusion="Rain is bad.")
    system, day, answer, closing = last.asked[-1].messages

    assert system.content.startswith("You trade.\n\n# Who you are")
    assert "# Looking back" in day.content
    assert answer.content == "Rain is bad."
    assert closing.content.startswith("Submit so.\n\nDecide.\n\nWeigh what you remember")
    assert "[memory: M3, M17]" in closing.content


def test_calls_of_a_step_and_of_a_warm_up_begin_alike() -> None:
    learner = Learner(("a",), (lesson(-1, "rain", 1.0, 1.0),))
    AGENT.decide(shown_day(0, ONE), learner, None)  # type: ignore[arg-type]
    *_, last = asked(*(shown_day(step, ONE) for step in range(5)), conclusion="Rain is bad.")
    reflection, decision = last.asked

    assert decision.messages[: len(reflection.messages)] == reflection.messages
    # providers count tools among what their prompt caches reuse
    assert all(request.tools == decision.tools for request in (*learner.asked, *last.asked))
    assert (reflection.tool_choice, decision.tool_choice) == (NO_TOOL, "submit_action")

    (system,) = {request.messages[0].content for request in (*learner.asked, *last.asked)}
    assert "Momentum is the cumulative log return of the last 3 days" in system


def test_a_task_without_prices_and_news_is_not_told_of_them() -> None:
    plain = observation_of(0, "You trade.", 'Q\n\n```json\n{"day": "day_0"}\n```\n')
    session = Session("x")
    AGENT.decide(plain, session, None)  # type: ignore[arg-type]
    prompt = words_of(session)

    for title in ("# Sentiment", "# Momentum", "# What you trade", "`news`"):
        assert title not in prompt


@pytest.mark.parametrize("asks", [True, False])
def test_hold_is_a_last_resort_where_a_task_asks_for_buy_sell_or_hold(asks: bool) -> None:
    more = {} if asks else {"constraints": {"max_positions": 2}}
    (session,) = asked(shown_day(0, ONE, more=more))
    assert ("Choose BUY or SELL wherever you can" in words_of(session)) == asks


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


@pytest.mark.parametrize("conclusion", ["", None])
def test_an_outcome_without_a_conclusion_is_remembered_with_the_reason(conclusion: Any) -> None:
    sessions = asked(*(shown_day(step, ONE) for step in range(5)), conclusion=conclusion)
    last = sessions[-1].asked[-1]

    assert "# Looking back" not in "".join(message.content for message in last.messages)
    assert "outcome of your decision of day_0 (no order): the price of MSFT changed" in words_of(
        sessions[-1]
    )
    assert sessions[3].failures == (["empty_reply"] if conclusion == "" else [])


def test_without_reflection_outcomes_are_remembered_as_they_are() -> None:
    agent = FinmemAgent(MemoryParams(parameters="investorbench", reflection=False))
    sessions = asked(*(shown_day(step, ONE) for step in range(5)), agent=agent)
    assert all(len(session.asked) == 1 for session in sessions)
    assert "outcome of your decision of day_0" in words_of(sessions[-1])
