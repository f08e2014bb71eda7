"""How well the linter finds what was planted, measured, and printed into docs/rationale.md."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from ktdeval.testing.markets import tiny_snapshot
from ktdeval_rationale.linter import LEAK_CATEGORIES, RationaleLinter
from masking_market import MARKET
from paths import REPOSITORY
from rationale_planted import FILES, Planted, Score, parse, read_planted, score

LINTER = RationaleLinter(MARKET)
PLANTED = {which: read_planted(which) for which in FILES}
ALL = [sentence for each in PLANTED.values() for sentence in each]
TOGETHER = {"company": "company or brand", "brand": "company or brand"}


def scores(*which: str, linter: RationaleLinter = LINTER) -> dict[str, Score]:
    found = {sentence: [(mention.category, *mention.span) for mention in linter.find(sentence.text)]
             for name in which for sentence in PLANTED[name]}  # fmt: skip
    by_text = {sentence.text: mentions for sentence, mentions in found.items()}
    return score(found, by_text.__getitem__, LEAK_CATEGORIES) | score(found, by_text.__getitem__, TOGETHER, TOGETHER)


def test_marks_are_read_from_a_line_and_the_score_counts_mentions_and_marks() -> None:
    marked = Planted("6\u200b00519 is up, A B.", (("code", 0, 7), ("company", 15, 18)))
    assert parse(r"{code|6\u200b00519} is up, {company|A B}.") == marked
    sentences = [Planted("ab cd", (("code", 0, 2), ("code", 3, 5))), Planted("ef", ())]
    mentions = {"ab cd": [("code", 0, 1), ("date", 3, 5)], "ef": [("code", 0, 2)]}
    found = score(sentences, mentions.__getitem__, ["code"])["code"]
    assert (found.right, found.wrong, found.found, found.marks) == (1, 1, 1, 2)
    assert (found.precision, found.recall) == (0.5, 0.5)


def test_the_set_is_large_and_half_of_it_names_nothing() -> None:
    assert len({sentence.text for sentence in ALL}) == len(ALL) >= 1000
    assert 0.4 <= sum(not sentence.marks for sentence in ALL) / len(ALL) <= 0.6
    assert {category for sentence in ALL for category, _, _ in sentence.marks} == set(LEAK_CATEGORIES) - {"withheld"}


@pytest.mark.parametrize("which", [("last",), tuple(FILES)], ids="+".join)
def test_codes_and_dates_are_found(which: tuple[str, ...]) -> None:
    """The bar of the benchmark; on `last` the linter has never been mended."""
    found = scores(*which)
    for category in ("code", "date"):
        assert found[category].recall >= 0.95, found[category].misses
        assert found[category].precision >= 0.9, found[category].misses


def test_the_names_of_the_real_market_raise_no_false_alarms(shared_data: Path) -> None:
    """405 real companies and 75 industries, some of which are ordinary words, beside prose that names none of them."""

    def rows(file: str) -> list[dict[str, str]]:
        return list(csv.DictReader((shared_data / "a_share" / file).read_text(encoding="utf-8").splitlines()))

    codes = {row["code"] for row in rows("csi300_members_by_rebalance.csv")}
    listed = sorted((row["code"], row["name"], row["industry"]) for row in rows("stock_industry.csv") if row["code"] in codes)
    order, names, industries = zip(*listed, strict=True)
    market = replace(tiny_snapshot({code: [1.0] for code in order}), names=names, industries=industries)
    found = scores(*FILES, linter=RationaleLinter(market))
    for category in ("code", "company", "sector", "date"):
        assert found[category].precision >= 0.95, found[category].misses
    assert min(found["code"].recall, found["date"].recall) >= 0.95


def test_the_figures_in_the_docs_are_those_measured(repository: Path) -> None:
    table = figures()
    assert table in (repository / "docs" / "rationale.md").read_text(encoding="utf-8"), f"docs/rationale.md should hold:\n{table}"


def figures() -> str:
    """The table of the docs: each category on the untouched sentences, and on all."""

    def cells(found: Score) -> str:
        recall = f"{found.recall:.2f} ({found.found} of {found.marks})"
        return f"{recall} | {found.precision:.2f} ({found.right} of {found.right + found.wrong})"

    last, whole = scores("last"), scores(*FILES)
    lines = ["| category | untouched: recall | precision | all: recall | precision |", "|---|---|---|---|---|"]
    lines += [f"| {name} | {cells(last[name])} | {cells(whole[name])} |"
              for name in (*LEAK_CATEGORIES, "company or brand") if whole[name].marks]  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    print(figures())


def test_fresh_sentences_are_found_as_the_docs_say() -> None:
    """Sentences of the first two rounds for precision: what is found in one that names nothing, or claims of another kind."""
    rows = list(csv.DictReader((REPOSITORY / "tests/support/rationale_fresh.csv").read_text(encoding="utf-8").splitlines()))
    assert len({row["text"] for row in rows}) == len(rows) >= 500
    told = (REPOSITORY / "docs/rationale.md").read_text(encoding="utf-8")
    found = [(row, {mention.category for mention in LINTER.find(row["text"])}) for row in rows]
    for category in ("company", "brand", "sector", "date", "event", "hindsight", "recognition"):
        of = {half: [category in each for row, each in found if (row["half"], row["class"]) == (half, category)]
              for half in ("first", "second", "third")}  # fmt: skip
        others = {row["class"] for row in rows} - {category} if category in ("hindsight", "recognition") else {"none"}
        wrong = sum(category in each for row, each in found if row["half"] != "third" and row["class"] in others)
        right = sum(of["first"]) + sum(of["second"])
        recalls = [f"{sum(each)} of {len(each)}" if each else "" for each in of.values()]
        line = f"| {category} | {recalls[0]} | {recalls[1]} | {right / (right + wrong):.2f} | {recalls[2]}".rstrip() + " |"
        assert line in told, line


def test_the_phrases_that_readers_think_of_first_are_found() -> None:
    for text, category in (
        ("I recognise this", "recognition"),
        ("I know what happens next", "hindsight"),
        ("I bought before the stimulus rally", "hindsight"),
    ):
        assert category in {mention.category for mention in LINTER.find(text)}, text
