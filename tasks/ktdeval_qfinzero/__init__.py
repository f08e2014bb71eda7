"""Manifest of QFinZero: tool calling and planning over price, event and broker services of one clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.lazy import later

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ktdeval.contracts import ScoringTask


def _make_task(name: str, config: Mapping[str, Any], where: str) -> ScoringTask:
    from ktdeval_qfinzero.suite.config import SuiteConfig
    from ktdeval_qfinzero.suite.task import SuiteTask

    return SuiteTask(name, SuiteConfig.load(config, where))


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """The commands on the services and their data."""
    return [
        Spec(
            "serve",
            later("ktdeval_qfinzero.command:serve"),
            "Serve the QFinZero services over HTTP and the Model Context Protocol.",
        ),
        Spec("qfinzero", later("ktdeval_qfinzero.command:qfinzero"), "Data, tools and broker logs of the QFinZero services."),
    ]


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    """Calling and planning, each recorded, written down or made."""
    from ktdeval.task_files import task_specs

    return task_specs(f"{__path__[0]}/qfinzero.yaml", _make_task)
