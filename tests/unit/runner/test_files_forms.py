"""Forms of files: JSON as the standard library writes it, YAML, typed values, and the committed
schemas of records.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from ktdeval.errors import StoreError
from ktdeval.runner.records.episode_journal import JournalEntry
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.schemas import schema_files
from ktdeval.values import decode_json, parse_yaml, to_plain
from ktdeval.values.documents.strict_json import (
    MAX_LEVELS,
    MAX_PARSED_LEVELS,
    JsonValue,
    dumps_canonical,
    dumps_compact,
    dumps_pretty,
    is_nested_within,
    loads_strict,
    loads_unique,
    loads_untrusted,
    plain,
)
from support.runs.run_support import MIXED_RUN, ktdeval

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)


@pytest.mark.exhaustive
@given(
    st.recursive(
        SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30
    )
)
def test_indented_json_is_that_of_the_standard_library(value: Any) -> None:
    assert (
        dumps_pretty(value)
        == json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
    )
    assert plain(value) == value


SURROGATES = st.text(st.characters(categories=["Cs", "L"]), max_size=3)


@pytest.mark.exhaustive
@given(
    st.recursive(
        SCALARS | SURROGATES,
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    )
)
def test_compact_json_is_that_of_the_standard_library(value: Any) -> None:
    form: dict[str, Any] = {"separators": (",", ":"), "ensure_ascii": False}
    assert dumps_compact(value) == json.dumps(value, **form)
    assert dumps_canonical(value) == json.dumps(value, sort_keys=True, **form)


@pytest.mark.parametrize(
    "value",
    [1e-5, [1e16], {"a": 1e300}, 1e22, -0.0, 5e-324, (1, [2]), {1: 2, 10: 3}, {1e-7: 1}, 1 << 70],
)
def test_odd_numbers_and_keys_are_written_as_by_the_standard_library(value: Any) -> None:
    assert dumps_canonical(value) == json.dumps(value, sort_keys=True, separators=(",", ":"))
    assert dumps_compact(value) == json.dumps(value, separators=(",", ":"))


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": {1}}], ids=repr)
@pytest.mark.parametrize("dumps", [dumps_pretty, dumps_canonical, dumps_compact])
def test_text_that_is_not_json_is_refused(value: Any, dumps: Callable[[Any], str]) -> None:
    with pytest.raises((TypeError, ValueError)):
        dumps(value)


BRACKETS = st.text(st.sampled_from('[]{}",\\\\a'), max_size=8)


@pytest.mark.exhaustive
@given(
    st.recursive(
        BRACKETS, lambda inner: st.lists(inner) | st.dictionaries(BRACKETS, inner), max_leaves=30
    ),
    st.integers(0, 6),
)
def test_levels_of_lists_and_objects_are_counted_outside_of_strings(
    value: Any, levels: int
) -> None:
    text = json.dumps(value)
    assert (
        is_nested_within(text, levels)
        == is_nested_within(text.encode(), levels)
        == (depth_of(value) <= levels)
    )


def depth_of(value: Any) -> int:
    inner = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    )
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ('{"orders": [{"a": [1]}, {"a": [2', 6),
        ("[" * 9, 9),
        ("[]]]]", 1),
        ('{"a": "[[[[', 1),
        ("[[]]}[", 3),
    ],
)
def test_of_text_that_was_cut_off_what_it_opens_counts_too(text: str, levels: int) -> None:
    assert [is_nested_within(text, most) for most in (levels, levels - 1)] == [True, False]


@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}")], ids=["arrays", "objects"])
def test_json_is_read_as_deep_on_every_python(begin: str, end: str) -> None:
    readers: dict[Any, int] = dict.fromkeys(
        (loads_strict, loads_unique, loads_untrusted), MAX_PARSED_LEVELS
    )
    readers[lambda text: decode_json(text, JsonValue, "here")] = MAX_LEVELS

    for reader, most in readers.items():
        reader(begin * most + "1" + end * most)
        for levels in (most + 1, 700, 5_000, 200_000):
            with pytest.raises((ValueError, StoreError), match="nested too deeply"):
                reader(begin * levels + "1" + end * levels)


def test_each_reader_of_a_yaml_text_may_change_what_it_gets() -> None:
    text = "a: {b: [1, 2]}\n"
    first = parse_yaml(text, "one")
    first["a"]["b"].append(3)
    assert parse_yaml(text, "two") == {"a": {"b": [1, 2]}}


# -- typed values, read from many threads


SCRIPT = """
import dataclasses, sys, threading
from typing import Literal
import msgspec
from ktdeval.values import decode_json, from_plain

sys.setswitchinterval(1e-6)
for number in range(80):
    inner = dataclasses.make_dataclass("Inner", [("z", int, 0), ("w", "str | None", None)])
    outer = dataclasses.make_dataclass("Outer", [("a", int, 0), ("b", tuple[inner, ...], ()), ("c", Literal["x", "y"], "x")])
    whole = msgspec.defstruct("Whole", [("outer", outer), ("more", tuple[outer, ...], ())])
    start, read_values = threading.Barrier(6), []

    def read(index, start=start, read_values=read_values, whole=whole):
        start.wait()
        value = [{"outer": {"a": index, "b": [{"z": 1}]}}]
        made = from_plain(value, list[whole], "x") if index % 2 else [decode_json(b'{"outer": {"a": %d}}' % index, whole, "x")]
        read_values.append(made[0].outer.a)

    threads = [threading.Thread(target=read, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(read_values) == [0, 1, 2, 3, 4, 5], read_values
"""


@pytest.mark.exhaustive
def test_new_classes_are_read_by_many_threads_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


# -- schemas of records


@pytest.mark.slow
def test_the_committed_schemas_match_the_types() -> None:
    files = schema_files()
    assert {path: path.read_text() for path in files} == files, (
        "run `python -m ktdeval.runner.schemas`"
    )
    assert set(next(iter(files)).parent.glob("*.json")) == set(files)


@pytest.mark.slow
def test_what_a_run_writes_follows_its_schemas(market: Path, tmp_path: Path) -> None:
    words = (*MIXED_RUN, "--limit", 3)
    assert ktdeval(*words, "--data", market, "--out", tmp_path / "run", cwd=tmp_path).code == 0

    folder = RunFolder.load(tmp_path / "run")
    (spec,) = folder.manifest.specs
    steps = folder.load_ledger(spec).steps
    transcript = folder.load_transcript(spec)
    journal = [
        JournalEntry(step=step, transcript=entry, memory=None)
        for step, entry in zip(steps, transcript, strict=True)
    ]
    records = {
        "run-manifest": [json.loads((folder.path / "manifest.json").read_text())],
        "episode-mark": [json.loads((folder.episode_path(spec) / "episode.json").read_text())],
        "step-record": to_plain(steps),
        "transcript-entry": to_plain(transcript),
        "journal-step": to_plain(journal),
    }
    schemas = {
        path.name.rpartition("-v")[0]: json.loads(text) for path, text in schema_files().items()
    }

    for name, values in records.items():
        for value in values:
            Draft202012Validator(schemas[name]).validate(value)
