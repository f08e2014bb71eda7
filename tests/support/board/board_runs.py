"""Boards and runs on the small market, small enough to make many of them, and submissions of these
runs.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import zstandard
from click.testing import CliRunner, Result

from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunConfig, evaluate
from ktdeval.values import dumps_pretty, loads_strict, write_atomic
from ktdeval_board.board_entries import load_board
from ktdeval_board.command import leaderboard
from ktdeval_board.init import BegunBoard, NewBoard, init_board
from ktdeval_board.redacted_records import Redactor
from ktdeval_board.submit import Outcome, SubmitRequest, submit_run
from ktdeval_board.submitter_claims import Claims
from support.board import board_teller
from support.board.board_cards import made_on

TASK = "blinded_open_research"
DIVISION = "blinded-open-research"
WINDOW = "2024-03-01:2024-03-14"
DAYS = 10
TODAY = "2026-03-02"
TELLER = "test/teller"
CLAIMS = Claims(
    submitter="A team",
    contact="team@example.org",
    cutoff="2023-12-31",
    cutoff_source="its model card",
    strategy="free",
    attempts=1,
)


def plugins() -> Plugins:
    """Installed plugins, and the model that repeats secrets."""
    return load_plugins((board_teller.__file__,))


def begin(folder: Path, market: Path, /, **changes: Any) -> BegunBoard:
    """A board of the small market, with one division and two baselines."""
    given: dict[str, Any] = {
        "name": "small",
        "title": "A small board",
        "tasks": (TASK,),
        "opened_on": "2026-03-01",
        "data": str(market),
        "windows": (WINDOW,),
        "baselines": ("builtin/equal_weight",),
        "contact": "board@example.org",
    }
    return init_board(folder, NewBoard(**(given | changes)), plugins())


def make_run(out: Path, market: Path, /, **changes: Any) -> Path:
    """A run that the board takes, unless `changes` say otherwise; its folder."""
    given: dict[str, Any] = {
        "model": "builtin/momentum",
        "tasks": (TASK,),
        "data": str(market),
        "windows": (WINDOW,),
        "out": str(out),
        "quiet": True,
    }
    config = RunConfig(**(given | changes))
    # The package of that model is foreign to a board, and on the card of whoever had it loaded.
    loaded = plugins() if config.model == TELLER else load_plugins()
    return made_on(evaluate(config, loaded).folder, TODAY)


def submit(
    board: Path,
    run: Path,
    claims: Claims = CLAIMS,
    redactor: Redactor | None = None,
    **changes: Any,
) -> Outcome:
    """Submit a run to a board; without `is_checked=True` neither verified nor checked, which takes
    seconds.
    """
    request = replace(SubmitRequest(run, TODAY, is_executed=False), **changes)
    return submit_run(board, request, claims, plugins(), redactor or Redactor({}))


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its bytes, and every folder without any, by path; hidden ones
    too.
    """
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


def unpacked(folder: Path) -> bytes:
    """All that can be read in the files of a folder, packed ones unpacked."""
    texts = []
    for path in sorted(folder.rglob("*")):
        if path.name.endswith(".zst"):
            texts.append(zstandard.ZstdDecompressor().decompress(path.read_bytes()))
        elif path.name == "ledger.parquet":
            import pyarrow.parquet as pq

            texts.append(repr(pq.read_table(path).to_pylist()).encode() + path.read_bytes())
        elif path.is_file():
            texts.append(path.read_bytes())

    return b"\n".join(texts)


def edit(path: Path, **changes: Any) -> None:
    """Change fields of a JSON file."""
    write_atomic(path, dumps_pretty({**loads_strict(path.read_bytes()), **changes}))


def sums_board(home: Path) -> Path:
    """A board of sums, questions about no market, in a new folder with one submission, not
    checked.
    """
    board = home / "board"
    config = RunConfig(
        model="right/adder", tasks=("sums",), out=str(home / "r" / "run"), quiet=True
    )
    init_board(
        board, NewBoard("qa", "Sums", ("sums",), TODAY, contact="board@example.org"), plugins()
    )
    run = made_on(evaluate(config, plugins()).folder, TODAY)

    assert submit(board, run).missing == ()

    return board


def change_rules(board: Path, *changes: tuple[str, str]) -> None:
    """Change the text of a board's rules."""
    text = (board / "board.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)

    (board / "board.yaml").write_text(text)


def withdraw(board: Path) -> str:
    """Withdraw the one card of a board; its id."""
    (entry,) = load_board(board).entries
    (board / "errata.yaml").write_text(
        f"errata:\n  - {{card: '{entry.card_id}', date: '2026-03-02', effect: withdrawn, what: A"
        " day is missing.}\n"
    )

    return entry.card_id


def call(command: Any, *words: object, **options: Any) -> Result:
    """Call a command as the terminal does."""
    return CliRunner().invoke(command, [str(word) for word in words], **options)


def printed(*words: object) -> str:
    """Return the output of `ktdeval leaderboard`, or raise its error."""
    return call(leaderboard, *words, catch_exceptions=False).stdout
