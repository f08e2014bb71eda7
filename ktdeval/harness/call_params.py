"""Sampling and transport parameters of a model call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ktdeval.values.documents.strict_json import JsonValue

ToolProtocol = Literal["native", "native_required", "json_schema", "text"]
"""How tools reach a model: the provider's own tool calling, the same with a forced tool as the only
one on offer (for servers that ignore a tool forced by its name), a reply that must follow a JSON
Schema, or plain text.
"""
NATIVE_PROTOCOLS = frozenset({"native", "native_required"})
"""Protocols in which the provider's API carries tools and calls."""
#: the first part of a reply may take this many times as long as the next ones: a local model reads
#: a long prompt for minutes, and some providers send nothing while a model reasons
FIRST_TIMES = 5.0
TRANSPORT = ("timeout_s", "first_timeout_s")
"""Call parameters that can't change a model's answers. They do not belong to a run's identity: each
session of a run chooses its own. Runs of earlier versions recorded `timeout_s`.
"""
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, slots=True)
class CallParams:
    """Sampling and transport parameters of a model call (defaults from KTD-Fin Appendix I). The
    harness derives `seed` for each call, so that a keyless model may use randomness and still be a
    pure function of its request.

    Example:
        CallParams(temperature=0.0, max_output_tokens=1024)
    """

    temperature: float | None = 0.7  #: sampling temperature; None leaves it to the provider
    #: maximum tokens of a reply, including reasoning if the provider counts it; None leaves it to
    #: the provider
    max_output_tokens: int | None = 4096
    #: maximum seconds between two parts of a reply that is streamed
    timeout_s: float = 120.0
    #: maximum seconds until the first part of a reply, or until the end of one that comes whole;
    #: None for `FIRST_TIMES` the time between two parts
    first_timeout_s: float | None = None
    seed: int = 0  #: seed, for providers that accept one
    #: reasoning effort of a reasoning model; None leaves the choice to the provider
    reasoning_effort: ReasoningEffort | None = None
    #: maximum reasoning tokens, for providers that accept such a budget; None leaves the choice to
    #: the provider
    reasoning_tokens: int | None = None
    tool_protocol: ToolProtocol = "native"  #: how tools are offered to the model

    @property
    def first_limit_s(self) -> float:
        """Maximum seconds until the first part of a reply."""
        if self.first_timeout_s is not None:
            return self.first_timeout_s
        return FIRST_TIMES * self.timeout_s


DEFAULT_PARAMS = CallParams()
MAX_REPLY_TOKENS = 131_072
"""Bound on the tokens of a reply that no limit was sent for: no listed model writes more."""


def without_transport(call: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return recorded call parameters without those of the transport."""
    return {name: value for name, value in call.items() if name not in TRANSPORT}
