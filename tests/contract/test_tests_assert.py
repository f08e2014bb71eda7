"""Tests fail where there is nothing to test: no test asserts only inside loops that may run over
nothing.
"""

from __future__ import annotations

import ast
from textwrap import dedent, indent

import pytest

from support.loops import CURE, empty_loops, empty_loops_in, not_empty
from support.paths import REPOSITORY
from support.source_trees import files_of_tests

TESTS = files_of_tests()


@pytest.mark.slow
def test_no_test_asserts_only_inside_loops_that_may_be_empty() -> None:
    assert len(TESTS) > 200

    found = []
    for path in TESTS:
        found += [
            f"{path.relative_to(REPOSITORY)}:{each.line}: {each.name} asserts only over"
            f" {', '.join(each.loops)}"
            for each in empty_loops(path)
        ]

    assert not found, "\n".join([*found, CURE])


DOUBTFUL = [
    "for row in rows():\n    assert row",
    "for row in rows():\n    for name in 'ab':\n        assert row[name]",
    "for name in 'ab':\n    for row in rows(name):\n        assert row",
    "for row in rows():\n    if row:\n        assert row",
    "for row in rows():\n    with pytest.raises(ValueError):\n        read(row)",
    "for row in rows():\n    np.testing.assert_allclose(row, 1)",
    "for row in rows():\n    holds(row)",
    "assert all(row > 0 for row in rows())",
    "assert not any(row > 0 for row in rows())",
    "listed = [row for row in CASES if row]\nfor row in listed:\n    assert row",
    "listed = []\nfor row in listed:\n    assert row",
    "for row in {}:\n    assert row",
    "for row in range(len(rows())):\n    assert row",
    "for left, right in zip(CASES, rows()):\n    assert left == right",
    "for row in fixture:\n    assert row",
    "for row in LATE:\n    assert row",
]
CERTAIN = [
    "assert rows()",
    "for row in rows():\n    assert row\nassert rows()",
    "for row in (1, 2):\n    assert row",
    "for row in CASES:\n    assert row",
    "for row in CASES[1:]:\n    assert row",
    "for row in Kind:\n    assert row",
    "for row in given:\n    assert row",
    "for row in range(COUNT - 1):\n    assert row",
    "count = 3\nfor row in range(count):\n    assert row",
    "listed = [(1, 2), *rows()]\nfor row in listed:\n    assert row",
    "for number, (name, row) in enumerate(sorted({'a': 1}.items())):\n    assert row",
    "for left, right in zip((1, 2), rows(), strict=True):\n    assert left == right",
    "for row in not_empty(rows()):\n    assert row",
    "for row in rows():\n    assert row\nholds(rows())",
    "assert all(row > 0 for row in (1, 2))",
    "assert any(row > 0 for row in rows())",
]


def module_of(body: str) -> ast.Module:
    head = """
        CASES = [1, 2]
        LATE = rows()

        def holds(row):
            assert row

        @pytest.mark.parametrize(("given", "other"), CASES)
        def test_it(given, other, fixture):
    """
    return ast.parse(dedent(head).rstrip() + "\n" + indent(body, "    "))


@pytest.mark.parametrize("body", DOUBTFUL)
def test_an_assertion_over_what_may_be_empty_is_found(body: str) -> None:
    (found,) = empty_loops_in(module_of(body))
    assert (found.name, found.line) == ("test_it", 9)
    assert found.loops


@pytest.mark.parametrize("body", CERTAIN)
def test_an_assertion_that_surely_runs_is_left_alone(body: str) -> None:
    assert empty_loops_in(module_of(body)) == []


def test_nothing_to_loop_over_fails_and_so_does_another_number_of_values() -> None:
    assert not_empty(number for number in (3, 1)) == [3, 1]
    assert not_empty("ab", 2) == ["a", "b"]

    with pytest.raises(AssertionError, match="nothing to loop over"):
        not_empty(iter(()))

    with pytest.raises(AssertionError, match="2 values to loop over, not 3"):
        not_empty("ab", 3)


def test_a_table_of_cases_without_rows_fails_when_tests_are_collected(
    pytestconfig: pytest.Config,
) -> None:
    assert pytestconfig.getini("empty_parameter_set_mark") == "fail_at_collect"
