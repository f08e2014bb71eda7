"""Manifest of the de-anonymization probes, which measure how much of a masked payload an attacker
can identify.
"""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later


@hookimpl
def ktdeval_cards() -> list[Spec]:
    """Return the card type for mask certificates."""
    summary = "What attackers recovered from masked payloads, and the bounds that follow."
    return [
        Spec(
            "certificate",
            later("ktdeval_deanon.certificate.certificate_tables:CERTIFICATE"),
            summary,
        )
    ]


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command that creates and verifies certificates."""
    summary = "Certify a mask: attack what it shows, and bound what models can recover."
    command = later("ktdeval_deanon.certificate.command:certify")
    return [Spec("certify", command, summary, groups=("masks",))]


@hookimpl
def ktdeval_tasks() -> list[Spec]:
    """Return four probe tasks, one for each mask."""
    from ktdeval.registry import task_maker, task_specs

    make = task_maker("ktdeval_deanon.task:DeanonTask", "ktdeval_deanon.task:DeanonConfig")
    return task_specs(f"{__path__[0]}/deanon.yaml", make)
