"""A test under verification, with the values that all checks share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property

from ktdeval.registry import Plugins
from ktdeval_live.days.clock import of_text
from ktdeval_live.days.market_sessions import Session
from ktdeval_live.record.chain import Entry as Link, Frozen, RecordChain
from ktdeval_live.record.entrant_episode import EntrantMarket, find_entries
from ktdeval_live.record.folder import LiveFolder

_GRACE = timedelta(days=1)
"""Time after a cutoff at which a live test is incomplete if its step has not run."""


class CheckedFolder:
    """A test's folder, its entries, and its chain, which is read once."""

    def __init__(
        self, folder: LiveFolder, chain: RecordChain, plugins: Plugins, now: datetime | None = None
    ) -> None:
        self.folder = folder
        self.chain = chain
        self.plugins = plugins
        self._now = now

    @cached_property
    def entries(self) -> tuple[EntrantMarket, ...]:
        """Entries in the plan, including the entries of entrants that joined later."""
        return tuple(find_entries(self.folder.plan))

    @cached_property
    def sessions(self) -> Mapping[tuple[str, str], Session]:
        """Sessions by market and day."""
        found = {}
        for market in self.folder.plan.markets:
            for session in self.folder.schedule(market).sessions:
                found[market, session.day] = session
        return found

    @cached_property
    def frozen(self) -> Mapping[str, Link]:
        """Data entries in the chain, by hash."""
        return {link.hash: link for link, _ in self.chain.find_links(Frozen)}

    @cached_property
    def first_frozen(self) -> Mapping[tuple[str, str], int]:
        """Number of the first chain entry with data, by market and day."""
        found: dict[tuple[str, str], int] = {}
        for link, body in self.chain.find_links(Frozen):
            found.setdefault((body.market, body.day), link.seq)
        return found

    @cached_property
    def last_at(self) -> datetime:
        """Time of the last chain entry."""
        return of_text(self.chain.entries[-1].at)

    @cached_property
    def due_until(self) -> datetime:
        """Time up to which each cutoff must have an outcome: the time of the last chain entry or,
        in a live test, one day ago if that is later.
        """
        if self._now is None or self.folder.plan.kind != "live":
            return self.last_at
        return max(self.last_at, self._now - _GRACE)
