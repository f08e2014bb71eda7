"""Sections of the page of findings: every digit is a figure that a test recomputes, or one of the
paper; every command is one of which a report is taken; each section has its parts.
"""

from __future__ import annotations

import re

import pytest

from support.docs.docs_prose import github_anchors
from support.docs.findings import (
    FINDINGS,
    PAGE,
    Statement,
    one_line,
    printed_by_papers,
    recomputed,
    sections,
    unregistered,
)

PARTS = [
    "The claim",
    "The command",
    "What follows",
    "What does not follow",
    "What would refute it",
    "What we could not check",
]
COMMAND = re.compile(r"(?m)^    ktdeval (.*)$")
SECTIONS = sections()


def test_each_section_is_registered_and_in_the_list_at_the_top() -> None:
    text = PAGE.read_text(encoding="utf-8")
    listed = set(re.findall(r"\]\(#([\w-]+)\)", text.partition("\n## ")[0]))
    headings = "\n".join(f"## {name}" for name in SECTIONS)

    assert set(FINDINGS["sections"]) == set(SECTIONS)
    assert listed == github_anchors(headings)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_has_its_parts_in_order(section: str) -> None:
    assert re.findall(r"(?m)^\*\*(.*?)\.\*\*", SECTIONS[section]) == PARTS


@pytest.mark.parametrize("section", SECTIONS)
def test_every_figure_of_a_section_is_registered(section: str) -> None:
    assert unregistered(section, SECTIONS[section]) == [], "add the phrase to findings.yaml"


@pytest.mark.parametrize(
    "statement", [*recomputed(), *printed_by_papers()], ids=lambda each: each.phrase[:50]
)
def test_a_registered_phrase_is_in_its_section(statement: Statement) -> None:
    assert statement.phrase in one_line(SECTIONS[statement.section])
    assert len(statement.figures) == len(statement.places) > 0


@pytest.mark.parametrize("section", SECTIONS)
def test_the_commands_of_a_section_are_those_that_are_recomputed(section: str) -> None:
    words = [*FINDINGS["reports"].values()]
    words += [run for run, _ in FINDINGS["runs"].values()]
    commands = [re.sub(r" --out \S+", "", each) for each in COMMAND.findall(SECTIONS[section])]
    taken = [each for each in commands if not each.startswith("card show")]

    assert len(taken) > 0
    assert [each for each in taken if each not in words] == []
