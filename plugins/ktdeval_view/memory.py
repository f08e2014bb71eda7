"""Memory of an agent as its page shows it: layers of memories with what became of each that day, or any JSON as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ktdeval.harness import TranscriptEntry
from ktdeval.jsonio import JsonValue, dumps_canonical

_DIGITS, _LONGEST_WORD = 4, 300  # characters without a space
_NAMED = ("id", "text")
_ORDER = ("short", "mid", "long")  # other layers follow, in the order of the file


def memory_panels(memories: Sequence[JsonValue], talks: Sequence[TranscriptEntry], texts: dict[str, int]) -> Iterator[JsonValue]:
    """Yield each day's panel: None without a memory, else `rest`, what is no layer, as JSON text; of a memory with layers also
    `layers` (names), `fields` (names) and `rows`: layer and text by index (texts in `texts`), id, whether the text stands in the
    prompt of the day, what happened to it, and the fields.
    """
    before: Mapping[str, tuple[str, Mapping[str, Any]]] = {}  # id -> layer and memory
    for memory, talk in zip(memories, talks, strict=False):
        if (layers := _layers(memory)) is None:
            yield None if memory is None else {"rest": dumps_canonical(_rest(memory))}
            continue
        held = {str(item["id"]): (name, item) for name, items in layers.items() for item in items}
        gone = [(id_, *was) for id_, was in before.items() if id_ not in held]
        listed = [(id_, *now) for id_, now in held.items()]
        fields = list(dict.fromkeys(name for _, _, item in listed + gone for name in item if name not in _NAMED))
        prompt = "\n".join(str(message["content"]) for exchange in talk.exchanges for message in exchange["sent"])
        names = list(dict.fromkeys([*(name for name in _ORDER if name in layers), *layers, *(layer for _, layer, _ in gone)]))
        rows = []
        for id_, layer, item in listed + gone:
            text, note = str(item["text"]), "gone" if id_ not in held else _note(before.get(id_), layer, item)
            values = [_value(item.get(name)) for name in fields]
            rows.append([names.index(layer), texts.setdefault(text, len(texts)), id_, text in prompt, note, *values])
        yield {"layers": names, "fields": fields, "rows": rows, "rest": dumps_canonical(_rest(memory))}
        before = held


def _layers(memory: JsonValue) -> Mapping[str, list[dict[str, Any]]] | None:
    """Return `layers` of a memory, or of an object in it; None where there are none."""
    holders = [memory, *memory.values()] if isinstance(memory, Mapping) else []
    return next((holder["layers"] for holder in holders if isinstance(holder, Mapping) and _are_layers(holder.get("layers"))), None)


def _are_layers(layers: Any) -> bool:
    """Whether a value is lists, by name, of objects with id and text."""
    lists = list(layers.values()) if isinstance(layers, Mapping) else [None]
    return all(
        isinstance(items, list) and all(isinstance(item, Mapping) and {*_NAMED} <= item.keys() for item in items) for items in lists
    )


def _note(was: tuple[str, Mapping[str, Any]] | None, layer: str, item: Mapping[str, Any]) -> str:
    """What happened to a memory since the day before: made, moved, credited."""
    if was is None:
        return "new"
    old, new = was[1].get("count"), item.get("count")
    credit = new - old if isinstance(old, int) and isinstance(new, int) else 0
    return ", ".join(filter(None, (f"credited {credit:+d}" if credit else "", f"{was[0]} → {layer}" if was[0] != layer else "")))


def _rest(value: JsonValue) -> JsonValue:
    """A memory without its layers, and with packed data, such as vectors, shown by their length: they would fill the page."""
    if isinstance(value, Mapping):
        return {name: _rest(item) for name, item in value.items() if name != "layers" or not _are_layers(item)}
    if isinstance(value, list):
        return list(map(_rest, value))
    is_packed = isinstance(value, str) and len(value) > _LONGEST_WORD and not any(map(str.isspace, value))
    return f"({len(value):,} characters of packed data)" if is_packed else value


def _value(value: Any) -> JsonValue:
    """A field's value: figures rounded, whatever is no figure as JSON text."""
    if value is None or isinstance(value, int | str):
        return value
    return round(value, _DIGITS) if isinstance(value, float) else dumps_canonical(value)
