"""OpenAI's two APIs: Responses, and Chat Completions, which many other servers speak, too."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from ktdeval.calls import Context, Refusal, bad_response, one_line, served_text
from ktdeval.errors import ConfigError, ModelError, ProviderError
from ktdeval.harness import (
    CallParams,
    Listener,
    Model,
    ModelRequest,
    ModelTraits,
    Reply,
    ToolCall,
    Usage,
    split_thought,
)
from ktdeval.values.config_options import near_matches
from ktdeval.values.strict_json import JsonValue
from ktdeval_models.remote import base, thinking_blocks as earlier
from ktdeval_models.remote.accepted_forms import EMPTY, FREE, SCHEMA_FORMS, RequestForms
from ktdeval_models.remote.base import RemoteAdapter, count, part, text_of
from ktdeval_models.remote.batch.openai import OpenAIBatches
from ktdeval_models.remote.grammar_schemas import SchemaBounds
from ktdeval_models.remote.keys import find_key
from ktdeval_models.remote.message_contents import read_content
from ktdeval_models.remote.openai_requests import (
    CALLS_CONTENT,
    chat_messages,
    chat_tools,
    forms_from,
    has_text,
    response_format,
    responses_items,
    responses_tools,
)
from ktdeval_models.remote.params import (
    CompatibleParams,
    OpenAIParams,
    ProviderPreset,
    RemoteParams,
    TokensField,
    presets,
)
from ktdeval_models.remote.read_tool_calls import arguments_text, call_name
from ktdeval_models.remote.served_context import MODELS, served_context
from ktdeval_models.remote.streams.assembly import StreamAssembler
from ktdeval_models.remote.streams.chat import ChatAssembler
from ktdeval_models.remote.streams.responses import ResponsesAssembler
from ktdeval_models.remote.wire_words import by_word, wire_words

Body = dict[str, Any]

_MOST_SEED = 2**31  # seeds are sent modulo this: the smallest range that a server documents
_NOT_TO_ADD = by_word(wire_words("openai")["not_to_add"])
_FORCED_FORMS = ("named", "required", "auto")
# `provider` is a field of OpenRouter's: the server that answered.
_SERVED = ("model", "provider", "system_fingerprint")
_OMITTABLE = ("temperature", "tool_choice", "response_format", "reasoning_effort", "service_tier")
_PRESET_SETTINGS = (
    "thinks",
    "takes_seed",
    "takes_effort",
    "budget_field",
    "think_on",
    "think_off",
    "empty_thought",
)


def make_openai(name: str, params: OpenAIParams | None = None) -> Model:
    """Return a model of OpenAI, over the API that `params.api` names. Raises ConfigError if a
    parameter can't be used.
    """
    params = params or OpenAIParams()
    if params.api == "responses":
        return ResponsesModel(name, params)
    return ChatModel(presets()["openai"], name, params)


def make_compatible(provider: str, name: str, params: CompatibleParams | None = None) -> Model:
    """Return a model of another server that speaks Chat Completions; `provider` is one of
    `presets.yaml`.

    Raises ConfigError if a parameter can't be used, or if no address is known.
    """
    return ChatModel(presets()[provider], name, params or CompatibleParams())


class OpenAIAdapter(RemoteAdapter):
    """Common parts of the two APIs."""

    package = "openai"
    extra = "openai"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self.provider == "openai":
            self._batches = OpenAIBatches(self)

    def headers(self, sdk: ModuleType, key: str | None) -> Mapping[str, str]:
        """Return the SDK's headers; for other servers, without organisation, project and headers
        that the environment names.
        """
        is_openai = self.provider == "openai"
        own: dict[str, Any] = {}
        if not is_openai:
            lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
            for line in lines:
                name, colon, _ = line.partition(":")
                name = name.strip()
                if colon and name.lower() != "authorization":
                    own[name] = sdk.Omit()

        key = key or "none"  # the SDK requires a key; servers without keys ignore it
        own["Authorization"] = f"Bearer {key}"
        with sdk.OpenAI(
            api_key=key, default_headers=own, http_client=base.no_network(sdk)
        ) as client:
            if not is_openai:
                client.organization = client.project = None

            return base.plain_headers(client)

    def check_fields(self, params: RemoteParams, optional: Collection[str | None]) -> None:
        """Raise ConfigError if the user adds a reserved field to requests, or omits one that is not
        `optional`.
        """
        for name in params.extra_body:
            if name in _NOT_TO_ADD:
                raise ConfigError(f"extra_body can't hold {name!r}: {_NOT_TO_ADD[name]}")

        omittable = sorted({*filter(None, optional), *params.extra_body})
        for name in params.omit:
            if name not in omittable:
                hint = near_matches(name, omittable) or f"; it takes {', '.join(omittable)}"
                raise ConfigError(f"omit can't name {name!r}{hint}")


def _token_usage(usage: Mapping[str, Any], whole: tuple[str, str], *elsewhere: str) -> Usage:
    """Return the counts of a reply of either API.

    `whole`: the names of the counts of input and output. `elsewhere`: names of the count of tokens
    read from a cache, if it is not among the details of the input.
    """
    into, out = whole
    read = count(usage, f"{into}_details", "cached_tokens")
    for name in elsewhere:
        read = read or count(usage, name)

    reasoning = count(usage, f"{out}_details", "reasoning_tokens")
    write = count(usage, f"{into}_details", "cache_write_tokens")
    total = count(usage, "total_tokens")
    output = count(usage, out, missing=0 if total else base.NO_COUNT)

    return base.whole_usage(total, Usage(count(usage, into), output, reasoning, read, write))


# --- Chat Completions


class ChatModel(OpenAIAdapter):
    """Model over Chat Completions, at a server that `preset` describes."""

    path = "/chat/completions"

    def __init__(
        self, preset: ProviderPreset, name: str, params: CompatibleParams | OpenAIParams
    ) -> None:
        if not (params.base_url or preset.base_url):
            raise ConfigError(
                f"{preset.provider} needs the server's address: --base-url, such as"
                f" {preset.address}"
            )

        super().__init__(preset.provider, name, params, preset.base_url, preset.variables)
        self.needs_key = preset.needs_key
        self.meanings = preset.meanings
        self.preset = preset
        options = params if isinstance(params, CompatibleParams) else CompatibleParams()
        wants = preset.sends_thoughts or earlier.wants_thoughts(self.endpoint, name)
        self._sends_thoughts = wants if options.send_thoughts is None else options.send_thoughts

        self._forced_tool = options.forced_tool or preset.forced_tool
        self._forced_tool_thinking = options.forced_tool or preset.forced_tool_thinking
        self._max_tokens_field = options.max_tokens_field or preset.max_tokens_field
        self._json_mode = options.json_mode or preset.json_mode
        longest_text = options.longest_text or preset.longest_text
        grammar = options.grammar or preset.grammar
        self._bounds = SchemaBounds(longest_text, options.longest_list, grammar)
        self._extra_body = {**preset.extra_body, **params.extra_body}
        self.forms = RequestForms(self._ladders(options))

        if isinstance(params, OpenAIParams) and params.service_tier is not None:
            self._extra_body["service_tier"] = params.service_tier

        fields = {*_OMITTABLE, preset.seed_field, preset.budget_field}
        self.check_fields(
            params, {*fields, *preset.think_on, *preset.think_off, *preset.extra_body}
        )

    def make_traits(self) -> ModelTraits:
        """Return those of an adapter, and the context that its server states."""
        return replace(super().make_traits(), served_context=self._served_context)

    def _served_context(self, timeout_s: float) -> Context | None:
        """Return the context length that the server states; None if it states none."""
        has_key = find_key(self.variables, None) is not None
        if self.needs_key and not (self.preset.states_context and has_key):
            return None

        root = re.sub(r"/v[0-9]+\Z", "", self.endpoint)

        def get(path: str) -> JsonValue:
            base_url = self.endpoint if path == MODELS else root
            return self.look_up(f"{base_url}{path}", timeout_s)

        return served_context(get, self.name)

    def _ladders(self, options: CompatibleParams) -> dict[str, Sequence[str]]:
        """Return the forms of each part of a request that servers accept in different forms, the
        best first. A part that the user sets has one form.
        """
        length: TokensField = "max_tokens"
        if self._max_tokens_field == "max_tokens":
            length = "max_completion_tokens"
        return {
            "strict": ("false", "left out"),
            "response_format": forms_from(SCHEMA_FORMS, self._json_mode, options.json_mode),
            "tool_choice": forms_from(_FORCED_FORMS, self._forced_tool, options.forced_tool),
            "length": forms_from(
                (self._max_tokens_field, length), self._max_tokens_field, options.max_tokens_field
            ),
            CALLS_CONTENT: (FREE, EMPTY),
            earlier.THOUGHTS: earlier.thought_forms(
                self._sends_thoughts, options.send_thoughts is not None
            ),
        }

    def assembler(self, hear: Listener) -> StreamAssembler:
        """Return what adds up the chunks of one reply."""
        return ChatAssembler(hear, self.loads)

    def settings(self) -> JsonValue:
        """Return settings that change how a request is encoded.

        These are the settings at the start of a run. Forms that it learns from refusals are not in
        them, so keys of the cache stay the same.
        """
        preset_settings = {name: getattr(self.preset, name) for name in _PRESET_SETTINGS}
        if self._sends_thoughts:
            preset_settings["sends_thoughts"] = True
        if self.preset.seed_field != "seed":
            preset_settings["seed_field"] = self.preset.seed_field

        return {
            "api": "chat",
            **preset_settings,
            "forced_tool": self._forced_tool,
            "forced_tool_thinking": self._forced_tool_thinking,
            "max_tokens_field": self._max_tokens_field,
            "json_mode": self._json_mode,
            "longest_text": self._bounds.longest_text,
            "longest_list": self._bounds.longest_list,
            "grammar": self._bounds.grammar,
            "omit": list(self.params.omit),
            "extra_body": self._extra_body,
        }

    def encode(self, request: ModelRequest) -> Body:
        """Return the body of a call."""
        return self.encode_as(request, self.forms.current())

    def encode_as(self, request: ModelRequest, forms: Mapping[str, str]) -> Body:
        """Return the body of a call, with each part in the form given."""
        params = request.params
        effort = params.reasoning_effort
        budget = params.reasoning_tokens
        has_no_wish = effort is None and budget is None
        if has_no_wish:
            thinks = self.preset.thinks
        else:
            thinks = effort != "none" and budget != 0

        empty_thought = self.preset.empty_thought if thinks else None
        body: Body = {
            "model": self.name,
            "messages": list(chat_messages(request, forms, self.provider, empty_thought)),
            "temperature": params.temperature,
            forms["length"]: params.max_output_tokens,
        }

        if self.preset.takes_seed:
            body[self.preset.seed_field] = params.seed % _MOST_SEED

        held = self._bounds.request(request)
        if held.tools:
            how = forms["tool_choice"]
            if thinks and how == self._forced_tool:
                how = self._forced_tool_thinking

            body |= chat_tools(held, how)

        if held.response_schema is not None:
            body |= response_format(held.response_schema, forms)

        if not has_no_wish:
            body |= self._thinking(params)

        body |= self._extra_body
        return {name: value for name, value in body.items() if name not in self.params.omit}

    def parts_of(self, body: Mapping[str, Any], request: ModelRequest) -> list[str]:
        """Return the parts of a request that have several forms."""
        # A field that the user adds or omits is sent as the user says, in no other form.
        own = [name for name in body if name not in self._extra_body]
        parts = ["length"]
        set_by_user = (*self._extra_body, *self.params.omit)
        if request.response_schema is not None and "response_format" not in set_by_user:
            parts.append("response_format")
            if "json_schema" in body.get("response_format", {}):
                parts.append("strict")

        if "tool_choice" in own:
            parts.append("tool_choice")

        if not all(map(has_text, request.messages)):
            parts.append(CALLS_CONTENT)

        if any(earlier.thoughts_in(message, self.provider) for message in request.messages):
            parts.append(earlier.THOUGHTS)

        return parts

    def refusal_error(
        self, refusal: Refusal, content: bytes, body: Mapping[str, Any]
    ) -> ModelError | ProviderError:
        """Return the error for a refusal; one that misses earlier thoughts names the option."""
        missed = earlier.missed_thoughts(refusal, self.caller)
        if missed is not None and not self._sends_thoughts:
            return missed
        return super().refusal_error(refusal, content, body)

    def _thinking(self, params: CallParams) -> Body:
        effort = params.reasoning_effort
        budget = params.reasoning_tokens
        if effort == "none" or budget == 0:
            return dict(self.preset.think_off)

        fields: Body = dict(self.preset.think_on)
        if effort is not None and self.preset.takes_effort:
            fields["reasoning_effort"] = effort

        if budget is not None and self.preset.budget_field is not None:
            fields[self.preset.budget_field] = budget

        return fields

    def decode(
        self,
        answer: Mapping[str, Any],
        request: ModelRequest,
        body: Mapping[str, Any],  # noqa: ARG002
    ) -> Reply:
        """Return the reply in an answer."""
        usage = self._counted(answer.get("usage"))
        served_by = served_text(*(text_of(answer.get(name)) for name in _SERVED))
        if answer.get("choices") in (None, []):
            return base.empty_reply(usage, served_by, "choices", self.caller)

        choice: Mapping[str, Any] = {}
        choices = part(answer, "choices", list, self.caller)
        if isinstance(choices[0], dict):
            choice = choices[0]

        message: Mapping[str, Any] = {}
        if choice.get("message") is not None or not choice.get("finish_reason"):
            message = part(choice, "message", dict, self.caller)  # Azure leaves a filtered one out
        texts = read_content(message.get("content"), self.caller)
        calls = tuple(self._calls(message))
        refusal = text_of(message.get("refusal")) or texts.refusal

        word = choice.get("finish_reason")
        if answer.get("input_sensitive") or answer.get("output_sensitive"):  # MiniMax
            word = "content_filter"

        ending = self.ending(word, texts.content, calls, request)

        # Servers have different names for the reasoning; some leave it in the content.
        reasoning = ""
        for name in ("reasoning_content", "reasoning", "reasoning_details"):
            reasoning = reasoning or text_of(message.get(name))

        reasoning = reasoning or texts.reasoning
        content = texts.content
        in_content = ""
        if not reasoning:
            in_content, content = split_thought(content)

        if calls and self._sends_thoughts:
            kept = earlier.kept_thoughts(message, in_content or texts.reasoning, self.provider)
            calls = (replace(calls[0], opaque=kept), *calls[1:])

        return Reply(
            content=refusal or content,
            tool_calls=calls,
            finish_reason="refusal" if refusal else ending.finish,
            usage=usage,
            reasoning=reasoning or in_content,
            served_by=served_by,
            notes=ending.notes,
        )

    def _calls(self, message: Mapping[str, Any]) -> Iterator[ToolCall]:
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list):
            calls = [calls]

        if not calls and isinstance(message.get("function_call"), dict):  # the form before tools
            calls = [{"function": message["function_call"]}]

        for call in calls:
            if not isinstance(call, dict):
                raise bad_response(
                    self.caller, f"a tool call of the reply is a {type(call).__name__}"
                )

            function = call.get("function")
            if not isinstance(function, dict):
                function = call  # some servers write name and arguments beside the id

            name = call_name(function.get("name"))
            arguments = arguments_text(function, "arguments")
            yield ToolCall(text_of(call.get("id")), name, arguments)

    def _counted(self, usage: Any) -> Usage:
        # The last two names are those of StepFun and Moonshot, and of DeepSeek.
        if isinstance(usage, dict):
            return _token_usage(
                usage,
                ("prompt_tokens", "completion_tokens"),
                "cached_tokens",
                "prompt_cache_hit_tokens",
            )
        if self.needs_key:
            raise bad_response(self.caller, "the reply has no count of tokens")
        return Usage()


# --- Responses


class ResponsesModel(OpenAIAdapter):
    """Model over the Responses API.

    Each request has the whole conversation, and nothing is stored at the provider. The API has no
    seed, and no separate limit on reasoning.
    """

    path = "/responses"
    params: OpenAIParams

    def __init__(self, name: str, params: OpenAIParams) -> None:
        openai = presets()["openai"]
        super().__init__("openai", name, params, openai.base_url, openai.variables)
        self.check_fields(
            params, ("temperature", "store", "tool_choice", "text", "reasoning", "service_tier")
        )

    def assembler(self, hear: Listener) -> StreamAssembler:
        """Return what reads the events of one response."""
        return ResponsesAssembler(hear, self.loads)

    def settings(self) -> JsonValue:
        """Return settings that change how a request is encoded."""
        return {
            "api": "responses",
            "reasoning_summary": self.params.reasoning_summary,
            "service_tier": self.params.service_tier,
            "omit": list(self.params.omit),
            "extra_body": dict(self.params.extra_body),
        }

    def encode(self, request: ModelRequest) -> Body:
        """Return the body of a call."""
        items: list[Body] = []
        for message in request.messages:
            items += responses_items(message)

        body: Body = {
            "model": self.name,
            "input": items,
            "temperature": request.params.temperature,
            "max_output_tokens": request.params.max_output_tokens,
            "store": False,
        }
        if request.tools:
            body |= responses_tools(request)

        if request.response_schema is not None:
            schema = {
                "type": "json_schema",
                "name": "reply",
                "schema": request.response_schema,
                "strict": False,
            }
            body["text"] = {"format": schema}

        reasoning: Body = {}
        if request.params.reasoning_effort is not None:
            reasoning["effort"] = request.params.reasoning_effort
        if self.params.reasoning_summary is not None:
            reasoning["summary"] = self.params.reasoning_summary
        if reasoning:
            body["reasoning"] = reasoning

        if self.params.service_tier is not None:
            body["service_tier"] = self.params.service_tier

        body |= self.params.extra_body
        return {name: value for name, value in body.items() if name not in self.params.omit}

    def decode(
        self,
        answer: Mapping[str, Any],
        request: ModelRequest,
        body: Mapping[str, Any],  # noqa: ARG002
    ) -> Reply:
        """Return the reply in an answer."""
        word = self._word(answer)
        texts: list[str] = []
        refusals: list[str] = []
        thoughts: list[str] = []
        calls: list[ToolCall] = []

        usage = _token_usage(
            part(answer, "usage", dict, self.caller), ("input_tokens", "output_tokens")
        )
        served_by = text_of(answer.get("model"))
        if answer.get("output") in (None, []) and word == "completed":
            return base.empty_reply(usage, served_by, "output", self.caller)

        for item in base.parts(answer, "output", self.caller):
            kind = item.get("type")
            if kind == "message":
                for piece in base.parts(item, "content", self.caller):
                    if piece.get("type") == "output_text":
                        texts.append(part(piece, "text", str, self.caller))
                    elif piece.get("type") == "refusal":
                        refusals.append(part(piece, "refusal", str, self.caller))
            elif kind == "function_call":
                call_id = text_of(item.get("call_id")) or text_of(item.get("id"))
                name = call_name(item.get("name"))
                arguments = arguments_text(item, "arguments")
                calls.append(ToolCall(call_id, name, arguments))
            elif kind == "reasoning":
                thoughts.append(text_of(item.get("content")) or text_of(item.get("summary")))

        content = "\n".join(refusals or texts)
        ending = self.ending(word, content, calls, request)
        return Reply(
            content=content,
            tool_calls=tuple(calls),
            finish_reason="refusal" if refusals else ending.finish,
            usage=usage,
            reasoning="\n".join(filter(None, thoughts)),
            served_by=served_by,
            notes=ending.notes,
        )

    def _word(self, answer: Mapping[str, Any]) -> str:
        """Return the word for how a response ended. Raises ModelError if it has not ended."""
        status = part(answer, "status", str, self.caller)
        if status == "incomplete":
            details = answer.get("incomplete_details")
            if not isinstance(details, dict):
                return status
            return text_of(details.get("reason")) or status

        if status != "completed":
            shown = one_line(status, self.caller.secrets)
            raise bad_response(self.caller, f"the response has the status {shown!r}")

        return status
