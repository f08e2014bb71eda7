"""Pages of the server over HTTP: who may ask for what, and what a browser may do."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktdeval.registry import load_plugins
from ktdeval_qfinzero.access.pages.playground.chat_samples import add_sample, gold_calls, gold_task
from ktdeval_qfinzero.access.pages.playground.chat_store import ChatHead, ChatStore, new_id
from ktdeval_qfinzero.access.pages.playground.models import check_choice, offered_models
from ktdeval_qfinzero.catalogue import catalogue
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.scoring.tasks_file import read_tasks, tasks_of
from ktdeval_qfinzero.suite.grading import RecordedCall
from qfinzero_server import Served, serving
from qfinzero_world import small_dataset


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(catalogue()) as server:
        yield server


def raw(served: Served, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("path", ["/", "/health", "/playground"])
def test_a_browser_gets_pages_that_load_and_ask_nothing_but_this_server(
    served: Served, path: str
) -> None:
    status, headers, text = raw(served, path, Accept="text/html")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")

    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "img-src" not in policy  # so that default-src forbids images
    assert "http://" not in text
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_program_gets_json_in_place_of_pages(served: Served) -> None:
    index = json.loads(raw(served, "/", Accept="application/json")[2])
    assert index["pages"] == ["/health", "/playground"]
    assert "folders" in json.loads(raw(served, "/health")[2])


def test_a_request_of_another_site_or_for_another_name_is_refused(served: Served) -> None:
    body = {"model": "builtin/chaos"}
    assert served.post("/playground/chats", body, Origin="http://evil.example").status == 400
    assert raw(served, "/playground", Host="evil.example")[0] == 400

    form = served.send("POST", "/playground/chats", "{}", Content_Type="text/plain")
    assert form.error["field"] == "Content-Type"

    broken = served.send("POST", "/playground/chats", '{"model":', Content_Type="application/json")
    assert (broken.status, broken.error["field"]) == (400, "body")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/playground/chats", {"model": "../x"}, "model"),
        ("/playground/chats", {"model": "builtin/script(file=/etc/passwd)"}, "model"),
        ("/playground/chats", {"model": "replay/../../x"}, "model"),
        ("/playground/chats", {"model": "openai/x(base_url=http://evil.example)"}, "model"),
        ("/playground/chats", {"model": "builtin/chaos", "as_of": "1999-01-01"}, "as_of_ts"),
        ("/playground/chats", {"model": 1}, "model"),
        ("/playground/chats", {"model": "builtin/chaos", "out": "/x"}, "out"),
        ("/playground/chats/..%2f..%2fx/turns", {"instruction": "x"}, "path"),
        ("/playground/chats/0123456789abcdef/turns", {"instruction": "x"}, "chat"),
        ("/playground/chats/0123456789abcdef/turns", {"instruction": "x" * 8001}, "instruction"),
        ("/health/check", {"folder": 9}, "folder"),
    ],
)
def test_what_a_browser_sends_is_checked(
    served: Served, path: str, body: dict[str, object], field: str
) -> None:
    answer = served.post(path, body)

    assert 400 <= answer.status < 500
    assert answer.error["field"] == field


@pytest.mark.parametrize("name", ["..%2fsettings.py", "health.html", "x"])
def test_files_of_the_server_are_not_reached_by_a_name(served: Served, name: str) -> None:
    assert raw(served, f"/playground/assets/{name}")[0] == 404


def test_every_component_is_probed_and_leaves_nothing_behind(served: Served) -> None:
    before = len(served.workspaces)
    probes = served.get("/health/probes").body

    assert [probe["component"] for probe in probes] == ["UPQ", "ESP", "PMB", "MCP"]
    assert all(probe["ok"] and probe["latency_ms"] > 0 for probe in probes)
    assert len(served.workspaces) == before


def test_news_and_the_economic_calendar_are_searched(served: Served) -> None:
    assert served.get("/health/news?q=zzzzzz").body["events"] == []
    assert served.get("/health/news?start=x").error["field"] == "start_utc"

    events = served.get("/health/calendar").body
    exported = raw(served, "/health/calendar?format=ics")[2]

    assert exported.count("BEGIN:VEVENT") == len(events) > 0
    assert served.get("/health/calendar?format=pdf").error["field"] == "format"


def test_only_models_without_files_and_addresses_of_the_browser_can_be_chosen() -> None:
    plugins = load_plugins()
    own = ("builtin/script(file=talk.yaml)",)
    names = {model.name for model in offered_models(plugins, own)}

    assert {own[0], "openai/", "builtin/chaos"} <= names
    assert not {"builtin/script", "replay/", "rl/policy"} & names
    assert check_choice(plugins, own, own[0]) == own[0]
    assert check_choice(plugins, own, "builtin/chaos") == "builtin/chaos"

    with pytest.raises(ServiceError, match="reads files"):
        check_choice(plugins, own, "replay/run")


def test_a_turns_accepted_calls_become_an_item_that_tasks_read(tmp_path: Path) -> None:
    calls = [
        RecordedCall(tool="PMB.account.create", arguments={"initial_cash": 1000}),
        RecordedCall(tool="PMB.account.get", arguments={"account_id": "acct-000001"}),
        RecordedCall(tool="UPQ.stock.daily", arguments={"tickers": "AVLN"}),  # refused
        RecordedCall(
            tool="UPQ.stock.daily",
            arguments={"tickers": "AVLN", "start": "2025-01-02", "end": "2025-01-03"},
        ),
    ]
    expected = gold_calls(Workspace(small_dataset()), calls)
    task = gold_task("mine", "planning", "Open an account.", expected, "chat")

    add_sample(tmp_path, task)

    (read,) = tasks_of(read_tasks(tmp_path / "planning.jsonl"))

    assert read == task
    assert [call.tool for call in read.calls] == [
        "PMB.account.create", "PMB.account.get", "UPQ.stock.daily",
    ]  # fmt: skip
    assert read.calls[1].required == {"account_id": "{account_id}"}
    assert read.calls[2].times == {
        "start": "2025-01-02", "end": "2025-01-03", "tolerance": "exact",
    }  # fmt: skip

    with pytest.raises(ServiceError, match="already"):
        add_sample(tmp_path, task)

    assert gold_task("none", "calling", "Do what can't be done.", [], "chat").refuse


def test_the_number_of_chats_is_bounded(tmp_path: Path) -> None:
    store = ChatStore(tmp_path, 1)

    def head() -> ChatHead:
        return ChatHead(
            id=new_id(), model="builtin/chaos", as_of="2025-01-06T21:00:00Z", content_id="x",
            data=None, seed=0, created_at="2025-01-06", max_tokens=1,
        )  # fmt: skip

    store.create(head())
    with pytest.raises(ServiceError, match="there are 1 chats"):
        store.create(head())
