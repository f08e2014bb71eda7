"""Choice of the tool protocol that a model supports, made before a run by means of the smallest
possible step.

Servers claim to support more than they do. Some accept tools and ignore them, some accept a forced
tool but reject an optional one (vLLM without a tool-call parser), and some have models without a
template for tools (Ollama). llama.cpp ignores a tool that is forced by its name. A protocol
therefore counts only if both halves of a step work with it: a look-up with an optional tool, and a
forced call after the result of the look-up, although the message asks for none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from ktdeval.errors import ConfigError, ModelError, PluginError, ProviderError
from ktdeval.harness.call_params import NATIVE_PROTOCOLS
from ktdeval.harness.chat_messages import (
    UNPARSED_CALL,
    CallParams,
    Message,
    ModelRequest,
    RemoteModel,
    Reply,
    ToolProtocol,
    ToolSpec,
)
from ktdeval.harness.tools.tool_protocols import decode, encode
from ktdeval.harness.traits import model_traits
from ktdeval.masking.text_truncation import shorten
from ktdeval.values.documents.strict_json import JsonValue, dumps_canonical, loads_strict
from ktdeval.values.documents.yamlio import load_yaml

#: makes one model call with retries; raises ModelError if the call failed after all retries
Ask = Callable[[ModelRequest], Reply]

#: attempts with one protocol before the next is tried: at nonzero temperature, any model sometimes
#: fails
ATTEMPTS = 2

_PLACE = "north"
_LEVEL = 41
_TEXTS = load_yaml(Path(__file__).with_name("rehearsal.yaml"))
_SYSTEM, _LOOK_UP, _RECORD, _THANK = (
    _TEXTS[name].format(place=_PLACE, level=_LEVEL)
    for name in ("system", "look_up", "record", "thank")
)
_LOOK_UP_TOOL, _RECORD_TOOL = (ToolSpec(**spec) for spec in _TEXTS["tools"])

# Failures by which a server may reject tools in this protocol; other failures reveal nothing about
# tools.
_TELLING = frozenset({"bad_request", "bad_response", "server"})
_LONGEST_PROBLEM = 160
_OTHER_ARGUMENTS = "a call with other arguments than asked for"
_NOT_FORCED = "the server ignores that a tool is forced"


class _UnfitProtocol(Exception):
    """Raised with the reason if a protocol did not work."""


class _NotForced(_UnfitProtocol):
    """Raised if a forced tool was not called. The next attempt would end in the same way."""


def choose_protocol(
    model: RemoteModel,
    requested: Literal["auto"] | ToolProtocol,
    ask: Ask,
    params: CallParams,
    first_seed: int = 0,
) -> ToolProtocol:
    """Return the tool protocol for a run. `ask` makes a model call and keeps the reply for a
    resumed run.

    No call is made for an explicit request, or for a model with only one protocol. Otherwise the
    model's protocols are tried in order, and the first one that works is used. A protocol that
    works costs two small calls, or three if its tools are forced by asking; one that does not work
    costs at most six. If no protocol works, the first one that calls the right tools with different
    arguments is used.

    Raises ConfigError if the requested protocol is not offered, ProviderError if no protocol works,
    and PluginError if the model offers no protocol.
    """
    offered = model.protocols
    name = f"{model.provider}/{model.name}"
    if not offered:
        raise PluginError(
            f"model {name}: `protocols` is empty; name at least one of native, json_schema, text"
        )

    if requested != "auto":
        if requested not in offered:
            raise ConfigError(
                f"--tool-protocol {requested}: {name} takes only {', '.join(offered)}; name one of"
                " these, or auto"
            )

        return requested

    if len(offered) == 1:
        return offered[0]

    step = _RehearsedStep(ask, model_traits(model).forces_tool)
    problems: dict[ToolProtocol, str] = {}
    for protocol in offered:
        if protocol == "native_required" and problems.get("native") != _NOT_FORCED:
            continue  # differs only in how a tool is forced

        problem = _problem_with(protocol, step, replace(params, seed=first_seed), name)
        if problem is None:
            return protocol

        problems[protocol] = problem

    # A test server may call the right tools with its own arguments; it still supports the protocol.
    for protocol, problem in problems.items():
        if problem == _OTHER_ARGUMENTS:
            return protocol

    raise _no_protocol(name, problems)


def _no_protocol(name: str, problems: Mapping[ToolProtocol, str]) -> ProviderError:
    """Return the error for a model that called no tool in any protocol."""
    shown = "; ".join(f"{protocol}: {problem}" for protocol, problem in problems.items())
    if len(set(problems.values())) == 1:  # the server fails in the same way with every protocol
        shown = f"{', '.join(problems)}: {next(iter(problems.values()))}"

    return ProviderError(
        f"{name} called no tool in any of the protocols tried ({shown}); choose another model or"
        " address (--base-url), force one with --tool-protocol native, or fix the server and run"
        " the command again: the check is then repeated without the cache"
    )


def _problem_with(
    protocol: ToolProtocol, step: _RehearsedStep, params: CallParams, name: str
) -> str | None:
    problem = ""
    for attempt in range(ATTEMPTS):
        try:
            step.run(replace(params, seed=params.seed + attempt, tool_protocol=protocol))
        except _NotForced as error:
            return str(error)
        except _UnfitProtocol as error:
            problem = str(error)
        except ModelError as error:
            if error.kind not in _TELLING:
                raise ProviderError(
                    f"{name}: no answer to the check of how it calls tools ({error.kind}:"
                    f" {error}); run the same command again, or name the protocol with"
                    " --tool-protocol"
                ) from error

            return f"{error.kind}, {shorten(' '.join(str(error).split()), _LONGEST_PROBLEM)}"
        else:
            return None

    return problem


@dataclass(frozen=True)
class _RehearsedStep:
    """Smallest possible step: one look-up and one forced call."""

    ask: Ask
    #: whether a request makes the server force its tool; None if the model's adapter can't say
    forces_tool: Callable[[ModelRequest], bool] | None

    def run(self, params: CallParams) -> None:
        """Run the step. Raises _UnfitProtocol or ModelError if it fails."""
        messages = [Message("system", _SYSTEM), Message("user", _LOOK_UP)]
        reply = self._ask_model(ModelRequest(tuple(messages), (_LOOK_UP_TOOL,), params=params))
        is_right = _check_tool_call(reply, _LOOK_UP_TOOL.name) == {"place": _PLACE}
        messages.append(reply.as_message())
        result = dumps_canonical({"place": _PLACE, "level": _LEVEL})
        messages += [Message("tool", result, tool_call_id=call.id) for call in reply.tool_calls]

        if params.tool_protocol in NATIVE_PROTOCOLS and self._is_forced(messages, params):
            is_recorded = True
        else:
            reply = self._ask_model(_forced_call([*messages, Message("user", _RECORD)], params))
            recorded = _check_tool_call(reply, _RECORD_TOOL.name)
            is_recorded = recorded == {"place": _PLACE, "level": _LEVEL}

        if not (is_right and is_recorded):
            raise _UnfitProtocol(_OTHER_ARGUMENTS)

    def _is_forced(self, messages: Sequence[Message], params: CallParams) -> bool:
        """Return whether the model calls a forced tool although the message asks for a word. Raises
        _NotForced if it does not, and the request forces the tool.
        """
        request = _forced_call([*messages, Message("user", _THANK)], params)
        reply = self._ask_model(request)
        is_free_text = not reply.tool_calls and reply.finish_reason == "stop"
        if not is_free_text or UNPARSED_CALL in reply.notes:
            arguments = _check_tool_call(reply, _RECORD_TOOL.name)
            if not _is_record(arguments):
                raise _UnfitProtocol(_OTHER_ARGUMENTS)
            return True

        if self.forces_tool is not None and self.forces_tool(request):
            raise _NotForced(_NOT_FORCED)
        return False

    def _ask_model(self, request: ModelRequest) -> Reply:
        return decode(self.ask(encode(request)), request)


def _forced_call(messages: Sequence[Message], params: CallParams) -> ModelRequest:
    return ModelRequest(tuple(messages), (_RECORD_TOOL,), _RECORD_TOOL.name, params)


def _is_record(arguments: Mapping[str, JsonValue]) -> bool:
    """Return whether arguments have the form of a record, whatever their values."""
    is_whole = arguments.keys() == {"place", "level"}
    return is_whole and isinstance(arguments["place"], str) and type(arguments["level"]) is int


def _check_tool_call(reply: Reply, name: str) -> dict[str, JsonValue]:
    """Return the arguments of the call in a reply. Raises _UnfitProtocol if it calls a different
    tool or no tool.
    """
    if UNPARSED_CALL in reply.notes:
        raise _UnfitProtocol(f"{UNPARSED_CALL}, since the server has no tool parser for it")
    if not reply.tool_calls:
        outcomes = {
            "length": "the reply was cut at --max-output-tokens",
            "stop": "a reply without a call",
        }
        raise _UnfitProtocol(outcomes.get(reply.finish_reason, reply.finish_reason))

    call = reply.tool_calls[0]
    if call.name != name:
        raise _UnfitProtocol("a call of another tool")

    try:
        arguments = loads_strict(call.arguments)
    except ValueError:
        raise _UnfitProtocol("a call whose arguments are not JSON") from None

    if not isinstance(arguments, dict):
        raise _UnfitProtocol("a call whose arguments are not an object")
    return arguments
