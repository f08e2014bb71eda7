"""Registrations on a board: systems fixed before their mask keys were drawn, and the parties to
which attempts are attributed.

A drawn key is public, and anyone can compute without a model call whether it favours a policy. A
second draw must therefore not pay off. A submitter can have only one registration per system in a
division, however the system's parameters or name are written. A submitter with an unused drawn key
is not ranked in the division. Every registration by a submitter counts as an attempt.

A name proves nothing, so a registration counts for the key holder who signed it. If the board has
no key for the submitter, it counts for whoever has both the same name and the same contact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from ktdeval.cards import clean
from ktdeval.errors import CardError
from ktdeval.runner import DrawnKey, Registrant, Registration
from ktdeval_board.document_types import Submitter
from ktdeval_board.errata import Excuse
from ktdeval_board.layout import CARD_ID, BoardFolder
from ktdeval_board.look_alike_names import Party, holders_by_mark, pair_of, plain_name
from ktdeval_board.read_documents import read_own, read_untrusted
from ktdeval_board.rules import Baseline, Rules, matching_baseline
from ktdeval_board.signed import registration_key

BOARD_SUBMITTER = "the board"  #: Name under which baselines are registered and submitted

_MAX_NAMED = 5  # maximum number of registrations listed in one warning

State = Literal["open", "drawn", "used"]
"""State of a registration: no key yet; a key but no card; a card on the board."""


@dataclass(frozen=True)
class FiledRegistration:
    """A registration on a board."""

    where: str  #: file of the registration, relative to the board
    registration: Registration
    drawn: DrawnKey | None = None  #: key drawn for the registration; None while it is open
    #: maintainers' statement that the key may stay unused, if there is one
    excuse: Excuse | None = None
    #: public key of the holder who signed the registration, in hexadecimal; empty if it is unsigned
    signed_by: str = ""

    @property
    def id(self) -> str:
        """Id of the registration."""
        return self.registration.id

    @property
    def division(self) -> str:
        """Id of the registration's division."""
        return self.registration.division

    @property
    def family(self) -> tuple[str, ...]:
        """Family of the registered system, whose draws are counted together: division, model and
        agent, ignoring spelling and parameters.
        """
        system = self.registration.system
        return family_of(self.division, system.model, system.agent)

    @property
    def system(self) -> tuple[str, ...]:
        """The registered system, for which a submitter may have only one registration. It consists
        of the system's family and the reasoning effort, which is a word rather than a number that
        could be varied.
        """
        return (*self.family, str(self.registration.system.call.get("reasoning_effort")))

    @property
    def words(self) -> str:
        """The registration as text, such as `1a2b3c4d5e6f (openai/gpt-4.1 with agent react)`."""
        return f"{self.id[:12]} ({self.system_words})"

    @property
    def system_words(self) -> str:
        """The registered system as text, such as `openai/gpt-4.1 with agent react`."""
        system = self.registration.system
        return f"{system.model} with agent {system.agent}"


@dataclass(frozen=True)
class Registrations:
    """All registrations on a board."""

    filed: tuple[FiledRegistration, ...] = ()
    baselines: tuple[Baseline, ...] = ()  #: models that the board runs itself
    #: key holders, keyed by public key, name or contact; from `holders_by_mark`
    holders: Mapping[str, Party] = field(default_factory=dict)

    @cached_property
    def by_id(self) -> Mapping[str, FiledRegistration]:
        """Registrations, keyed by id."""
        return {each.id: each for each in self.filed}

    @cached_property
    def by_key(self) -> Mapping[str, FiledRegistration]:
        """Registrations with a drawn key, keyed by that key."""
        return {each.drawn.mask_key: each for each in self.filed if each.drawn is not None}

    def party(self, submitter: Registrant | Submitter) -> Party:
        """Return the party for which a submitter's registrations count: the key holder with the
        submitter's name or contact, or else the name and contact together. Spelling is ignored.
        """
        pair = pair_of(submitter)
        for mark in pair:
            if mark in self.holders:
                return self.holders[mark]

        return pair

    def party_of(self, filed: FiledRegistration) -> Party:
        """Return the party for which a registration counts. An unsigned registration never counts
        for a key holder.
        """
        submitter = filed.registration.submitter
        if filed.signed_by:
            # The holder may have been renamed or given another key in the meantime.
            return self.holders.get(filed.signed_by) or self.party(submitter)

        party = pair_of(submitter)
        return party if party == self.party(submitter) else ("unsigned", *party)

    @cached_property
    def _by_party(self) -> Mapping[tuple[str, Party], list[FiledRegistration]]:
        """Registrations keyed by division and party, without baselines, which have no rank."""
        own: dict[tuple[str, Party], list[FiledRegistration]] = {}
        for each in self.filed:
            if not self._is_baseline(each):
                own.setdefault((each.division, self.party_of(each)), []).append(each)

        return own

    def of_party(self, division: str, party: Party) -> list[FiledRegistration]:
        """Return the registrations by a party in a division, without baselines."""
        return self._by_party.get((division, party), [])

    def _is_baseline(self, filed: FiledRegistration) -> bool:
        system = filed.registration.system
        return matching_baseline(self.baselines, system.model, system.model_args) is not None

    def earlier(self, filed: FiledRegistration) -> FiledRegistration | None:
        """Return a registration of the same system by the same submitter that precedes this one;
        None if this is the first.

        A registration with a key precedes one without a key, whatever their dates. Two
        registrations with the same date precede each other, since submitters could choose the order
        of their ids. Excused registrations are skipped.
        """
        if self._is_baseline(filed) or filed.excuse is not None:
            return None
        own = self.of_party(filed.division, self.party_of(filed))
        same = [each for each in own if each.system == filed.system and each.excuse is None]
        return min(_not_after(filed, same), key=_time_order, default=None)

    def is_beyond(self, filed: FiledRegistration, most: int) -> bool:
        """Return whether a submitter already has `most` registrations in a division before this
        one. Excused registrations are included. Registrations with the same date all precede each
        other.
        """
        own = self.of_party(filed.division, self.party_of(filed))
        return len(_not_after(filed, own)) >= most


