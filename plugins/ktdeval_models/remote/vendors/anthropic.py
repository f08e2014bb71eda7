"""`anthropic/NAME`: Claude over the native Messages API, with the headers of the official SDK.

Sources: the API reference (https://platform.claude.com/docs/en/api/messages), the pages on thinking
and tool use, and the types of the `anthropic` package.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from ktdeval.calls import (
    PromptBlock,
    PromptCacheRules,
    ProviderRefusal,
    bad_response,
    bare_model,
    one_line,
)
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness import (
    DEFAULT_PARAMS,
    NO_TOOL,
    CallParams,
    Listener,
    Message,
    ModelRequest,
    Reply,
    ToolCall,
    Usage,
)
from ktdeval.values import JsonValue
from ktdeval_models.remote import base
from ktdeval_models.remote.base import RemoteAdapter, count, text_of, whole_usage
from ktdeval_models.remote.batch.anthropic import AnthropicBatches
from ktdeval_models.remote.params import AnthropicParams, presets
from ktdeval_models.remote.replies.read_tool_calls import read_call
from ktdeval_models.remote.replies.turn_parts import (
    TurnPart,
    TurnRecord,
    parts_of_turn,
    prefix_digests,
)
from ktdeval_models.remote.requests.cache_marks import (
    FIELD,
    changes_choice,
    mark_prompt,
)
from ktdeval_models.remote.requests.own_fields import OwnForm
from ktdeval_models.remote.requests.prompt_caches import message_blocks
from ktdeval_models.remote.requests.schema_rewrites import InexpressibleError, closed_schema
from ktdeval_models.remote.streams.anthropic import MessageAssembler
from ktdeval_models.remote.streams.assembly import StreamAssembler
from ktdeval_models.remote.vendors.anthropic_turns import (
    accepted_name,
    conversation_turns,
    text_or_empty,
)
from ktdeval_models.remote.wire_words import wire_words

Body = dict[str, Any]

_LOG = logging.getLogger(__name__)
_WORDS = wire_words("anthropic")
_NO_SAMPLING = "2026-10-21"
"""From this API version on, `temperature`, `top_p` and `top_k` are refused at any value (release
notes of the version).
"""

# Pages "What's new in Claude …" for these models: a forced `tool_choice` returns an error.
_UNFORCED = re.compile(r"claude-(opus-5-5|sonnet-5-5|(fable|mythos)-5-[12])(-\d{8})?")

_FILTERED = "blocked by content filtering policy"
"""Part of the error message (status 400) that replaces a reply withdrawn by the provider's
filter.
"""

# smallest budget (API page on thinking)
_MIN_BUDGET = 1024
_THOUGHTS = ("thinking", "redacted_thinking")
_THINKS = ("enabled", "adaptive")
_OWNER = "anthropic"  # owner of the signatures, which are the same on all platforms


class AnthropicModel(RemoteAdapter):
    """A Claude model over the Messages API (or a server that speaks it).

    The seed is not sent, because the API does not accept a seed. From API version 2026-10-21 on,
    the temperature is not sent either, because the API no longer accepts it. Thoughts are returned
    unchanged and in their positions, as the API page on thinking asks. Newer models refuse thoughts
    if the tools or anything before the thoughts has changed ("Preserved thinking"); in that case
    thoughts are omitted.
    """

    package = "anthropic"
    extra = "anthropic"
    version = r"/v1\Z"
    path = "/v1/messages"
    params: AnthropicParams
    own_form = OwnForm("messages", ("none", "low", "medium", "high", "xhigh"), ("thinking",))

    def __init__(
        self,
        name: str,
        params: AnthropicParams | None = None,
        provider: str = "anthropic",
        default_url: str | None = None,
    ) -> None:
        preset = presets()[provider]
        url = preset.base_url if default_url is None else default_url
        super().__init__(provider, name, params or AnthropicParams(), url, preset.variables)
        self.extra = preset.extra
        self._said: set[str] = set()
        if provider == "anthropic":  # hosts have batches of their own, which are not supported here
            self._batches = AnthropicBatches(self)
        self._has_sampling = self.version_day < _NO_SAMPLING

    @property
    def version_day(self) -> str:
        """Date of the API version, without a host's prefix."""
        return self.params.api_version[-len(_NO_SAMPLING) :]

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """Return the SDK's headers. Values that the SDK would otherwise read from the environment
        are set explicitly.
        """
        version = {"anthropic-version": self.params.api_version}
        return self.client_headers(sdk, sdk.Anthropic, api_key=key, default_headers=version)

    def assembler(self, hear: Listener) -> StreamAssembler | None:
        """Return the assembler for the events of one message; None if a host streams in another
        format.
        """
        return MessageAssembler(hear, self.loads)

    def settings(self) -> dict[str, JsonValue]:
        """Return the parameters that can change a reply, the way in which tools are forced, and the
        options of the run that the API lacks.
        """
        not_sent: list[JsonValue] = ["seed"]
        if not self._has_sampling:
            not_sent.append("temperature")

        return {
            **super().settings(),
            "api_version": self.params.api_version,
            "thinking": self.params.thinking,
            "thinking_display": self.params.thinking_display,
            "forced_tool": self._how_forced(None),
            "forced_tool_while_thinking": self._how_forced("enabled"),
            "forbidden_tools_where_auto": "asked",
            "inexpressible_schemas": "not_sent",
            "not_sent": not_sent,
            "thoughts": "returned",
        }

    # --- a request

    def encode(self, request: ModelRequest) -> Body:
        """Return the body of a call. Raises ProviderError if this API does not support one of the
        run's options.
        """
        turns, thinking = self._conversation(request)
        body: Body = {
            "model": self.name,
            "max_tokens": _reply_limit(request.params),
            "messages": turns,
        }
        system = []
        for message in request.messages:
            if message.role == "system" and text_or_empty(message):
                system.append(message.content)
        if system:
            body["system"] = "\n\n".join(system)

        if thinking is not None:
            body["thinking"] = thinking

        mode = _mode_of(thinking)
        # With thinking the API accepts only its default temperature, 1.
        temperature = request.params.temperature
        if temperature is not None and self._has_sampling and mode not in _THINKS:
            # Reference of the Messages API: from 0 to 1
            if temperature > 1:
                raise self._make_refusal(
                    f"temperatures go from 0 to 1, was {temperature:g}; set --temperature"
                )

            body["temperature"] = temperature

        body |= self._tools(request, self._how_forced(mode))
        output = self._output(request)
        if output:
            body["output_config"] = output

        if self._caches:
            mark_prompt(body, request)

        body = {name: value for name, value in body.items() if name not in self.params.omit}
        return {**body, **self.params.extra_body}

    def _conversation(self, request: ModelRequest) -> tuple[list[Body], Body | None]:
        """Return the turns of a request and the value of its `thinking` field; None if the field is
        not sent.
        """
        thinking = self._thinking(request)
        messages = request.messages
        if not self._caches or changes_choice(request, self._is_asked(request, thinking)):
            messages = tuple(replace(message, shared=()) for message in messages)

        turns = list(conversation_turns(messages, self._kept_parts(messages, request)))
        if thinking is not None and thinking["type"] == "enabled" and _lacks_thought(turns):
            # The last calls have no signed thoughts (the thoughts came as text, or the agent wrote
            # the calls). Inside a round of tool use the API then refuses a budget, so thinking is
            # disabled for this call.
            thinking = {"type": "disabled"}
            turns = list(conversation_turns(messages, [None] * len(messages)))

        return turns, thinking

    def _kept_parts(
        self, messages: Sequence[Message], request: ModelRequest
    ) -> list[list[TurnPart] | None]:
        """Return the parts of each turn whose thoughts are sent back; None for any other turn."""
        if all(message.opaque is None for message in messages):
            return [None] * len(messages)

        befores = self._digests(request)
        return [
            parts_of_turn(message, _OWNER, self.name, before)
            for message, before in zip(messages, befores, strict=False)
        ]

    def _digests(self, request: ModelRequest) -> list[str]:
        """Return one digest for the content before each message of a request, and one for the whole
        request.
        """
        offered = self._tools(request, self._how_forced(None)).get("tools", [])
        return prefix_digests(offered, request.messages)

    def _is_asked(self, request: ModelRequest, thinking: Body | None) -> bool:
        """Return whether the API lets the model decide whether to call a tool: the choice is free,
        or the prompt merely requests the tool.
        """
        return request.tool_choice is None or self._how_forced(_mode_of(thinking)) == "auto"

    @property
    def _caches(self) -> bool:
        """True if requests mark the parts of a prompt that the provider should cache."""
        return self.params.prompt_cache != "off" and FIELD not in self.params.omit

    def _cache_rules(self) -> PromptCacheRules | None:
        """Return the rules of the provider's prompt cache, which stores only the marked parts of
        requests.
        """
        rules = super()._cache_rules()
        if rules is None:
            return None
        return replace(rules, blocks=self._cache_blocks)

    def _cache_blocks(self, request: ModelRequest) -> Sequence[PromptBlock]:
        return tuple(message_blocks(self.encode(request)))

    def _make_refusal(self, why: str) -> ProviderError:
        return ProviderError(f"{self.provider}/{self.name}: {why}")

    def _how_forced(self, mode: str | None) -> str:
        """Return how a tool is forced: `named`, `any` or `auto`.

        With thinking the result is `auto`: with a thinking budget the API refuses other values, and
        in adaptive mode a forced call comes without thoughts. The prompt then asks for the tool.
        """
        if self.params.forced_tool is not None:
            return self.params.forced_tool
        if mode in _THINKS or _UNFORCED.fullmatch(bare_model(self.name)):
            return "auto"
        return "named"

    def _thinking_mode(self, call: CallParams) -> str:
        """Return the thinking mode that the parameters set, otherwise the mode implied by the run's
        options.
        """
        mode: str = self.params.thinking
        if mode != "auto":
            return mode
        if call.reasoning_tokens == 0 or call.reasoning_effort == "none":
            return "disabled"
        if call.reasoning_tokens is not None:
            return "budget"
        if call.reasoning_effort is not None:
            return "adaptive"
        return "unset"

    def _thinking(self, request: ModelRequest) -> Body | None:
        """Return the value of a call's `thinking` field; None if the field is not sent. If the
        agent's program sets thinking or effort, the program's settings replace the run's.
        """
        own = request.own
        if own is not None and own.api == self.own_form.api:
            given = own.fields.get("thinking")
            if isinstance(given, dict) and isinstance(given.get("type"), str):
                return dict(given)
            if "output_config.effort" in own.fields:
                return None

        call = request.params
        mode = self._thinking_mode(call)
        if mode == "unset":
            return None
        if mode in ("disabled", "between_tools"):
            return {"type": mode}

        display = self.params.thinking_display
        if display is None:
            # With a budget, thoughts must be sent back, which is allowed only if they have no text.
            display = "omitted" if mode == "budget" else "summarized"

        shown = {}
        if display != "default":
            shown["display"] = display
        if mode == "adaptive":
            return {"type": "adaptive", **shown}

        budget = call.reasoning_tokens or 0
        limit = _reply_limit(call)
        if not _MIN_BUDGET <= budget < limit:
            raise self._make_refusal(
                f"a thinking budget has to be at least {_MIN_BUDGET} tokens and below"
                f" --max-output-tokens {limit}, was {budget}; set"
                " --reasoning-tokens"
            )

        return {"type": "enabled", "budget_tokens": budget, **shown}

    def _tools(self, request: ModelRequest, forced: str) -> Body:
        """Return the tools on offer, and how they may be chosen.

        If a tool must be called but can't be forced by name, it is the only tool on offer. If the
        choice is left to the model, all tools stay on offer, since a different list would
        invalidate the prompt cache. The choice `none` would also invalidate the cache, so only the
        prompt asks for text, and the agent refuses a call.
        """
        if not request.tools:
            return _uncallable_tools(request)

        tools = request.tools
        if request.tool_choice and forced == "any":
            tools = tuple(tool for tool in tools if tool.name == request.tool_choice)

        offered = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": dict(tool.parameters),
            }
            for tool in tools
        ]
        choice: Body
        if request.tool_choice is None or forced == "auto":
            choice = {"type": "auto"}
        elif request.tool_choice == NO_TOOL:
            choice = {"type": "none"}
        elif forced == "any":
            choice = {"type": "any"}
        else:
            choice = {"type": "tool", "name": request.tool_choice}

        return {"tools": offered, "tool_choice": choice}

    def _forces_tool(self, request: ModelRequest) -> bool:
        """Return whether what is sent for a request forces its tool."""
        choice: Body = self.encode(request).get("tool_choice", {})
        return choice.get("type") in ("tool", "any")

    def _output(self, request: ModelRequest) -> Body:
        output: Body = {}
        effort = request.params.reasoning_effort
        if effort == "minimal":
            raise ProviderError(
                f"{self.provider} knows no --reasoning-effort minimal; choose low, medium, high, xhigh or"
                " none"
            )

        if effort not in (None, "none"):
            output["effort"] = effort

        if request.response_schema is not None:
            schema = self._make_enforced_schema(request.response_schema)
            if schema is not None:
                output["format"] = {"type": "json_schema", "schema": schema}

        return {name: value for name, value in output.items() if name not in self.params.omit}

    def _make_enforced_schema(self, schema: Mapping[str, JsonValue]) -> Body | None:
        """Return the schema that the API enforces; None if the API can't express it. The reply is
        handled the same way in both cases: the prompt describes the schema, and the harness checks
        the reply.
        """
        try:
            return closed_schema(schema)
        except InexpressibleError as error:
            self._say_once(str(error))
            return None

    def _say_once(self, problem: str) -> None:
        if problem in self._said:
            return
        self._said.add(problem)
        _LOG.warning(
            "%s/%s: structured outputs can't express the reply's schema (%s); it is asked"
            " for by the prompt alone, and checked as ever. --tool-protocol native or text needs no"
            " such schema",
            self.provider,
            self.name,
            problem,
        )

    # --- a reply

    def decode(
        self,
        answer: Mapping[str, Any],
        request: ModelRequest,
        body: Mapping[str, Any],  # noqa: ARG002
    ) -> Reply:
        """Return the reply in a message.

        The reply carries signed thoughts in their positions, and later requests send them back.
        Raises ModelError `bad_response` if the answer is not a message, or if it ended for an
        unknown reason.
        """
        usage = _token_usage(answer.get("usage"))
        served_by = text_of(answer.get("model"))
        if answer.get("stop_reason") == "end_turn" and answer.get("content") is None:
            return base.empty_reply(usage, served_by, "content", self.caller)

        blocks = base.parts(answer, "content", self.caller)
        turn = TurnRecord()

        for block in blocks:
            kind = block.get("type")
            if kind == "text":
                turn.add_text(self._text(block, "text"))
            elif kind in _THOUGHTS:
                turn.add_thought(self._text(block, "thinking"), block)
            elif kind == "tool_use":
                turn.add_call(read_call(block, "input", text_of(block.get("id"))))
            else:
                shown = one_line(str(kind), self.caller.secrets)
                raise bad_response(
                    self.caller, f"the reply holds a block that was not asked for ({shown})"
                )

        content = "".join(turn.texts)
        calls = turn.calls
        ending = self.ending(answer.get("stop_reason"), content, calls, request)
        broke_off = ending.finish in ("length", "refusal")
        if broke_off and calls and blocks[-1].get("type") == "tool_use":
            calls[-1] = _cut_call(calls[-1])

        opaque = None
        # the last thought of a reply that was cut off may have no signature
        if turn.thoughts and not broke_off:
            opaque = turn.opaque(_OWNER, self.name, self._digests(request)[-1])

        return Reply(
            content=content,
            tool_calls=tuple(calls),
            finish_reason=ending.finish,
            usage=usage,
            reasoning="\n\n".join(filter(None, turn.thoughts)),
            served_by=served_by,
            notes=ending.notes,
            opaque=opaque,
            response_id=text_of(answer.get("id")),
        )

    def _text(self, block: Mapping[str, Any], name: str) -> str:
        text = block.get(name)
        if block["type"] == "redacted_thinking":
            text = block.get(name, "")  # these thoughts are encrypted and have no text
        if not isinstance(text, str):
            raise bad_response(self.caller, "a block of the reply holds no text where it should")
        return text

    def untaken(self, body: Mapping[str, Any]) -> Collection[str]:
        """Return the call parameters that a request omits."""
        return () if "temperature" in body else ("temperature",)

    # --- a refusal

    def list_fields(self, body: Mapping[str, Any]) -> Collection[str]:
        """Return the request fields that a refusal may blame and `omit` may list: all but
        `max_tokens`, which the API requires.
        """
        fields = {*body, *body.get("output_config", {})}
        if self._caches:
            fields.add(FIELD)
        return fields - {"max_tokens"}

    def refusal_error(
        self, refusal: ProviderRefusal, content: bytes, body: Mapping[str, Any]
    ) -> ModelError | ProviderError:
        """Return the error for a refusal.

        A filtered reply and an account without credit have the same status as an invalid request;
        only the error text distinguishes them.
        """
        details = base.error_details(content)
        error_code = details.get("error_code") if isinstance(details, dict) else None
        if _FILTERED in refusal.message:
            refusal = replace(refusal, codes=("content_filter",))
        elif error_code in _WORDS["no_money"]:
            refusal = replace(refusal, codes=("billing_error",))

        was_forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
        if refusal.status == 400 and "tool_choice" in refusal.message and was_forced:
            message = one_line(refusal.message, self.caller.secrets)
            return ProviderError(
                f"{self.provider}/{self.name} takes no forced tool (HTTP {refusal.status}: {message}); "
                "ask for the tool instead, with --model-args forced_tool=auto"
            )

        return super().refusal_error(refusal, content, body)


