"""Values that pass between files and processes: how they are declared, read, written and hashed.

Public names are listed in `__init__.pyi`.
"""

from ktdeval.values.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
