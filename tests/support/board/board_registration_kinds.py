"""Kinds of forged registrations and keys, on a board that draws the mask keys of the division."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import yaml

from ktdeval.cards import SIGNED_REGISTRATION, PrivateKey, sign_file, signature_path
from ktdeval.errors import UsageError
from ktdeval.runner import (
    DrawnKey,
    Question,
    RegisteredSystem,
    RegisteredTask,
    RegisteredWindow,
    Registrant,
    Registration,
    registered_call,
)
from ktdeval.values import to_plain
from ktdeval_board.layout import BoardFolder
from ktdeval_board.rules import RULES_FILE, load_rules
from support.board.board_kinds import bad, draw_keys
from support.board.forged_board import ForgedBoard, NotApplicableError, put_json

_OTHER_KEY = "5" * 32
_DAY = "2000-01-01"


@cache
def _holder() -> PrivateKey:
    """Return the key of a submitter. Raises NotApplicableError: nothing can sign here."""
    try:
        return PrivateKey.from_seed(bytes(range(32)))
    except UsageError as error:
        raise NotApplicableError(str(error)) from error


def _registration(board: ForgedBoard, **system: Any) -> Registration:
    """Return a registration that fits the sound card, but for fields of its system that are given."""
    card = board.original.card
    rules = load_rules(board.folder)
    submitter = board.original.submission["submitter"]
    task = card["task"]
    windows = []
    for each in card["windows"]:
        windows.append(RegisteredWindow(name=each["name"], first=each["first"], last=each["last"]))

    facts = {
        "model": card["model"]["name"],
        "model_args": card["model"]["args"],
        "agent": card["agent"]["name"],
        "agent_args": card["agent"]["args"],
        "call": registered_call(card["call"]),
    }

    return Registration(
        board=rules.name,
        division=board.original.division,
        task=RegisteredTask(name=task["name"], version=task["version"], hash=task["hash"]),
        snapshot=card["snapshot"]["id"],
        windows=tuple(windows),
        seeds=tuple(card["seeds"]),
        rules=card["rules"],
        system=RegisteredSystem(**{**facts, **system}),
        submitter=Registrant(name=submitter["name"], contact=submitter["contact"]),
        registered_on=rules.opened_on or _DAY,
    )


def _file(board: ForgedBoard, registration: Registration, key: str = "") -> str:
    """Write a registration, and its key if one is given; return its id."""
    folder = BoardFolder(board.folder)
    put_json(folder.registration(registration.id), to_plain(registration))
    if key:
        drawn = DrawnKey(
            id=registration.id,
            registration=registration,
            mask_key=key,
            drawn_on=registration.registered_on,
        )
        put_json(folder.key(registration.id), to_plain(drawn))

    return registration.id


def _under(
    make: Callable[[ForgedBoard], Registration], own_key: bool = True
) -> Callable[[ForgedBoard], None]:
    """Return the step that adds a card of a registration, under its key or under another one."""

    def build(board: ForgedBoard) -> None:
        key = board.original.card["mask_key"] if own_key else _OTHER_KEY
        registration_id = _file(board, make(board), key)
        board.add({**board.original.card, "registration": registration_id})

    return build


def _other_temperature(board: ForgedBoard) -> Registration:
    call = registered_call(board.original.card["call"])
    return _registration(board, call={**call, "temperature": 0.123})


def _other_contact(board: ForgedBoard) -> Registration:
    who = Registrant(name="nobody", contact="https://example.org/nobody")
    return msgspec.structs.replace(_registration(board), submitter=who)


def _key_without_its_registration(board: ForgedBoard) -> None:
    _file(board, _registration(board), board.original.card["mask_key"])
    card = dict(board.original.card)
    card.pop("registration", None)
    board.add(card)


def _edited(board: ForgedBoard) -> None:
    path = BoardFolder(board.folder).registration(_file(board, _registration(board)))
    put_json(path, to_plain(_other_temperature(board)))


_QUESTION = {"metric": "total_return", "effect": 0.01, "against": "zero", "alpha": 0.5}


def _asking(board: ForgedBoard, **changes: Any) -> Registration:
    """Return the registration with a question over all its windows, but for changed terms."""
    registration = _registration(board)
    windows = tuple(window.name for window in registration.windows)
    # As few windows as a board may have settle nothing; an interval that holds at all times may be
    # asked for with any number.
    terms = {**_QUESTION, "windows": windows, "looks": (len(windows),), "spending": "anytime"}
    return msgspec.structs.replace(registration, question=Question(**{**terms, **changes}))


def _question_edited(board: ForgedBoard) -> None:
    path = BoardFolder(board.folder).registration(_file(board, _asking(board)))
    put_json(path, to_plain(_asking(board, effect=0.02)))


def _question_edited_after_the_draw(board: ForgedBoard) -> None:
    """Exchange the question, with id and key: the key's file then stands for two registrations."""
    key = board.original.card["mask_key"]
    drawn = _file(board, _asking(board), key)
    other = _asking(board, effect=0.02)
    folder = BoardFolder(board.folder)
    folder.registration(drawn).unlink()
    put_json(folder.registration(other.id), to_plain(other))


