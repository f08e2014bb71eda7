"""Plan of a card: its seeds and limit, and the key from which its chance was drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import UNSET, UnsetType

from ktdeval.cards.fields.card_inputs import CardSources
from ktdeval.cards.fields.field import SharedField
from ktdeval.cards.fields.recorded_facts import AnyFacts
from ktdeval.cards.fields.words import FieldWords
from ktdeval.cards.table_types import Row
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


def seed_rows(seeds: Sequence[int], facts: AnyFacts) -> Iterator[Row]:
    """Yield the row of the seeds."""
    yield SEEDS.words["seeds"].label, ", ".join(map(str, seeds))


def mask_key_rows(mask_key: str | UnsetType, facts: AnyFacts) -> Iterator[Row]:
    """Yield the row of the mask key, where there is one."""
    if mask_key:
        yield MASK_KEY.words["mask_key"].label, mask_key


def registration_rows(registration: str | UnsetType, facts: AnyFacts) -> Iterator[Row]:
    """Yield the row of the registration whose board drew the key. Whether the card answers a
    question of it is the board's to say: a card vouches for nothing.
    """
    words = "none: exploratory, no question was fixed before the run"
    if registration:
        words = (
            f"{registration[:12]}: its board drew the mask key, and says whether the card is"
            " confirmatory or exploratory"
        )

    yield REGISTRATION.words["registration"].label, words


KIND = SharedField(
    "kind",
    gather=lambda sources: sources.KIND,
    words={
        "kind": FieldWords("kind", "", "`trading`, or `scoring` for the card of a scoring task")
    },
)

SCHEMA_VERSION = SharedField(
    "schema_version",
    gather=lambda sources: 1,
    words={"schema_version": FieldWords("schema version", "", "1")},
)

SEEDS = SharedField(
    "seeds",
    gather=gather_seeds,
    rows=seed_rows,
    words={"seeds": FieldWords("seeds", "", "seeds of the plan")},
)

LIMIT = SharedField(
    "limit",
    gather=lambda sources: sources.planned[0].limit,
    words={
        "limit": FieldWords(
            "limit", "steps", "steps after which every episode was cut; null when none was"
        )
    },
)

MASK_KEY = SharedField(
    "mask_key",
    gather=gather_mask_key,
    rows=mask_key_rows,
    words={
        "mask_key": FieldWords(
            "mask key",
            "",
            "key from which handles, orders, noise and the seeds of calls were drawn; absent where"
            " a task needs no market",
            "masks.md",
        )
    },
)

REGISTRATION = SharedField(
    "registration",
    gather=gather_registration,
    rows=registration_rows,
    words={
        "registration": FieldWords(
            "registration",
            "",
            "id of the registration with a leaderboard whose board drew the key; absent where the"
            " run has a key of its own",
            "leaderboard.md#keys-that-the-board-draws",
        )
    },
)

ARTEFACTS = SharedField(
    "artefacts",
    gather=lambda sources: dict(sources.inputs.artefacts),
    words={
        "artefacts": FieldWords(
            "artefacts", "", "path in the run folder and SHA-256 of each ledger and transcript"
        )
    },
)
