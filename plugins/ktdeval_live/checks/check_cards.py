"""Check of a test's cards: each must equal the card regenerated from the chain."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from ktdeval.cards import load_card, value_difference
from ktdeval.errors import KtdevalError
from ktdeval.market import MarketSnapshot
from ktdeval.values import Finding, dumps_pretty, to_plain
from ktdeval_live.checks.checked_folder import CheckedFolder
from ktdeval_live.days.clock import of_text
from ktdeval_live.publication.publish_chain import Publication, publications
from ktdeval_live.record.entrant_episode import EntrantMarket
from ktdeval_live.record.findings import make_finding
from ktdeval_live.record.folder import CARDS
from ktdeval_live.results.card_types import LiveCard
from ktdeval_live.results.daily_results import entry_result
from ktdeval_live.results.settled_cards import CardBasis, live_card

_RULE = "card"


class CardCheck:
    """Check of all cards. Cards with the same chain head share their markets."""

    def __init__(self, checked: CheckedFolder) -> None:
        self._checked = checked
        self._market = lru_cache(maxsize=4)(self._market_of)
        self._entries = {}
        for entry in checked.entries:
            self._entries[f"{entry.entrant.name}-{entry.market}.json"] = entry

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each card that differs from the card regenerated from its records."""
        folder = self._checked.folder.path / CARDS
        for path in sorted(folder.glob("*")):
            try:
                problem = self._problem(path)
            except KtdevalError as error:
                problem = str(error)
            if problem is not None:
                yield make_finding(_RULE, "", f"{CARDS}/{path.name}: {problem}")

    def _problem(self, path: Path) -> str | None:
        """Return what is wrong with a card. Raises KtdevalError if it can't be read or
        regenerated.
        """
        entry = self._entries.get(path.name)
        if entry is None:
            return "is of no entrant and market of this test"

        card = load_card(path)
        if not isinstance(card, LiveCard):
            return f"is a {card.kind} card"

        chain = self._checked.chain
        links = card.test.links
        if not 0 < links <= len(chain.entries) or chain.entries[links - 1].hash != card.test.head:
            return "rests on another chain than this one"

        public = publications(self._checked.folder)[: card.evidence.publications]
        if public and public[-1].seq >= links:
            return "counts publications of later links"
        again = self._again(card, entry, public)
        difference = value_difference(card, again)
        if difference is None and path.read_bytes() != dumps_pretty(to_plain(again)).encode():
            return "is not written as `ktdeval live settle` writes it"
        return difference

    def _again(self, card: LiveCard, entry: EntrantMarket, public: list[Publication]) -> LiveCard:
        """Return the card as regenerated from the chain and the evidence."""
        chain = self._checked.chain.first(card.test.links)
        market = self._market(entry.market, card.test.links)
        folder = self._checked.folder
        result = entry_result(folder, chain, entry, self._checked.plugins, market)
        made_at = of_text(self._checked.chain.entries[-1].at)
        again = live_card(
            folder, CardBasis(chain, public, market), result, self._checked.plugins, made_at
        )
        return msgspec.structs.replace(again, provenance=card.provenance)

    def _market_of(self, market: str, links: int) -> MarketSnapshot:
        return self._checked.folder.market(market, self._checked.chain.first(links))
