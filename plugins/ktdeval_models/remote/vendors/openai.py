"""Chat Completions, the protocol of OpenAI and many other servers, and the choice between OpenAI's
two APIs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ktdeval.calls import Context, ProviderRefusal, bad_response, served_text
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
from ktdeval.values import JsonValue
from ktdeval_models.remote import base
from ktdeval_models.remote.base import part, text_of
from ktdeval_models.remote.keys import find_key
from ktdeval_models.remote.params import (
    CompatibleParams,
    OpenAIParams,
    ProviderPreset,
    TokensField,
    presets,
)
from ktdeval_models.remote.replies import thinking_blocks as earlier
from ktdeval_models.remote.replies.read_tool_calls import read_call
from ktdeval_models.remote.replies.served_context import MODELS, is_llama_cpp, served_context
from ktdeval_models.remote.requests.accepted_forms import EMPTY, FREE, SCHEMA_FORMS, RequestForms
from ktdeval_models.remote.requests.grammar_schemas import SchemaBounds
from ktdeval_models.remote.requests.message_contents import read_content
from ktdeval_models.remote.requests.own_fields import OwnForm
from ktdeval_models.remote.streams.assembly import StreamAssembler
from ktdeval_models.remote.streams.chat import ChatAssembler
from ktdeval_models.remote.vendors.openai_adapter import OpenAIAdapter, token_usage
from ktdeval_models.remote.vendors.openai_requests import (
    CALLS_CONTENT,
    chat_messages,
    chat_tools,
    forms_from,
    has_text,
    response_format,
)
from ktdeval_models.remote.vendors.responses import ResponsesModel

Body = dict[str, Any]

_MAX_SEED = 2**31  # seeds are sent modulo this number, the smallest range that any server documents
_FORCED_FORMS = ("named", "required", "auto")
# `provider` is a field of OpenRouter: the server that answered.
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
    """Return an OpenAI model that uses the API set in `params.api`. Raises ConfigError if a
    parameter can't be used.
    """
    params = params or OpenAIParams()
    if params.api == "responses":
        return ResponsesModel(name, params)
    return ChatModel(presets()["openai"], name, params)


def make_compatible(provider: str, name: str, params: CompatibleParams | None = None) -> Model:
    """Return a model on another server that speaks Chat Completions. `provider` is a name in
    `presets.yaml`. Raises ConfigError if a parameter can't be used, or if no address is known.
    """
    return ChatModel(presets()[provider], name, params or CompatibleParams())


class ChatModel(OpenAIAdapter):
    """Model that uses Chat Completions, on a server described by `preset`."""

    path = "/chat/completions"
    protocols = ("native", "native_required", "json_schema", "text")
    _is_known_repeatable = False  # whether the server was found to be llama.cpp's
    own_form = OwnForm(
        "chat_completions", encoded=("max_tokens", "max_completion_tokens", "temperature")
    )

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
        self._is_repeatable = options.repeatable
        self._extra_body = {**preset.extra_body, **params.extra_body}
        self.forms = RequestForms(self._ladders(options))

        if isinstance(params, OpenAIParams) and params.service_tier is not None:
            self._extra_body["service_tier"] = params.service_tier

        fields = {*_OMITTABLE, preset.seed_field, preset.budget_field}
        self.check_fields(
            params, {*fields, *preset.think_on, *preset.think_off, *preset.extra_body}
        )

    def make_traits(self) -> ModelTraits:
        """Return the adapter's traits, with the context length that its server reports."""
        return replace(super().make_traits(), served_context=self._served_context)

    def _served_context(self, timeout_s: float) -> Context | None:
        """Return the context length that the server reports; None if it reports none."""
        has_key = find_key(self.variables, None) is not None
        if self.needs_key and not (self.preset.states_context and has_key):
            return None

        return served_context(self._getter(timeout_s), self.name)

    def _getter(self, timeout_s: float) -> Callable[[str], JsonValue]:
        """Return a function that gets the JSON at a path of the server."""
        root = re.sub(r"/v[0-9]+\Z", "", self.endpoint)

        def get(path: str) -> JsonValue:
            base_url = self.endpoint if path == MODELS else root
            return self.look_up(f"{base_url}{path}", timeout_s)

        return get

    def _ladders(self, options: CompatibleParams) -> dict[str, Sequence[str]]:
        """Return the forms, best first, of each request part that servers accept in different
        forms. If the user sets a part, it has a single form.
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
        """Return the assembler for the chunks of one reply."""
        return ChatAssembler(hear, self.loads)

    def settings(self) -> dict[str, JsonValue]:
        """Return the settings that change how a request is encoded.

        These are the settings at the start of a run. They exclude forms learnt from refusals, so
        that cache keys stay the same.
        """
        preset_settings = {name: getattr(self.preset, name) for name in _PRESET_SETTINGS}
        if self._sends_thoughts:
            preset_settings["sends_thoughts"] = True
        if self.preset.seed_field != "seed":
            preset_settings["seed_field"] = self.preset.seed_field

        return {
            **super().settings(),
            "api": "chat",
            **preset_settings,
            "forced_tool": self._forced_tool,
            "forced_tool_thinking": self._forced_tool_thinking,
            "max_tokens_field": self._max_tokens_field,
            "json_mode": self._json_mode,
            "longest_text": self._bounds.longest_text,
            "longest_list": self._bounds.longest_list,
            "grammar": self._bounds.grammar,
            "extra_body": self._extra_body,
            **({"repeatable": True} if self._is_repeatable else {}),
            **self.not_sent(),
        }

    def reply(self, request: ModelRequest) -> Reply:
        """Make one attempt, as `RemoteAdapter.reply` does. Raises ProviderError if calls are to be
        repeatable and the server is not one whose prompt cache a call can leave out.
        """
        if self._is_repeatable and not self._is_known_repeatable:
            self._check_repeatable(request.params.timeout_s)
        return super().reply(request)

    def _check_repeatable(self, timeout_s: float) -> None:
        """Raise ProviderError unless the server is llama.cpp's own."""
        if not is_llama_cpp(self._getter(timeout_s), self.name):
            raise ProviderError(
                f"repeatable=true: {self.endpoint} is not llama.cpp's server, and a call to another"
                " can't leave out its prompt cache; omit it, or start the server without a cache"
                " (vLLM: --no-enable-prefix-caching, SGLang: --disable-radix-cache)"
            )
        self._is_known_repeatable = True

    def encode(self, request: ModelRequest) -> Body:
        """Return the body of a call."""
        return self.encode_as(request, self.forms.current())

    def encode_as(self, request: ModelRequest, forms: Mapping[str, str]) -> Body:
        """Return the body of a call, with each part in the given form."""
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
            **self.limits(params, forms["length"]),
        }

        if self.preset.takes_seed:
            body[self.preset.seed_field] = params.seed % _MAX_SEED

        if self._is_repeatable:
            body["cache_prompt"] = False

        held = self._bounds.request(request)
        if held.tools:
            how = forms["tool_choice"]
            if thinks and how == self._forced_tool:
                how = self._forced_tool_thinking
            if how == "named" and params.tool_protocol == "native_required":
                how = "required"

            body |= chat_tools(held, how)

        if held.response_schema is not None:
            body |= response_format(held.response_schema, forms)

        if not has_no_wish:
            body |= self._thinking(params)

        body |= self._extra_body
        return {name: value for name, value in body.items() if name not in self.params.omit}

    def untaken(self, body: Mapping[str, Any]) -> Collection[str]:
        """Return the call parameters that a request omits."""
        lacking = [] if "temperature" in body else ["temperature"]
        if not self.preset.takes_effort:
            lacking.append("reasoning_effort")
        if self.preset.budget_field is None:
            lacking.append("reasoning_tokens")
        return lacking

    def parts_of(self, body: Mapping[str, Any], request: ModelRequest) -> list[str]:
        """Return the parts of a request that servers accept in different forms."""
        # If the user adds or omits a field, it is sent as the user says and in no other form.
        own = [name for name in body if name not in self._extra_body]
        parts = []
        if request.params.max_output_tokens is not None:
            parts.append("length")

        set_by_user = (*self._extra_body, *self.params.omit)
        if request.response_schema is not None and "response_format" not in set_by_user:
            parts.append("response_format")
            if "json_schema" in body.get("response_format", {}):
                parts.append("strict")

        if "tool_choice" in own:
            parts.append("tool_choice")

        if not all(map(has_text, request.messages)):
            parts.append(CALLS_CONTENT)

        if earlier.sends_thoughts(request.messages, self.provider):
            parts.append(earlier.THOUGHTS)

        return parts

    def refusal_error(
        self, refusal: ProviderRefusal, content: bytes, body: Mapping[str, Any]
    ) -> ModelError | ProviderError:
        """Return the error for a refusal. If earlier thoughts are missing, the error names the
        option that sends them.
        """
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
        usage = self._count_usage(answer.get("usage"))
        served_by = served_text(*(text_of(answer.get(name)) for name in _SERVED))
        if answer.get("choices") in (None, []):
            return base.empty_reply(usage, served_by, "choices", self.caller)

        choice = _first_choice(part(answer, "choices", list, self.caller))

        message: Mapping[str, Any] = {}
        if choice.get("message") is not None or not choice.get("finish_reason"):
            message = part(choice, "message", dict, self.caller)  # Azure omits a filtered message
        texts = read_content(message.get("content"), self.caller)
        calls = tuple(self._calls(message))
        refusal = text_of(message.get("refusal")) or texts.refusal

        word = choice.get("finish_reason")
        if answer.get("input_sensitive") or answer.get("output_sensitive"):  # MiniMax
            word = "content_filter"

        ending = self.ending(word, texts.content, calls, request)

        # Servers name the reasoning field differently; some leave the reasoning in the content.
        reasoning = ""
        for name in ("reasoning_content", "reasoning", "reasoning_details"):
            reasoning = reasoning or text_of(message.get(name))

        reasoning = reasoning or texts.reasoning
        content = texts.content
        in_content = ""
        if not reasoning:
            in_content, content = split_thought(content)

        kept = None
        if self._sends_thoughts:
            kept = earlier.kept_thoughts(message, in_content or texts.reasoning, self.provider)

        return Reply(
            content=refusal or content,
            tool_calls=calls,
            finish_reason="refusal" if refusal else ending.finish,
            usage=usage,
            reasoning=reasoning or in_content,
            served_by=served_by,
            notes=ending.notes,
            opaque=kept,
            response_id=text_of(answer.get("id")),
        )

    def _calls(self, message: Mapping[str, Any]) -> Iterator[ToolCall]:
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list):
            calls = [calls]

        # the form that predates tools
        if not calls and isinstance(message.get("function_call"), dict):
            calls = [{"function": message["function_call"]}]

        for call in calls:
            if not isinstance(call, dict):
                raise bad_response(
                    self.caller, f"a tool call of the reply is a {type(call).__name__}"
                )

            function = call.get("function")
            if not isinstance(function, dict):
                function = call  # some servers write name and arguments next to the id

            yield read_call(function, "arguments", text_of(call.get("id")))

    def _count_usage(self, usage: Any) -> Usage:
        # The last two names are used by StepFun and Moonshot, and by DeepSeek.
        if isinstance(usage, dict):
            return token_usage(
                usage,
                ("prompt_tokens", "completion_tokens"),
                "cached_tokens",
                "prompt_cache_hit_tokens",
            )
        if self.needs_key:
            raise bad_response(self.caller, "the reply has no count of tokens")
        return Usage()


def _first_choice(choices: Sequence[Any]) -> Mapping[str, Any]:
    """Return the choice with index 0, which need not come first. If no choice has index 0, return
    the first.
    """
    objects = [choice for choice in choices if isinstance(choice, dict)]
    indexed = [choice for choice in objects if choice.get("index") == 0]
    return next(iter((*indexed, *objects)), {})
