"""Answers as no well-behaved provider gives them: one row a kind, made from the good answer of the
same wire.

Those that can be written out are rows of the YAML file beside this module; the long, packed and
torn ones are made here.

`HOSTILE` maps a name to what must come of one attempt and to the answer: `reply` (whatever the
model "said" is dealt with like any reply), the kind of a ModelError, or `stop` (a ProviderError,
which names the setting to fix).
"""

from __future__ import annotations

import functools
import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from support.json_places import Place, places, with_value
from support.tables import beside

DEEP = "[" * 1_500 + "]" * 1_500
DEEPER = "[" * 200_000 + "]" * 200_000
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Spoilt:
    """An answer: a status with headers and body, or the very bytes on the wire, after which the
    connection is closed.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None


Make = Callable[[bytes], Spoilt]
HOSTILE: dict[str, tuple[str, Make]] = {}


def kind(outcome: str, **makes: Spoilt | Make) -> None:
    """Enter kinds of answers that must come to `outcome`; a row that does not depend on the good
    answer is a value.
    """
    for name, made in makes.items():
        assert name not in HOSTILE, name
        HOSTILE[name] = (outcome, (lambda _, made=made: made) if isinstance(made, Spoilt) else made)


def raw(text: bytes) -> Spoilt:
    return Spoilt(raw=text)


def headed(line: str, rest: bytes) -> Spoilt:
    return raw(
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{line}\r\n\r\n".encode() + rest
    )


def error(status: int, value: Any) -> Spoilt:
    return Spoilt(value if isinstance(value, bytes) else json.dumps(value).encode(), status)


def limited(after: str) -> Spoilt:
    return Spoilt(b'{"error": {"message": "slow down"}}', 429, {"Retry-After": after})


def error_body(**fields: Any) -> dict[str, Any]:
    return {"error": {"message": "no", **fields}}


def filled(text: str, good: bytes) -> bytes:
    """The text of a row, with the good answer in the places of its marks."""
    return (
        text.encode()
        .replace(b"{good}", good)
        .replace(b"{rest}", good[1:])
        .replace(b"{most}", good[:-1])
    )


ROWS: dict[str, Callable[[Any, bytes], Spoilt]] = {
    "body": lambda text, good: Spoilt(filled(text, good)),
    "status": lambda row, good: Spoilt(filled(row[1], good), row[0], *row[2:]),
    "wait": lambda after, _: limited(after),
    "raw": lambda text, good: raw(filled(text, good)),
    "headed": lambda row, good: headed(row[0], filled(row[1], good)),
}
for form, outcomes in beside(__file__).items():
    for outcome, rows in outcomes.items():
        kind(outcome, **{name: functools.partial(ROWS[form], row) for name, row in rows.items()})

# -- bodies that are no answer, too long or not of the letters to be written out
kind(
    "bad_response",
    nul=Spoilt(b"\x00" * 100),
    single_quotes=lambda good: Spoilt(good.replace(b'"', b"'")),
    deep=Spoilt(DEEPER.encode()),
    deep_object=Spoilt(b'{"a":' * 100_000 + b"}" * 100_000),
    digits=lambda good: Spoilt(b'{"x": ' + b"9" * 5_000 + b", " + good[1:]),
    huge=Spoilt(b" " * (17 << 20)),
    words=Spoilt(b"word " * 200_000),
    invalid_utf8=lambda good: Spoilt(good[:20] + b"\xff\xfe\xfd" + good[20:]),
    latin1=lambda good: Spoilt(b'{"x": "\xe9", ' + good[1:]),
    partial_206=lambda good: Spoilt(good[:-2], 206),
)
kind(
    "reply",
    deep_key=lambda good: Spoilt(good[:-1] + b', "debug": ' + b"[" * 500 + b"]" * 500 + b"}"),
    utf16=lambda good: Spoilt(good.decode().encode("utf-16")),
    spaces=lambda good: Spoilt(b" " * 100_000 + good),
)

# -- compression
PACKED = {"Content-Encoding": "gzip"}


@functools.cache
def bomb(mebibytes: int, encoding: str = "gzip") -> bytes:
    """Packed zeros; made when first asked for, which takes a while."""
    zeros = bytes(mebibytes << 20)
    return gzip.compress(zeros, 1) if encoding == "gzip" else zlib.compress(zeros)


kind(
    "bad_response",
    packed=lambda good: Spoilt(gzip.compress(good), headers=PACKED),
    packed_half=lambda good: Spoilt(gzip.compress(good)[:-9], headers=PACKED),
    packed_twice=lambda good: Spoilt(
        gzip.compress(gzip.compress(good)), headers={"Content-Encoding": "gzip, gzip"}
    ),
    bomb=lambda _: Spoilt(bomb(40), headers=PACKED),
    bomb_deflate=lambda _: Spoilt(bomb(40, "deflate"), headers={"Content-Encoding": "deflate"}),
    packed_error_bomb=lambda _: Spoilt(bomb(40), 500, PACKED),
)

# -- statuses and errors
kind(
    "bad_request",
    long_message=error(400, error_body(message="a" * 100_000)),
    stars=error(400, error_body(message="*a" * 50_000)),
    tags=error(400, b"<" * 100_000),
    code_of_digits=error(400, error_body(code="4" * 5_000)),
    code_number=error(400, f'{{"error": {{"code": {"4" * 4_000}}}}}'.encode()),
    code_too_long=error(400, f'{{"error": {{"code": {"4" * 5_000}}}}}'.encode()),
    deep_error=error(400, DEEPER.encode()),
    deep_message=error(400, f'{{"error": {{"message": {DEEP}}}}}'.encode()),
    secret_of_state=error(444, b"\x00\xff"),
)
kind("server", deep_500=error(500, DEEPER.encode()))
kind("overloaded", busy_529=error(529, DEEP.encode()))
kind("rate_limited", digits_to_wait=limited("9" * 5_000))

# -- bytes that are no HTTP, or broken HTTP
kind(
    "connection",
    long_header=raw(b"HTTP/1.1 200 OK\r\nA: " + b"a" * 300_000 + b"\r\n\r\n{}"),
    many_headers=raw(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 40_000 + b"\r\n{}"),
    length_huge=lambda good: headed(f"Content-Length: {'9' * 400}", good),
)
kind(
    "bad_response",
    too_short=lambda good: headed(f"Content-Length: {len(good) + 100}", good),
    too_long=lambda good: headed(f"Content-Length: {len(good) // 2}", good),
    chunk_huge=headed("Transfer-Encoding: chunked", b"f" * 300 + b"\r\n{}"),
)


def closed_unsaid() -> list[str]:
    """Answers after which a client may take the connection for open, though it is closing: its next
    request can be lost unseen.
    """
    return [
        name
        for name, (outcome, make) in HOSTILE.items()
        if outcome != "connection" and make(b"{}").raw is not None
    ]


# -- answers of the API's form in which a call, a choice or a count is odd
@dataclass(frozen=True)
class Odd:
    """An answer, what is counted for a submission that is answered so each time (`model`: its
    decision holds), and on which wires it is something else.
    """

    make: Make
    counted: str
    elsewhere: Mapping[str, str] = field(default_factory=dict)


def unreadable(counted: str, name: str = "model_bad_response") -> tuple[str, Mapping[str, str]]:
    """Counted failures where arguments are text, and where they are a part of the answer's JSON."""
    return counted, {"anthropic": name, "google": name}


