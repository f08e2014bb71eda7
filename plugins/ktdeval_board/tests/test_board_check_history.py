"""What a pull request may change: it adds submissions, and everything that the check believes stays
the maintainers'.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ktdeval.registry import load_plugins
from ktdeval.testing import error_lines, errors_of
from ktdeval.values import Finding
from ktdeval_board.checking.check import CheckOptions, check_board, check_changes
from ktdeval_board.checking.findings import make_finding
from ktdeval_board.layout import CardFiles
from support.board.board_bad import TODAY, BadBoard, Good, make_good
from support.board.board_repository import commit, git, propose

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Good:
    """One real run, and the rules of a board that takes it."""
    return make_good(
        tmp_path_factory.mktemp("good") / "run", windows=("2024-03-01:2024-03-08",), seeds=1
    )


@pytest.fixture
def board(good: Good, tmp_path: Path) -> BadBoard:
    """A board in a repository: one card with a verdict on `main`, and a branch that is checked
    out.
    """
    board = BadBoard(tmp_path / "board", good)
    board.add()
    board.add_verdict()
    (board.folder / ".github" / "workflows").mkdir(parents=True)
    (board.folder / ".github" / "workflows" / "board.yml").write_text("on: pull_request\n")
    propose(board.folder)

    return board


def changes_on(board: BadBoard) -> list[tuple[str, str]]:
    """Path and rule of each finding, in order."""
    found = check_changes(board.folder, "main")
    return sorted((finding.path, finding.rule) for finding in found)


def findings_on(board: BadBoard) -> list[tuple[str, str]]:
    """Path and rule of each finding, after a commit and, equally, before one."""
    before = changes_on(board)
    commit(board.folder)
    after = changes_on(board)

    assert set(before) <= set(after)

    return sorted(set(after))


def submit_another(board: BadBoard) -> None:
    """Add a submission of another model."""
    board.forge(lambda card: card["model"].update(name="openai/gpt-4.1"), stored="elsewhere")


@pytest.mark.exhaustive
def test_proposal_that_only_adds_a_submission_stays_valid_after_main_moves(
    board: BadBoard,
) -> None:
    assert findings_on(board) == []

    git(board.folder, "checkout", "--quiet", "main")
    (board.folder / "board.yaml").write_text(
        (board.folder / "board.yaml").read_text() + "# a comment\n"
    )
    commit(board.folder)
    git(board.folder, "checkout", "--quiet", "proposal")
    submit_another(board)
    submit_another(board)
    (board.folder / "imported").mkdir()
    (board.folder / "imported" / "x.json").write_text("{}")

    assert findings_on(board) == []


@pytest.mark.exhaustive
def test_everything_else_is_the_maintainers(board: BadBoard) -> None:
    paths = (
        "board.yaml",
        "errata.yaml",
        "README.md",
        ".github/workflows/board.yml",
        ".github/workflows/own.yml",
        ".gitattributes",
        ".gitignore",
        "conftest.py",
        "sitecustomize.py",
        "ktdeval_board/__init__.py",
        "series/x.json",
        "decisions/x.json",
        "markets/market.json",
        "schemas/submission-v1.json",
        "Cards/x.json",
        "--upload-pack=x",
        "a\nb",
        "sp ace",
    )

    for path in paths:
        target = board.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("theirs now\n")

    assert findings_on(board) == sorted(
        (make_finding(path, "", "").path, "foreign-file") for path in paths
    )

    shutil.rmtree(board.folder / "cards")
    (board.folder / "cards").write_text("theirs now\n")

    assert ("cards", "foreign-file") in findings_on(board)


def test_a_verdict_of_ones_own_is_refused_and_what_the_check_wrote_is_none(
    board: BadBoard,
) -> None:
    verdict = board.folder / "verdicts" / f"{board.card_id}.json"
    board.edit(verdict, lambda value: value.update(tier="re-run"))
    changed = (board.where(verdict), "foreign-file")

    assert findings_on(board) == [changed]

    submit_another(board)
    verdict = board.add_verdict(tier="re-run")

    # What the check wrote before a commit is not the proposal's.
    assert changes_on(board) == [changed]
    assert findings_on(board) == sorted([changed, (board.where(verdict), "verdict")])


Change = Callable[[BadBoard, CardFiles], object]


@pytest.mark.parametrize(
    "change",
    [
        lambda board, files: files.card.unlink(),
        lambda board, files: board.edit(files.card, lambda card: card.update(seeds=[])),
        lambda board, files: board.edit(
            files.submission, lambda value: value["attempts"].update(runs=1000)
        ),
        lambda board, files: board.edit(files.records, lambda value: value.update(files=[])),
        lambda board, files: shutil.rmtree(board.records_folder),
        lambda board, files: files.card.rename(files.card.with_name(f"{'0' * 64}.json")),
        lambda board, files: files.card.chmod(0o755),
    ],
)
def test_an_old_submission_is_neither_changed_nor_deleted(board: BadBoard, change: Change) -> None:
    change(board, board.files)
    assert {rule for path, rule in findings_on(board) if board.card_id in path} >= {"foreign-file"}


def test_links_and_submodules_are_found_by_git_even_if_not_checked_out(
    board: BadBoard,
) -> None:
    (board.folder / "cards" / "x").symlink_to("/etc/passwd")
    assert findings_on(board) == [("cards/x", "link")]

    head = git(board.folder, "rev-parse", "HEAD").strip()
    git(board.folder, "update-index", "--add", "--cacheinfo", f"160000,{head},records/sub")
    git(board.folder, "commit", "--quiet", "--message", "submodule")

    assert ("records/sub", "link") in changes_on(board)


def test_executable_records_and_old_files_that_become_links_are_found(
    board: BadBoard,
) -> None:
    path = board.folder / "records" / "x.sh"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)

    assert findings_on(board) == [("records/x.sh", "executable")]

    board.files.card.unlink()
    board.files.card.symlink_to("/etc/passwd")

    assert {
        rule for where, rule in findings_on(board) if where == board.where(board.files.card)
    } == {"foreign-file", "link"}


def test_a_board_in_a_folder_of_a_repository_is_looked_at_alone(good: Good, tmp_path: Path) -> None:
    board = BadBoard(tmp_path / "whole" / "boards" / "practice", good)
    propose(tmp_path / "whole")
    (tmp_path / "whole" / "code.py").write_text("x = 1\n")
    board.add()

    assert changes_on(board) == []

    (board.folder / "board.yaml").write_text("theirs")
    commit(tmp_path / "whole")

    assert changes_on(board) == [("board.yaml", "foreign-file")]


def test_nothing_that_the_repository_configures_is_started(
    board: BadBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {canary}\n")
    program.chmod(0o755)

    for name in (
        "core.fsmonitor",
        "diff.external",
        "core.pager",
        "diff.evil.textconv",
        "diff.evil.command",
    ):
        git(board.folder, "config", name, str(program))

    hook = board.folder / ".git" / "hooks" / "post-index-change"
    shutil.copy(program, hook)
    for name in ("GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_DIR", "GIT_SSH"):
        monkeypatch.setenv(name, str(program))

    (board.folder / ".gitattributes").write_text("* diff=evil\n")
    board.edit(board.files.card, lambda card: card.update(seeds=[]))

    assert {rule for _, rule in changes_on(board)} == {"foreign-file"}
    assert not canary.exists()


def test_a_history_that_can_not_be_compared_is_one_line(
    board: BadBoard, good: Good, tmp_path: Path
) -> None:
    def changes(since: str) -> None:
        check_changes(board.folder, since)

    text = errors_of(changes, "nowhere", "--output=/tmp/x", "main\n", "")

    git(board.folder, "checkout", "--quiet", "--orphan", "stranger")
    (board.folder / "README.md").write_text("of one's own\n")
    commit(board.folder)

    text += errors_of(changes, "main")

    alone = BadBoard(tmp_path / "alone", good)
    text += error_lines(lambda: check_changes(alone.folder, "main"))

    assert text.replace(str(tmp_path), "FOLDER") == snapshot("""\
UsageError: --since: git knows no revision 'nowhere' in FOLDER/board; fetch it first (in CI: fetch-depth: 0)
UsageError: --since: '--output=/tmp/x' is not a revision; give one such as origin/main
UsageError: --since: 'main\\\\n' is not a revision; give one such as origin/main
UsageError: --since: git knows no revision '' in FOLDER/board; fetch it first (in CI: fetch-depth: 0)
UsageError: --since: HEAD and 'main' have no common history; fetch the whole history (in CI: fetch-depth: 0)
UsageError: --since: FOLDER/alone is not in a git repository that git trusts (see safe.directory)
""")


def test_a_forged_verdict_does_not_stop_the_check_of_its_card(board: BadBoard) -> None:
    submit_another(board)
    board.add_verdict(tier="re-run")
    commit(board.folder)
    report = check_board(
        board.folder, load_plugins(()), CheckOptions(today=TODAY, since="main", record=False)
    )

    assert "verdict" in {finding.rule for finding in report.findings}
    assert board.card_id not in {card.card_id for card in report.checked}
    assert all(isinstance(finding, Finding) for finding in report.findings)
