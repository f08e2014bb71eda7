"""Rules for registrations, for the keys drawn for them, and for cards from registered runs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from msgspec import UnsetType

from ktdeval.errors import CardError
from ktdeval.harness import TRANSPORT, CallParams
from ktdeval.runner import (
    DrawnKey,
    Question,
    RegisteredSystem,
    RegisteredWindow,
    Registration,
    registered_call,
    shared_days,
)
from ktdeval.values import from_plain, to_plain
from ktdeval_board.board_entries import Card, seeds_of, spans_of
from ktdeval_board.checking.findings import Stage, rule
from ktdeval_board.document_types import Submission, Submitter, in_words
from ktdeval_board.look_alike_names import mark_of_name, pair_of
from ktdeval_board.registrations import (
    BOARD_SUBMITTER,
    FiledRegistration,
    Registrations,
    registration_differences,
)
from ktdeval_board.rules import Division, Rules

PLAIN_NAME = re.compile(r"[A-Za-z0-9](?:[!-;=?-~ ]{0,98}[!-;=?-~])?", re.ASCII)
"""Name of a model or agent in printable ASCII, so that no name can be mistaken for another."""

_CALL_FIELDS = {each.name for each in dataclasses.fields(CallParams)} - set(TRANSPORT)


@dataclass(frozen=True)
class RegistrationInputs:
    """A registration, together with all other registrations on the board."""

    where: str  #: file of the registration, relative to the board
    rules: Rules
    filed: FiledRegistration
    all: Registrations
    #: day of the check; None if the key was already drawn, so the dates are known to be past
    today: str | None

    @property
    def registration(self) -> Registration:
        """The registration itself."""
        return self.filed.registration

    @cached_property
    def division(self) -> Division | None:
        """Division of the registration; None if the board does not have it."""
        for division in self.rules.divisions:
            if division.id == self.filed.division:
                return division

        return None

    @property
    def is_open(self) -> bool:
        """Return whether the registration has no key yet. A registration with a key stays valid
        even if the board's rules change.
        """
        return self.filed.drawn is None


@rule("registration", Stage.REGISTRATION)
def _registration(inputs: RegistrationInputs) -> Iterator[str]:
    if not inputs.is_open:
        return

    yield from _place_problems(inputs)
    yield from _system_problems(inputs)
    yield from _submitter_problems(inputs)
    earlier = inputs.all.earlier(inputs.filed)

    if earlier is not None:
        yield (
            f"{inputs.filed.words} is already registered in division {inputs.filed.division}, as "
            f"{earlier.words} in {earlier.where}; a submitter may register a system only once, "
            "whatever the spelling of its name and parameters"
        )

    most = None if inputs.division is None else inputs.division.most_registrations
    if most is not None and inputs.all.is_beyond(inputs.filed, most):
        yield (
            f"submitter: has {most} registrations in division {inputs.filed.division}, the "
            "maximum for one submitter"
        )


def _place_problems(inputs: RegistrationInputs) -> Iterator[str]:
    """Yield the reasons why the board draws no key for the registered plan."""
    registration = inputs.registration
    division = inputs.division
    rules = inputs.rules

    if registration.board != rules.name:
        yield f"board: is {registration.board[:60]!r}, but this board is {rules.name!r}"

    if division is None:
        known = ", ".join(each.id for each in rules.divisions)
        yield f"division: the board has no division {registration.division[:60]!r} (it has {known})"
        return

    if not division.is_governed:
        yield f"division: submitters to {division.id} use their own keys and need no registration"

    if not isinstance(registration.question, UnsetType):
        yield from question_problems(registration.question, registration.windows)

    asked = _make_asked_plan(rules, division, registration.system)
    for name in registration_differences(registration, asked):
        yield f"{name}: differs from that of division {division.id}; register again"


def question_problems(question: Question, windows: Iterable[RegisteredWindow]) -> Iterator[str]:
    """Yield the reasons why a run over these windows can't answer a question."""
    there = {window.name: window for window in windows}
    unknown = [name for name in question.windows if name not in there]
    if unknown:
        yield f"question.windows: {', '.join(unknown)}: not among the run's windows"

    known = [name for name in question.windows if name in there]
    days = [(name, there[name].first, there[name].last) for name in known]
    for one, other in shared_days(days):
        yield (
            f"question.windows: {one} and {other} share days, so their differences are not "
            "independent; name windows that do not overlap"
        )


def _make_asked_plan(
    rules: Rules, division: Division, system: RegisteredSystem
) -> Mapping[str, object]:
    """Return the plan that a division requires, in the form that `registration_differences`
    takes.
    """
    snapshot = rules.snapshot_of(division)
    return {
        "task": division.task,
        "task version": division.version,
        "task config": division.hash,
        "snapshot": None if snapshot is None else snapshot.id,
        "windows": {(window.name, window.first, window.last) for window in division.windows},
        "seeds": list(seeds_of(rules, division, system.model, system.model_args)),
        "rules": division.rules,
    }


def _system_problems(inputs: RegistrationInputs) -> Iterator[str]:
    """Yield problems with the registered system: names that are not plain ASCII, call parameters
    that can't be fixed, and an unset tool protocol.
    """
    system = inputs.registration.system
    for part, name in (("model", system.model), ("agent", system.agent)):
        if not PLAIN_NAME.fullmatch(name):
            yield (
                f"{part}: {name[:80]!r} is not 1 to 100 printable ASCII characters that begin "
                "with a letter or digit"
            )

    for name in sorted(system.call.keys() - _CALL_FIELDS):
        yield f"call.{name[:60]}: a registration can't fix this parameter of model calls"

    if system.call.get("tool_protocol") == "auto":
        yield "call.tool_protocol: is not set; set native, json_schema or text"


