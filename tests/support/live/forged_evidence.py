"""Forgeries of evidence, cards and files, and of stamps where they are required."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from support.live.forgery_kinds import (
    DAY,
    FIRST,
    ISSUED,
    LAST,
    LATE,
    NEXT,
    Forgery,
    Found,
    afterwards,
    set_to,
    swap,
)
from support.live.live_forger import Forger, Plain, commit_all


def _evidence(name: str, change: Callable[[list[Plain]], list[Plain]], found: Found) -> None:
    afterwards(name, found)(lambda forger: forger.edit_published(change))


def _line(number: int, **fields: object) -> Callable[[list[Plain]], list[Plain]]:
    def change(lines: list[Plain]) -> list[Plain]:
        lines[number].update(fields)
        return lines

    return change


def _unpublish(lines: list[Plain]) -> list[Plain]:
    return [line for line in lines if not "2024-06-03T20" <= line["at"] < "2024-06-04T20"]


_evidence("a publication before its entry", _line(2, at="2024-06-01T00:00:00Z"), (ISSUED, ""))
_evidence("another head", _line(2, head="0" * 64), (ISSUED, ""))
_evidence("another commit", _line(2, commit="0" * 40), (ISSUED, ""))
_evidence("publications in another order", lambda lines: lines[::-1], (ISSUED, ""))
_evidence("publications left out", _unpublish, (ISSUED, DAY))
_evidence("no publication", lambda lines: [], (ISSUED, FIRST))
_evidence("a push without a remote", _line(2, pushed=True), (ISSUED, ""))
_evidence("a stamp that is no file", _line(2, stamp="stamps/none.tsr"), (ISSUED, ""))
_evidence("a stamp from elsewhere", _line(2, stamp="../stamps/000000.tsr"), (ISSUED, ""))
_evidence("the time of a stamp", _line(2, stamped_at="2024-05-31T20:15:30Z"), (ISSUED, ""))


@afterwards("a history that is gone", (ISSUED, ""))
def _(forger: Forger) -> None:
    shutil.rmtree(forger.path / ".git")


@afterwards("a history without the commits", (ISSUED, ""))
def _(forger: Forger) -> None:
    shutil.rmtree(forger.path / ".git/refs/heads")
    (forger.path / ".git/refs/heads").mkdir()


@afterwards("commits made anew", (ISSUED, ""))
def _(forger: Forger) -> None:
    before = (forger.path / "published.jsonl").read_bytes()
    forger.links[2]["body"]["record"] = "0" * 64
    commit_all(forger.path, "2024-06-08T00:15:00Z")
    chain = (forger.path / "chain.jsonl").read_bytes()
    (forger.path / "chain.jsonl").write_bytes(chain[: chain.index(b"\n") + 1])
    commit = commit_all(forger.path, "2024-06-08T00:15:00Z")
    (forger.path / "chain.jsonl").write_bytes(chain)
    (forger.path / "published.jsonl").write_bytes(before)
    forger.edit_published(_line(5, commit=commit))


# --- cards


def _card(name: str, change: Callable[[Plain], None]) -> None:
    afterwards(name, ("card", ""))(lambda forger: forger.edit_json("cards/chance-us.json", change))


def _figure(card: Plain) -> None:
    card["results"]["held"]["value"] += 0.01


def _shifted(card: Plain) -> None:
    for name in ("held", "flat", "low", "high"):
        card["results"][name]["value"] += 0.01


_card("a return", _figure)
_card("all returns", _shifted)
_card("the return of an index", lambda card: card["results"]["index"].update(value=-0.5))
_card("an interval", lambda card: card["results"]["over_index"]["symmetric"].update(mean=99.0))
_card("labels", lambda card: card.update(labels=[]))
_card("a gap left out of a card", lambda card: card["days"].update(gaps={}, decided=5))
_card("a cause of a card", lambda card: card["days"].update(gaps={"missed": 1}))
_card("a model of a card", lambda card: card["model"].update(name="openai/gpt-4.1"))
_card("the head of a card", lambda card: card["test"].update(head="0" * 64))
_card("evidence of a card", lambda card: card["evidence"].update(pushed=9))
_card("a level of evidence", lambda card: card["evidence"].update(level="pushed"))
_card("an entrant of a card", lambda card: card.update(entrant="investor"))
_card("least activity of a card", lambda card: card.update(least_activity=0.0))


@afterwards("a card of nobody", ("card", ""))
def _(forger: Forger) -> None:
    shutil.copy(forger.path / "cards/chance-us.json", forger.path / "cards/nobody-us.json")


# --- files


@afterwards("data that the chain lacks", ("file", NEXT))
def _(forger: Forger) -> None:
    shutil.copy(forger.path / f"data/us/{NEXT}-0.json", forger.path / f"data/us/{NEXT}-1.json")


@afterwards("a record that the chain lacks", ("file", LATE))
def _(forger: Forger) -> None:
    records = forger.path / "records/chance/us"
    shutil.copy(records / f"{NEXT}.json", records / f"{LATE}.json")


@afterwards("a record that is a link", ("file", ""))
def _(forger: Forger) -> None:
    path = forger.path / f"records/chance/us/{NEXT}.json"
    path.rename(forger.path.parent / "elsewhere.json")
    path.symlink_to(forger.path.parent / "elsewhere.json")


@afterwards("a folder that is a link", ("file", ""))
def _(forger: Forger) -> None:
    path = forger.path / "records"
    path.rename(forger.path.parent / "elsewhere")
    path.symlink_to(forger.path.parent / "elsewhere")


@afterwards("a record that is a pipe", ("file", ""))
def _(forger: Forger) -> None:
    path = forger.path / f"records/chance/us/{NEXT}.json"
    path.unlink()
    os.mkfifo(path)


def stamp_files(path: Path) -> list[str]:
    """Return the names of the stamps that publications of a test name."""
    lines = (path / "published.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["stamp"] for line in lines]


# --- stamps


def _swap_stamps(forger: Forger) -> None:
    names = stamp_files(forger.path)
    swap(forger.path, names[2], names[3])


def _drop_stamps(lines: list[Plain]) -> list[Plain]:
    return [{**line, "stamp": None, "stamp_sha256": None, "stamped_at": None} for line in lines]


def _stamp_late(forger: Forger) -> None:
    """Publish a decision after its cutoff, and say that it was before."""
    forger.edit_record(LAST, set_to("overall_reason", "as was to be seen"))
    forger.rebuild()
    forger.edit_published(_backdated)


def _backdated(lines: list[Plain]) -> list[Plain]:
    return [{**line, "stamped_at": line["at"]} for line in lines]


def _not_required(forger: Forger) -> None:
    """Leave the authority out of the plan."""
    forger.edit_plan(lambda plan: plan["publish"].update(stamp=None))
    for plain, _ in forger.published:
        plain.update(stamp=None, stamp_sha256=None, stamped_at=None)

    forger.rebuild()
    shutil.rmtree(forger.path / "stamps")


STAMP_FORGERIES = (
    Forgery("stamps swapped", _swap_stamps, (ISSUED, "")),
    Forgery("stamps left out", lambda forger: forger.edit_published(_drop_stamps), (ISSUED, "")),
    Forgery("a stamp backdated", _stamp_late, (ISSUED, "")),
    Forgery(
        "a stamp without its file",
        lambda forger: (forger.path / stamp_files(forger.path)[4]).unlink(),
        (ISSUED, ""),
    ),
)

AUTHORITY_LEFT_OUT = Forgery("the authority left out of the plan", _not_required, None)
