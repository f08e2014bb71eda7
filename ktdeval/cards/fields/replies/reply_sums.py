"""Sums of what an episode's replies count, by role and by model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from ktdeval.cards.fields.episode_parts import RoleUsage, Served
from ktdeval.harness.chat_messages import USAGE_FIELDS

_SUMMED = ("calls", "failed", "empty", "turns", "silent", "uncounted", *USAGE_FIELDS)


def add_roles(usages: Iterable[RoleUsage]) -> list[RoleUsage]:
    """Return the totals by role and model, in the order of first occurrence."""
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for usage in usages:
        total = sums.setdefault((usage.role, usage.model), dict.fromkeys(_SUMMED, 0))
        for name in _SUMMED:
            total[name] += getattr(usage, name)

    return [RoleUsage(role=role, model=model, **total) for (role, model), total in sums.items()]


def add_served(parts: Iterable[Served]) -> list[Served]:
    """Return reply counts summed by model and name, sorted by model and name."""
    groups: dict[tuple[str, str], list[Served]] = {}
    for part in parts:
        groups.setdefault((part.model, part.name), []).append(part)

    return [_add_up(group) for _, group in sorted(groups.items())]


def _add_up(group: Sequence[Served]) -> Served:
    own_settings = set(chain.from_iterable(part.own_settings for part in group))
    not_applied = set(chain.from_iterable(part.not_applied for part in group))
    return Served(
        model=group[0].model,
        name=group[0].name,
        replies=sum(part.replies for part in group),
        looked_up=sum(part.looked_up for part in group),
        own_settings=sorted(own_settings),
        not_applied=sorted(not_applied),
    )
