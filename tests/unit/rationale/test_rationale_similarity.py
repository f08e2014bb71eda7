"""The second stage: nearest planted sentence, whatever the encoder."""

from __future__ import annotations

import os
import re
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
    ANCHORS_FILE,
    FALSE_ALARMS,
    HARMLESS,
    NgramEncoder,
    SimilarityLinter,
    parse_anchors,
    sentences_of,
    shipped_anchors,
)
from masking_market import MARKET
from rationale_planted import FILES, FOLDER, read_planted

MODEL = "KTDEVAL_EMBEDDING_MODEL"  # folder of a model to measure; see docs/rationale.md
PARAPHRASES = [
    line for line in (FOLDER / "rationale_paraphrased.txt").read_text(encoding="utf-8").splitlines() if line and line[0] != "#"
]
CLEAN = [sentence.text for which in FILES for sentence in read_planted(which) if not sentence.marks]


class Planes:
    """Knows three subjects by one word each."""

    name = "planes"

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """One dimension a target_task, and one that all share."""
        return np.array([[*(2.0 * (word in text) for word in ("bank", "spring", "trend")), 0.5] for text in texts])


ANCHORS = [
    ("sector", "The bank is steady."),
    ("date", "It is spring again."),
    (HARMLESS, "The trend is up here."),
    (HARMLESS, "No trend is seen yet."),
]


def test_a_sentence_takes_the_kind_of_its_nearest_anchor() -> None:
    linter = SimilarityLinter(Planes(), ANCHORS)
    found = linter.find("My bank lends. In spring it rains. The trend goes on. Nothing of the kind.", "here")
    assert [(each.category, each.text, each.anchor) for each in found] == [
        ("sector", "My bank lends.", "The bank is steady."),
        ("date", "In spring it rains.", "It is spring again."),
    ]
    assert all(each.where == "here" and each.similarity == pytest.approx(1.0) for each in found)
    assert [found[1].span, linter.encoder_name] == [(15, 34), "planes"]


def test_texts_are_told_apart() -> None:
    found = SimilarityLinter(Planes(), ANCHORS).find_all([("The trend goes on.", "a"), ("My bank lends.", "b"), ("", "c")])
    assert [(each.where, each.span) for each in found] == [("b", (0, 14))]


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


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One is here. Two is there! Three?", ["One is here.", "Two is there!"]),
        ("A price of 12.60 is low; the rest waits", ["A price of 12.60 is low", "the rest waits"]),
        ("趋势向上。波动率很低,继续持有!", ["趋势向上。", "波动率很低,继续持有!"]),
        ("  spaced out words \n\n 123 456", ["spaced out words"]),
        ("", []),
    ],
)
def test_texts_fall_into_sentences(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in sentences_of(text)] == sentences


def test_anchors_cover_what_words_can_avoid_and_no_test_sentence_is_among_them() -> None:
    kinds = {category for category, _ in shipped_anchors()}
    assert kinds == {"brand", "sector", "date", "event", "hindsight", "recognition", HARMLESS}
    assert kinds - {HARMLESS} < set(LEAK_CATEGORIES)
    tests = {sentence.text for which in FILES for sentence in read_planted(which)} | set(PARAPHRASES)
    assert not tests & {sentence for _, sentence in shipped_anchors()}


def test_anchors_hold_no_name_no_code_and_no_date() -> None:
    """Else the first stage would do."""
    linter = RationaleLinter(MARKET)
    named = [mention for _, sentence in shipped_anchors() for mention in linter.find(sentence)]
    assert not [mention for mention in named if mention.category in ("code", "company", "brand", "date")]


