"""Rules for the changes in a pull request: a submission may only add files, and only maintainers
may change anything else.

The other checks trust verdicts, rules and errata, so a submission must not change those files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ktdeval.errors import UsageError
from ktdeval.stores import Git, git_around
from ktdeval_board.checking.files import SUBMITTED, WRITTEN
from ktdeval_board.checking.findings import Stage, printable, rule
from ktdeval_board.layout import ANCHORS, CARDS, KEYS, VERDICTS

_LINK = "120000"
_SUBMODULE = "160000"
_EXECUTABLE = "100755"
_PLAIN = "100644"
_DIFF = (
    *(
        "diff",
        "--raw",
        "-z",
        "--relative",
        "--no-renames",
        "--no-abbrev",
    ),
    "--ignore-submodules=dirty",
)
_VERBS = {"M": "changes", "D": "deletes", "T": "changes the type of"}


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file that differs from the merge base."""

    how: str  #: git's letter for the kind of change
    mode: str  #: current mode of the file
    where: str  #: path of the file, relative to the board
    has_card: bool = False  #: whether the same pull request adds a card


def changes_since(folder: Path, since: str) -> list[FileChange]:
    """List the files that differ from the merge base of this branch and `since`.

    Uncommitted files are included, so a submission can be checked before it is committed; files
    that the check itself writes are excluded. Raises UsageError if git is missing, the folder is
    not in a repository, or the revision does not exist.
    """
    git = git_around(folder)
    if git is None:
        raise UsageError(
            f"--since: {folder} is not in a git repository that git trusts (see safe.directory)"
        )

    changes = list(_changes_since_base(git, folder, _merge_base(git, folder, since)))
    if any(change.where.startswith(f"{CARDS}/") for change in changes):
        return [replace(change, has_card=True) for change in changes]
    return changes


# -- rules on a change


@rule("link", Stage.CHANGES)
def _link(change: FileChange) -> Iterator[str]:
    if change.mode == _LINK:
        yield "is a symbolic link; replace it with the file itself"
    elif change.mode == _SUBMODULE:
        yield "is a submodule; replace it with the files themselves"


@rule("executable", Stage.CHANGES)
def _executable(change: FileChange) -> Iterator[str]:
    if change.mode == _EXECUTABLE and change.how == "A":
        yield "is executable; remove the permission (git update-index --chmod=-x)"


@rule("foreign-file", Stage.CHANGES)
def _foreign_file(change: FileChange) -> Iterator[str]:
    if change.how != "A":
        verb = _VERBS.get(change.how, "changes")
        yield (
            f"the submission {verb} this file; a submission may only add files; maintainers "
            "change the rest"
        )
    elif not _is_below_submitted(change) and not _is_answer(change):
        yield _say_added()


@rule("verdict", Stage.CHANGES)
def _verdict(change: FileChange) -> Iterator[str]:
    if change.how == "A" and _is_verdict(change):
        yield _say_added()


@rule("drawn-key", Stage.CHANGES)
def _drawn_key(change: FileChange) -> Iterator[str]:
    if change.how == "A" and _is_key(change):
        yield (
            "the submission adds this file, but only the board draws keys, on its main branch "
            "(`ktdeval leaderboard draw`)"
        )


@rule("anchor", Stage.CHANGES)
def _anchor(change: FileChange) -> Iterator[str]:
    if change.how == "A" and change.has_card and change.where.startswith(f"{ANCHORS}/"):
        yield (
            "is added together with a card; a head is published while the run goes on, in a pull"
            " request of its own"
        )


def _is_below_submitted(change: FileChange) -> bool:
    folder, slash, _ = change.where.partition("/")
    return bool(slash) and folder in SUBMITTED


def _is_answer(change: FileChange) -> bool:
    """Return whether a file is a verdict or a drawn key. Only the board adds these files, and each
    kind has its own rule.
    """
    return _is_verdict(change) or _is_key(change)


def _is_key(change: FileChange) -> bool:
    return change.where.startswith(f"{KEYS}/")


def _is_verdict(change: FileChange) -> bool:
    return change.where.startswith(f"{VERDICTS}/")


def _say_added() -> str:
    return (
        f"the submission adds this file, but may only add to {', '.join(SUBMITTED)}; maintainers "
        "change the rest"
    )


# -- output of git


def _merge_base(git: Git, folder: Path, since: str) -> str:
    """Return the full object id of the commit at which the current branch left the other branch."""
    if since.startswith("-") or not since.isprintable():
        raise UsageError(
            f"--since: {printable(since)!r} is not a revision; give one such as origin/main"
        )

    named = ("--verify", "--quiet", "--end-of-options", f"{since}^{{commit}}")
    revision = git.answer("rev-parse", *named)
    if revision is None:
        raise UsageError(
            f"--since: git knows no revision {since!r} in {folder}; fetch it first (in CI:"
            " fetch-depth: 0)"
        )

    base = git.answer("merge-base", "--", revision.decode("ascii").strip(), "HEAD")
    if base is None:
        raise UsageError(
            f"--since: HEAD and {since!r} have no common history; fetch the whole history (in "
            "CI: fetch-depth: 0)"
        )

    return base.decode("ascii").split()[0]


def _changes_since_base(git: Git, folder: Path, base: str) -> Iterator[FileChange]:
    """Yield the committed changes, then the uncommitted ones, without files that the check itself
    writes.
    """
    yield from _differences(git, folder, (base, "HEAD"))
    new = git.answer("ls-files", "-z", "--others", "--exclude-standard", "--", ".")
    if new is None:
        raise UsageError(
            f"{folder}: git can't list the work tree; check that the checkout is complete"
        )

    changes = list(_differences(git, folder, ("HEAD",)))
    for path in new.split(b"\0"):
        if path:
            changes.append(FileChange("A", _PLAIN, os.fsdecode(path)))

    for change in changes:
        if change.where.partition("/")[0] not in WRITTEN:
            yield change


def _differences(git: Git, folder: Path, revisions: Sequence[str]) -> Iterator[FileChange]:
    """Yield files that differ between two revisions, or between a revision and the work tree."""
    raw = git.answer(*_DIFF, *revisions, "--", ".")
    if raw is None:
        raise UsageError(
            f"{folder}: git can't compare the work tree; check that the checkout is complete"
        )

    fields = raw.split(b"\0")
    for head, path in zip(fields[::2], fields[1::2], strict=False):
        _, mode, _, _, how = head.decode("ascii").split(" ")
        yield FileChange(how[:1], mode, os.fsdecode(path))
