"""Groups of metrics: one name for several that are asked for together, such as `process`."""

from __future__ import annotations

from collections.abc import Iterable

from ktdeval.registry.plugin_registry import Plugins


def metric_names(plugins: Plugins, given: Iterable[str]) -> tuple[str, ...]:
    """Return names of metrics, each once, with the members in place of each group. A name that is
    neither stays as it is.
    """
    specs = plugins.specs("metrics")
    names: dict[str, None] = {}
    for name in given:
        members = [own for own, spec in specs.items() if name in spec.groups]
        if name in specs or not members:
            members = [name]

        names.update(dict.fromkeys(members))

    return tuple(names)
