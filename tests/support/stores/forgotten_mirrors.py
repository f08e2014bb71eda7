"""Forgets the opened copies of folders at URLs for a block, as a new process would."""

from functools import partial
from unittest.mock import patch

from ktdeval.stores import mirror

mirrors_forgotten = partial(patch.dict, mirror._OPEN, clear=True)
