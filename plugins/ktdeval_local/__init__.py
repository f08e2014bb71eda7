"""Manifest of the local backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.api import Spec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ktdeval.api import Runner


def _make_local() -> Runner:
    from ktdeval_local.threads import ThreadRunner

    return ThreadRunner()


@hookimpl
def ktdeval_runners() -> Sequence[Spec]:
    """The backend of this machine."""
    return [Spec("local", _make_local, "Episodes side by side on threads of this machine")]
