"""The description of fields: what a kind takes, its schema, and the one error line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest
from inline_snapshot import snapshot

from ktdeval.errors import StoreError
from ktdeval.registry.contracts import CONTRACTS, contract_of
from ktdeval.testing import errors_of
from ktdeval.values import Value, build, from_plain, json_schema, option, undone_on_error


@dataclass(frozen=True)
class Inner:
    names: tuple[str, ...] = option((), help="some names")


@dataclass(frozen=True)
class Options:
    count: int = option(help="how many", minimum=1, maximum=9)
    rule: Literal["strict", "paper"] = option("strict", help="which rule")
    inner: Inner = option(Inner(), help="more")


class Stored(Value):
    count: int
    parts: tuple[Options, ...] = ()


class Whole(Value):
    stored: dict[str, Stored]


def test_errors_of_options_name_the_field_valid_values_and_a_suggestion():
    refused = errors_of(
        lambda mapping: build(Options, mapping, "here"),
        {},
        {"cuont": 1},
        {"count": "3"},
        {"count": 10},
        {"count": 1, "rule": "stict"},
        {"count": 1, "inner": {"names": [1]}},
        {"count": 1, "inner": 5},
        {"zzz": 1},
    )
    assert refused == snapshot("""\
ConfigError: here: field 'count' is missing
ConfigError: here: unknown field 'cuont'; did you mean 'count'?
ConfigError: here: count: expected an integer, was '3'
ConfigError: here: count: expected a value from 1 to 9, was 10
ConfigError: here: rule: expected one of strict, paper, was 'stict'; did you mean 'strict'?
ConfigError: here: inner: names[0]: expected a string, was 1
ConfigError: here: inner: expected a mapping of fields (names), was 5
ConfigError: here: unknown field 'zzz'; expected only these fields: count, rule, inner
""")


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"count": "3"}, "file: stored[...].count: expected `int`, was `str`"),
        ({"cuont": 3}, "file: stored[...]: unknown field 'cuont'; did you mean 'count'?"),
        ({}, "file: stored[...]: field 'count' is missing"),
    ],
)
def test_typed_files_print_their_errors_alike(value, line):
    with pytest.raises(StoreError) as caught:
        from_plain({"stored": {"a": value}}, Whole, "file")

    assert str(caught.value) == line


@pytest.mark.parametrize("kind", CONTRACTS)
def test_each_contract_declares_members_or_a_class(kind):
    contract = contract_of(kind)
    assert contract.members or contract.python is not None


def test_what_was_begun_is_undone_and_the_error_is_raised_again():
    seen = []
    with pytest.raises(KeyboardInterrupt), undone_on_error(seen.append):
        raise KeyboardInterrupt

    with undone_on_error(seen.append):
        pass

    assert len(seen) == 1


class Keyed(Value):
    by_rule: dict[Literal["strict", "paper"], int]
    by_hash: dict[Annotated[str, msgspec.Meta(pattern="^[0-9a-f]+$")], int]


def test_a_schema_has_the_pattern_of_keys_and_not_their_choices() -> None:
    """msgspec writes choices from 0.23 on: a stored schema is the same with each version."""
    schema: Any = json_schema(Keyed, "keyed", "keyed.json")
    numbers = {"type": "object", "additionalProperties": {"type": "integer"}}
    fields = schema["$defs"]["Keyed"]["properties"]
    assert fields["by_rule"] == numbers
    assert fields["by_hash"] == {**numbers, "propertyNames": {"pattern": "^[0-9a-f]+$"}}
