"""The stub provider is like the vendors: their own SDKs get decisions from it, and batches."""

from __future__ import annotations

import json

import pytest

from support.providers.stub_batches import BatchPlan
from support.providers.stub_neutral import MODEL
from support.providers.stub_provider import KEY, Stub, running_stub, skip_without_sdks
from support.tables import beside

skip_without_sdks()

pytestmark = pytest.mark.slow

WIRES = ("chat", "responses", "anthropic", "google")


BODIES = beside(__file__)["bodies"]


def sdk_call(wire: str, stub: Stub) -> tuple[str, str]:
    """The same request through the official SDK; name and arguments of the one call that comes
    back.
    """
    body = BODIES[wire]
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


def test_the_sdks_of_the_vendors_get_one_decision_and_send_one_content() -> None:
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


def test_the_sdk_of_google_takes_a_batch_to_its_results() -> None:
    from google import genai
    from google.genai import types

    with running_stub() as stub:
        stub.batches.plan = BatchPlan(fates={1: "server"}, looks=1)
        options = types.HttpOptions(base_url=stub.address, api_version="v1beta")
        client = genai.Client(api_key=KEY, http_options=options)
        requests = [
            types.InlinedRequest(
                contents=[types.Content(role="user", parts=[types.Part(text='Repeat "fern"')])],
                metadata={"key": id_},
            )
            for id_ in ("tag-0", "tag-1", "tag-2")
        ]
        config = types.CreateBatchJobConfig(display_name="tag")
        batch = client.batches.create(model=MODEL, src=requests, config=config)

        assert client.batches.get(name=str(batch.name)).state == types.JobState.JOB_STATE_RUNNING

        done = client.batches.get(name=str(batch.name))
        assert (done.state, done.display_name) == (types.JobState.JOB_STATE_SUCCEEDED, "tag")
        assert done.dest is not None

        found = {}

        for response in done.dest.inlined_responses or ():
            assert response.metadata is not None
            found[response.metadata["key"]] = response.error is None

        assert found == {"tag-0": True, "tag-1": False, "tag-2": True}
        assert [each.name for each in client.batches.list()] == [batch.name]
