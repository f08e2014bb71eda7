"""Options shared by several commands: the data, and the start of the clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import click

from ktdeval.cli import FilePath, FiniteNumber, flag
from ktdeval.errors import UsageError
from ktdeval_qfinzero.access.pages.page_settings import DEFAULT_PAGES, PageSettings
from ktdeval_qfinzero.access.workspaces import WorkspaceLimits, first_moment
from ktdeval_qfinzero.data.dataset import Dataset, open_dataset
from ktdeval_qfinzero.data.synthetic.cached_dataset import cache_root, open_embedded
from ktdeval_qfinzero.errors import ServiceError


@dataclass(frozen=True, slots=True)
class DatasetSource:
    """Source of the data. `folder`: dataset folder; None for the embedded dataset. `seed`: seed of
    the embedded dataset.
    """

    folder: Path | None
    seed: int


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Options of a command that reads the services' data."""

    folder: Path | None = flag(
        None,
        name="--data",
        type=FilePath(),
        metavar="FOLDER",
        help="folder of a dataset; default: the embedded synthetic market",
    )
    seed: int | None = flag(
        None,
        type=click.IntRange(0),
        help="seed of the embedded synthetic market [default: 0]",
    )

    @property
    def source(self) -> DatasetSource:
        """Source of the data. Raises UsageError if both options are given."""
        if self.folder is not None and self.seed is not None:
            raise UsageError(
                "--data names a dataset and --seed picks an embedded one; give one of them"
            )
        return DatasetSource(self.folder, self.seed or 0)


@dataclass(frozen=True, kw_only=True)
class ClockOptions(SourceOptions):
    """Options of a command that starts a clock in the data."""

    as_of: str | None = flag(
        None,
        metavar="MOMENT",
        help=(
            "default and latest start time of clocks, such as 2025-01-06T21:00:00Z; default: the "
            "dataset's own"
        ),
    )


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """Options of the server's pages."""

    chats: Path = flag(
        DEFAULT_PAGES.chats,
        type=FilePath(),
        metavar="DIR",
        help="folder of the playground's chats, each a run",
    )
    model: tuple[str, ...] = flag(
        (),
        type=click.STRING,
        metavar="NAME",
        help=(
            "model with parameters that the playground offers, as"
            " 'builtin/script(file=talk.yaml)'; may be repeated"
        ),
    )
    watch: tuple[Path, ...] = flag(
        (),
        type=FilePath(),
        metavar="FOLDER",
        help="folder of another dataset that the health page describes; may be repeated",
    )
    chat_tokens: int = flag(
        DEFAULT_PAGES.max_tokens,
        type=click.IntRange(1),
        help="maximum tokens of one chat, input and output",
    )
    chat_cost: float | None = flag(
        None,
        type=FiniteNumber(0, 1_000_000),
        help="maximum cost of one chat in US dollars; needs a known price",
    )

    def pages(self, source: DatasetSource) -> PageSettings:
        """Return the settings of pages about a data source."""
        return PageSettings(
            data=source.folder,
            seed=source.seed,
            chats=self.chats,
            models=self.model,
            watched=self.watch,
            max_tokens=self.chat_tokens,
            max_cost=self.chat_cost,
        )


def open_data(source: DatasetSource) -> Dataset:
    """Open the dataset in a folder, or the embedded synthetic dataset, which is made once and kept
    in the cache. Raises DataError if the folder does not contain a dataset; StoreError if the cache
    can't be written.
    """
    return (
        open_embedded(cache_root(), source.seed, _say)
        if source.folder is None
        else open_dataset(source.folder)
    )


def start_at(dataset: Dataset, limits: WorkspaceLimits, as_of: str | None) -> WorkspaceLimits:
    """Return limits under which clocks start at `as_of`. Raises UsageError if `as_of` is malformed
    or outside the dataset.
    """
    if as_of is None:
        return limits
    try:
        return replace(limits, as_of_ns=first_moment(dataset, limits, as_of))
    except ServiceError as error:
        raise UsageError(f"--as-of: {error.message}") from error


def _say(message: str) -> None:
    click.echo(message, err=True)