def _reply_limit(params: CallParams) -> int:
    """Return the maximum tokens of a reply. The API requires one: if neither the run nor a program
    names it, the run's usual limit is sent.
    """
    return params.max_output_tokens or DEFAULT_PARAMS.max_output_tokens or 0


def _mode_of(thinking: Body | None) -> str | None:
    """Return the mode in a request's `thinking` field; None if the field is not sent."""
    if thinking is None:
        return None

    mode: str = thinking["type"]
    return mode


def _uncallable_tools(request: ModelRequest) -> Body:
    """Return the tools that were called earlier, with the choice `none`. They are needed because
    the API requires a tool list if the conversation has calls.
    """
    names: dict[str, None] = {}
    for message in request.messages:
        names |= dict.fromkeys(accepted_name(call.name) for call in message.tool_calls)

    if not names:
        return {}
    listed = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    return {"tools": listed, "tool_choice": {"type": "none"}}


def _cut_call(call: ToolCall) -> ToolCall:
    """Return the call during which a reply was cut off, without the last character of its
    arguments. The part that arrived may look complete; without its last character it can't pass as
    the model's decision.
    """
    return replace(call, arguments=call.arguments[:-1] or "{")


def _lacks_thought(turns: Sequence[Body]) -> bool:
    """Return whether the turns end with tool results whose calls have no thoughts before them."""
    if len(turns) < 2:
        return False
    if not any(block["type"] == "tool_result" for block in turns[-1]["content"]):
        return False
    return turns[-2]["content"][0]["type"] not in _THOUGHTS


def _token_usage(usage: Any) -> Usage:
    read = count(usage, "cache_read_input_tokens")
    write = count(usage, "cache_creation_input_tokens")
    counts = Usage(
        # The API counts cached tokens separately.
        input_tokens=count(usage, "input_tokens", missing=base.NO_COUNT) + read + write,
        output_tokens=count(usage, "output_tokens", missing=base.NO_COUNT),
        reasoning_tokens=count(usage, "output_tokens_details", "thinking_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=write,
    )

    return whole_usage(0, counts)
