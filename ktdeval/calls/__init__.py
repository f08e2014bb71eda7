"""Public names of model calls: addresses, records of calls, errors of HTTP as typed errors, and
which are tried again. Listed in `__init__.pyi`.
"""

from ktdeval.values.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
