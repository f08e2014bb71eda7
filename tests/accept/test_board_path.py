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
from ktdeval.values import load_yaml
from ktdeval_board.attempts import state_of
from ktdeval_board.board_entries import LoadedBoard, load_board
from ktdeval_board.checking.rules import rules_table
from ktdeval_board.layout import SCHEMAS
from ktdeval_board.ranking.column_texts import why_unranked
from ktdeval_board.read_documents import DOCUMENTS, schema_texts
from ktdeval_board.rules import Division
from support.pages.site_pages import read_data_file
from support.paths import REPOSITORY

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


@pytest.fixture(scope="module")
def practice() -> LoadedBoard:
    return load_board(PRACTICE)


def test_the_practice_board_is_read_and_everything_on_it_is_confirmed(
    practice: LoadedBoard,
) -> None:
    free, costly = practice.rules.divisions
    baselines = {each.words: "re-run" for each in practice.rules.baselines}
    rules = ("builtin/low_volatility", "builtin/momentum", "builtin/reversal")

    assert _tiers_of(practice, free) == baselines | dict.fromkeys(rules, "re-executed")
    assert _tiers_of(practice, costly) == baselines | {"qlib/linear": "re-executed"}
    of_divisions = [*practice.of_division(free), *practice.of_division(costly)]
    assert len(practice.entries) == len(of_divisions)
    assert practice.rules.market == "synthetic"


def _tiers_of(board: LoadedBoard, division: Division) -> dict[str, str]:
    """Tiers of a division's cards, by the words of a baseline or the model of an entrant."""
    tiers = {}
    for entry in board.of_division(division):
        name = entry.model if entry.baseline is None else entry.baseline.words
        tiers[name] = entry.tier

    return tiers


def test_two_doses_of_memory_stand_behind_the_mask_of_each_division(practice: LoadedBoard) -> None:
    doses = [each.args["recall"] for each in practice.rules.baselines if each.kind == "memory"]
    assert doses == [0.2, 0.9]

    for division in practice.rules.divisions:
        assert load_plugins().make_task(division.task).mask == "blinded"
        assert len(division.windows) == 10


def test_the_practice_board_has_drawn_own_and_unused_keys(practice: LoadedBoard) -> None:
    division = practice.rules.divisions[0]
    unranked = []

    for entry in practice.of_division(division):
        if entry.baseline is None and why_unranked(entry, practice, division):
            unranked.append(entry.model)

    own = [entry.model for entry in practice.entries if "own key" in entry.labels]
    assert unranked == own == ["builtin/reversal"]

    filed = practice.registrations.filed
    unused = [each for each in filed if state_of(practice, each) != "used"]
    assert [each.registration.system.model for each in unused] == ["builtin/chaos"]


STAND_IN = """#!/bin/sh
[ "$1" != leaderboard ] || shift 3
echo "$@" >>"$ASKED"
case "$1" in
init) mkdir -p "$2/registrations" && cp "$4" "$2/board.yaml" ;;
register) echo ' "id": "0a",' ;;
esac
"""


def _asked_of_ktdeval(folder: Path, *size: str) -> tuple[list[str], set[tuple[str, str]]]:
    """Run `make_practice.sh` with a stand-in for `ktdeval`. Return the baselines of its board, and
    division and model of each registration.
    """
    stand_in = folder / "bin" / "ktdeval"
    stand_in.parent.mkdir()
    stand_in.write_text(STAND_IN, encoding="utf-8")
    stand_in.chmod(0o755)
    for name in ("catboost", "linear", "lstm"):
        (folder / "ktdeval-models" / name).mkdir(parents=True)

    path = f"{stand_in.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "ASKED": "asked.txt", "PYTHON": ""}
    script = str(ROOT / "leaderboards" / "make_practice.sh")
    subprocess.run(["sh", script, "board", *size], cwd=folder, env=environment, check=True)

    registered = set()
    for line in (folder / "asked.txt").read_text(encoding="utf-8").splitlines():
        found = re.match(r"register .*--division (\S+) --model (\S+)", line)
        if found:
            registered.add((found[1], found[2]))

    baselines = load_yaml(folder / "board" / "board.yaml")["baselines"]
    return baselines, registered


def test_the_script_makes_the_practice_board_of_this_repository(
    practice: LoadedBoard, tmp_path: Path
) -> None:
    entrants = set()
    for filed in practice.registrations.filed:
        registration = filed.registration
        if registration.submitter.name != "the board":
            entrants.add((registration.division, registration.system.model))

    words = [each.words for each in practice.rules.baselines]
    assert _asked_of_ktdeval(tmp_path) == (words, entrants)


def test_the_script_makes_a_large_board_with_all_doses_and_trained_models(tmp_path: Path) -> None:
    baselines, registered = _asked_of_ktdeval(tmp_path, "large")
    doses = [each for each in baselines if each.startswith("builtin/memory")]
    costly = {model for division, model in registered if division.endswith("-sqrt")}

    assert doses == [f"builtin/memory(recall={dose})" for dose in (0.01, 0.05, 0.2, 0.5, 0.9)]
    models = "builtin/low_volatility builtin/momentum qlib/catboost qlib/linear qlib/lstm"
    assert costly == set(models.split())


def test_the_script_refuses_another_size_and_shows_its_help(tmp_path: Path) -> None:
    script = str(ROOT / "leaderboards" / "make_practice.sh")
    refused = subprocess.run(
        ["sh", script, str(tmp_path / "board"), "huge"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert refused.returncode == 2
    assert "NEW_DIR [small|large]" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_schemas_on_the_practice_board_match_this_version() -> None:
    texts = schema_texts()
    assert set(texts) > {f"{name}-v1.json" for name in DOCUMENTS}

    files = (PRACTICE / SCHEMAS).iterdir()
    assert {path.name: path.read_text(encoding="utf-8") for path in files} == texts, (
        "write them again: ktdeval_board.read_documents.write_schemas"
    )


def test_the_rules_of_the_check_are_in_the_readme_of_a_board() -> None:
    text = (PRACTICE / "README.md").read_text(encoding="utf-8")
    assert rules_table() in text
