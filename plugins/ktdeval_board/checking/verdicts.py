"""Verdicts: what a check found of a card, kept by the board beside what was derived from the card's records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ktdeval.api import JsonValue, Plugins, dumps_canonical, dumps_pretty, write_atomic
from ktdeval_board.checking.records import Evidence
from ktdeval_board.layout import BoardFolder

SCHEMA_VERSION = 1
_EXECUTED = ("re-executed", "re-run")

Verdict = Mapping[str, JsonValue]


def make_verdict(card_id: str, division: str, evidence: Evidence, on: str, plugins: Plugins) -> Verdict:
    """The verdict that evidence without findings leads to.

    Args:
        card_id: SHA-256 of the card's file.
        division: id of its division.
        evidence: what was found.
        on: day of the check, YYYY-MM-DD.
        plugins: the loaded plugins, whose distribution says which version of the suite checked.
    """
    info = plugins.info.get("ktdeval_board")
    return {
        "schema_version": SCHEMA_VERSION,
        "card": card_id,
        "division": division,
        "tier": evidence.tier,
        "checked_on": on,
        "suite_version": info.version if info is not None else "",
        "episodes": evidence.episodes,
        "steps": evidence.steps,
        "notes": list(evidence.notes),
        "rerun": None if evidence.rerun is None else dict(evidence.rerun),
    }


def settle(earlier: Verdict | None, new: Verdict) -> Verdict:
    """The verdict that stands when a card with one is checked again.

    The card's bytes are the same, so what was once shown of them stays shown: a check that could not execute the records, as the
    market is not on this machine, takes nothing back, and the maintainers' own run is not forgotten.
    """
    if earlier is None:
        return new
    if new["tier"] not in _EXECUTED and {**new, "checked_on": earlier["checked_on"]} == earlier:
        return earlier  # said once is enough, or every day would change the file
    if new["tier"] not in _EXECUTED and earlier["tier"] in _EXECUTED and new["rerun"] is None:
        return earlier
    if new["rerun"] is None and earlier["rerun"] is not None:
        tier = "re-run" if new["tier"] in _EXECUTED else new["tier"]
        return {**new, "tier": tier, "rerun": earlier["rerun"]}
    return new


def is_whole(folder: BoardFolder, card_id: str, verdict: Verdict, kind: str) -> bool:
    """Whether everything that belongs to a verdict is there, so that the card need not be checked again."""
    derived = (folder.series(card_id), folder.decisions(card_id))
    return kind != "trading" or verdict["tier"] not in _EXECUTED or all(path.is_file() for path in derived)


def write_findings(folder: BoardFolder, verdict: Verdict, evidence: Evidence) -> None:
    """Write a verdict, after what it rests on, so that a check that is cut short leaves no verdict without it.

    Raises:
        StoreError: a file can't be written.
    """
    card_id = str(verdict["card"])
    if evidence.series is not None:
        write_own(folder.series(card_id), dumps_canonical(evidence.series) + "\n")
    if evidence.decisions is not None:
        write_own(folder.decisions(card_id), dumps_canonical(evidence.decisions) + "\n")
    write_own(folder.verdict(card_id), dumps_pretty(verdict))


def write_own(path: Path, text: str) -> None:
    """Write a file of the board unless it is there with these very bytes.

    Raises:
        StoreError: it can't be written.
    """
    data = text.encode()
    if path.is_file() and not path.is_symlink() and path.read_bytes() == data:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, data)
