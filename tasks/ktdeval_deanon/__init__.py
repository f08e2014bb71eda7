"""Manifest of the de-anonymization probes: how much of a masked payload an attacker can name."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ktdeval.hookspecs import Spec, hookimpl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ktdeval.contracts import ScoringTask


def _make_task(name: str, config: Mapping[str, Any], where: str) -> ScoringTask:
    from ktdeval_deanon.samples import DeanonConfig
    from ktdeval_deanon.task import DeanonTask

    return DeanonTask(name, DeanonConfig.load(config, where))


def _load(module: str, name: str) -> Any:
    return getattr(import_module(f"ktdeval_deanon.certificate.{module}"), name)


@hookimpl
def ktdeval_cards() -> Sequence[Spec]:
    """Certificate of a mask."""
    summary = "What attackers recovered of masked payloads, and what that bounds."
    return [Spec("certificate", partial(_load, "show", "CERTIFICATE"), summary)]


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """Command that makes and verifies certificates."""
    summary = "Certify a mask: attack what it shows, and bound what is recovered."
    return [Spec("certify", partial(_load, "command", "certify"), summary)]


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    """Four probes, one for each mask."""
    from ktdeval.task_files import task_specs

    return task_specs(f"{__path__[0]}/deanon.yaml", _make_task)
