"""An agent's memory by day: layers of memories with their changes, or arbitrary JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ktdeval.harness import TranscriptEntry
from ktdeval.values import JsonValue, dumps_canonical
from ktdeval_view.conversation import SharedTexts, contents_of

_DIGITS = 4  # number of digits shown for a numeric field
_LONGEST_WORD = 300  # longest run of characters without a space that is shown in full
_MEMORY_FIELDS = ("id", "text")
_LAYER_ORDER = ("short", "mid", "long")  # other layers follow in file order

Fields = Mapping[str, JsonValue]
Layers = Mapping[str, Sequence[Fields]]


@dataclass(frozen=True, slots=True)
class _LayerMemory:
    """A single memory, with its layer."""

    layer: str
    fields: Fields


def memory_panels(
    memories: Sequence[JsonValue], talks: Sequence[TranscriptEntry], texts: SharedTexts
) -> Iterator[JsonValue]:
    """Yield each day's panel; None on a day without a memory.

    A panel has everything but the layers as JSON text (`rest`). If the memory has layers, the panel
    also has their names (`layers`), the names of the fields (`fields`), and `rows`. A row consists
    of the index of the layer, the index of the text in `texts`, the id, whether the day's prompt
    contains the text, how the memory changed, and its fields.
    """
    before: Mapping[str, _LayerMemory] = {}
    for memory, talk in zip(memories, talks, strict=False):
        if memory is None:
            yield None
            continue

        rest = dumps_canonical(_without_layers(memory))
        layers = _find_layers(memory)
        if layers is None:
            yield {"rest": rest}
            continue

        now = _by_id(layers)
        prompt = "\n".join(contents_of(talk))
        panel = _MemoryPanel(layers, before, now, prompt)
        yield panel.to_json(texts) | {"rest": rest}
        before = now


class _MemoryPanel:
    """Layers of one day, compared with those of the previous day."""

    def __init__(
        self,
        layers: Layers,
        before: Mapping[str, _LayerMemory],
        now: Mapping[str, _LayerMemory],
        prompt: str,
    ) -> None:
        gone = {id_: memory for id_, memory in before.items() if id_ not in now}
        self._before = before
        self._now = now
        self._prompt = prompt
        self._listed = [*now.items(), *gone.items()]
        self._fields = _names_of_fields(memory.fields for _, memory in self._listed)

        first = [name for name in _LAYER_ORDER if name in layers]
        lost = [memory.layer for memory in gone.values()]
        self._layers = list(dict.fromkeys([*first, *layers, *lost]))

    def to_json(self, texts: SharedTexts) -> dict[str, JsonValue]:
        """Return the names of the layers and fields, and the rows."""
        rows = [self._row(id_, memory, texts) for id_, memory in self._listed]
        return {"layers": self._layers, "fields": self._fields, "rows": rows}

    def _row(self, id_: str, memory: _LayerMemory, texts: SharedTexts) -> list[JsonValue]:
        text = str(memory.fields["text"])
        note = "gone"
        if id_ in self._now:
            note = _note(self._before.get(id_), memory)

        row: list[JsonValue] = [self._layers.index(memory.layer), texts.index(text), id_]
        row += [text in self._prompt, note]
        row += [_shown_value(memory.fields.get(name)) for name in self._fields]

        return row


def _by_id(layers: Layers) -> dict[str, _LayerMemory]:
    memories = {}
    for layer, items in layers.items():
        for item in items:
            memories[str(item["id"])] = _LayerMemory(layer, item)

    return memories


def _names_of_fields(memories: Iterable[Fields]) -> list[str]:
    """Return the names of all fields except id and text, in order of first occurrence."""
    names: dict[str, None] = {}
    for fields in memories:
        names |= dict.fromkeys(fields)

    return [name for name in names if name not in _MEMORY_FIELDS]


def _find_layers(memory: JsonValue) -> Layers | None:
    """Return the `layers` of a memory, or of an object inside it, or None."""
    if not isinstance(memory, Mapping):
        return None

    for holder in (memory, *memory.values()):
        if isinstance(holder, Mapping):
            layers = _as_layers(holder.get("layers"))
            if layers is not None:
                return layers

    return None


def _as_layers(value: JsonValue) -> Layers | None:
    """Return a value as lists of memories, keyed by layer name; None if it has a different form."""
    if not isinstance(value, Mapping):
        return None

    layers: dict[str, list[Fields]] = {}
    for name, items in value.items():
        if not isinstance(items, list):
            return None

        layers[name] = []
        for item in items:
            if not isinstance(item, Mapping) or not item.keys() >= {*_MEMORY_FIELDS}:
                return None
            layers[name].append(item)

    return layers


def _note(was: _LayerMemory | None, now: _LayerMemory) -> str:
    """Return how a memory changed since the previous day: whether it is new, was credited or moved
    to another layer.
    """
    if was is None:
        return "new"

    notes = []
    old = was.fields.get("count")
    new = now.fields.get("count")
    if isinstance(old, int) and isinstance(new, int) and new != old:
        notes.append(f"credited {new - old:+d}")

    if was.layer != now.layer:
        notes.append(f"{was.layer} → {now.layer}")

    return ", ".join(notes)


def _without_layers(value: JsonValue) -> JsonValue:
    """Return a memory without its layers. For packed data, such as vectors, only the length is
    shown, since the data would fill the page.
    """
    if isinstance(value, Mapping):
        rest = {}
        for name, item in value.items():
            if name != "layers" or _as_layers(item) is None:
                rest[name] = _without_layers(item)

        return rest

    if isinstance(value, list):
        return [_without_layers(item) for item in value]

    if isinstance(value, str) and _is_packed(value):
        return f"({len(value):,} characters of packed data)"

    return value


def _is_packed(text: str) -> bool:
    return len(text) > _LONGEST_WORD and not any(map(str.isspace, text))


def _shown_value(value: JsonValue) -> JsonValue:
    """Return a field's value for display. Figures are rounded, and lists and objects become JSON
    text.
    """
    if value is None or isinstance(value, int | str):
        return value
    if isinstance(value, float):
        return round(value, _DIGITS)

    return dumps_canonical(value)
