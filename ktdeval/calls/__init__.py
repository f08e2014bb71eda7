"""Public names for model calls: addresses, call records, HTTP errors as typed errors, and retries.
Listed in `__init__.pyi`.
"""

from ktdeval.values.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
