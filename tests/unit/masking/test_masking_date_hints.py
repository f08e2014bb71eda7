"""What rules out a pattern of dates must not hide a date: found with the hints is what is found
without them.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from ktdeval.masking.dates import free_dates
from ktdeval.masking.dates.date_rules import first_letters
from ktdeval.masking.dates.free_date_rules import IN_WORDS, RULES
from ktdeval.masking.text_normalisation import TextViews, around_digits, normalise
from support.searching import examples

# `from_regex` knows no look-arounds, and needs none: what they forbid is drawn and does not match.
_LOOK_AROUND = re.compile(
    r"\(\?<?[!=](?:[^()\[\]\\]|\\.|\[(?:\\.|[^\]])*\]|\((?:[^()\\]|\\.)*\))*\)"
)


@st.composite
def dates(draw: st.DrawFn) -> tuple[int, str]:
    rules = (*RULES, *IN_WORDS)
    number = draw(st.integers(0, len(rules) - 1))
    pattern = rules[number].pattern
    plain = re.compile(
        _LOOK_AROUND.sub("", pattern.pattern), pattern.flags & ~re.UNICODE | re.ASCII
    )
    text = draw(st.from_regex(plain, fullmatch=True))
    before = draw(st.sampled_from(["", " ", '"', "to ", "(", "a"]))
    after = draw(st.sampled_from(["", " ", '"', ", or", ")", "x"]))

    return number, normalise(f"{before}{text}{after}")


@pytest.mark.exhaustive
@examples(600)
@given(dates())
def test_a_pattern_that_matches_is_never_ruled_out(drawn: tuple[int, str]) -> None:
    _, text = drawn
    if not text.isascii():
        return

    shape = TextViews(text)
    words = set(shape.words)
    for rule in (*RULES, *IN_WORDS):
        if rule.pattern.search(text):
            assert rule.hints.allow(words, first_letters(words), shape), (rule.pattern, text)


def test_a_plan_of_weights_needs_few_patterns() -> None:
    text = '{"target_weights":{"asset_0012":0.045,"asset_0140":0.0}}'
    shape = TextViews(text)
    assert len(free_dates._possible(text, shape, set(shape.words))) <= 2


@examples(60, search=500)
@given(text=st.text(st.sampled_from("12a-. \n年"), max_size=40), reach=st.integers(1, 6))
def test_spans_around_digits_cover_exactly_the_neighbourhood_of_digits(
    text: str, reach: int
) -> None:
    spans = around_digits(text, reach)
    near = set()
    for offset, character in enumerate(text):
        if character in "12":
            near.update(range(max(0, offset - reach), min(len(text), offset + reach + 1)))

    covered = set()
    for start, end in spans:
        covered.update(range(start, end))
        # a span ends with a whole word
        assert not re.match("[0-9A-Za-z]", text[end:]) or not re.search("[0-9A-Za-z]$", text[:end])

    assert near <= covered
    extra = "".join(text[offset] for offset in sorted(covered - near))
    assert not extra or extra.isalnum()
