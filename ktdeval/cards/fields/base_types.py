"""Basic types for card fields, and totals over a card's episodes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, TypeVar

from msgspec import UNSET, Meta, UnsetType

from ktdeval.cards.json_paths import JsonPath
from ktdeval.errors import CardError
from ktdeval.values.documents.strict_json import dumps_canonical, plain
from ktdeval.values.documents.typed_json import Value, from_plain

# JSON distinguishes integers from floats, so a card preserves the form that was written.
Number = int | float
NonNegative = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]
Share = Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0)]
Counts = dict[str, Count]
Name = Annotated[str, Meta(min_length=1)]
Day = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")]
Time = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}")]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
EpisodeId = Annotated[str, Meta(pattern="^[0-9a-f]{20}$")]
Limit = Annotated[int, Meta(ge=1)]
Range = Annotated[list[Number | None], Meta(min_length=2, max_length=2)]

Problem = tuple[JsonPath, str]  #: path and description of a contradiction in a card

T = TypeVar("T")
P = TypeVar("P", bound=Value)


class Figure:
    """Base class of figures. A figure has a value, or null and a `reason`; this is checked on
    construction.
    """

    __slots__ = ()
    KEY: ClassVar[str] = "value"
    """Field that is null if there is a reason."""
    NEEDED: ClassVar[tuple[str, ...]] = ()
    """Further fields that a figure with a value must have."""
    reason: str | UnsetType

    def __post_init__(self) -> None:
        if getattr(self, self.KEY) is None:
            if self.reason is UNSET:
                raise ValueError("field 'reason' is missing")

            return

        if self.reason is not UNSET:
            raise ValueError("has a reason though it has a value")

        for name in self.NEEDED:
            if getattr(self, name) is UNSET:
                raise ValueError(f"field {name!r} is missing")


# ---- third-party values


def strict_json(name: str, value: object) -> Any:
    """Return a third-party value after a round trip through strict JSON, so that a card in memory
    equals the card in its file. `name` is the name of the card field. Raises CardError if the value
    is not strict JSON.
    """
    try:
        return json.loads(dumps_canonical(plain(value)))
    except (TypeError, ValueError) as error:
        raise CardError(
            f"card field {name!r} is not strict JSON ({error}); metrics, scores and args must"
            " give finite plain values"
        ) from error


def decode_part(name: str, value: object, type_: type[T]) -> T:
    """Decode a third-party value as the card field `name`. Raises CardError if the value is not
    strict JSON or does not have the field's type.
    """
    return from_plain(strict_json(name, value), type_, "card", CardError)


def decode_strict(fields: Mapping[str, Any], type_: type[T]) -> T:
    """Decode part of a card after a round trip through strict JSON. Raises CardError if a value is
    not strict JSON or does not have its field's type.
    """
    parts = {name: strict_json(name, value) for name, value in sorted(fields.items())}
    return from_plain(parts, type_, "card", CardError)


# ---- totals


def add_up(kind: type[P], counts: Iterable[P], **others: Any) -> P:
    """Return the sums of counts, field by field; `others` gives the fields that are not summed."""
    records = list(counts)
    sums = {}
    for name in kind.__struct_fields__:
        if name not in others:
            sums[name] = sum(getattr(record, name) for record in records)

    return kind(**sums, **others)


def add_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum for every name that occurs in the counts."""
    totals: Counter[str] = Counter()
    for each in counts:
        totals.update(each)
    return dict(sorted(totals.items()))
