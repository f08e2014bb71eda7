"""Embedded market as a dataset: generated on first use, kept in a cache folder, and read from there
afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from ktdeval.errors import DataError, StoreError
from ktdeval.runner import cache_folder
from ktdeval.values import content_hash, lock_folder, make_folder
from ktdeval_qfinzero.data.dataset import Dataset, open_dataset
from ktdeval_qfinzero.data.manifest import MANIFEST, VERSION
from ktdeval_qfinzero.data.synthetic.market import generate
from ktdeval_qfinzero.data.synthetic.params import GENERATOR_VERSION, SyntheticMarketParams
from ktdeval_qfinzero.data.writing import save_dataset

_ADVICE = "set KTDEVAL_CACHE_DIR to a folder that can be written"


def cache_root() -> Path:
    """Return the folder of generated markets: `$KTDEVAL_CACHE_DIR`, or the user's cache folder."""
    return cache_folder() / "qfinzero"


def open_embedded(cache: Path, seed: int = 0, say: Callable[[str], None] | None = None) -> Dataset:
    """Open the market of a seed. `say` receives messages about slow steps. Raises StoreError if the
    cache can't be written; DataError if the dataset is invalid.
    """
    return open_generated(cache, SyntheticMarketParams(seed=seed), say)


def open_generated(
    cache: Path, params: SyntheticMarketParams, say: Callable[[str], None] | None = None
) -> Dataset:
    """Open the market of any parameters, as `open_embedded` does for a seed. If several processes
    open a new market at once, one generates it and the others wait.
    """
    folder = generated_folder(cache, params)
    if not (folder / MANIFEST).is_file():
        _generate(folder, params, say or (lambda _: None))

    try:
        return open_dataset(folder)
    except DataError as error:
        raise DataError(f"{error}; delete {folder} to generate it again") from error


def generated_folder(cache: Path, params: SyntheticMarketParams) -> Path:
    """Return the folder of a market, named after its parameters and the versions of the generator
    and the format.
    """
    return cache / f"synthetic-v{GENERATOR_VERSION}.{VERSION}-{content_hash(asdict(params))[:16]}"


def _generate(folder: Path, params: SyntheticMarketParams, say: Callable[[str], None]) -> None:
    """Generate a market into its folder, unless another process did so while this one waited for
    its turn.
    """
    make_folder(folder.parent, _ADVICE)
    with lock_folder(folder.parent, wait=True):
        if (folder / MANIFEST).is_file():
            return

        say("generating the embedded market: once, some seconds")
        market = generate(params)
        try:
            save_dataset(folder, market.prices, market.events, market.news, market.info)
        except StoreError as error:
            raise StoreError(f"{error}; {_ADVICE}") from error

    say(f"the embedded market is kept in {folder}")
