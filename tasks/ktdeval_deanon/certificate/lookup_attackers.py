"""Attackers without a language model, which look up a masked payload in the whole public history.

The exact matcher compares every shown number with the corresponding number for each asset and day,
and takes the nearest: it does what a perfect memory could do. It knows the mask's options, which
every card states, and nothing about the episode except the payload.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ktdeval.errors import DataError
from ktdeval.market import BoolArray
from ktdeval.masking import MaskConfig
from ktdeval.values import JsonValue, derive_seed, near_matches
from ktdeval_deanon.certificate.payload_matching import (
    FIELDS,
    Field,
    PayloadComparisons,
    ShownComparison,
    read_payload,
)
from ktdeval_deanon.certificate.public_history import PublicHistory, SingleArray

TOP = 5

# degrees of freedom of the Student t distribution of misfits, which is quadratic for small misfits
# and robust to outliers
_FREEDOM = 8.0
_FARTHEST = 1e4  # squared misfits are capped here
# number of factors multiplied before taking the logarithm: (1 + _FARTHEST / _FREEDOM) ** 8 fits
# single precision
_FLUSH = 8
_BLOCK_CELLS = 40_000  # cells processed in one pass, so that its arrays fit in the cache
_IMPOSSIBLE = np.float32(1e6)


@dataclass(frozen=True, slots=True)
class AttackerGuess:
    """An attacker's answer."""

    tickers: tuple[str, ...]  #: codes, best first, at most five
    day: str
    sector: str  #: industry of the first ticker
    board: str  #: exchange board of the first ticker


@dataclass(frozen=True)
class Evidence:
    """Misfit between a payload and every asset and day in the history, keyed by field."""

    history: PublicHistory
    #: field -> [T, N] or [T, 1] negative log likelihood; fields without evidence are absent
    misfit: Mapping[Field, SingleArray]
    #: field -> whether all numbers in the field agree to the shown precision, same shape
    agrees: Mapping[Field, BoolArray]

    def guess(self, fields: Collection[Field] = FIELDS, seed: int = 0) -> AttackerGuess:
        """Return the assets and the day nearest to the payload in some of the fields; `seed` breaks
        ties at random.
        """
        total = np.where(self.history.is_listed, np.float32(0.0), 2 * _IMPOSSIBLE)
        for field in _known_fields(fields):
            total += self.misfit.get(field, np.float32(0.0))

        total += 1e-3 * np.random.default_rng(derive_seed(seed, "ties")).random(
            total.shape, dtype=np.float32
        )
        order = np.argsort(total.min(axis=0))[:TOP].tolist()
        return _guess_of(self.history, order, int(total[:, order[0]].argmin()))

    def anonymity(self, fields: Collection[Field] = FIELDS) -> int:
        """Return how many asset-day pairs agree with these fields to the shown precision: the k of
        k-anonymity.

        Only assets with a bar on or before the day are included. The payload's own pair is among
        the pairs, so the minimum is 1 (under noise, a number beyond `NOISE_BOUND` can exclude it).
        """
        agrees = self.history.is_listed.copy()
        for field in _known_fields(fields):
            agrees &= self.agrees.get(field, True)
        return int(agrees.sum())


def _guess_of(history: PublicHistory, assets: Sequence[int], day: int) -> AttackerGuess:
    first = assets[0]
    codes = tuple(history.market.codes[asset] for asset in assets)
    return AttackerGuess(
        codes, history.days[day], str(history.industries[first]), str(history.boards[first])
    )


def weigh(
    payload: Mapping[str, JsonValue],
    history: PublicHistory,
    fields: Collection[Field] = FIELDS,
    mask: MaskConfig | None = None,
) -> Evidence:
    """Compare some fields of a payload with every asset and day. Calling `.guess()` on the result
    gives the exact matcher's answer.

    One pass serves all subsets of the fields, which are passed to `Evidence.guess` and
    `Evidence.anonymity`. `mask`: the options of the mask, which are public; the default is the
    plain mask. Raises DataError if the payload is not what the tools return, or a field does not
    exist.
    """
    chosen = _known_fields(fields)
    evidence = PayloadComparisons(
        read_payload(payload, history.rows), history, mask or MaskConfig()
    )
    misfit: dict[Field, SingleArray] = {}
    agrees: dict[Field, BoolArray] = {}

    for field, listed in evidence.by_field():
        if field in chosen and listed:
            misfit[field], agrees[field] = _compare(listed)

    for field, allowed in evidence.conditions():
        if field in chosen:
            misfit[field], agrees[field] = np.where(allowed, np.float32(0.0), _IMPOSSIBLE), allowed

    return Evidence(history, misfit, agrees)


