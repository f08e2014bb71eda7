"""Exact quotients of 64-bit integer arrays whose products need more than 64 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ktdeval.market.snapshots.snapshot import FloatArray

IntArray = npt.NDArray[np.int64]
_Product = tuple[IntArray, IntArray | int]
_MAX_PRODUCT = 1 << 62  #: leaves room for a sign and a sum
_MAX_DIVISOR = 1 << 60


class InexactArraysError(ArithmeticError):
    """Amounts are too large for exact array arithmetic; accounts must be processed one by one."""

    def __init__(self) -> None:
        super().__init__("amounts are too large for exact arrays")


def floor_ratio(products: Sequence[_Product], divisor: IntArray | int, extra: int = 0) -> IntArray:
    """Return the exact floor((sum of products + extra) / divisor), in the shape of the first
    factor.

    The sum may need up to 110 bits and the result up to 62 bits. The divisor must be between 1 and
    2^60. A floating-point quotient is slightly off; the remainder, computed modulo 2^64, reveals
    the error.

    Example:
        floor_ratio([(np.array([10**12]), 10**12)], 10**10)  # [10**14]
    """
    estimate: FloatArray = np.zeros(products[0][0].shape)
    exact: IntArray = np.full(estimate.shape, extra, dtype=np.int64)
    with np.errstate(over="ignore"):
        for factor, other in products:
            estimate = estimate + factor.astype(np.float64) * other
            exact = exact + factor * other  # exact modulo 2^64

        quotient: IntArray = np.floor(estimate / divisor).astype(np.int64)
        remainder: IntArray = exact - quotient * divisor

    return np.asarray(quotient + remainder // divisor, dtype=np.int64)


def ceil_ratio(products: Sequence[_Product], divisor: IntArray | int) -> IntArray:
    """Return the sum of products divided by the divisor, rounded up; see `floor_ratio`.

    Example:
        ceil_ratio([(np.array([7]), 1)], 2)  # [4]
    """
    return -floor_ratio([(-factor, other) for factor, other in products], divisor)


def product_ratio(
    factor: IntArray, other: IntArray | int, divisor: IntArray | int, extra: int = 0
) -> IntArray:
    """Return floor((factor * other + extra) / divisor) for non-negative numbers, in the shape of
    `factor`. This is faster than `floor_ratio` if the product fits in 64 bits. Raises
    InexactArraysError if the result does not fit.
    """
    if factor.size == 0:
        return factor

    largest = int(factor.max()) * int(np.max(other)) + extra
    if largest < _MAX_PRODUCT:
        return np.asarray((factor * other + extra) // divisor, dtype=np.int64)

    estimate = factor.astype(np.float64) * other / divisor
    if estimate.max() >= _MAX_PRODUCT or int(np.max(divisor)) > _MAX_DIVISOR:
        raise InexactArraysError
    return floor_ratio([(factor, other)], divisor, extra)
