"""Recipes: data, checked before anything is read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ktdeval.errors import KtdevalError
from ktdeval_published.boards import BoardRunOptions, run_board
from ktdeval_published.clone import open_clone
from ktdeval_published.recipe import find_recipe, load_recipe, recipe_names
from ktdeval_published.schemas import schema_texts


def change(board: Path, old: str, new: str) -> Path:
    path = board / "recipe.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def test_every_bundled_recipe_is_read() -> None:
    recipes = [find_recipe(name) for name in recipe_names()]
    assert [recipe.name for recipe in recipes] == recipe_names()
    assert len(recipes) == 9


def test_the_schemas_are_those_of_the_types() -> None:
    for path, text in schema_texts().items():
        assert path.read_text() == text, "run python -m ktdeval_published.schemas"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("recipe: 1", "recipe: 2", "version 2 is not read"),
        ('commit: "0123456"', "commit: main", "is not a commit"),
        ("form: positions", "form: python", "form: "),
        ("path: bars.csv", "path: ../bars.csv", "must be a path inside the clone"),
        ("path: bars.csv", "path: /etc/passwd", "must be a path inside the clone"),
        ("{entrant}/pos", "{who}/pos", "is no place; known: arm, day, entrant"),
        ("period: 2025-10", "period: 2025-10\ncode: rm", "code"),
    ],
)
def test_a_faulty_recipe_is_refused_in_one_line(
    board: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(KtdevalError) as caught:
        load_recipe(change(board, old, new))
    assert message in caught.value.line


def test_an_unknown_name_lists_what_there_is() -> None:
    with pytest.raises(KtdevalError, match=r"did you mean|known: "):
        find_recipe("agent-stock-bench")


def run(board: Path) -> object:
    recipe = load_recipe(board / "recipe.yaml")
    return run_board(
        recipe, open_clone(board, recipe.source.commit), BoardRunOptions(audited=False)
    )


def test_a_missing_file_is_named(board: Path) -> None:
    (board / "bars.csv").unlink()
    with pytest.raises(KtdevalError, match=r"bars\.csv: is missing; the recipe expects this file"):
        run(board)


def test_a_changed_column_is_named_with_those_that_are_there(board: Path) -> None:
    bars = board / "bars.csv"
    bars.write_text(bars.read_text().replace("code,time,", "code,when,"))
    with pytest.raises(KtdevalError, match="has no column 'time'; its columns are code, when"):
        run(board)


def test_an_entrant_that_cannot_be_read_is_a_row_with_its_reason(board: Path) -> None:
    (board / "runs/two").mkdir()
    (board / "runs/two/position.jsonl").write_text('{"date": "2025-10-09"}\n{"a": 1} {"b": 2}\n')
    report = run(board)
    problems = {one.name: one.problem for one in report.entrants}
    assert problems["one"] == ""
    assert "line 1 has no object `positions`" in problems["two"]


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    done = subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_a_clone_at_another_commit_is_refused(board: Path) -> None:
    git(board, "init", "-q")
    git(board, "add", ".")
    git(board, "commit", "-q", "-m", "all")
    head = git(board, "rev-parse", "HEAD")

    assert open_clone(board, head[:7]).commit_state == "checked"
    with pytest.raises(KtdevalError, match=r"expected 0123456: git checkout 0123456"):
        open_clone(board, "0123456")


def test_a_folder_without_git_is_unverified_unless_a_file_names_the_commit(board: Path) -> None:
    assert open_clone(board, "0123456").commit_state == "unverified"
    (board / "COMMIT").write_text("0123456789abcdef\n")
    assert open_clone(board, "0123456").commit_state == "stated"
    (board / "COMMIT").write_text("fedcba9\n")
    with pytest.raises(KtdevalError, match="expected 0123456"):
        open_clone(board, "0123456")


def test_a_link_out_of_the_folder_is_not_followed(board: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.csv"
    outside.write_text((board / "bars.csv").read_text())
    (board / "bars.csv").unlink()
    (board / "bars.csv").symlink_to(outside)
    with pytest.raises(KtdevalError, match="leads out of the folder"):
        run(board)


def test_a_board_without_commits_says_unknown_not_live(board: Path) -> None:
    report = run(board)
    assert report.entrants[0].live.before == 0
    assert report.entrants[0].live.unknown == report.entrants[0].executed.days
    assert "no entrant-day of 2 is shown to be published before its prices" in report.sentence
