"""Kinds of forged submissions, each made of a sound one: what is done, the rule that refuses it, and the file that is named.

Those that differ from it by one value, or by one file that has no place there, are rows of the YAML file beside this module. A new
kind is one more call of `bad`, `full`, `forged`, `edited` or `two`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ktdeval_board.selftest.specimen import Change, NotApplicableError, Specimen

Build = Callable[[Any], object]  #: Does something to a board, a `Specimen`


class Kind(NamedTuple):
    """A kind of forgery."""

    build: Build  #: what is done to an empty board
    rule: str  #: rule of the check that refuses it
    named: str  #: file that the finding names: `card`, `submission`, `list`, `records`, or a path of the board


KINDS: dict[str, Kind] = {}
"""Kinds of forgeries by their names, in the order in which they are tried."""


def bad(name: str, rule: str, named: str, *steps: Build) -> None:
    """Note what is done to an empty board."""
    KINDS[name] = Kind(lambda board: [step(board) for step in steps], rule, named)


def full(name: str, rule: str, named: str, *steps: Build) -> None:
    """Note what is done to a board with the sound submission."""
    bad(name, rule, named, Specimen.add, *steps)


def forged(name: str, rule: str, change: Change, renew: bool = True) -> None:
    """Note a card with a change after which every hash, id and total was renewed."""
    bad(name, rule, "card", forge(change, renew=renew))


def edited(name: str, rule: str, named: str, change: Change) -> None:
    """Note the sound submission with a change of its submission or its list."""
    part = "submission" if named == "submission" else "records"
    full(name, rule, named, lambda board: board.edit(getattr(board.files, part), change))


# -- steps -----------------------------------------------------------------------------------------------------------------


def forge(change: Change, **where: Any) -> Build:
    """Return the making of a card with a change."""
    return lambda board: board.forge(change, **where)


def path_in(board: Specimen, path: str) -> Path:
    """A path of the board; below `records/` it is one of the card's records."""
    made = board.folder / path.replace("records/", f"records/{board.card_id}/", 1)
    made.parent.mkdir(parents=True, exist_ok=True)
    return made


def file_with(path: str, text: str) -> Build:
    """Return the writing of a file that has no place there."""
    return lambda board: path_in(board, path).write_text(text)


def folder(path: str) -> Build:
    """Return the making of a folder."""
    return lambda board: (board.folder / path).mkdir(parents=True)


def linked(path: str, to: str = "/etc/passwd") -> Build:
    """A link, in the place of the file that is there."""

    def build(board: Specimen) -> None:
        place = path_in(board, path)
        place.unlink(missing_ok=True)
        place.symlink_to(to)

    return build


def moved_out(path: str) -> Build:
    """A link in the place of a folder, which lies outside of the board now."""

    def build(board: Specimen) -> None:
        outside = board.folder.parent / "outside"
        path_in(board, path).rename(outside)
        path_in(board, path).symlink_to(outside)

    return build


def rewritten(old: str, new: str) -> Build:
    """Other words in the text of the sound card; it gets the name that its bytes ask for."""

    def build(board: Specimen) -> None:
        text = board.files.card.read_text()
        if old not in text:
            raise NotApplicableError(f"the card does not hold {old!r}")
        board.rewrite(text.replace(old, new, 1).encode("utf-8", "surrogatepass"))

    return build


def verdict(**fields: Any) -> Build:
    """Return the writing of a verdict on the card that was added last."""
    return lambda board: board.add_verdict(**fields)


def of_task(**fields: Any) -> Change:
    """Return the change of fields of a card's task, and of its config with them."""
    return lambda card: [part.update(fields) for part in (card["task"], card["task"]["config"])]
