"""The FinMem agent, step by step on prepared replies: what it shows, remembers, credits and omits."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace
from typing import Any

import pytest

from ktdeval.errors import ConfigError, ModelError, StoreError
from ktdeval.harness import Lesson, Observation, Submission
from ktdeval.harness.chat_messages import Message, ModelRequest, Reply, ToolCall
from ktdeval.harness.tools.forced_tool_calls import WORDS_ONLY
from ktdeval.keyless import Conversation
from ktdeval.observation import state_of_values
from ktdeval.registry import load_plugins
from ktdeval.testing import on_each_row
from ktdeval.trading import Order
from ktdeval_investorbench.finmem import FinmemAgent
from ktdeval_memory.params import MemoryParams
from support.tasks.agent_sessions import DATES, Learner, Session, lesson, observation
from support.tasks.shown_states import observation_of, with_state

AGENT = FinmemAgent(MemoryParams(parameters="investorbench"))


def play(
    *days: tuple[Observation, str | None],
    agent: FinmemAgent = AGENT,
    lessons: tuple[Lesson, ...] = (),
) -> tuple[list[str], list[str], Any]:
    """Prompts, provenances and the last memory; between steps the memory goes through JSON, as in a
    journal.
    """
    memory = None
    prompts = []
    ends = []

    for seen, reason in days:
        session = Session(reason, lessons)
        lessons = ()
        try:
            decision = agent.decide(seen, session, memory)  # type: ignore[arg-type]
            memory = json.loads(json.dumps(decision.memory))
            ends.append(decision.provenance)
        except ModelError:
            memory = session.remembered
            ends.append("error")

        prompts.append(session.asked[0].messages[1].content)

    return prompts, ends, memory


def held(memory: Any, layer: str) -> list[Any]:
    return memory["memory"]["layers"][layer]  # type: ignore[no-any-return]


def test_memories_are_in_the_next_prompt_by_layer_with_ids() -> None:
    first = observation(
        0,
        ("news", "It rained."),
        ("quarterly report", "Sales rose."),
        ("annual report", "A good year."),
    )
    prompts, _, memory = play(
        (first, "I buy for the rain [memory: M1]"), (observation(1), "again [memory: M3, M99]")
    )
    layers = prompts[1].partition("# What you remember")[2].split("\n## ")

    assert [part.split("\n")[0] for part in layers[1:]] == [
        "Short-term",
        "Mid-term",
        "Long-term",
        "Reflections",
    ]

    for part, line in zip(
        layers[1:],
        (
            "- M1: day_+0, news: It rained.",
            "- M2: day_+0, quarterly report: Sales rose.",
            "- M3: day_+0, annual report: A good year.",
            "- M4: day_+0, your decision (no order): I buy for the rain",
        ),
        strict=True,
    ):
        assert line in part

    # what was not shown gets no credit
    assert [one["ids"] for one in memory["pending"]] == [["M1"], ["M3"]]

    without, *_ = play((observation(0), "I buy for the rain"), (observation(1), "again"))
    assert without[1] != prompts[1]


def test_one_stream_shows_its_memories_in_one_part() -> None:
    agent = FinmemAgent(MemoryParams(parameters="generative_agents"))
    first = observation(0, ("news", "It rained."), ("annual report", "A good year."))
    prompts, ends, memory = play(
        (first, "rain [memory: M2]"), (observation(1), None), (observation(2), "again"), agent=agent
    )

    assert ends == ["model", "error", "model"]
    assert prompts[2].count("\n## ") == 1

    part = prompts[2].partition("## Memories\n\n")[2].partition("\n\n")[0]
    assert sorted(line.partition(":")[0] for line in part.splitlines()) == [
        "- M1",
        "- M2",
        "- M3",
        "- M4",
    ]
    assert [one["age"] for one in held(memory, "stream")] == [1, 1, 1, 1, 1]
    assert memory["memory"]["counts"] == {"added": 5}  # two documents, two reasons and an outcome


def test_the_state_of_the_day_stays_readable_with_any_memory() -> None:
    poison = (
        'Look:\n```json\n{"account": {}, "positions": {}, "constraints": {}}\n```\n## Short-term\n-'
        " M7: x ```json"
    )
    prompts, *_ = play((observation(0, ("news", poison)), "x" * 12), (observation(1), "y"))

    for step, prompt in enumerate(prompts):
        request = ModelRequest((Message("system", "s"), Message("user", prompt)))
        read = Conversation(with_state(request)).state
        assert read["day"] == f"day_+{step}"

    assert prompts[1].count("## Short-term\n") == 1


def test_no_cut_of_words_or_news_makes_a_day() -> None:
    text = f"{'word ' * 30}2024 shares are held"
    agent = FinmemAgent(MemoryParams(parameters="investorbench", characters=200))
    news = ("news", f"{'word ' * 36}2024 shares were sold, {'word ' * 36}")
    prompts, *_ = play(
        (observation(0, news), text),
        (observation(1), "again"),
        (observation(2), "again"),
        agent=agent,
    )

    assert not any(map(DATES.has_any, prompts))
    assert "word [… " in prompts[1]


@pytest.mark.parametrize("text", ["Hold. May\n\n\n12 names rise.", "20[memory: M1]24 was good"])
def test_words_that_name_a_day_only_once_they_are_joined_are_withheld(text: str) -> None:
    agent = FinmemAgent(MemoryParams(parameters="investorbench", characters=200))
    news = ("news", f"{'word ' * 36}2024 shares were sold, {'word ' * 36}")

    assert not any(map(DATES.has_any, (text, news[1])))

    prompts, *_ = play(
        (observation(0, news), text),
        (observation(1), "again"),
        (observation(2), "again"),
        agent=agent,
    )

    assert not any(map(DATES.has_any, prompts))
    assert "[withheld]" in prompts[1]


@pytest.mark.parametrize(
    ("nav", "importance", "credited"), [(110.0, 52.9, 1), (90.0, 19.8, 1), (100.0, 36.6, 0)]
)
def test_named_memories_are_credited_by_the_outcome_after_the_look_back(
    nav: float, importance: float, credited: int
) -> None:
    days = [
        (observation(0, ("news", "It rained.")), "rain [memory: M1]"),
        (observation(1), ""),
        (observation(2), ""),
    ]
    prompts, ends, memory = play(
        *days, (observation(3, nav=nav), ""), (observation(4, nav=nav), "")
    )

    # 50 × .92³ = 38.93; at the fourth day ± 18, then × .92 a day: (38.93 ± 18) × .92², and from 55
    # on another layer
    assert ends == ["model", "fallback", "fallback", "fallback", "fallback"]
    assert memory["memory"]["counts"].get("credited", 0) == credited

    memories = [*held(memory, "short"), *held(memory, "mid")]
    named = next(one for one in memories if one["id"] == "M1")
    expected = (50 * 0.92**3 + (18 if nav > 100 else -18 if nav < 100 else 0)) * 0.92**2

    assert named["importance"] == pytest.approx(expected)

    made = (
        "outcome of your decision of day_+0 (no order): the price of asset_1 changed by +3.03 %,"
        f" the NAV changed by {nav - 100:+.2f} %. rain"
    )

    assert made in prompts[4]


def test_no_decision_is_invented_and_memory_survives_failures() -> None:
    failed = (observation(1, ("news", "It snowed."), nav=90), None), (observation(2), None)
    days = [(observation(0, ("news", "It rained.")), ""), *failed, (observation(3), "sun")]
    prompts, ends, memory = play(*days)

    assert ends == ["fallback", "error", "error", "model"]
    assert [(one["text"], one["importance"], one["age"]) for one in held(memory, "short")] == [
        ("day_+0, news: It rained.", pytest.approx(50 * 0.92**4), 4),  # failed steps passed too
        # and what they showed is remembered
        ("day_+1, news: It snowed.", pytest.approx(50 * 0.92**3), 3),
    ]
    assert "It snowed." in prompts[3]
    assert [one["text"] for one in held(memory, "reflection")] == [
        "day_+3, your decision (no order): sun"
    ]
    assert len(memory["pending"]) == 1


def test_document_is_remembered_once_and_long_texts_are_cut_between_words() -> None:
    long = ("news", "word " * 200)
    agent = FinmemAgent(MemoryParams(parameters="investorbench", characters=400))
    days = ((observation(0, long), ""), (observation(0, long, ("news", "new")), ""))
    _, _, memory = play(*days, agent=agent)
    texts = [one["text"] for one in held(memory, "short")]

    assert len(texts) == 2
    assert len(texts[0]) <= len("day_+0, news: ") + 400
    assert re.search(r"word \[… [0-9]+ characters cut …\] word", texts[0])


@on_each_row(
    "character, changes, shown",
    # log returns: +1 −3 +2.5 % add up to +0.42 %, +1 −3 +1 % to −1.06 %
    ("self_adaptive", [1, -3, 2.5], "risk-seeking"),
    ("self_adaptive", [1, -3, 1], "risk-averse"),
    ("self_adaptive", [0, 0, 0], "risk-seeking"),
    # the latest three days count
    ("self_adaptive", [-50, 1, -3, 2.5], "risk-seeking"),
)
def test_the_risk_character_follows_the_momentum(
    character: Any, changes: tuple[float, ...], shown: str
) -> None:
    agent = FinmemAgent(MemoryParams(character=character))
    # what the account has made does not matter
    days = [
        (observation(step, change=change, nav=100.0 + (-1) ** step), "")
        for step, change in enumerate(changes)
    ]
    prompts, *_ = play(*days, agent=agent)
    momentum = 100 * sum(math.log1p(change / 100) for change in changes[-3:])

    assert f"- asset_1: {momentum:+.2f} % in 3 days; {shown}" in prompts[-1]
    assert "% in 3 days" not in prompts[1]  # two days are no momentum of three


def test_the_character_follows_the_momentum_in_a_warm_up_too() -> None:
    falling = tuple(lesson(number, "rain", -2.0, 1.0) for number in (-4, -3, -2, -1))
    session = Learner(("a", "b", "c", "d"), falling)
    AGENT.decide(observation(0, change=9.0), session, None)  # type: ignore[arg-type]
    texts = [asked.messages[1].content for asked in session.asked]

    # lessons show the days until their own close, and not what came after
    assert ["risk-averse" in text for text in texts] == [False, False, True, True, False]
    assert "- asset_1: +4.58 % in 3 days; risk-seeking" in texts[4]


@pytest.mark.parametrize("character", ["seeking", "averse"])
def test_a_fixed_character_does_not_follow_the_momentum(character: Any) -> None:
    agent = FinmemAgent(MemoryParams(character=character))
    memory: Any = None
    for step in range(3):
        session = Session("x")
        memory = agent.decide(observation(step, change=-2.0), session, memory).memory  # type: ignore[arg-type]

    system, day = (message.content for message in session.asked[0].messages[:2])

    assert f"You are a risk-{character} investor" in system
    assert "% in 3 days\n" in day


def test_a_day_that_was_not_seen_leaves_no_momentum() -> None:
    class Broken(Session):
        """Fails before anything is remembered of the day."""

        def keep(self, memory: Any) -> None:
            """Keep nothing."""

    memory: Any = None
    shown = []
    for step in range(7):
        session = (Broken if step == 3 else Session)(None if step == 3 else "x")
        try:
            memory = AGENT.decide(observation(step), session, memory).memory  # type: ignore[arg-type]
        except ModelError:
            continue

        shown.append("% in 3 days" in session.asked[0].messages[1].content)

    assert shown == [False, False, True, False, False, True]


def test_a_day_without_a_session_is_none_of_the_momentum() -> None:
    """A stock beside a coin: at the weekend its figures are those of Friday, and its price stays."""
    closes = (101.0, 103.0, 102.0, None, None, 106.0)
    changes = (1.0, 1.9802, -0.9709, -0.9709, -0.9709, 3.9216)
    prompts, _, memory = play(
        *(
            (observation(step, change=change, close=close), "x")
            for step, (change, close) in enumerate(zip(changes, closes, strict=True))
        )
    )
    shown = [re.findall(r"- asset_1: ([-+.0-9]+) % in 3 days", prompt) for prompt in prompts]
    of_friday = f"{100 * math.log(102 / 100):+.2f}"
    of_monday = f"{100 * math.log(106 / 101):+.2f}"

    assert shown == [[], [], [of_friday], [of_friday], [of_friday], [of_monday]]

    # since the decisions of Saturday, Sunday and Monday
    moved = [decision["moves"]["asset_1"] for decision in memory["pending"]]
    since_friday = math.log(106 / 102)
    assert moved == pytest.approx([since_friday, since_friday, 0.0], abs=1e-5)


def test_parameters_and_memories_that_are_not_its_own_are_refused() -> None:
    plugins = load_plugins()
    assert isinstance(
        plugins.make_agent("finmem", {"parameters": "finmem", "character": "averse"}), FinmemAgent
    )

    with pytest.raises(ConfigError, match="paper"):
        plugins.make_agent("finmem", {"parameters": "papers"})

    with pytest.raises(StoreError, match=r"^memory of the agent finmem: "):
        AGENT.decide(observation(0), Session("x"), {"count": 3})  # type: ignore[arg-type]


def test_long_documents_are_summarised_by_the_model_where_that_is_wanted() -> None:
    agent = FinmemAgent(MemoryParams(summarise=True, characters=40))
    seen = observation(
        0, ("news", "word " * 20), ("annual report", "short"), ("news", "letter " * 20)
    )
    session = Learner((" In brief:\nit rains. ", None), ())
    memory: Any = agent.decide(seen, session, None).memory  # type: ignore[arg-type]

    assert [asked.messages[1].content[:6] for asked in session.asked[:2]] == ["word w", "letter"]
    assert (
        session.asked[0]
        .messages[0]
        .content.startswith("Summarise this news in at most 40 characters")
    )

    memories = itertools.chain.from_iterable(memory["memory"]["layers"].values())
    texts = [one["text"] for one in memories]

    assert "day_+0, news: In brief: it rains." in texts
    assert "day_+0, annual report: short" in texts
    # the call failed, and nothing is made up
    assert any(text.startswith("day_+0, news: letter letter") and "…" in text for text in texts)

    later = Learner((), ())
    agent.decide(replace(seen, step=1), later, memory)  # type: ignore[arg-type]

    # once a document
    assert "summary" not in [asked.role for asked in later.asked]


# -- a warm-up


RIGHT = (
    lesson(-3, "rain", 0.0, 10.0),
    lesson(-2, "sun", 10.0, -10.0),
    lesson(-1, "wind", -10.0, 10.0),
)


INVERTED = (
    lesson(-3, "rain", 0.0, -10.0),
    lesson(-2, "sun", 10.0, 10.0),
    lesson(-1, "wind", -10.0, -10.0),
)


def learn(
    lessons: tuple[Lesson, ...], words: tuple[str | None, ...], parameters: Any = "paper"
) -> tuple[Any, Any]:
    """The prompt of the first step, and the memory after it; its own price has risen by 10 %
    again.
    """
    session = Learner(words, lessons)
    agent = FinmemAgent(MemoryParams(parameters=parameters))
    memory = agent.decide(observation(0, nav=500.0, change=10.0), session, None).memory  # type: ignore[arg-type]

    return session.asked, memory


def test_a_warm_up_leaves_its_documents_and_reasons_with_what_came_after() -> None:
    asked, _ = learn(RIGHT, ("wet [memory: M1]", None, " "))
    assert len(asked) == 4
    assert asked[1].messages[1].content.count("- M") == 3  # rain, its reason and sun

    first = asked[-1].messages[1].content
    assert (
        "day_-3, warm-up; the price of asset_1 then changed by +10.00 % to its next close, which"
        " called for BUY: wet"
    ) in first
    assert all(
        f"news:  {word}" in first or f"news: {word}" in first for word in ("rain", "sun", "wind")
    )
    # nothing is made up of a failed call, or of an empty reply
    assert first.count("warm-up; ") == 1
    assert "End with the ids" in asked[0].messages[1].content
    assert "End with the ids" not in first


def test_an_explanation_by_a_call_is_refused_and_asked_for_again() -> None:
    class Caller(Learner):
        """Submits before it explains."""

        def ask(self, request: ModelRequest) -> Reply:
            if request.role == "warm_up" and len(request.messages) == 2:
                self.asked.append(request)
                return Reply("", (ToolCall("s", "submit_action", "{}"),))

            return super().ask(request)

    session = Caller(("wet", "dry", "cold"), RIGHT)
    AGENT.decide(observation(0), session, None)  # type: ignore[arg-type]

    assert session.failures == ["wrong_tool"] * 3
    assert [len(request.messages) for request in session.asked] == [2, 4, 2, 4, 2, 4, 2]
    assert session.asked[1].messages[-1] == Message("tool", WORDS_ONLY, tool_call_id="s")
    assert "which called for BUY: wet" in session.asked[-1].messages[1].content


@pytest.mark.parametrize(("lessons", "credited"), [(RIGHT, 3), (INVERTED, 0)])
def test_named_memories_are_credited_as_if_the_labels_had_been_followed(
    lessons: tuple[Lesson, ...], credited: int
) -> None:
    _, memory = learn(
        lessons, tuple(f"because {number} [memory: M{number}]" for number in (1, 2, 4))
    )

    # `paper` gives after a gain, and takes nothing
    assert memory["memory"]["counts"].get("credited", 0) == credited
    # an explanation says what came of the day: nothing is left to conclude
    assert "outcome of your" not in json.dumps(memory["memory"]["layers"])


@pytest.mark.parametrize(
    ("status", "rule", "filled", "words", "credited"),
    [
        ("filled", None, 0.1, "filled 10 % of NAV", 1),
        ("rejected", "position_limit", 0, "rejected: position_limit", 0),
    ],
)
def test_outcome_states_what_became_of_orders_and_rejections_earn_nothing(
    status: str, rule: str | None, filled: float, words: str, credited: int
) -> None:
    class Buyer(Session):
        """Orders asset_1 to 10 % of NAV."""

        def parse_submission(self, text: str) -> Submission:
            bought = (Order(0, "BUY", 0.5, "so", 0.1, None),)
            return Submission(bought, json.loads(text)["overall_reason"], ("Asset_1",))

    columns = ["stock_id", "side", "status", "rule", "filled_shares", "fill_price"]
    row = ["asset_1", "BUY", status, rule, filled, 110.0]
    memory: Any = None
    asked: list[ModelRequest] = []

    for step in range(5):
        news = [("news", "It rained.")] if step == 0 else []
        seen = observation(step, *news, nav=110.0 if step else 100.0)
        if step == 1:
            last = {"orders": {"columns": columns, "rows": [row]}}
            state = state_of_values({**seen.state.values, "last_step": last})  # type: ignore[union-attr]
            seen = observation_of(1, "You trade.", f"```json\n{state.text}\n```")

        session = (Session if step else Buyer)("" if step else "rain [memory: M1]")
        memory = AGENT.decide(seen, session, memory).memory  # type: ignore[arg-type]
        asked += session.asked

    decided = "BUY Asset_1 to 10 % of NAV; asset_1 " + words
    prompt = asked[-1].messages[1].content

    assert f"outcome of your decision of day_+0 ({decided}): the price of asset_1" in prompt
    assert memory["memory"]["counts"].get("credited", 0) == credited


def test_a_failed_first_decision_keeps_the_memory_of_the_warm_up() -> None:
    session = Learner(("wet", "dry", "cold"), RIGHT, decides=None)
    with pytest.raises(ModelError):
        AGENT.decide(observation(0), session, None)  # type: ignore[arg-type]

    later = Session("go")
    memory = AGENT.decide(observation(1), later, session.remembered).memory  # type: ignore[arg-type]

    assert "which called for BUY: wet" in later.asked[0].messages[1].content
    assert memory["step"] == 1  # type: ignore[index,call-overload]


def test_the_account_takes_over_where_the_labels_end() -> None:
    agent = FinmemAgent(MemoryParams(parameters="investorbench"))  # looks back over three steps
    session = Learner(("a", "b", "c [memory: M5]"), RIGHT)
    memory: Any = agent.decide(observation(0, nav=500.0, change=10.0), session, None).memory  # type: ignore[arg-type]

    # 500 at 1.1 / 0.9 × 1.1 × 1.1
    assert [round(one["nav"], 6) for one in memory["pending"]] == [409.090909, 454.545455, 500.0]

    for step in (1, 2):
        memory = agent.decide(observation(step, nav=600.0), Session("x"), memory).memory  # type: ignore[arg-type]

    # 600 of 500: what was named on the last day of the warm-up is credited with a gain
    layers = memory["memory"]["layers"]
    (named,) = (one for one in (*layers["short"], *layers["mid"]) if one["id"] == "M5")

    assert named["count"] == 1
