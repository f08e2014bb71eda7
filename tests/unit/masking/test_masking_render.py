import json
import math
import re

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ktdeval.errors import PluginError
from ktdeval.masking.payload import render_json, render_number
from searching import examples
from tables import on_each_row

finite = st.floats(allow_nan=False, allow_infinity=False)
numbers = finite | st.integers() | st.integers(-(10**12), 10**12) | st.floats(-1e7, 1e7) | st.integers(1980, 2050)
numbers |= st.floats(99_990, 100_010) | st.floats(1989, 2041)


@on_each_row
def test_numbers_are_short_and_never_look_like_codes_or_years(value, text):
    assert render_number(value) == text


@examples(40)
@given(numbers)
def test_a_rendered_number_is_json_and_close_to_the_number(value):
    back = json.loads(render_number(value))
    if isinstance(value, int):
        assert back == value or math.isclose(back, value, rel_tol=1e-15)
    else:
        assert math.isclose(back, value, rel_tol=5.001e-6, abs_tol=5.001e-6)


@examples(40)
@given(st.integers())
def test_integers_keep_all_their_digits(value):
    mantissa, _, exponent = render_number(value).partition("e")
    whole, _, fraction = mantissa.removesuffix(".0").partition(".")
    assert int(whole + fraction + "0" * (int(exponent or 0) - len(fraction))) == value


@examples(40)
@given(numbers)
def test_no_rendered_number_has_six_digits_standing_alone_or_is_a_year(value):
    text = render_number(value)
    assert not re.search(r"(?<![0-9.])[0-9]{6}", text)
    assert not re.fullmatch(r"-?(?:199[0-9]|20[0-3][0-9])", text)


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-9999, 1980) | st.floats(-9e4, 9e4).map(lambda x: round(x, 1)) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


@examples(40)
@given(plain)
def test_rendered_json_reads_back_as_what_it_was(value):
    assert json.loads(render_json(value)) == value


def test_json_is_compact_and_keeps_the_order_of_keys_and_chinese():
    assert render_json({"b": [1, 2.5, None, True], "a": {}, "名": "五粮"}) == '{"b":[1,2.5,null,true],"a":{},"名":"五粮"}'
    assert render_json([]) == "[]"


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1, 2}}, [b"bytes"], np.datetime64("2024-01-02")])
def test_what_is_no_json_value_is_refused_by_type(value):
    with pytest.raises(PluginError, match=r"type int|set|bytes|datetime64"):
        render_json(value)
