from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.market import Document, Documents, Entity, MarketSnapshot
from ktdeval.masking.aliases_and_noise import DocumentAlias
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MaskConfig, MaskKind
from ktdeval.masking.payload_types import DocumentRef
from ktdeval.masking.prose import TextMask
from ktdeval.testing import on_each_row
from support.masking.masking_market import BASE_ROW, CODES, MARKET, N_DAYS
from support.searching import examples
from support.tables import beside

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


@on_each_row(
    "text, shown",
    (
        "Ocean Blue Brewery's sales, OCEAN BLUE BREWERY CORP. and Ocean-Blue Brewery",
        "<002304>'s sales, <002304> and <002304>",
    ),
    ("Ocean Blue Brewery Corporation, Inc. rose", "<002304> rose"),
    ("Ocean Blue Brewery. The rest", "<002304>. The rest"),
    ("Teal and Sons, Teal &amp; Sons, Teal&Sons’ debt", "<002304>, <002304>, <002304>’ debt"),
    (
        "Blue Label Gold beats Blue Label, not a blue label",
        "[product] beats [product], not a blue label",
    ),
    (
        "Ada Quill left; Quill said quill pens and Quillings",
        "[person] left; [person] said quill pens and Quillings",
    ),
    ("Teal & Sons' Ada Quill sells Blue Label", "<002304>' [person] sells [product]"),
    ("Bea Twofold of both and Shared Brew of none", "[person] of both and [product] of none"),
    ("Ocean Quill rose, and ocean quill sank", "<600519> rose, and ocean quill sank"),
    ("Quillmark Tea of Quillmark", "[product] of <688981>"),
    (
        "Quill is nobody, (OBB) and $obb are, Obbligato not",
        "Quill is nobody, (<002304>) and $<002304> are, Obbligato not",
    ),
    (
        "NYSE: V and (V), not V or Vee; now and NOW",
        "<600519> and (<600519>), not V or Vee; now and <600519>",
    ),
    ("all small: now v, obb's day", "all small: now v, <002304>'s day"),
    (
        "pricedogecoins' fall, Dogecoinsers; dataxbt fell",
        "price<688981>' fall, <688981>; dataxbt fell",
    ),
    ("dataxbt fell, all small", "data<688981> fell, all small"),
    ("买入五粮甲600519.SH，五粮涨，五 粮 甲", "买入<600519><600519>，<600519>涨，<600519>"),
    (
        "平安银行与银行业，万科企业，万科A和万科a",
        "<000001>与SECTOR业，<000002>企业，<000002>和<000002>",
    ),
    ("sh600519 and 600-519 and 600111.SH", "<600519> and <600519> and [company]"),
    ("TCL科技 will join, Other Rival will not", "[company] will join, [company] will not"),
    ("Quillmark, 688981", "<688981>, <688981>"),
    (
        "On 2024-01-30, Jan. 31st, 2024 and 1 February 2024 in 2023, Q1 2024",
        "On day_+0, day_+1 and day_+2 in [date]",
    ),
    ("2024年2月3日收盘，二〇二三年", "day_+3收盘，[date]"),
    ("by June 9, 2025, on Monday, January 2; 31/12/2023", "by [date], on [date]; [date]"),
    ("Ocean Blue Brewery Gold won", "<002304> won"),
    ("Wrap 8/21: open 24/7, 1/2 of 8/21", "Wrap [date]: open 24/7, 1/2 of 8/21"),
    ("by dec. 13, decs 13 and sep 2", "by [date], decs 13 and [date]"),
    (
        "in januaryfollowing 2022successful 2020s, $2022abc",
        "in [date]following [date]successful [date], $2022abc",
    ),
    ("2024-02-30 or 2031-01-01", "[date] or [date]"),
    (
        "Teal’s N.V. at press@teals.com, www.quillmark.cn/tcl科技 or @obb; teals",
        "<300750> at press@<300750>.com, www.<688981>.cn/[company] or @<002304>; <300750>",
    ),
    (
        "Teal&#39;s and Ocean&nbsp;Blue Brew&#101;ry on Aug&nbsp;2,&#32;2025",
        "<300750> and <002304> on [date]",
    ),
    ("Teal & Sons; Teal&Sons;", "<002304>; <002304>;"),
    (
        "on 8/2/24 or 31/12/24, at the 5/10/20-day means, in ’24",
        "on [date] or [date], at the 5/10/20-day means, [date]",
    ),
    (
        "from Black Friday to Independence Day; the easterly black cat, 八月二日",
        "from [date] to [date]; the easterly black cat, [date]",
    ),
    (
        "It may march on for 5,000 shares at 1.2024 CNY",
        "It may march on for 5,000 shares at 1.2024 CNY",
    ),
    ("no \ue000 private \uf8ff characters", "no   private   characters"),
    ("涨停，240124。与240125，240126,跌停,240129", "涨停，[date]。与[date]，[date],跌停,[date]"),
    ("五粮与sz300750，深SZ300999跌，600519sh与", "<600519>与<300750>，深[company]跌，<600519>与"),
    (
        "Dataxdgc fell, XDGC rose, and so did dataxbt",
        "Data<300750> fell, <300750> rose, and so did dataxbt",
    ),
    ("", ""),
)
def test_what_gives_assets_and_days_away_is_replaced(text: str, shown: str) -> None:
    result = masked(text)
    assert result is not None
    sector = Lens(MaskConfig("blinded"), 1, SNAPSHOT, BASE_ROW).sector_handle("银行")
    assert result.replace(sector, "SECTOR") == shown


