from hypothesis import given, strategies as st

from ktdeval.masking.text import normalise, normalise_with_places
from tables import on_each_row


@on_each_row
def test_characters_that_look_alike_become_one(written, plain):
    assert normalise(written) == plain


@given(st.text(st.characters(codec=None), max_size=60) | st.text(r"\ud835fe0n" + "\\", max_size=40))
def test_the_places_of_a_folding_agree_with_it_and_ascend(text):
    folded, places = normalise_with_places(text)
    assert folded == normalise(text)
    assert len(places) == len(folded) + 1
    assert list(places) == sorted(places)
    assert all(0 <= place <= len(text) for place in places)


@given(st.text(max_size=60))
def test_folding_twice_changes_nothing_where_there_are_no_escapes(text):
    folded = normalise(text.replace("\\", ""))
    assert normalise(folded.replace("\\", "")) == folded.replace("\\", "")
