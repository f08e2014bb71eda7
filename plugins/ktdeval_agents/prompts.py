"""Prompts for the roles of a team.

The parts that roles share come first and the part specific to each role comes last, because
providers' prompt caches reuse the longest common prefix of requests. So the system message contains
the team and the task's rules. The user message contains the day, the computed figures, the memory
and the reports in the order spoken, and then the role.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from ktdeval.harness import (
    ROLE_HEADING,
    SIGNAL_FORM,
    SUBMIT_TOOL,
    Message,
    Observation,
    StepSession,
    join_parts,
)
from ktdeval.observation import ObservedState, as_object
from ktdeval.values import load_yaml
from ktdeval_agents.analyst_selection import CHOOSE
from ktdeval_agents.computed_signals import position_ratios
from ktdeval_agents.role_graph import Role, Team

Form = Literal["orders", "decisions", "answer"]
"""What a task asks for: orders; BUY, SELL or HOLD for each asset; or the answer to a question."""


@dataclass(frozen=True, slots=True)
class RoleTurn:
    """One turn of a role."""

    role: str
    text: str  #: text as shown to other roles
    number: int  #: 1 for the role's first turn


@dataclass
class TeamMeeting:
    """One step of a team: its inputs, and the turns so far. `procedure`: how the submitting role
    proceeds in the step, with the research budget of the whole team.
    """

    observation: Observation
    session: StepSession
    state: ObservedState
    remembered: str  #: memory as text; empty without a memory
    procedure: str = ""
    #: computed figures as text, keyed by name
    figures: dict[str, str] = field(default_factory=dict)
    turns: list[RoleTurn] = field(default_factory=list)  #: in the order spoken
    debate: tuple[str, ...] = ()  #: roles in the current debate
    #: planner -> analysts of the day
    chosen: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def say(self, role: str, text: str) -> None:
        """Add a role's turn."""
        number = 1 + sum(turn.role == role for turn in self.turns)
        self.turns.append(RoleTurn(role, text, number))

    @property
    def reports(self) -> dict[str, str]:
        """All turns of each role, joined, in the order in which roles first spoke."""
        said: dict[str, list[str]] = {}
        for turn in self.turns:
            said.setdefault(turn.role, []).append(turn.text)
        return {role: "\n\n".join(texts) for role, texts in said.items()}

    @property
    def form(self) -> Form:
        """Kind of answer that the task asks for."""
        tool = self.session.submit_tool
        if tool.name != SUBMIT_TOOL:
            return "answer"

        properties = as_object(tool.parameters.get("properties"))
        if self.state.limits.asks_decisions or "decisions" in properties:
            return "decisions"
        return "orders"

    @property
    def asks_ratios(self) -> bool:
        """Return whether position ratios are asked of a role that gives them: orders have a size,
        and there are assets to size.
        """
        return self.form == "orders" and bool(self.state.assets)


def role_prompt(team: Team, name: str, meeting: TeamMeeting, shown: ObservedState) -> list[Message]:
    """Return the first messages of a role's conversation. `shown` is the state of the day as the
    role sees it.
    """
    shared = list(_role_inputs(team, name, meeting, shown))
    own = _own(team, name, meeting)
    # If a tool can be forced by name, the requests of a planner and of the last role have another
    # `tool_choice`, and Claude's cache keeps their conversations separately. The shared day is then
    # reused only by their retries, and on servers whose cache does not depend on the choice.
    user = Message("user", join_parts(*shared, own), shared=_ends(shared))
    system = _system_prompt(team, name, meeting)
    if not system:
        return [user]
    return [Message("system", system), user]


def _ends(parts: Sequence[str]) -> tuple[int, ...]:
    """Return the length of the joined text up to the end of each part."""
    ends = [len(join_parts(*parts[: count + 1])) for count in range(len(parts))]
    return tuple(dict.fromkeys(filter(None, ends)))


# ---- shared parts


def _system_prompt(team: Team, name: str, meeting: TeamMeeting) -> str:
    """Return the description of the team, how its roles work together, and the rules of its task."""
    parts = [team.preamble.strip()]
    is_team = len(team.roles) > 1
    last = title_of(team, team.last)
    if is_team:
        parts.append(wordings()["team"].format(last=last))
        if any(role.gives == "signals" for role in team.roles.values()):
            parts.append(wordings()["team_signals"])

    reads_task = name == team.last or "task" in team.roles[name].reads
    if reads_task:
        if is_team:
            parts.append(wordings()["task"].format(last=last))
        parts.append(meeting.observation.rules)

    return join_parts(*parts)


def _role_inputs(
    team: Team, name: str, meeting: TeamMeeting, shown: ObservedState
) -> Iterator[str]:
    """Yield the day, the figures, the memory and the reports that a role reads."""
    role = team.roles[name]
    if name == team.last or "state" in role.reads:
        yield meeting.observation.day.replace(meeting.state.text, shown.text)

    for source, text in meeting.figures.items():
        if text and _hears(role, source, meeting):
            yield _section(_words_of(source), text)

    if _remembers(role, meeting):
        yield _section(wordings()["memory"], meeting.remembered)

    for turn in meeting.turns:
        if _hears(role, turn.role, meeting):
            yield _section(_turn_title(team, turn), turn.text)


