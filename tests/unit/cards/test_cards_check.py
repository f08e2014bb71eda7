"""Reading cards: every tampered or malformed one is refused on one line that names the place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from card_cases import card, changed, numbers
from ktdeval.cards.card import TradingCard, TradingFacts
from ktdeval.cards.check import load_card, parse_card, validate_card
from ktdeval.cards.compare import line_of, path_text
from ktdeval.errors import CardError
from ktdeval.jsonio import dumps_pretty

CARD = card((0, 1, 2), {1})
Path_ = tuple[str | int, ...]
DERIVED = set(TradingCard.__struct_fields__) - set(TradingFacts.__struct_fields__)


def leaves(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from leaves(item, (*path, place))
    else:
        yield path, value


def test_a_written_card_reads_back_equal(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text(dumps_pretty(CARD))
    assert load_card(tmp_path / "card.json").plain == CARD


TAMPERED: list[tuple[Path_, Any, str]] = [
    (("metrics", "sharpe", "value"), 9.5, r"recorded 9\.5, recomputed"),
    (("metrics", "sharpe", "value"), "high", "expected number or null, was string"),
    (("metrics", "sharpe", "value"), None, "field 'reason' is missing"),
    (("metrics", "sharpe", "reason"), "because", "has a reason though it has a value"),
    (("episodes", 1, "metrics", "total_return", "value"), 0.9, "total_return.*recomputed"),
    (("episodes", 0, "metrics", "brier"), ..., "'brier' must be in every episode and under metrics"),
    (("episodes", 0, "seed"), 7, "is not the hash of the episode's spec"),
    (("episodes", 0, "window"), "lang", "no window of that name; did you mean 'long'"),
    (("episodes", 0, "steps"), 4, "give 5 steps"),
    (("model", "name"), "gpt-9", "is not the hash of the episode's spec"),
    (("snapshot", "synthetic"), False, "labels"),
    (("labels",), [], "labels"),
    (("limit",), 3, "is not the hash of the episode's spec"),
    (("missing_episodes",), [], "coverage.episodes_planned"),
    (("failures", "schema"), 0, "failures.schema"),
    (("rankable", "value"), True, "rankable.value"),
    (("rankable", "reasons"), [], r"rankable.reasons\[0\]"),
    (("coverage", "steps_planned"), 10, "coverage.steps_planned"),
    (("cost", "value"), 1.0, "cost.value: recorded 1.0, recomputed 0.0"),
    (("cost", "price", "input"), 2.0, "cost.per_episode"),
    (("cost", "price", "input"), -2.0, "less than the minimum of 0"),
    (("cost", "currency"), "CNY", "expected USD, was 'CNY'"),
    (("cost", "reason"), "unknown", "has a reason though it has a value"),
    (("drift",), {"value": 0.5}, "field 'excess' is missing"),
    (("provenance", "calls"), ..., "field 'calls' is missing"),
    (("decisions", "fallback"), 1, "decisions.fallback"),
    (("task", "config", "harness", "max_tool_calls"), 99, "is not the hash of the task's config"),
    (("task", "mask"), "blind", "expected blinded or bright or date_blind or stock_blind, was 'blind'"),
    (("snapshot", "id"), "abc", r"'abc' does not have the form"),
    (("attribution", "reason"), ..., "field 'reason' is missing"),
    (("windows", 0, "first"), "2024-1-3", "does not have the form"),
    (("metrisc",), {}, "unknown field; did you mean 'metrics'"),
    (("schema_version",), 2, "expected 1, was 2"),
    (("usage",), ..., "field 'usage' is missing"),
    (("artefacts", "episodes/x/ledger.parquet"), "0", "does not have the form"),
]


@pytest.mark.parametrize(("path", "value", "message"), TAMPERED, ids=[f"{path_text(path)}={value}" for path, value, _ in TAMPERED])
def test_a_tampered_card_is_refused_with_file_line_and_field(path: Path_, value: Any, message: str) -> None:
    text = dumps_pretty(changed(CARD, path, value))
    with pytest.raises(CardError, match=message) as caught:
        parse_card(text, "card.json")
    assert str(caught.value).startswith("card.json: line ")
    assert "\n" not in str(caught.value)


def test_no_derived_number_can_be_changed_unnoticed() -> None:
    found = [path for path in numbers({name: CARD[name] for name in DERIVED}) if "range" not in path]
    assert len(found) > 50
    for path in found:
        with pytest.raises(CardError):
            validate_card(changed(CARD, path, 12345))


def test_a_number_of_another_type_is_refused_where_only_the_type_tells() -> None:
    with pytest.raises(CardError, match=r"card: episodes\[0\]\.steps: expected `int`, got `float`"):
        validate_card(changed(CARD, ("episodes", 0, "steps"), 5.0))


def test_the_line_named_is_the_line_changed() -> None:
    made = changed(CARD, ("metrics", "turnover", "value"), 1.25)
    lines = dumps_pretty(made).splitlines()
    with pytest.raises(CardError) as caught:
        parse_card(dumps_pretty(made), "card.json")
    number = int(str(caught.value).split("line ")[1].split(":")[0])
    assert lines[number - 1].strip() == '"value": 1.25'


@pytest.mark.parametrize("layout", [{"indent": 1, "sort_keys": True}, {"indent": 4}, {"separators": (",", ":")}, {"indent": "\t"}])
def test_every_value_is_found_on_its_line_whatever_the_layout(layout: dict[str, Any]) -> None:
    tricky = {"a": [1, {"b}": 'x"]'}, []], 'k"': {"": 2.5, "d": [[], [3]]}, "e": "line\nbreak", "z": {}}
    for value in (CARD, tricky):
        text = json.dumps(value, ensure_ascii=False, **layout)
        lines = text.splitlines()
        for path, leaf in leaves(value):
            assert json.dumps(leaf, ensure_ascii=False) in lines[line_of(text, path) - 1]


def test_a_path_that_ends_early_gives_the_line_of_what_is_there() -> None:
    text = '{\n "a": {\n  "b": 1\n }\n}'
    assert [line_of(text, path) for path in [(), ("a",), ("a", "b"), ("a", "c"), ("a", "b", 0), (3,)]] == [1, 2, 3, 2, 3, 1]


MALFORMED = {
    "not JSON": ("{", "line 1: is not JSON"),
    "a list": ("[]", "line 1: card: expected object, was array"),
    "NaN": ('{"a": NaN}', "NaN is no JSON number"),
    "an overflowing number": ('{"a": 1e999}', "1e999 is too large"),
    "an enormous integer": ('{"a": 1%s}' % ("0" * 400), "does not fit 64 bits"),
    "a doubled field": ('{"a": 1, "a": 2}', "field 'a' stands twice"),
    "a lone surrogate": (dumps_pretty(CARD).replace("written by hand", "\\ud800"), "is not strict JSON"),
    "deep nesting": ("[" * 200_000, "is nested too deeply"),
    "an empty file": ("", "is not JSON"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_card_is_refused_on_one_line(case: str, tmp_path: Path) -> None:
    text, message = MALFORMED[case]
    (tmp_path / "card.json").write_text(text)
    with pytest.raises(CardError, match=message) as caught:
        load_card(tmp_path / "card.json")
    assert "\n" not in str(caught.value)


def test_a_card_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name, message in {"absent.json": "No such file", ".": "Is a directory", "binary": "is not UTF-8 text at byte 0"}.items():
        with pytest.raises(CardError, match=message):
            load_card(tmp_path / name)
