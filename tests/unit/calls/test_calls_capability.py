"""The capability check: the first protocol in which a whole small step works, and no call where
there is nothing to find out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ktdeval.calls.tool_protocol_probe import ATTEMPTS, choose_protocol
from ktdeval.errors import BudgetError, ConfigError, ModelError, PluginError, ProviderError
from ktdeval.harness.call_params import NATIVE_PROTOCOLS
from ktdeval.harness.chat_messages import CallParams, ModelRequest, Reply, ToolCall, ToolProtocol
from ktdeval.harness.traits import ModelTraits
from support.providers.call_clients import OpenProvider
from support.providers.protocol_speaker import spoken, understood

LADDER: tuple[ToolProtocol, ...] = ("native", "json_schema", "text")
LEVEL_AS_TEXT = '{"place": "north", "level": "41"}'
PARAMS = CallParams(temperature=0.3, max_output_tokens=900, seed=77)

Behaviour = Callable[[ModelRequest], Reply]


class Server(OpenProvider):
    """A provider whose model obeys: behind each protocol stands how it takes a native request, or a
    server that refuses it.
    """

    provider, name, endpoint, price_table = "house", "model-1", "http://localhost:1/v1", None

    def __init__(
        self,
        behaviours: Mapping[ToolProtocol, Behaviour],
        protocols: tuple[ToolProtocol, ...] = LADDER,
    ) -> None:
        self.behaviours = behaviours
        self.protocols = protocols
        self.asked: list[ModelRequest] = []

    def reply(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        protocol = request.params.tool_protocol
        behaviour = self.behaviours.get(protocol, refuse("tools are not supported"))

        if protocol in NATIVE_PROTOCOLS:
            return behaviour(request)

        return spoken(behaviour(understood(request, protocol)), protocol)

    def choose(self, wanted: Any = "auto") -> ToolProtocol:
        return choose_protocol(self, wanted, self.reply, PARAMS)

    @property
    def course(self) -> list[tuple[str, str | None]]:
        """Protocol and forced tool of each request; a forced tool of the written protocols is not
        shown.
        """
        return [(request.params.tool_protocol, request.tool_choice) for request in self.asked]


def obey(request: ModelRequest) -> Reply:
    """Call the tool on offer with what the last message names; a tool that is forced is called
    although the message asks for a word.
    """
    if is_asked_for_a_word(request):
        return call(request.tools[0].name, '{"place": "north", "level": 0}')

    text = request.messages[-1].content
    arguments: dict[str, Any] = {"place": re.findall(r'"(\w+)"', text)[-1]}

    if request.tool_choice is not None:
        assert request.messages[-2].role == "tool"  # the result of the look-up came before
        arguments["level"] = int(re.findall(r"\d+", text)[-1])

    return call(request.tools[0].name, json.dumps(arguments))


def is_asked_for_a_word(request: ModelRequest) -> bool:
    return "one word" in request.messages[-1].content


def call_if_asked(request: ModelRequest) -> Reply:
    """A server that reads no forced tool: the model calls only what a message asks for."""
    return Reply("thanks") if is_asked_for_a_word(request) else obey(request)


def call(name: str, arguments: str, number: int = 1) -> Reply:
    return Reply("", (ToolCall(f"id-{number}", name, arguments),), "tool_calls")


def refuse(words: str, kind: str = "bad_request") -> Behaviour:
    def behaviour(request: ModelRequest) -> Reply:
        raise ModelError(kind, f"house/model-1: HTTP 400: {words}")

    return behaviour


def talk(request: ModelRequest) -> Reply:
    return Reply("Let me see what I can find.")


def refuse_free_tools(request: ModelRequest) -> Reply:
    """vLLM without a tool-call parser: a forced tool works, a free one does not."""
    if request.tool_choice is None:
        raise ModelError(
            "bad_request",
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to'
            " be set",
        )

    return obey(request)


def leave_forced_tools_aside(request: ModelRequest) -> Reply:
    return obey(request) if request.tool_choice is None else talk(request)


def answers_with(name: str, arguments: str) -> Behaviour:
    return lambda request: call(name, arguments)


def test_a_wish_or_a_model_of_one_protocol_is_not_asked() -> None:
    for protocol in LADDER:
        for server, wanted in ((Server({}, (protocol,)), "auto"), (Server({}), protocol)):
            assert server.choose(wanted) == protocol
            assert server.asked == []

    with pytest.raises(
        ConfigError, match=r"--tool-protocol text: house/model-1 takes only native, json_schema"
    ):
        Server({}, ("native", "json_schema")).choose("text")

    with pytest.raises(PluginError, match="`protocols` is empty"):
        Server({}, ()).choose()


def test_first_protocol_of_a_model_is_chosen_if_one_step_of_calls_works() -> None:
    one = Server(dict.fromkeys(LADDER, obey))
    two = Server(dict.fromkeys(LADDER, obey))
    two.name = "model-2"

    assert one.choose() == two.choose() == "native"
    assert one.course == [("native", None), ("native", "record_level")]
    assert {
        (request.params.temperature, request.params.max_output_tokens) for request in one.asked
    } == {(0.3, 900)}
    assert one.asked == two.asked
    assert Server(dict.fromkeys(LADDER, obey), ("text", "native")).choose() == "text"


FLAWED: dict[str, Behaviour] = {
    "talks": talk,
    "refuses free tools": refuse_free_tools,
    "leaves forced tools aside": leave_forced_tools_aside,
    "refuses": refuse("stub does not support tools"),
    "fails": refuse("no template", "server"),
    "is cut": refuse("cut", "bad_response"),
    "another argument": answers_with("look_up_level", '{"place": "south"}'),
    "cut arguments": answers_with("look_up_level", '{"place": "north"'),
    "a list": answers_with("look_up_level", '["north"]'),
    "deep": answers_with("look_up_level", "[" * 100_000),
    "another tool": answers_with("look_up", '{"place": "north"}'),
    "a text for a number": lambda request: (
        obey(request) if request.tool_choice is None else call("record_level", LEVEL_AS_TEXT)
    ),
    "a filter": lambda request: Reply("", finish_reason="content_filter"),
}


@pytest.mark.parametrize("how", FLAWED)
def test_a_protocol_that_does_not_carry_a_step_gives_way_to_the_next(how: str) -> None:
    flawed = FLAWED[how]
    assert Server({"native": flawed, "json_schema": obey, "text": obey}).choose() == "json_schema"
    assert Server({"native": flawed, "json_schema": flawed, "text": obey}).choose() == "text"


class ForcingServer(Server):
    """A provider whose adapter tells it to force tools."""

    traits = ModelTraits(forces_tool=lambda _: True)


def test_a_server_that_ignores_a_tool_forced_by_name_gets_it_as_the_only_one_required() -> None:
    """llama.cpp reads `tool_choice` as a text and ignores the object with a name."""
    ladder: tuple[ToolProtocol, ...] = ("native", "native_required", "json_schema", "text")
    server = ForcingServer({"native": call_if_asked, "native_required": obey}, ladder)

    assert server.choose() == "native_required"
    assert server.course == [
        ("native", None),
        ("native", "record_level"),
        ("native_required", None),
        ("native_required", "record_level"),
    ]


def test_a_server_that_forces_no_tool_at_all_is_asked_by_a_schema() -> None:
    ladder: tuple[ToolProtocol, ...] = ("native", "native_required", "json_schema", "text")
    behaviours = {"native": call_if_asked, "native_required": call_if_asked, "json_schema": obey}
    server = ForcingServer(behaviours, ladder)

    assert server.choose() == "json_schema"
    # `required` is tried only because a tool forced by name was ignored
    refusing = ForcingServer({"json_schema": obey}, ladder)
    assert refusing.choose() == "json_schema"
    assert [protocol for protocol, _ in refusing.course] == ["native", "json_schema", "json_schema"]


def test_a_tool_that_is_forced_by_asking_only_counts_if_it_is_called_when_asked_for() -> None:
    """So it is where a provider takes no forced tool, and where an adapter can't say."""
    server = Server({"native": call_if_asked})
    assert server.choose() == "native"
    assert server.course == [("native", None), *[("native", "record_level")] * 2]


