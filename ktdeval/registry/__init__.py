"""Discovery, import and checks of plugins, and the registry of what they offer.

Public names are listed in `__init__.pyi`.
"""

from ktdeval.values.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
