"""Documentation: every page is in the site, no link leads nowhere, sentences are short, and what is
generated is current. `make docs` renews the generated parts.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ktdeval.cli.main import main
from ktdeval.registry import load_plugins
from ktdeval.testing import not_empty
from support.docs.docs_commands import all_commands
from support.docs.docs_nav import nav_pages
from support.docs.docs_packages import FOLDER, brought_in, package_pages
from support.docs.docs_pictures import hashes, recorded_hashes
from support.docs.docs_project import folders_of, makefile, upper_bounds
from support.docs.docs_prose import (
    links,
    long_sentences,
    problem_of_link,
    repeated_phrases,
    word_count,
)
from support.docs.make_docs import generated_pages
from support.docs.readme_figures import PRINTED, luck_picture
from support.paths import REPOSITORY

DOCS = REPOSITORY / "docs"
AMA_TABLE = REPOSITORY / "plugins/ktdeval_compare/variances/tables/ama-1.csv"
README = REPOSITORY / "README.md"
#: Pages that people write; copies and generated pages are held to these
WRITTEN = sorted(
    {*REPOSITORY.glob("*.md"), *DOCS.rglob("*.md"), *brought_in()}
    - set(FOLDER.glob("*.md"))
    - set((DOCS / "reference").glob("*.md"))
)
FIGURES = ("remembers-or-invests.svg", "where-it-came-from.svg", "is-it-luck.svg")
#: A changelog repeats what pages say
REPEATING = {FOLDER / "changelog.md"}


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


# ---- pages and links


def test_the_navigation_has_every_page_once() -> None:
    listed = [page.path for page in nav_pages()]
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}

    assert len(pages) > 50
    assert pages - set(listed) == set(), "add these to `nav` of mkdocs.yml"
    assert set(listed) - pages == set(), "these are no longer there"
    assert len(listed) == len(set(listed))


@pytest.mark.slow
def test_no_link_leads_nowhere() -> None:
    problems = []
    for page in not_empty([*WRITTEN, *sorted(DOCS.rglob("*.md"))]):
        for target in links(page.read_text(encoding="utf-8")):
            if problem := problem_of_link(page, target):
                problems.append(f"{name_of(page)}: {problem}")

    assert problems == []


def test_no_link_of_the_site_leads_out_of_it() -> None:
    out = []
    for page in not_empty(sorted(DOCS.rglob("*.md"))):
        for target in links(page.read_text(encoding="utf-8")):
            place = target.partition("#")[0]
            if "://" not in target and not (page.parent / place).resolve().is_relative_to(DOCS):
                out.append(f"{name_of(page)}: {target}: link to the copy under docs/packages")

    assert out == []


# ---- words


def test_no_sentence_has_more_than_40_words() -> None:
    found = []
    for page in not_empty(WRITTEN):
        for sentence in long_sentences(page.read_text(encoding="utf-8")):
            found.append(f"{name_of(page)}: {word_count(sentence)} words: {sentence}")

    assert found == []


def test_no_page_repeats_another() -> None:
    """Leave a sentence on one page, and link to it from the other."""
    pages = {name_of(path): _text(path) for path in DOCS.rglob("*.md") if path not in REPEATING}
    assert len(pages) > 50
    assert repeated_phrases(pages) == []


def test_every_page_has_a_line_of_search_words() -> None:
    """A few words of somebody who doesn't know ktdeval's own; both searches read the line."""
    lacking = []
    for path in not_empty(sorted(DOCS.rglob("*.md"))):
        lines = re.findall(r"^(?:Search words: |搜索词：)(.+)$", _text(path), re.MULTILINE)
        if path not in REPEATING and [len(re.split("[,、]", line)) > 2 for line in lines] != [True]:
            lacking.append(name_of(path))

    assert lacking == []


# ---- generated parts


@pytest.mark.slow
def test_generated_pages_and_lists_are_current() -> None:
    pages = generated_pages(load_plugins())
    assert len(pages) > 10
    old = [name_of(page) for page, text in pages.items() if _text(page) != text]
    assert old == [], "run `make docs`"


def test_copies_of_pages_are_current() -> None:
    copies = package_pages()
    assert len(copies) == 3

    old = [name_of(page) for page, text in copies.items() if _text(page) != text]
    assert old == [], "run `make docs`"
    assert set(FOLDER.glob("*.md")) == set(copies)


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8") if page.exists() else ""


# ---- what pages say of the project


def test_every_upper_bound_has_its_reason_in_the_project_file() -> None:
    """The guide says so; the list itself is generated."""
    lines = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    for _, requirement in not_empty(upper_bounds()):
        (index,) = [number for number, line in enumerate(lines) if f'"{requirement}"' in line]
        line = lines[index]
        above = lines[index - 1]
        assert "#" in line or above.lstrip().startswith("#"), requirement


def test_every_folder_of_tests_is_run_by_a_command_of_the_makefile() -> None:
    named = {*folders_of("FAST"), *folders_of("REST"), *folders_of("QLIB")}
    folders = {
        name_of(path)
        for path in (REPOSITORY / "tests").iterdir()
        if path.is_dir() and any(path.rglob("test_*.py"))
    }

    assert folders - named == {"tests/llm"}
    assert "tests/llm" in makefile()
    assert re.search(r"python -m pytest .* -rs$", makefile(), re.MULTILINE), "skips are printed"


@pytest.mark.slow
def test_every_command_has_a_row() -> None:
    text = _text(DOCS / "reference/commands.md")
    names = [path for path, _ in all_commands()]
    assert len(names) > 70
    assert [name for name in names if f"| `{name}` |" not in text] == []


# ---- results on the first pages


def test_the_first_result_of_the_readme_is_what_its_command_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = " ".join(_text(README).split())
    (words,) = re.findall(r"`ktdeval (judge --sharpe [^`]+)`", text)
    assert main(words.split()) == 0
    printed = " ".join(capsys.readouterr().out.split())
    for page, sentence in (
        (text, r"by the best of 64 tries without skill in (.*?) % of all cases"),
        (_text(DOCS / "index.md"), r"beat it in (.*) %"),
    ):
        (share,) = re.findall(sentence, page)
        assert f"{share} % of the time" in printed


def test_the_board_of_the_readme_has_the_figures_of_its_page() -> None:
    """A test of the room compares the page with a new computation."""
    readme = " ".join(_text(README).split())
    page = _text(DOCS / "published-agents.md").split("\n## AgentStockBenchmark", 1)[1]
    board = " ".join(page.split("\n## ", 1)[0].split())
    (best,) = re.findall(r"best Sharpe ratio ([\d.]+),", board)
    (loss,) = re.findall(r"moves of 40 % or more \(1\): KLAC -([\d.]+)%", board)
    before, after = re.findall(
        r"each day, data unrepaired\): (\d+) gains before costs, (\d+) at 5 basis", board
    )[0]
    ratio, low, high, tries, luck = re.findall(
        r"Best: \S+ with a Sharpe ratio of ([\d.]+) \(([\d.]+) to ([\d.]+), 95 %\);"
        r" the best of (\d+) independent tries without skill would reach ([\d.]+) on average",
        board,
    )[0]

    for words in (
        f"lets {tries} programs that models wrote",
        f"Sharpe ratio of its leaderboard is {float(best):.2f}",
        f"As booked, {after} of {before} gains are left at costs of 5 basis points a side",
        f"10 for 1 is booked as a loss of {float(loss):.0f} %",
        f"best ratio is {ratio} with a 95 % interval of {low} to {high}",
        f"the best of {tries} without skill would reach {luck} on average",
    ):
        assert words in readme
    assert "its interval lies above zero for 0 of 16 entrants" in board
    assert "No gain is shown beyond market and styles" in readme


def test_first_documented_result_is_the_best_distinct_row_of_the_paper() -> None:
    """Days of returns: those at which the row's return, annualised, is its annual return."""
    table = pd.read_csv(AMA_TABLE, comment="#")
    runs = table[table.ensemble.isna()]
    best = runs.loc[runs.sr.idxmax()]
    days = 252 * np.log1p(best.cr / 100) / np.log1p(best.ar / 100)
    tries = len(runs.drop(columns="model").drop_duplicates())

    assert f"--sharpe {best.sr} --days {days:.0f} --trials {tries}" in _text(README)
    assert (len(runs), best.agent, best.model, best.asset) == (
        80,
        "InvestorAgent",
        "GPT-4.1",
        "TSLA",
    )


def test_the_pictures_of_the_readme_show_the_pages_of_today() -> None:
    assert recorded_hashes() == hashes(), "run `make screenshots`"


# ---- pictures of the first page


@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_of_the_point_has_at_most_12_words(name: str) -> None:
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", _text(DOCS / "images" / name))
    words = [word for word in " ".join(drawn).split() if word[0].isalpha()]
    assert 0 < len(words) <= 12


def test_sentences_beside_the_pictures_have_their_figures() -> None:
    readme = " ".join(_text(README).split())
    memory, parts, luck = (_text(DOCS / "images" / name) for name in FIGURES)
    for figure in ("+92 %", "+10 %"):
        assert f">{figure}<" in memory
        assert figure in readme

    (selection,) = re.findall(r">selection<.*?>(\S+ %)<", parts, re.DOTALL)
    assert selection.removeprefix("\N{MINUS SIGN}") in readme
    assert luck == luck_picture(PRINTED)
