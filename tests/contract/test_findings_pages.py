"""Pages of findings: every digit on them is a figure that a test recomputes, or one of the paper;
every command of theirs is one of which a report is taken; each has its parts.
"""

from __future__ import annotations

import re

import pytest

from findings import (
    FINDINGS,
    PAGES,
    Statement,
    half_unit,
    number,
    one_line,
    page_names,
    page_text,
    printed_by_papers,
    recomputed,
    unregistered,
    value_at,
)

PARTS = ["What it prints", "What follows", "What does not follow", "What would refute it"]
COMMAND = re.compile(r"(?m)^    ktdeval (.*)$")


def test_each_page_is_registered_and_in_the_index() -> None:
    index = (PAGES / "index.md").read_text(encoding="utf-8")

    assert set(FINDINGS["pages"]) == set(page_names())
    assert sorted(re.findall(r"\]\(([\w-]+)\.md\)", index)) == page_names()


@pytest.mark.parametrize("page", page_names())
def test_a_page_has_its_parts_in_order(page: str) -> None:
    text = page_text(page)

    assert re.findall(r"(?m)^## (.*)$", text) == [*PARTS, "What we could not check"]
    assert text.index("**The claim") < text.index("**The command") < text.index(PARTS[0])


@pytest.mark.parametrize("page", page_names())
def test_every_figure_of_a_page_is_registered(page: str) -> None:
    assert unregistered(page, page_text(page)) == [], "add the phrase to findings.yaml"


def test_a_figure_that_no_test_recomputes_is_found() -> None:
    page = page_names()[0]
    text = page_text(page) + "\nWithout it 7 of 9 are left, see section 5.2 and `--seeds 3`.\n"

    assert len(unregistered(page, text)) == 2


@pytest.mark.parametrize(
    "statement", [*recomputed(), *printed_by_papers()], ids=lambda each: each.phrase[:50]
)
def test_a_registered_phrase_is_on_its_page(statement: Statement) -> None:
    assert statement.phrase in one_line(page_text(statement.page))
    assert len(statement.figures) == len(statement.places) > 0


@pytest.mark.parametrize("page", page_names())
def test_the_commands_of_a_page_are_those_that_are_recomputed(page: str) -> None:
    words = [*FINDINGS["reports"].values()]
    words += [run for run, _ in FINDINGS["runs"].values()]
    commands = [re.sub(r" --out \S+", "", each) for each in COMMAND.findall(page_text(page))]
    taken = [each for each in commands if not each.startswith("card show")]

    assert len(taken) > 0
    assert [each for each in taken if each not in words] == []


@pytest.mark.parametrize(
    ("printed", "value", "half"),
    [("−0.50", -0.5, 0.005), ("1,088", 1088, 0.5), ("12.0", 12, 0.05), ("3", 3, 0.5)],
)
def test_a_figure_is_known_to_half_its_last_digit(printed: str, value: float, half: float) -> None:
    assert (number(printed), half_unit(printed)) == (value, pytest.approx(half))


REPORT = {"rows": [{"name": "a", "x": 1}, {"name": "b", "x": -3}, {"x": 2}], "one": {"y": 0.5}}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("rows[name=b].x", -3),
        ("rows[name=].x", 2),
        ("rows.x|sum", 0),
        ("rows.x|max_abs", 3),
        ("rows[x=1]|count", 1),
        ("rows[x=9]|count", 0),
        ("one.y*100", 50),
    ],
)
def test_a_place_in_a_report_is_its_value(place: str, value: float) -> None:
    assert value_at(REPORT, place) == value


@pytest.mark.parametrize("place", ["rows.x", "rows[name=c].x", "one.z"])
def test_a_place_with_several_values_or_none_is_refused(place: str) -> None:
    with pytest.raises(LookupError):
        value_at(REPORT, place)