def _known_fields(fields: Collection[Field]) -> Sequence[Field]:
    for field in fields:
        if field not in FIELDS:
            raise DataError(
                f"there is no field {field!r} to attack{near_matches(str(field), FIELDS)}"
            )
    return [field for field in FIELDS if field in fields]


def _compare(evidence: Sequence[ShownComparison]) -> tuple[SingleArray, BoolArray]:
    """Return the misfit and agreement between the evidence and all days and assets, computed in
    blocks of days.
    """
    shape = evidence[0].values.shape
    misfit = np.zeros(shape, dtype=np.float32)
    agrees = np.ones(shape, dtype=np.bool_)
    rows = max(1, _BLOCK_CELLS // shape[1])

    for start in range(0, shape[0], rows):
        block = slice(start, min(start + rows, shape[0]))
        _compare_block(evidence, block, misfit[block], agrees[block])

    misfit *= np.float32((_FREEDOM + 1.0) / 2.0)
    return misfit, agrees


def _compare_block(
    evidence: Sequence[ShownComparison], block: slice, misfit: SingleArray, agrees: BoolArray
) -> None:
    product = np.ones(misfit.shape, dtype=np.float32)
    for number, comparison in enumerate(evidence, start=1):
        squared = _squared_distance(comparison, block)
        agrees &= squared <= np.float32((comparison.bound / comparison.scale) ** 2)
        np.fmin(squared, np.float32(_FARTHEST), out=squared)
        squared *= np.float32(1.0 / _FREEDOM)
        squared += np.float32(1.0)
        product *= squared

        if number % _FLUSH == 0 or number == len(evidence):
            misfit += np.log(product, out=product)
            product.fill(1.0)


def _squared_distance(comparison: ShownComparison, block: slice) -> npt.NDArray[np.float32]:
    """Return the [days, N] squared difference in units of the comparison's scale; NaN where the
    history has no value.
    """
    values, offset, shown, _, scale, minus, minus_offset = comparison
    first = max(block.start, -offset, -minus_offset)
    distance = np.full((block.stop - block.start, values.shape[1]), np.nan, dtype=np.float32)
    if first >= block.stop:
        return distance

    part = distance[first - block.start :]
    np.subtract(values[first + offset : block.stop + offset], np.float32(shown), out=part)
    if minus is not None:
        part -= minus[first + minus_offset : block.stop + minus_offset]

    part *= np.float32(1.0 / scale)
    part *= part
    return distance


class RandomAttacker:
    """Random attacker that uses only what a payload shows openly: the board, and whether the stock
    is an index member.

    `history`: the public history. Tickers are drawn uniformly without replacement from its assets
    on the shown board; if the payload says that the stock is an index member, only from those that
    were ever members. `rows`: the days to draw from uniformly; the whole history if None.
    """

    def __init__(self, history: PublicHistory, rows: range | None = None) -> None:
        self.history = history
        self.rows = range(len(history.days)) if rows is None else rows
        self._ever_member = history.market.member.any(axis=0)

    def guess(self, payload: Mapping[str, JsonValue], seed: int) -> AttackerGuess:
        """Return an answer. Equal seeds give equal answers to equal payloads. Raises DataError if
        the payload is not what the tools return.
        """
        rng = np.random.default_rng(derive_seed(seed, "random attacker"))
        pool = self.pool(payload)
        drawn = rng.choice(pool, size=min(TOP, len(pool)), replace=False).tolist()

        return _guess_of(self.history, drawn, self.rows[int(rng.integers(len(self.rows)))])

    def pool(self, payload: Mapping[str, JsonValue]) -> npt.NDArray[np.intp]:
        """Return the columns from which tickers are drawn; all columns if no asset is on the shown
        board.
        """
        shown = read_payload(payload, self.history.rows)
        fits = self.history.boards == shown.board
        if shown.member:
            fits &= self._ever_member
        return np.flatnonzero(fits) if fits.any() else np.arange(len(fits))


def field_sets(fields: Collection[Field] = FIELDS) -> dict[str, tuple[Field, ...]]:
    """Return the field sets of an ablation, keyed by name: each single field, all fields but one,
    and all fields.
    """
    everything = tuple(field for field in FIELDS if field in fields)
    sets: dict[str, tuple[Field, ...]] = {field: (field,) for field in everything}
    sets.update(
        {
            f"all but {field}": tuple(other for other in everything if other != field)
            for field in everything
        }
    )

    return {**sets, "all": everything}
