"""Additional models of an episode's sessions."""

from __future__ import annotations

from collections.abc import Mapping

from ktdeval.harness.chat_messages import CallParams, Model
from ktdeval.harness.steps.session_parts import NamedModel
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.values.options.config_options import build


def session_models(
    spec: EpisodeSpec, own: Model, further: Mapping[str, Model] | None
) -> dict[str, NamedModel]:
    """Return the additional models for an episode's sessions, keyed by the name that requests use.

    If `further` is None, `own` is used for all of them, as in replays and measurements.
    """
    named = {}
    for choice in spec.further_models:
        call = dict(spec.call)
        call.pop("tool_protocol", None)
        if choice.tool_protocol is not None:
            call["tool_protocol"] = choice.tool_protocol

        model = own if further is None else further[choice.asked_as]
        named[choice.asked_as] = NamedModel(model, build(CallParams, call, "call"))

    return named
