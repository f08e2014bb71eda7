"""How episodes are called, in words and as file names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ktdeval.contracts import EpisodeSpec
from ktdeval.errors import UsageError
from ktdeval.fields import near_matches

_MASK_NOTES = {
    "bright": "codes and dates shown",
    "stock_blind": "codes hidden, dates shown",
    "date_blind": "codes shown, dates hidden",
    "blinded": "codes and dates hidden",
}


def episode_label(spec: EpisodeSpec) -> str:
    """Words that tell an episode from the others of its run."""
    return f"{spec.task} · {spec.window.name} · seed {spec.seed}"


def page_name(spec: EpisodeSpec) -> str:
    """Return the file name of an episode's page: readable, safe, and its own."""
    words = re.sub(r"[^A-Za-z0-9._-]+", "_", f"{spec.task}-{spec.window.name}-seed-{spec.seed}")
    return f"{words[:100]}-{spec.id[:8]}.html"


def mask_note(spec: EpisodeSpec) -> str:
    """Describe what the mask hid from the model."""
    return _MASK_NOTES.get(spec.mask, "")


def choose_episodes(specs: Sequence[EpisodeSpec], text: str | None) -> list[EpisodeSpec]:
    """Return the episodes that have every word of `text` in task, window, seed (`seed-1`), model or id; all where there is no text.
    Raises UsageError: there is no such episode.
    """
    words = (text or "").lower().split()
    chosen = [spec for spec in specs if all(word in _description(spec) for word in words)]
    if not chosen:
        known = dict.fromkeys(name for spec in specs for name in (spec.task, spec.window.name, f"seed-{spec.seed}"))
        raise UsageError(f"--episode {text!r}: no episode has this in task, window, seed or id{near_matches(text or '', known)}")
    return chosen


def _description(spec: EpisodeSpec) -> str:
    return f"{spec.task} {spec.window.name} seed-{spec.seed} {spec.model} {spec.id}".lower()
