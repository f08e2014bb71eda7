"""Execution backends: they run episodes that are independent of each other and report how each ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ktdeval.contracts.spec import EpisodeSpec


@dataclass(frozen=True, slots=True)
class EpisodeOutcome:
    """How one episode ended: complete (`error` None), or the one-line reason why it is not."""

    spec: EpisodeSpec
    error: str | None = None


class Runner(Protocol):
    """An execution backend. Whichever backend ran it, the records are the same."""

    def run(
        self, specs: Sequence[EpisodeSpec], execute: Callable[[EpisodeSpec], EpisodeOutcome], concurrency: int
    ) -> list[EpisodeOutcome]:
        """Run every spec once and return the outcomes in the order of `specs`. `execute` never raises for a failed episode; it
        raises for an interrupt, which the backend passes on.
        """
