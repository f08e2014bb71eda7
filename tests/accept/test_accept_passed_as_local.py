"""A run a remote model whose owner presents it as one of a model of this machine: no
calls, no record of them, nothing to pay.

The run is made once, of `openai/stub-model` behind HTTP. Its owner changes a copy as anybody can, with
everything computed anew that follows.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ktdeval.calls.costs.prices import FREE
from ktdeval.cli.main import cli
from ktdeval.registry import load_plugins
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval_board.checking.check import CheckOptions, check_board
from support.board import board_checked
from support.providers.stub_provider import KEY, Stub, skip_without_sdks
from support.runs.forging import edit_json, renewed
from support.runs.run_support import SAME_MASK, TASK, WINDOW, Done, episodes, ktdeval

skip_without_sdks()

MODEL = "openai/stub-model"
CARD = f"cards/{TASK}.json"
IS_REMOTE = f"sent_as: is null, as for a local model, but {MODEL} is remote"


def draw(run: Path, stub: Stub, market: Path) -> Done:
    words = (
        f"--model {MODEL} --model-args api=chat --base-url {stub.base_url} --tasks {TASK}"
        f" --windows {WINDOW} --limit 2 --seeds 2 --cache run --canary 0 --quiet"
        f" --price input=2,output=8 --data {market} --out {run}"
    )
    return ktdeval(*words.split(), *SAME_MASK, cwd=run.parent, environment={"OPENAI_API_KEY": KEY})


@pytest.fixture(scope="module")
def whole(stub: Stub, market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("whole") / "run"
    done = draw(run, stub, market)
    assert done.code == 0, done
    assert ktdeval("card", "verify", run, cwd=run.parent).code == 0
    return run


def without_calls(run: Path) -> None:
    """Say in manifest and marks that the model is one of this machine, and delete the calls."""

    def change(manifest: dict[str, Any]) -> dict[str, Any]:
        del manifest["call_log"]
        return {**manifest, "sent_as": None, "price": FREE.to_json()}

    edit_json(run / "manifest.json", change)
    for folder in episodes(run):
        edit_json(folder / "episode.json", lambda mark: {**mark, "calls": None})

    (run / "calls.sqlite").unlink()


def with_a_local_card(run: Path) -> None:
    """The same on the card, with every figure that follows."""

    def change(card: dict[str, Any]) -> dict[str, Any]:
        card["sent_as"] = None
        card["provenance"]["calls"] = None
        card["cost"]["price"] = FREE.to_json()
        return renewed(card)

    edit_json(run / CARD, change)


def test_no_card_is_made_of_such_a_run(run: Path) -> None:
    without_calls(run)
    (run / CARD).unlink()
    scored = ktdeval("score", run, cwd=run.parent)

    assert scored.code != 0
    assert f"manifest.json: {IS_REMOTE}" in scored.err
    assert not (run / CARD).exists()


def test_such_a_run_is_not_resumed(run: Path, stub: Stub, market: Path) -> None:
    without_calls(run)
    (run / CARD).unlink()
    shutil.rmtree(episodes(run)[0])
    done = draw(run, stub, market)

    assert done.code != 0
    assert f"manifest.json: {IS_REMOTE}" in done.err


def test_such_a_run_does_not_verify_with_a_card_that_agrees(run: Path) -> None:
    without_calls(run)
    with_a_local_card(run)
    done = ktdeval("card", "verify", run, cwd=run.parent)

    assert done.code != 0
    assert IS_REMOTE in done.out + done.err


def test_a_board_refuses_it_by_hand_and_from_the_command(
    run: Path, market: Path, tmp_path: Path
) -> None:
    without_calls(run)
    with_a_local_card(run)
    manifest = RunFolder.load(run).manifest

    assert manifest.is_free  # the forgery is what it should be

    board = board_checked.make_board(tmp_path / "board", market, run)
    board_checked.submit(board, run)
    report = check_board(board, load_plugins(), CheckOptions(today="2126-01-01", record=False))
    found = [(finding.rule, finding.message) for finding in report.findings]

    assert ("provenance", f"{IS_REMOTE}, so its calls must be recorded and counted") in found
    assert report.checked == ()

    words = (
        f"leaderboard submit {run} --board {board} --submitter Us --contact team@example.org"
        " --attempts 1 --cutoff 2023-12-31 --cutoff-source card"
    )
    done = CliRunner().invoke(cli, words.split())

    assert done.exit_code != 0, done.output
    assert IS_REMOTE in " ".join(f"{done.output} {done.exception}".split())
