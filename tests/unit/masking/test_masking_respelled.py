"""Names and dates in spellings that nobody lists, and innocent sentences, in documents of a market
without an entity file.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.masking import Lens, MaskConfig, TextMask, identities_of, normalise
from ktdeval.masking.names.ordinary_words import is_ordinary, needs_capital
from ktdeval.masking.text_normalisation import _lookalikes
from ktdeval.testing.markets import tiny_snapshot
from ktdeval.values import load_yaml
from support.paths import SUPPORT
from support.searching import examples

TABLE: dict[str, Any] = dict(load_yaml(SUPPORT / "masking" / "respelled.yaml"))
COMPANIES = TABLE["companies"]
_SMALL = tiny_snapshot({code: [1.0] * 60 for code in COMPANIES})
MARKET = replace(_SMALL, names=tuple(COMPANIES[code] for code in _SMALL.codes))
LENS = Lens(MaskConfig("blinded"), 1, MARKET, 20)
MASK = TextMask(LENS, MARKET)
ENGLISH = "The note said that {} could gain as demand holds up."
CHINESE = "分析师称{}将受益于需求回升。"
NO_DATE = re.compile(r"(?:\[date\]|day_[+-][0-9]+|the|week|[\s,.])*")
NAMES = [(kind, *row) for kind, rows in TABLE["names"].items() for row in rows]
DATES = [(kind, text) for kind, texts in TABLE["dates"].items() for text in texts]
LEFT = [(why, row[1]) for why, rows in TABLE["not_hidden"].items() for row in rows]


def whole(text: str) -> str:
    """A text as it is masked, with `<CODE>` for the handle of an asset."""
    prose = MASK.mask(text, 40)

    assert prose is not None

    shown = str(LENS.render(prose))

    for column, code in enumerate(MARKET.codes):
        shown = shown.replace(LENS.asset_handle(column), f"<{code}>")

    return shown


def masked(spelled: str) -> str:
    """What a mask makes of a spelling in a sentence, of which nothing else changes."""
    sentence = CHINESE if re.search("[\u4e00-\u9fff]", spelled) else ENGLISH
    before, after = sentence.split("{}")
    shown = whole(sentence.format(spelled))

    assert shown.startswith(before), shown
    assert shown.endswith(after), shown

    return shown.removeprefix(before).removesuffix(after)


def squashed(text: str) -> str:
    return re.sub(r"<[^>]*>|[\W_]", "", normalise(text)).lower()


@pytest.mark.sampled(80)
@pytest.mark.parametrize(("kind", "code", "spelled"), NAMES)
def test_a_respelled_name_is_hidden_as_its_asset(kind: str, code: str, spelled: str) -> None:
    shown = masked(spelled)
    assert f"<{code}>" in shown or "[product]" in shown
    assert squashed(spelled) not in squashed(shown)


@pytest.mark.parametrize(("kind", "spelled"), DATES)
def test_nothing_is_left_of_a_respelled_date(kind: str, spelled: str) -> None:
    assert NO_DATE.fullmatch(masked(spelled))


@pytest.mark.parametrize(("why", "spelled"), LEFT)
def test_what_is_not_hidden_stands_in_a_table_with_its_reason(why: str, spelled: str) -> None:
    assert masked(spelled) == spelled


@pytest.mark.sampled(60)
@pytest.mark.parametrize("sentence", TABLE["innocent"])
def test_an_innocent_sentence_stays(sentence: str) -> None:
    assert whole(sentence) == sentence


def words_of_docs(repository: Any) -> str:
    return " ".join((repository / "docs/masks.md").read_text(encoding="utf-8").split())


def test_the_tables_are_large_enough_and_the_docs_count_them(repository: Any) -> None:
    docs = words_of_docs(repository)
    hidden = len(NAMES) + len(DATES)

    assert hidden >= 200
    assert len(TABLE["innocent"]) >= 150
    assert f"{hidden} spellings" in docs
    assert f"{len(NAMES)} of names and {len(DATES)} of dates" in docs
    assert f"{len(TABLE['innocent'])} innocent sentences" in docs


# --- by rule, not by example

FIRST_WORDS = {re.split("[ ,.]", name)[0] for name in COMPANIES.values()}
RARE = sorted(
    name
    for name in FIRST_WORDS
    if name.isascii() and name.isalpha() and len(name) >= 5
    if not is_ordinary(name.lower()) and not needs_capital(name.lower())
)


@cache
def look_alikes(letter: str) -> list[str]:
    return [other for other, plain in _lookalikes().items() if plain == letter]


@st.composite
def respelled(draw: st.DrawFn) -> tuple[str, str]:
    """A name, and the name in a spelling that a rule makes."""
    name = draw(st.sampled_from(RARE))
    cut = draw(st.integers(1, len(name) - 1))
    letters = list(name)
    match draw(st.sampled_from(["case", "look-alike", "between", "apart", "inside", "ending"])):
        case "case":
            flips = draw(st.lists(st.booleans(), min_size=len(name), max_size=len(name)))
            letters = [
                letter.swapcase() if flip else letter
                for letter, flip in zip(name, flips, strict=True)
            ]
        case "look-alike":
            letters[cut] = draw(st.sampled_from([*look_alikes(letters[cut]), letters[cut]]))
        case "between":
            letters.insert(cut, draw(st.sampled_from("-_.*")))
        case "apart":
            letters = list(draw(st.sampled_from(" -._·")).join(name))
        case "inside":
            letters = [draw(st.sampled_from(["", "My", "Big"])), name, "Fans"]
        case "ending":
            letters.append(draw(st.sampled_from(["s", "ing", "ed", "'s", "esque", "ification"])))

    return name, "".join(letters)


@pytest.mark.slow
@given(respelled())
@examples(150)
def test_a_name_that_a_rule_respells_is_hidden(drawn: tuple[str, str]) -> None:
    name, spelled = drawn
    shown = masked(spelled)
    assert "<" in shown
    assert name.lower() not in squashed(shown)


@pytest.mark.slow
@given(
    respelled(), st.sampled_from([text for _, text in DATES]), st.sampled_from(TABLE["innocent"])
)
@examples(80)
def test_a_masked_text_stays_as_it_is(drawn: tuple[str, str], date: str, sentence: str) -> None:
    prose = MASK.mask(f"{sentence} {ENGLISH.format(drawn[1])} So {date} it was.", 40)
    assert prose is not None
    once = str(LENS.render(prose))
    assert str(LENS.render(MASK.mask(once, 40))) == once


@pytest.mark.parametrize(
    "spelled",
    ["nVidia", "Nvidıa", "Tes-la", "N.V.D.A.", "Micr0soft", "NVDAs", "TeslaBot", "T e s l a"],
)
def test_a_model_that_respells_a_name_does_not_see_it_again(spelled: str) -> None:
    guard = identities_of(MARKET, assets=True, dates=True)
    words = guard.withhold(f"I hold {spelled}, I think")
    assert "[withheld]" in words
    assert squashed(spelled) not in squashed(words)
