"""Code blocks of pages run as they are printed: Python on a real run, commands in the order of the
page. The table has those that do not run here, with the reason.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sybil import Example, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

import ktdeval
from ktdeval.cards import load_card
from ktdeval.cli.main import main
from ktdeval.registry import load_plugins
from ktdeval.runner import load_ledger, open_snapshot
from ktdeval.testing import not_empty
from support.docs.docs_packages import FOLDER
from support.docs.docs_prose import AUTHOR_PAGES, code_blocks
from support.paths import REPOSITORY
from support.tables import beside

pytestmark = pytest.mark.slow
DOCS = REPOSITORY / "docs"
AUTHORS = {REPOSITORY / page for page in AUTHOR_PAGES}
TABLES = beside(__file__)
REASONS: dict[str, str] = TABLES["reasons"]
#: Pages whose commands stand on those before them; other pages: test_docs_commands.py
TUTORIALS = sorted([*(DOCS / "start").glob("*.md"), *(DOCS / "papers").glob("*.md")])
TASK = "blinded_open_research"


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).as_posix().removesuffix(".md")


def has_block(page: Path, *languages: str) -> bool:
    text = page.read_text(encoding="utf-8")
    return any(block.language in languages for block in code_blocks(text))


PAGES = [
    page
    for page in sorted(DOCS.rglob("*.md"))
    if FOLDER not in page.parents
    and page not in AUTHORS  # tests/contract/test_author_path.py runs those
    and (has_block(page, "python") or (page in TUTORIALS and has_block(page, "sh")))
]


def reason_of(text: str) -> str:
    """Why a block is not run, empty if it is."""
    return next((why for part, why in REASONS.items() if part in text), "")


def run_commands(example: Example) -> None:
    """Run the commands of a shell block that are ktdeval's own."""
    for line in str(example.parsed).splitlines():
        command = line.partition("  #")[0].strip()
        if not command or reason_of(command):
            continue

        program, *words = shlex.split(command)
        assert program == "ktdeval", f"{command}: not run, and no reason in the table"
        assert main(words) == 0, command


class SkippingParser:
    """Python blocks, but for those with a reason not to run."""

    def __init__(self) -> None:
        self._parser = PythonCodeBlockParser()

    def __call__(self, document: Any) -> Iterator[Any]:
        for region in self._parser(document):
            if not reason_of(str(region.parsed)):
                yield region


CODE = Sybil([SkippingParser()])
CODE_AND_COMMANDS = Sybil([SkippingParser(), CodeBlockParser("sh", run_commands)])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished run of one window, and a board."""
    folder = tmp_path_factory.mktemp("docs")
    ktdeval.evaluate(
        "builtin/momentum", TASK, windows="W1", out=folder / "runs/momentum", quiet=True
    )
    shutil.copytree(REPOSITORY / "leaderboards/practice", folder / "path/to/board")

    return folder


@pytest.fixture
def names(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What pages take as given, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    run = Path("runs/momentum")
    shutil.copy(run / f"cards/{TASK}.json", "card.json")
    snapshot = open_snapshot(load_plugins(), "synthetic", {})
    ledger = load_ledger(next(run.glob("episodes/*/ledger.parquet")))
    rows = [snapshot.day_index(str(day)) for day in (ledger.days[0], ledger.days[-1])]

    return {
        "Path": Path,
        "ledger": ledger,
        "snapshot": snapshot,
        "first_row": rows[0],
        "last_row": rows[1],
        "row": rows[0],
        "daily_contributions": ledger.returns,
        "excess_returns": ledger.returns,
        "differences": np.array([0.02, -0.01, 0.03, 0.01, 0.04, -0.02]),
        "task": load_plugins().make_task(TASK),
        "other": load_card("card.json"),
    }


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_blocks_of_a_page_run(page: Path, names: dict[str, Any]) -> None:
    parser = CODE_AND_COMMANDS if page in TUTORIALS else CODE
    document = parser.parse(page)
    document.namespace.update(names)

    for example in document.examples():
        example.evaluate()


@pytest.mark.exhaustive
def test_the_recording_of_the_readme_shows_what_its_commands_print(
    names: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make screenshots` draws it again."""
    monkeypatch.setenv("COLUMNS", "96")

    assert main(["card", "show", "runs/momentum"]) == 0

    shown = unescape((DOCS / "images/first-card.svg").read_text(encoding="utf-8"))
    card, _, _ = capsys.readouterr().out.partition("\nall ")  # then come commands for this card

    for line in not_empty([line for line in card.splitlines() if line.strip()]):
        assert f">{line}</text>" in shown


def test_each_reason_is_that_of_a_block_or_command() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    for part in not_empty(list(REASONS)):
        assert any(part in text for text in texts), part


def test_python_blocks_are_marked_as_such() -> None:
    """An indented block would not be run."""
    for page in not_empty(sorted(DOCS.rglob("*.md"))):
        if FOLDER in page.parents:
            continue

        text = page.read_text(encoding="utf-8")
        for block in code_blocks(text):
            text = text.replace(block.text, "")

        assert not re.search(r"^    (from \w[\w.]* import|import \w)", text, re.MULTILINE), page
