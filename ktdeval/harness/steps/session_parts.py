"""Parts of a session that all steps of an episode share: models, mask, tools, form and budgets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ktdeval.harness.agent import HarnessConfig
from ktdeval.harness.chat_messages import CallParams, Model, Opaque, ToolSpec
from ktdeval.harness.external.external_acts import NOT_A_RUN, Outside
from ktdeval.harness.submissions.submission_form import SubmissionForm
from ktdeval.harness.tools.tool_definition import Tool
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.masking.lens import Lens
from ktdeval.values.documents.strict_json import JsonValue


@dataclass(frozen=True, slots=True)
class NamedModel:
    """Additional model of the run, to which requests refer by name."""

    model: Model
    params: CallParams  #: call parameters, as in `SessionParts.params`


@dataclass(frozen=True)
class SessionParts:
    """Parts that all steps of an episode share."""

    model: Model  #: the model under evaluation
    lens: Lens  #: the episode's mask
    guard: LeakGuard  #: the leak guard for the mask
    tools: tuple[Tool, ...]  #: research tools of the mode, in the order in which they are offered
    form: SubmissionForm  #: the submission form under the mask
    harness: HarnessConfig  #: budgets of a step
    params: CallParams  #: sampling and transport parameters of every call; the seed is replaced
    #: seed of the episode's model calls; the seed of each call is derived from it, the step and the
    #: number of the call
    seed: int
    #: seed that replaces `seed` for local models that draw random numbers (`draws_chance`)
    chance_seed: int | None = None
    name: str = ""  #: name of the model under evaluation
    #: additional models, by the name that requests use
    further: Mapping[str, NamedModel] = field(default_factory=dict)
    outside: Outside = NOT_A_RUN  #: settings that the run gives to external agents
    #: copies of the tools that the leak guard has cleared, by name, since an agent could change a
    #: schema in place
    cleared_specs: dict[str, ToolSpec] = field(default_factory=dict)
    #: system prompts that the leak guard has cleared and that are sent again at every step
    cleared_prompts: set[str] = field(default_factory=set)
    #: opaque data from the model's replies in all steps, since an agent may continue its
    #: conversation
    received: set[Opaque] = field(default_factory=set)
    total_steps: int | None = None  #: total number of steps in the episode

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the research tools in the form offered to a model. They are the same objects at
        every step.
        """
        return tuple(tool.spec for tool in self.tools)

    @cached_property
    def field_names(self) -> frozenset[str]:
        """Names of all fields in the tools' schemas."""
        names: set[str] = set()
        rest: list[JsonValue] = [dict(self.form.tool.parameters)]
        rest += [dict(tool.parameters) for tool in self.tools]
        while rest:
            part = rest.pop()
            match part:
                case dict():
                    properties = part.get("properties")
                    if isinstance(properties, dict):
                        names |= properties.keys()
                    rest += part.values()
                case list():
                    rest += part

        return frozenset(names)
