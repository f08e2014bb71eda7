"""Versions of the files that ktdeval writes: how another one is refused."""

from __future__ import annotations

import pytest

import ktdeval
from ktdeval.errors import CardError, StoreError
from ktdeval.values.documents.format_versions import (
    check_stated,
    check_version,
    format_version,
    formats,
)

OWN = f"ktdeval {ktdeval.__version__} can't read it"


@pytest.mark.parametrize("name", formats())
def test_each_format_is_read_in_the_version_in_which_it_is_written(name: str) -> None:
    check_version(name, format_version(name), "file", "advice")
    versions = formats()[name]
    numbers = [each.version for each in versions]

    assert numbers == sorted(set(numbers))
    assert versions[-1].is_read


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (1, f"here: made by a ktdeval before 0.1; {OWN}: it is version 1 of a run folder, not 2"),
        (3, f"here: made by a later ktdeval; {OWN}: it is version 3 of a run folder, not 2"),
        (None, f"here: made by another program, or an early ktdeval; {OWN}: it is version none"),
        ("2", "it is version '2' of a run folder, not 2"),
        (2.0, "it is version 2.0 of a run folder"),
        (True, "it is version True of a run folder"),
    ],
)
def test_another_version_is_refused_in_one_line_with_what_to_do(
    found: object, problem: str
) -> None:
    with pytest.raises(StoreError) as caught:
        check_version("run folder", found, "here", "do this")

    message = str(caught.value)

    assert problem in message
    assert message.endswith("; do this")
    assert "\n" not in message


@pytest.mark.parametrize("document", [None, [], {}, {"schema_version": "1"}, {"schema_version": 1}])
def test_a_document_without_a_version_is_left_to_the_check_of_its_type(document: object) -> None:
    check_stated("card", document, "here", "do this", CardError)