def _second_question(board: ForgedBoard) -> None:
    _file(board, _asking(board), board.original.card["mask_key"])
    _file(board, _asking(board, effect=0.02))


def _question_in_the_key_alone(board: ForgedBoard) -> None:
    """Add a question to the key's copy of a registration that has none."""
    key = board.original.card["mask_key"]
    plain = _file(board, _registration(board), key)
    path = BoardFolder(board.folder).key(plain)
    drawn = DrawnKey(
        id=plain,
        registration=_asking(board),
        mask_key=key,
        drawn_on=_asking(board).registered_on,
    )
    put_json(path, to_plain(drawn))


def _question_over_other_windows(board: ForgedBoard) -> None:
    _file(board, _asking(board, windows=("no such window",), looks=(1,)))


def _registered_twice(board: ForgedBoard) -> None:
    _file(board, _registration(board), board.original.card["mask_key"])
    _file(board, _other_temperature(board))


def _deleted(board: ForgedBoard) -> None:
    BoardFolder(board.folder).registration(_file(board, _registration(board), _OTHER_KEY)).unlink()


def _with_key_of_submitter(board: ForgedBoard) -> None:
    """Let the board know a key of the submitter."""
    path = board.folder / RULES_FILE
    rules = yaml.safe_load(path.read_text(encoding="utf-8"))
    name = board.original.submission["submitter"]["name"]
    rules["submitter_keys"] = [{"name": name, "key": _holder().public.raw.hex()}]
    path.write_text(yaml.safe_dump(rules, sort_keys=False), encoding="utf-8")


def _unsigned(board: ForgedBoard) -> None:
    _file(board, _registration(board))


def _signature_of_another(board: ForgedBoard) -> None:
    folder = BoardFolder(board.folder)
    signed = folder.registration(_file(board, _other_temperature(board)))
    made = sign_file(signed, SIGNED_REGISTRATION, _holder())
    forged = folder.registration(_file(board, _registration(board)))
    made.rename(signature_path(forged))
    signed.unlink()


for name, rule, named, build in (
    ("key_that_was_not_drawn", "registered", "card", _under(_registration, own_key=False)),
    ("parameter_that_was_not_registered", "registered", "card", _under(_other_temperature)),
    ("submitter_who_did_not_register", "registered", "submission", _under(_other_contact)),
    ("drawn_key_without_its_registration", "registered", "card", _key_without_its_registration),
    ("registration_that_was_edited", "registration", "registrations", _edited),
    ("system_registered_twice", "registration", "registrations", _registered_twice),
    ("registration_that_was_deleted", "drawn-key", "keys", _deleted),
    ("question_that_was_edited", "registration", "registrations", _question_edited),
    ("question_exchanged_after_the_draw", "drawn-key", "keys", _question_edited_after_the_draw),
    ("second_question_of_a_system", "registration", "registrations", _second_question),
    ("question_in_the_key_alone", "drawn-key", "keys", _question_in_the_key_alone),
    ("question_over_other_windows", "registration", "registrations", _question_over_other_windows),
):
    bad(name, rule, named, draw_keys, build)

for name, build in (
    ("registration_that_its_key_holder_did_not_sign", _unsigned),
    ("registration_with_the_signature_of_another", _signature_of_another),
):
    bad(name, "signature", "registrations", draw_keys, _with_key_of_submitter, build)
