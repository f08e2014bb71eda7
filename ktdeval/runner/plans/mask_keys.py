"""The mask key of a run, and whether it was known before the run began."""

from __future__ import annotations

import secrets

from ktdeval.cards.fields.origin.fact_types import KeySource
from ktdeval.errors import UsageError
from ktdeval.runner.plans.config import RunConfig
from ktdeval.runner.records.leaderboard_registration import DrawnKey, load_drawn_key
from ktdeval.runner.records.run_folder import RunFolder, mask_key_of


def mask_key_for(config: RunConfig, drawn: DrawnKey | None, recorded: RunFolder | None) -> str:
    """Return the mask key of a run. In order of precedence, it is drawn by a leaderboard, given by
    the user, taken from the recorded run, or newly generated.
    """
    if drawn is not None:
        return drawn.mask_key
    return config.mask_key or mask_key_of(recorded) or secrets.token_hex(16)


def drawn_key_of(config: RunConfig) -> DrawnKey | None:
    """Return a run's registration with its drawn key; None if the run has no registration.

    Raises ConfigError if the registration can't be read. Raises UsageError if a mask key is given
    as well.
    """
    if config.registration is None:
        return None
    if config.mask_key is not None:
        raise UsageError(
            "--mask-key: the registration already contains the key that the board drew; omit"
            " --mask-key or --registration"
        )
    return load_drawn_key(config.registration)


def key_source(
    config: RunConfig, recorded: RunFolder | None, *, is_drawn: bool = False
) -> KeySource | None:
    """Return the source of a mask key that was known before the run began; None if the run drew its
    own. `config`: as given, before a key is drawn. `is_drawn`: True for a part of a run whose config
    has the key that the run drew.
    """
    if recorded is not None:
        return recorded.manifest.key_source
    if config.registration is not None:
        return "board"
    if config.mask_key is not None and not is_drawn:
        return "given"
    return None
