"""The `compare rationale` command, which counts what models mention in their reasons. Also the
metrics in the group `process`, which judge the figures, comparisons and views in reasons by what
was shown.
"""

from __future__ import annotations

from dataclasses import replace

from ktdeval.hookspecs import Spec, hookimpl
from ktdeval.values import later


@hookimpl
def ktdeval_commands() -> list[Spec]:
    """Return the command."""
    summary = (
        "Count what models mention in their reasons, by mask, and how hiding identities changes it."
    )
    command = later("ktdeval_rationale.command:rationale")
    return [Spec("compare rationale", command, summary)]


@hookimpl
def ktdeval_metrics() -> list[Spec]:
    """Return the metrics in the group `process`, which tasks do not include by default."""
    from ktdeval.registry import metric_specs

    figure = "ktdeval_rationale.claims.process_metrics:figure"
    specs = metric_specs(f"{__path__[0]}/process.csv", figure)
    return [replace(spec, groups=("process",)) for spec in specs]
