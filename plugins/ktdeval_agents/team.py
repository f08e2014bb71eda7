"""The engine of agent teams: roles speak in the order of their graph, and the last one submits the task's own form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ktdeval.errors import ConfigError
from ktdeval.harness import (
    SIGNAL_FORM,
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
    decide_in_phases,
    read_signals,
    research,
)
from ktdeval.jsonio import JsonValue
from ktdeval.trading import DECIDED
from ktdeval.typed import from_plain, to_plain
from ktdeval.yamlio import load_yaml
from ktdeval_agents import TeamParams
from ktdeval_agents.figures import COMPUTED, position_ratios, read_ratios
from ktdeval_agents.graph import Stage, Team, load_team
from ktdeval_agents.memory import TeamMemory, entry_lines
from ktdeval_agents.sight import Sight, without_documents

REFLECTION = "reflection"
"""Role that reflects on outcomes, of teams whose memory has it."""
NO_ANSWER = "(no answer)"
_FOLDER = Path(__file__).parent


def make_team(name: str, params: TeamParams | None = None) -> TeamAgent:
    """Return a team of the folder `teams` by its name. Raises ConfigError: fewer than two sources to deal out."""
    sources = (params or TeamParams()).sources
    if sources and len(set(sources)) < 2:
        raise ConfigError(f"sources: {', '.join(sources)} can't be dealt out; name at least two, each as documents show it")
    return TeamAgent(name, load_team(_FOLDER / "teams" / f"{name}.yaml"), sources)


class RoleSession:
    """A step's session for one role: its calls bear its name, and it may research `tools` times at most. `keep` receives the memory
    that outlasts a failed call, instead of the session. All else is the session's.
    """

    tools: tuple[ToolSpec, ...]
    submit_tool: ToolSpec
    submission_attempts: int
    lessons: Sequence[Lesson]
    count_failure: Callable[[str], None]
    withhold: Callable[[str], str]
    embed: Callable[[Sequence[str], Callable[[Sequence[str]], Sequence[str]]], Sequence[str]]

    def __init__(self, session: StepSession, role: str, tools: int, keep: Callable[[JsonValue], None] | None = None) -> None:
        self._session, self._role, self._left, self.keep = session, role, tools, keep or session.keep
        self.submitted = ""  #: arguments of the submission that was accepted last

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    @property
    def tool_budget(self) -> int:
        """Research calls left to this role in this step."""
        return min(self._left, self._session.tool_budget)

    def ask(self, request: ModelRequest) -> Reply:
        """Call the model under the role's name. Raises ModelError when the call failed."""
        role = self._role if request.role is None else f"{self._role}: {request.role}"
        return self._session.ask(replace(request, role=role))

    def call_tool(self, call: ToolCall) -> ToolResult:
        """Run a research tool."""
        self._left -= 1
        return self._session.call_tool(call)

    def parse_submission(self, text: str) -> Submission:
        """Validate the arguments of `submit_tool`."""
        submission = self._session.parse_submission(text)
        if submission.action is not None:
            self.submitted = text
        return submission


@dataclass
class Meeting:
    """One step of a team: what is shown, and the reports so far."""

    observation: Observation
    session: StepSession
    sight: Sight
    remembered: str  #: the memory in words; empty if there is none
    reports: dict[str, str] = field(default_factory=dict)  #: role or computed figures -> the last word, in the order spoken
    debate: list[tuple[str, str]] = field(default_factory=list)  #: role and words, of the debate under way


