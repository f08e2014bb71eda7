"""Sampling and transport parameters of a model call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ToolProtocol = Literal["native", "json_schema", "text"]
"""How tools reach a model: the provider's own tool calling, a reply that must follow a JSON Schema,
or plain text.
"""
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


@dataclass(frozen=True, slots=True)
class CallParams:
    """Sampling and transport parameters of a model call (defaults of KTD-Fin Appendix I). `seed` is
    derived per call by the harness, so that a keyless model may use chance and still be a pure
    function of its request.

    Example:
        CallParams(temperature=0.0, max_output_tokens=1024)
    """

    temperature: float = 0.7  #: sampling temperature
    #: most tokens of a reply, reasoning included where the provider counts it so
    max_output_tokens: int = 4096
    timeout_s: float = 120.0  #: longest time from sending a request to its last byte
    seed: int = 0  #: for providers that take one
    #: how hard a reasoning model should think; None leaves it to the provider
    reasoning_effort: ReasoningEffort | None = None
    #: most tokens of reasoning, for providers that take such a budget; None leaves it to the
    #: provider
    reasoning_tokens: int | None = None
    tool_protocol: ToolProtocol = "native"  #: how tools are offered to the model


DEFAULT_PARAMS = CallParams()
