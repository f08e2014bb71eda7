"""A stranger's path, as docs/start/submit.md tells it: register, run, submit, check, build, and
the row is there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ktdeval.registry import load_plugins
from ktdeval_board.attempts import state_of
from ktdeval_board.board_entries import Board, load_board
from ktdeval_board.checking.rules import rules_table
from ktdeval_board.layout import SCHEMAS
from ktdeval_board.ranking.column_texts import why_unranked
from ktdeval_board.read_documents import DOCUMENTS, schema_texts
from ktdeval_board.rules import Division
from paths import REPOSITORY
from site_pages import read_data_file

ROOT = REPOSITORY
PRACTICE = ROOT / "leaderboards" / "practice"


def commands() -> list[str]:
    """The commands of the whole path, as they stand on the page."""
    text = (ROOT / "docs" / "start" / "submit.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```\w*\n(ktdeval leaderboard init .*?)```", text, re.DOTALL)
    return block.strip().splitlines()


@pytest.mark.exhaustive
def test_the_whole_path_of_the_page_ends_in_a_ranked_row(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }

    for command in commands():
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])

    table = read_data_file(
        (tmp_path / "my-site/data/division/blinded-open-research/all.js").read_bytes()
    )
    (row,) = [row for row in table["rows"] if row["submitter"] == "Your name"]

    assert (row["ranked"], row["tier"], row["model"]) == (True, "re-executed", "builtin/memory")
    assert row["rank"] in range(1, 4)
    assert len(row["registration"]) == 64

    kinds = {row["baseline"] for row in table["rows"]}
    assert {"benchmark", "rule", "random", "supervised"} <= kinds

    index = (tmp_path / "my-site/index.html").read_text(encoding="utf-8")
    assert "My practice board" in index


def test_the_practice_board_is_read_as_it_is_and_everything_on_it_is_confirmed() -> None:
    board = load_board(PRACTICE)
    free, costly = board.rules.divisions
    baselines = {each.words: "re-run" for each in board.rules.baselines}
    rules = dict.fromkeys(("builtin/low_volatility", "builtin/momentum"), "re-executed")
    trained = ("qlib/catboost", "qlib/linear", "qlib/lstm")

    assert _tiers_of(board, free) == baselines | rules | {"builtin/reversal": "re-executed"}
    assert _tiers_of(board, costly) == baselines | rules | dict.fromkeys(trained, "re-executed")
    assert len(board.entries) == len(board.of_division(free)) + len(board.of_division(costly))
    assert board.rules.market == "synthetic"


def _tiers_of(board: Board, division: Division) -> dict[str, str]:
    """Tiers of a division's cards, by the words of a baseline or the model of an entrant."""
    tiers = {}
    for entry in board.of_division(division):
        name = entry.model if entry.baseline is None else entry.baseline.words
        tiers[name] = entry.tier

    return tiers


def test_five_doses_of_memory_stand_behind_the_mask_of_each_division() -> None:
    board = load_board(PRACTICE)
    doses = [each.args["recall"] for each in board.rules.baselines if each.kind == "memory"]
    assert doses == [0.01, 0.05, 0.2, 0.5, 0.9]

    for division in board.rules.divisions:
        assert load_plugins().make_task(division.task).mask == "blinded"
        assert len(division.windows) == 10


def test_the_practice_board_has_drawn_own_and_unused_keys() -> None:
    board = load_board(PRACTICE)
    division = board.rules.divisions[0]
    why = {
        entry.model: why_unranked(entry, board, division)
        for entry in board.of_division(division)
        if entry.baseline is None
    }

    assert {model: bool(reasons) for model, reasons in why.items()} == {
        "builtin/low_volatility": False,
        "builtin/momentum": False,
        "builtin/reversal": True,
    }
    assert [entry.model for entry in board.entries if "own key" in entry.labels] == [
        "builtin/reversal"
    ]

    unused = [
        each.registration.system.model
        for each in board.registrations.filed
        if state_of(board, each) != "used"
    ]

    assert unused == ["builtin/chaos"]


def test_the_schemas_on_the_practice_board_match_this_version() -> None:
    texts = schema_texts()
    assert (
        {path.name for path in (PRACTICE / SCHEMAS).iterdir()}
        == set(texts)
        > {f"{name}-v1.json" for name in DOCUMENTS}
    )

    for name, text in texts.items():
        assert (PRACTICE / SCHEMAS / name).read_text(encoding="utf-8") == text, (
            "write them again: ktdeval_board.read_documents.write_schemas"
        )


def test_the_rules_of_the_check_are_in_the_docs() -> None:
    text = (ROOT / "docs" / "reference" / "board-rules.md").read_text(encoding="utf-8")
    assert rules_table() in text
