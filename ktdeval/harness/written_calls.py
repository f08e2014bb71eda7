"""Tool calls that a model wrote as text: found and cut out, never repaired.

The arguments of a call are the very characters that the model wrote, so what is malformed there reaches the harness as
malformed and is counted as it would be after native tool calling. Only the wrapping, which is the suite's own idea and no part
of a decision, is read with some patience (a missing fence, a language tag in capitals, a closing fence that never comes).
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from ktdeval.jsonio import loads_strict

# It takes a little more than JSON (NaN, numbers of any length), for it only has to find where a value ends.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
_SPACE = re.compile(r"[ \t\n\r]*")
_FENCE = re.compile(r"```[ \t]*([^\s`{]*)")
_CLOSING = re.compile(r"```(?![^\s`])|(?=```)")  # one with an info string opens the next block
_CLOSING_LINE = re.compile(r"\n[ \t]*```")
_MOST_READ = 1 << 17  # characters: a longer text holds no calls
_CALL_TAGS = ("", "json")
_THOUGHT = re.compile(r"\s*<think>.*?(?:</think>|\Z)|.*?</think>[ \t\r]*(?:\n|\Z)", re.DOTALL)
_CALLS_LIST = re.compile(r'"calls"\s*:\s*\[')
_ARGUMENTS = re.compile(r"""["']?\barguments["']?\s*:\s*""")
_NAME = r"""["']?\b{key}["']?\s*:\s*("(?:[^"\\\n]|\\[^\n])+"|'[^'\n]+')"""
_NAMES = {key: re.compile(_NAME.format(key=key)) for key in ("tool", "name")}
_ENDS = {"tool": "}", "name": "}]}"}  #: What follows the arguments of the last call, in a block and in an envelope


class WrittenCall(NamedTuple):
    """A call as written: the tool's name, and the text of its arguments ("" where there are none)."""

    name: str
    arguments: str


class Written(NamedTuple):
    """A reply, read: what it says besides its calls, and the calls in order."""

    content: str
    calls: tuple[WrittenCall, ...]


class _Object(NamedTuple):
    """A JSON object in a text: where the values of each key stand, several where it stands there twice, and where it ends."""

    spans: dict[str, list[slice]]
    end: int


def split_thought(text: str) -> tuple[str, str]:
    """Split what a model thought aloud from the answer that follows. Servers without a reasoning parser leave `<think>…</think>` in
    the text, some without the first tag, which is then part of the prompt. A draft of a call in there is no call. The bare closing
    tag counts at the end of a line only: no JSON text can hold one there.
    """
    match = _THOUGHT.match(text) if "<think>" in text or "</think>" in text else None
    if match is None:
        return "", text
    thought = match[0].strip().removeprefix("<think>").removesuffix("</think>")
    return thought.strip(), text[match.end() :].lstrip()


def read_blocks(text: str) -> Written:
    """Return the calls in fenced blocks of `{"tool": …, "arguments": …}`, one or more a block. An object with which the whole text
    begins needs no fence. A block that names a tool and is no sound JSON is a call with malformed arguments. All else is what the
    model says, also blocks that hold something different.
    """
    calls: list[WrittenCall] = []
    prose: list[str] = []
    place = said = 0 if len(text) <= _MOST_READ else len(text)
    while (found := _next_block(text, place)) is not None:
        begin, body, is_fenced = found
        limit = _limit(text, body) if is_fenced else len(text)
        block_calls, stop = _read_objects(text, body, limit)
        rest, end = _rest_of_block(text, stop) if is_fenced else ("", stop)
        place = max(end, body + 1)
        if block_calls:
            calls.extend(block_calls)
            prose += [text[said:begin], rest]
            said = place
    if not calls:
        return Written(text, ())
    prose.append(text[said:])
    return Written("\n\n".join(part for part in map(str.strip, prose) if part), tuple(calls))


def read_envelope(text: str) -> Written:
    """Return calls and content of a reply `{"content": …, "calls": [{"name": …, "arguments": …}]}`, which may stand in a fence.
    Text that is no such object is content. One that breaks off or goes wrong in its calls has those before that place, and the one
    at that place with malformed arguments.
    """
    fence = _FENCE.match(text.lstrip())
    if len(text) > _MOST_READ:
        return Written(text, ())
    whole = text.strip() if fence is None else text.lstrip()[fence.end() :].strip().removesuffix("```").rstrip()
    if not whole.startswith("{"):
        return Written(text, ())
    envelope = _object_at(whole, 0)
    if envelope is None:
        opening = _CALLS_LIST.search(whole)
        calls = _read_list(whole, opening.end()) if opening is not None else ()
        return Written("" if calls else text, calls)
    spans = envelope.spans.get("calls", ())
    if not spans or any(whole[span.start] != "[" for span in spans):
        return Written(text, ())
    content = f"{_content(whole, envelope)}\n\n{whole[envelope.end :].strip()}".strip()
    return Written(content, tuple(call for span in spans for call in _read_list(whole, span.start + 1)))


def _next_block(text: str, place: int) -> tuple[int, int, bool] | None:
    """Find where the next block that may hold calls begins, where its first object does, and whether a fence is around it."""
    if place == 0 and text.lstrip().startswith("{"):
        body = len(text) - len(text.lstrip())
        return body, body, False
    while (fence := _FENCE.search(text, place)) is not None:
        body = _skip(text, fence.end())
        if fence[1].lower() in _CALL_TAGS and text.startswith("{", body):
            return fence.start(), body, True
        place = _closing(text, fence.end())[1]
    return None


def _closing(text: str, place: int) -> tuple[int, int]:
    """Start and end of the fence that closes a block; the end of the text where none does, as CommonMark has it."""
    match = _CLOSING.search(text, place)
    return (len(text), len(text)) if match is None else match.span()


def _limit(text: str, place: int) -> int:
    """Find where a block ends whose content can't be read: at a fence on a line of its own, for a string may hold one too."""
    match = _CLOSING_LINE.search(text, place)
    return match.start() if match is not None else _closing(text, place)[0]


def _rest_of_block(text: str, place: int) -> tuple[str, int]:
    """Return what stands between the last object of a block and its closing fence, and where the text goes on."""
    start, end = _closing(text, place)
    return text[place:start], end


def _read_objects(text: str, place: int, limit: int) -> tuple[list[WrittenCall], int]:
    """Return the calls of a block, and where the last of them ends; `limit` is the block's end where an object has none."""
    calls: list[WrittenCall] = []
    while text.startswith("{", following := _skip(text, place)):
        item = _object_at(text, following)
        call = _broken_call(text[following:limit], "tool") if item is None else _sound_call(text, item, "tool")
        if call is None:
            break
        calls.append(call)
        if item is None:
            return calls, limit
        place = item.end
    return calls, place


def _content(text: str, envelope: _Object) -> str:
    """Return the text under `content`; something else there, as a schema of the request may have it, as JSON."""
    if "content" not in envelope.spans:
        return ""
    span = envelope.spans["content"][-1]
    return str(_DECODER.raw_decode(text, span.start)[0]) if text[span.start] == '"' else text[span]


def _read_list(text: str, place: int) -> tuple[WrittenCall, ...]:
    """Return the calls of a list, from behind its bracket to its end or to where it goes wrong; what names no tool calls ""."""
    calls: list[WrittenCall] = []
    place = _skip(text, place)
    while place < len(text) and text[place] != "]":
        item = _object_at(text, place)
        if item is None:
            broken = _broken_call(text[place:], "name")
            return (*calls, broken or WrittenCall("", text[place:]))
        calls.append(_sound_call(text, item, "name") or WrittenCall("", text[place : item.end]))
        place = _skip(text, item.end)
        place = _skip(text, place + text.startswith(",", place))
    return tuple(calls)


def _sound_call(text: str, item: _Object, key: str) -> WrittenCall | None:
    """Return the call that an object is; None without a name. With two names or arguments, what stands from the first to the last
    is no JSON object.
    """
    named = item.spans.get(key, ())
    if not named or text[named[0].start] != '"':
        return None
    given = [*named[1:], *item.spans.get("arguments", ())]
    arguments = text[min(span.start for span in given) : max(span.stop for span in given)] if given else ""
    return WrittenCall(_DECODER.raw_decode(text, named[0].start)[0], arguments)


def _broken_call(text: str, key: str) -> WrittenCall | None:
    """Return the call that a text set out to be which is no JSON, with arguments that are none either; None without a name. The
    arguments are what follows their key, without the brackets that would have closed the call; all of the text where that, taken by
    itself, would pass as sound.
    """
    name = _NAMES[key].search(text)
    if name is None:
        return None
    pieces = []
    if (start := _ARGUMENTS.search(text, name.end())) is not None:
        tail = text[start.end() :]
        pieces = [_without_end(tail, _ENDS[key]), tail]
    return WrittenCall(_unquoted(name[1]), next((piece for piece in pieces if piece and not _is_json(piece)), text))


def _unquoted(text: str) -> str:
    try:
        return str(_DECODER.decode(text))
    except ValueError:
        return text[1:-1]


def _without_end(text: str, brackets: str) -> str:
    """`text` without these last characters, whatever the space between them; as it is where they aren't there."""
    rest = text.rstrip()
    for bracket in reversed(brackets):
        if not rest.endswith(bracket):
            return text
        rest = rest[:-1].rstrip()
    return rest


def _is_json(text: str) -> bool:
    try:
        loads_strict(text)
    except ValueError:
        return False
    return True


def _object_at(text: str, place: int) -> _Object | None:
    """Return the JSON object that begins at `place`; None where none does."""
    try:
        return _scan(text, place)
    except (ValueError, RecursionError):
        return None


def _scan(text: str, place: int) -> _Object:
    spans: dict[str, list[slice]] = {}
    place = _after(text, place, "{")
    if text.startswith("}", place):
        return _Object(spans, place + 1)
    while True:
        key, end = _value(text, place)
        if not text.startswith('"', place):
            raise ValueError("a key is no string")
        start = _after(text, end, ":")
        _, end = _value(text, start)
        spans.setdefault(key, []).append(slice(start, end))
        place = _skip(text, end)
        if text.startswith("}", place):
            return _Object(spans, place + 1)
        place = _after(text, place, ",")


def _value(text: str, place: int) -> tuple[Any, int]:
    return _DECODER.raw_decode(text, place)


def _after(text: str, place: int, mark: str) -> int:
    place = _skip(text, place)
    if not text.startswith(mark, place):
        raise ValueError(f"no {mark}")
    return _skip(text, place + 1)


def _skip(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return place if match is None else match.end()
