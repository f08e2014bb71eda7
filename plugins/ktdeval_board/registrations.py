"""Registrations of a board: systems that were fixed before their mask keys were drawn, and which of
them count together.

A drawn key is public, and anybody can compute without a model call whether it favours a policy. So
a second draw must not pay: a system has one registration in a division, however its parameters or
its name are written; a submitter with an unused drawn key has no rank in the division; and every
registration counts as an attempt.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

from ktdeval.errors import CardError
from ktdeval.masking import normalise
from ktdeval.runner import DrawnKey, Registrant, Registration
from ktdeval_board.layout import CARD_ID, BoardFolder
from ktdeval_board.reading import read_own, read_untrusted
from ktdeval_board.rules import Excuse, Rules

BOARD_SUBMITTER = "the board"  #: In whose name baselines are registered and submitted

State = Literal["open", "drawn", "used"]
"""State of a registration: without a key; with a key and without a card; with a card on the board."""

_ALIASED_MAIL = {"gmail.com", "googlemail.com"}  #: Hosts that ignore dots in a name


@dataclass(frozen=True)
class Filed:
    """A registration on a board."""

    where: str  #: its file, relative to the board
    registration: Registration
    drawn: DrawnKey | None = None  #: its key; None while it is open
    #: statement of maintainers that its key may stay unused, if there is one
    excuse: Excuse | None = None

    @property
    def id(self) -> str:
        """Id of the registration."""
        return self.registration.id

    @property
    def division(self) -> str:
        """Id of its division."""
        return self.registration.division

    @property
    def family(self) -> tuple[str, ...]:
        """Family of its system, whose draws count together: division, model and agent, without
        spelling and parameters.
        """
        system = self.registration.system
        return family_of(self.division, system.model, system.agent)

    @property
    def system(self) -> tuple[str, ...]:
        """Its system, of which there may be one registration: its family, and the reasoning effort,
        which is a word and not a number to vary.
        """
        return (*self.family, str(self.registration.system.call.get("reasoning_effort")))

    @property
    def words(self) -> str:
        """The registration in words: `1a2b3c4d5e6f (openai/gpt-4.1 with agent react)`."""
        system = self.registration.system
        return f"{self.id[:12]} ({system.model} with agent {system.agent})"


@dataclass(frozen=True)
class Registrations:
    """All registrations of a board."""

    filed: tuple[Filed, ...] = ()
    #: models that the board runs itself
    baselines: frozenset[str] = field(default_factory=frozenset)

    @cached_property
    def by_id(self) -> Mapping[str, Filed]:
        """Registrations by their ids."""
        return {each.id: each for each in self.filed}

    @cached_property
    def by_key(self) -> Mapping[str, Filed]:
        """Answered registrations by their drawn keys."""
        return {each.drawn.mask_key: each for each in self.filed if each.drawn is not None}

    @cached_property
    def _parties(self) -> Mapping[str, str]:
        return parties(each.registration.submitter for each in self.filed)

    def party(self, submitter: Registrant) -> str:
        """Return the party of a submitter: submitters with one contact or one name, however
        written, count together.
        """
        for mark in marks_of(submitter):
            if mark in self._parties:
                return self._parties[mark]

        return marks_of(submitter)[0]

    @cached_property
    def _by_party(self) -> Mapping[tuple[str, str], list[Filed]]:
        """Registrations by division and party, without baselines, which have no rank."""
        own: dict[tuple[str, str], list[Filed]] = {}
        for each in self.filed:
            if each.registration.system.model not in self.baselines:
                party = self.party(each.registration.submitter)
                own.setdefault((each.division, party), []).append(each)

        return own

    @cached_property
    def _by_family(self) -> Mapping[tuple[str, ...], list[Filed]]:
        families: dict[tuple[str, ...], list[Filed]] = {}
        for each in self.filed:
            families.setdefault(each.family, []).append(each)

        return families

    def of_party(self, division: str, submitter: Registrant) -> list[Filed]:
        """Return the registrations of a submitter in a division, without baselines."""
        return self._by_party.get((division, self.party(submitter)), [])

    def attempts(self, submitter: Registrant, family: tuple[str, ...]) -> int:
        """Return the number of registrations that count as attempts of a card: those of its
        submitter, and those of its system by anybody.
        """
        division = family[0]
        own = {each.id for each in self.of_party(division, submitter)}
        of_system = {each.id for each in self._by_family.get(family, [])}
        return len(own | of_system)

    def earlier(self, filed: Filed) -> Filed | None:
        """Return a registration of the same system that goes before this one; None if it is the
        first.

        One with a key goes before one without, whatever days are written in them. Of two of one
        day each goes before the other, as submitters could choose the order of their ids. An
        excused one makes room.
        """
        if filed.registration.system.model in self.baselines or filed.excuse is not None:
            return None
        family = self._by_family.get(filed.family, [])
        same = [each for each in family if each.system == filed.system and each.excuse is None]
        return min(_not_after(filed, same), key=_order, default=None)

    def is_beyond(self, filed: Filed, most: int) -> bool:
        """Return whether a submitter has `most` registrations in a division before this one;
        excused ones count, and those of one day count before each other.
        """
        own = self.of_party(filed.division, filed.registration.submitter)
        return len(_not_after(filed, own)) >= most


NONE_FILED = Registrations()


def _rank(filed: Filed) -> tuple[bool, str]:
    """Rank of a registration in time: those with a key go before those without, whatever days are
    written in them.
    """
    return (filed.drawn is None, filed.registration.registered_on)


def _order(filed: Filed) -> tuple[bool, str, str]:
    """Order of registrations by time; the id orders those of one rank for messages alone."""
    return (*_rank(filed), filed.id)


def _not_after(filed: Filed, others: Iterable[Filed]) -> list[Filed]:
    """Return the others that are not of a later rank."""
    return [each for each in others if each.id != filed.id and _rank(each) <= _rank(filed)]


def family_of(division: str, model: str, agent: str) -> tuple[str, ...]:
    """Return the family of a system: division, and names of model and agent without spelling."""
    return (division, plain_name(model), plain_name(agent))


@cache
def plain_name(name: str) -> str:
    """Return a name of a model or agent without provider, case and signs, which a submitter can
    choose.
    """
    return _letters(name.rpartition("/")[2]) or name.casefold()


def marks_of(submitter: Registrant) -> tuple[str, str]:
    """Return the marks of a submitter: contact and name, without spelling."""
    return (
        f"contact {_plain_contact(submitter.contact)}",
        mark_of_name(submitter.name),
    )


def mark_of_name(name: str) -> str:
    """Return the mark of a submitter's name, without spelling."""
    return f"name {_letters(name) or name}"


