"""Contracts between plugins and the suite that concern tasks: specs, configs, samples, task files
and backends.

Public names are listed in `__init__.pyi`.
"""

from ktdeval.values.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(__name__, __file__)
