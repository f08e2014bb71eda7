"""Pages of the server over HTTP: who may ask for what, and what a browser may do."""

from __future__ import annotations

import http.client
import json
from dataclasses import replace
from pathlib import Path

import pytest

from ktdeval.harness import ReplyPiece
from ktdeval.registry import load_plugins
from ktdeval_qfinzero.access.pages.chat_runs import RunUnderWay
from ktdeval_qfinzero.access.pages.chat_samples import add_sample, gold_calls, gold_task
from ktdeval_qfinzero.access.pages.chat_store import ChatHead, ChatStore, new_id
from ktdeval_qfinzero.access.pages.models import check_choice, offered_models
from ktdeval_qfinzero.access.pages.page_settings import PageSettings
from ktdeval_qfinzero.access.pages.playground import MAX_CHARS, Playground, coming_text
from ktdeval_qfinzero.access.workspaces import WorkspaceLimits, Workspaces
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.scoring.tasks_file import read_tasks, tasks_of
from ktdeval_qfinzero.suite.grading import RecordedCall
from support.qfinzero.qfinzero_server import Served
from support.qfinzero.qfinzero_world import small_dataset


def raw(served: Served, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.exhaustive
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
def test_a_program_gets_json_in_place_of_pages(served: Served) -> None:
    index = json.loads(raw(served, "/", Accept="application/json")[2])
    assert index["pages"] == ["/health", "/playground"]
    (served_data,) = json.loads(raw(served, "/health")[2])
    assert served_data["coverage"]
    assert "builtin/chaos" in json.loads(raw(served, "/playground")[2])["models"]


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
        ("/health/check", {"folder": "9"}, "folder"),
    ],
)
def test_what_a_browser_sends_is_checked(
    served: Served, path: str, body: dict[str, object], field: str
) -> None:
    answer = served.post(path, body)

    assert 400 <= answer.status < 500
    assert answer.error["field"] == field


@pytest.mark.parametrize("name", ["..%2fapp.py", "index.html", "x"])
def test_files_of_the_server_are_not_reached_by_a_name(served: Served, name: str) -> None:
    assert raw(served, f"/assets/{name}")[0] == 404


def test_every_service_is_called_and_leaves_nothing_behind(served: Served) -> None:
    before = len(served.workspaces)
    (data,) = served.get("/health/report").body

    assert [each["call"] for each in data["services"]] == [
        "UPQ.health.freshness", "ESP.health.freshness", "PMB.account.list",
    ]  # fmt: skip
    assert all(not each["problem"] and each["latency_ms"] > 0 for each in data["services"])
    assert len(served.workspaces) == before


def test_browser_cannot_choose_models_that_read_files() -> None:
    plugins = load_plugins()
    own = ("builtin/script(file=talk.yaml)",)
    names = offered_models(plugins, own).keys()

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
    task = gold_task("mine", "planning", "Open an account.", expected)

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

    with pytest.raises(ServiceError, match="1 to 64 letters"):
        add_sample(tmp_path, replace(task, id="../x"))

    assert gold_task("none", "calling", "Do what can't be done.", []).refuse


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


@pytest.fixture
def playground(tmp_path: Path) -> Playground:
    workspaces = Workspaces(small_dataset(), WorkspaceLimits(), lambda: 0.0)
    return Playground(workspaces, PageSettings(chats=tmp_path / "chats"))


def seen_of(pieces: list[ReplyPiece]) -> str:
    """What is shown of a reply that has come so far."""
    run = RunUnderWay()
    for piece in pieces:
        run.heard(None, piece)  # type: ignore[arg-type]  # of any episode

    return coming_text(run.coming)


def test_a_reply_is_seen_as_it_comes() -> None:
    begun = [
        ReplyPiece("text", "void "),
        ReplyPiece("begun"),  # another attempt
        ReplyPiece("text", "I look \ud83d"),
        ReplyPiece("text", "\ude00 "),
        ReplyPiece("call", "", 0, "get_"),
        ReplyPiece("call", '{"a": ', 0, "bars"),
    ]

    assert seen_of(begun) == 'I look 😀 get_bars{"a": '
    assert "come whole (not streamed" in seen_of([ReplyPiece("whole", "not streamed from here")])
    assert len(seen_of([ReplyPiece("text", "涨" * 2 * MAX_CHARS)])) < MAX_CHARS + 40


def test_a_secret_that_comes_letter_by_letter_is_never_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secret = "sk-0a1b2c3d4e5f6g7h8i9j"  # no real key
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    pieces: list[ReplyPiece] = []
    shown = []

    for letter in f"The key is {secret} as you know. ":
        pieces.append(ReplyPiece("text", letter))
        shown.append(seen_of(pieces))

    assert not any(secret[:5] in text for text in shown)
    assert shown[-1] == "The key is [OPENAI_API_KEY] as you know. "


def test_a_chat_is_asked_seen_and_scored_and_its_turn_becomes_an_item(
    playground: Playground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "a-secret-of-some-length")
    chat = playground.create("builtin/trivial", "")["id"]

    assert playground.show(chat)["state"] == "new"
    assert playground.chats() == [{"id": chat, "title": "", "model": "builtin/trivial"}]
    with pytest.raises(ServiceError, match="some words"):
        playground.ask(chat, " ")
    with pytest.raises(ServiceError, match="no model is answering"):
        playground.stop(chat)
    with pytest.raises(ServiceError, match="no finished turn"):
        playground.keep_sample(chat, "1", "planning", "mine", "Do it.")

    playground.delete(chat)

    assert playground.chats() == []