class TeamAgent:
    """Roles over one model, by a graph. Each role but the last is asked once a turn and answers in words; if the mode has tools and
    its graph gives it some, it researches first. An empty answer is counted (`empty_reply`), and shown to later roles as such.
    The last role submits as `react` does; if no submission is valid, the step is a hold (`fallback`). Documents of `sources`
    are dealt out to the roles that are shown the day, in the order in which they speak.
    """

    def __init__(self, name: str, team: Team, sources: Sequence[str] = ()) -> None:
        self._name, self._team, self._words = name, team, wordings()
        self._hidden = {
            role: frozenset(sources) - {sources[index % len(sources)]} for index, role in enumerate(team.shown_the_day) if sources
        }

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step. Raises ModelError: a role's model call failed; StoreError: `memory` is not this agent's."""
        rule, sight = self._team.memory, Sight.of(observation)
        state = TeamMemory() if memory is None else from_plain(memory, TeamMemory, f"memory of the agent {self._name}")
        remembered = ""
        if rule is not None:
            state.settle(observation.step, sight)
            session.keep(to_plain(state))
            if rule.reflection:
                self._reflect(state, rule.reflection, session)
                session.keep(to_plain(state))
            remembered = state.shown(rule, sight) or self._words["no_memory"]
        meeting = Meeting(observation, session, sight, remembered)
        for stage in self._team.flow[:-1]:
            self._hold(stage, meeting)
        last = self._team.last
        role_session = RoleSession(session, last, self._team.roles[last].tools)
        decision = decide_in_phases(self._prompt(last, meeting), role_session, None)
        if rule is None:
            return decision
        if decision.provenance in DECIDED:
            state.remember(observation.step, sight, decision, role_session.submitted, session.withhold)
        return replace(decision, memory=to_plain(state))

    def _reflect(self, state: TeamMemory, instructions: str, session: StepSession) -> None:
        """Ask the model once about all new outcomes; an empty answer is counted."""
        if not (due := state.due()):
            return
        shown = f"{self._words['outcomes']}\n\n" + "\n".join(entry_lines(due))
        request = ModelRequest((Message("system", instructions), Message("user", shown)))
        answer = RoleSession(session, REFLECTION, 0).ask(request).content.strip()
        if not answer:
            session.count_failure("empty_reply")
        for entry in due:
            entry.reflection = session.withhold(" ".join(_unfenced(answer).split()))

    def _hold(self, stage: Stage, meeting: Meeting) -> None:
        """Let the roles of a stage speak."""
        if stage.computes:
            meeting.reports[stage.computes] = COMPUTED[stage.computes](meeting.sight) or self._words["no_figures"]
            return
        for name in stage.debate * stage.rounds:
            meeting.debate.append((name, self._answer(name, meeting)))
        if stage.debate:
            for name in stage.debate:
                meeting.reports[name] = "\n\n".join(text for speaker, text in meeting.debate if speaker == name)
            meeting.debate = []
            return
        spoken = {name: self._answer(name, meeting) for name in _chosen(stage, meeting.reports)}
        meeting.reports.update(spoken)

    def _answer(self, name: str, meeting: Meeting) -> str:
        """Return a role's answer, redacted to be shown to others."""
        role, messages = self._team.roles[name], self._prompt(name, meeting)
        role_session = RoleSession(meeting.session, name, role.tools)
        text = ""
        if role_session.tools and role_session.tool_budget > 0:
            research(messages, role_session)
            text = messages[-1].content if messages[-1].role == "assistant" else ""
            if not text:
                messages.append(Message("user", self._words["report_now"]))
        text = (text or role_session.ask(ModelRequest(tuple(messages))).content).strip()
        if not text:
            meeting.session.count_failure("empty_reply")
            return NO_ANSWER
        if role.gives == "signals" and meeting.sight.rows and not read_signals(text, meeting.sight.rows):
            meeting.session.count_failure("no_signal")
        if role.gives == "ratios":
            text = f"{text}\n\n{self._ratios(text, meeting)}"
        return meeting.session.withhold(_unfenced(text))

    def _ratios(self, text: str, meeting: Meeting) -> str:
        """Return the position ratios of a reply in words; if it holds none, count the failure and say so."""
        ratios = read_ratios(text, meeting.sight)
        if not ratios:
            meeting.session.count_failure("no_ratio")
            return str(self._words["no_ratios"])
        listed = ", ".join(f"{asset} {ratio:g}" for asset, ratio in ratios.items())
        return str(self._words["ratios"].format(ratios=listed))

    def _prompt(self, name: str, meeting: Meeting) -> list[Message]:
        """Return the first messages of a role's conversation."""
        role, words, is_last = self._team.roles[name], self._words, name == self._team.last
        says = role.says.strip().replace("{ratios}", ", ".join(f"{ratio:g}" for ratio in position_ratios(meeting.sight)))
        system = [self._team.preamble.strip(), says]
        if role.gives == "signals":
            system.append(words["signals"].format(form=SIGNAL_FORM))
        if is_last or "task" in role.reads:
            system += [words["last" if is_last else "task"], meeting.observation.system]
        parts = [_section(words["memory"], meeting.remembered)] if "memory" in role.reads and meeting.remembered else []
        for source, text in meeting.reports.items():
            if "reports" in role.reads or source in role.reads:
                parts.append(_section(_title(source), text))
        if meeting.debate:
            parts.append(_section(words["debate"], "\n\n".join(f"{_title(speaker)}: {text}" for speaker, text in meeting.debate)))
        if is_last or "state" in role.reads:
            parts.append(without_documents(meeting.observation.user, self._hidden.get(name, ())))
        if not is_last:
            parts.append(words["ask"].format(role=_title(name).lower()))
        return [Message("system", "\n\n".join(filter(None, system))), Message("user", "\n\n".join(parts))]


def _chosen(stage: Stage, reports: Mapping[str, str]) -> Sequence[str]:
    """Return the roles of a stage that speak: if another role chooses, those that it names, or all if it names none."""
    if not stage.chosen_by:
        return stage.roles
    reply = re.sub(r"[\W_]+", " ", reports[stage.chosen_by].lower())
    return [name for name in stage.roles if re.search(rf"\b{name.replace('_', ' ')}\b", reply)] or stage.roles


def _section(title: str, text: str) -> str:
    return f"## {title}\n\n{text}"


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _unfenced(text: str) -> str:
    """Return a text without a fence, so that a reply can't be read as the state of the day."""
    return text.replace("```", "'''")


@cache
def wordings() -> dict[str, Any]:
    """Return the words that agents add around prompts, by name."""
    return load_yaml(_FOLDER / "wording.yaml")