@pytest.mark.parametrize(
    ("text", "message"),
    [("brand - a sentence", "anchors:1: expected `category: sentence`"), ("# a\nstory: once", "anchors:2: expected")],
)
def test_a_broken_anchor_says_where(text: str, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        list(parse_anchors(text))


def test_anchors_need_both_sides() -> None:
    with pytest.raises(DataError, match="anchors need leaks and at least two harmless sentences"):
        SimilarityLinter(Planes(), ANCHORS[:3])


def test_an_encoder_that_gives_nonsense_is_refused() -> None:
    class Broken:
        name = "broken"

        def encode(self, texts: Sequence[str]) -> FloatArray:
            return np.full((len(texts), 2), np.nan)

    with pytest.raises(DataError, match="encoder broken: expected 2 finite vectors"):
        SimilarityLinter(Broken(), ANCHORS)


def test_letter_groups_know_spelling() -> None:
    first, second, third = NgramEncoder().encode(["The import levies", "ＴＨＥ ＩＭＰＯＲＴ ＬＥＶＩＥＳ", "低波动率"])
    assert np.array_equal(first, second)
    assert first @ third == 0


# --- measured


def measure(linter: SimilarityLinter) -> str:
    """The docs' row of an encoder: paraphrases found, harmless sentences reported."""
    found = sum(bool(linter.find(text)) for text in PARAPHRASES)
    wrong = sum(bool(linter.find(text)) for text in CLEAN)
    return f"| {linter.encoder_name} | {found} of {len(PARAPHRASES)} | {wrong} of {len(CLEAN)} |"


def test_the_figures_in_the_docs_are_those_measured(repository: Path) -> None:
    text = (repository / "docs" / "rationale.md").read_text(encoding="utf-8")
    lexical = RationaleLinter(MARKET)
    found = sum(bool(lexical.find(sentence)) for sentence in PARAPHRASES)
    wrong = sum(bool(lexical.find(sentence)) for sentence in CLEAN)
    first = f"| first stage alone | {found} of {len(PARAPHRASES)} | {wrong} of {len(CLEAN)} |"
    for row in (first, measure(SimilarityLinter(NgramEncoder()))):
        assert row in text, f"docs/rationale.md should hold:\n{row}"


def test_a_model_of_ones_own_is_measured() -> None:
    """`KTDEVAL_EMBEDDING_MODEL=DIR pytest tests/test_rationale_similarity.py -s` prints its row."""
    folder = os.environ.get(MODEL)
    if folder is None:
        pytest.skip(f"no sentence-embedding model at hand; name the folder of one in {MODEL}")
    from ktdeval_rationale.similarity import choose_encoder

    encoder = choose_encoder(Path(folder))
    assert not isinstance(encoder, str), encoder
    print("\n" + measure(SimilarityLinter(encoder)))


# --- models from a folder


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A static model with a word for each dimension, as model2vec writes it."""
    pytest.importorskip("model2vec", reason="needs model2vec: pip install 'ktdeval[embeddings]'")
    from model2vec import StaticModel
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = ["[UNK]", "bank", "spring", "trend", "the"]
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    StaticModel(np.eye(len(vocabulary), dtype=np.float32), tokenizer).save_pretrained(str(tmp_path / "words"))
    return tmp_path / "words"


def test_a_model_is_loaded_from_a_folder(model_folder: Path) -> None:
    from ktdeval_rationale.similarity import choose_encoder

    encoder = choose_encoder(model_folder)
    assert not isinstance(encoder, str)
    assert encoder.name == "model2vec words"
    vectors = encoder.encode(["the bank", "spring"])
    assert vectors.dtype == np.float64
    assert vectors.shape[0] == 2
    assert vectors[0] @ vectors[1] == pytest.approx(0.0)
    assert [each.category for each in SimilarityLinter(encoder, ANCHORS).find("the bank lends money")] == ["sector"]


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("model2vec", reason="needs model2vec: pip install 'ktdeval[embeddings]'")
    from ktdeval_rationale.similarity import choose_encoder

    with pytest.raises(UsageError, match="no model there"):
        choose_encoder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UsageError, match="can't be loaded: "):
        choose_encoder(tmp_path)


@pytest.mark.skipif(find_spec("model2vec") is not None, reason="model2vec is installed")
def test_without_the_package_the_reason_says_what_to_install(tmp_path: Path) -> None:
    from ktdeval_rationale.similarity import choose_encoder

    assert choose_encoder(tmp_path) == (
        "a sentence-embedding model needs the package model2vec, which is not installed: pip install 'ktdeval[embeddings]'"
    )


def test_the_anchors_file_is_the_one_that_ships() -> None:
    assert tuple(parse_anchors(ANCHORS_FILE.read_text(encoding="utf-8"))) == shipped_anchors()
