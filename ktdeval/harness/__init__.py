"""Public names of the harness: messages, tools, agents and sessions. Listed in `__init__.pyi`."""

from ktdeval.values.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
