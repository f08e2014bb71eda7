"""The second stage: nearest planted sentence, whatever the encoder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from ktdeval.errors import DataError, UsageError
from ktdeval.market.snapshot import FloatArray
from ktdeval_rationale.linter import LEAK_CATEGORIES, RationaleLinter
from ktdeval_rationale.similarity import (
    FALSE_ALARMS,
    HARMLESS,
    NgramEncoder,
    SimilarityLinter,
    choose_encoder,
    sentences_of,
    shipped_anchors,
)
from masking_market import MARKET
from rationale_planted import FILES, FOLDER, read_planted
from tables import on_each_row

MODEL = "KTDEVAL_EMBEDDING_MODEL"  # folder of a model to measure; see docs/rationale.md
PARAPHRASES = [
    line for line in (FOLDER / "rationale_paraphrased.txt").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"
]
CLEAN = [sentence.text for which in FILES for sentence in read_planted(which) if not sentence.marks]
ANCHORS = [
    ("sector", "The bank is steady."),
    ("date", "It is spring again."),
    (HARMLESS, "The trend is up here."),
    (HARMLESS, "No trend is seen yet."),
]


class Planes:
    """Knows three subjects by one word each: one dimension for each of them, and one that all share."""

    name = "planes"

    def encode(self, texts: Sequence[str]) -> FloatArray:
        return np.array([[*(2.0 * (word in text) for word in ("bank", "spring", "trend")), 0.5] for text in texts])


def test_a_sentence_takes_the_kind_of_its_nearest_anchor() -> None:
    linter = SimilarityLinter(Planes(), ANCHORS)
    text = "My bank lends. In spring it rains. The trend goes on. Nothing of the kind."
    resemblances = linter.find(text, "here")
    assert [(each.category, each.text, each.anchor) for each in resemblances] == [
        ("sector", "My bank lends.", "The bank is steady."),
        ("date", "In spring it rains.", "It is spring again."),
    ]
    assert all(each.where == "here" and each.similarity == pytest.approx(1.0) for each in resemblances)
    assert [resemblances[1].span, linter.encoder_name] == [(15, 34), "planes"]
    together = linter.find_all([("The trend goes on.", "a"), ("My bank lends.", "b"), ("", "c")])
    assert [(each.where, each.span) for each in together] == [("b", (0, 14))]


def test_the_threshold_lets_few_harmless_anchors_pass() -> None:
    class Remembering(NgramEncoder):
        def encode(self, texts: Sequence[str]) -> FloatArray:
            return np.array([self._one(text) for text in texts])

        _one = lru_cache(lambda self, text: NgramEncoder.encode(self, [text])[0])

    encoder = Remembering(256)
    linter = SimilarityLinter(encoder)
    harmless = [sentence for category, sentence in shipped_anchors() if category == HARMLESS]
    alarms = 0
    for sentence in harmless:
        rest = SimilarityLinter(encoder, [pair for pair in shipped_anchors() if pair[1] != sentence])
        rest.threshold = linter.threshold
        alarms += bool(rest.find(sentence))
    assert 0 < alarms <= FALSE_ALARMS * len(harmless) + 1


@on_each_row
def test_texts_fall_into_sentences(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in sentences_of(text)] == sentences


def test_anchors_cover_what_words_can_avoid_and_hold_no_test_sentence_name_code_or_date() -> None:
    kinds = {category for category, _ in shipped_anchors()}
    assert kinds == {"brand", "sector", "date", "event", "hindsight", "recognition", HARMLESS}
    assert kinds - {HARMLESS} < set(LEAK_CATEGORIES)
    sentences = {sentence for _, sentence in shipped_anchors()}
    assert not sentences & {sentence.text for which in FILES for sentence in read_planted(which)} | sentences & set(PARAPHRASES)
    linter = RationaleLinter(MARKET)  # else the first stage would do
    named = {mention.category for sentence in sentences for mention in linter.find(sentence)}
    assert not named & {"code", "company", "brand", "date"}


def test_anchors_of_one_side_and_an_encoder_of_nonsense_are_refused() -> None:
    class Broken:
        name = "broken"

        def encode(self, texts: Sequence[str]) -> FloatArray:
            return np.full((len(texts), 2), np.nan)

    with pytest.raises(DataError, match="anchors need leaks and at least two harmless sentences"):
        SimilarityLinter(Planes(), ANCHORS[:3])
    with pytest.raises(DataError, match="encoder broken: expected 2 finite vectors"):
        SimilarityLinter(Broken(), ANCHORS)


def test_letter_groups_know_spelling() -> None:
    first, second, third = NgramEncoder().encode(["The import levies", "ＴＨＥ ＩＭＰＯＲＴ ＬＥＶＩＥＳ", "低波动率"])
    assert np.array_equal(first, second)
    assert first @ third == 0


# --- measured


def row(name: str, linter: SimilarityLinter | RationaleLinter) -> str:
    """The docs' row of a linter: paraphrases found, harmless sentences reported."""
    right, wrong = (sum(bool(linter.find(text)) for text in texts) for texts in (PARAPHRASES, CLEAN))
    return f"| {name} | {right} of {len(PARAPHRASES)} | {wrong} of {len(CLEAN)} |"


def test_the_figures_in_the_docs_are_those_measured(repository: Path) -> None:
    text = (repository / "docs" / "rationale.md").read_text(encoding="utf-8")
    for expected in (row("first stage alone", RationaleLinter(MARKET)), row("letter groups", SimilarityLinter(NgramEncoder()))):
        assert expected in text, f"docs/rationale.md should hold:\n{expected}"


def test_a_model_of_ones_own_is_measured() -> None:
    """`KTDEVAL_EMBEDDING_MODEL=DIR pytest tests/test_rationale_similarity.py -s` prints its row."""
    folder = os.environ.get(MODEL)
    if folder is None:
        pytest.skip(f"no sentence-embedding model at hand; name the folder of one in {MODEL}")
    encoder = choose_encoder(Path(folder))
    assert not isinstance(encoder, str), encoder
    print("\n" + row(encoder.name, SimilarityLinter(encoder)))


# --- models from a folder


def test_a_model_is_loaded_from_a_folder_that_holds_one(tmp_path: Path) -> None:
    """A static model with a word for each dimension, as model2vec writes it."""
    pytest.importorskip("model2vec", reason="needs model2vec: pip install 'ktdeval[embeddings]'")
    from model2vec import StaticModel
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = ["[UNK]", "bank", "spring", "trend", "the"]
    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    StaticModel(np.eye(len(vocabulary), dtype=np.float32), tokenizer).save_pretrained(str(tmp_path / "words"))
    encoder = choose_encoder(tmp_path / "words")
    assert not isinstance(encoder, str)
    assert encoder.name == "model2vec words"
    vectors = encoder.encode(["the bank", "spring"])
    assert (vectors.dtype, vectors.shape[0]) == (np.float64, 2)
    assert vectors[0] @ vectors[1] == pytest.approx(0.0)
    assert [each.category for each in SimilarityLinter(encoder, ANCHORS).find("the bank lends money")] == ["sector"]
    with pytest.raises(UsageError, match="no model there"):
        choose_encoder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="can't be loaded: "):
        choose_encoder(tmp_path)


@pytest.mark.skipif(find_spec("model2vec") is not None, reason="model2vec is installed")
def test_without_the_package_the_reason_says_what_to_install(tmp_path: Path) -> None:
    needed = "a sentence-embedding model needs the package model2vec, which is not installed: pip install 'ktdeval[embeddings]'"
    assert choose_encoder(tmp_path) == needed
