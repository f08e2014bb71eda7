"""Options that several commands have: the data, and where the clock starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from ktdeval.cli import FilePath, Number
from ktdeval.errors import UsageError
from ktdeval_qfinzero.access.pages.settings import PageSettings
from ktdeval_qfinzero.access.workspaces import Limits, first_moment
from ktdeval_qfinzero.data.dataset import Dataset
from ktdeval_qfinzero.data.folder import open_dataset
from ktdeval_qfinzero.data.synthetic.embedded import cache_root, open_embedded
from ktdeval_qfinzero.errors import ServiceError

Decorated = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Source:
    """Where the data come from. `folder`: a dataset's; None for the embedded one; `seed`: of the
    embedded one.
    """

    folder: Path | None
    seed: int


def source_options(function: Decorated) -> Decorated:
    """`--data` and `--seed`, as one argument `source`."""

    @wraps(function)
    def with_source(*, folder: Path | None, seed: int | None, **others: Any) -> Any:
        if folder is not None and seed is not None:
            raise UsageError(
                "--data names a dataset and --seed picks an embedded one; give one of them"
            )
        return function(source=Source(folder, seed or 0), **others)

    seed = click.option(
        "--seed",
        type=click.IntRange(0),
        default=None,
        help="seed of the embedded synthetic market [default: 0]",
    )
    folder = click.option(
        "--data",
        "folder",
        type=FilePath(),
        metavar="FOLDER",
        help="a dataset's folder; the embedded synthetic market when not given",
    )
    return folder(seed(with_source))


def data_options(function: Decorated) -> Decorated:
    """Those of `source_options`, and `--as-of`."""
    moment = click.option(
        "--as-of",
        metavar="MOMENT",
        help=(
            "where clocks start, and the latest that any may, such as 2025-01-06T21:00:00Z; the"
            " dataset's own when not given"
        ),
    )
    return source_options(moment(function))


def page_options(function: Decorated) -> Decorated:
    """Options of the server's pages, as one argument `pages`."""

    @wraps(function)
    def with_pages(
        *,
        chats: Path,
        offered: tuple[str, ...],
        watched: tuple[Path, ...],
        chat_tokens: int,
        chat_cost: float | None,
        **others: Any,
    ) -> Any:
        pages = PageSettings(
            chats=chats,
            models=offered,
            watched=watched,
            max_tokens=chat_tokens,
            max_cost=chat_cost,
        )
        return function(pages=pages, **others)

    usual = PageSettings()
    options = (
        click.option(
            "--chats",
            type=FilePath(),
            default=usual.chats,
            show_default=True,
            metavar="DIR",
            help="folder of the playground's chats, each a run",
        ),
        click.option(
            "--model",
            "offered",
            multiple=True,
            metavar="NAME",
            help=(
                "model with parameters that the playground offers, as"
                " 'builtin/script(file=talk.yaml)'; may be repeated"
            ),
        ),
        click.option(
            "--watch",
            "watched",
            type=FilePath(),
            multiple=True,
            metavar="FOLDER",
            help="further folder of data that the health page describes; may be repeated",
        ),
        click.option(
            "--chat-tokens",
            type=click.IntRange(1),
            default=usual.max_tokens,
            show_default=True,
            help="most tokens of one chat, in and out",
        ),
        click.option(
            "--chat-cost",
            type=Number(0, 1_000_000),
            default=None,
            help="most US dollars of one chat; needs a known price",
        ),
    )
    decorated: Decorated = with_pages
    for option in reversed(options):
        decorated = option(decorated)

    return decorated


def open_data(source: Source) -> Dataset:
    """The dataset of a folder, or the embedded synthetic one, made once and kept in the cache.
    Raises DataError if the folder does not hold a dataset; StoreError if the cache can't be
    written.
    """
    return (
        open_embedded(cache_root(), source.seed, _say)
        if source.folder is None
        else open_dataset(source.folder)
    )


def start_at(dataset: Dataset, limits: Limits, as_of: str | None) -> Limits:
    """Limits under which clocks start at a moment; raises UsageError if it is malformed, or outside
    of the dataset.
    """
    if as_of is None:
        return limits
    try:
        return replace(limits, as_of_ns=first_moment(dataset, limits, as_of))
    except ServiceError as error:
        raise UsageError(f"--as-of: {error.message}") from error


def _say(message: str) -> None:
    click.echo(message, err=True)
