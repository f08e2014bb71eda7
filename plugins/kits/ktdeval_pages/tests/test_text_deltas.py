"""Documents as differences from one of them: exact for any text, small where texts repeat each
other.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ktdeval_board.site.card_documents import CardDocument, chosen_base
from ktdeval_board.site.files import delta_file
from ktdeval_pages.text_deltas import MIN_RUN, BaseText, restore_text
from support.pages.site_pages import read_data_file

TEXTS = st.text(alphabet=st.sampled_from('ab,",\n\ud7ff\U0001f600'), max_size=60)


def document(text: str, card_id: str) -> CardDocument:
    return CardDocument(len(text), card_id, lambda: text)


@pytest.mark.slow
@given(base=TEXTS, text=TEXTS)
def test_a_text_is_restored_from_its_differences_from_any_other(base: str, text: str) -> None:
    shared = BaseText(base)
    assert restore_text(shared, shared.delta(text)) == text


def test_differences_are_runs_of_the_base_and_what_is_not_in_it() -> None:
    # Worked by hand: pieces 0 to 4 of the base, a new piece, pieces 5 to 8.
    base = BaseText("a,b,c,d,e,f,g,h,i")
    assert base.delta("a,b,c,d,e,new,f,g,h,i") == [[0, 5], "new", [5, 4]]
    # A run below the least length stays text, and so does a text that shares nothing.
    assert MIN_RUN == 4
    assert base.delta("x,b,c,y") == ["x,b,c,y"]
    assert base.delta("") == [""]


def test_the_longest_document_is_the_base_if_it_saves_a_fifth_of_the_next() -> None:
    shared = ",".join(f"word {number}" for number in range(400))
    first = document(shared + ",and more", "b")
    second = document(shared, "a")
    other = document(",".join(str(number**3) for number in range(350)), "c")

    base = chosen_base([second, first])
    assert base is not None
    assert base.text == first.read()
    assert chosen_base([first, other]) is None
    assert chosen_base([first]) is None
    assert chosen_base([]) is None


def test_a_data_file_of_differences_holds_nothing_but_a_value(tmp_path: Path) -> None:
    base = {"text": ["</script>", *map(str, range(90))]}
    value = {"text": ["<script>", *map(str, range(90))]}
    (tmp_path / "base.js").write_text(
        f'ktdevalReceive("base",\n{json.dumps(json.dumps(base))}\n);\n'
    )
    delta = BaseText(json.dumps(base)).delta(json.dumps(value))
    content = delta_file("card/x", "base", delta)

    assert content.startswith(b'ktdevalReceiveDelta("card/x","base",\n"')
    assert b"script" not in content
    assert read_data_file(content, tmp_path) == value
