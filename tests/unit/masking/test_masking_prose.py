from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.market import Documents, Entity, MarketSnapshot
from ktdeval.masking.aliases_and_noise import DocumentAlias
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MaskConfig, MaskKind
from ktdeval.masking.payload_types import DocumentRef
from ktdeval.masking.prose import TextMask
from support.masking.masking_market import BASE_ROW, CODES, MARKET, N_DAYS
from support.searching import examples
from support.tables import beside, on_each_row

ENTITIES = tuple(Entity(*one) for one in beside(__file__)["entities"])
# one asset joins on row 30
JOINED = ~((np.array(CODES) == "830799.BJ")[None, :] & (np.arange(N_DAYS) < 30)[:, None])
SNAPSHOT = replace(MARKET, documents=Documents.of((), None, ENTITIES), member=JOINED)


def masked(
    text: str,
    kind: MaskKind = "blinded",
    day: int = 25,
    filed: tuple[str, ...] = (),
    market: MarketSnapshot = SNAPSHOT,
) -> str | None:
    """The text as a mask shows it, with codes in place of handles of assets."""
    lens = Lens(MaskConfig(kind), 1, market, BASE_ROW)
    prose = TextMask(lens, market).mask(text, day, [CODES.index(code) for code in filed])

    if prose is None:
        return None

    shown = str(lens.render(prose))
    LeakGuard(lens, market).check(json.dumps({"text": shown}, ensure_ascii=False))
    for column, code in enumerate(CODES) if lens.hides_assets else ():
        shown = shown.replace(lens.asset_handle(column), f"<{code[:6]}>")

    return shown


@on_each_row
def test_what_gives_assets_and_days_away_is_replaced(text: str, shown: str) -> None:
    result = masked(text)
    assert result is not None
    sector = Lens(MaskConfig("blinded"), 1, SNAPSHOT, BASE_ROW).sector_handle("银行")
    assert result.replace(sector, "SECTOR") == shown


def test_ambiguous_names_are_dropped_unless_the_document_resolves_them() -> None:
    assert masked("Twinned rose") is None
    assert masked("Twinned rose", filed=("300750.SZ",)) == "<300750> rose"
    assert masked("Twinned rose", filed=("300750.SZ", "000002.SZ")) is None
    assert masked("Twinned rose", "date_blind") == "Twinned rose"

    lens = Lens(MaskConfig("blinded"), 1, SNAPSHOT, BASE_ROW)
    names = {
        (one.start, one.end, one.kind)
        for one in TextMask(lens, SNAPSHOT).find_hidden("Twinned, 2023") or ()
    }

    assert names == {(0, 7, "asset"), (9, 13, "date")}


@pytest.mark.parametrize("kind", ["blinded", "stock_blind"])
def test_a_text_with_a_code_that_only_the_guard_finds_is_withheld(kind: MaskKind) -> None:
    assert masked(r"\600519 rose", kind) is None


WORDS = st.sampled_from(
    [
        *(name for name in SNAPSHOT.names),
        *(code for code in CODES),
        *(code[:6] for code in CODES),
        *SNAPSHOT.industries,
        *(one.text for one in ENTITIES),
        "2024-01-30",
        "June 9",
        "2023",
        "monday",
        "Q3",
        "and",
        "rose",
        "2,000",
        "银",
        "ST",
        "A",
        "12",
        "\\n",
        "\n",
        "’s",
        *"0123456789-./ _,'\"&()年月日",
    ]
)


@pytest.mark.slow
@given(
    st.lists(WORDS, max_size=14),
    st.sampled_from(["", " ", "-"]),
    st.sampled_from(["blinded", "stock_blind", "date_blind"]),
)
@examples(60, search=150)
def test_no_guard_finds_anything_in_shown_text(
    words: list[str], between: str, kind: MaskKind
) -> None:
    masked(between.join(words), kind)  # checks


@given(st.lists(WORDS, max_size=12), st.integers(21, 28))
@examples(30)
def test_texts_tell_nothing_of_later_days(words: list[str], day: int) -> None:
    later = np.arange(N_DAYS) > day
    closes = np.where(later[:, None], 7.77, SNAPSHOT.close)
    poisoned = replace(SNAPSHOT, close=closes, member=np.where(later[:, None], ~JOINED, JOINED))
    text = " ".join(words)

    assert masked(text, day=day) == masked(text, day=day, market=poisoned)


@given(st.integers(0, 2**30 - 1), st.integers(0, 2**63 - 1))
def test_names_of_documents_are_a_permutation_of_the_seed(row: int, seed: int) -> None:
    alias = DocumentAlias(seed)
    handle = alias.handle(row)

    assert alias.row(handle) == row
    assert len(handle) == 11
    assert alias.row(DocumentAlias(seed ^ 1).handle(row)) != row or seed == seed ^ 1


def test_names_of_documents_need_the_seed_and_nothing_else() -> None:
    handles = [DocumentAlias(1).handle(row) for row in range(2000)]
    assert len(set(handles)) == 2000
    assert [index for index, _ in sorted(enumerate(handles), key=lambda pair: pair[1])] != list(
        range(2000)
    )

    with pytest.raises(IndexError):
        DocumentAlias(1).handle(1 << 30)

    lens = Lens(MaskConfig("bright"), 3, MARKET, BASE_ROW)
    shown = lens.render(DocumentRef(5))

    assert shown == DocumentAlias(3).handle(5)
    assert lens.parse_document(f" {str(shown).upper()} ") == 5


@pytest.mark.parametrize(
    "text",
    ["doc_", "doc_aaaaaaa", "doc_bcdfghjk", "bcdfghj", "doc_zzzzzzz", "", "DOC_bcdfghj"],
)
def test_a_text_that_is_no_name_of_a_document_is_of_no_row(text: str) -> None:
    assert DocumentAlias(1).row(text) is None