def arguments(text: str | Make) -> Make:
    """An answer whose first call has these arguments, as text or as the raw JSON of an object."""

    def make(good: bytes) -> Spoilt:
        answer = json.loads(good)
        for path in places(answer):
            if path[-1] in ("arguments", "input", "args") and (old := at(answer, path)):
                given = json.dumps(old) if isinstance(old, dict) else old
                new = text if isinstance(text, str) else text(given.encode()).body.decode()
                at(answer, path[:-1])[path[-1]] = new if isinstance(old, str) else "(arguments)"
                return Spoilt(json.dumps(answer).replace('"(arguments)"', new).encode())

        raise AssertionError("the answer has no call")

    return make


def at(answer: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        answer = answer[key]

    return answer


def every(names: tuple[str, ...], value: Any) -> Make:
    """An answer with a value at all fields of these names."""

    def make(good: bytes) -> Spoilt:
        answer = json.loads(good)
        for path in list(places(answer)):
            if path[-1] in names:
                at(answer, path[:-1])[path[-1]] = value

        return Spoilt(json.dumps(answer).encode())

    return make


def parts(change: Callable[[list[Any]], list[Any]], *names: str) -> Make:
    """An answer with another list of calls, choices, outputs, contents or candidates."""

    def make(good: bytes) -> Spoilt:
        answer = json.loads(good)
        for path in places(answer):
            if path[-1] in names and isinstance(at(answer, path), list):
                at(answer, path[:-1])[path[-1]] = change(at(answer, path))
                break

        return Spoilt(json.dumps(answer).encode())

    return make


def holding(**more: Any) -> str:
    return json.dumps({"orders": [], "overall_reason": "to wait", **more})


IDS = ("id", "call_id")
COUNTS = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "input_tokens",
    "output_tokens",
    "promptTokenCount",
    "candidatesTokenCount",
    "totalTokenCount",
)
WHOLES = ("choices", "output", "content", "candidates")
CALLS = ("tool_calls", "output", "content", "parts")
ODD: dict[str, Odd] = {
    "args_5_mb": Odd(arguments(holding(overall_reason="a" * (5 << 20))), "model_bad_response"),
    "args_100_kb": Odd(arguments(holding(overall_reason="a" * 100_000)), "bad_json"),
    "args_deep": Odd(arguments(DEEP), *unreadable("bad_json")),
    "args_deep_inside": Odd(arguments(f'{{"orders": {DEEP}}}'), *unreadable("bad_json")),
    "args_deeper": Odd(arguments(DEEPER), *unreadable("bad_json")),
    "args_of_digits": Odd(arguments(f'{{"orders": {"9" * 5_000}}}'), *unreadable("bad_json")),
    "args_nan": Odd(arguments('{"orders": NaN}'), "bad_json"),
    "args_infinite": Odd(arguments('{"orders": 1e999}'), *unreadable("schema", "bad_json")),
    "args_null": Odd(arguments("null"), "bad_json"),
    "args_list": Odd(arguments("[]"), "schema"),
    "args_text_of_json": Odd(arguments(json.dumps(holding())), *unreadable("schema")),
    "args_empty_text": Odd(arguments(""), *unreadable("bad_json")),
    "args_bom": Odd(arguments("\ufeff" + holding()), *unreadable("bad_json")),
    "args_two_objects": Odd(arguments(holding() * 2), *unreadable("bad_json")),
    "args_fenced": Odd(arguments(f"```json\n{holding()}\n```"), *unreadable("bad_json")),
    "args_without_reason": Odd(arguments('{"orders": []}'), "schema"),
    "args_control": Odd(arguments('{"orders": "\\u0000\\u001b[2J\\u202e"}'), "schema"),
    "args_surrogate": Odd(arguments('{"orders": "\\ud800"}'), "schema"),
    "args_more_keys": Odd(arguments(holding(confidence=1e308)), "schema"),
    "args_doubled_key": Odd(
        arguments('{"orders": [{}], ' + holding()[1:]),
        "bad_json",
        dict.fromkeys(("anthropic", "google"), "model"),
    ),
    "no_ids": Odd(every(IDS, ""), "model"),
    "long_ids": Odd(every(IDS, "x" * 10_000), "model"),
    "odd_ids": Odd(every(IDS, "\x00\x1b[2J\ud800\u202e../../etc"), "model"),
    "number_ids": Odd(
        every(IDS, 7),
        "model",
        dict.fromkeys(("responses", "anthropic", "google"), "model"),
    ),
    "tokens_10_40": Odd(every(COUNTS, 10**40), "model"),
    "tokens_negative": Odd(every(COUNTS, -5), "model"),
    "tokens_text": Odd(every(COUNTS, "many"), "model"),
    "tokens_infinite": Odd(
        lambda good: Spoilt(every(COUNTS, "(huge)")(good).body.replace(b'"(huge)"', b"1e999")),
        "model",
    ),
    "tokens_null": Odd(every(COUNTS, None), "model"),
    "nothing_chosen": Odd(
        parts(lambda _: [], *WHOLES),
        "model_bad_response",
        dict.fromkeys(("responses", "anthropic"), "empty_reply"),
    ),
    "chosen_twice": Odd(
        parts(lambda old: old * 2, *WHOLES), "model", {"google": "model_bad_response"}
    ),
    "calls_300": Odd(parts(lambda old: old * 300, *CALLS), "model_bad_response"),
    "calls_null": Odd(parts(lambda _: [None], *CALLS), "model_bad_response"),
    "finish_unknown": Odd(
        every(("finish_reason", "status", "stop_reason", "finishReason"), "tired"),
        "model",
        {"responses": "model_bad_response"},
    ),
    "unnamed_call": Odd(every(("name",), ""), "wrong_tool"),
    "long_name": Odd(every(("name",), "submit_action" * 1_000), "wrong_tool"),
    "wait_a_day": Odd(lambda _: limited("86400"), "model_rate_limited"),
    "wait_for_ages": Odd(lambda _: limited("9" * 18), "model_rate_limited"),
}


# -- a value of another kind at a field
VALUES: Mapping[str, Any] = {
    "null": None,
    "true": True,
    "minus": -1,
    "huge": 10**40,
    "float": 1.5e300,
    "text": "x\ud800\x00\x1b[2J",
    "long": "7 " * 600_000,
    "list": [],
    "object": {},
    "nested": [[{}]],
    "many": [{}] * 300,
    "absent": "(removed)",
    "deep": "(deep)",
}


def with_odd(answer: Any, path: Place, name: str) -> bytes:
    """The answer with another value at a place."""
    return json.dumps(with_value(answer, path, VALUES[name])).replace('"(deep)"', DEEP).encode()
