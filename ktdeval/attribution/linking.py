"""Multi-period linking: daily contributions scaled so that they add to the geometric total return (Carino 1999).

Daily contributions c add to the daily return r, but their sums don't add to the compounded total R. Carino scales day t by

    k_t / K,    k_t = ln(1 + r_t) / r_t    (1 where r_t = 0),    K = ln(1 + R) / R    (1 where R = 0)

so that sum over days and lines of c k_t / K = sum of ln(1 + r_t) / K = R: no residual, whatever the lines.

Source: D. R. Carino, "Combining attribution effects over time", Journal of Performance Measurement, summer 1999.
"""

from __future__ import annotations

import numpy as np

from ktdeval.market.snapshot import FloatArray

RUIN = "a daily return is -100 % or less: the NAV is gone, and contributions can't be linked over it"


def linking_coefficients(returns: FloatArray) -> FloatArray:
    """[..., D] Carino's k_t / K for daily returns; NaN throughout a series with a return of -100 % or less.

    Args:
        returns: [..., D] simple daily returns; leading axes are separate series, such as bootstrap draws.
    """
    ruined = ~(returns > -1.0).all(axis=-1, keepdims=True)
    logs = np.log1p(np.where(ruined, 0.0, returns))
    return np.where(ruined, np.nan, _log_share(returns, logs) / _total_share(logs))


def link(contributions: FloatArray, returns: FloatArray) -> FloatArray:
    """Contributions over the whole period, in fractions of the capital at its start.

    Args:
        contributions: [..., D, L] daily contributions of L lines, which add to `returns` or to a part of it.
        returns: [..., D] daily returns of the whole portfolio.

    Returns:
        [..., L] linked contributions. Where the lines add to the return on each day, these add to the total return
        `prod(1 + r) - 1`. NaN for a series with a return of -100 % or less (`RUIN` is the reason).
    """
    linked: FloatArray = np.einsum("...dl,...d->...l", contributions, linking_coefficients(returns))
    return linked


def _log_share(returns: FloatArray, logs: FloatArray) -> FloatArray:
    """ln(1 + r) / r, 1 at 0; log1p keeps it accurate for the smallest r."""
    zero = returns == 0.0
    share: FloatArray = np.where(zero, 1.0, logs / np.where(zero, 1.0, returns))
    return share


def _total_share(logs: FloatArray) -> FloatArray:
    """[..., 1] K from the log return of the whole period."""
    total = logs.sum(axis=-1, keepdims=True)
    return _log_share(np.expm1(total), total)
