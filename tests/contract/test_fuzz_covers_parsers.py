"""Every module that parses untrusted bytes is fuzzed, or named with the reason why it is not."""

from __future__ import annotations

import re
from itertools import chain

import pytest
import yaml

from support.fuzzing.fuzz_kit import Parser, outcome
from support.fuzzing.fuzz_parsers import parsers
from support.paths import REPOSITORY
from support.source_trees import SOURCES, parts_of

pytestmark = pytest.mark.slow

CALLS = re.compile(
    r"\b(loads_untrusted|loads_strict|loads_unique|decode_json|load_yaml|parse_yaml|json\.loads"
    r"|msgspec\.json\.decode|read_csv|read_parquet|load_workbook|parquet_of|open_parquet"
    r"|open_unpacked|zipfile|tarfile|load_pem_\w+|decode_timestamp_response)\("
)
NAMED = yaml.safe_load((REPOSITORY / "tests/contract/test_fuzz_covers_parsers.yaml").read_text())
PARSERS = parsers()


def parsing_modules() -> set[str]:
    """Paths of modules that parse, as imported."""
    found = set()
    for path in SOURCES:
        if CALLS.search(path.read_text(encoding="utf-8")):
            found.add("/".join(parts_of(path)))

    return found


def test_each_parsing_module_is_fuzzed_or_named_with_its_reason() -> None:
    reasons = {}
    for reason, modules in NAMED.items():
        reasons |= dict.fromkeys(modules, reason)

    fuzzed = set(chain.from_iterable(parser.modules for parser in PARSERS.values()))
    found = parsing_modules()

    assert sorted(found - fuzzed - set(reasons)) == []
    assert sorted(set(reasons) - found) == []  # a reason for a module that parses nothing
    assert sorted(set(reasons) & fuzzed) == []


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
def test_seeds_and_hostile_inputs_end_in_a_value_or_a_typed_error(parser: Parser) -> None:
    hostile = (b"", b"\x00", b"\xff\xfe", b"[" * 2000, b'{"a\\ud800":1}', b"PK\x03\x04", b"PAR1")
    for data in (*parser.seeds, *hostile):
        defect = outcome(parser, data)
        assert defect is None, f"{data[:80]!r}: {defect!r}"
