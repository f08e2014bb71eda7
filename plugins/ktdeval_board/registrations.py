"""Registrations of a board: systems fixed before their mask keys were drawn, and the parties to
which attempts belong.

A drawn key is public, and anybody can compute without a model call whether it favours a policy. So
a second draw must not pay: a submitter has one registration of a system in a division, however its
parameters or its name are written; a submitter with an unused drawn key has no rank in the
division; and each of a submitter's registrations counts as an attempt.

A name proves nothing, so that a registration counts for the key holder who signed it. Where the
board has no key of its submitter, it counts for whoever has the same name and the same contact.
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

BOARD_SUBMITTER = "the board"  #: In whose name baselines are registered and submitted

_MAX_NAMED = 5  # registrations in one warning

State = Literal["open", "drawn", "used"]
"""State of a registration: without a key; with a key and without a card; with a card on the board."""


@dataclass(frozen=True)
class FiledRegistration:
    """A registration on a board."""

    where: str  #: its file, relative to the board
    registration: Registration
    drawn: DrawnKey | None = None  #: its key; None while it is open
    #: statement of maintainers that its key may stay unused, if there is one
    excuse: Excuse | None = None
    #: public key of the holder who signed it, in hexadecimal; empty: nobody did
    signed_by: str = ""

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
        """Its system, of which a submitter may have one registration: its family, and the reasoning
        effort, which is a word and not a number to vary.
        """
        return (*self.family, str(self.registration.system.call.get("reasoning_effort")))

    @property
    def words(self) -> str:
        """The registration as text: `1a2b3c4d5e6f (openai/gpt-4.1 with agent react)`."""
        return f"{self.id[:12]} ({self.system_words})"

    @property
    def system_words(self) -> str:
        """The registered system as text: `openai/gpt-4.1 with agent react`."""
        system = self.registration.system
        return f"{system.model} with agent {system.agent}"


@dataclass(frozen=True)
class Registrations:
    """All registrations of a board."""

    filed: tuple[FiledRegistration, ...] = ()
    baselines: tuple[Baseline, ...] = ()  #: models that the board runs itself
    #: key, name or contact -> key holder, as of `holders_by_mark`
    holders: Mapping[str, Party] = field(default_factory=dict)

    @cached_property
    def by_id(self) -> Mapping[str, FiledRegistration]:
        """Registrations by their ids."""
        return {each.id: each for each in self.filed}

    @cached_property
    def by_key(self) -> Mapping[str, FiledRegistration]:
        """Answered registrations by their drawn keys."""
        return {each.drawn.mask_key: each for each in self.filed if each.drawn is not None}

    def party(self, submitter: Registrant | Submitter) -> Party:
        """Return whom a submitter's registrations count for: the key holder of the name or contact,
        else name and contact together, however written.
        """
        pair = pair_of(submitter)
        for mark in pair:
            if mark in self.holders:
                return self.holders[mark]

        return pair

    def party_of(self, filed: FiledRegistration) -> Party:
        """Return whom a registration counts for: without a signature never for a key holder."""
        submitter = filed.registration.submitter
        if filed.signed_by:
            # A holder may have been renamed, or have another key since.
            return self.holders.get(filed.signed_by) or self.party(submitter)

        party = pair_of(submitter)
        return party if party == self.party(submitter) else ("unsigned", *party)

    @cached_property
    def _by_party(self) -> Mapping[tuple[str, Party], list[FiledRegistration]]:
        """Registrations by division and party, without baselines, which have no rank."""
        own: dict[tuple[str, Party], list[FiledRegistration]] = {}
        for each in self.filed:
            if not self._is_baseline(each):
                own.setdefault((each.division, self.party_of(each)), []).append(each)

        return own

    def of_party(self, division: str, party: Party) -> list[FiledRegistration]:
        """Return the registrations of a party in a division, without baselines."""
        return self._by_party.get((division, party), [])

    def _is_baseline(self, filed: FiledRegistration) -> bool:
        system = filed.registration.system
        return matching_baseline(self.baselines, system.model, system.model_args) is not None

    def earlier(self, filed: FiledRegistration) -> FiledRegistration | None:
        """Return a registration of the same system by the same submitter that goes before this one;
        None if it is the first.

        A registration with a key precedes one without, independent of the days written in them. Of
        two of one day each precedes the other, as submitters could choose the order of their ids.
        Excused ones are skipped.
        """
        if self._is_baseline(filed) or filed.excuse is not None:
            return None
        own = self.of_party(filed.division, self.party_of(filed))
        same = [each for each in own if each.system == filed.system and each.excuse is None]
        return min(_not_after(filed, same), key=_time_order, default=None)

    def is_beyond(self, filed: FiledRegistration, most: int) -> bool:
        """Return whether a submitter has `most` registrations in a division before this one.
        Excused ones are included, and each of one day counts before the others.
        """
        own = self.of_party(filed.division, self.party_of(filed))
        return len(_not_after(filed, own)) >= most


NONE_FILED = Registrations()


def _rank(filed: FiledRegistration) -> tuple[bool, str]:
    """Rank of a registration in time: those with a key precede those without, independent of the
    days written in them.
    """
    return (filed.drawn is None, filed.registration.registered_on)


def _time_order(filed: FiledRegistration) -> tuple[bool, str, str]:
    """Sort key of registrations by time; the id orders equal ranks, only for messages."""
    return (*_rank(filed), filed.id)


def _not_after(
    filed: FiledRegistration, others: Iterable[FiledRegistration]
) -> list[FiledRegistration]:
    """Return the others that are not of a later rank."""
    return [each for each in others if each.id != filed.id and _rank(each) <= _rank(filed)]


def family_of(division: str, model: str, agent: str) -> tuple[str, ...]:
    """Return the family of a system: division, and names of model and agent without spelling."""
    return (division, plain_name(model), plain_name(agent))


def load_registrations(
    folder: BoardFolder, rules: Rules, excuses: Iterable[Excuse]
) -> Registrations:
    """Read the registrations of a board with their keys. Raises CardError if one can't be read
    (`check` lists all faults); SignatureError if a signature is invalid.
    """
    most = rules.limits.bytes_of("card_mb")
    filed = []
    for path in folder.registered():
        registration = read_untrusted(path, Registration, most)
        if registration.id != path.stem:
            raise CardError(
                f"{path}: its content belongs to another registration; run `ktdeval leaderboard "
                "check`"
            )

        filed.append(as_filed(folder, path, registration, rules, excuses))

    return registrations_on(rules, filed)


def registrations_on(rules: Rules, filed: Iterable[FiledRegistration]) -> Registrations:
    """Return the registrations of a board with its baselines and key holders."""
    return Registrations(tuple(filed), rules.baselines, holders_by_mark(rules.submitter_keys))


def as_filed(
    folder: BoardFolder,
    path: Path,
    registration: Registration,
    rules: Rules,
    excuses: Iterable[Excuse],
) -> FiledRegistration:
    """Return a registration with its key, its excuse and its signer. Raises CardError if the key
    can't be read, or belongs to another registration; SignatureError if its signature is invalid.
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


def registrations_text(filed: Sequence[FiledRegistration]) -> str:
    """Return registrations for a warning: submitter, model, and the beginning of a drawn key; the
    first five by name.
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
