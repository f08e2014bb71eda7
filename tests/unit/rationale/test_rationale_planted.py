"""How well the linter finds what was planted, measured, and printed into docs/rationale.md."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from ktdeval.testing.markets import tiny_snapshot
from ktdeval_rationale.linter import LEAK_CATEGORIES, RationaleLinter
from masking_market import MARKET
from rationale_planted import FILES, Marked, Planted, Score, parse, read_planted, score

LINTER = RationaleLinter(MARKET)
PLANTED = {which: read_planted(which) for which in FILES}
TOGETHER = {"company": "company or brand", "brand": "company or brand"}


def find(text: str) -> list[Marked]:
    return [(mention.category, *mention.span) for mention in LINTER.find(text)]


def scores(*which: str) -> dict[str, Score]:
    sentences = [sentence for name in which for sentence in PLANTED[name]]
    return score(sentences, find, LEAK_CATEGORIES) | score(sentences, find, TOGETHER, TOGETHER)


def test_a_line_is_read_with_its_marks() -> None:
    assert parse(r"{code|6\u200b00519} is up, {company|A B}.") == Planted(
        "6\u200b00519 is up, A B.", (("code", 0, 7), ("company", 15, 18))
    )


def test_the_score_counts_mentions_and_marks() -> None:
    sentences = [Planted("ab cd", (("code", 0, 2), ("code", 3, 5))), Planted("ef", ())]
    found = score(sentences, lambda text: [("code", 0, 1), ("date", 3, 5)] if text == "ab cd" else [("code", 0, 2)], ["code"])[
        "code"
    ]
    assert (found.right, found.wrong, found.found, found.marks) == (1, 1, 1, 2)
    assert (found.precision, found.recall) == (0.5, 0.5)


def test_the_set_is_large_and_half_of_it_names_nothing() -> None:
    sentences = [sentence for each in PLANTED.values() for sentence in each]
    harmless = sum(not sentence.marks for sentence in sentences)
    assert len(sentences) >= 1000
    assert 0.4 <= harmless / len(sentences) <= 0.6
    assert len({sentence.text for sentence in sentences}) == len(sentences)
    marks = [category for sentence in sentences for category, _, _ in sentence.marks]
    assert set(marks) == set(LEAK_CATEGORIES) - {"withheld"}


@pytest.mark.parametrize("which", [("last",), ("dev", "held", "last")], ids="+".join)
@pytest.mark.parametrize("category", ["code", "date"])
def test_codes_and_dates_are_found(which: tuple[str, ...], category: str) -> None:
    """The bar of the benchmark; on `last` the linter has never been mended."""
    found = scores(*which)[category]
    assert found.recall >= 0.95, found.misses
    assert found.precision >= 0.9, found.misses


def test_the_names_of_the_real_market_raise_no_false_alarms(shared_data: Path) -> None:
    """405 real companies and 75 industries, some of which are ordinary words, beside prose that names none of them."""
    with (shared_data / "a_share" / "csi300_members_by_rebalance.csv").open(encoding="utf-8") as stream:
        codes = {row["code"] for row in csv.DictReader(stream)}
    with (shared_data / "a_share" / "stock_industry.csv").open(encoding="utf-8") as stream:
        listed = {row["code"]: row for row in csv.DictReader(stream) if row["code"] in codes}
    order = sorted(listed)
    names = {
        "names": tuple(listed[code]["name"] for code in order),
        "industries": tuple(listed[code]["industry"] for code in order),
    }
    linter = RationaleLinter(replace(tiny_snapshot({code: [1.0] for code in order}), **names))
    sentences = [sentence for which in FILES for sentence in PLANTED[which]]
    found = score(sentences, lambda text: [(each.category, *each.span) for each in linter.find(text)], LEAK_CATEGORIES)
    for category in ("code", "company", "sector", "date"):
        assert found[category].precision >= 0.95, found[category].misses
    assert min(found["code"].recall, found["date"].recall) >= 0.95


def test_the_figures_in_the_docs_are_those_measured(repository: Path) -> None:
    text = (repository / "docs" / "rationale.md").read_text(encoding="utf-8")
    table = figures()
    assert table in text, f"docs/rationale.md should hold:\n{table}"


def figures() -> str:
    """The table of the docs: each category on the untouched sentences, and on all."""
    last, whole = scores("last"), scores(*FILES)
    lines = [
        "| category | untouched: recall | precision | all: recall | precision |",
        "|---|---|---|---|---|",
    ]
    for name in (*LEAK_CATEGORIES, "company or brand"):
        if whole[name].marks:
            lines.append(f"| {name} | {_cells(last[name])} | {_cells(whole[name])} |")
    return "\n".join(lines)


def _cells(found: Score) -> str:
    recall = f"{found.recall:.2f} ({found.found} of {found.marks})"
    return f"{recall} | {found.precision:.2f} ({found.right} of {found.right + found.wrong})"


if __name__ == "__main__":
    print(figures())