def test_a_single_slip_does_not_cost_a_model_its_protocol() -> None:
    def slip_once(request: ModelRequest) -> Reply:
        return talk(request) if request.params.seed == 0 else obey(request)

    server = Server({"native": slip_once})

    assert server.choose() == "native"
    # so no cache gives the first reply again
    assert [request.params.seed for request in server.asked] == [0, 1, 1]


def test_a_refusal_is_not_asked_for_twice_but_a_bad_reply_is() -> None:
    server = Server({"native": refuse("no tools"), "json_schema": talk, "text": obey})
    assert server.choose() == "text"
    assert [protocol for protocol, _ in server.course] == [
        "native",
        *["json_schema"] * ATTEMPTS,
        "text",
        "text",
    ]


# ---- where it can't be found out


def test_when_nothing_works_each_problem_is_named_on_one_line() -> None:
    words = "this model\nhas no template for tools" + " at all" * 100
    flawed = {
        "native": refuse(words),
        "json_schema": talk,
        "text": lambda request: Reply("I", finish_reason="length"),
    }

    with pytest.raises(ProviderError) as caught:
        Server(flawed).choose()

    message = str(caught.value)

    assert message.startswith(
        "house/model-1 called no tool in any of the protocols tried (native: bad_request, house/model-1:"
        " HTTP 400: this"
    )
    assert (
        "json_schema: a reply without a call; text: the reply was cut at --max-output-tokens)"
        in message
    )
    assert "--tool-protocol" in message
    assert "\n" not in message
    assert len(message) < 600


@pytest.mark.parametrize("kind", ["timeout", "rate_limited", "overloaded", "connection"])
def test_network_failures_do_not_count_as_missing_tool_support(kind: str) -> None:
    server = Server({"native": refuse("no route", kind), "json_schema": obey})
    with pytest.raises(
        ProviderError,
        match=rf"house/model-1: no answer .* \({kind}: .*no route\); run the same command again",
    ):
        server.choose()

    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "error", [BudgetError("--max-cost is spent"), ProviderError("set HOUSE_API_KEY")]
)
def test_what_stops_a_run_stops_the_check(error: Exception) -> None:
    def stop(request: ModelRequest) -> Reply:
        raise error

    with pytest.raises(type(error)) as caught:
        Server({"native": stop, "json_schema": obey}).choose()

    assert caught.value is error
