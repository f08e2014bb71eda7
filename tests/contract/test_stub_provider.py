"""The stub provider itself: it takes what the official SDKs send, refuses what a real provider
refuses, and fails as it is told.
"""

from __future__ import annotations

import copy
import functools
import http.client
import json
import operator
from collections.abc import Iterator
from typing import Any

import pytest

from support.providers.stub_provider import KEY, Stub, running_stub, skip_without_sdks
from support.tables import beside, on_each_row

skip_without_sdks()

WIRES = ("chat", "responses", "anthropic", "google")
STATE = '```json\n{"account": {"cash_cny": 1000000}, "positions": [], "constraints": {}}\n```'
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "google": "/v1beta/models/stub-model:generateContent",
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Stub]:
    """A stub without faults."""
    with running_stub() as stub:
        yield stub


BODIES = beside(__file__)["bodies"]


def body_of(wire: str) -> dict[str, Any]:
    return copy.deepcopy(BODIES[wire])


def post(stub: Stub, wire: str, body: Any) -> tuple[int, Any]:
    """One request by hand: status and parsed body."""
    connection = http.client.HTTPConnection("127.0.0.1", stub.port, timeout=240.0)
    headers = {
        "Content-Type": "application/json",
        "Authorization": f"Bearer {KEY}",
        "x-goog-api-key": KEY,
    }

    if wire == "anthropic":
        headers["anthropic-version"] = "2023-06-01"

    try:
        connection.request("POST", PATHS[wire], json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def sdk_call(wire: str, stub: Stub) -> tuple[str, str]:
    """The same request through the official SDK; name and arguments of the one call that comes
    back.
    """
    body = body_of(wire)
    base_url = stub.base_url_of(wire)

    if wire == "anthropic":
        import anthropic

        reply = anthropic.Anthropic(base_url=base_url, api_key=KEY, max_retries=0).messages.create(
            **body
        )
        return reply.content[0].name, json.dumps(reply.content[0].input)

    if wire == "google":
        from google import genai

        client = genai.Client(api_key=KEY, http_options={"base_url": base_url})
        config = {
            "systemInstruction": body["systemInstruction"],
            "tools": body["tools"],
            "toolConfig": body["toolConfig"],
        }
        answer = client.models.generate_content(
            model="stub-model", contents=body["contents"], config=config
        )
        return answer.function_calls[0].name, json.dumps(answer.function_calls[0].args)

    import openai

    client = openai.OpenAI(base_url=base_url, api_key=KEY, max_retries=0)
    if wire == "responses":
        item = client.responses.create(**body).output[0]
        return item.name, item.arguments

    call = client.chat.completions.create(**body).choices[0].message.tool_calls[0]

    return call.function.name, call.function.arguments


# -- answers
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_official_sdks_get_the_same_decision_and_the_stub_sees_the_same_content() -> None:
    with running_stub() as stub:
        answers = {sdk_call(wire, stub) for wire in WIRES}
        assert answers == {
            ("submit_action", '{"orders": [], "overall_reason": "Nothing to change by rule."}')
        }
        assert [seen.wire for seen in stub.requests] == list(WIRES)
        assert len({seen.digest for seen in stub.requests}) == 1
        assert stub.counts == {"answered": 4}
        assert list(stub.answered_twice.values()) == [4]
        assert KEY not in repr(stub.requests)


# -- refusals
# --------------------------------------------------------------------------------------------------------


@on_each_row
def test_what_the_real_provider_would_refuse_is_refused_in_its_words(
    shared: Stub, wire: str, place: str, change: Any, message: str
) -> None:
    body = body_of(wire)
    *path, last = (int(part) if part.isdigit() else part for part in place.split("."))
    holder = functools.reduce(operator.getitem, path, body)

    if change == "dropped":
        del holder[last]
    elif change == "swapped":
        holder[last].append(holder[last].pop(-2))
    elif last == "+":
        holder.append(change["put"])
    else:
        holder[last] = 2**63 if change["put"] == "2**63" else change["put"]

    status, answer = post(shared, wire, body)

    assert status == 400, answer
    assert message in answer["error"]["message"]
    assert shared.requests[-1].outcome == "400 bad_request"


# -- faults
# ----------------------------------------------------------------------------------------------------------


def test_a_word_that_is_no_choice_is_refused(shared: Stub) -> None:
    status, answer = post(shared, "chat", {**body_of("chat"), "tool_choice": "always"})
    assert (status, answer["error"]["param"]) == (400, "tool_choice")


def test_gemini_takes_either_form_of_a_schema_and_not_both(shared: Stub) -> None:
    body = body_of("google")
    (declared,) = body["tools"][0]["functionDeclarations"]
    schema = declared.pop("parametersJsonSchema")
    declared["parameters"] = {"type": "OBJECT", "properties": {"orders": {"type": "ARRAY"}}}
    assert post(shared, "google", body)[0] == 200

    declared["parametersJsonSchema"] = schema
    status, answer = post(shared, "google", body)
    assert status == 400
    assert "mutually exclusive" in answer["error"]["message"]
