"""Refusals that every call would meet are known at the first of them, and are not paid for step by
step.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapter_server import Prepared, prepared
from ktdeval.calls import Caller, http_error
from ktdeval.errors import ModelError, ProviderError
from stub_provider import skip_without_sdks
from tables import on_each_row
from terminal import Terminal

skip_without_sdks()

CALLER = Caller("openai", "q", "http://localhost:8000/v1", ("OPENAI_API_KEY",))
RUN = [
    "--model",
    "openai_compatible/q",
    "--tasks",
    "blinded_open_research",
    "--limit",
    "4",
    "--cache",
    "run",
    "--quiet",
]


def refusal(status: int, body: Any) -> ModelError | ProviderError:
    return http_error(status, json.dumps(body).encode(), {}, CALLER, ("model", "messages", "tools"))


@on_each_row
def test_a_refusal_that_every_call_would_meet_stops_the_run_at_its_first(
    server: str, status: int, body: Any, advice: str, terminal: Terminal, tmp_path: Path
) -> None:
    error = refusal(status, body)
    assert isinstance(error, ProviderError), server
    assert advice in str(error)

    with prepared(Prepared(body, status)) as listening:
        address = ["--base-url", f"{listening.address}/v1", "--tool-protocol", "native"]
        message = terminal.refusal(*RUN, *address, "--out", str(tmp_path / "run"))

    assert advice in message
    assert len(listening.bodies) == 1


@on_each_row
def test_a_refusal_of_one_request_stays_one(server: str, status: int, body: Any) -> None:
    error = refusal(status, body)
    assert isinstance(error, ModelError), server
    assert error.kind == "bad_request"


@pytest.mark.slow
@pytest.mark.parametrize("body", [b"<html>Log in</html>", {"hello": 1}])
def test_a_server_that_answers_nothing_readable_is_asked_three_times(
    body: Any, terminal: Terminal, tmp_path: Path
) -> None:
    with prepared(Prepared(body)) as listening:
        address = ["--base-url", f"{listening.address}/v1", "--tool-protocol", "native"]
        message = terminal.refusal(*RUN, *address, "--out", str(tmp_path / "run"))

    assert "nothing that it answered so far can be read: check the address (--base-url)" in message
    assert len(listening.bodies) == 3


def test_a_server_that_never_answers_is_given_up_after_as_many_calls_as_a_run_may_fail(
    terminal: Terminal, tmp_path: Path
) -> None:
    """Among them those of the questions that a run asks first."""
    with prepared(Prepared({"error": {"message": "something is wrong"}}, 400)) as listening:
        address = ["--base-url", f"{listening.address}/v1", "--tool-protocol", "native"]
        code, _, message = terminal.call(*RUN, *address, "--out", str(tmp_path / "run"))

    assert code != 0
    assert "3 calls in a row failed for good, the last with bad_request" in message
    assert len(listening.bodies) == 3
