"""Masks on real news: labelled mentions, false masking, and what is left for the leak guard."""

from __future__ import annotations

import json

import pytest

from ktdeval.masking import identities_of
from support.tasks.investorbench_texts import (
    CODES,
    FOLDER,
    labelled,
    market,
    measure,
    news,
    text_mask,
)

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"{FOLDER} is not there")


def test_labelled_mentions_are_masked_and_little_else() -> None:
    score = measure()
    assert score.mentions == 648
    assert score.masked >= 0.99 * score.mentions, score.missed
    assert score.false <= 0.006 * score.hidden, score.wrong


def test_no_name_is_left_in_a_labelled_text_and_without_a_mask_it_stays() -> None:
    lens, mask = text_mask("bright")
    texts = [one.text for one in labelled()]

    assert [lens.render(mask.mask(text, 40)) for text in texts] == texts

    lens, mask = text_mask("blinded")
    names = {entity.text.lower() for entity in market().documents.entities if len(entity.text) > 3}

    for text in texts:
        shown = str(lens.render(mask.mask(text, 40))).lower()
        assert not [
            name
            for name in names
            if f" {name} " in shown and name not in ("teams", "windows", "excel")
        ]


@pytest.mark.exhaustive
def test_few_texts_are_dropped_and_the_guard_finds_nothing_in_the_rest() -> None:
    guard = identities_of(market(), assets=True, dates=True)
    lens, mask = text_mask("blinded")
    texts = []

    for column, code in enumerate(CODES):
        texts += [mask.mask(text, market().day_index(day), (column,)) for day, text in news(code)]

    shown = [str(lens.render(text)) for text in texts if text is not None]

    assert len(shown) >= 0.99 * len(texts)
    assert not [text for text in shown if guard.has_any(json.dumps(text))]
