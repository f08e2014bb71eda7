"""Metric groups: one name, such as `process`, for several metrics that are requested together."""

from __future__ import annotations

from collections.abc import Iterable

from ktdeval.registry.plugin_registry import Plugins


def metric_names(plugins: Plugins, given: Iterable[str]) -> tuple[str, ...]:
    """Return metric names without duplicates, with each group replaced by its members. A name that
    is neither a metric nor a group is left unchanged.
    """
    specs = plugins.specs("metrics")
    names: dict[str, None] = {}
    for name in given:
        members = [own for own, spec in specs.items() if name in spec.groups]
        if name in specs or not members:
            members = [name]

        names.update(dict.fromkeys(members))

    return tuple(names)
