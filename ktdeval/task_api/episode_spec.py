"""Unit of work: everything that can change an episode's outcome, with its hash as id; and the
backends that run such units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Protocol

import msgspec

from ktdeval.errors import StoreError
from ktdeval.market.rules.calendar import Window as Window
from ktdeval.values.config_options import to_mapping
from ktdeval.values.hashes import content_hash
from ktdeval.values.seeds import derive_seed
from ktdeval.values.strict_json import JsonValue

_WITHOUT_MARKET: Mapping[str, JsonValue] = {
    "snapshot": "",
    "mask": "",
    "mode": "",
    "window": {"name": "", "first": "", "last": ""},
}
"""Values of records for facts that a spec does not have; part of its id, so they never change."""

MaskKey = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
"""Secret of a run, 128 random bits in hexadecimal digits: handles, orders, noise and seeds of calls
are drawn from it.
"""


@dataclass(frozen=True)
class FurtherModel:
    """Additional model of a run, which the agent calls by name."""

    asked_as: str  #: name that the agent uses for it
    name: str  #: its full name, PROVIDER/NAME
    args: Mapping[str, JsonValue] = field(default_factory=dict)  #: its parameters
    #: how tools are offered to it; None for a local model
    tool_protocol: str | None = None


@dataclass(frozen=True)
class EpisodeSpec:
    """One agent, one window, one seed. Two specs with equal ids give identical ledgers. A task
    without a market has no `snapshot`, `mask`, `window` or `mask_key`.

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
        """Replace the empty strings of a record with None, which they represent."""
        for name in ("snapshot", "mask", "mode", "window"):
            if getattr(self, name) in ("", Window("", "", "")):
                object.__setattr__(self, name, None)

    @cached_property
    def id(self) -> str:
        """First 20 hexadecimal digits of the hash of the whole spec; also the name of the episode's
        folder.
        """
        return content_hash(self.to_json())[:20]

    @property
    def mask_seed(self) -> int:
        """Seed for handles, orders and noise, which can't be computed without the key.

        Each task has its own seed, so that the codes or dates of one task reveal no handle or order
        of another.
        """
        return self.hidden_seed("mask", bits=128)

    @property
    def call_seed(self) -> int:
        """Seed for model calls, which providers receive. Without the key, it reveals nothing about
        the window or mask.
        """
        if self.window is None:
            return self.chance_seed  # nothing is hidden, so a key is not needed
        return self.hidden_seed("calls")

    @property
    def chance_seed(self) -> int:
        """Seed for local models that draw random numbers: it is the same under every mask and key,
        so it must never be sent.
        """
        return derive_seed(self.seed, *self.ends, "calls")

    def hidden_seed(self, purpose: str, bits: int = 63) -> int:
        """Return a seed of this episode for values that are sent out: it is derived from the key,
        and different for each task and mask.
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
        """First and last day of the window; empty without a window."""
        return ("", "") if self.window is None else (self.window.first, self.window.last)

    @property
    def span(self) -> Window:
        """Window of an episode on a market. Raises StoreError if it has no window."""
        if self.window is None:
            raise StoreError(f"episode {self.id} has no window, and its task asks about a market")
        return self.window

    @property
    def window_name(self) -> str | None:
        """Name of the window; None without a window."""
        return None if self.window is None else self.window.name

    @property
    def label(self) -> str:
        """Text that identifies an episode within its run: `TASK WINDOW seed 0`."""
        return " ".join(filter(None, (self.task, self.window_name, f"seed {self.seed}")))

    def to_json(self) -> dict[str, JsonValue]:
        """Return the spec as a JSON object. `mask_key` is omitted if None, `further_models` if
        empty; other None fields become empty strings.
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
    """Outcome of one episode: complete (`error` is None), or the one-line reason for its failure."""

    spec: EpisodeSpec
    error: str | None = None
    #: True if a plugin's code is at fault: the episode will fail until the code is fixed
    is_defect: bool = False
    #: True if a budget stopped the run before the episode ended; nothing failed
    is_stopped: bool = False


class Runner(Protocol):
    """Execution backend. Records do not depend on the backend."""

    def run(
        self,
        specs: Sequence[EpisodeSpec],
        execute: Callable[[EpisodeSpec], EpisodeOutcome],
        concurrency: int,
    ) -> list[EpisodeOutcome]:
        """Run every spec once; return outcomes in the order of `specs`. `execute` raises only
        interrupts, which are passed on.
        """
