"""Registrations of a board: who fixed which system before its mask key was drawn, what became of it, and what counts together.

A drawn key is public, and anybody can compute without a model call whether it favours a policy. So nothing may be gained by a
second draw: a system has one registration in a division, however its parameters or its name are written; who leaves a drawn key
unused has no rank in the division until it is used; and every registration counts as an attempt.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Literal

from ktdeval.contracts import DrawnKey, Registrant, Registration
from ktdeval.errors import CardError
from ktdeval_board.layout import CARD_ID, BoardFolder
from ktdeval_board.reading import read_own, read_untrusted
from ktdeval_board.rules import Excuse, Rules

BOARD_SUBMITTER = "the board"  #: In whose name baselines are registered and submitted

State = Literal["open", "drawn", "used"]
"""What became of a registration: it waits for its key; it has one, and no card yet; its card is on the board."""

_ALIASED_MAIL = {"gmail.com", "googlemail.com"}  #: Hosts that take no notice of dots in a name


@dataclass(frozen=True)
class Filed:
    """A registration as it lies on a board."""

    where: str  #: its file, relative to the board
    registration: Registration
    drawn: DrawnKey | None = None  #: the board's answer; None while it is open
    excuse: Excuse | None = None  #: statement of maintainers that its key may stay unused; None where there is none

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
        """What draws for it count together by, whoever registers: division, model and agent, without spelling and parameters."""
        system = self.registration.system
        return family_of(self.division, system.model, system.agent)

    @property
    def system(self) -> tuple[str, ...]:
        """What one registration is taken of: its family, and how hard the model thinks, which is no number."""
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
    baselines: frozenset[str] = field(default_factory=frozenset)  #: models that the board runs itself

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
        """Return whose registrations count together with those of a submitter: one contact or one name, however written."""
        for mark in marks_of(submitter):
            if mark in self._parties:
                return self._parties[mark]
        return marks_of(submitter)[0]

    @cached_property
    def _by_party(self) -> Mapping[tuple[str, str], list[Filed]]:
        """Registrations by division and party, baselines aside, which nobody ranks."""
        own: dict[tuple[str, str], list[Filed]] = {}
        for each in self.filed:
            if each.registration.system.model not in self.baselines:
                own.setdefault((each.division, self.party(each.registration.submitter)), []).append(each)
        return own

    @cached_property
    def _by_family(self) -> Mapping[tuple[str, ...], list[Filed]]:
        families: dict[tuple[str, ...], list[Filed]] = {}
        for each in self.filed:
            families.setdefault(each.family, []).append(each)
        return families

    def of_party(self, division: str, submitter: Registrant) -> list[Filed]:
        """Return the registrations of a submitter in a division, baselines aside."""
        return self._by_party.get((division, self.party(submitter)), [])

    def attempts(self, submitter: Registrant, family: tuple[str, ...]) -> int:
        """Return how many registrations count as attempts of a card: those of its submitter, those of its system by anybody."""
        own = {each.id for each in self.of_party(family[0], submitter)}
        return len(own | {each.id for each in self._by_family.get(family, [])})

    def earlier(self, filed: Filed) -> Filed | None:
        """Return the registration of the same system that goes before this one; None where it is the first.

        One with a key goes before one without, whatever days are written in them. One that maintainers excused makes room.
        """
        if filed.registration.system.model in self.baselines or filed.excuse is not None:
            return None
        family = self._by_family.get(filed.family, [])
        same = [each for each in family if each.system == filed.system and each.excuse is None]
        first = min(same, key=_order)
        return None if first.id == filed.id else first

    def is_beyond(self, filed: Filed, most: int) -> bool:
        """Return whether a registration comes after the most that its submitter may have in its division; excused ones count."""
        own = sorted(self.of_party(filed.division, filed.registration.submitter), key=_order)
        return filed.id in {each.id for each in own[most:]}


NONE_FILED = Registrations()


def _order(filed: Filed) -> tuple[bool, str, str]:
    """Order of registrations: those with a key go before those without, whatever days are written in them."""
    return (filed.drawn is None, filed.registration.registered_on, filed.id)


def family_of(division: str, model: str, agent: str) -> tuple[str, ...]:
    """Return what draws for a system count together by: division, and names of model and agent however they are written."""
    return (division, plain_name(model), plain_name(agent))


@cache
def plain_name(name: str) -> str:
    """Return a name of a model or agent without provider, case and signs, which are free to choose for one and the same model."""
    return _letters(name.rpartition("/")[2]) or name.casefold()


def marks_of(submitter: Registrant) -> tuple[str, str]:
    """Return what a submitter is known by: contact and name, without what can be written in several ways."""
    return f"contact {_plain_contact(submitter.contact)}", f"name {_letters(submitter.name) or submitter.name}"


def _letters(text: str) -> str:
    """Return letters and digits alone, in one case and one form of each."""
    return "".join(sign for sign in unicodedata.normalize("NFKC", text).casefold() if sign.isalnum())


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
    """Return mark of a submitter -> mark that stands for the party: who shares a contact or a name is one party, over any chain."""
    stands_for: dict[str, str] = {}

    def find(mark: str) -> str:
        while stands_for.setdefault(mark, mark) != mark:
            mark = stands_for[mark]
        return mark

    for submitter in submitters:
        contact, name = map(find, marks_of(submitter))
        stands_for[max(contact, name)] = min(contact, name)
    return {mark: find(mark) for mark in list(stands_for)}


def load_registrations(folder: BoardFolder, rules: Rules, excuses: Iterable[Excuse]) -> Registrations:
    """Read the registrations of a board with their keys. Raises CardError: one can't be read; `check` says what else is wrong."""
    most = rules.limits.bytes_of("card_mb")
    filed = []
    for path in folder.registered():
        registration = read_untrusted(path, Registration, most)
        if registration.id != path.stem:
            raise CardError(f"{path}: its content is that of another registration; run `ktdeval leaderboard check`")
        filed.append(as_filed(folder, path, registration, excuses))
    return Registrations(tuple(filed), baselines_of(rules))


def as_filed(folder: BoardFolder, path: Path, registration: Registration, excuses: Iterable[Excuse]) -> Filed:
    """Put a registration together with its key and with what maintainers say of it. Raises CardError: the key can't be read."""
    key = folder.key(path.stem)
    drawn = read_own(key, DrawnKey) if key.is_file() and not key.is_symlink() else None
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


def registration_differences(registration: Registration, facts: Mapping[str, object]) -> Iterator[str]:
    """Yield the fields, by their names, in which a card or a division differs from a registration."""
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
