"""Find tool calls that a model wrote as text. Calls are extracted but never repaired.

The arguments of a call are exactly the characters that the model wrote. Malformed arguments thus
reach the harness malformed, and are counted as with native tool calling. Only the wrapping is
parsed leniently, since it is not part of a decision: a missing fence, a language tag in capitals,
or a fence that is never closed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from ktdeval.values.documents.strict_json import loads_strict

# Used only to find where a value ends, so it may accept slightly more than JSON: NaN, and numbers
# of any length. The harness parses the arguments strictly later.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
_SPACE = re.compile(r"[ \t\n\r]*")
_FENCE = re.compile(r"```[ \t]*([^\s`{]*)")
_CLOSING = re.compile(r"```(?![^\s`])|(?=```)")  # a fence with an info string opens the next block
_CLOSING_LINE = re.compile(r"\n[ \t]*```")
_MAX_READ = 1 << 17  # maximum characters; to bound the time, no calls are read from longer text
_CALL_TAGS = ("", "json")
_THOUGHT = re.compile(r"\s*<think>.*?(?:</think>|\Z)|.*?</think>[ \t\r]*(?:\n|\Z)", re.DOTALL)
_CALLS_LIST = re.compile(r'"calls"\s*:\s*\[')
_ARGUMENTS = re.compile(r"""["']?\barguments["']?\s*:\s*""")
_NAME = r"""["']?\b{key}["']?\s*:\s*("(?:[^"\\\n]|\\[^\n])+"|'[^'\n]+')"""
_NAMES = {key: re.compile(_NAME.format(key=key)) for key in ("tool", "name")}
#: brackets after the arguments of the last call, in a block and in an envelope
_ENDS = {"tool": "}", "name": "}]}"}


# Marks around a call that models were trained to write, and that a server's tool parser removes:
# Hermes and Qwen, Kimi, DeepSeek, Mistral, Llama, MiniMax, gpt-oss (from each model's chat
# template).
_MARKS = re.compile(
    r"<tool_calls?>|<\|tool_calls?(_section)?_begin\|>|<\|tool_call\|>|<\uff5ctool\u2581calls?\u2581begin\uff5c>"
    r"|<\uff5cDSML\uff5c|\[TOOL_CALLS\]|<\|python_tag\|>|<minimax:tool_call>"
    r"|<function=[\w.-]+>|<\|channel\|>\w+ to=functions\."
)


# A call in a fenced block or between tags of the prompt's list of tools, as Qwen's coder models
# and Hermes models write it.
_FENCED = re.compile(
    r"""(?:```[\w-]*|<tools>)[\s\[]*\{\s*(?:"type"\s*:\s*"function"\s*,\s*)?"""
    r"""(?:"function"\s*:\s*\{\s*)?"name"\s*:\s*"([\w.-]+)"\s*,\s*"(?:arguments|parameters)"\s*:"""
)


def holds_marked_call(text: str, names: Collection[str] = ()) -> bool:
    """Return whether a text contains a call that a server's tool parser should have removed: marks
    of a call, or a block with a call of a tool in `names`.
    """
    if _MARKS.search(text) is not None:
        return True
    return any(match[1] in names for match in _FENCED.finditer(text))


class WrittenCall(NamedTuple):
    """Call as the model wrote it: the tool's name, and the arguments as text ("" if absent)."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """Reply split into its text without the calls, and the calls in order."""

    content: str
    calls: tuple[WrittenCall, ...]


@dataclass(frozen=True, slots=True)
class _WrittenObject:
    """JSON object in a text."""

    #: spans of the values, by key; several spans if a key is repeated
    spans: dict[str, list[slice]]
    end: int  #: offset just after the object


def split_thought(text: str) -> tuple[str, str]:
    """Split a model's reasoning, written between `<think>` tags, from its answer.

    Servers without a reasoning parser leave `<think>…</think>` in the text; some omit the opening
    tag, which is then part of the prompt. A call drafted in the reasoning does not count. A closing
    tag without an opening tag is recognised only at the end of a line, where JSON text can't
    contain it.
    """
    if "<think>" not in text and "</think>" not in text:
        return "", text

    match = _THOUGHT.match(text)
    if match is None:
        return "", text

    thought = match[0].strip().removeprefix("<think>").removesuffix("</think>")
    return thought.strip(), text[match.end() :].lstrip()


def read_blocks(text: str) -> ParsedReply:
    """Return the calls in fenced blocks of `{"tool": …, "arguments": …}`, one or more per block.

    An object at the very beginning of the text needs no fence. A block of malformed JSON that names
    a tool is a call with malformed arguments. Everything else, including other blocks, is the
    model's text.
    """
    if len(text) > _MAX_READ:
        return ParsedReply(text, ())

    calls: list[WrittenCall] = []
    prose: list[str] = []
    offset = 0
    prose_start = 0

    while (block := _next_block(text, offset)) is not None:
        begin, body, is_fenced = block
        if is_fenced:
            block_calls, stop = _read_objects(text, body, _limit(text, body))
            fence, end = _closing(text, stop)
        else:
            block_calls, stop = _read_objects(text, body, len(text))
            fence, end = stop, stop

        offset = max(end, body + 1)  # always move forward, even if the block was empty
        if block_calls:
            calls.extend(block_calls)
            prose.append(text[prose_start:begin])
            prose.append(text[stop:fence])
            prose_start = offset

    if not calls:
        return ParsedReply(text, ())

    prose.append(text[prose_start:])
    paragraphs = [part.strip() for part in prose]
    return ParsedReply("\n\n".join(filter(None, paragraphs)), tuple(calls))


def read_envelope(text: str) -> ParsedReply:
    """Read a reply `{"content": …, "calls": [{"name": …, "arguments": …}]}`, with or without a
    fence.

    Any other text is content. If the calls are truncated or malformed, the result contains the
    calls before that point, and the call at that point with malformed arguments.
    """
    if len(text) > _MAX_READ:
        return ParsedReply(text, ())

    whole = _without_fence(text)
    if not whole.startswith("{"):
        return ParsedReply(text, ())

    envelope = _object_at(whole, 0)
    if envelope is None:
        return _read_broken_envelope(text, whole)

    spans = envelope.spans.get("calls", ())
    if not spans or any(whole[span.start] != "[" for span in spans):
        return ParsedReply(text, ())

    calls: list[WrittenCall] = []
    for span in spans:
        calls.extend(_read_list(whole, span.start + 1))

    rest = whole[envelope.end :].strip()
    content = f"{_envelope_content(whole, envelope)}\n\n{rest}".strip()
    return ParsedReply(content, tuple(calls))


def _without_fence(text: str) -> str:
    """Return the text inside a fence that encloses everything; text without such a fence is
    returned unchanged.
    """
    text = text.strip()
    fence = _FENCE.match(text)
    if fence is None:
        return text
    return text[fence.end() :].strip().removesuffix("```").rstrip()


def _read_broken_envelope(text: str, whole: str) -> ParsedReply:
    """Return the calls in an envelope that is malformed JSON. If it has no calls, everything is
    content.
    """
    calls_list = _CALLS_LIST.search(whole)
    if calls_list is None:
        return ParsedReply(text, ())

    calls = _read_list(whole, calls_list.end())
    if not calls:
        return ParsedReply(text, ())

    return ParsedReply("", calls)


def _next_block(text: str, offset: int) -> tuple[int, int, bool] | None:
    """Return where the next block that may contain calls starts, where its first object starts, and
    whether the block is fenced.
    """
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
    """Return the start and end of the fence that closes a block.

    As in CommonMark, a block without a closing fence ends with the text.
    """
    match = _CLOSING.search(text, offset)
    if match is None:
        return len(text), len(text)
    return match.span()


def _limit(text: str, offset: int) -> int:
    """Return the end of a block whose contents may be malformed.

    A fence on its own line is preferred, since a fence within a line may be part of a string.
    """
    match = _CLOSING_LINE.search(text, offset)
    if match is not None:
        return match.start()

    fence, _ = _closing(text, offset)
    return fence


def _read_objects(text: str, offset: int, limit: int) -> tuple[list[WrittenCall], int]:
    """Return the calls in a block, and the offset after the last call.

    A malformed object extends to `limit`, the end of the block.
    """
    calls: list[WrittenCall] = []
    while text.startswith("{", begin := _skip(text, offset)):
        call, end = _call_at(text, begin, limit, "tool")
        if call is None:
            break

        calls.append(call)
        offset = end

    return calls, offset


def _envelope_content(text: str, envelope: _WrittenObject) -> str:
    """Return the text under `content`.

    A schema in the request may allow another type, which is then returned as JSON text.
    """
    if "content" not in envelope.spans:
        return ""

    span = envelope.spans["content"][-1]
    if text[span.start] != '"':
        return text[span]

    content, _ = _DECODER.raw_decode(text, span.start)
    return str(content)


def _read_list(text: str, offset: int) -> tuple[WrittenCall, ...]:
    """Return the calls in a list, where `offset` is just after the opening bracket.

    Reading stops at the end of the list, or at its first fault. A call without a name calls the
    tool "".
    """
    calls: list[WrittenCall] = []
    offset = _skip(text, offset)
    while offset < len(text) and text[offset] != "]":
        call, end = _call_at(text, offset, len(text), "name")
        calls.append(call or WrittenCall("", text[offset:end]))
        offset = _skip(text, end)
        if text.startswith(",", offset):
            offset = _skip(text, offset + 1)

    return tuple(calls)


def _call_at(text: str, offset: int, limit: int, key: str) -> tuple[WrittenCall | None, int]:
    """Return the call in the object at `offset` (None if it has no name) and the offset after the
    object. If the object is malformed, that offset is `limit`.
    """
    item = _object_at(text, offset)
    if item is None:
        return _broken_call(text[offset:limit], key), limit
    return _sound_call(text, item, key), item.end


def _sound_call(text: str, item: _WrittenObject, key: str) -> WrittenCall | None:
    """Return the call in a well-formed object; None if the object has no name.

    If a name or the arguments are repeated, the returned arguments are the text from the first to
    the last of the repeated values. This is not a JSON object, so the harness rejects the ambiguous
    call.
    """
    names = item.spans.get(key, [])
    if not names or text[names[0].start] != '"':
        return None

    name, _ = _DECODER.raw_decode(text, names[0].start)
    values = names[1:] + item.spans.get("arguments", [])
    if not values:
        return WrittenCall(name, "")

    start = min(span.start for span in values)
    stop = max(span.stop for span in values)
    return WrittenCall(name, text[start:stop])


def _broken_call(text: str, key: str) -> WrittenCall | None:
    """Return the call in malformed JSON, with malformed arguments; None if the call has no name.

    The arguments are the text after their key, without the brackets that close the call. If this
    text is valid JSON, the brackets are included; as a last resort, the whole text is. A malformed
    call must not become a valid one.
    """
    name = _NAMES[key].search(text)
    if name is None:
        return None

    start = _ARGUMENTS.search(text, name.end())
    if start is None:
        return WrittenCall(_unquote_text(name[1]), text)

    tail = text[start.end() :]
    for arguments in (_without_end(tail, _ENDS[key]), tail):
        if arguments and not _is_json(arguments):
            return WrittenCall(_unquote_text(name[1]), arguments)

    return WrittenCall(_unquote_text(name[1]), text)


def _unquote_text(text: str) -> str:
    try:
        return str(_DECODER.decode(text))
    except ValueError:
        return text[1:-1]


def _without_end(text: str, brackets: str) -> str:
    """Return `text` without the given brackets at its end, ignoring whitespace between them;
    unchanged if a bracket is missing.
    """
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


def _object_at(text: str, offset: int) -> _WrittenObject | None:
    """Return the JSON object that begins at `offset`; None if the text there is not an object."""
    try:
        return _scan(text, offset)
    except (ValueError, RecursionError):
        return None


def _scan(text: str, offset: int) -> _WrittenObject:
    """Find the values in the JSON object at `offset`. Raises ValueError if it is malformed."""
    spans: dict[str, list[slice]] = {}
    offset = _after(text, offset, "{")
    if text.startswith("}", offset):
        return _WrittenObject(spans, offset + 1)

    while True:
        key, end = _DECODER.raw_decode(text, offset)
        if not text.startswith('"', offset):
            raise ValueError("a key is not a string")

        start = _after(text, end, ":")
        _, end = _DECODER.raw_decode(text, start)
        spans.setdefault(key, []).append(slice(start, end))
        offset = _skip(text, end)
        if text.startswith("}", offset):
            return _WrittenObject(spans, offset + 1)

        offset = _after(text, offset, ",")


def _after(text: str, offset: int, mark: str) -> int:
    """Return the offset after `mark` and any whitespace around it. Raises ValueError if `mark` is
    missing.
    """
    offset = _skip(text, offset)
    if not text.startswith(mark, offset):
        raise ValueError(f"no {mark}")
    return _skip(text, offset + 1)


def _skip(text: str, offset: int) -> int:
    """Return the offset after any whitespace."""
    match = _SPACE.match(text, offset)
    if match is None:
        return offset
    return match.end()
