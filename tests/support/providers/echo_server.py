"""A server of OpenAI's Chat Completions that writes the key it was sent into its answers, each time
in another way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from ktdeval.testing import AnsweringHandler, serving
from support.providers.echoes import ECHOES

Body = dict[str, Any]


def _message(body: Body) -> Body:
    message: Body = body["choices"][0]["message"]
    return message


def _call(body: Body) -> Body:
    call: Body = (_message(body).get("tool_calls") or [{"function": {}}])[0]
    return call


def _called(asked: Body) -> str:
    """Return the tool that a request forces; else the first on offer, which goes on with research:
    the last one is to submit with, and ends it.
    """
    choice = asked.get("tool_choice")

    if isinstance(choice, dict):
        forced: str = choice["function"]["name"]
        return forced

    first: str = asked["tools"][0]["function"]["name"]

    return first


# ---- places of an answer: each writes a text there


def in_content(body: Body, text: str) -> None:
    _message(body)["content"] = f"Your key is {text}, is it not?"


def in_orders(body: Body, text: str) -> None:
    _message(body)["content"] = json.dumps({"orders": [], "reasoning": text})


def in_reasoning(body: Body, text: str) -> None:
    _message(body)["reasoning_content"] = f"The key {text} was sent."
    _message(body)["content"] = '{"orders": []}'


def in_arguments(body: Body, text: str) -> None:
    _call(body)["function"]["arguments"] = json.dumps({"orders": [], "reasoning": text})


def in_a_tool_name(body: Body, text: str) -> None:
    _call(body)["function"]["name"] = text[:200]


def in_a_call_id(body: Body, text: str) -> None:
    _call(body)["id"] = text[:200]


def in_the_finish_reason(body: Body, text: str) -> None:
    body["choices"][0]["finish_reason"] = text


def in_the_model(body: Body, text: str) -> None:
    body["model"] = text


def in_an_error_inside(body: Body, text: str) -> None:
    body["error"] = {"message": f"bad key {text}", "type": "server_error", "code": text}


PLACES: dict[str, Callable[[Body, str], None]] = {
    place.__name__: place
    for place in (
        in_content,
        in_orders,
        in_reasoning,
        in_arguments,
        in_a_tool_name,
        in_a_call_id,
        in_the_finish_reason,
        in_the_model,
        in_an_error_inside,
    )
}
FAILING = frozenset({"in_an_error_inside", "in_the_finish_reason"})
ERRORS = {"a server error": 500, "a refusal": 400, "a page": 502, "a header": 503}
"""Answers that are no success, with their status; each quotes the key, too."""


class Echoing(AnsweringHandler):
    """Handler that answers one place with the next way to write the key. `sent` collects what was
    written.
    """

    def __init__(self, place: str, sent: list[str], *rest: Any) -> None:
        self.place = place
        self.sent = sent
        super().__init__(*rest)

    def do_POST(self) -> None:
        asked = json.loads(self.body())
        key = self.headers["Authorization"].removeprefix("Bearer ")
        ways = list(ECHOES.values())
        text = ways[len(self.sent) % len(ways)](key)
        self.sent.append(text)

        # A run ends where nothing succeeds: after each failure, the same is answered.
        is_second = len(self.sent) % 2 == 0

        if self.place in PLACES and not (self.place in FAILING and is_second):
            self._succeed(text, PLACES[self.place], asked)
        elif is_second:
            self._succeed(text, in_content, asked)
        else:
            self._fail(text, ERRORS[self.place])

    def _succeed(self, text: str, write: Callable[[Body, str], None], asked: Body) -> None:
        message: Body = {"role": "assistant", "content": '{"orders": []}'}
        if asked.get("tools"):
            function = {"name": _called(asked), "arguments": '{"orders": []}'}
            message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]

        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body: Body = {
            "id": "x",
            "object": "chat.completion",
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }
        write(body, text)
        self.answer_json(body)

    def _fail(self, text: str, status: int) -> None:
        error = {"message": f"bad key {text}", "type": text, "param": text, "code": "server_error"}
        content = json.dumps({"error": error}).encode()
        headers = {"Content-Type": "application/json", "Retry-After": "0"}

        if self.place == "a page":
            content = f"<html><title>502</title><p>{text}</p></html>".encode()

        if self.place == "a header":
            flat = " ".join(text.encode("ascii", "replace").decode().split())
            headers |= {"X-Request-Id": flat, "Retry-After": flat}

        self.answer(content, status, headers)


@contextmanager
def echoing(place: str) -> Iterator[tuple[str, list[str]]]:
    """Run a server that echoes in one place; give its address, and the list of what it writes."""
    sent: list[str] = []
    with serving(partial(Echoing, place, sent)) as address:
        yield f"{address}/v1", sent