NONE_FILED = Registrations()


def _rank(filed: FiledRegistration) -> tuple[bool, str]:
    """Return the chronological rank of a registration. Registrations with a key precede those
    without, whatever their dates.
    """
    return (filed.drawn is None, filed.registration.registered_on)


def _time_order(filed: FiledRegistration) -> tuple[bool, str, str]:
    """Sort key for chronological order. Ties are broken by id, which matters only for messages."""
    return (*_rank(filed), filed.id)


def _not_after(
    filed: FiledRegistration, others: Iterable[FiledRegistration]
) -> list[FiledRegistration]:
    """Return the other registrations, except those with a later rank."""
    return [each for each in others if each.id != filed.id and _rank(each) <= _rank(filed)]


def family_of(division: str, model: str, agent: str) -> tuple[str, ...]:
    """Return the family of a system: the division, and the names of the model and agent, ignoring
    spelling.
    """
    return (division, plain_name(model), plain_name(agent))


def load_registrations(
    folder: BoardFolder, rules: Rules, excuses: Iterable[Excuse]
) -> Registrations:
    """Read the registrations on a board with their keys. Raises CardError if a file can't be read,
    and SignatureError if a signature is invalid. The `check` command lists all faults.
    """
    most = rules.limits.bytes_of("card_mb")
    filed = []
    for path in folder.list_registrations():
        registration = read_untrusted(path, Registration, most)
        if registration.id != path.stem:
            raise CardError(
                f"{path}: its content belongs to another registration; run `ktdeval leaderboard "
                "check`"
            )

        filed.append(as_filed(folder, path, registration, rules, excuses))

    return registrations_on(rules, filed)


def registrations_on(rules: Rules, filed: Iterable[FiledRegistration]) -> Registrations:
    """Return the registrations on a board with its baselines and key holders."""
    return Registrations(tuple(filed), rules.baselines, holders_by_mark(rules.submitter_keys))


def as_filed(
    folder: BoardFolder,
    path: Path,
    registration: Registration,
    rules: Rules,
    excuses: Iterable[Excuse],
) -> FiledRegistration:
    """Return a registration with its key, its excuse and its signer. Raises CardError if the key
    can't be read or belongs to another registration, and SignatureError if the registration's
    signature is invalid.
    """
    drawn = None
    key = folder.key(path.stem)
    if key.is_file() and not key.is_symlink():
        drawn = read_own(key, DrawnKey)

    if drawn is not None and (drawn.id, drawn.registration) != (path.stem, registration):
        raise CardError(f"{key}: is the key of a registration other than {folder.relative(path)}")

    excuse = next((each for each in excuses if each.registration == path.stem), None)
    signed_by = registration_key(path, registration.submitter, drawn, rules)
    return FiledRegistration(folder.relative(path), registration, drawn, excuse, signed_by)


def names_registration(path: Path) -> bool:
    """Return whether a file name has the form used for registrations and keys."""
    return path.suffix == ".json" and CARD_ID.fullmatch(path.stem) is not None


def registration_differences(
    registration: Registration, facts: Mapping[str, object]
) -> Iterator[str]:
    """Yield the names of the fields in which the facts about a card or a division differ from a
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


def registrations_text(filed: Sequence[FiledRegistration]) -> str:
    """Return registrations as text for a warning: submitter, model, and the first digits of a drawn
    key. Only the first few are listed; the others are counted.
    """
    texts = []
    for each in filed[:_MAX_NAMED]:
        registration = each.registration
        text = f"{clean(registration.submitter.name)}, {clean(registration.system.model)}"
        if each.drawn is not None:
            text += f", key {each.drawn.mask_key[:8]}…"

        texts.append(text)

    if len(filed) > _MAX_NAMED:
        texts.append(f"and {len(filed) - _MAX_NAMED:,} more")

    return "; ".join(texts)
