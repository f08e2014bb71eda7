"""Forms of files: JSON, compact and indented, as `json` writes it, and YAML that is parsed once for many readers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import StoreError
from ktdeval.jsonio import dumps_canonical, dumps_compact, dumps_pretty, plain
from ktdeval.typed import decode_json
from ktdeval.yamlio import parse_yaml

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30))
def test_indented_json_is_that_of_the_standard_library(value: Any) -> None:
    assert dumps_pretty(value) == json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    assert plain(value) == value


SURROGATES = st.text(st.characters(categories=["Cs", "L"]), max_size=3)


@given(st.recursive(SCALARS | SURROGATES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30))
def test_compact_json_is_that_of_the_standard_library(value: Any) -> None:
    form: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False}
    assert dumps_compact(value) == json.dumps(value, **form)
    assert dumps_canonical(value) == json.dumps(value, sort_keys=True, **form)


@pytest.mark.parametrize("value", [1e-5, [1e16], {"a": 1e300}, 1e22, -0.0, 5e-324, (1, [2]), {1: 2, 10: 3}, {1e-7: 1}, 1 << 70])
def test_odd_numbers_and_keys_are_written_as_by_the_standard_library(value: Any) -> None:
    assert dumps_canonical(value) == json.dumps(value, sort_keys=True, separators=(",", ":"))
    assert dumps_compact(value) == json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": {1}}])
def test_what_is_not_json_is_refused(value: Any) -> None:
    for dumps in (dumps_pretty, dumps_canonical, dumps_compact):
        with pytest.raises((TypeError, ValueError)):
            dumps(value)


def test_each_reader_of_a_yaml_text_may_change_what_it_gets() -> None:
    text = "a: {b: [1, 2]}\n"
    first = parse_yaml(text, "one")
    first["a"]["b"].append(3)
    assert parse_yaml(text, "two") == {"a": {"b": [1, 2]}}


def test_what_is_wrong_with_a_file_begins_as_the_word_is_written() -> None:
    for text, problem in (("{x", "file: JSON is malformed"), ('"x"', "file: expected `object`")):
        with pytest.raises(StoreError, match=problem):
            decode_json(text, dict, "file")
