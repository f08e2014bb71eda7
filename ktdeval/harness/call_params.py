"""Sampling and transport parameters of a model call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ToolProtocol = Literal["native", "native_required", "json_schema", "text"]
"""How tools reach a model: the provider's own tool calling, the same with a forced tool as the only
one on offer (for servers that ignore a tool forced by its name), a reply that must follow a JSON
Schema, or plain text.
"""
NATIVE_PROTOCOLS = frozenset({"native", "native_required"})
"""Protocols in which the provider's API carries tools and calls."""
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
    #: maximum seconds from sending a request to receiving the last byte of the reply
    timeout_s: float = 120.0
    seed: int = 0  #: seed, for providers that accept one
    #: reasoning effort of a reasoning model; None leaves the choice to the provider
    reasoning_effort: ReasoningEffort | None = None
    #: maximum reasoning tokens, for providers that accept such a budget; None leaves the choice to
    #: the provider
    reasoning_tokens: int | None = None
    tool_protocol: ToolProtocol = "native"  #: how tools are offered to the model


DEFAULT_PARAMS = CallParams()
MAX_REPLY_TOKENS = 131_072
"""Bound on the tokens of a reply that no limit was sent for: no listed model writes more."""
