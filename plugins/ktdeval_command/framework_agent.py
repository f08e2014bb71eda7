"""Agents that decide with a framework in this process: OpenAI Agents SDK, PydanticAI, LangGraph,
...

An author writes one function, `act(desk)`, and offers it as an agent:

    from ktdeval_command.framework_agent import FrameworkAgent

    @hookimpl
    def ktdeval_agents():
        return [Spec("mine", lambda: FrameworkAgent(act), "Decides by a framework")]

The framework calls the model bridge, which forwards to the run's own model, and calls the step's
tools over the Model Context Protocol or as functions. Its actions are recorded, so a step can be
replayed from the record without `act` and without the framework.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from ktdeval.errors import ConfigError, ModelError, PluginError, ProviderError
from ktdeval.harness import (
    END,
    AgentTraits,
    Decision,
    ExternalSession,
    Observation,
    StepSession,
    ToolCall,
    ToolResult,
    ToolSpec,
    act_outside,
    join_parts,
    one_submission,
)
from ktdeval.registry import PIN, describe_error, raised_by
from ktdeval.values import (
    JsonObject,
    JsonValue,
    Value,
    dumps_canonical,
    from_plain,
    import_problem,
    install_command,
    later,
    to_plain,
)
from ktdeval_command.code_identity import code_identity
from ktdeval_command.desk.agent_desk import AgentDesk
from ktdeval_command.desk.desk_servers import serve_desk
from ktdeval_command.known_program_texts import known_program_texts
from ktdeval_command.planned_step import plan_decision

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

MODEL_NAME = "ktdeval"
RAISED = "agent_raised"  #: failure kind of a step in which `act` raised an exception
_SHOWN_CHARS = 1000  # number of characters recorded of the exception, from its start


class FrameworkReport(Value):
    """Observations about a framework in a step."""

    memory: JsonValue = None  #: return value of `act`, with identities withheld
    raised: str = ""  #: exception raised by `act`, with identities withheld; empty if it returned


class FrameworkDesk:
    """One step for a framework, through which it calls the model and the tools. The desk is open
    until `act` returns, and may be used from several threads.
    """

    model = MODEL_NAME  #: name of the run's model; any other name selects the same model

    def __init__(
        self,
        observation: Observation,
        memory: JsonValue,
        acting: ExternalSession,
        desk: AgentDesk,
        held: ExitStack,
    ) -> None:
        """Start bridge and tool server. They stop when `held` closes."""
        self._opening = _opening(observation, acting)
        self.observation = observation  #: prompt of the step, in parts
        #: value that `act` returned in the previous step; None in the first step
        self.memory = memory
        #: research tools of the step, followed by the submit tool
        self.tools: tuple[ToolSpec, ...] = (*acting.tools, acting.submit_tool)
        self.submit_tool = acting.submit_tool
        self.api_key = secrets.token_urlsafe(32)  #: key for the bridge and the tool server
        self._acting = acting
        self._desk = desk
        self._held = held

        servers = held.enter_context(serve_desk(desk, MODEL_NAME, self.api_key, self.api_key))

        #: address for OpenAI's two APIs, as expected in `OPENAI_BASE_URL`
        self.base_url = f"{servers.bridge.address}/v1"
        #: address for Anthropic's API, as expected in `ANTHROPIC_BASE_URL`
        self.anthropic_base_url = servers.bridge.address
        #: address of the tools for the Model Context Protocol (HTTP)
        self.mcp_url = servers.tools.mcp_url
        #: headers that `mcp_url` requires
        self.mcp_headers = {"Authorization": f"Bearer {self.api_key}"}

    @property
    def prompt(self) -> str:
        """Return the whole step as text, including its procedure."""
        return join_parts(*self._opening)

    @property
    def is_over(self) -> bool:
        """True if the step is decided or can't continue. `act` should then return."""
        return self._acting.is_over

    @property
    def openai_tools(self) -> list[JsonObject]:
        """Return the tools in the format of Chat Completions."""
        offered: list[JsonObject] = []
        for tool in self.tools:
            function: JsonObject = {
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
            }
            offered.append({"type": "function", "function": function})
        return offered

    def openai_client(self) -> OpenAI:
        """Return a client from the package openai for this step. Raises ConfigError if the package
        can't be imported.
        """
        client: OpenAI = self._new_client("OpenAI")
        self._held.callback(client.close)
        return client

    def async_openai_client(self) -> AsyncOpenAI:
        """Return an asynchronous client from the package openai, which the event loop closes."""
        client: AsyncOpenAI = self._new_client("AsyncOpenAI")
        return client

    def _new_client(self, kind: str) -> Any:
        try:
            make = later(f"openai:{kind}")()
        except ImportError as error:
            raise ConfigError(
                f"openai_client(): {import_problem(error, 'openai')}: {install_command('openai')}"
            ) from error
        return make(base_url=self.base_url, api_key=self.api_key, max_retries=0)

    def call_tool(self, name: str, arguments: JsonObject | str) -> ToolResult:
        """Call a tool of the step, or the submit tool. `arguments` is an object, or the text that
        the model wrote. A call that fails returns feedback for the model.
        """
        written = arguments
        if not isinstance(written, str):
            written = dumps_canonical(written)
        return self._desk.call(ToolCall("", name, written))

    def submit(self, arguments: JsonObject | str) -> ToolResult:
        """Submit the step's decision. The first accepted submission is final."""
        return self.call_tool(self.submit_tool.name, arguments)


