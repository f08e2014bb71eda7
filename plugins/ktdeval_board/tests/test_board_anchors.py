"""Anchored runs on a board: heads that it holds find the run that was rewound."""

from __future__ import annotations

import hashlib
import json
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktdeval.errors import UsageError
from ktdeval.runner import RunFolder
from ktdeval_board.anchored_heads import PublishedHead
from ktdeval_board.board_entries import load_board
from ktdeval_board.checking.check import CheckOptions, check_board, check_changes
from ktdeval_board.layout import BoardFolder
from ktdeval_board.publish_head import publish_head
from ktdeval_board.ranking.table import rank_division
from ktdeval_board.redacted_records import Redactor
from support.board.board_keys import confirm, entry_of, findings, first, force, run_under, submit
from support.board.board_repository import propose
from support.board.board_runs import (
    TELLER,
    TODAY,
    change_rules,
    make_run,
    plugins,
    printed,
    submit as send,
)
from support.board.board_teller import SAYS

pytestmark = pytest.mark.slow

MOMENTUM = "builtin/momentum"
LINES = 8


@pytest.fixture(scope="module")
def anchored(governed: Path, market: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the registered system that keeps anchors, without time stamps."""
    board = governed / "board"
    out = tmp_path_factory.mktemp("anchored") / "run"
    return run_under(board, first(board), out, market, anchor="board")


@pytest.fixture
def board(governed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(governed / "board", tmp_path / "board"))


@pytest.fixture
def run(anchored: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(anchored, tmp_path / "own" / "run"))


def publish_early(board: Path, run: Path, tmp_path: Path, lines: int = LINES) -> PublishedHead:
    """Publish the head that the run had after some lines, when it was still going on."""
    going_on = Path(shutil.copytree(run, tmp_path / "going-on"))
    path = going_on / "anchors.jsonl"
    path.write_text("".join(path.read_text().splitlines(True)[:lines]))
    return publish_head(board, RunFolder.load(going_on), TODAY)


def anchor_messages(board: Path) -> list[str]:
    return [message for rule, message in findings(board) if rule == "anchor"]


def rewind(board: Path, run: Path, market: Path, anchor: str | None = "board") -> Path:
    """Delete all that a run left, and run the same command again."""
    shutil.rmtree(run)
    return run_under(board, first(board), run, market, anchor=anchor, seeds=1)


def test_run_whose_heads_the_board_holds_is_taken(board: Path, run: Path, tmp_path: Path) -> None:
    published = publish_early(board, run, tmp_path)
    assert published.where == f"anchors/{first(board).id}/{published.head.head}.json"
    assert submit(board, run).missing == ()
    assert findings(board) == []

    entry = entry_of(confirm(board), MOMENTUM)
    assert entry.anchored == "1 head on this board"


def test_anchored_run_is_executed_again(board: Path, run: Path) -> None:
    publish_head(board, RunFolder.load(run), TODAY)
    assert submit(board, run).missing == ()
    report = check_board(board, plugins(), CheckOptions(today=TODAY))

    assert report.findings == ()
    assert [each.tier for each in report.checked] == ["re-executed"]


def forget_a_line(run: Path) -> None:
    """Leave a line out, with all hashes after it made anew, as whoever has the code can."""
    from ktdeval.runner.records.anchor_chain import ChainLink, link_hash, load_anchors
    from ktdeval.values import encode_canonical

    path = run / "anchors.jsonl"
    previous = "0" * 64
    lines = []
    for number, link in enumerate(load_anchors(path).links):
        if number == LINES - 2:
            continue
        made = ChainLink(previous=previous, body=link.body)
        previous = link_hash(made)
        lines.append(encode_canonical(made) + "\n")
    path.write_text("".join(lines))


def test_run_that_was_rewound_after_a_head_was_published_is_refused(
    board: Path, run: Path, tmp_path: Path
) -> None:
    publish_early(board, run, tmp_path)
    forget_a_line(run)
    force(board, run)
    (message,) = anchor_messages(board)
    assert "which the submitted chain does not contain" in message


def test_rewound_run_without_a_chain_is_refused_by_the_boards_copy(
    board: Path, run: Path, market: Path, tmp_path: Path
) -> None:
    publish_early(board, run, tmp_path)
    again = rewind(board, run, market, anchor=None)
    force(board, again)
    (message,) = anchor_messages(board)
    assert "the card's records have no anchors.jsonl" in message


def test_without_a_copy_nothing_finds_the_rewound_run(board: Path, run: Path, market: Path) -> None:
    again = rewind(board, run, market)
    assert submit(board, again).missing == ()
    assert findings(board) == []
    assert entry_of(confirm(board), MOMENTUM).anchored == ""


# -- the rule


@pytest.fixture
def demanding(board: Path) -> Path:
    """The board, which requires anchors."""
    change_rules(board, ('anchors: "optional"', "anchors: required"))
    return board


def test_division_that_requires_anchors_names_the_commands(demanding: Path, governed: Path) -> None:
    force(demanding, governed / "runs" / "run")
    (message,) = anchor_messages(demanding)
    assert "requires anchors, and the card's records have none; run with `ktdeval run" in message
    assert "`ktdeval leaderboard anchor RUN`" in message


def test_head_of_the_whole_run_alone_does_not_suffice(demanding: Path, run: Path) -> None:
    publish_head(demanding, RunFolder.load(run), TODAY)
    force(demanding, run)
    (message,) = anchor_messages(demanding)
    assert "no head between the run's first and last step" in message


def test_head_published_between_two_steps_suffices(
    demanding: Path, run: Path, tmp_path: Path
) -> None:
    publish_early(demanding, run, tmp_path)
    assert submit(demanding, run).missing == ()
    assert findings(demanding) == []


def test_baseline_of_the_board_needs_no_anchor(demanding: Path) -> None:
    printed("--on", TODAY, "baselines", demanding)
    assert anchor_messages(demanding) == []


# -- heads


def test_head_is_of_a_registered_run_that_keeps_anchors(
    board: Path, run: Path, governed: Path
) -> None:
    with pytest.raises(UsageError, match="keeps no anchors; begin a run with --anchor board"):
        publish_head(board, RunFolder.load(governed / "runs" / "run"), TODAY)

    shutil.rmtree(board / "registrations")
    with pytest.raises(UsageError, match="is no run of a registration of the board"):
        publish_head(board, RunFolder.load(run), TODAY)


def heads(board: Path) -> Iterator[Path]:
    yield from (board / "anchors").rglob("*.json")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("head", "b" * 64, "its path does not name its registration and its head"),
        ("anchored_on", "2099-01-01", "is in the future"),
        ("anchored_on", "2001-01-01", "is before the key was drawn"),
        ("links", 0, "expected"),
    ],
)
def test_malformed_head_is_refused(
    board: Path, run: Path, field: str, value: object, words: str
) -> None:
    publish_head(board, RunFolder.load(run), TODAY)
    (path,) = heads(board)
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    assert any(words in message for _, message in findings(board)), findings(board)


def test_head_added_together_with_its_card_is_refused(board: Path, run: Path) -> None:
    propose(board)
    publish_head(board, RunFolder.load(run), TODAY)
    assert check_changes(board, "main") == []

    assert submit(board, run).missing == ()
    refused = check_changes(board, "main")
    assert [finding.rule for finding in refused] == ["anchor"]
    assert "in a pull request of its own" in refused[0].message


def test_command_says_what_comes_next(board: Path, run: Path) -> None:
    text = printed("--on", TODAY, "anchor", run, "--board", board)
    assert "wrote anchors/" in text
    assert "git switch -c anchor-" in text


def test_anchored_run_comes_first_among_equals(board: Path, run: Path) -> None:
    publish_head(board, RunFolder.load(run), TODAY)
    assert submit(board, run).missing == ()
    confirm(board)
    loaded = load_board(board)
    table = rank_division(loaded, loaded.rules.divisions[0], lambda _: None)["all"]
    assert [row["anchored"] for row in table["rows"] if row["card"]] == ["1 head on this board"]
    assert BoardFolder(board).list_anchors(first(board).id) != []


# -- redaction, time stamps


def test_secret_in_an_anchored_record_can_not_be_replaced(
    board: Path, market: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SAYS, "horse-battery")
    redactor = Redactor({"SOME_PASSWORD": "horse-battery"})
    plain = make_run(tmp_path / "plain", market, model=TELLER)
    assert not any("replaced" in line for line in send(board, plain, redactor=redactor).missing)

    out = make_run(tmp_path / "anchored", market, model=TELLER, anchor="board")
    (line,) = [line for line in send(board, out, redactor=redactor).missing if "replaced" in line]
    assert "contain the value of $SOME_PASSWORD, which can't be replaced" in line
    assert "is not the one that was anchored" in line


def test_stamps_of_an_authority_that_the_board_lists_suffice(
    demanding: Path, market: Path, tmp_path: Path
) -> None:
    pytest.importorskip("rfc3161_client", reason="needs the extra live")
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl for an authority")

    from support.live.time_authority import authority

    with authority(tmp_path / "authority") as running:
        rule = running.certificate.parent / "authority.yaml"
        rule.write_text(f"url: {running.url}\ncertificate: root.pem\n")
        key = first(demanding)
        out = run_under(demanding, key, tmp_path / "stamped", market, anchor=str(rule))

    root = ssl.PEM_cert_to_DER_cert(running.certificate.read_text())
    listed = f"time_authorities: [{{name: Test, sha256: {hashlib.sha256(root).hexdigest()}}}]"
    (missing,) = submit(demanding, out).missing
    assert "stamped by an authority in time_authorities" in missing

    change_rules(demanding, ("time_authorities: []", listed))
    assert submit(demanding, out).missing == ()
    assert "time stamps, at most" in entry_of(confirm(demanding), MOMENTUM).anchored
