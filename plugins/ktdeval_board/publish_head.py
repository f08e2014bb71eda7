"""Publish the current head of a run's anchors on a board, as a submitter does while the run goes
on.
"""

from __future__ import annotations

from pathlib import Path

from ktdeval.errors import UsageError, wrap_os_error
from ktdeval.runner import ANCHORS as CHAIN_FILE, RunFolder, load_anchors
from ktdeval.values import dumps_pretty, make_folder, to_plain, write_atomic
from ktdeval_board.anchored_heads import AnchoredHead, PublishedHead
from ktdeval_board.layout import BoardFolder


def publish_head(board: Path, run: RunFolder, today: str) -> PublishedHead:
    """Write the current head of a run, which may still go on, to a clone of its board.

    Raises UsageError if the run keeps no anchors or is not registered on this board, and StoreError
    if its chain is broken or the file can't be written.
    """
    folder = BoardFolder(board)
    path = run.path / CHAIN_FILE
    if not path.is_file():
        raise UsageError(f"{run.path}: keeps no anchors; begin a run with --anchor board")

    registration = run.manifest.registration
    if registration is None or not folder.registration(registration).is_file():
        raise UsageError(
            f"{run.path}: is no run of a registration of the board {board}; register first (`ktdeval"
            " leaderboard register`), then run with --registration keys/ID.json"
        )

    chain = load_anchors(path)
    if not chain.heads:
        raise UsageError(f"{run.path}: has recorded nothing yet; wait for its first step")

    head = AnchoredHead(
        schema_version=1,
        registration=registration,
        head=chain.head,
        links=len(chain.links),
        steps=sum(len(each) for each in chain.steps.values()),
        anchored_on=today,
    )
    target = folder.anchor(registration, head.head)
    with wrap_os_error(f"{target}: can't write"):
        make_folder(target.parent)
        write_atomic(target, dumps_pretty(to_plain(head)))

    return PublishedHead(folder.relative(target), head)
