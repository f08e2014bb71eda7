"""Days that were published after their prices, for a workflow of a board's keeper."""

from __future__ import annotations

from pathlib import Path

from ktdeval.errors import UsageError
from ktdeval_published.clone import Clone
from ktdeval_published.publication import close_of, read_publication
from ktdeval_published.ranks_board import open_ranks_market
from ktdeval_published.recipe import BoardRecipe


def late_days(recipe: BoardRecipe, clone: Clone, commits: Path | None, since: str) -> list[str]:
    """Return a line for each entrant and day whose file was first committed after the deadline.
    Raises UsageError for a form whose files are not one a day.
    """
    if recipe.form != "ranks":
        raise UsageError("--fail-on late-days needs a recipe of form ranks, with one file a day")

    market = open_ranks_market(recipe, clone)
    publication = read_publication(recipe, clone, commits)
    if publication.committed is None:
        raise UsageError(f"--fail-on late-days needs commits: {publication.source}")

    lines = []
    for name, days in sorted(market.ranks.items()):
        for one in days:
            deadline = close_of(str(one.entry), market.venue)
            if one.day >= since and publication.status(one.path, deadline) == "after":
                committed = publication.committed[one.path]
                lines.append(
                    f"{name}: {one.day} was first committed {committed:%Y-%m-%d %H:%M} UTC, after"
                    f" its deadline {deadline:%Y-%m-%d %H:%M} UTC"
                )
    return lines
