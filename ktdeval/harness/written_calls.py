"""Tool calls that a model wrote as text: located and cut out, never repaired.

The arguments of a call are the very characters that the model wrote, so malformed ones reach the harness malformed and are
counted as after native tool calling. Only the wrapping, which the suite asks for and which is no part of a decision, is read
tolerantly (a missing fence, a language tag in capitals, a closing fence that never comes).
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from ktdeval.jsonio import loads_strict

# It takes a little more than JSON (NaN, numbers of any length): it only has to locate where a value ends.
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


class ParsedReply(NamedTuple):
    """Parsed reply: its text besides the calls, and the calls in order."""

    content: str
    calls: tuple[WrittenCall, ...]


class _Object(NamedTuple):
    """JSON object in a text: the span of each key's value, several for a key that is there twice, and where the object ends."""

    spans: dict[str, list[slice]]
    end: int


def split_thought(text: str) -> tuple[str, str]:
    """Split what a model thought aloud from the answer that follows. Servers without a reasoning parser leave `<think>…</think>` in
    the text, some without the first tag, which is then part of the prompt. A call drafted in there is no call. The bare closing
    tag counts at the end of a line only: no JSON text can hold one there.
    """
    match = _THOUGHT.match(text) if "<think>" in text or "</think>" in text else None
    if match is None:
        return "", text
    thought = match[0].strip().removeprefix("<think>").removesuffix("</think>")
    return thought.strip(), text[match.end() :].lstrip()


def read_blocks(text: str) -> ParsedReply:
    """Return the calls in fenced blocks of `{"tool": …, "arguments": …}`, one or more a block. An object with which the whole text
    begins needs no fence. A block that names a tool and is malformed JSON is a call with malformed arguments. All else is the
    model's text, other blocks included.
    """
    calls: list[WrittenCall] = []
    prose: list[str] = []
    offset = prose_start = 0 if len(text) <= _MOST_READ else len(text)
    while (block := _next_block(text, offset)) is not None:
        begin, body, is_fenced = block
        limit = _limit(text, body) if is_fenced else len(text)
        block_calls, stop = _read_objects(text, body, limit)
        fence, end = _closing(text, stop) if is_fenced else (stop, stop)
        offset = max(end, body + 1)
        if block_calls:
            calls.extend(block_calls)
            prose += [text[prose_start:begin], text[stop:fence]]
            prose_start = offset
    if not calls:
        return ParsedReply(text, ())
    prose.append(text[prose_start:])
    return ParsedReply("\n\n".join(part for part in map(str.strip, prose) if part), tuple(calls))


def read_envelope(text: str) -> ParsedReply:
    """Return calls and content of a reply `{"content": …, "calls": [{"name": …, "arguments": …}]}`, which may stand in a fence.
    Text that is no such object is content. One that breaks off or is malformed in its calls has those before that point, and the
    one at that point with malformed arguments.
    """
    fence = _FENCE.match(text.lstrip())
    if len(text) > _MOST_READ:
        return ParsedReply(text, ())
    whole = text.strip() if fence is None else text.lstrip()[fence.end() :].strip().removesuffix("```").rstrip()
    if not whole.startswith("{"):
        return ParsedReply(text, ())
    envelope = _object_at(whole, 0)
    if envelope is None:
        calls_list = _CALLS_LIST.search(whole)
        calls = _read_list(whole, calls_list.end()) if calls_list is not None else ()
        return ParsedReply("" if calls else text, calls)
    spans = envelope.spans.get("calls", ())
    if not spans or any(whole[span.start] != "[" for span in spans):
        return ParsedReply(text, ())
    content = f"{_content(whole, envelope)}\n\n{whole[envelope.end :].strip()}".strip()
    return ParsedReply(content, tuple(call for span in spans for call in _read_list(whole, span.start + 1)))


def _next_block(text: str, offset: int) -> tuple[int, int, bool] | None:
    """Return where the next block that may hold calls begins, where its first object does, and whether a fence is around it."""
    if offset == 0 and text.lstrip().startswith("{"):
        body = len(text) - len(text.lstrip())
        return body, body, False
    while (fence := _FENCE.search(text, offset)) is not None:
        body = _skip(text, fence.end())
        if fence[1].lower() in _CALL_TAGS and text.startswith("{", body):
            return fence.start(), body, True
        offset = _closing(text, fence.end())[1]
    return None


