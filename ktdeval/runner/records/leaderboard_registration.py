"""Registration of a run with a leaderboard, and the mask key that the leaderboard draws for it.

Without a model call, anyone could try many mask keys and pick a lucky one. A leaderboard that draws
the keys itself therefore requires a registration first. The registration fixes the plan and the
system, which is everything that a submitter could choose; only then does the leaderboard draw a
random key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from ktdeval.errors import ConfigError, UsageError, os_reason
from ktdeval.harness.call_params import without_transport
from ktdeval.runner.records.registered_question import Question
from ktdeval.task_api.episode_spec import EpisodeSpec, MaskKey, Window
from ktdeval.values.disk.files import read_plain
from ktdeval.values.documents.strict_json import JsonValue, dumps_canonical
from ktdeval.values.documents.typed_json import Value, decode_json, to_plain
from ktdeval.values.hashes import content_hash
from ktdeval.values.options.config_options import user_path
from ktdeval.values.requests.secret_free_addresses import Arguments

_SHOWN = 80
_MAX_BYTES = 8_000_000

ContentHash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
IsoDay = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$(?!\n)",
        extra_json_schema={"format": "date"},
    ),
]
ShortText = Annotated[str, Meta(min_length=1, max_length=300)]


class RegisteredTask(Value, frozen=True, kw_only=True):
    """Task of a registered run."""

    name: ShortText  #: Name of the task
    version: ShortText  #: Its version
    hash: ContentHash  #: SHA-256 of its config, as on cards


class RegisteredWindow(Value, frozen=True, kw_only=True):
    """Window of a registered run."""

    name: ShortText
    first: IsoDay  #: First trading day
    last: IsoDay  #: Last trading day


class RegisteredSystem(Value, frozen=True, kw_only=True):
    """System of a registered run: everything that decides what is answered."""

    model: ShortText  #: full name of the model, as it will be on the card
    model_args: Arguments  #: Its parameters
    agent: ShortText  #: Name of the agent scaffold
    agent_args: Arguments  #: Its parameters
    call: Arguments  #: parameters of model calls, except those of the transport


class Registrant(Value, frozen=True, kw_only=True):
    """Person or team that registers, and later submits."""

    name: ShortText
    contact: ShortText  #: E-mail address, or https address of a profile


class Registration(Value, frozen=True, kw_only=True):
    """Registration of a run with a ktdeval leaderboard, version 1: written before its mask key is
    drawn, and never changed.
    """

    schema_version: Literal[1] = 1
    board: ShortText  #: Short name of the board
    division: ShortText  #: division of the future card
    task: RegisteredTask
    snapshot: ContentHash  #: Id of the market
    windows: Annotated[tuple[RegisteredWindow, ...], Meta(min_length=1, max_length=1000)]
    #: seeds; each draws its own handles
    seeds: Annotated[tuple[int, ...], Meta(min_length=1, max_length=10_000)]
    rules: Literal["strict", "paper"]  #: Rule set of the metrics
    system: RegisteredSystem
    submitter: Registrant
    registered_on: IsoDay
    #: what the run is to answer, by which test and at which looks; absent: no question was
    #: registered
    question: Question | UnsetType = UNSET

    @property
    def id(self) -> str:
        """SHA-256 of the contents in canonical JSON. It does not depend on the file's layout, so
        registrations with equal contents have the same id.
        """
        return content_hash(to_plain(self))


class DrawnKey(Value, frozen=True, kw_only=True):
    """Mask key that a ktdeval leaderboard drew for a registration, version 1; only the board writes
    it.
    """

    schema_version: Literal[1] = 1
    id: ContentHash  #: Id of the registration
    #: The registration itself, so that this file is all that a run needs
    registration: Registration
    mask_key: MaskKey  #: Key of the run; each window and seed draws its own handles from it
    drawn_on: IsoDay
    #: public key (64 hexadecimal digits) whose signature on the registration the board verified
    #: when it drew the key; null: unsigned
    signed_by: ContentHash | None = None


def load_drawn_key(path: str) -> DrawnKey:
    """Read a registration with its drawn key.

    Raises ConfigError if the file can't be read, has no key yet, or does not match its id.
    """
    where = f"--registration {path}"
    try:
        data = read_plain(user_path(path), _MAX_BYTES)
    except OSError as error:
        reason = os_reason(error, "give the board's keys/ID.json")
        raise ConfigError(f"{where}: can't read: {reason}") from error

    if b'"mask_key"' not in data and b'"submitter"' in data:
        raise ConfigError(
            f"{where}: has no key yet; wait until the board draws one, then give its keys/ID.json"
        )

    drawn = decode_json(data, DrawnKey, where, ConfigError)
    if drawn.registration.id != drawn.id:
        raise ConfigError(
            f"{where}: id: does not match the content of the registration; download the file from"
            " the board again"
        )

    return drawn


def registered_options(drawn: DrawnKey) -> dict[str, Any]:
    """Return the run options that a registration fixes, keyed by field of `RunConfig`."""
    registration = drawn.registration
    system = drawn.registration.system
    seeds = sorted(registration.seeds)

    return {
        "model": system.model,
        "model_args": dict(system.model_args),
        "agent": system.agent,
        "agent_args": dict(system.agent_args),
        "tasks": (registration.task.name,),
        "windows": tuple(window.name for window in registration.windows),
        "seed": seeds[0],
        "seeds": len(seeds),
        "rules": registration.rules,
        **system.call,
    }


def registered_call(call: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the call parameters that a registration fixes, which exclude transport parameters."""
    return without_transport(call)


