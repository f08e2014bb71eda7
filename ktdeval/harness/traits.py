"""Traits of models and agents: declarations beyond their protocol, each with a default.

An object declares its traits in the attribute `traits`. Without this attribute, the defaults apply.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ktdeval.errors import PluginError
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.options.config_options import option

if TYPE_CHECKING:  # a manifest that declares traits must be fast to import
    from ktdeval.harness.chat_messages import ModelRequest
    from ktdeval.harness.external.external_acts import Outside, RecordedActs
    from ktdeval.market.rules.calendar import Window

T = TypeVar("T")

DeciderKind = Literal[
    "rule",
    "model",
    "model_with_lookups",
    "sandboxed_program",
    "program",
    "plugin",
    "remote_agent",
    "file",
    "person",
]
"""Who decides: a rule or trained model of ktdeval's; a model behind a network, asked without search
or able to look things up; a program in a sandbox or without; a function or plugin in this process; an
agent elsewhere; a file of decisions; a person.
"""


@dataclass(frozen=True, kw_only=True)
class ModelTraits:
    """Traits that a model may declare.

    If a trait is a function, it is a method of the model. A model with such a trait therefore has a
    property `traits`, or sets `traits` in `__init__`.

    Example:
        class Echo:
            traits = ModelTraits(is_free=True)
    """

    is_free: bool = option(
        False,
        help=(
            "true if it calls no provider and costs nothing; if false for a model that is not a"
            " `RemoteModel`, it makes its own calls at an unknown cost"
        ),
    )
    draws_chance: bool = option(
        False,
        help=(
            "true if it draws random numbers, seeded by `request.chance_seed`, which is the same"
            " under every mask and key (the call's own seed is not)"
        ),
    )
    is_person: bool = option(
        False,
        help=(
            "true if a person answers: a run then takes one episode at a time on this machine,"
            " and shows no progress, because that would name days"
        ),
    )
    recorded_args: Mapping[str, JsonValue] = option(
        factory=dict,
        help=(
            "parameters that pin a file on which it depends, such as its hash; recorded with each"
            " run"
        ),
    )
    recorded_settings: Callable[[Sequence[str]], Mapping[str, Any]] | None = option(
        None,
        help=(
            "tasks → settings of the recorded run that it repeats; they replace settings that the"
            " user leaves at their defaults"
        ),
    )

    request_problem: Callable[[ModelRequest], str | None] | None = option(
        None,
        help=(
            "request of a first step → what the model needs and does not find there, or None; if"
            " something is missing, a run and `plan` refuse the task"
        ),
    )
    step_problem: Callable[[Sequence[ModelRequest]], str | None] | None = option(
        None,
        help="requests of a first step → what the model needs and does not find in any of them, or"
        " None",
    )
    needs_lessons: bool = option(
        False,
        help="true if the checked requests include those of a warm-up, from which the model learns",
    )
    window_problem: Callable[[Window], str | None] | None = option(
        None,
        help="window → reason why the model can't be evaluated on it, such as that it was trained"
        " on it, or None",
    )

    recorded_predictions: Callable[[ModelRequest], Mapping[str, float] | None] | None = option(
        None, help="first request of a step → recorded predictions by handle, or None"
    )
    recorded_vectors: Callable[[Sequence[str]], Sequence[str]] | None = option(
        None,
        help="texts → recorded vectors instead of a server's, as base64 of little-endian float32",
    )
    recorded_acts: Callable[[], RecordedActs | None] | None = option(
        None,
        help=(
            "recorded acts of an external agent in the step that is executed again; None for a"
            " model that only plans"
        ),
    )

    routing: Callable[[], Mapping[str, str]] | None = option(
        None,
        help=(
            "of a remote model: organisation, project or route that it sends, without secrets,"
            " empty before `connect`; part of the cache's key"
        ),
    )
    may_look_up: str = option(
        "",
        help=(
            "of a remote model: the part of its name or parameters that lets it look things up"
            " while it answers, such as a web search; empty if none is known"
        ),
    )
    served_context: Callable[[float], object | None] | None = option(
        None,
        help=(
            "of a remote model: seconds to wait → the `ktdeval.calls.Context` that its server"
            " states, or None"
        ),
    )
    forces_tool: Callable[[ModelRequest], bool] | None = option(
        None,
        help=(
            "of a remote model: request with a forced tool → whether what is sent forces it; if"
            " so, and the model calls none, the check before a run takes another protocol"
        ),
    )
    prompt_cache: object | None = option(
        None,
        help=(
            "of a remote model: the `ktdeval.calls.PromptCacheRules` of its provider, or None; for"
            " estimates of costs"
        ),
    )
    batches: object | None = option(
        None, help="of a remote model: the `ktdeval.calls.Batches` of its provider, or None"
    )


@dataclass(frozen=True, kw_only=True)
class AgentTraits:
    """Traits that an agent may declare.

    Example:
        class Committee:
            traits = AgentTraits(further_models=("openai/gpt-4.1",))
    """

    further_models: tuple[str, ...] = option(
        (),
        help=(
            "models that it asks besides the run's own, each once: `PROVIDER/NAME`, or"
            " `PROVIDER/NAME(option=value,…)`; `ModelRequest.model` names one by the same text"
        ),
    )
    recorded_args: Mapping[str, JsonValue] = option(
        factory=dict,
        help=(
            "parameters that pin a file on which it depends, such as its hash; recorded with each"
            " run"
        ),
    )
    registered_args: Callable[[], Mapping[str, JsonValue]] | None = option(
        None,
        help=(
            "returns parameters that a registration with a leaderboard adds to the recorded ones,"
            " such as the hash of all files that a program is shown; a registered run checks them"
        ),
    )
    acts_outside: bool = option(
        False,
        help=(
            "true if an external program decides: it is not started for a plan, and its calls"
            " can't be batched"
        ),
    )
    trial: Callable[[Outside], None] | None = option(
        None,
        help=(
            "raises an error if the external program can't be started on this machine; called"
            " once in a run, before its first call of a model"
        ),
    )
    plan_note: Callable[[], str] | None = option(
        None,
        help=(
            "note for a plan on the agent's own calls and tokens; empty if its steps cost as"
            " those of a built-in agent"
        ),
    )
    close: Callable[[], None] | None = option(
        None,
        help="releases what the agent holds; called once, after an episode's last step or failure",
    )


_MODEL = ModelTraits()
_AGENT = AgentTraits()


def model_traits(model: object) -> ModelTraits:
    """Return the traits of a model, or the defaults if it declares none. Raises PluginError if
    `traits` is not a `ModelTraits`.
    """
    return stated_traits(model, _MODEL)


def agent_traits(agent: object) -> AgentTraits:
    """Return the traits of an agent, or the defaults if it declares none. Raises PluginError if
    `traits` is not an `AgentTraits`.
    """
    return stated_traits(agent, _AGENT)


def stated_traits(instance: object, default: T) -> T:
    """Return the `traits` of an object, or the default if it declares none. Raises PluginError if
    the traits are of another class than the default.
    """
    stated = getattr(instance, "traits", default)
    if not isinstance(stated, type(default)):
        raise PluginError(
            f"{type(instance).__name__}: traits must be a {type(default).__name__}, was"
            f" {type(stated).__name__}"
        )

    return stated


def close_agent(agent: object) -> None:
    """Release an agent's resources at the end of an episode."""
    close = agent_traits(agent).close
    if close is not None:
        close()
