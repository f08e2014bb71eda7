"""Public names of the command line, whose top is `ktdeval.cli.main`. Listed in `__init__.pyi`."""

from ktdeval.values.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
