"""Options for `ktdeval judge --sharpe`: a reported figure that is judged without a file."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.cli import JsonOptions, flag


@dataclass(frozen=True, kw_only=True)
class PrintedFigureOptions(JsonOptions):
    """Options for a reported Sharpe ratio. `PrintedFigure` rejects impossible values."""

    sharpe: float | None = flag(
        None,
        metavar="X",
        help="judge a printed annual Sharpe ratio, without a file; needs --days",
    )
    days: int | None = flag(None, metavar="N", help="number of daily returns behind --sharpe")
    trials: int | None = flag(
        None, metavar="N", help="number of strategies tried, including the judged one [default: 1]"
    )
    trial_sd: float | None = flag(
        None,
        metavar="X",
        help=(
            "standard deviation of the annual Sharpe ratios of --trials; default: as for "
            "strategies without skill"
        ),
    )
    skew: float = flag(0.0, metavar="X", help="skewness of the daily returns")
    kurtosis: float = flag(
        3.0,
        metavar="X",
        help="kurtosis of the daily returns (not excess kurtosis; 3 for a normal distribution)",
    )
    autocorrelation: float = flag(
        0.0, metavar="X", help="lag-1 autocorrelation of the daily returns"
    )
    periods: float | None = flag(
        None,
        metavar="N",
        help=(
            "returns per year: 252 for daily, 12 for monthly returns [default: 252 for --sharpe; "
            "for a NAV the market's, else derived from its days]"
        ),
    )