Act = Callable[[FrameworkDesk], JsonValue | Awaitable[JsonValue]]
"""Decides one step. Returns as JSON what it needs in the next step, or None. May be a coroutine
function.
"""


class FrameworkAgent:
    """Lets a framework in this process decide."""

    def __init__(self, act: Act, models: Mapping[str, str] | None = None, calls: int = 200) -> None:
        """`models`: additional models of the run (`PROVIDER/NAME`), keyed by the names that the
        framework uses for them; `calls`: maximum number of model calls in a step.
        """
        self._act = act
        self._models = dict(models or {})
        self._max_calls = calls
        self._has_acted = False
        further = tuple(dict.fromkeys(self._models.values()))
        content = code_identity(act)
        self.traits = AgentTraits(
            further_models=further,
            recorded_args={} if content is None else {PIN: content},
            acts_outside=True,
        )

    def decide(self, observation: Observation, session: StepSession, memory: JsonValue) -> Decision:
        """Decide one step with `act`; hold if it submits nothing. Raises ModelError if `act` or its
        last model call failed and nothing was submitted. Raises ProviderError if `act` failed
        before it did anything.
        """

        def run(acting: ExternalSession) -> JsonValue:
            plain: JsonValue = to_plain(self._run(acting, observation, memory))
            return plain

        step = act_outside(session, run, "none", self._max_calls, known_program_texts())
        if step is None:
            return plan_decision(_opening(observation, session), session, memory)

        report = from_plain(step.report, FrameworkReport, "report of a framework")
        if not report.raised:
            return step.decision(report.memory)

        session.count_failure(RAISED)
        if step.submission is None:
            raise ModelError(RAISED, f"the agent raised {report.raised}")
        return step.decision(memory)

    def _run(
        self, acting: ExternalSession, observation: Observation, memory: JsonValue
    ) -> FrameworkReport:
        """Let `act` decide, and report how it ended."""
        returned: list[JsonValue] = []
        with self._desk(acting, observation, memory) as desk:
            error = raised_by(lambda: returned.append(_complete_call(self._act, desk)))
            while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
                error = error.exceptions[
                    0
                ]  # tool clients wrap exceptions that are raised while they are open

        self._has_acted = self._has_acted or bool(acting.acts)
        if error is None:
            return FrameworkReport(memory=_withhold_names(_as_json(returned[0]), acting.withhold))
        if isinstance(error, ConfigError):
            raise error

        said = describe_error(error).replace(desk.api_key, "[token]")
        if not self._has_acted and acting.error is None:
            raise ProviderError(
                f"the agent raised {said} before it did anything; fix the cause or install the "
                "package, then run the same command again"
            )
        return FrameworkReport(raised=acting.withhold(said[:_SHOWN_CHARS]))

    @contextmanager
    def _desk(
        self, acting: ExternalSession, observation: Observation, memory: JsonValue
    ) -> Iterator[FrameworkDesk]:
        """Open a desk for the step. It closes with the block."""
        with ExitStack() as held:
            desk = AgentDesk(self._models)
            desk.begin(acting, observation.user, is_told=True)
            yield FrameworkDesk(observation, memory, acting, desk, held)


def _opening(observation: Observation, session: StepSession | ExternalSession) -> tuple[str, str]:
    """Return the two texts of a step: the rules with the procedure for a framework, and the day."""
    return observation.system_with(one_submission(observation, session, END)), observation.user


def _complete_call(act: Act, desk: FrameworkDesk) -> JsonValue:
    """Call `act`; if it is a coroutine function, run it to completion."""
    returned = act(desk)
    if not inspect.isawaitable(returned):
        return returned

    async def await_result() -> JsonValue:
        return await returned

    return asyncio.run(await_result())


def _as_json(memory: JsonValue) -> JsonValue:
    try:
        dumps_canonical(memory).encode()
    except (TypeError, ValueError) as error:
        raise PluginError(
            f"act() of an agent must return plain JSON or None, got {type(memory).__name__}: "
            f"{error}"
        ) from error
    return memory


def _withhold_names(value: JsonValue, withhold: Callable[[str], str]) -> JsonValue:
    """Return a value in which identities are withheld from all strings."""
    if isinstance(value, str):
        return withhold(value)
    if isinstance(value, Mapping):
        return {withhold(name): _withhold_names(each, withhold) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_withhold_names(each, withhold) for each in value]
    return value
