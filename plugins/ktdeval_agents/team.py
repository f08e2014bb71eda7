"""Engine of agent teams: roles speak in the order of their graph, and the last role submits in the
form that the task requires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ktdeval.errors import ConfigError
from ktdeval.harness import (
    NO_TOOL,
    AgentTraits,
    Decision,
    Lesson,
    Message,
    ModelRequest,
    Observation,
    Reply,
    StepSession,
    Submission,
    ToolCall,
    ToolResult,
    ToolSpec,
    ask_in_words,
    decide_in_phases,
    read_signals,
    research,
    two_phases,
)
from ktdeval.masking import shorten
from ktdeval.observation import NOTHING_SHOWN, ObservedState
from ktdeval.trading import DECIDED
from ktdeval.values import JsonValue, content_hash, from_plain, to_plain, user_path
from ktdeval_agents import TeamFileParams, TeamParams
from ktdeval_agents.analyst_selection import choose
from ktdeval_agents.computed_signals import COMPUTED, read_ratios
from ktdeval_agents.memory_entries import entry_lines
from ktdeval_agents.prompts import TeamMeeting, remove_fence, role_prompt, shorten_text, wordings
from ktdeval_agents.role_graph import REFLECTION, FlowStage, Team, load_team
from ktdeval_agents.team_memory import REFLECTION_CHARACTERS, TeamMemory
from ktdeval_agents.team_options import with_options
from ktdeval_agents.warmup import warm_up

NO_ANSWER = "(no answer)"
_TEAMS = Path(__file__).parent / "teams"


def make_team(name: str, params: TeamParams | None = None) -> TeamAgent:
    """Return the team `name` from the folder `teams`. Raises ConfigError if an argument is not
    valid for this team.
    """
    team = load_team(_TEAMS / f"{name}.yaml")
    return _make_agent(name, team, params or TeamParams())


def make_own_team(params: TeamFileParams) -> TeamAgent:
    """Return the team in a user's file. Raises ConfigError if the file is not a team, if its
    contents differ from the hash in the arguments, or if an argument is not valid for the team.
    """
    path = user_path(params.file)
    team = load_team(path)
    content = content_hash(_content(team))
    if params.content not in (None, content):
        raise ConfigError(
            f"file: {path} has changed: its hash is {content:.12}, not {params.content:.12}; "
            "restore the file, or begin a new run"
        )

    agent = _make_agent(path.stem, team, params)
    agent.traits = replace(agent.traits, recorded_args={"content": content})
    return agent


def _content(team: Team) -> JsonValue:
    """Return the content that a team's hash covers. `needs` is left out if it is empty, so that a
    role without it keeps the hash from before this field existed.
    """
    content: Any = to_plain(team)
    for role in content["roles"].values():
        if not role["needs"]:
            del role["needs"]
    return content  # type: ignore[no-any-return]


def _make_agent(name: str, team: Team, params: TeamParams) -> TeamAgent:
    """Return the agent for a team with its arguments."""
    sources = params.sources
    if sources and len(set(sources)) < 2:
        raise ConfigError(
            f"sources: {', '.join(sources)} can't be distributed; name at least two, spelled as "
            "in the documents"
        )

    team = with_options(team, name, params)
    agent = TeamAgent(name, team, sources, params.quick_model, params.warmup)
    agent.skips_idle = params.idle == "skip"
    return agent


class RoleSession:
    """A step's session for one role: its calls carry the role's name, and it may make at most
    `tools` research calls. Everything else is delegated to the session.

    `keep` receives the memory to keep after a failed call (default: the session's `keep`). `state`
    is the part of the day's state that the role sees (default: all). `model` is the additional
    model that the role calls (default: the run's own).
    """

    tools: tuple[ToolSpec, ...]
    submit_tool: ToolSpec
    submission_attempts: int
    may_submit_early: bool
    lessons: Sequence[Lesson]
    count_failure: Callable[[str], None]
    end_turn: Callable[[bool], None]
    withhold: Callable[[str], str]
    submission_in_text: Callable[[str], str | None]
    embed: Callable[[Sequence[str], Callable[[Sequence[str]], Sequence[str]]], Sequence[str]]

    def __init__(
        self,
        session: StepSession,
        role: str,
        tools: int,
        keep: Callable[[JsonValue], None] | None = None,
        state: ObservedState | None = None,
        model: str | None = None,
    ) -> None:
        self._session = session
        self._role = role
        self._tools_left = tools
        #: tools that every request with tools lists instead of its own; empty: each request lists
        #: its own tools
        self.listed: tuple[ToolSpec, ...] = ()
        self._state = state
        self._model = model
        self.keep = keep or session.keep
        self.submitted = ""  #: arguments of the last accepted submission

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    @property
    def tool_budget(self) -> int:
        """Research calls that this role has left in this step."""
        return min(self._tools_left, self._session.tool_budget)

    def ask(self, request: ModelRequest) -> Reply:
        """Call the model under the role's name. Raises ModelError if the call failed."""
        role = self._role
        if request.role is not None:  # the role of a nested team, that is, of a voter
            role = f"{self._role}: {request.role}"

        state = request.state or self._state
        model = request.model or self._model
        tools = request.tools
        if tools and self.listed:
            tools = self.listed

        asked = replace(request, tools=tools, role=role, state=state, model=model)
        return self._session.ask(asked)

    def call_tool(self, call: ToolCall) -> ToolResult:
        """Run a research tool."""
        self._tools_left -= 1
        return self._session.call_tool(call)

    def parse_submission(self, text: str) -> Submission:
        """Validate the arguments of `submit_tool`."""
        submission = self._session.parse_submission(text)
        if submission.action is not None:
            self.submitted = text
        return submission


class TeamAgent:
    """Roles that call one model, as a graph.

    Each role but the last is asked once per turn and answers in text. It researches first if the
    mode has tools and the graph allows it. A turn without an answer (empty, refused, or calls of
    tools alone) is counted as `silent_role` and shown to later roles as "(no answer)". A request
    lists only tools that its role may call. The last role submits as `react` does. If no submission is valid,
    the step is a hold (`fallback`).

    `sources`: the documents from each source go to one of the roles that are shown the day, in the
    order in which the roles speak. `quick_model`: model that the team's quick roles call (default:
    the run's own). A team with a memory starts with at most `warm_up_days` days of the task's
    warm-up (None: all).
    """

    def __init__(
        self,
        name: str,
        team: Team,
        sources: Sequence[str] = (),
        quick_model: str | None = None,
        warm_up_days: int | None = None,
    ) -> None:
        self._name = name
        self._team = team
        self._quick_model = quick_model
        self._warm_up_days = warm_up_days
        further = () if quick_model is None else (quick_model,)
        self.traits = AgentTraits(further_models=further)
        self._words = wordings()
        #: True: a role is not asked on a day that lacks what the role needs
        self.skips_idle = False
        #: for each role, the sources whose documents it is not shown
        self._hidden: dict[str, frozenset[str]] = {}
        if sources:
            for index, role in enumerate(team.shown_the_day):
                own = sources[index % len(sources)]
                self._hidden[role] = frozenset(sources) - {own}

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step. Raises ModelError if a role's model call failed. Raises StoreError if
        `memory` does not belong to this agent.
        """
        rule = self._team.memory
        state = observation.state or NOTHING_SHOWN
        team_memory = self._read_memory(memory)
        remembered = ""

        if rule is not None:
            if memory is None:
                warm_up(team_memory, rule, self._warm_up_days, observation, session)

            team_memory.settle(observation.step, state)
            session.keep(to_plain(team_memory))
            if rule.reflection:
                self._reflect(team_memory, rule.reflection, session)
                session.keep(to_plain(team_memory))

            remembered = team_memory.write_entries(rule, state)

        procedure = two_phases(observation, session)
        meeting = TeamMeeting(observation, session, state, remembered, procedure)
        for stage in self._team.flow[:-1]:
            self._run_stage(stage, meeting)

        last = self._team.last
        role_session = self._session_of(last, meeting)
        decision = decide_in_phases(self._prompt(last, meeting), role_session, None)
        if rule is None:
            return decision

        if decision.provenance in DECIDED:
            submitted = role_session.submitted
            team_memory.remember(observation.step, state, decision, submitted, session.withhold)
            team_memory.forget(rule, state)

        return replace(decision, memory=to_plain(team_memory))

    def _read_memory(self, memory: JsonValue) -> TeamMemory:
        if memory is None:
            return TeamMemory()
        return from_plain(memory, TeamMemory, f"memory of the agent {self._name}")

    def _reflect(self, memory: TeamMemory, instructions: str, session: StepSession) -> None:
        """Ask the model once about all new outcomes. An empty answer is counted."""
        due = memory.due()
        if not due:
            return

        outcomes = "\n".join(entry_lines(due))
        messages = (
            Message("system", instructions),
            Message("user", f"{self._words['outcomes']}\n\n{outcomes}"),
        )
        model = self._model_of(REFLECTION)
        role_session = RoleSession(session, REFLECTION, 0, model=model)
        reply = role_session.ask(ModelRequest(messages))
        answer = "" if reply.is_refused else reply.content.strip()
        role_session.end_turn(bool(answer))
        one_line = " ".join(remove_fence(answer).split())
        reflection = session.withhold(shorten(one_line, REFLECTION_CHARACTERS))
        for entry in due:
            entry.reflection = reflection

    # --- flow

    def _run_stage(self, stage: FlowStage, meeting: TeamMeeting) -> None:
        """Let the roles of a stage speak, or compute its figures."""
        if stage.computes:
            meeting.figures[stage.computes] = COMPUTED[stage.computes](meeting.state)
        elif stage.debate:
            self._debate(stage, meeting)
        elif stage.role in self._team.planners:
            self._plan(stage.role, meeting)
        else:
            # independent: no role reads another role's report from this stage
            answers = {
                name: self._answer(name, meeting) for name in _speaking_roles(stage, meeting)
            }
            for name, answer in answers.items():
                meeting.say(name, answer)

    def _plan(self, name: str, meeting: TeamMeeting) -> None:
        """Let a planner choose the analysts of the day. The planner's report names the analysts and
        the reason.
        """
        messages = self._prompt(name, meeting)
        analysts = self._team.choices_of(name)
        role_session = self._session_of(name, meeting)
        choice = choose(messages, role_session, analysts)
        role_session.end_turn(choice.is_made)
        meeting.chosen[name] = choice.analysts

        words = self._words["chosen" if choice.is_made else "not_chosen"]
        listed = ", ".join(analyst.replace("_", " ") for analyst in choice.analysts)
        report = words.format(analysts=listed, reason=remove_fence(choice.reason))
        meeting.say(name, meeting.session.withhold(report.strip()))

    def _debate(self, stage: FlowStage, meeting: TeamMeeting) -> None:
        """Let roles speak in turns."""
        meeting.debate = stage.debate
        for name in stage.debate * stage.rounds:
            meeting.say(name, self._answer(name, meeting))

        meeting.debate = ()

    def _answer(self, name: str, meeting: TeamMeeting) -> str:
        """Return a role's answer, redacted for other roles. If the role is skipped, return a line
        that says it was not asked.
        """
        role = self._team.roles[name]
        if self.skips_idle and role.needs and not self._state_for(name, meeting).documents:
            return str(self._words["without_documents"])

        messages = self._prompt(name, meeting)
        role_session = self._session_of(name, meeting)
        text = ""

        may_call = bool(role_session.listed) and role_session.tool_budget > 0
        if may_call:
            end = research(messages, role_session)
            if end.reply is not None and not end.reply.is_refused:
                text = end.reply.content
            if not text.strip():
                messages.append(Message("user", self._words["report_now"]))

        if not text.strip():
            request = _report_request(role_session, may_call)
            text = ask_in_words(messages, role_session, request)

        text = text.strip()
        role_session.end_turn(bool(text))
        if not text:
            return NO_ANSWER

        if role.gives == "signals":
            assets = meeting.state.assets
            if assets and not read_signals(text, assets):
                meeting.session.count_failure("no_signal")
        elif role.gives == "ratios" and meeting.asks_ratios:
            text = f"{text}\n\n{self._ratios(text, meeting)}"

        return meeting.session.withhold(
            shorten_text(remove_fence(text), self._team.report_characters)
        )

    def _ratios(self, text: str, meeting: TeamMeeting) -> str:
        """Return the position ratios in a reply as text. If the reply lacks them, count the failure
        and return a note.
        """
        ratios = read_ratios(text, meeting.state)
        if not ratios:
            meeting.session.count_failure("no_ratio")
            return str(self._words["no_ratios"])

        listed = ", ".join(f"{asset} {ratio:g}" for asset, ratio in ratios.items())
        return str(self._words["ratios"].format(ratios=listed))

    # --- inputs of a role

    def _session_of(self, name: str, meeting: TeamMeeting) -> RoleSession:
        state = self._state_for(name, meeting)
        model = self._model_of(name)
        tools = self._team.roles[name].tools
        role_session = RoleSession(meeting.session, name, tools, state=state, model=model)
        if tools and name != self._team.last:  # it may research, but not submit
            role_session.listed = meeting.session.tools

        return role_session

    def _model_of(self, name: str) -> str | None:
        """Return the additional model that a role calls; None for the run's own."""
        return self._quick_model if name in self._team.quick else None

    def _state_for(self, name: str, meeting: TeamMeeting) -> ObservedState:
        """Return the state of the day without the documents that go to other roles."""
        return meeting.state.without_sources(self._hidden.get(name, ()))

    def _prompt(self, name: str, meeting: TeamMeeting) -> list[Message]:
        return role_prompt(self._team, name, meeting, self._state_for(name, meeting))


def _report_request(session: RoleSession, has_researched: bool) -> ModelRequest:
    """Return the request for a role's report, without messages. It lists tools, of which none may
    be called, only if the conversation has calls of them: providers reject calls of tools that a
    request does not list.
    """
    if not has_researched:
        return ModelRequest(())
    return ModelRequest((), session.listed, NO_TOOL)


def _speaking_roles(stage: FlowStage, meeting: TeamMeeting) -> Sequence[str]:
    """Return the roles of a stage that speak: all, or those that the planner chose."""
    if not stage.chosen_by:
        return stage.roles

    chosen = meeting.chosen[stage.chosen_by]
    return [name for name in stage.roles if name in chosen]
