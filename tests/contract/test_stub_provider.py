"""The stub provider is like the vendors: their own SDKs get decisions from it, and batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.providers.stub_batches import BatchPlan, Fate
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


SAY = {"role": "user", "content": 'Repeat "fern"'}


FATES: dict[int, Fate] = {1: "server", 2: "expired"}


IDS = ["tag-0", "tag-1", "tag-2"]


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running_stub() as running:
        running.batches.plan = BatchPlan(fates=FATES, looks=1)
        yield running


def _lines(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines()]


def test_openai_takes_a_batch_from_upload_to_results(stub: Stub) -> None:
    import openai

    with openai.OpenAI(api_key=KEY, base_url=stub.base_url) as client:
        body = {"model": MODEL, "messages": [SAY]}
        lines = [
            json.dumps(
                {"custom_id": id_, "method": "POST", "url": "/v1/chat/completions", "body": body}
            )
            for id_ in IDS
        ]
        file = client.files.create(file=("in.jsonl", "\n".join(lines).encode()), purpose="batch")
        batch = client.batches.create(
            completion_window="24h",
            endpoint="/v1/chat/completions",
            input_file_id=file.id,
            metadata={"ktdeval": "tag"},
        )
        assert client.batches.retrieve(batch.id).status == "in_progress"
        done = client.batches.retrieve(batch.id)
        assert (done.status, done.metadata) == ("completed", {"ktdeval": "tag"})
        assert done.request_counts is not None
        assert (done.request_counts.completed, done.request_counts.failed) == (1, 2)
        (result,) = _lines(client.files.content(str(done.output_file_id)).content)
        assert (result["custom_id"], result["response"]["status_code"]) == ("tag-0", 200)
        failed = _lines(client.files.content(str(done.error_file_id)).content)
        codes = {line["custom_id"]: (line["error"] or {}).get("code") for line in failed}
        assert codes == {"tag-1": None, "tag-2": "batch_expired"}
        assert [each.id for each in client.batches.list(limit=1)] == [batch.id]


def test_anthropic_takes_a_batch_to_its_results(stub: Stub) -> None:
    import anthropic

    version = {"anthropic-version": "2023-06-01"}
    with anthropic.Anthropic(api_key=KEY, base_url=stub.address, default_headers=version) as client:
        params: Any = {"model": MODEL, "max_tokens": 64, "messages": [SAY]}
        batches = client.messages.batches
        batch = batches.create(requests=[{"custom_id": id_, "params": params} for id_ in IDS])
        assert batches.retrieve(batch.id).processing_status == "in_progress"
        done = batches.retrieve(batch.id)
        assert done.processing_status == "ended"
        counts = done.request_counts
        assert (counts.succeeded, counts.errored, counts.expired) == (1, 1, 1)
        found = {line.custom_id: line.result.type for line in batches.results(batch.id)}
        assert found == {"tag-0": "succeeded", "tag-1": "errored", "tag-2": "expired"}
        assert [each.id for each in batches.list(limit=1)] == [batch.id]
