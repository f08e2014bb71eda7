"""The schemas that the services publish are the ones that models and clients were shown before:
recorded runs name their hashes, and the order of keywords is part of a prompt.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktdeval.values.jsonio import sha256_hex
from ktdeval_qfinzero.access.http import openapi_document
from ktdeval_qfinzero.access.served_market import served
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.operations import Operation

GOLDEN = Path(__file__).with_name("qfinzero_schemas.json")
SERVED = served(catalogue())
#: Operations as tasks offer them, and as a server does
PUBLISHED = {
    **{f"task {each.name}": each for each in catalogue().operations},
    **{f"server {each.name}": each for each in SERVED.operations},
}


def hash_of(value: object) -> str:
    """Hash of a value's JSON, in the order in which it is written."""
    return sha256_hex(json.dumps(value, ensure_ascii=False))


def hashes_of(operation: Operation) -> dict[str, str]:
    return {
        "summary": hash_of(operation.summary),
        "arguments": hash_of(operation.parameters),
        "answer": hash_of(operation.result),
    }


def openapi_hash() -> str:
    """Hash of the server's document, without the version of ktdeval in it."""
    document = openapi_document(SERVED, is_guarded=True)
    del document["info"]["version"]
    return hash_of(document)


def recorded() -> dict[str, dict[str, str]]:
    return dict(json.loads(GOLDEN.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", PUBLISHED)
def test_an_operation_publishes_the_schemas_that_are_recorded(name: str) -> None:
    assert hashes_of(PUBLISHED[name]) == recorded()[name]


def test_the_openapi_document_is_the_recorded_one() -> None:
    assert openapi_hash() == recorded()["openapi"]["document"]


def test_every_recorded_operation_is_published() -> None:
    assert set(recorded()) == {*PUBLISHED, "openapi"}


if __name__ == "__main__":  # python tests/golden/test_qfinzero_schemas.py, after a meant change
    hashes = {name: hashes_of(operation) for name, operation in PUBLISHED.items()}
    hashes["openapi"] = {"document": openapi_hash()}
    GOLDEN.write_text(json.dumps(hashes, indent=1) + "\n")
