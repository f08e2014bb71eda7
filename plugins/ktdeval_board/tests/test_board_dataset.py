"""A dataset of a board holds the records that the board has executed, and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from board_runs import TASK, TODAY, plugins, printed, submit
from ktdeval.runner import verify_card
from ktdeval_board.board_entries import load_board
from ktdeval_board.checking.check import CheckOptions, check_board


def records_in(board: Path, out: Path) -> list[Path]:
    """Run folders of the dataset that is exported to a folder."""
    printed("export", board, "--to", "hf-dataset", "--out", out)
    return sorted((out / "records").glob("*"))


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_dataset_has_run_folders_of_executed_cards_whose_bytes_are_the_listed_ones(
    board: Path, run: Path, tmp_path: Path
) -> None:
    submit(board, run)
    assert records_in(board, tmp_path / "unchecked") == []

    assert check_board(board, plugins(), CheckOptions(TODAY)).findings == ()
    (entry,) = load_board(board).entries
    (folder,) = records_in(board, tmp_path / "checked")

    assert folder.name == entry.card_id
    assert verify_card(folder / "cards" / f"{TASK}.json", plugins(), {}).findings == ()
    assert f"{folder.parent.name}/<card>/" in (tmp_path / "checked/README.md").read_text()

    (ledger,) = (board / "records").glob("*/episodes/*/ledger.parquet")
    ledger.write_bytes(ledger.read_bytes() + b"x")
    assert records_in(board, tmp_path / "changed") == []
