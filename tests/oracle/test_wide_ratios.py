"""Quotients of products that need more than 64 bits are exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ktdeval.trading.wide_ratios import ceil_ratio, floor_ratio, product_ratio

FACTOR = st.integers(0, 2**50)
DIVISOR = st.integers(1, 2**59)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(FACTOR, FACTOR, DIVISOR, st.integers(0, 2**40))
def test_large_products_are_divided_exactly(one: int, two: int, divisor: int, extra: int) -> None:
    if one * two // divisor >= 2**61:
        divisor = max(1, one * two >> 55)

    if divisor >= 2**60:
        return

    first = np.array([one])
    second = np.array([two])

    assert floor_ratio([(first, second)], divisor, extra)[0] == (one * two + extra) // divisor
    assert product_ratio(first, second, divisor, extra)[0] == (one * two + extra) // divisor
    assert ceil_ratio([(first, second)], divisor)[0] == -(-one * two // divisor)
