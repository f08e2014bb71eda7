"""Many tests at once: p-values corrected for how many there are. A p-value that is None takes no part and stays None."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's (1979) step-down correction: holds the chance of any false positive, whatever the dependence of the tests."""
    return _corrected(p_values, "holm")


def benjamini_hochberg(p_values: Sequence[float | None]) -> list[float | None]:
    """Benjamini and Hochberg's (1995) step-up correction: holds the expected share of false positives among positives.

    For independent or positively dependent tests.
    """
    return _corrected(p_values, "fdr_bh")


def _corrected(p_values: Sequence[float | None], method: str) -> list[float | None]:
    from statsmodels.stats.multitest import multipletests  # noqa: PLC0415 - a second of import, which only comparisons need

    known = [p for p in p_values if p is not None]
    if outside := [p for p in known if not 0.0 <= p <= 1.0]:
        raise ValueError(f"a p-value lies in 0 … 1, was {outside[0]!r}")
    adjusted = iter(multipletests(known, method=method)[1].tolist() if known else ())
    return [None if p is None else next(adjusted) for p in p_values]
