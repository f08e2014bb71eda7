"""Shortening of text: between words, with a mark, and without making a date or code that the whole does not have."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from datetime import UTC, datetime

import pytest

import investorbench_texts
from ktdeval.market import Document, Documents
from ktdeval.masking import IdentityIndex, Lens, MaskConfig, Prose, TextMask, identities_of, shorten
from ktdeval.masking.payload import AssetRef, DayRef
from ktdeval.masking.shortening import CUT_MARK
from masking_market import BASE_ROW, CODES, MARKET, NAMES
from searching import is_searching
from tables import beside, on_each_row

LENS = Lens(MaskConfig("blinded"), 1, MARKET, BASE_ROW)
MASK = TextMask(LENS, MARKET)
GUARD = identities_of(MARKET, assets=True, dates=True)
DAY = 25
PIECES = (*beside(__file__)["pieces"], *NAMES, *(part for names in NAMES.values() for part in names))


def article(number: int) -> str:
    chance = random.Random(number)
    pieces = chance.choices(PIECES, k=30)
    return "".join(piece + chance.choice(("", " ", " ", " ", "-")) for piece in pieces)


def is_cut_inside_a_word(whole: str, kept: str) -> bool:
    before, after = kept[-1:], whole[len(kept) : len(kept) + 1]
    return before.isascii() and before.isalnum() and after.isascii() and after.isalnum()


@on_each_row
def test_text_is_cut_between_words_and_marked(text: str, most: int, shown: str) -> None:
    assert shorten(text, most) == shown
    assert len(shown) <= max(most, len(CUT_MARK))


@pytest.mark.parametrize("number", range(1000 if is_searching() else 40))
def test_no_cut_of_a_masked_article_makes_a_date_or_a_code(number: int) -> None:
    prose = MASK.mask(article(number), DAY)
    if prose is None:
        pytest.skip("this article can't be masked")
    found, inside = [], []
    for most in range(2, len(prose.plain)):
        shown, is_cut = prose.shorten(most)
        kept = shown.plain.removesuffix(CUT_MARK).rstrip()
        assert is_cut
        assert prose.plain.startswith(kept)
        assert len(shown.plain) <= most
        found += [shown.plain] if GUARD.has_any(json.dumps(shown.plain, ensure_ascii=False)) else []
        inside += [kept] if is_cut_inside_a_word(prose.plain, kept) else []
    assert (found, inside) == ([], [])


def new_hits(index: IdentityIndex, whole: str, cut: str) -> list[str]:
    known = index.find(whole, "answer")
    hits = index.find(cut, "answer")
    return [cut[hit.start : hit.end] for hit in hits if not any(hit.start < other.end and other.start < hit.end for other in known)]


@pytest.mark.parametrize("number", range(200 if is_searching() else 10))
def test_no_cut_of_an_unmasked_text_makes_a_date_or_a_code(number: int) -> None:
    text = article(-1 - number)
    assert [hits for most in range(2, len(text)) if (hits := new_hits(GUARD, text, shorten(text, most)))] == []


@pytest.mark.slow
@pytest.mark.skipif(not investorbench_texts.FOLDER.is_dir(), reason=f"{investorbench_texts.FOLDER} is not there")
def test_no_cut_of_real_news_makes_a_date_or_a_code() -> None:
    guard = identities_of(investorbench_texts.market(), assets=True, dates=True)
    _, mask = investorbench_texts.text_mask()
    texts = [
        text for code in investorbench_texts.CODES for _, text in investorbench_texts.news(code)[:: 10 if is_searching() else 200]
    ]
    masked = [prose for text in texts if (prose := mask.mask(text, 40)) is not None]
    cuts = [prose.shorten(most)[0].plain for prose in masked for most in range(2, len(prose.plain), 1 if is_searching() else 7)]
    assert len(cuts) > 1000
    assert [cut for cut in cuts if guard.has_any(json.dumps(cut))] == []


def test_a_document_is_cut_after_it_is_masked_and_says_so() -> None:
    begin = "Quillmark fell. " + "so " * 8
    document = Document(datetime(2024, 1, 2, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC), "wire", "news", (), "A title", "")
    market = replace(MARKET, documents=Documents.of([document]))
    mask = TextMask(Lens(MaskConfig("blinded"), 1, market, BASE_ROW), market)
    # The masked text at hand: the name has the length of a handle, and the cut falls behind `Dec`.
    whole = document._replace(text=f"{begin}Investment Decline at last")
    most = len(f"asset_0012 fell. {'so ' * 8}Investment Dec")
    shown = mask.show(whole, DAY, most)
    assert shown is not None
    assert shown.is_cut
    assert shown.text.parts[0] == AssetRef(CODES.index("688981.SH"))
    assert shown.text.plain.endswith("Investment …") or shown.text.plain.endswith("so …")
    uncut = mask.show(whole, DAY)
    assert uncut is not None
    assert not uncut.is_cut


def test_what_was_taken_out_is_never_cut_in_two() -> None:
    prose = Prose(("See ", AssetRef(3), " on ", DayRef(7), " again and again"))
    texts = [prose.shorten(most)[0] for most in range(2, len(prose.plain) + 1)]
    assert texts[-1] == prose
    assert {"".join("*" if not isinstance(part, str) else part for part in text.parts) for text in texts} == {
        "…", "See …", "See * …", "See * on …", "See * on * …", "See * on * again …", "See * on * again and …",
        "See * on * again and again",
    }  # fmt: skip
