"""Manifest of QFinZero: tool calling and planning over price, event and broker services of one clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktdeval.hookspecs import Spec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import click

    from ktdeval.contracts import ScoringTask


def _make_task(name: str, config: Mapping[str, Any], where: str) -> ScoringTask:
    from ktdeval_qfinzero.suite.config import SuiteConfig
    from ktdeval_qfinzero.suite.task import SuiteTask

    return SuiteTask(name, SuiteConfig.load(config, where))


def _make_serve() -> click.Command:
    from ktdeval_qfinzero.command import serve

    return serve


def _make_qfinzero() -> click.Command:
    from ktdeval_qfinzero.command import qfinzero

    return qfinzero


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """The commands on the services and their data."""
    return [
        Spec("serve", _make_serve, "Serve the QFinZero services over HTTP and the Model Context Protocol."),
        Spec("qfinzero", _make_qfinzero, "Data, tools and broker logs of the QFinZero services."),
    ]


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    """Calling and planning, each recorded, written down or made."""
    from ktdeval.task_files import task_specs

    return task_specs(f"{__path__[0]}/qfinzero.yaml", _make_task)
