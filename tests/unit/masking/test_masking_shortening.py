"""Shortening of text: its beginning and end, between words, with a mark that counts what is cut, and
without making a date or code that the whole does not have.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain

import pytest
from hypothesis import given, strategies as st

from ktdeval.market import Document, Documents
from ktdeval.masking import IdentityIndex, Lens, MaskConfig, Prose, TextMask, identities_of, shorten
from ktdeval.masking.payload_types import AssetRef, DayRef
from ktdeval.masking.text_truncation import BOTH_ENDS_FROM, CUT_MARK, beginning, cut_of
from ktdeval.testing import on_each_row
from support.masking.masking_market import BASE_ROW, CODES, MARKET, NAMES
from support.searching import examples, is_searching
from support.tables import beside
from support.tasks import investorbench_texts

LENS = Lens(MaskConfig("blinded"), 1, MARKET, BASE_ROW)
MASK = TextMask(LENS, MARKET)
GUARD = identities_of(MARKET, assets=True, dates=True)
DAY = 25
PIECES = (*beside(__file__)["pieces"], *NAMES, *chain.from_iterable(NAMES.values()))


def article(number: int) -> str:
    chance = random.Random(number)
    pieces = chance.choices(PIECES, k=30)
    return "".join(piece + chance.choice(("", " ", " ", " ", "-")) for piece in pieces)


MARK = re.compile(r" ?\[… ([\d,]+) characters cut …\] ?")


def kept_parts(shown: str) -> tuple[str, str]:
    """Beginning and end of a shortened text; the end is empty if the beginning alone is kept."""
    mark = MARK.search(shown)
    if mark is None:
        return shown.removesuffix(CUT_MARK).rstrip(), ""

    return shown[: mark.start()], shown[mark.end() :]


def is_cut_inside_a_word(whole: str, begin: str, end: str) -> bool:
    after = whole[len(begin) : len(begin) + 1]
    before = whole[: len(whole) - len(end)][-1:]
    return any(
        one.isascii() and one.isalnum() and other.isascii() and other.isalnum()
        for one, other in ((begin[-1:], after), (before, end[:1]))
    )


@on_each_row(
    "text, most, shown",
    ("A short text", 12, "A short text"),
    ("A short text", 11, "A short …"),
    ("A short text", 9, "A short …"),
    ("A short text", 8, "A …"),
    ("Supercalifragilistic", 10, "…"),
    ("", 0, ""),
    ("It rose by 2024 shares today", 20, "It rose by …"),
    ("It rose by 2024 shares today", 26, "It rose by 2024 shares …"),
    ("An Investment Decision now", 18, "An Investment …"),
    ("sell asset_0042 now or never", 18, "sell asset_0042 …"),
    ("买入股票，因为价格上涨很多", 9, "买入股票，因为…"),
    ("九月二十四日会上涨很多", 6, "…"),
    ("增长三千万元而已", 7, "增…"),
    ('{"a":[1,2],"b":"long text"}', 14, '{"a":[1,2], …'),
)
def test_text_is_cut_between_words_and_marked(text: str, most: int, shown: str) -> None:
    assert shorten(text, most) == shown
    assert len(shown) <= max(most, len(CUT_MARK))


WORDS = " ".join(f"word{'abcdefghij'[index % 10]}" for index in range(500))  # 2,999 characters


def test_a_long_text_keeps_beginning_and_end_and_says_how_much_is_cut() -> None:
    shown = shorten(WORDS, 400)
    begin, end = kept_parts(shown)

    assert WORDS.startswith(begin)
    assert WORDS.endswith(end)
    assert (
        shown
        == f"{begin} [… {len(WORDS) - len(begin) - len(end):,} characters cut …] {end}".replace(
            "  ", " "
        )
    )
    assert 380 < len(shown) <= 400
    assert 1.7 < len(begin) / len(end) < 2.3


@pytest.mark.slow
@given(
    words=st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=20, max_size=120),
    most=st.integers(BOTH_ENDS_FROM, 500),
)
@examples(60)
def test_what_is_kept_and_what_is_counted_is_the_whole_text(words: list[str], most: int) -> None:
    text = " ".join(words)
    shown = shorten(text, most)

    assert len(shown) <= most or shown == text

    if shown == text:
        return

    cut = cut_of(text, most)

    assert cut is not None

    begin = text[: cut.start]
    end = text[cut.end :]
    count = int(cut.mark.strip().split()[1].replace(",", ""))

    assert shown.startswith(begin)
    assert shown.endswith(end)
    assert len(begin) + count + len(end) == len(text)


@pytest.mark.parametrize("first", [2_000, 1_000, 500])
def test_a_text_that_is_cut_again_counts_both_cuts(first: int) -> None:
    again = shorten(shorten(WORDS, first), 300)
    begin, end = kept_parts(again)
    (mark,) = MARK.finditer(again)
    assert len(begin) + int(mark[1].replace(",", "")) + len(end) == len(WORDS)


def test_the_mark_is_no_code_or_date_whatever_it_counts() -> None:
    counts = [*range(1, 30_000, 7), 19_900, 20_240, 202_412, 600_519, 688_981, 20_240_131]
    marks = [f"It [… {count:,} characters cut …] rose" for count in counts]
    assert [mark for mark in marks if GUARD.has_any(mark)] == []


@pytest.mark.parametrize("most", [120, 200, 300])
def test_writing_without_spaces_keeps_both_ends_without_spaces(most: int) -> None:
    text = "买入股票，因为价格上涨很好，" * 50
    begin, end = kept_parts(shorten(text, most))

    assert text.startswith(begin)
    assert text.endswith(end)
    assert "] " not in shorten(text, most)
    assert len(end) > most / 6


def test_a_beginning_alone_has_no_count() -> None:
    assert beginning(WORDS, 300).endswith(" …")
    assert WORDS.startswith(beginning(WORDS, 300).removesuffix(" …"))


@pytest.mark.sampled(15)
@pytest.mark.parametrize("number", range(1000 if is_searching() else 40))
def test_no_cut_of_a_masked_article_makes_a_date_or_a_code(number: int) -> None:
    prose = MASK.mask(article(number), DAY)
    if prose is None:
        pytest.skip("this article can't be masked")

    found = []
    inside = []
    for most in range(2, len(prose.plain)):
        shown, is_cut = prose.shorten(most)
        begin, end = kept_parts(shown.plain)
        assert is_cut
        assert prose.plain.startswith(begin)
        assert prose.plain.endswith(end)
        assert len(shown.plain) <= most
        found += [shown.plain] if GUARD.has_any(json.dumps(shown.plain, ensure_ascii=False)) else []
        inside += [shown.plain] if is_cut_inside_a_word(prose.plain, begin, end) else []

    assert (found, inside) == ([], [])


def new_hits(index: IdentityIndex, whole: str, cut: str) -> list[str]:
    known = index.find(whole, "answer")
    begin, end = kept_parts(cut)
    shift = len(whole) - len(cut)  # of offsets in what is kept of the end
    found = []

    for hit in index.find(cut, "answer"):
        offset = 0 if hit.start < len(begin) or not end else shift
        if not any(
            hit.start + offset < other.end and other.start < hit.end + offset for other in known
        ):
            found.append(cut[hit.start : hit.end])

    return found


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("number", range(200 if is_searching() else 10))
def test_no_cut_of_an_unmasked_text_makes_a_date_or_a_code(number: int) -> None:
    text = article(-1 - number)
    assert [
        hits for most in range(2, len(text)) if (hits := new_hits(GUARD, text, shorten(text, most)))
    ] == []


@pytest.mark.skipif(
    not investorbench_texts.FOLDER.is_dir(), reason=f"{investorbench_texts.FOLDER} is not there"
)
def test_no_cut_of_real_news_makes_a_date_or_a_code() -> None:
    guard = identities_of(investorbench_texts.market(), assets=True, dates=True)
    _, mask = investorbench_texts.text_mask()
    every_news, every_length = (10, 1) if is_searching() else (200, 7)
    cuts = []

    for code in investorbench_texts.CODES:
        for _, text in investorbench_texts.news(code)[::every_news]:
            prose = mask.mask(text, 40)
            if prose is not None:
                lengths = range(2, len(prose.plain), every_length)
                cuts += [prose.shorten(most)[0].plain for most in lengths]

    assert len(cuts) > 1000
    assert [cut for cut in cuts if guard.has_any(json.dumps(cut))] == []


def test_a_document_is_cut_after_masking_and_marked_as_cut() -> None:
    begin = "Quillmark fell. " + "so " * 8
    document = Document(
        datetime(2024, 1, 2, tzinfo=UTC),
        datetime(2024, 1, 2, tzinfo=UTC),
        "wire",
        "news",
        (),
        "A title",
        "",
    )
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


@pytest.mark.slow
@given(
    pieces=st.lists(
        st.sampled_from(["See ", "it ", AssetRef(3), DayRef(7), " and "]), min_size=60, max_size=90
    ),
    most=st.integers(BOTH_ENDS_FROM, 250),
)
@examples(40)
def test_what_was_taken_out_of_a_long_text_is_whole_at_both_ends(
    pieces: list[str | AssetRef | DayRef], most: int
) -> None:
    prose = Prose(tuple(pieces))
    shown, is_cut = prose.shorten(most)
    assert shown.plain == shorten(prose.plain, most)
    assert is_cut == (shown != prose)


def starred(prose: Prose) -> str:
    """A text with a star for each reference."""
    return "".join(part if isinstance(part, str) else "*" for part in prose.parts)


def test_what_was_taken_out_is_never_cut_in_two() -> None:
    prose = Prose(("See ", AssetRef(3), " on ", DayRef(7), " again and again"))
    texts = [prose.shorten(most)[0] for most in range(2, len(prose.plain) + 1)]

    assert texts[-1] == prose
    assert set(map(starred, texts)) == {
        "…",
        "See …",
        "See * …",
        "See * on …",
        "See * on * …",
        "See * on * again …",
        "See * on * again and …",
        "See * on * again and again",
    }