def _hears(role: Role, source: str, meeting: TeamMeeting) -> bool:
    return "reports" in role.reads or source in role.reads or source in meeting.debate


def _remembers(role: Role, meeting: TeamMeeting) -> bool:
    return "memory" in role.reads and bool(meeting.remembered)


def _turn_title(team: Team, turn: RoleTurn) -> str:
    title = title_of(team, turn.role)
    if turn.number > 1:
        title += f", turn {turn.number}"
    return title


def _section(title: str, text: str) -> str:
    return f"## {title[0].upper()}{title[1:]}\n\n{text}"


# ---- the part specific to a role


def _own(team: Team, name: str, meeting: TeamMeeting) -> str:
    """Return a role's instructions. The instructions of the last role end with the submission."""
    role = team.roles[name]
    says = " ".join(filter(None, _instructions(team, name, meeting)))
    if role.gives == "signals" and meeting.state.assets:
        says = join_parts(says, wordings()["signals"].format(form=SIGNAL_FORM))

    if name == team.last:
        return join_parts(ROLE_HEADING, says, *_submission_instructions(team, meeting))
    return join_parts(ROLE_HEADING, says, *_report_instructions(team, name, meeting))


def _instructions(team: Team, name: str, meeting: TeamMeeting) -> Iterator[str]:
    """Yield a role's instructions for this task, for its inputs, and for the case that others spoke
    before.
    """
    role = team.roles[name]
    form = meeting.form
    analysts = ", ".join(_words_of(each) for each in team.choices_of(name))
    yield role.says.strip().replace("{analysts}", analysts)
    if form == "orders":
        ratios = ", ".join(f"{ratio:g}" for ratio in position_ratios(meeting.state))
        yield role.orders.strip().replace("{ratios}", ratios)
    elif form == "decisions":
        yield role.decisions.strip()
    else:
        yield wordings()["answer" if name == team.last else "question"]

    for source, words in role.given.items():
        if form != "answer" and _is_shown(role, source, meeting):
            yield words.strip()

    if meeting.debate:
        spoken = [turn.role for turn in meeting.turns if turn.role in meeting.debate]
        if set(spoken) - {name}:
            yield role.replies.strip()
        if name in spoken:
            yield wordings()["next_turn"]


def _is_shown(role: Role, source: str, meeting: TeamMeeting) -> bool:
    """Return whether a role is shown an input in this step."""
    if source == "memory":
        return _remembers(role, meeting)
    if source in meeting.figures:
        return bool(meeting.figures[source]) and _hears(role, source, meeting)

    has_spoken = any(turn.role == source for turn in meeting.turns)
    return has_spoken and _hears(role, source, meeting)


def _report_instructions(team: Team, name: str, meeting: TeamMeeting) -> Iterator[str]:
    """Yield instructions on how to answer, for a role that does not submit."""
    words = wordings()
    if name in team.planners:
        yield words["choose"].format(tool=CHOOSE)
        return

    calls = min(team.roles[name].tools, meeting.session.tool_budget)
    if meeting.session.tools and calls > 0:
        yield words["look_up"].format(calls=calls)
        return

    if meeting.session.tools:
        yield words["no_tools"]
    yield words["ask"]


def _submission_instructions(team: Team, meeting: TeamMeeting) -> Iterator[str]:
    """Yield instructions on the submission, for the last role."""
    observation = meeting.observation
    is_team = len(team.roles) > 1
    if is_team:
        yield wordings()["last"]

    yield observation.submission_with(meeting.procedure)
    if is_team and meeting.session.tools:
        calls = min(team.roles[team.last].tools, meeting.session.tool_budget)
        yield wordings()["calls_left" if calls > 0 else "no_calls_left"].format(calls=calls)

    yield observation.request


# ---- wording


def title_of(team: Team, name: str) -> str:
    """Return the name by which prompts call a role."""
    return team.roles[name].title or _words_of(name)


def _words_of(name: str) -> str:
    return name.replace("_", " ")


def remove_fence(text: str) -> str:
    """Return a text without code fences, so that a reply can't be mistaken for the state of the
    day.
    """
    return text.replace("```", "'''")


def shorten_text(text: str, most: int) -> str:
    """Return a text shortened to about `most` characters. A longer text keeps its beginning and its
    end, cut between words, with the number of omitted characters in between.
    """
    if len(text) <= most:
        return text

    head = text[: most * 2 // 3]
    head = head.rsplit(maxsplit=1)[0] if len(head.split()) > 1 else head
    tail = text[len(text) - most // 3 :]
    tail = tail.split(maxsplit=1)[-1] if len(tail.split()) > 1 else tail
    left_out = len(text) - len(head) - len(tail)

    return f"{head}\n[… {left_out} characters left out …]\n{tail}"


@cache
def wordings() -> dict[str, Any]:
    """Return the texts that agents add to prompts, keyed by name."""
    return load_yaml(Path(__file__).parent / "wording.yaml")
