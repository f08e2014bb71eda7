"""Counts derived from an episode's transcript, whose exchanges are read as typed values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from ktdeval.cards.fields.episode_parts import RoleUsage, Served
from ktdeval.cards.fields.replies.reply_sums import add_roles, add_served
from ktdeval.harness.chat_messages import LOOKED_UP, NO_USAGE, Message, Reply
from ktdeval.harness.external.external_acts import Isolation, ShownPart
from ktdeval.harness.external.own_settings import APPLIED, NOT_APPLIED, noted_settings
from ktdeval.harness.steps.step_session import TranscriptEntry
from ktdeval.values.documents.strict_json import JsonValue
from ktdeval.values.documents.typed_json import Value, from_plain


class Said(Value, omit_defaults=True):
    """Contents of a transcript, as counts."""

    replies: int  #: number of model replies
    uncounted: int  #: number of replies whose tokens were not counted
    errors: dict[str, int]  #: failed calls (after retries), by kind
    #: calls by role and model; empty if no role of a team made a call
    roles: tuple[RoleUsage, ...] = ()
    #: replies by requested model and answering model; empty if no provider reports it, and in marks
    #: written before this field existed
    served: tuple[Served, ...] = ()
    #: steps decided by an external agent, by kind of sandbox; empty for other agents
    isolation: dict[Isolation, int] = msgspec.field(default_factory=dict)
    shown: tuple[ShownPart, ...] = ()  #: what its sandboxes showed; empty for other agents


class RecordedExchange(msgspec.Struct):
    """Model call in a transcript, with the fields that readers need."""

    kept: int
    sent: tuple[Message, ...]
    tools: tuple[str, ...]
    tool_choice: str | None
    seed: int
    reply: Reply | UnsetType = UNSET
    error: str | UnsetType = UNSET
    role: str = ""
    model: str = ""
    #: whether a role's turn ended with a usable answer; absent if its turn did not end
    answered: bool | UnsetType = UNSET
    #: by name, schemas that changed in this step, for tools that do not belong to the task
    schemas: dict[str, JsonValue] = {}

    def __post_init__(self) -> None:
        if (self.reply is UNSET) == (self.error is UNSET):
            raise ValueError("has neither a reply nor an error, or both")

    @property
    def usage(self) -> RoleUsage:
        """Usage of this call, by role and model."""
        reply = self.reply
        turn = {"turns": int(self.answered is not UNSET), "silent": int(self.answered is False)}
        if reply is UNSET:
            return RoleUsage(role=self.role, model=self.model, calls=1, failed=1, **turn)

        is_empty = not (reply.content.strip() or reply.tool_calls)
        return RoleUsage(
            role=self.role,
            model=self.model,
            calls=1,
            empty=int(is_empty),
            uncounted=int(reply.usage == NO_USAGE),
            **turn,
            **reply.usage.to_json(),
        )

    @property
    def served(self) -> Served:
        """Count of this reply for the model that answered."""
        assert self.reply is not UNSET, "a failed call has no answering model"
        notes = self.reply.notes
        return Served(
            model=self.model,
            name=self.reply.served_by,
            replies=1,
            looked_up=int(LOOKED_UP in notes),
            own_settings=noted_settings(notes, APPLIED),
            not_applied=noted_settings(notes, NOT_APPLIED),
        )


def read_exchanges(entry: TranscriptEntry, where: str) -> tuple[RecordedExchange, ...]:
    """Return the exchanges of a step. Raises StoreError, with a message that starts with `where`,
    if an exchange does not have the form that sessions record.
    """
    return from_plain(list(entry.exchanges), tuple[RecordedExchange, ...], f"{where}: exchanges")


def count_said(transcript: Iterable[TranscriptEntry]) -> Said:
    """Count the exchanges in a transcript's entries."""
    usages: list[RoleUsage] = []
    roles: list[RoleUsage] = []
    errors: Counter[str] = Counter()
    served: list[Served] = []
    isolation: Counter[Isolation] = Counter()
    shown: dict[ShownPart, None] = {}
    for entry in transcript:
        exchanges = read_exchanges(entry, "transcript")
        calls = [exchange.usage for exchange in exchanges]
        usages += calls
        if any(call.role or call.model for call in calls):
            roles = add_roles([*roles, *calls])

        errors.update(exchange.error for exchange in exchanges if exchange.error is not UNSET)
        replied = (exchange.served for exchange in exchanges if exchange.reply is not UNSET)
        served += filter(_says_something, replied)
        if entry.external is not UNSET:
            isolation[entry.external.isolation] += 1
            shown |= dict.fromkeys(entry.external.shown or ())

    return Said(
        replies=sum(call.calls - call.failed for call in usages),
        uncounted=sum(call.uncounted for call in usages),
        errors=dict(sorted(errors.items())),
        roles=tuple(roles),
        served=tuple(add_served(served)),
        isolation=dict(sorted(isolation.items())),
        shown=tuple(shown),
    )


def _says_something(served: Served) -> bool:
    """Return whether the provider reported anything about the model that answered."""
    return bool(served.name or served.looked_up or served.own_settings or served.not_applied)
