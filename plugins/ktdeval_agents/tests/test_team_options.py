"""Arguments of a team: which analysts speak, with or without a planner, how long debates last, which
roles ask a second model, and a file of one's own.
"""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from ktdeval.errors import ConfigError
from ktdeval.harness import (
    ModelRequest,
    Observation,
    Reply,
    Submission,
    ToolCall,
)
from ktdeval.registry import load_plugins
from ktdeval.runner import estimate_run
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.plans.model_settings import with_model_settings
from ktdeval.testing import not_empty, on_each_row
from ktdeval_agents import TeamParams
from ktdeval_agents.analyst_selection import CHOOSE, choose
from ktdeval_agents.role_graph import load_team
from ktdeval_agents.team import TeamAgent
from ktdeval_agents.team_options import with_options
from support.paths import REPOSITORY
from support.tasks.agent_sessions import PreparedSession
from support.tasks.shown_states import observation_of

PLUGINS = load_plugins()
TEAMS = REPOSITORY / "plugins/ktdeval_agents/teams"
QUICK = "openai/gpt-4.1-mini"


class Session(PreparedSession):
    """A step's session: roles speak, a planner says what `planner` has in turn, the last role
    submits nothing.
    """

    submission_attempts = 3
    may_submit_early = False

    def __init__(self, *planner: Reply) -> None:
        super().__init__()
        self.planner = list(planner)

    def ask(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        if request.tool_choice == CHOOSE:
            return self.planner.pop(0) if self.planner else Reply()

        if request.tool_choice:
            return Reply("", (ToolCall("s", "submit_action", "{}"),))

        return Reply(f"{request.role} has spoken.")

    def parse_submission(self, text: str) -> Submission:
        return Submission(())

    @property
    def order(self) -> list[str]:
        return [str(request.role) for request in self.asked]


def chosen(*analysts: str, **others: Any) -> Reply:
    arguments = {"analysts": analysts, "reason": "they matter", **others}
    return Reply("", (ToolCall("p", CHOOSE, json.dumps(arguments)),))


def made(name: str, arguments: dict[str, Any]) -> TeamAgent:
    agent = PLUGINS.make_agent(name, arguments)
    assert isinstance(agent, TeamAgent)
    return agent


def played(agent: TeamAgent, *planner: Reply) -> Session:
    """The session of a step that a team has decided."""
    session = Session(*planner)
    agent.decide(Observation(0, "Rules.", "Day 0."), session, None)  # type: ignore[arg-type]
    return session


@on_each_row(
    "team, arguments, problem",
    (
        "trade",
        {"analysts": ["news_analist"]},
        "analysts: the team trade has no analyst 'news_analist'; did you mean 'news_analyst'",
    ),
    ("trade", {"analysts": ["bull"]}, "analysts: the team trade has no analyst 'bull'"),
    (
        "investor",
        {"analysts": ["investor"]},
        "analysts: the team investor has no analysts to choose from; leave it out",
    ),
    ("investor", {"planner": "off"}, "planner: the team investor has no planner; leave it out"),
    ("hedge_fund", {"planner": "off"}, "planner: the team hedge_fund has no planner"),
    ("deepfund", {"rounds": 2}, "rounds: the team deepfund holds no debate; leave it out"),
    (
        "investor",
        {"quick_model": "openai/gpt-4.1-mini"},
        "quick_model: the team investor has no quick roles; leave it out",
    ),
    ("trade", {"rounds": 0}, "agent trade: rounds"),
    ("trade", {"rounds": 11}, "agent trade: rounds"),
    ("trade", {"planner": "no"}, "agent trade: planner"),
    ("trade", {"analyst": "news_analyst"}, "did you mean 'analysts'"),
    ("team", {}, "agent team: field 'file' is missing"),
    ("team", {"file": "/nowhere/team.yaml"}, "/nowhere/team.yaml"),
)
def test_an_argument_that_makes_no_sense_for_a_team_is_refused(
    team: str, arguments: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        made(team, arguments)

    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


@on_each_row(
    "team, arguments, expected",
    (
        "deepfund",
        {"planner": "off"},
        [
            "technical_analyst",
            "insider_analyst",
            "company_news_analyst",
            "policy_analyst",
            "risk_control",
            "portfolio_manager",
        ],
    ),
    (
        "deepfund",
        {"planner": "off", "analysts": "macro_analyst,fundamental_analyst"},
        ["fundamental_analyst", "macro_analyst", "risk_control", "portfolio_manager"],
    ),
    (
        "deepfund",
        {"analysts": "policy_analyst"},
        ["planner", "policy_analyst", "risk_control", "portfolio_manager"],
    ),
    (
        "trade",
        {"analysts": "news_analyst,market_analyst", "rounds": 2},
        [
            "market_analyst",
            "news_analyst",
            "bull",
            "bear",
            "bull",
            "bear",
            "research_manager",
            "trader",
            "aggressive",
            "conservative",
            "neutral",
            "aggressive",
            "conservative",
            "neutral",
            "portfolio_manager",
        ],
    ),
    ("hedge_fund", {"analysts": "durable_moat"}, ["durable_moat", "portfolio_manager"]),
)
def test_who_speaks_by_the_arguments(
    team: str, arguments: dict[str, Any], expected: list[str]
) -> None:
    planner = chosen("policy_analyst")
    assert played(made(team, arguments), planner).order == expected


NEWS = {"columns": ["day", "source", "stock_ids", "title"], "rows": [["d", "x", [], "t"]]}


@pytest.mark.parametrize("news", [None, NEWS])
def test_role_without_documents_is_skipped_and_later_roles_are_told(news: Any) -> None:
    values = {"day": "d", **({} if news is None else {"news": news})}
    session = Session()
    day = observation_of(0, "Rules.", f"```json\n{json.dumps(values)}\n```")
    made("trade", {"idle": "skip"}).decide(day, session, None)  # type: ignore[arg-type]

    later = session.order.index("bull")
    texts = [request.messages[-1].content for request in session.asked[later:]]
    is_told = ["(not asked: no documents are shown today)" in text for text in texts]
    assert is_told == [news is None] * len(texts)
    assert ("news_analyst" in session.order) == (news is not None)


def test_a_planner_may_choose_only_among_the_analysts_of_the_arguments() -> None:
    session = played(
        made("deepfund", {"analysts": "policy_analyst,macro_analyst"}), chosen("macro_analyst")
    )
    first = session.asked[0]
    (tool,) = first.tools

    assert tool.parameters["properties"]["analysts"]["items"]["enum"] == [  # type: ignore[index, call-overload]
        "macro_analyst",
        "policy_analyst",
    ]

    instructions = first.messages[-1].content
    assert "macro analyst, policy analyst" in instructions
    assert "fundamental analyst" not in instructions
    assert session.order[1:-2] == ["macro_analyst"]

    manager = session.asked[-1].messages[1].content
    assert "## Planner\n\nAsked today: macro analyst. they matter" in manager


def test_quick_roles_ask_the_second_model_and_the_managers_the_runs_own() -> None:
    agent = made("trade", {"quick_model": QUICK})
    assert agent.traits.further_models == (QUICK,)

    session = played(agent)
    by_model: dict[str | None, list[str]] = {None: [], QUICK: []}

    for request in session.asked:
        by_model[request.model].append(str(request.role))

    assert by_model[None] == ["research_manager", "portfolio_manager"]
    assert len(by_model[QUICK]) == len(session.asked) - 2
    assert {request.model for request in played(made("trade", {})).asked} == {None}


def test_planner_is_asked_again_with_the_error_and_failures_are_counted() -> None:
    twice = Reply("", chosen("macro_analyst").tool_calls + chosen("policy_analyst").tool_calls)
    session = played(
        made("deepfund", {}), chosen("weather_analyst"), twice, chosen("macro_analyst")
    )

    assert session.order[:4] == ["planner"] * 3 + ["macro_analyst"]
    assert [kind for kind in session.failures if kind.endswith("choice")] == ["bad_choice"] * 2

    _, second, third = session.asked[:3]
    assert "analysts" in second.messages[-1].content
    assert "weather" not in second.messages[-1].content
    assert [message.tool_call_id for message in third.messages[-2:]] == ["p", "p"]


def test_all_roles_are_asked_after_the_last_failed_planner_attempt() -> None:
    session = Session(*[Reply("I ask the macro analyst.")] * 3)
    choice = choose([], session, ("macro_analyst", "policy_analyst"))  # type: ignore[arg-type]
    assert (choice.analysts, choice.is_made) == (("macro_analyst", "policy_analyst"), False)
    assert session.failures == [*["bad_choice"] * 3, "no_choice"]


@pytest.mark.parametrize("name", [path.stem for path in sorted(TEAMS.glob("*.yaml"))])
def test_no_role_that_submits_is_quick(name: str) -> None:
    team = load_team(TEAMS / f"{name}.yaml")
    assert team.last not in team.quick


@pytest.mark.slow
@pytest.mark.parametrize("name", ["trade", "hedge_fund"])
def test_roles_read_most_of_their_input_from_the_cache(name: str) -> None:
    config = RunConfig(
        model="openai/gpt-5", agent=name, tasks=("blinded_fixed_candidate",), limit=3
    )

    typical = estimate_run(config, load_plugins()).left["typical"]

    # The role that submits lists a tool, so it shares no beginning with the other roles.
    assert typical.cache_read_tokens > 0.85 * typical.input_tokens


def own(tmp_path: Path, text: str) -> dict[str, Any]:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return {"file": str(path)}


MINE = """
roles:
  scout: {says: Look., gives: text}
  boss: {says: Decide., reads: [task, state, scout]}
flow: [{together: [scout]}, {role: boss}]
"""


def test_a_team_of_ones_own_is_recorded_with_the_hash_of_its_content(tmp_path: Path) -> None:
    arguments = own(tmp_path, MINE)
    assert played(made("team", arguments)).order == ["scout", "boss"]

    config = RunConfig("builtin/hold", ("blinded_open_research",), "team", agent_args=arguments)
    recorded = with_model_settings(config, PLUGINS).agent_args

    assert recorded.keys() == {"file", "content"}

    own(tmp_path, f"# a comment changes nothing\n{MINE}")
    made("team", dict(recorded))
    own(tmp_path, MINE.replace("Look.", "Look twice."))

    with pytest.raises(ConfigError, match=r"^file: .*mine.yaml has changed: its hash is"):
        made("team", dict(recorded))


@pytest.mark.parametrize("name", ["deepfund", "hedge_fund", "trade"])
def test_with_any_single_analyst_the_roles_are_those_of_the_flow(name: str) -> None:
    team = load_team(TEAMS / f"{name}.yaml")
    for analyst in not_empty(team.analysts):
        left = with_options(team, name, TeamParams(analysts=(analyst,)))
        assert set(chain.from_iterable(stage.roles for stage in left.flow)) == left.roles.keys()
        assert left.analysts == (analyst,)
