"""The schemas that the services publish are the ones that models and clients were shown before.

Arguments are part of prompts, where the order of keywords counts. Of answers and of the OpenAPI
document the meaning is held: they accept and refuse the same documents as before. The order of an
answer's fields is that of its text, which models read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ktdeval.values import sha256_hex
from ktdeval_qfinzero.access.http import openapi_document
from ktdeval_qfinzero.access.server_rules import make_served_catalogue
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.operations import Operation

GOLDEN = Path(__file__).with_name("qfinzero_schemas.json")
SERVED = make_served_catalogue(catalogue())
#: Operations as tasks offer them, and as a server does
PUBLISHED = {
    **{f"task {each.name}": each for each in catalogue().operations},
    **{f"server {each.name}": each for each in SERVED.operations},
}


def hash_of(value: object) -> str:
    """Hash of a value's JSON, in the order in which it is written."""
    return sha256_hex(json.dumps(value, ensure_ascii=False))


def meaning_of(schema: Any) -> Any:
    """Schema with its keys, required fields, types and choices sorted, none of which means more
    than the set of them.
    """
    if isinstance(schema, Mapping):
        sorted_items = {}
        for name in sorted(schema):
            value = meaning_of(schema[name])
            if name in ("required", "enum", "type") and isinstance(value, list):
                value = sorted(value)

            sorted_items[name] = value

        return sorted_items

    if isinstance(schema, list):
        return [meaning_of(each) for each in schema]

    return schema


def hashes_of(operation: Operation) -> dict[str, str]:
    return {
        "summary": hash_of(operation.summary),
        "arguments": hash_of(operation.parameters),
        "answer": hash_of(meaning_of(operation.result)),
        "fields": hash_of(
            ["as_of_ts", *(field.encode_name for field in structs.fields(operation.gives))]
        ),
    }


def openapi_hash() -> str:
    """Hash of the server's document, without the version of ktdeval in it."""
    document = openapi_document(SERVED, is_guarded=True)
    del document["info"]["version"]
    return hash_of(meaning_of(document))


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ({"required": ["b", "a"], "enum": ["y", "x"], "type": ["null", "string"]}, True),
        ({"enum": ["x", "y"], "type": ["string", "null"], "required": ["a", "b"]}, True),
        ({"type": ["string", "null"], "enum": ["x", "y"], "required": ["a"]}, False),
        ({"type": "string", "enum": ["x", "y"], "required": ["a", "b"]}, False),
    ],
)
def test_the_meaning_of_a_schema_is_without_its_orders(
    other: dict[str, Any], is_same: bool
) -> None:
    schema = {"type": ["string", "null"], "enum": ["x", "y"], "required": ["a", "b"]}
    assert (hash_of(meaning_of(schema)) == hash_of(meaning_of(other))) is is_same


def recorded() -> dict[str, dict[str, str]]:
    return dict(json.loads(GOLDEN.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_operation_publishes_the_schemas_that_are_recorded(name: str) -> None:
    assert hashes_of(PUBLISHED[name]) == recorded()[name]


def test_the_openapi_document_is_the_recorded_one() -> None:
    assert openapi_hash() == recorded()["openapi"]["document"]


def test_every_recorded_operation_is_published() -> None:
    assert set(recorded()) == {*PUBLISHED, "openapi"}


if __name__ == "__main__":  # python tests/oracle/test_qfinzero_schemas.py, after a meant change
    hashes = {name: hashes_of(operation) for name, operation in PUBLISHED.items()}
    hashes["openapi"] = {"document": openapi_hash()}
    GOLDEN.write_text(json.dumps(hashes, indent=1) + "\n")
