"""Public names for the command line. Its entry point is `ktdeval.cli.main`, and the names are
listed in `__init__.pyi`.
"""

from ktdeval.values.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
