import pytest
from hypothesis import given, strategies as st

from ktdeval.masking.text import normalise, normalise_with_places


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("６００５１９", "600519"), ("𝟞𝟘𝟘𝟝𝟙𝟡", "600519"), ("٦٠٠٥١٩", "600519"), ("6️⃣0️⃣0️⃣", "600"), ("ＴＣＬ", "TCL"), ("ЅН", "SH"),
        ("é", "e"), ("6\u200b0\u200d0\ufeff5\u00ad1\u20609", "600519"), ("600\u00a0519", "600 519"), ("600\u2011519", "600-519"),
        ("600\u2212519", "600-519"), ("2024\u22150１\uff0f02", "2024/01/02"), ("\u32c0", "1月"), ("万科Ａ", "万科A"),
        # JSON escapes become what they stand for, others as many spaces, so that no letter sticks to a word.
        (r"\u0036\u00300519", "600519"), (r"\u8d35\u5dde", "贵州"), (r"\ud835\udfde", "6"), (r"\nJanuary\t", "  January  "),
        ("Plain text, 12.5 % (T+1).", "Plain text, 12.5 % (T+1)."),
    ],
)  # fmt: skip
def test_characters_that_look_alike_become_one(written, plain):
    assert normalise(written) == plain


@given(st.text(st.characters(codec=None), max_size=60) | st.text(r"\ud835fe0n" + "\\", max_size=40))
def test_the_places_of_a_folding_agree_with_it_and_ascend(text):
    folded, places = normalise_with_places(text)
    assert folded == normalise(text)
    assert len(places) == len(folded) + 1
    assert places == sorted(places)
    assert all(0 <= place <= len(text) for place in places)


@given(st.text(max_size=60))
def test_folding_twice_changes_nothing_where_there_are_no_escapes(text):
    folded = normalise(text.replace("\\", ""))
    assert normalise(folded.replace("\\", "")) == folded.replace("\\", "")
