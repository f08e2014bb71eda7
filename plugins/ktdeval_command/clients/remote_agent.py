"""Agent `remote`: clients that ktdeval can't start decide the episodes of a run.

The run waits for them at a port. A client begins an episode, receives the rules and the first day,
and continues day by day, over the Model Context Protocol or plain HTTP. All episodes of a process
share the port; each episode belongs to one client at a time.
"""

from __future__ import annotations

from ktdeval.errors import ModelError
from ktdeval.harness import (
    AgentTraits,
    Decision,
    ExternalSession,
    ModelRequest,
    ModelTraits,
    Observation,
    Reply,
    StepSession,
    act_outside,
    one_submission,
)
from ktdeval.values import JsonValue, Value, from_plain, to_plain
from ktdeval_command.clients.remote_host import HOSTS, OpenEpisode
from ktdeval_command.clients.remote_params import RemoteAgentParams
from ktdeval_command.desk.agent_desk import BRIDGE, NEXT_STEP
from ktdeval_command.known_program_texts import known_program_texts
from ktdeval_command.planned_step import plan_decision

TIMED_OUT = "remote_timed_out"  #: failure kind of a day without a submission in time
NOT_ASKED = (
    "remote/… is not a model: clients or programs decide instead; use --agent remote, or --agent"
    " command"
)


class RemoteReport(Value):
    """Observations about clients in a step."""

    is_late: bool  #: whether time ran out before a submission
    clients: int  #: number of clients that held the episode during the day, one after another


class RemoteAgent:
    """Lets clients decide, one at a time."""

    def __init__(self, params: RemoteAgentParams) -> None:
        self._params = params
        self._opened: OpenEpisode | None = None
        self.traits = AgentTraits(acts_outside=True, close=self._close)

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step through a client; hold if the client submits nothing in time. Raises
        ModelError if the client submitted nothing and its last model call failed.
        """
        check = session.outside.check
        procedure = one_submission(observation, session, NEXT_STEP)
        rules = observation.system_with(procedure)

        def run(acting: ExternalSession) -> JsonValue:
            if self._opened is None:
                self._opened = HOSTS.open(self._params)
            is_late, clients = self._opened.episode.decide(acting, rules, observation.user, check)
            plain: JsonValue = to_plain(RemoteReport(is_late=is_late, clients=clients))
            return plain

        step = act_outside(session, run, "remote", self._params.calls, known_program_texts())
        if step is None:
            return plan_decision((rules, observation.user), session, memory)

        if from_plain(step.report, RemoteReport, "report of a client").is_late:
            session.count_failure(TIMED_OUT)
        return step.decision(memory)

    def _close(self) -> None:
        if self._opened is not None:
            HOSTS.close(self._opened)
            self._opened = None


class RemoteClients:
    """Placeholder model for runs whose clients or programs use their own models. It can't be
    called.
    """

    def __init__(self, _name: str, _params: None = None) -> None:
        self.traits = ModelTraits(is_free=True, request_problem=_problem)

    def reply(self, request: ModelRequest) -> Reply:  # noqa: ARG002 - the contract's name
        """Raise ModelError, because this run has no model."""
        raise ModelError("no_model", "this run has no model: clients and programs bring their own")


def _problem(request: ModelRequest) -> str | None:
    return None if request.role == BRIDGE else NOT_ASKED
