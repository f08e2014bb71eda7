"""The command: text, JSON, CSV, LaTeX, Markdown, a page, and checklists filled from a report."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ktdeval.cli import load_command
from ktdeval.registry import load_plugins
from ktdeval_published.command import published_group
from ktdeval_published.recipe import recipe_names

pytest.importorskip("vl_convert")


def run(board: Path, *words: str) -> str:
    arguments = ["show", str(board / "recipe.yaml"), "--source", str(board), *words]
    done = CliRunner().invoke(published_group, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_command_is_found_through_its_entry_point() -> None:
    spec = load_plugins().specs("commands")["published"]
    assert load_command(spec.make()).name == "published"


def test_the_list_names_all_recipes_with_their_commits() -> None:
    done = CliRunner().invoke(published_group, ["list", "--json"])
    rows = json.loads(done.stdout)
    assert [row["name"] for row in rows] == recipe_names()
    assert all(row["commit"] and row["licence"] for row in rows)


def test_the_text_begins_with_the_board_and_its_one_sentence(board: Path) -> None:
    lines = run(board).splitlines()
    assert lines[0] == "Mine · 2025-10"
    assert lines[1].startswith("me/mine @ 0123456 · MIT · commit unverified")
    assert lines[3].startswith(
        "No entrant is shown to have skill, as these days allow no comparison; no entrant-day"
    )
    assert "  Fills that the venue's rules forbid: STAR minimum in 1 and T+1 in 1 of 3." in lines


def test_the_gap_is_split_without_a_rest(board: Path) -> None:
    (one,) = json.loads(run(board, "--json"))["entrants"]
    causes = sum(cause["amount"] for cause in one["causes"])
    gap = one["executed"]["gain"] - one["declared"]["gain"]
    assert causes + one["residual"] == pytest.approx(gap, abs=1e-6)
    assert one["residual"] == pytest.approx(0, abs=1e-6)
    assert one["unrepaired"]["gain"] != one["executed"]["gain"]  # with STAR lots of 100


def test_csv_has_a_row_an_entrant(board: Path) -> None:
    (row,) = csv.DictReader(io.StringIO(run(board, "--as", "csv")))
    assert row["entrant"] == "one"
    assert float(row["declared_gain"]) == pytest.approx(2650.0)  # 102,650 from 100,000


def test_latex_and_markdown_are_tables(board: Path) -> None:
    assert run(board, "--as", "latex").startswith("\\begin{tabular}")
    page = run(board, "--as", "markdown")
    assert "| one | +2.65 % |" in page


def test_a_page_loads_nothing_and_shows_pictures(board: Path, tmp_path: Path) -> None:
    page = tmp_path / "board.html"
    assert run(board, "--as", "page", "--out", str(page)) == f"wrote {page}\n"
    text = page.read_text("utf-8")
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert "Declared against executed" in text
    assert "Gains at rising costs" in text
    assert "<script" not in text


def test_out_needs_a_form(board: Path, tmp_path: Path) -> None:
    arguments = ["show", str(board / "recipe.yaml"), "--source", str(board)]
    done = CliRunner().invoke(published_group, [*arguments, "--out", str(tmp_path / "x")])
    assert "--out needs a form" in str(done.exception)


def test_a_checklist_is_filled_from_a_report(board: Path, tmp_path: Path) -> None:
    path = tmp_path / "board.json"
    path.write_text(run(board, "--json"))
    words = ["card", "checklist", str(path), "--as", "execution-realism", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "ktdeval", *words], check=True, capture_output=True, text=True
    )
    (filled,) = json.loads(done.stdout)
    facts = {item["item"]: item["facts"] for item in filled["items"]}
    assert facts["Point-in-time controls"] == {}  # nothing shows when it was published
    assert facts["Artifact release"]["repository"] == "me/mine"
    assert facts["Execution semantics"]["fills that break a rule of the venue"] == "2"