def _closing(text: str, offset: int) -> tuple[int, int]:
    """Return start and end of the fence that closes a block; the end of the text where none does, as in CommonMark."""
    match = _CLOSING.search(text, offset)
    return (len(text), len(text)) if match is None else match.span()


def _limit(text: str, offset: int) -> int:
    """Return where a block of malformed content ends: at a fence on a line of its own, since a string may hold a fence too."""
    match = _CLOSING_LINE.search(text, offset)
    return match.start() if match is not None else _closing(text, offset)[0]


def _read_objects(text: str, offset: int, limit: int) -> tuple[list[WrittenCall], int]:
    """Return the calls of a block, and where the last of them ends; `limit` is the block's end where an object has none."""
    calls: list[WrittenCall] = []
    while text.startswith("{", following := _skip(text, offset)):
        item = _object_at(text, following)
        call = _broken_call(text[following:limit], "tool") if item is None else _sound_call(text, item, "tool")
        if call is None:
            break
        calls.append(call)
        if item is None:
            return calls, limit
        offset = item.end
    return calls, offset


def _content(text: str, envelope: _Object) -> str:
    """Return the text under `content`; a value of another type, which a schema of the request may allow, as JSON."""
    if "content" not in envelope.spans:
        return ""
    span = envelope.spans["content"][-1]
    return str(_DECODER.raw_decode(text, span.start)[0]) if text[span.start] == '"' else text[span]


def _read_list(text: str, offset: int) -> tuple[WrittenCall, ...]:
    """Return the calls of a list, from behind its bracket to its end or to where it is malformed; one without a name calls ""."""
    calls: list[WrittenCall] = []
    offset = _skip(text, offset)
    while offset < len(text) and text[offset] != "]":
        item = _object_at(text, offset)
        if item is None:
            broken = _broken_call(text[offset:], "name")
            return (*calls, broken or WrittenCall("", text[offset:]))
        calls.append(_sound_call(text, item, "name") or WrittenCall("", text[offset : item.end]))
        offset = _skip(text, item.end)
        offset = _skip(text, offset + text.startswith(",", offset))
    return tuple(calls)


def _sound_call(text: str, item: _Object, key: str) -> WrittenCall | None:
    """Return the call that an object is; None without a name. With two names or arguments, the text from the first to the last is
    the arguments, which is no JSON object.
    """
    names = item.spans.get(key, ())
    if not names or text[names[0].start] != '"':
        return None
    values = [*names[1:], *item.spans.get("arguments", ())]
    arguments = text[min(span.start for span in values) : max(span.stop for span in values)] if values else ""
    return WrittenCall(_DECODER.raw_decode(text, names[0].start)[0], arguments)


def _broken_call(text: str, key: str) -> WrittenCall | None:
    """Return the call in a text that is malformed JSON, with arguments that are malformed too; None without a name. The arguments
    are what follows their key, without the brackets that would have closed the call; all of the text where that alone would be
    valid JSON.
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
    """Return `text` without these last characters, whatever the space between them; unchanged where they are missing."""
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


def _object_at(text: str, offset: int) -> _Object | None:
    """Return the JSON object that begins at `offset`; None where none does."""
    try:
        return _scan(text, offset)
    except (ValueError, RecursionError):
        return None


def _scan(text: str, offset: int) -> _Object:
    spans: dict[str, list[slice]] = {}
    offset = _after(text, offset, "{")
    if text.startswith("}", offset):
        return _Object(spans, offset + 1)
    while True:
        key, end = _DECODER.raw_decode(text, offset)
        if not text.startswith('"', offset):
            raise ValueError("a key is no string")
        start = _after(text, end, ":")
        _, end = _DECODER.raw_decode(text, start)
        spans.setdefault(key, []).append(slice(start, end))
        offset = _skip(text, end)
        if text.startswith("}", offset):
            return _Object(spans, offset + 1)
        offset = _after(text, offset, ",")


def _after(text: str, offset: int, mark: str) -> int:
    offset = _skip(text, offset)
    if not text.startswith(mark, offset):
        raise ValueError(f"no {mark}")
    return _skip(text, offset + 1)


def _skip(text: str, offset: int) -> int:
    match = _SPACE.match(text, offset)
    return offset if match is None else match.end()
