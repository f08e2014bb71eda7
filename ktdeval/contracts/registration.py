"""Registration of a run with a leaderboard: the plan and the system, fixed before the board draws the mask key; and the drawn key.

A mask key can be tried without a model call, so whoever chooses it chooses luck. A board that governs its keys therefore takes a
registration first, which fixes everything that a submitter could choose, and answers with a key from its own randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from ktdeval.contracts.spec import EpisodeSpec, MaskKey, Window
from ktdeval.errors import ConfigError, UsageError
from ktdeval.fields import user_path
from ktdeval.jsonio import JsonValue, content_hash, dumps_canonical, read_plain
from ktdeval.typed import Value, decode_json, to_plain

TRANSPORT = ("timeout_s",)  #: Parameters of calls that can't change what a model answers, so that they are free in a run

_SHOWN = 80
_MOST_BYTES = 8_000_000

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

    model: ShortText  #: Full name of the model, as the card will say it
    model_args: dict[str, Any]  #: Its parameters
    agent: ShortText  #: Name of the agent scaffold
    agent_args: dict[str, Any]  #: Its parameters
    call: dict[str, Any]  #: Parameters of model calls, less those of the transport


class Registrant(Value, frozen=True, kw_only=True):
    """Person or team that registers, and later submits."""

    name: ShortText
    contact: ShortText  #: E-mail address, or https address of a profile


class Registration(Value, frozen=True, kw_only=True):
    """Registration of a run with a ktdeval leaderboard, version 1: written before its mask key is drawn, and never changed."""

    schema_version: Literal[1] = 1
    board: ShortText  #: Short name of the board
    division: ShortText  #: Division that the card will be of
    task: RegisteredTask
    snapshot: ContentHash  #: Id of the market
    windows: Annotated[tuple[RegisteredWindow, ...], Meta(min_length=1, max_length=1000)]
    seeds: Annotated[tuple[int, ...], Meta(min_length=1, max_length=10_000)]  #: Each draws handles of its own
    rules: Literal["strict", "paper"]  #: Rule set of the metrics
    system: RegisteredSystem
    submitter: Registrant
    registered_on: IsoDay

    @property
    def id(self) -> str:
        """SHA-256 of its content in canonical JSON, whatever the form of the file: equal content is one registration."""
        return content_hash(to_plain(self))


class DrawnKey(Value, frozen=True, kw_only=True):
    """Mask key that a ktdeval leaderboard drew for a registration, version 1; written by the board alone."""

    schema_version: Literal[1] = 1
    id: ContentHash  #: Id of the registration
    registration: Registration  #: The registration itself, so that this file is all that a run needs
    mask_key: MaskKey  #: Key of the run; each window and seed draws its own handles from it
    drawn_on: IsoDay


def load_drawn_key(path: str) -> DrawnKey:
    """Read an answered registration.

    Raises ConfigError: it can't be read, is not answered yet, or is not what its id says.
    """
    where = f"--registration {path}"
    try:
        data = read_plain(user_path(path), _MOST_BYTES)
    except OSError as error:
        raise ConfigError(f"{where}: can't read: {error.strerror or error}; name keys/ID.json of the board") from error
    if b'"mask_key"' not in data and b'"submitter"' in data:
        raise ConfigError(f"{where}: has no key yet; wait for the board to draw one, and name its keys/ID.json")
    drawn = decode_json(data, DrawnKey, where, ConfigError)
    if drawn.registration.id != drawn.id:
        raise ConfigError(f"{where}: id: the registration in it has another content; take the file from the board again")
    return drawn


def registered_options(drawn: DrawnKey) -> dict[str, Any]:
    """Return the options of a run that a registration fixes, by the names of `RunConfig`."""
    registration, system = drawn.registration, drawn.registration.system
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
    """Return the parameters of calls that a registration fixes."""
    return {name: value for name, value in call.items() if name not in TRANSPORT}


def check_registered(specs: Sequence[EpisodeSpec], drawn: DrawnKey) -> None:
    """Raise UsageError where a plan is not the registered one; names the first field that differs."""
    for field, (registered, planned) in _plan_facts(specs, drawn.registration).items():
        if dumps_canonical(to_plain(registered)) != dumps_canonical(to_plain(planned)):
            raise UsageError(
                f"--registration: {field}: registered {_words(registered)}, this run has {_words(planned)}; "
                "run what is registered, or leave --registration out for a run that is not ranked"
            )


def _plan_facts(specs: Sequence[EpisodeSpec], registration: Registration) -> dict[str, tuple[Any, Any]]:
    """Return what was registered and what is planned, by field."""
    task, system = registration.task, registration.system
    windows = [f"{window.name} {window.first}…{window.last}" for window in registration.windows]
    return {
        "task": (task.name, _one(spec.task for spec in specs)),
        "task version": (task.version, _one(spec.task_version for spec in specs)),
        "task config": (task.hash, _one(spec.task_hash for spec in specs)),
        "snapshot": (registration.snapshot, _one(spec.snapshot for spec in specs)),
        "model": (system.model, _one(spec.model for spec in specs)),
        "model_args": (system.model_args, _one(spec.model_args for spec in specs)),
        "agent": (system.agent, _one(spec.agent for spec in specs)),
        "agent_args": (system.agent_args, _one(spec.agent_args for spec in specs)),
        **_call_facts(system.call, specs),
        "windows": (sorted(windows), sorted({_window_words(spec.window) for spec in specs})),
        "seeds": (sorted(registration.seeds), sorted({spec.seed for spec in specs})),
        "limit": (None, _one(spec.limit for spec in specs)),
    }


def _call_facts(registered: Mapping[str, Any], specs: Sequence[EpisodeSpec]) -> dict[str, tuple[Any, Any]]:
    planned = registered_call(specs[0].call)
    names = sorted({*registered, *planned})
    return {name: (registered.get(name), planned.get(name)) for name in names}


def _window_words(window: Window | None) -> str:
    return "none" if window is None else f"{window.name} {window.first}…{window.last}"


def _one(values: Iterator[Any]) -> Any:
    """Return the value that all episodes of a plan share, or all their values where they do not."""
    distinct = {dumps_canonical(to_plain(value)): value for value in values}
    return next(iter(distinct.values())) if len(distinct) == 1 else list(distinct.values())


def _words(value: Any) -> str:
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    text = value if isinstance(value, str) else dumps_canonical(to_plain(value))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