def check_registered(specs: Sequence[EpisodeSpec], drawn: DrawnKey) -> None:
    """Raise UsageError, naming the first difference, if a plan differs from the registered plan."""
    for field, (registered, planned) in _plan_facts(specs, drawn.registration).items():
        if dumps_canonical(to_plain(registered)) != dumps_canonical(to_plain(planned)):
            raise UsageError(
                f"--registration: {field}: registered {_shown_value(registered)}, this run has"
                f" {_shown_value(planned)}; run what is registered, or omit --registration (then"
                " the run is not ranked)"
            )


def _plan_facts(
    specs: Sequence[EpisodeSpec], registration: Registration
) -> dict[str, tuple[Any, Any]]:
    """Return, for each field, the registered and the planned value."""
    task = registration.task
    system = registration.system
    registered_windows = [_window_words(window) for window in registration.windows]
    planned_windows = {_window_words(spec.window) for spec in specs}
    planned_seeds = {spec.seed for spec in specs}

    return {
        "task": (task.name, _shared_value(specs, "task")),
        "task version": (task.version, _shared_value(specs, "task_version")),
        "task config": (task.hash, _shared_value(specs, "task_hash")),
        "snapshot": (registration.snapshot, _shared_value(specs, "snapshot")),
        "model": (system.model, _shared_value(specs, "model")),
        "model_args": (system.model_args, _shared_value(specs, "model_args")),
        "agent": (system.agent, _shared_value(specs, "agent")),
        "agent_args": (system.agent_args, _shared_value(specs, "agent_args")),
        **_call_facts(system.call, specs),
        "windows": (sorted(registered_windows), sorted(planned_windows)),
        "seeds": (sorted(registration.seeds), sorted(planned_seeds)),
        "limit": (None, _shared_value(specs, "limit")),
    }


def _call_facts(
    registered: Mapping[str, Any], specs: Sequence[EpisodeSpec]
) -> dict[str, tuple[Any, Any]]:
    """Return, for each call parameter, the registered and the planned value."""
    planned = registered_call(specs[0].call)
    names = sorted({*registered, *planned})
    return {name: (registered.get(name), planned.get(name)) for name in names}


def _window_words(window: Window | RegisteredWindow | None) -> str:
    """Return a window's name and days as a string."""
    if window is None:
        return "none"
    return f"{window.name} {window.first}…{window.last}"


def _shared_value(specs: Sequence[EpisodeSpec], field: str) -> Any:
    """Return a field's value if all episodes share it, or else the list of distinct values."""
    distinct: dict[str, Any] = {}
    for spec in specs:
        value = getattr(spec, field)
        distinct[dumps_canonical(to_plain(value))] = value  # values may be unhashable

    values = list(distinct.values())
    return values[0] if len(values) == 1 else values


def _shown_value(value: Any) -> str:
    """Return a value as a string that is short enough for a message."""
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    if not isinstance(value, str):
        value = dumps_canonical(to_plain(value))
    if len(value) > _SHOWN:
        value = f"{value[:_SHOWN]}…"

    return str(value)
