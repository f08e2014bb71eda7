"""Optional parts of models: what a `Model` may have, and the suite uses where it is there.

A model has a part by having its member; it need not name the Protocol. `isinstance` tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ktdeval.harness.messages import ModelRequest
from ktdeval.values.jsonio import JsonValue


@runtime_checkable
class CallsNobody(Protocol):
    """Model that says whether its calls are free. A model without this part that is no
    `RemoteModel` makes calls of its own, at a cost that is not known.
    """

    is_free: bool  #: True where it calls no provider


@runtime_checkable
class DrawsChance(Protocol):
    """Model of this process that may draw by chance: from `request.chance_seed`, so that it does
    the same under every mask and key. Any other has the call's own seed, which differs between
    them.
    """

    draws_chance: bool


@runtime_checkable
class PinsArguments(Protocol):
    """Model or agent that depends on a file."""

    #: further parameters that pin the file, such as its hash; recorded with each run
    recorded_args: Mapping[str, JsonValue]


@runtime_checkable
class PresetsRun(Protocol):
    """Model that repeats a recorded run."""

    def recorded_settings(self, tasks: Sequence[str]) -> Mapping[str, Any]:
        """Return settings of a run of these tasks, for those that the user leaves at their
        defaults.
        """


@runtime_checkable
class ChecksRequests(Protocol):
    """Model that can't act on what every task asks and shows."""

    def request_problem(self, request: ModelRequest) -> str | None:
        """Return what it lacks in a request of a first step; None where it can act. A run and
        `plan` then refuse the task before its first step.
        """


@runtime_checkable
class ChecksFirstStep(Protocol):
    """Model that can't act in every task; all requests of a first step show whether it can."""

    def step_problem(self, requests: Sequence[ModelRequest]) -> str | None:
        """Return what it lacks; None where it can act."""


@runtime_checkable
class NeedsLessons(Protocol):
    """Model that says whether it learns from a warm-up: the requests of its first step, as checked
    before a run, then include those of the warm-up.
    """

    needs_lessons: bool


@runtime_checkable
class RecallsPredictions(Protocol):
    """Model that gives recorded predictions instead of new ones."""

    def recorded_predictions(self, first: ModelRequest) -> Mapping[str, float] | None:
        """Return them by handle, given the first request of a step; None where there are none."""


@runtime_checkable
class RecallsVectors(Protocol):
    """Model that gives recorded vectors of texts instead of asking a server."""

    def recorded_vectors(self, texts: Sequence[str]) -> Sequence[str]:
        """Return the vector of each text, as base64 of little-endian float32."""


@runtime_checkable
class SendsRouting(Protocol):
    """Remote model that sends an organisation, a project or the route to take."""

    def routing(self) -> Mapping[str, str]:
        """Return these by name, without secrets, empty before `connect`; they are part of the
        cache's key.
        """
