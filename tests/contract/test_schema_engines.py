"""Schemas that are sent to models mean the same to every engine by which servers constrain a reply,
or a reason is stated.

What an engine does not hold stands in `test_schema_engines.yaml`, which must be true in both
directions: `make test-schemas` judges by every engine of the machine, and `PYTHONPATH=tests python
tests/support/schemas/schema_table.py --write` writes the table anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import chain
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ktdeval.harness.submissions.submission_schema import sure_check
from ktdeval.testing import not_empty
from support.paths import REPOSITORY
from support.schemas.schema_documents import breakers, followers
from support.schemas.schema_engines import AJV, ENGINES, Engine, ajv_refusals, has_ajv, installed
from support.schemas.schema_rules import (
    RULES,
    subschemas,
)
from support.schemas.schema_table import BAD, BEGIN, COLUMNS, END, GOOD, PAGE, judged, stated, table
from support.schemas.sent_schemas import sent_schemas

pytestmark = pytest.mark.slow

STATED = stated()
CELLS: Mapping[str, Mapping[str, list[str]]] = STATED["cells"]
REASONS: Mapping[str, Any] = STATED["reasons"]

ORDER = {"stock_id": "S001", "side": "BUY", "confidence": 0.5, "reason": "a long enough reason"}
BY_WEIGHT = {**ORDER, "target_weight": 0.1}
BY_SHARES = {**ORDER, "shares": 100}


def is_of_the_services(name: str) -> bool:
    return name.startswith(("upq_", "esp_", "pmb_")) or "qfinzero" in name


# --- the table


def named_families() -> set[tuple[str, str]]:
    """Columns, each with the families of differences that any of its cells names."""
    named = set()
    for column, cell in chain.from_iterable(row.items() for row in CELLS.values()):
        named |= {(column, family) for family in cell}

    return named


def test_every_schema_that_is_sent_has_a_row_and_every_row_is_of_one() -> None:
    assert list(CELLS) == list(sent_schemas())
    assert {tuple(row) for row in CELLS.values()} == {COLUMNS}


@pytest.mark.exhaustive
def test_no_agent_sends_another_schema_on_any_task() -> None:
    assert sent_schemas(is_whole=True) == sent_schemas()


def test_every_engine_takes_every_schema_and_every_good_document() -> None:
    families = named_families()
    assert not {each for each in families if each[1] in ("refused", "good", "unmeasured")}


def test_every_cell_is_ok_or_has_a_reason_and_no_reason_is_left_over() -> None:
    used = named_families()
    words = {each for each in used if each[1].startswith("word ")}
    given = set()

    for column in COLUMNS:
        given |= {(column, family) for family in REASONS[column]}

    assert used - words == given
    assert {column for column, _ in words} <= RULES.keys()
    assert REASONS["word"]


def test_the_page_shows_the_table() -> None:
    text = PAGE.read_text("utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0] == table(CELLS)


# --- engines


#: Engines that compile each schema for seconds, which make test-all waits for and CI does not
SLOW_ENGINES = ("outlines-core", "llguidance")

QUICK_FIRST = [
    pytest.param(engine, marks=[pytest.mark.exhaustive] if engine.name in SLOW_ENGINES else [])
    for engine in ENGINES
]


@pytest.mark.timeout(3600)  # some automata of outlines-core take minutes each
@pytest.mark.parametrize("engine", QUICK_FIRST, ids=lambda engine: engine.name)
@pytest.mark.parametrize(
    "of_services",
    [False, pytest.param(True, marks=pytest.mark.exhaustive)],
    ids=["trading", "services"],
)
def test_engine_accepts_good_and_refuses_bad_documents_as_documented(
    engine: Engine, of_services: bool
) -> None:
    installed(engine)
    schemas = {
        name: schema
        for name, schema in sent_schemas().items()
        if is_of_the_services(name) == of_services
    }

    assert {name: judged(engine, schema) for name, schema in schemas.items()} == {
        name: CELLS[name][engine.name] for name in schemas
    }


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_an_order_has_one_size_for_every_engine(engine: Engine) -> None:
    judge = installed(engine).compile(sent_schemas()["submit_action in whole shares"])

    def admits(*orders: Any) -> bool:
        return judge(json.dumps({"orders": orders, "overall_reason": "x"}))

    assert [admits(), admits(BY_WEIGHT), admits(BY_SHARES), admits(BY_WEIGHT, BY_SHARES)] == [
        True
    ] * 4

    both = {**BY_WEIGHT, "shares": 100}
    assert [
        admits(bad)
        for bad in (1, {}, ORDER, both, {**BY_SHARES, "side": "HOLD"}, {**BY_SHARES, "shares": "5"})
    ] == [False] * 6

    is_bounded = "range" not in CELLS["submit_action in whole shares"][engine.name]
    assert admits({**BY_WEIGHT, "confidence": 7}) != is_bounded


@pytest.mark.exhaustive
def test_schemas_have_20_good_and_40_bad_documents_or_all_that_there_are() -> None:
    good = {}
    bad = {}
    for name, schema in sent_schemas().items():
        if is_of_the_services(name):
            continue

        validator = Draft202012Validator(schema)
        documents = followers(schema, GOOD)
        broken = [each.document for each in breakers(schema, BAD)]
        assert all(map(validator.is_valid, documents))
        assert not any(map(validator.is_valid, broken))
        good[name], bad[name] = len(documents), len(broken)

    # No arguments at all, and one of two words.
    few = {"get_market_context", "submit_answer of a choice"}

    assert {name for name, count in good.items() if count < GOOD} == few
    assert {name for name, count in bad.items() if count < BAD} == few


# --- the portable subset


def test_every_schema_is_of_the_portable_subset() -> None:
    odd = []
    for name, schema in not_empty(sent_schemas().items()):
        Draft202012Validator.check_schema(schema)
        for part in subschemas(schema):
            odd += [
                (name, word)
                for word in part.keys()
                & {"oneOf", "allOf", "not", "if", "then", "else", "patternProperties"}
            ]
            properties = list(part.get("properties", ()))
            required = part.get("required", [])
            # llama.cpp writes required fields first.
            if set(properties[: len(required)]) != set(required):
                odd.append((name, "an optional field before a required one"))

            if "pattern" in part and part.keys() & {"minLength", "maxLength"}:
                odd.append((name, "a pattern and a length, of which engines read one"))

            if properties and part.get("additionalProperties") is not False:
                odd.append((name, "an open object"))

            if not part.keys() & {"type", "anyOf"}:
                odd.append((name, "no type"))

            if any(
                branch.get("type") == "object" and not branch.get("required")
                for branch in part.get("anyOf", ())
            ):
                odd.append((name, "an alternative that is no whole object"))

    assert not odd


@pytest.mark.skipif(
    not has_ajv(),
    reason="ajv is not here: run `make test-schemas`, or `npm ci` in tests/support/schemas/ajv",
)
def test_ajv_in_strict_mode_takes_every_schema() -> None:
    refused = ajv_refusals(sent_schemas())
    assert refused == {}
    assert {tuple(row[AJV]) for row in CELLS.values()} == {()}


@pytest.mark.skipif(
    not has_ajv(),
    reason="ajv is not here: run `make test-schemas`, or `npm ci` in tests/support/schemas/ajv",
)
def test_ajv_in_strict_mode_takes_every_schema_of_a_file() -> None:
    folders = ("ktdeval", "tasks", "leaderboards/practice/schemas")
    paths = list(chain.from_iterable((REPOSITORY / folder).rglob("*.json") for folder in folders))
    texts = {str(path.relative_to(REPOSITORY)): path.read_text("utf-8") for path in paths}
    schemas = {name: json.loads(text) for name, text in texts.items() if '"$schema"' in text}

    assert len(schemas) > 15
    assert ajv_refusals(schemas) == {}


# --- the rules of providers


@pytest.mark.parametrize("rule", RULES)
def test_the_table_agrees_with_the_rules_of_providers(rule: str) -> None:
    found = {name: RULES[rule](schema) for name, schema in sent_schemas().items()}
    assert found == {name: CELLS[name][rule] for name in CELLS} != {}


# --- the check that comes before jsonschema


@pytest.mark.exhaustive
def test_documents_that_follow_a_sent_schema_are_surely_valid_and_broken_ones_are_not() -> None:
    for schema in not_empty(sent_schemas().values()):
        is_sure = sure_check(schema)
        assert all(map(is_sure, followers(schema, 5)))
        assert not any(is_sure(broken.document) for broken in breakers(schema, 5))
