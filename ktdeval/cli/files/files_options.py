"""Options of `ktdeval files prune`."""

from __future__ import annotations

from dataclasses import dataclass

from ktdeval.cli.options import FiniteNumber, JsonOptions, flag

_MAX_DAYS = 36_500
_MAX_MEGABYTES = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class PruneOptions(JsonOptions):
    """Options for `files prune`: which replies."""

    older_than: float | None = flag(
        None,
        help="replies received more than DAYS days ago",
        type=FiniteNumber(0, _MAX_DAYS),
        metavar="DAYS",
    )
    model: str | None = flag(
        None,
        help="only replies of models that match, such as 'openai/*'; without the other two"
        " options, all of them",
        metavar="GLOB",
    )
    max_size: float | None = flag(
        None,
        help="the oldest replies, until at most MB megabytes are left",
        type=FiniteNumber(0, _MAX_MEGABYTES),
        metavar="MB",
    )
    everything: bool = flag(False, name="--all", help="all replies")
    arrays: bool = flag(False, help="all cached arrays of markets, and no replies")
    dry_run: bool = flag(False, help="only count what would be removed")
