"""All bundled boards, from clones or archives in one folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ktdeval.errors import DataError, UsageError
from ktdeval.values import near_matches, temporary_folder
from ktdeval_published.boards import BoardRunOptions, run_board
from ktdeval_published.clone import open_clone, unpack
from ktdeval_published.ranks_board import commits_path
from ktdeval_published.recipe import BoardRecipe, find_recipe, recipe_names
from ktdeval_published.report import BoardReport


def run_all(
    sources: Path, only: Sequence[str], prices: Path | None, audited: bool
) -> list[BoardReport]:
    """Return the reports of boards. Raises DataError if a board is neither a folder nor an archive
    in `sources`.
    """
    names = recipe_names()
    for name in only:
        if name not in names:
            raise UsageError(f"--only {name!r} is no recipe{near_matches(name, names)}")

    reports = []
    with temporary_folder("published") as unpacked:
        for name in only or names:
            recipe = find_recipe(name)
            folder = _folder_of(recipe, sources, unpacked)
            clone = open_clone(folder, recipe.source.commit)
            options = BoardRunOptions(prices, commits_path(sources, recipe.archive), audited)
            reports.append(run_board(recipe, clone, options))
    return reports


def _folder_of(recipe: BoardRecipe, sources: Path, unpacked: Path) -> Path:
    """Return the folder with a board's files; an archive is unpacked once."""
    if not recipe.archive:
        return sources
    folder = sources / recipe.archive
    if folder.is_dir():
        return folder

    archive = sources / f"{recipe.archive}.tar.zst"
    if not archive.is_file():
        raise DataError(
            f"{sources}: has neither the folder {recipe.archive} nor {archive.name}; clone"
            f" {recipe.source.repository} there and check out {recipe.source.commit}"
        )
    target = unpacked / recipe.archive
    if not target.is_dir():
        unpack(archive, target)
    return target
