"""Brief for the attacker: the market, what is hidden, and what to answer. It contains no codes or
dates.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import cache
from pathlib import Path
from string import Template

import numpy as np

from ktdeval.market import Board, MarketSnapshot
from ktdeval.masking import Lens
from ktdeval.values import load_yaml, sha256_hex

_PROMPTS = ("system", "user")
_WORDS = load_yaml(Path(__file__).with_name("brief.yaml"))


@cache
def prompt_text(name: str) -> str:
    """Return the text of a prompt file that ships with the package (a constant, so it is read
    once).
    """
    return Path(__file__).with_name("prompts").joinpath(f"{name}.md").read_text(encoding="utf-8")


def prompt_hashes() -> dict[str, str]:
    """Return the SHA-256 of each prompt file, keyed by file name."""
    return {f"{name}.md": sha256_hex(prompt_text(name)) for name in _PROMPTS}


class ProbeBrief:
    """System prompt for one set of probes. It states what is public about the whole set and nothing
    about any single probe.

    `period`: rows [start, stop) of the days that may be asked about; `factors`: the factors that
    rank the shown screen.
    """

    def __init__(
        self, market: MarketSnapshot, period: tuple[int, int], factors: Sequence[str]
    ) -> None:
        start, stop = period
        ever_members = {
            market.boards[asset] for asset in np.flatnonzero(market.member[start:stop].any(axis=0))
        }
        self._market = market
        self._public = {
            "boards": ", ".join(str(board) for board in Board if board in ever_members),
            # without the comma, a count such as 2024 would read as a year
            "period_days": f"{stop - start:,}",
            "first_quarter": quarter_words(market.days[start]),
            "last_quarter": quarter_words(market.days[stop - 1]),
            "factors": ", ".join(f"`{name}`" for name in factors),
        }

    def text(self, lens: Lens) -> str:
        """Return the brief for probes behind the lens's mask. Within a set, briefs differ only
        where masks differ.
        """
        market = self._market
        if market.meta.synthetic:
            kind = _WORDS["generated"]
        elif market.meta.placebo:
            kind = _WORDS["placebo"]
        else:
            kind = _WORDS["real"]

        # If the mask hides codes or dates, an index named after its code or a date stays unnamed.
        index = market.index_names.get(market.meta.benchmark, market.meta.benchmark)
        universe = (
            "an index of large stocks" if lens.is_hidden_identity(index) else f"the {index} index"
        )
        words = {
            "market": kind,
            "universe": universe,
            "hidden": _WORDS["hidden"][lens.mask.kind],
            "numbers": _number_words(lens),
        }

        return Template(prompt_text("system")).substitute(self._public, **words)


def _number_words(lens: Lens) -> str:
    """Describe how the mask changes the numbers."""
    mask = lens.mask
    words = []
    if mask.rebase_prices:
        words.append(
            "The prices of each stock are rescaled so that its close at the first decision is 100,"
            " and its volumes to match."
        )

    if mask.noise_pct:
        words.append(f"Noise of {mask.noise_pct:g} % is laid over each stock's figures.")

    if mask.round_digits is not None:
        words.append(f"Figures are rounded to {mask.round_digits} significant digits.")

    return " ".join(
        words or ["Prices, volumes and amounts are the original ones, in CNY and shares."]
    )


def quarter_words(day: np.datetime64) -> str:
    """Return a quarter spelled out, without digits: `the second quarter of twenty twenty-four`.

    The leak guard of a mask that hides dates would reject a year written in digits.
    """
    plain = date.fromisoformat(str(day))
    quarter = ("first", "second", "third", "fourth")[(plain.month - 1) // 3]
    return f"the {quarter} quarter of {_year_words(plain.year)}"


def _year_words(year: int) -> str:
    century, rest = divmod(year, 100)
    if century % 10 == 0 and rest < 10:
        return f"{_below_hundred(century // 10)} thousand" + (
            f" and {_below_hundred(rest)}" if rest else ""
        )
    if rest == 0:
        return f"{_below_hundred(century)} hundred"

    return f"{_below_hundred(century)} {'oh ' if rest < 10 else ''}{_below_hundred(rest)}"


def _below_hundred(number: int) -> str:
    units: list[str] = _WORDS["units"]
    if number < len(units):
        return units[number]
    tens, unit = divmod(number, 10)
    return f"{_WORDS['tens'][tens - 2]}{f'-{units[unit]}' if unit else ''}"
