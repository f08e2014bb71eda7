"""Requests that a proxy and the services could read in two ways are refused, by the server that the
command starts.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from ktdeval_qfinzero.access.guarded_dispatch import AccessRules
from qfinzero_toy import TOYS
from support.qfinzero.qfinzero_server import Served
from support.raw_requests import ambiguous_requests, answer_to, statuses

TOKEN = "a-token-of-some-length"
SERVED = {"catalogue": TOYS, "security": AccessRules(None, TOKEN)}
REQUESTS = ambiguous_requests("POST", "/workspaces")


@pytest.mark.parametrize("request_bytes", REQUESTS.values(), ids=REQUESTS)
def test_request_of_two_readings_is_refused_and_nothing_behind_it_is_read(
    served: Served, request_bytes: bytes
) -> None:
    assert statuses(answer_to(served.port, request_bytes)) == [400]


@pytest.mark.parametrize("name", ["Qfinzero-Workspace", "Mcp-Session-Id"])
def test_header_that_chooses_whose_state_is_used_stands_once(served: Served, name: str) -> None:
    head = f"Authorization: Bearer {TOKEN}\r\n{name}: a\r\n{name}: b\r\nConnection: close"
    request = f"GET /toy/abc HTTP/1.1\r\nHost: x\r\n{head}\r\n\r\n".encode()
    answer = answer_to(served.port, request)

    assert statuses(answer) == [400]
    assert f"the header {name.lower()} appears more than once" in answer.decode()


def test_request_of_one_reading_is_answered(served: Served) -> None:
    head = f"Authorization: Bearer {TOKEN}\r\nContent-Type: application/json\r\nConnection: close"
    body = "2\r\n{}\r\n0\r\n\r\n"
    request = (
        f"POST /workspaces HTTP/1.1\r\nHost: x\r\n{head}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )

    assert statuses(answer_to(served.port, f"{request}{body}".encode())) == [201]


@pytest.mark.exhaustive
def test_the_servers_own_process_refuses_them() -> None:
    words = ["paper", "qfinzero", "serve", "--port", "0", "--token-env", "SERVED_TOKEN"]
    with subprocess.Popen(
        [sys.executable, "-m", "ktdeval", *words],
        env={**os.environ, "SERVED_TOKEN": TOKEN},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        port = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert port is not None
        found = {name: statuses(answer_to(int(port[1]), text)) for name, text in REQUESTS.items()}
        process.send_signal(signal.SIGINT)

    assert {name for name, answered in found.items() if answered != [400]} == set()
