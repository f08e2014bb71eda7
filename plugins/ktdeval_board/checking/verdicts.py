"""Verdicts: what a check found of a card, kept by the board beside what was derived from the card's records."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ktdeval.jsonio import dumps_pretty, write_atomic
from ktdeval.registry import Plugins
from ktdeval.typed import encode_canonical, to_plain
from ktdeval_board.checking.records import Evidence
from ktdeval_board.derived import Verdict
from ktdeval_board.layout import BoardFolder

_REPLACE = msgspec.structs.replace


def make_verdict(card_id: str, division: str, evidence: Evidence, on: str, plugins: Plugins) -> Verdict:
    """Make the verdict that evidence without findings leads to."""
    info = plugins.info.get("ktdeval_board")
    return Verdict(
        card=card_id,
        division=division,
        tier=evidence.tier,  # type: ignore[arg-type]  # evidence never leaves a card unchecked
        checked_on=on,
        suite_version=info.version if info is not None else "",
        episodes=evidence.episodes,
        steps=evidence.steps,
        notes=evidence.notes,
        rerun=evidence.rerun,
    )


def settle(earlier: Verdict | None, new: Verdict) -> Verdict:
    """Return the verdict that stands when a card with one is checked again.

    The card's bytes are the same, so what was once shown of them stays shown: a check that could not execute the records, as the
    market is not on this machine, takes nothing back, and the maintainers' own run is not forgotten.
    """
    if earlier is None:
        return new
    if not new.is_executed and _REPLACE(new, checked_on=earlier.checked_on) == earlier:
        return earlier  # said once is enough, or every day would change the file
    if not new.is_executed and earlier.is_executed and new.rerun is None:
        return earlier
    if new.rerun is None and earlier.rerun is not None:
        return _REPLACE(new, tier="re-run" if new.is_executed else new.tier, rerun=earlier.rerun)
    return new


def is_whole(folder: BoardFolder, card_id: str, verdict: Verdict, is_trading: bool) -> bool:
    """Return whether everything that belongs to a verdict is there, so that the card need not be checked again."""
    derived = (folder.series(card_id), folder.decisions(card_id))
    return not is_trading or not verdict.is_executed or all(path.is_file() for path in derived)


def write_findings(folder: BoardFolder, verdict: Verdict, evidence: Evidence) -> None:
    """Write a verdict, after what it rests on, so that a check that is cut short leaves no verdict without it."""
    for path, document in ((folder.series(verdict.card), evidence.series), (folder.decisions(verdict.card), evidence.decisions)):
        if document is not None:
            write_own(path, encode_canonical(document) + "\n")
    write_own(folder.verdict(verdict.card), dumps_pretty(to_plain(verdict)))


def write_own(path: Path, text: str) -> None:
    """Write a file of the board unless it is there with these very bytes."""
    data = text.encode()
    if path.is_file() and not path.is_symlink() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, data)
