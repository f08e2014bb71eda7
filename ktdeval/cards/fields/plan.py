"""Plan of a card: its seeds and limit, and the key from which its chance was drawn."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from ktdeval.cards.fields.card_inputs import CardSources
from ktdeval.cards.fields.recorded_facts import AnyFacts
from ktdeval.task_api.episode_spec import MaskKey

# ---- gathered from the plan


def gather_seeds(sources: CardSources) -> list[int]:
    """Return the seeds of the plan, ascending."""
    return sorted({spec.seed for spec in sources.planned})


def gather_mask_key(sources: CardSources) -> MaskKey | UnsetType:
    """Return the mask key; unset where the task needs no market."""
    key = sources.planned[0].mask_key
    return UNSET if key is None else key


def gather_registration(sources: CardSources) -> str | UnsetType:
    """Return the id of the registration that drew the key; unset for a run's own key."""
    registration = sources.inputs.registration
    return UNSET if registration is None else registration


# ---- words


def registration_text(registration: str | UnsetType, facts: AnyFacts) -> str:
    """Return words on the registration whose board drew the key. Whether the card answers a question
    of it is the board's to say: a card vouches for nothing.
    """
    if not registration:
        return "none: exploratory, no question was fixed before the run"
    return (
        f"{registration[:12]}: its board drew the mask key, and says whether the card is"
        " confirmatory or exploratory"
    )
