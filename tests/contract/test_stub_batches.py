"""The stub's batch interfaces are those of the vendors: their own SDKs take batches from it to the
end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.providers.stub_batches import BatchPlan, Fate
from support.providers.stub_neutral import MODEL
from support.providers.stub_provider import KEY, Stub, running_stub, skip_without_sdks

skip_without_sdks()

SAY = {"role": "user", "content": 'Repeat "fern"'}
FATES: dict[int, Fate] = {1: "server", 2: "expired"}
IDS = ["tag-0", "tag-1", "tag-2"]


@pytest.fixture
def stub() -> Iterator[Stub]:
    with running_stub() as running:
        running.batches.plan = BatchPlan(fates=FATES, looks=1)
        yield running


@pytest.mark.slow
def test_google_takes_a_batch_to_its_results(stub: Stub) -> None:
    from google import genai
    from google.genai import types

    stub.batches.plan = BatchPlan(fates={1: "server"}, looks=1)
    options = types.HttpOptions(base_url=stub.address, api_version="v1beta")
    client = genai.Client(api_key=KEY, http_options=options)
    requests = [
        types.InlinedRequest(
            contents=[types.Content(role="user", parts=[types.Part(text=SAY["content"])])],
            metadata={"key": id_},
        )
        for id_ in IDS
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


def _lines(content: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in content.splitlines()]
