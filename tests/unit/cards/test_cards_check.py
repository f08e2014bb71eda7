"""Reading and comparing cards: every tampered or malformed one is refused on one line that names
the place.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.cards.card import ScoringCard, TradingCard
from ktdeval.cards.card_reading import load_card, parse_card, validate_card
from ktdeval.cards.fields.origin.recorded_facts import ScoringFacts, TradingFacts
from ktdeval.cards.json_paths import line_of
from ktdeval.cards.recomputation_diff import card_difference, first_difference, steps_difference
from ktdeval.errors import CardError
from ktdeval.testing import on_each_row
from ktdeval.trading.ledger import StepRecord
from ktdeval.values import dumps_pretty, from_plain, to_plain
from support.figures.card_cases import PRICE, PROVENANCE, card, episode, paid
from support.figures.metric_cases import spec
from support.figures.scoring_cases import scoring_card
from support.json_places import leaves, with_value

Path_ = tuple[str | int, ...]
CARD = card((0, 1, 2), {1})
SCORES = scoring_card((0, 1, 2), {1}, **paid(price=PRICE | {"cache_read": None}))
KNOWN = card(
    (0,),
    knowledge_cutoff={"date": "2024-01-06", "confidence": "given", "source": "--knowledge-cutoff"},
)


@on_each_row(
    "made, path, value, message",
    ("trading", ["metrics", "sharpe", "value"], 9.5, "recorded 9\\.5, recomputed"),
    ("trading", ["metrics", "sharpe", "value"], "high", "expected number or null, was string"),
    ("trading", ["metrics", "sharpe", "value"], None, "field 'reason' is missing"),
    ("trading", ["metrics", "sharpe", "reason"], "because", "has a reason though it has a value"),
    (
        "trading",
        ["episodes", 1, "metrics", "total_return", "value"],
        0.9,
        "total_return.*recomputed",
    ),
    (
        "trading",
        ["episodes", 0, "metrics", "max_drawdown", "value"],
        1.5,
        "metrics\\.max_drawdown\\.value: 1\\.5 lies outside its range 0\\.0 … 1\\.0",
    ),
    (
        "trading",
        ["episodes", 0, "metrics", "total_return", "value"],
        -1.01,
        "lies outside its range -1\\.0 … inf",
    ),
    (
        "trading",
        ["metrics", "total_return", "range"],
        [0.5, 1.0],
        "lies outside its range 0\\.5 … 1\\.0",
    ),
    (
        "trading",
        ["episodes", 0, "metrics", "brier"],
        "(removed)",
        "'brier' must be in every episode and under metrics",
    ),
    ("trading", ["episodes", 0, "seed"], 7, "is not the hash of the episode's spec"),
    ("trading", ["episodes", 0, "window"], "lang", "no window of that name; did you mean 'long'"),
    ("trading", ["episodes", 0, "steps"], 4, "give 5 steps"),
    (
        "trading",
        ["episodes", 0, "final_nav_minor"],
        "(removed)",
        "field 'final_nav_minor' is missing",
    ),
    (
        "trading",
        ["reference", "benchmark_buy_and_hold", "long"],
        "(removed)",
        "must have exactly the windows of finished episodes",
    ),
    ("trading", ["model", "name"], "gpt-9", "is not the hash of the episode's spec"),
    ("trading", ["snapshot", "synthetic"], False, "labels"),
    ("trading", ["labels"], [], "labels"),
    ("trading", ["limit"], 3, "is not the hash of the episode's spec"),
    (
        "trading",
        ["missing_episodes"],
        [],
        "seeds. seed 1 of window long is neither finished nor missing",
    ),
    ("trading", ["seeds"], [0, 2], "seeds. must be consecutive numbers"),
    ("trading", ["seeds"], [0, 1], "seeds. seed 2 of window long is not one of the seeds"),
    ("trading", ["failures", "schema"], 0, "failures.schema"),
    ("trading", ["rankable", "value"], True, "rankable.value"),
    ("trading", ["rankable", "reasons"], [], "rankable.reasons\\[0\\]"),
    ("trading", ["coverage", "steps_planned"], 10, "coverage.steps_planned"),
    ("trading", ["cost", "value"], 1.0, "cost.value: recorded 1.0, recomputed 0.0"),
    ("trading", ["cost", "price", "input"], 2.0, "cost.per_episode"),
    ("trading", ["cost", "price", "input"], -2.0, "less than the minimum of 0"),
    ("trading", ["cost", "currency"], "CNY", "expected USD, was 'CNY'"),
    ("trading", ["cost", "reason"], "unknown", "has a reason though it has a value"),
    ("trading", ["drift"], {"value": 0.5}, "field 'excess' is missing"),
    ("trading", ["provenance", "calls"], "(removed)", "field 'calls' is missing"),
    ("trading", ["decisions", "fallback"], 1, "decisions.fallback"),
    (
        "trading",
        ["task", "config", "harness", "max_tool_calls"],
        99,
        "is not the hash of the task's config",
    ),
    (
        "trading",
        ["task", "mask"],
        "blind",
        "expected blinded or bright or date_blind or stock_blind, was 'blind'",
    ),
    ("trading", ["snapshot", "id"], "abc", "'abc' does not have the form"),
    ("trading", ["attribution", "reason"], "(removed)", "field 'reason' is missing"),
    ("trading", ["windows", 0, "first"], "2024-1-3", "does not have the form"),
    ("trading", ["metrisc"], {}, "unknown field; did you mean 'metrics'"),
    ("trading", ["schema_version"], 0, "made by a ktdeval before 0.1; ktdeval"),
    ("trading", ["schema_version"], 2, "made by a later ktdeval"),
    ("trading", ["schema_version"], "1", "expected 1"),
    ("trading", ["usage"], "(removed)", "field 'usage' is missing"),
    ("trading", ["kind"], "(removed)", "field 'kind' is missing"),
    ("trading", ["artefacts", "episodes/x/ledger.parquet"], "0", "does not have the form"),
    ("scoring", ["kind"], "trading", "line"),
    ("scoring", ["kind"], "scorin", "kind: expected trading or scoring.*, was 'scorin'"),
    ("scoring", ["scores", "right_name", "value"], 0.5, "recorded 0.5, 2 successes of 38 are"),
    ("scoring", ["scores", "right_name", "value"], None, "field 'reason' is missing"),
    (
        "scoring",
        ["scores", "right_name", "value"],
        1.5,
        "value: 1.5 lies outside its range 0.0 … 1.0",
    ),
    ("scoring", ["scores", "right_name", "baseline"], -0.1, "lies outside its range"),
    (
        "scoring",
        ["scores", "right_name", "reason"],
        "because",
        "has a reason though it has a value",
    ),
    ("scoring", ["scores", "right_name", "n"], 41, "the finished episodes have 40 samples"),
    ("scoring", ["scores", "right_name", "n"], 37, "value: recorded"),
    ("scoring", ["scores", "right_name", "detail", "successes"], 3, "value: recorded"),
    ("scoring", ["scores", "right_name", "detail", "successes"], 39, "of 38 trials"),
    (
        "scoring",
        ["scores", "right_name", "detail", "upper_95"],
        0.01,
        "upper_95: recorded 0.01, 2 successes of 38 give",
    ),
    (
        "scoring",
        ["scores", "right_name", "interval", "high"],
        0.06,
        "interval.high: recorded 0.06, 2 successes of 38 give",
    ),
    ("scoring", ["scores", "right_name", "interval", "low"], 0.0, "interval.low: recorded 0.0"),
    ("scoring", ["scores", "right_name", "better"], "", "expected higher or lower or neither"),
    ("scoring", ["scores", "right_name"], "(removed)", "must name every score once"),
    ("scoring", ["score_order"], ["right_name"], "must name every score once"),
    ("scoring", ["episodes", 0, "steps"], 21, "decisions: the episode has 21 steps"),
    ("scoring", ["episodes", 0, "answered"], 20, "more answers than steps that the model decided"),
    ("scoring", ["episodes", 0, "answered"], 18, "coverage.steps_decided"),
    ("scoring", ["episodes", 0, "seed"], 7, "is not the hash of the episode's spec"),
    ("scoring", ["missing_episodes", 0, "steps"], 5, "coverage.steps_planned"),
    ("scoring", ["missing_episodes"], [], "is neither finished nor missing"),
    ("scoring", ["limit"], 3, "is not the hash of the episode's spec"),
    ("scoring", ["rankable", "value"], True, "rankable.value"),
    ("scoring", ["cost", "value"], 0.0, "cost.value"),
    ("scoring", ["cost", "return_per_usd"], {}, "unknown field"),
    (
        "scoring",
        ["subject", "hash"],
        "0000000000000000000000000000000000000000000000000000000000000000",
        "subject.hash",
    ),
    ("scoring", ["subject"], None, "subject"),
    (
        "scoring",
        ["task", "config", "subject_config", "version"],
        "2",
        "is not the hash of the task's config",
    ),
    ("scoring", ["metrics"], {}, "unknown field"),
    ("scoring", ["scorse"], {}, "unknown field; did you mean 'scores'"),
    (
        "cutoff",
        ["knowledge_cutoff", "windows", "long", "after"],
        2,
        "do not add up to the 5 days of the window",
    ),
    (
        "cutoff",
        ["knowledge_cutoff", "windows", "long"],
        "(removed)",
        "windows: are not the windows of the card",
    ),
    (
        "cutoff",
        ["knowledge_cutoff", "date"],
        "2024-01-10",
        "its days lie on other sides of 2024-01-10",
    ),
    ("cutoff", ["knowledge_cutoff", "date"], "2023-12", "its days lie on other sides of 2023-12"),
    (
        "cutoff",
        ["knowledge_cutoff", "date"],
        "2024-13",
        "knowledge_cutoff.date: '2024-13' is neither a day",
    ),
    ("cutoff", ["knowledge_cutoff", "date"], "soon", "does not have the form"),
    ("cutoff", ["knowledge_cutoff", "confidence"], "sure", "expected .*given"),
    ("cutoff", ["knowledge_cutoff", "source"], "(removed)", "field 'source' is missing"),
    ("cutoff", ["knowledge_cutoff"], "(removed)", "labels"),
    (
        "cutoff",
        ["labels"],
        ["synthetic", "mask not certified", "identifiable by its prices"],
        "labels",
    ),
)
def test_a_tampered_card_is_refused_with_file_line_and_field(
    made: str, path: list[str | int], value: Any, message: str
) -> None:
    of = {"trading": CARD, "scoring": SCORES, "cutoff": KNOWN}[made]
    with pytest.raises(CardError, match=message) as caught:
        parse_card(dumps_pretty(with_value(of, tuple(path), value)), "card.json")

    assert str(caught.value).startswith("card.json: line ")
    assert "\n" not in str(caught.value)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("made", "whole", "facts"),
    [(CARD, TradingCard, TradingFacts), (SCORES, ScoringCard, ScoringFacts)],
    ids=["trading", "scoring"],
)
def test_no_derived_number_can_be_changed_unnoticed(
    made: dict[str, Any], whole: Any, facts: Any
) -> None:
    derived = ({*whole.__struct_fields__} - {*facts.__struct_fields__}) & made.keys()
    values = leaves({name: made[name] for name in derived})
    paths = [path for path, value in values if type(value) in (int, float) and "range" not in path]

    assert len(paths) > 20

    for path in paths:
        with pytest.raises(CardError):
            validate_card(with_value(made, path, 12345))


def test_problems_that_span_several_lines_are_refused_too() -> None:
    with pytest.raises(CardError, match=r"card: episodes\[0\]\.steps: expected `int`, was `float`"):
        validate_card(with_value(CARD, ("episodes", 0, "steps"), 5.0))

    with pytest.raises(CardError, match="windows: one appears twice"):
        validate_card(with_value(CARD, ("windows",), CARD["windows"] * 2))

    with pytest.raises(CardError, match="steps: the limit is 3"):
        validate_card(
            with_value(scoring_card((0, 1), {1}, limit=3), ("missing_episodes", 0, "steps"), 4)
        )


@pytest.mark.parametrize(
    ("made", "kind", "other"), [(CARD, "trading", "scoring"), (SCORES, "scoring", "trading")]
)
def test_written_card_reads_back_equal_and_another_kind_is_refused(
    tmp_path: Path, made: Any, kind: str, other: str
) -> None:
    path = tmp_path / f"{kind}.json"
    path.write_text(dumps_pretty(made))

    assert load_card(path).plain == load_card(path, kind).plain == made

    with pytest.raises(CardError) as caught:
        load_card(path, other)

    assert str(caught.value) == f"{path}: is a {kind} card; this command takes {other} cards"


MALFORMED: dict[str, tuple[str | bytes, str]] = {
    "not JSON": ("{", "line 1: is not JSON"),
    "a list": ("[]", "line 1: card: expected object, was array"),
    "NaN": ('{"a": NaN}', "NaN is not a JSON number"),
    "an overflowing number": ('{"a": 1e999}', "1e999 is too large"),
    "an enormous integer": ('{"a": 1%s}' % ("0" * 400), "does not fit 64 bits"),
    "a doubled field": ('{"a": 1, "a": 2}', "field 'a' appears twice"),
    "a lone surrogate": (
        dumps_pretty(CARD).replace("written by hand", "\\ud800"),
        "is not strict JSON",
    ),
    "arguments of a model nested deeper than Python walks": (
        dumps_pretty(with_value(CARD, ("model", "args"), "@")).replace(
            '"@"', '{"a":' * 500 + "1" + "}" * 500
        ),
        "is nested too deeply",
    ),
    "deep nesting": ("[" * 200_000, "is nested too deeply"),
    "an empty file": ("", "is not JSON"),
    "a byte order mark": (
        "\ufeff{}",
        "begins with a byte order mark; save it as UTF-8 without one",
    ),
    "not text": (b"\xff\xfe\x00", "is not UTF-8 text at byte 0"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_a_malformed_card_is_refused_on_one_line(case: str, tmp_path: Path) -> None:
    text, message = MALFORMED[case]
    (tmp_path / "card.json").write_bytes(text.encode() if isinstance(text, str) else text)
    for path, reason in {
        tmp_path / "card.json": message,
        tmp_path / "absent": "No such file",
        tmp_path: "Is a directory",
    }.items():
        with pytest.raises(CardError, match=reason) as caught:
            load_card(path)

        assert "\n" not in str(caught.value)


# ---- lines


@pytest.mark.slow
@pytest.mark.parametrize(
    "layout",
    [{"indent": 1, "sort_keys": True}, {"indent": 4}, {"separators": (",", ":")}, {"indent": "\t"}],
)
def test_every_value_is_found_on_its_line_in_any_layout(layout: dict[str, Any]) -> None:
    tricky = {
        "a": [1, {"b}": 'x"]'}, []],
        'k"': {"": 2.5, "d": [[], [3]]},
        "e": "line\nbreak",
        "z": {},
    }

    for value in (CARD, tricky):
        text = json.dumps(value, ensure_ascii=False, **layout)
        lines = text.splitlines()
        for path, leaf in leaves(value):
            assert json.dumps(leaf, ensure_ascii=False) in lines[line_of(text, path) - 1]

    ends_early = '{\n "a": {\n  "b": 1\n }\n}'
    paths: list[Path_] = [(), ("a",), ("a", "b"), ("a", "c"), ("a", "b", 0), (3,)]

    assert [line_of(ends_early, path) for path in paths] == [1, 2, 3, 2, 3, 1]


def test_a_line_is_counted_from_one_with_blank_lines_before_a_text() -> None:
    text = '\n\n{\n "a": [1,\n  2]\n}'
    paths: list[Path_] = [(), ("a",), ("a", 0), ("a", 1), ("b",)]
    assert [line_of(text, path) for path in paths] == [3, 4, 4, 5, 3]


# ---- differences

STEPS = episode(spec()).steps

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.exhaustive
@given(json_values, json_values)
def test_a_difference_is_found_exactly_when_the_written_forms_differ(left: Any, right: Any) -> None:
    assert first_difference(left, copy.deepcopy(left)) is None
    assert (first_difference(left, right) is None) == (dumps_pretty(left) == dumps_pretty(right))


def test_first_difference_in_file_order_is_named_with_both_values() -> None:
    made = with_value(
        with_value(CARD, ("usage", "tool_calls"), 1), ("metrics", "sharpe", "value"), 1.5
    )
    line = dumps_pretty(made).splitlines().index('   "value": 1.5') + 1
    wanted = (
        f"line {line}: metrics.sharpe.value: recorded 1.5, recomputed"
        f" {CARD['metrics']['sharpe']['value']!r}"
    )

    assert first_difference(made, CARD) == wanted
    assert (
        first_difference({"a": 1, "b": 2}, {"a": 1, "b": 3}, '{"a": 1,\n\n\n"b": 2}')
        == "line 4: b: recorded 2, recomputed 3"
    )


@on_each_row(
    "left, right, difference",
    ({"a": 1}, {"a": 1, "b": 2}, "line 1: b: recorded nothing, recomputed 2"),
    ({"a": [1, 2]}, {"a": [1]}, "line 4: a[1]: recorded 2, recomputed nothing"),
    ({"a": 1}, {"a": 1.0}, "line 2: a: recorded 1, recomputed 1.0"),
    ({"a": True}, {"a": 1}, "line 2: a: recorded true, recomputed 1"),
    ({"a": 0.0}, {"a": -0.0}, "line 2: a: recorded 0.0, recomputed -0.0"),
    ({"a": {}}, {"a": []}, "line 2: a: recorded {}, recomputed []"),
)
def test_the_first_difference_is_named_with_line_and_both_values(
    left: Any, right: Any, difference: str
) -> None:
    assert first_difference(left, right) == difference


def test_provenance_is_no_difference_between_cards() -> None:
    other = card((0, 1, 2), {1}, provenance={**PROVENANCE, "suite_version": "9.9.9"})
    assert first_difference(CARD, other) is not None
    assert card_difference(CARD, other) is None

    # Nor are the last bits of a figure, which another processor's sums give differently; what can
    # be read is one.
    for factor, is_same in ((1 + 1e-14, True), (1 + 1e-8, False)):
        near = with_value(
            CARD, ("metrics", "sharpe", "value"), factor * CARD["metrics"]["sharpe"]["value"]
        )
        assert (card_difference(CARD, near) is None) == is_same
        assert first_difference(CARD, near) is not None


def test_a_changed_or_absent_step_is_named_by_line_day_and_field() -> None:
    steps = to_plain(STEPS)
    steps[2]["orders"][0]["filled_shares"] = 900
    steps[4]["cash_minor"] = 0
    odd = from_plain(steps, list[StepRecord], "steps")

    assert (
        steps_difference(odd, STEPS)
        == "line 3 (step 2, 2024-01-05): orders[0].filled_shares: recorded 900, recomputed 100"
    )
    assert steps_difference(STEPS[:3], STEPS) == "line 4: recorded 3 steps, recomputed 5"
    assert steps_difference(STEPS, STEPS) is None