@pytest.mark.parametrize(
    ("title", "text"),
    [
        ("Ada Quill leaves", "Mrs Quill said so."),
        ("Quill leaves", "Ada Quill said so."),
        ("ADA QUILL LEAVES", "Quill's word"),
    ],
)
def test_a_last_name_is_hidden_in_a_text_whose_title_has_the_full_name(
    title: str, text: str
) -> None:
    lens = Lens(MaskConfig("blinded"), 1, SNAPSHOT, BASE_ROW)
    known = datetime(2024, 1, 5, tzinfo=UTC)
    document = Document(known, known, "desk", "news", (), title, text)
    shown = TextMask(lens, SNAPSHOT).show(document, 25)

    assert shown is not None
    both = shown.title.plain + shown.text.plain
    assert "quill" not in both.lower()
    assert both.count("[person]") == 2
    assert masked("Mrs Quill said so.") == "Mrs Quill said so."


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


def test_a_mask_hides_what_it_is_for_and_no_mask_changes_nothing() -> None:
    text = "Ocean Blue Brewery (002304.SZ) on 2024-01-30 \ue000 in 白酒"
    assert masked(text, "bright") == text
    assert masked(text, "stock_blind") == masked(text, "blinded", day=0).replace(
        "[date]", "2024-01-30"
    )  # type: ignore[union-attr]
    assert masked(text, "date_blind") == "Ocean Blue Brewery (002304.SZ) on day_+0   in 白酒"
    assert masked(text, day=19) == masked(text, day=0)  # the day after is not known yet
    assert masked("TCL科技", day=29) == "[company]"
    assert masked("TCL科技", day=30) == "<830799>"


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


NOUNS = {"person": "[person]", "product": "[product]"}


OWNED = [one for one in ENTITIES if one.kind in NOUNS and one.text != "Ocean Quill"]


@given(
    st.lists(st.sampled_from(OWNED), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
    st.sampled_from(["", "002304.SZ"]),
)
@examples(30)
def test_a_person_or_product_is_one_word_that_tells_no_company(
    named: list[Entity], order: random.Random, filed: str
) -> None:
    """Whoever owns them, whatever the text is filed under, and in whatever order a file lists them."""
    shuffled = [*ENTITIES]
    order.shuffle(shuffled)
    market = replace(SNAPSHOT, documents=Documents.of((), None, tuple(shuffled)))
    text = ", and ".join(one.text for one in named)

    shown = masked(text, filed=(filed,) if filed else (), market=market)

    assert shown == ", and ".join(NOUNS[one.kind] for one in named)


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
