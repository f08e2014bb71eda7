"""A lens that has been moved and relabelled against a new one that begins there, and against the lens
of another market that differs only in what the mask hides; and which of these the plays have met.

A lens remembers what it has shown. What it remembers too long is in no answer of a new lens.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from ktdeval.market import Document, Documents, NameSpell
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MASK_KINDS, MaskConfig, MaskKind
from ktdeval.masking.payload_types import (
    AssetName,
    AssetRef,
    DayRef,
    DocumentRef,
    IndexLevel,
    Price,
    SectorRef,
)
from support.masking.masking_market import BASE_ROW, CODES, INDEX_CODE, MARKET, N_DAYS

RENAMED_ON = 25  #: row of the day on which every asset gets another code and name
N_DOCUMENTS = 8
MOVES = 25
PLAYS = 40
Reach = Counter[tuple[str, str]]


def with_former_names(market: MarketSnapshot) -> MarketSnapshot:
    spells = []
    before, after = (str(market.days[row]) for row in (RENAMED_ON - 1, RENAMED_ON))
    for number, code in enumerate(market.codes):
        former = f"{code[:3]}9{number:02d}{code[6:]}"
        name = market.names[number]
        spells.append(NameSpell(code, "1900-01-01", before, f"Former{number}", former))
        spells.append(NameSpell(code, after, "2200-01-01", name, code))

    return replace(market, spells=tuple(spells), id="")


def with_other_identities(market: MarketSnapshot) -> MarketSnapshot:
    """The market with other codes, names and industries in the same order, and another index."""
    industries = {"unknown": "unknown"}
    for number, name in enumerate(sorted({*market.industries} - {"unknown"})):
        head = "Zarvok" if name < "unknown" else "zarvok"  # sorted as the first name is
        industries[name] = f"{head} {chr(65 + number)}"

    return replace(
        market,
        codes=tuple(
            f"{code[:3]}{500 + number}{code[6:]}" for number, code in enumerate(market.codes)
        ),
        names=tuple(f"Zarvok {number}" for number in range(len(market.names))),
        industries=tuple(industries[name] for name in market.industries),
        id="",
    )


def on_other_days(market: MarketSnapshot) -> MarketSnapshot:
    return replace(market, days=market.days + np.timedelta64(1_001, "D"), id="")


RENAMED = with_former_names(MARKET)


def other_market(kind: MaskKind) -> MarketSnapshot | None:
    """The market that differs from RENAMED in all that a mask hides; None if it hides nothing."""
    if kind == "date_blind":
        return with_former_names(on_other_days(MARKET))
    if kind == "stock_blind":
        return with_former_names(with_other_identities(MARKET))
    if kind == "blinded":
        return with_former_names(on_other_days(with_other_identities(MARKET)))
    return None


def payload_of(market: MarketSnapshot, asset: int, row: int) -> Any:
    price = float(MARKET.close[row, asset])
    return [
        AssetRef(asset),
        AssetName(asset),
        SectorRef(market.industries[asset]),
        DayRef(row),
        Price(asset, price, row),
        IndexLevel(INDEX_CODE, 3_000.0 + row),
    ]


def lens(kind: MaskKind, seed: int, market: MarketSnapshot) -> Lens:
    return Lens(MaskConfig(kind, True), seed, market, BASE_ROW)


class Play:
    """One lens, the lens of the other market, and what a new lens must have shown to be like it."""

    def __init__(self, kind: MaskKind, seed: int, reach: Reach) -> None:
        self.kind = kind
        self.reach = reach
        self.seed = seed  #: of the handles in use
        self.row = BASE_ROW
        self.shown: set[int] = set()
        self.old_handles: set[str] = set()
        self.lens = lens(kind, seed, RENAMED)
        self.first_seed = seed
        market = other_market(kind)
        self.other_market = market
        self.other = None if market is None else lens(kind, seed, market)

    def new_lens(self) -> Lens:
        """A lens that begins where this one is, and has shown the same assets."""
        made = lens(self.kind, self.first_seed, RENAMED)
        made.move_to(self.row)
        if self.seed != self.first_seed:
            made.relabel(self.seed)
        for asset in self.shown:
            made.asset_handle(asset)
        return made

    def show(self, asset: int) -> None:
        self.shown.add(asset)
        payload = payload_of(RENAMED, asset, self.row)
        text = self.lens.render_text(payload)
        assert text == self.new_lens().render_text(payload)
        self.reach[self.kind, "shown"] += 1
        self.old_handles.add(self.lens.asset_handle(asset))
        if self.other is not None and self.other_market is not None:
            assert text == self.other.render_text(payload_of(self.other_market, asset, self.row))
            self.reach[self.kind, "other market"] += 1

    def relabel(self, seed: int) -> None:
        self.seed = seed
        self.lens.relabel(seed)
        if self.other is not None:
            self.other.relabel(seed)

    def move(self, row: int) -> None:
        if self.row < RENAMED_ON <= row and self.shown:
            self.reach[self.kind, "moved over a rename"] += 1
        self.row = row
        self.lens.move_to(row)
        if self.other is not None:
            self.other.move_to(row)

    def ask(self, handle: str) -> None:
        """Ask for a handle that was once shown; only hidden assets forget theirs."""
        found = self.lens.parse_asset(handle)
        if self.lens.hides_assets:
            assert found == self.new_lens().parse_asset(handle)
            self.reach[self.kind, "forgotten" if found is None else "known"] += 1
        else:
            assert found == RENAMED.asset_of(handle, self.row)
            self.reach[self.kind, "known"] += 1


def play(kind: MaskKind, seed: int, reach: Reach) -> None:
    chance = random.Random(seed)
    played = Play(kind, seed, reach)
    for _ in range(MOVES):
        move = chance.choice(("show", "show", "ask", "relabel", "move"))
        if move == "show":
            played.show(chance.randrange(len(CODES)))
        elif move == "relabel" and chance.random() < 0.5:
            played.relabel(chance.randrange(2**40))
        elif move == "move" and played.row < N_DAYS - 1:
            played.move(min(played.row + chance.randint(1, 4), N_DAYS - 1))
        elif move == "ask" and played.old_handles:
            played.ask(chance.choice(sorted(played.old_handles)))


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_a_lens_shows_what_a_new_one_and_that_of_another_market_show(kind: MaskKind) -> None:
    reach: Reach = Counter()

    for seed in range(PLAYS):
        play(kind, seed, reach)

    met = {"shown", "moved over a rename", "known"}
    if kind != "bright":
        met.add("other market")
    if kind in ("stock_blind", "blinded"):
        met.add("forgotten")
    missing = met - {what for _, what in reach}
    assert not missing, f"never met: {missing}"


def test_documents_of_one_moment_are_in_the_order_of_their_handles_not_as_stored() -> None:
    known = datetime(2024, 1, 30, tzinfo=UTC)
    items = [
        Document(known, known, "wire", "news", (), f"{number} up", "It rose.")
        for number in range(N_DOCUMENTS)
    ]
    market = replace(MARKET, documents=Documents.of(items), id="")
    documents = market.documents.as_of(market.days)
    rows = list(range(N_DOCUMENTS))
    assert len(documents) == N_DOCUMENTS
    firsts = set()
    for seed in range(30):
        one = lens("blinded", seed, market)
        ordered = one.sort_documents(documents, rows)
        handles = [one.render(DocumentRef(row)) for row in ordered]
        assert handles == sorted(handles)
        assert sorted(ordered) == rows
        firsts.add(ordered[0])

    assert len(firsts) > N_DOCUMENTS // 2, "which is first tells nothing of how they are stored"