def _submitter_problems(inputs: RegistrationInputs) -> Iterator[str]:
    """Yield problems with the submitter and the date."""
    registration = inputs.registration
    rules = inputs.rules
    submitter = registration.submitter

    try:
        from_plain(to_plain(submitter), Submitter, "submitter", CardError)
    except CardError as error:
        yield in_words(str(error))

    system = registration.system
    is_baseline = rules.baseline_of(system.model, system.model_args) is not None
    is_board = mark_of_name(submitter.name) == mark_of_name(BOARD_SUBMITTER)
    if is_baseline and submitter.name != BOARD_SUBMITTER:
        yield (f"{system.model} is a baseline, which the board registers and runs itself")
    elif is_board and not is_baseline:
        yield f"submitter.name: {submitter.name!r} is reserved for baselines; give your own name"

    if rules.opened_on and registration.registered_on < rules.opened_on:
        yield (
            f"registered_on: {registration.registered_on} is before the board began"
            f" ({rules.opened_on})"
        )

    if inputs.today is not None and registration.registered_on > inputs.today:
        yield (
            f"registered_on: {registration.registered_on} is in the future (today is "
            f"{inputs.today})"
        )


# -- keys


@dataclass(frozen=True)
class KeyInputs:
    """A file in the folder of drawn keys."""

    where: str
    is_named: bool  #: whether the file's name has the form of a drawn key's file name
    drawn: DrawnKey
    #: registration that the file is named after, if it is on the board
    registration: Registration | None
    twin: str  #: path of another file with the same key; empty if the key is unique


@rule("drawn-key", Stage.KEY)
def _drawn_key(inputs: KeyInputs) -> Iterator[str]:
    drawn = inputs.drawn
    if not inputs.is_named or drawn.id not in inputs.where:
        yield "its name is not the id of its registration"

    if inputs.registration is None:
        yield (
            "is the key of a registration that is not on the board; registrations are never deleted"
        )
    elif inputs.registration != drawn.registration or drawn.registration.id != drawn.id:
        yield (
            "the registration in it differs from the one on the board; registrations are never "
            "changed"
        )
    elif drawn.drawn_on < drawn.registration.registered_on:
        yield (
            f"drawn_on: {drawn.drawn_on} is before the registration"
            f" ({drawn.registration.registered_on})"
        )

    if inputs.twin:
        yield f"has the key of {inputs.twin}; each registration needs its own key"


# -- cards


def card_problems(
    card: Card, division: Division | None, registrations: Registrations
) -> Iterator[str]:
    """Yield the reasons why a card does not match the registration it refers to, or must not use
    that registration's key.
    """
    key = card.mask_key or ""
    if not card.registration:
        drawn_for = registrations.by_key.get(key)
        if drawn_for is not None:
            yield (
                f"mask_key: is the key drawn for registration {drawn_for.words}; a run under that "
                "key must refer to the registration"
            )

        return

    filed = registrations.by_id.get(card.registration)
    if filed is None:
        # A division without registration accepts cards registered on another board.
        if division is None or division.is_governed:
            unknown = f"registration: {card.registration[:12]}… is not registered on this board"
            yield f"{unknown}; register first, with `ktdeval leaderboard register`"
    elif filed.drawn is None:
        yield (
            f"registration: {filed.words} has no key yet; wait until the board has drawn it, "
            "then run"
        )
    elif filed.drawn.mask_key != key:
        yield (
            f"mask_key: is not the key drawn for registration {filed.words}; run again with "
            f"--registration keys/{filed.id}.json"
        )
    else:
        yield from _system_differences(card, division, filed)


def _system_differences(
    card: Card, division: Division | None, filed: FiledRegistration
) -> Iterator[str]:
    """Yield the fields in which a card differs from its registration."""
    if division is not None and division.filed_under != filed.division:
        yield (
            f"registration: {filed.words} belongs to division {filed.division}, but the card to "
            f"{division.id}"
        )
    facts: dict[str, object] = {
        "task": card.task.name,
        "task version": card.task.version,
        "task config": card.task.hash,
        "snapshot": None if card.snapshot is None else card.snapshot.id,
        "windows": {(name, *days) for name, days in spans_of(card).items()},
        "seeds": sorted(card.seeds),
        "model": card.model.name,
        "model_args": card.model.args,
        "agent": card.agent.name,
        "agent_args": card.agent.args,
        "call": registered_call(card.call),
    }
    for name in registration_differences(filed.registration, facts):
        yield f"{name}: differs from registration {filed.words}, which was fixed before the key was drawn"


def submitter_problems(
    card: Card, submission: Submission, registrations: Registrations
) -> Iterator[str]:
    """Yield the reasons why a submission does not match its registration's submitter or date."""
    filed = registrations.by_id.get(card.registration or "")
    if filed is None or filed.drawn is None:
        return

    theirs = pair_of(filed.registration.submitter)
    mine = pair_of(submission.submitter)
    for field, registered, submitted in zip(("name", "contact"), theirs, mine, strict=True):
        if registered != submitted:
            yield (
                f"submitter.{field}: differs from that of registration {filed.words}; the same "
                "submitter must register and submit"
            )

    if submission.submitted_on < filed.drawn.drawn_on:
        yield (
            f"submitted_on: {submission.submitted_on} is before the key was drawn"
            f" ({filed.drawn.drawn_on})"
        )
