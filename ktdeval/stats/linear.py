"""Linear models of returns on factors: the one fit that the suite's trained linear models have."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def least_squares(x: FloatArray, y: FloatArray, ridge: float = 0.0) -> FloatArray:
    """[K] coefficients `argmin |y - x b|^2 + ridge n |b|^2` of [n, K] observations, without an intercept: ordinary least squares,
    or ridge regression (Hoerl and Kennard 1970) with its penalty as a share of the observations. Columns that depend on others
    share what is theirs (least norm).
    """
    if not ridge:
        return np.asarray(np.linalg.lstsq(x, y, rcond=None)[0], dtype=np.float64)
    return np.asarray(np.linalg.solve(x.T @ x + ridge * len(y) * np.eye(x.shape[1]), x.T @ y))
