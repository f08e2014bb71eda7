"""Commands for plugin authors (`plugin new` and `plugin check`), and `doctor`."""

from __future__ import annotations

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the commands."""
    return [
        Spec(
            "plugin",
            later("ktdeval_authoring.command:plugin"),
            "Write a plugin from a template (new), or call each part of one (check).",
            groups=("setup",),
        ),
        Spec(
            "doctor",
            later("ktdeval_authoring.doctor_command:doctor"),
            "Report what this installation has, what it lacks and what is broken.",
            groups=("setup",),
        ),
    ]
