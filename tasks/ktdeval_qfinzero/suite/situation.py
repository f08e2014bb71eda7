"""The situation of an item, in words and ids: its moment, its account and its session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final
from zoneinfo import ZoneInfo

from ktdeval.api import DataError, JsonValue
from ktdeval_qfinzero.bench.items import ACCOUNT, SESSION, Call, Item
from ktdeval_qfinzero.bench.phrases import clock_text
from ktdeval_qfinzero.moments import SECOND, moment_text

_NEW_YORK: Final = ZoneInfo("America/New_York")
_FREQUENCIES: Final[Mapping[str, str]] = MappingProxyType({"1m": "one minute", "1d": "one trading day"})

PUBLIC_IDS: Final[Mapping[str, str]] = MappingProxyType({"session_id": "sess-dryrun-2025", "account_id": "acct-dryrun-2025"})
"""The ids that the public benchmark fills into its tasks in a run without services."""


@dataclass(frozen=True)
class Situation:
    """What an agent finds.

    Attributes:
        ids: `session_id` and `account_id`, as far as there are any.
        session: arguments that the session was opened with; None without one.
    """

    ids: Mapping[str, str]
    session: Mapping[str, JsonValue] | None = None

    @property
    def words(self) -> str:
        """Which account and session there are. What they hold must be asked for."""
        if "account_id" not in self.ids:
            return "There is no account and no session."
        if self.session is None:
            return f"There is an account, {ACCOUNT}, and no session."
        universe = self.session["universe"]
        names = ", ".join((*universe.get("stocks", ()), *universe.get("options", ())))
        frequency = _FREQUENCIES[self.session.get("frequency", "1m")]
        return (
            f"There is an account, {ACCOUNT}, with a session, {SESSION}. The session has ticks of {frequency}, "
            f"ends at {self.session['end_ts']}, and trades {names}."
        )


def situation_of(item: Item) -> Situation:
    """The situation that the setup of an item makes.

    Raises:
        DataError: more than one account or session, which there are no words for.
    """
    accounts, sessions = _calls(item, "PMB.account.create"), _calls(item, "PMB.session.create")
    if len(accounts) > 1 or len(sessions) > 1:
        raise DataError(f"{item.task.id} ({item.template}): its setup opens more than one account or session")
    ids = {"account_id": ACCOUNT} if accounts else {}
    if not sessions:
        return Situation(ids)
    return Situation({**ids, "session_id": SESSION}, sessions[0].args)


def _calls(item: Item, tool: str) -> list[Call]:
    return [call for call in item.setup if call.tool == tool]


def clock_words(as_of_ns: int) -> str:
    """`2025-01-06T21:00:00Z, which is Monday, 2025-01-06, 4:00 p.m. in New York`."""
    local = datetime.fromtimestamp(as_of_ns // SECOND, UTC).astimezone(_NEW_YORK)
    return f"{moment_text(as_of_ns)}, which is {local:%A, %Y-%m-%d}, {clock_text(local.hour, local.minute)} in New York"
