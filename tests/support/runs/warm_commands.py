"""Preparation of the fork server of `run_support`, once for all processes: import what commands need,
and read the task files.
"""

from __future__ import annotations

import gc
import os

import scipy.stats  # noqa: F401

from ktdeval.registry import KINDS, load_plugins

_others = os.environ.pop("PYTHONPATH", "").partition(os.pathsep)[2]
if _others:
    os.environ["PYTHONPATH"] = _others
_plugins = load_plugins()
for _kind in KINDS:
    _plugins.specs(_kind)
gc.collect()
gc.freeze()  # a collection in a child would copy the pages of all that it looks at
