"""Folders and memory behave as one model; tests/accept holds S3 to the same."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

from ktdeval.stores import LocalStore
from support.stores.store_model import check_store
from support.stores.store_places import memory_store


def test_a_folder_is_a_mapping_of_keys_to_bytes() -> None:
    with tempfile.TemporaryDirectory() as folder:
        numbers = itertools.count()
        check_store(lambda: LocalStore(Path(folder) / str(next(numbers))), examples=8, steps=12)


def test_memory_is_a_mapping_of_keys_to_bytes() -> None:
    check_store(memory_store, examples=8, steps=12)
