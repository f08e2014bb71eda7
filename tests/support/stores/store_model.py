"""The model of a store: a mapping of keys to bytes, which every kind of store must behave as."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from hypothesis.strategies import binary, sampled_from

from ktdeval.stores import MissingKey, Store
from support.searching import is_searching

KEYS = sampled_from(
    ["a", "a-b", "b/1", "b/2", "b-1", "b/c/1", "b/c.d/2", "é/数", "long " + "x" * 150]
)
PREFIXES = sampled_from(["", "b", "b/c", "b/", "é", "none"])


class StoreModel(RuleBasedStateMachine):
    make: Callable[[], Store]

    def __init__(self) -> None:
        super().__init__()
        self.store = type(self).make()
        self.model: dict[str, bytes] = {}

    @rule(key=KEYS, data=binary(max_size=50))
    def create(self, key: str, data: bytes) -> None:
        assert self.store.create(key, data) == (key not in self.model)
        self.model.setdefault(key, data)

    @rule(key=KEYS, data=binary(max_size=50))
    def replace(self, key: str, data: bytes) -> None:
        before = {found.key: found.version for found in self.store.list()}
        self.store.replace(key, data)
        after = {found.key: found.version for found in self.store.list()}

        assert self.model.get(key) == data or before.get(key) != after[key]

        self.model[key] = data

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        self.store.delete(key)
        self.model.pop(key, None)

    @rule(key=KEYS)
    def read(self, key: str) -> None:
        assert self.store.exists(key) == (key in self.model)

        if key in self.model:
            assert self.store.read(key) == self.model[key]
        else:
            with pytest.raises(MissingKey):
                self.store.read(key)

    @rule(prefix=PREFIXES)
    def list_folder(self, prefix: str) -> None:
        folder = f"{prefix.removesuffix('/')}/" if prefix else ""
        below = sorted(key for key in self.model if key.startswith(folder))
        assert [found.key for found in self.store.list(prefix)] == below

    @invariant()
    def all_is_listed_in_order(self) -> None:
        found = [(stat.key, stat.size) for stat in self.store.list()]
        assert found == sorted((key, len(data)) for key, data in self.model.items())


def check_store(make: Callable[[], Store], examples: int, steps: int) -> None:
    machine = type("Machine", (StoreModel,), {"make": staticmethod(make)})
    count = 100 if is_searching() else examples
    run_state_machine_as_test(
        machine, settings=settings(max_examples=count, stateful_step_count=steps)
    )
