"""Notes of brokers, posts, news and Chinese market reports, of which a mask hides the words that mean
an asset or a date, and nothing else (`tests/support/masking/market_prose.yaml`).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from ktdeval.masking import Lens, MaskConfig, TextMask, normalise
from ktdeval.testing.markets import tiny_snapshot
from ktdeval.values import load_yaml
from support.paths import REPOSITORY, SUPPORT

TABLE: dict[str, Any] = dict(load_yaml(SUPPORT / "masking" / "market_prose.yaml"))
OTHERS: dict[str, Any] = dict(load_yaml(SUPPORT / "masking" / "respelled.yaml"))
COMPANIES = OTHERS["companies"] | TABLE["companies"]
SETS = ("first set", "second set", "third set")
_SMALL = tiny_snapshot({code: [1.0] * 60 for code in COMPANIES})
MARKET = replace(_SMALL, names=tuple(COMPANIES[code] for code in _SMALL.codes))
DAY = 40
MARKED = re.compile(r"\{([^:}]*):([^}]*)\}")
HANDLE = re.compile(r"\[(?:date|company|product|place|event)\]|day_[+-][0-9]+|asset_[0-9]+")


def lens_of(kind: str) -> tuple[Lens, TextMask]:
    lens = Lens(MaskConfig(kind), 1, MARKET, 20)  # type: ignore[arg-type]
    return lens, TextMask(lens, MARKET)


LENS, MASK = lens_of("blinded")


class Mention(NamedTuple):
    """Words of a sentence that a mask must hide: of an asset by its code, else of a date."""

    code: str
    words: str


def mentions_of(sentence: str) -> list[Mention]:
    return [Mention(*match.groups()) for match in MARKED.finditer(sentence)]


def plain(sentence: str) -> str:
    return MARKED.sub(r"\2", sentence)


def masked(text: str, codes: tuple[str, ...] = ()) -> str:
    prose = MASK.mask(text, DAY, [MARKET.asset_index[code] for code in codes])
    assert prose is not None
    return str(LENS.render(prose))


def squashed(text: str) -> str:
    return re.sub(r"[\W_]", "", normalise(HANDLE.sub("", text))).lower()


def check_hidden(mention: Mention, shown: str) -> None:
    words = squashed(mention.words)
    assert mention.words not in shown
    assert len(words) == 1 or words not in squashed(shown), shown

    if mention.code:
        handle = LENS.asset_handle(MARKET.asset_index[mention.code])
        assert handle in shown or "[product]" in shown
    else:
        assert "[date]" in shown or "day_" in shown


HIDDEN = [sentence for name in SETS for sentence in TABLE[name]]
FILED = "an ordinary word, or a code of two letters, unless the document is filed under the asset"


@pytest.mark.sampled(120)
@pytest.mark.parametrize("sentence", HIDDEN)
def test_words_of_assets_and_dates_are_hidden(sentence: str) -> None:
    shown = masked(plain(sentence))
    for mention in mentions_of(sentence):
        check_hidden(mention, shown)


@pytest.mark.parametrize("sentence", TABLE["open"][FILED])
def test_a_document_hides_words_that_mean_its_own_asset_alone(sentence: str) -> None:
    (mention,) = mentions_of(sentence)
    check_hidden(mention, masked(plain(sentence), (mention.code,)))


@pytest.mark.sampled(120)
@pytest.mark.parametrize("sentence", TABLE["innocent"])
def test_an_innocent_sentence_of_the_market_stays(sentence: str) -> None:
    assert masked(sentence) == sentence


@pytest.mark.parametrize(
    ("why", "sentence"),
    [(why, one) for why, rows in TABLE["falsely hidden"].items() for one in rows],
)
def test_what_is_hidden_by_mistake_stands_in_a_table_with_the_reason(
    why: str, sentence: str
) -> None:
    assert masked(sentence) != sentence


@pytest.mark.parametrize(
    ("kind", "hides_dates", "hides_assets"),
    [("date_blind", True, False), ("stock_blind", False, True), ("bright", False, False)],
)
def test_periods_are_hidden_only_where_dates_are(
    kind: str, hides_dates: bool, hides_assets: bool
) -> None:
    lens, mask = lens_of(kind)
    text = "Tesla's third quarter: FY25E EPS up, as told at WWDC25; 三季度, 25年净利润."
    prose = mask.mask(text, DAY)
    shown = str(lens.render(prose))

    for period in ("third quarter", "FY25E", "WWDC25", "三季度", "25年"):
        assert (period in shown) is not hides_dates
    assert ("Tesla" in shown) is not hides_assets


def test_the_docs_give_the_first_look_at_each_set() -> None:
    docs = " ".join((REPOSITORY / "docs/masks.md").read_text(encoding="utf-8").split())
    innocent = len(TABLE["innocent"])
    false = sum(map(len, TABLE["falsely hidden"].values()))
    mentions = sum(len(mentions_of(one)) for one in HIDDEN)
    still_open = sum(map(len, TABLE["open"].values()))

    assert f"{mentions} of {mentions + still_open} mentions" in docs
    assert f"{innocent} of {innocent + false} innocent sentences" in docs
