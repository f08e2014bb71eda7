"""A board of sums, questions about no market."""

from __future__ import annotations

from pathlib import Path

import sums_plugin
from board_runs import CLAIMS, TODAY
from ktdeval.config import RunConfig
from ktdeval.registry import load_plugins
from ktdeval.runner import evaluate
from ktdeval_board.bundle import Redactor
from ktdeval_board.init import NewBoard, init_board
from ktdeval_board.submit import Request, submit_run


def sums_board(home: Path) -> Path:
    """A board in a new folder with one submission, not checked."""
    plugins, board = load_plugins((sums_plugin.__file__,)), home / "board"
    init_board(board, NewBoard("qa", "Sums", ("sums",), "2026-03-01", contact="board@example.org"), plugins)
    run = evaluate(RunConfig(model="right/adder", tasks=("sums",), out=str(home / "r" / "run"), quiet=True), plugins).folder
    outcome = submit_run(board, Request(run, TODAY, is_checked=False), CLAIMS, plugins, Redactor({}))
    assert outcome.missing == ()
    return board
