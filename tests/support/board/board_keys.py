"""Boards that draw mask keys: systems registered, keys drawn, runs made under them, and what a
grinder would write by hand.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ktdeval.cards import PrivateKey
from ktdeval.runner import DrawnKey, RegisteredSystem, Registrant, Registration, rescore
from ktdeval.values import dumps_pretty, loads_strict, to_plain
from ktdeval_board.board_entries import BoardEntry, LoadedBoard, load_board
from ktdeval_board.checking.content import check_content, check_files
from ktdeval_board.errata import load_errata
from ktdeval_board.layout import BoardFolder
from ktdeval_board.ranking.column_texts import why_unranked
from ktdeval_board.redacted_records import Redactor
from ktdeval_board.register import RegisterRequest, RegistrationResult, draw_keys, register
from ktdeval_board.rules import load_rules
from ktdeval_board.submit import Outcome
from support.board import board_checked, board_runs
from support.board.board_cards import made_on, put_json, verdict_of
from support.board.board_runs import CLAIMS, DIVISION, TODAY, make_run, plugins

WHO = Registrant(name=CLAIMS.submitter, contact=CLAIMS.contact)
OTHER = Registrant(name="Another team", contact="other@example.org")


def request_of(model: str, who: Registrant = WHO, **options: Any) -> RegisterRequest:
    """The request to register a model in the division."""
    return RegisterRequest(DIVISION, {"model": model, **options}, who, TODAY)


def try_register(
    board: Path, model: str, who: Registrant = WHO, **options: Any
) -> RegistrationResult:
    """Register a system as the command does."""
    return register(board, request_of(model, who, **options), plugins(), Redactor({}))


def registered(board: Path, model: str, who: Registrant = WHO, **options: Any) -> Registration:
    """The registration of a system that the board takes."""
    done = try_register(board, model, who, **options)
    assert done.filed is not None, done.problems
    return done.filed.registration


def first(board: Path) -> Registration:
    """The registration that a governed board has from the beginning."""
    filed = load_board(board).registrations.filed
    (own,) = [each for each in filed if each.registration.system.model == "builtin/momentum"]
    return own.registration


def own_system(board: Path, **changes: Any) -> RegisteredSystem:
    """The system of that registration, with changes."""
    return msgspec.structs.replace(first(board).system, **changes)


def write_by_hand(board: Path, registration: Registration, /, **changes: Any) -> Registration:
    """Write a changed registration as somebody does who does not ask the command."""
    changed = msgspec.structs.replace(registration, **changes)
    path = BoardFolder(board).registration(changed.id)
    path.parent.mkdir(exist_ok=True)
    path.write_text(dumps_pretty(to_plain(changed)))

    return changed


def draw(board: Path) -> list[str]:
    """Draw all keys; ids of the registrations that got one."""
    return [each.id for each in draw_keys(board, TODAY).drawn]


def key_of(board: Path, registration: Registration) -> DrawnKey:
    """The key that the board drew."""
    return msgspec.json.decode(BoardFolder(board).key(registration.id).read_bytes(), type=DrawnKey)


def run_under(
    board: Path, registration: Registration, out: Path, market: Path, **changes: Any
) -> Path:
    """A run under the key that was drawn."""
    path = str(BoardFolder(board).key(registration.id))
    given = {
        "model": registration.system.model,
        "seeds": len(registration.seeds),
        "registration": path,
    }

    return make_run(out, market, **(given | changes))


def claim_registration(run: Path, registration_id: str) -> Path:
    """Let a finished run say that it was made under a registration, in its manifest and so on its
    card.
    """
    manifest = run / "manifest.json"
    manifest.write_text(
        dumps_pretty({**loads_strict(manifest.read_bytes()), "registration": registration_id})
    )

    for card in (run / "cards").glob("*.json"):
        card.unlink()  # which would stay as it is

    rescore(run, plugins(), {})

    return made_on(run, TODAY)


def submit(
    board: Path, run: Path, attempts: int = 1, key: PrivateKey | None = None, **claims: Any
) -> Outcome:
    """Submit a run to a board, without its check; `key` signs the card."""
    return board_runs.submit(
        board, run, msgspec.structs.replace(CLAIMS, attempts=attempts, **claims), key=key
    )


def force(board: Path, run: Path, **facts: Any) -> None:
    """Put a run's card on a board by hand, whatever `submit` would say of it."""
    claims = {
        "submitter": to_plain(WHO),
        "attempts": {"runs": 1},
        "submitted_on": TODAY,
        **facts,
    }
    board_checked.submit(board, run, **claims)


def findings(board: Path) -> list[tuple[str, str]]:
    """Rule and message of each finding on the files and documents of a board, as its check has them
    before it executes records.
    """
    rules = load_rules(board)
    refused, _ = check_content(board, rules, load_errata(board), TODAY)

    return [(finding.rule, finding.message) for finding in [*check_files(board, rules), *refused]]


def confirm(board: Path) -> LoadedBoard:
    """Put a verdict on each card, as the check does of cards in order, which takes seconds."""
    folder = BoardFolder(board)
    for files in folder.list_cards():
        put_json(folder.verdict(files.card_id), verdict_of(files.card_id, DIVISION))

    return load_board(board)


def entry_of(board: LoadedBoard, model: str) -> BoardEntry:
    """The card of a model."""
    (entry,) = [entry for entry in board.entries if entry.model == model]
    return entry


def why(board: LoadedBoard, model: str) -> list[str]:
    """Why the card of a model has no rank."""
    return why_unranked(entry_of(board, model), board, board.rules.divisions[0])
