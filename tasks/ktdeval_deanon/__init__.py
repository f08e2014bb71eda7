"""Manifest of the de-anonymization probes: how much of a masked payload an attacker can name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.lazy import later

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ktdeval.contracts import ScoringTask


def _make_task(name: str, config: Mapping[str, Any], where: str) -> ScoringTask:
    from ktdeval_deanon.samples import DeanonConfig
    from ktdeval_deanon.task import DeanonTask

    return DeanonTask(name, DeanonConfig.load(config, where))


@hookimpl
def ktdeval_cards() -> Sequence[Spec]:
    """Certificate of a mask."""
    summary = "What attackers recovered of masked payloads, and what that bounds."
    return [Spec("certificate", later("ktdeval_deanon.certificate.show:CERTIFICATE"), summary)]


@hookimpl
def ktdeval_commands() -> Sequence[Spec]:
    """Command that makes and verifies certificates."""
    summary = "Certify a mask: attack what it shows, and bound what is recovered."
    return [Spec("certify", later("ktdeval_deanon.certificate.command:certify"), summary)]


@hookimpl
def ktdeval_tasks() -> Sequence[Spec]:
    """Four probes, one for each mask."""
    from ktdeval.task_files import task_specs

    return task_specs(f"{__path__[0]}/deanon.yaml", _make_task)
