"""Manifest of QFinZero: tool calling and planning over price, event and broker services of one
clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values.lazy import later

if TYPE_CHECKING:
    from collections.abc import Sequence


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """The commands on the services and their data."""
    return [
        Spec(
            "serve",
            later("ktdeval_qfinzero.command:serve"),
            "Serve the QFinZero services over HTTP and the Model Context Protocol.",
            groups=("papers",),
        ),
        Spec(
            "qfinzero",
            later("ktdeval_qfinzero.command:qfinzero"),
            "Data, tools and broker logs of the QFinZero services.",
            groups=("papers",),
        ),
    ]


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    """Calling and planning, each recorded, written down or made."""
    from ktdeval.plugins.task_files import task_maker, task_specs

    make = task_maker(
        "ktdeval_qfinzero.suite.task:SuiteTask", "ktdeval_qfinzero.suite.config:SuiteConfig"
    )
    return task_specs(f"{__path__[0]}/qfinzero.yaml", make)