def _letters(text: str) -> str:
    """Return only the letters and digits of a text, in one case and one form of each: without
    accents, and with Latin letters where Cyrillic and Greek ones look like them.
    """
    normal = unicodedata.normalize("NFKC", normalise(text)).casefold()
    return "".join(sign for sign in normal if sign.isalnum())


def _plain_contact(contact: str) -> str:
    text = contact.strip().casefold()
    if text.startswith("https://"):
        address = text.removeprefix("https://").partition("#")[0].partition("?")[0]
        return address.removeprefix("www.").rstrip("/")

    local, _, host = text.rpartition("@")
    local = local.partition("+")[0]
    if host in _ALIASED_MAIL:
        return f"{local.replace('.', '')}@gmail.com"

    return f"{local}@{host}"


def parties(submitters: Iterable[Registrant]) -> dict[str, str]:
    """Return mark of a submitter -> mark of its party: submitters that share a contact or a name are
    one party, over any chain.
    """
    stands_for: dict[str, str] = {}

    def find(mark: str) -> str:
        while stands_for.setdefault(mark, mark) != mark:
            mark = stands_for[mark]
        return mark

    for submitter in submitters:
        contact, name = map(find, marks_of(submitter))
        stands_for[max(contact, name)] = min(contact, name)

    return {mark: find(mark) for mark in list(stands_for)}


def load_registrations(
    folder: BoardFolder, rules: Rules, excuses: Iterable[Excuse]
) -> Registrations:
    """Read the registrations of a board with their keys. Raises CardError: one can't be read;
    `check` names everything that is wrong.
    """
    most = rules.limits.bytes_of("card_mb")
    filed = []
    for path in folder.registered():
        registration = read_untrusted(path, Registration, most)
        if registration.id != path.stem:
            raise CardError(
                f"{path}: its content is that of another registration; run `ktdeval leaderboard"
                " check`"
            )

        filed.append(as_filed(folder, path, registration, excuses))

    return Registrations(tuple(filed), baselines_of(rules))


def as_filed(
    folder: BoardFolder, path: Path, registration: Registration, excuses: Iterable[Excuse]
) -> Filed:
    """Return a registration with its key and its excuse. Raises CardError: the key can't be read, or
    is that of another registration.
    """
    drawn = None
    key = folder.key(path.stem)
    if key.is_file() and not key.is_symlink():
        drawn = read_own(key, DrawnKey)

    if drawn is not None and (drawn.id, drawn.registration) != (path.stem, registration):
        raise CardError(f"{key}: is the key of another registration than {folder.relative(path)}")

    excuse = next((each for each in excuses if each.registration == path.stem), None)
    return Filed(folder.relative(path), registration, drawn, excuse)


def baselines_of(rules: Rules) -> frozenset[str]:
    """Return the models that a board runs itself."""
    return frozenset(baseline.model for baseline in rules.baselines)


def names_registration(path: Path) -> bool:
    """Return whether a file has the name of a registration or of a key."""
    return path.suffix == ".json" and CARD_ID.fullmatch(path.stem) is not None


def registration_differences(
    registration: Registration, facts: Mapping[str, object]
) -> Iterator[str]:
    """Yield the fields, by their names, in which a card or a division differs from a
    registration.
    """
    system = registration.system
    registered: Mapping[str, object] = {
        "task": registration.task.name,
        "task version": registration.task.version,
        "task config": registration.task.hash,
        "snapshot": registration.snapshot,
        "windows": {(window.name, window.first, window.last) for window in registration.windows},
        "seeds": sorted(registration.seeds),
        "rules": registration.rules,
        "model": system.model,
        "model_args": system.model_args,
        "agent": system.agent,
        "agent_args": system.agent_args,
        "call": system.call,
    }
    yield from (name for name, value in facts.items() if registered[name] != value)
