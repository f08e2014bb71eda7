"""Reference of the attribution: any portfolios with a weight for each asset, straight from the
definition.
"""

from __future__ import annotations

import numpy as np

from ktdeval.attribution.decompose import Decomposition
from ktdeval.attribution.factor_returns import Fit
from ktdeval.errors import DataError
from ktdeval.market.snapshots.snapshot import FloatArray


def decompose(weights: FloatArray, fitted: Fit) -> Decomposition:
    """Split the returns of portfolios with these [..., D, N] weights, shares of the capital at the
    close before each day of the fit, of any sign and sum. Raises DataError unless they are finite
    and of the fit's days and assets.
    """
    days, assets = fitted.returns.shape

    if weights.shape[-2:] != (days, assets) or not np.isfinite(weights.sum()):
        raise DataError(
            f"weights are {weights.shape}, expected finite numbers of {days} days × {assets} assets"
            " on the last two axes"
        )

    portfolios = weights.reshape(-1, days, assets).transpose(1, 0, 2)
    totals = (
        (portfolios @ fitted.exposures.design.transpose(0, 2, 1))
        .transpose(1, 0, 2)
        .reshape(*weights.shape[:-1], -1)
    )
    count = len(fitted.industry_names)
    day = np.arange(portfolios.shape[1] * days).reshape(-1, days, 1)
    industries = np.zeros((*weights.shape[:-1], count))

    if count:
        cells = day * count + fitted.industry_of
        size = day.size * count
        industries = np.bincount(cells.ravel(), weights.ravel(), size).reshape(industries.shape)

    held, selection = (
        np.einsum("...dn,dn->...d", weights, part) for part in (fitted.returns, fitted.residuals)
    )

    return Decomposition(
        factor_names=fitted.factor_names,
        industry_names=fitted.industry_names,
        held_return=held,
        common=totals[..., 0] * fitted.common,
        style=totals[..., 1:] * fitted.style,
        industry=industries * fitted.industry,
        selection=selection,
        exposures=totals[..., 1:],
        invested=totals[..., 0],
        has_exposure=np.einsum(
            "...dn,dkn->...dk", weights != 0, fitted.exposures.known.astype(float)
        )
        > 0,
    )
