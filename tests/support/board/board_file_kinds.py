"""Kinds of forged submissions, lists of records and files: names, links, executables, sizes, and
what is missing.
"""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

from ktdeval_board.rules import load_rules
from support.board.board_kinds import (
    Build,
    bad,
    edited,
    folder,
    forge,
    forged,
    full,
    linked,
    moved_out,
    of_task,
    path_in,
    verdict,
)
from support.board.forged_board import (
    Change,
    ForgedBoard,
    NotApplicableError,
    Value,
    setting,
)

# -- names
# --------------------------------------------------------------------------------------------------


def _into_another_models_folder(board: ForgedBoard) -> None:
    agent = board.files.card.parent
    target = agent.parent.parent / "nobody--another-model" / agent.name
    target.mkdir(parents=True)
    for path in list(board.files.card.parent.iterdir()):
        path.rename(target / path.name)


forged("model_name_of_a_thousand_signs", "name", setting("model", "name", to="m" * 1000))
forged("task_name_that_climbs", "task", of_task(name="../../.github/workflows"))
forged(
    "window_twice", "card", lambda card: card["windows"].append({**card["windows"][0], "days": 1})
)
PASSWD = setting("artefacts", "../../../etc/passwd", to="0" * 64)
bad("artefact_that_climbs", "records", "list", forge(PASSWD, renew=False))
full("card_in_another_models_folder", "path", "card", _into_another_models_folder)

# -- list of records
# --------------------------------------------------------------------------------------------------


def _without_files(part: str) -> Change:
    return lambda value: value.update(
        files=[entry for entry in value["files"] if part not in entry["path"]]
    )


edited(
    "record_listed_twice", "records", "list", lambda value: value["files"].append(value["files"][0])
)
edited("list_without_the_manifest", "records", "list", _without_files("mani"))
edited("list_without_an_artefact", "records", "list", _without_files("ledger"))
full(
    "records_here_that_are_not",
    "records",
    "list",
    lambda board: shutil.rmtree(board.records_folder),
)

# -- files
# --------------------------------------------------------------------------------------------------


def _task_folder_in_capitals(board: ForgedBoard) -> None:
    task = board.files.card.parents[2]
    task.with_name(task.name.upper()).mkdir()


def _pipe_in_its_place(board: ForgedBoard) -> None:
    path = path_in(board, "records/manifest.json")
    path.unlink()
    os.mkfifo(path)


def _socket_in_its_place(board: ForgedBoard) -> None:
    path = board.files.submission
    here = Path.cwd()
    path.unlink()

    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)  # the path of a socket is short
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)


def _truncated(pattern: str, limit: str) -> Build:
    """Files that are larger than a limit of the board: holes, of which nothing is stored."""

    def build(board: ForgedBoard) -> None:
        for path in board.records_folder.rglob(pattern):
            os.truncate(path, load_rules(board.folder).limits.bytes_of(limit) + 1)

    return build


MANIFEST = "records/manifest.json"
full(
    "card_that_is_a_link",
    "link",
    "card",
    lambda b: [b.files.card.unlink(), b.files.card.symlink_to("/etc/passwd")],
)
full(
    "link_loop",
    "link",
    "cards/loop",
    lambda b: (b.folder / "cards" / "loop").symlink_to(b.folder / "cards"),
)
full("records_behind_a_link", "link", "records/episodes", moved_out("records/episodes"))
full("cards_behind_a_link", "link", "cards", moved_out("cards"))
full("link_at_the_root", "link", "site", linked("site", "/"))
full("link_among_what_the_board_wrote", "link", "series/x.json", linked("series/x.json"))
full("record_that_is_a_pipe", "special", MANIFEST, _pipe_in_its_place)
full("submission_that_is_a_socket", "special", "submission", _socket_in_its_place)
full(
    "executable_record", "executable", MANIFEST, lambda board: path_in(board, MANIFEST).chmod(0o755)
)
full("executable_card", "executable", "card", lambda board: board.files.card.chmod(0o755))
for name, rule, path, said in (
    (
        "folders_too_deep",
        "foreign-file",
        "cards/deep/er/and/deeper/still",
        "cards/deep/er/and/deeper",
    ),
    ("name_that_is_not_ascii", "path", "cards/na\u00efve", ""),
    ("name_that_is_not_utf8", "path", "cards/\udcff", "cards/\\udcff"),
    ("name_with_a_line_break", "path", "cards/a\nb", "cards/a\\nb"),
    ("name_that_is_an_option", "path", "cards/-rf", ""),
    ("records_of_no_card", "records", "records/" + "b" * 64, ""),
):
    full(name, rule, said or path, folder(path))
full("record_larger_than_is_taken", "size", "records", _truncated("*.zst", "file_mb"))
full("records_larger_together_than_is_taken", "size", "records", _truncated("*.zst", "records_mb"))
full("name_that_differs_by_case_alone", "case", "cards", _task_folder_in_capitals)
full("verdict_on_another_card", "verdict", "verdicts", verdict(card="0" * 64))
full("verdict_of_no_schema", "verdict", "verdicts", verdict(tier="the best"))

# -- submission
# --------------------------------------------------------------------------------------------------


def _with_an_early_cutoff(card: Value) -> None:
    days = {
        window["name"]: {"before": 0, "across": 0, "after": window["days"]}
        for window in card["windows"]
    }
    card["knowledge_cutoff"] = {
        "date": "2010-06",
        "confidence": "given",
        "source": "--knowledge-cutoff",
        "windows": days,
    }


def _after_the_release(value: Value) -> None:
    value["model"].update(released_on="2000-03-01", cutoff_date="2000-06-01")


def _without_a_card(board: ForgedBoard) -> None:
    board.files.card.unlink()
    board.files.records.unlink()
    shutil.rmtree(board.records_folder)


def _before_the_board_began(board: ForgedBoard) -> None:
    if not load_rules(board.folder).opened_on:
        raise NotApplicableError("the board does not say when it began")
    board.edit(board.files.submission, setting("submitted_on", to="1999-12-31"))


edited("cut_off_after_the_release", "cutoff", "submission", _after_the_release)
full("day_before_the_board_began", "date", "submission", _before_the_board_began)
full("cut_off_that_the_card_does_not_say", "cutoff", "submission", forge(_with_an_early_cutoff))
full("no_submission", "missing", "submission", lambda board: board.files.submission.unlink())
full("no_list", "missing", "list", lambda board: board.files.records.unlink())
full(
    "submission_without_a_card", "foreign-file", "submission",
    _without_a_card,
)  # fmt: skip
