"""Public names of the runner: runs, records, rescoring and verification. They are listed in
`__init__.pyi`.
"""

from ktdeval.values.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
