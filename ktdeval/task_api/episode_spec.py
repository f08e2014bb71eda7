"""Episode spec: everything that can change an episode's outcome, with a hash as its id. Also the
interface of backends that run episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Protocol

import msgspec

from ktdeval.errors import StoreError
from ktdeval.harness.call_params import without_transport
from ktdeval.market.rules.calendar import Window as Window
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.hashes import content_hash
from ktdeval.values.options.config_options import to_mapping
from ktdeval.values.seeds import derive_seed

_WITHOUT_MARKET: Mapping[str, JsonValue] = {
    "snapshot": "",
    "mask": "",
    "mode": "",
    "window": {"name": "", "first": "", "last": ""},
}
"""Recorded values of facts that a spec does not have. They are part of its id, so they must never
change.
"""

MaskKey = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
"""Secret of a run: 128 random bits in hexadecimal digits, from which handles, orders, noise and the
seeds of calls are derived.
"""


@dataclass(frozen=True)
class FurtherModel:
    """Additional model of a run, which the agent calls by name."""

    asked_as: str  #: name that the agent uses for the model
    name: str  #: full name of the model, PROVIDER/NAME
    args: Mapping[str, JsonValue] = field(default_factory=dict)  #: parameters of the model
    #: how tools are offered to the model; None for a local model
    tool_protocol: str | None = None


@dataclass(frozen=True)
class EpisodeSpec:
    """Spec of an episode: one agent, one window, one seed. Two specs with equal ids give identical
    ledgers.

    Without a market, `snapshot`, `mask`, `window` and `mask_key` are None.

    Example:
        random.Random(spec.hidden_seed("samples")).sample(range(100), 10)
    """

    task: str
    task_version: str
    task_hash: str
    snapshot: str | None
    mask: str | None
    mode: str | None
    window: Window | None
    model: str
    model_args: Mapping[str, JsonValue]
    agent: str
    agent_args: Mapping[str, JsonValue]
    call: Mapping[str, JsonValue] = field(default_factory=dict)
    seed: int = 0
    limit: int | None = None
    mask_key: MaskKey | None = None
    further_models: tuple[FurtherModel, ...] = ()

    def __post_init__(self) -> None:
        """Replace the empty strings in a record with None, which they represent."""
        for name in ("snapshot", "mask", "mode", "window"):
            if getattr(self, name) in ("", Window("", "", "")):
                object.__setattr__(self, name, None)

    @cached_property
    def id(self) -> str:
        """First 20 hexadecimal digits of the spec's hash. The id is also the name of the episode's
        folder.
        """
        return content_hash(self.to_json())[:20]

    @cached_property
    def identity(self) -> str:
        """Id of the spec without parameters of the transport, which no answer depends on. Earlier
        versions recorded them, so that their ids depend on them.
        """
        return replace(self, call=without_transport(self.call)).id

    @property
    def mask_seed(self) -> int:
        """Seed for handles, orders and noise. It can't be computed without the mask key.

        Each task has its own seed, so that codes or dates revealed in one task do not reveal the
        handles or orders of another.
        """
        return self.hidden_seed("mask", bits=128)

    @property
    def call_seed(self) -> int:
        """Seed for model calls, which is sent to providers. Without the mask key, it reveals
        nothing about the window or the mask.
        """
        if self.window is None:
            return self.chance_seed  # nothing is hidden, so no key is needed
        return self.hidden_seed("calls")

    @property
    def chance_seed(self) -> int:
        """Seed for local models that draw random numbers. It is the same under every mask and mask
        key, so it must never be sent to a provider.
        """
        return derive_seed(self.seed, *self.ends, "calls")

    def hidden_seed(self, purpose: str, bits: int = 63) -> int:
        """Return a seed of this episode that may be used for values that are sent out. It is
        derived from the mask key, and differs between tasks and masks.
        """
        return derive_seed(
            self.mask_key or "",
            self.seed,
            *self.ends,
            self.task,
            self.mask or "",
            purpose,
            bits=bits,
        )

    @property
    def ends(self) -> tuple[str, str]:
        """First and last day of the window; empty strings without a window."""
        return ("", "") if self.window is None else (self.window.first, self.window.last)

    @property
    def span(self) -> Window:
        """Window of an episode on a market. Raises StoreError if the episode has no window."""
        if self.window is None:
            raise StoreError(f"episode {self.id} has no window, and its task asks about a market")
        return self.window

    @property
    def window_name(self) -> str | None:
        """Name of the window; None without a window."""
        return None if self.window is None else self.window.name

    @property
    def label(self) -> str:
        """Label that identifies the episode within its run, such as `TASK WINDOW seed 0`."""
        return " ".join(filter(None, (self.task, self.window_name, f"seed {self.seed}")))

    def to_json(self) -> dict[str, JsonValue]:
        """Return the spec as a JSON object.

        `mask_key` is left out if it is None, and `further_models` if it is empty. Other fields that
        are None become empty strings.
        """
        omitted: dict[str, JsonValue] = {"mask_key": None, "further_models": []}
        facts = {}
        for name, value in to_mapping(self).items():
            if name not in omitted or value != omitted[name]:
                facts[name] = value

        return {
            name: _WITHOUT_MARKET.get(name) if value is None else value
            for name, value in facts.items()
        }


@dataclass(frozen=True, slots=True)
class EpisodeOutcome:
    """Outcome of one episode. It is complete if `error` is None; otherwise, `error` is the reason
    for its failure in one line.
    """

    spec: EpisodeSpec
    error: str | None = None
    #: True if a plugin's code is at fault, so that the episode fails until the code is fixed
    is_defect: bool = False
    #: True if a budget stopped the run before the episode ended, although nothing failed
    is_stopped: bool = False


class Runner(Protocol):
    """Execution backend. A run's records do not depend on its backend."""

    def run(
        self,
        specs: Sequence[EpisodeSpec],
        execute: Callable[[EpisodeSpec], EpisodeOutcome],
        concurrency: int,
    ) -> list[EpisodeOutcome]:
        """Run every spec once, and return the outcomes in the order of `specs`.

        `execute` raises nothing but interrupts, which must be passed on.
        """
