"""The reply cache: the key of a request, what was answered comes back exactly, many at once, and
what is looked after.
"""

from __future__ import annotations

import random
import sqlite3
import stat
import subprocess
import tempfile
import threading
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.calls.records import database
from ktdeval.calls.records.cache_admin import CacheAdmin, CachePruneRule, CheckedReplies
from ktdeval.calls.records.database import CallDatabase
from ktdeval.calls.records.record import is_cacheable, request_key, tool_texts
from ktdeval.errors import StoreError
from ktdeval.harness import ModelTraits
from ktdeval.harness.call_params import TRANSPORT
from ktdeval.harness.chat_messages import (
    CallParams,
    Message,
    ModelRequest,
    Opaque,
    Reply,
    ToolCall,
    ToolSpec,
    Usage,
)
from ktdeval.harness.external.own_settings import OwnSettings
from ktdeval.observation import ObservedState
from ktdeval.testing import on_each_row
from ktdeval.values import dumps_canonical, sha256_hex
from support.providers.call_runs import cached, entries_in, entry_of, key_of, keys_in, python
from support.searching import examples

NOW = datetime(2026, 2, 10, tzinfo=UTC)


# ---- the key


@dataclass
class Remote:
    """As much of a `RemoteModel` as a key needs."""

    provider: str = "openai"
    name: str = "gpt-9"
    endpoint: str = "https://api.example/v1"
    options: dict[str, Any] | None = None
    headers: dict[str, str] | None = None

    def settings(self) -> Any:
        return self.options

    @property
    def traits(self) -> ModelTraits:
        return ModelTraits(routing=lambda: self.headers or {})


TOOL = ToolSpec("quote", "A price.", {"type": "object", "properties": {"b": {}, "a": {}}})
ASKED = ModelRequest(
    messages=(
        Message("user", "go"),
        Message("assistant", "", (ToolCall("c1", "quote", "{}"),)),
        Message("tool", "1", tool_call_id="c1"),
    ),
    tools=(TOOL,),
    params=CallParams(seed=7),
)
OTHER_PARAMS = {
    "temperature": 0.1,
    "max_output_tokens": 5,
    "seed": 8,
    "reasoning_effort": "low",
    "reasoning_tokens": 9,
}
OTHER_PARAMS |= {"tool_protocol": "text"}
OTHER_REQUESTS = {
    "messages": ASKED.messages[:1],
    "tools": (replace(TOOL, description="Another."),),
    "tool_choice": "quote",
    "response_schema": {"type": "object"},
    "params": CallParams(seed=8, temperature=0.1),
    "predictions": {"asset_0001": 0.5},
    "places": {"asset_0001": 0},
    "own": OwnSettings("messages", {"top_k": 5}),
}


def with_message(index: int, **changes: Any) -> ModelRequest:
    messages = list(ASKED.messages)
    messages[index] = replace(messages[index], **changes)
    return replace(ASKED, messages=tuple(messages))


def test_cache_key_depends_on_exactly_what_can_change_a_reply():
    assert {field.name for field in fields(ModelRequest)} == {
        *OTHER_REQUESTS,
        "role",
        "model",
        "submit_tool",
        "may_submit",
        "chance",
        "state",
        "step",
        "total_steps",
        "listener",
        "submit_schema",  # part of the key where the protocol holds replies to it
        "run_params",  # of what `own` replaced it is part of the key
    }
    assert {field.name for field in fields(CallParams)} == {*OTHER_PARAMS, *TRANSPORT}

    calls = (("c9", "quote", "{}"), ("c1", "quote", "[]"), ("c1", "quote", "{}", Opaque("p", "d")))
    requests = [
        ASKED,
        *(
            replace(ASKED, params=replace(ASKED.params, **{name: value}))
            for name, value in OTHER_PARAMS.items()
        ),
        *(replace(ASKED, **{name: value}) for name, value in OTHER_REQUESTS.items()),
        # lone surrogates do not collide
        *(with_message(0, content=text) for text in ("stop", "\ud800", "\udfff", "?")),
        with_message(0, role="system"),
        with_message(2, tool_call_id="c2"),
        *(with_message(1, tool_calls=(ToolCall(*parts),)) for parts in calls),
        replace(ASKED, tools=(replace(TOOL, parameters={}),)),
        replace(ASKED, tools=(TOOL, replace(TOOL, name="two"))),
    ]
    models = [
        Remote(provider="azure"),
        Remote(name="gpt-8"),
        Remote(endpoint="http://localhost"),
        Remote(options={"top_p": 1}),
    ]
    models += [
        Remote(headers={"openai-organization": organisation}) for organisation in ("org-a", "org-b")
    ]
    keys = [request_key(Remote(), request) for request in requests] + [
        request_key(model, ASKED) for model in models
    ]

    assert len(set(keys)) == len(keys)

    by_schema = replace(ASKED, params=replace(ASKED.params, tool_protocol="json_schema"))
    held = [replace(by_schema, submit_schema=schema) for schema in (None, {}, {"type": "object"})]
    assert len({request_key(Remote(), request) for request in held}) == 3
    assert request_key(Remote(), replace(ASKED, submit_schema={})) == keys[0]

    patient = replace(ASKED, params=replace(ASKED.params, timeout_s=9.0))
    turned = replace(
        ASKED,
        tools=(replace(TOOL, parameters={"properties": {"a": {}, "b": {}}, "type": "object"}),),
    )

    assert request_key(Remote(), patient) == request_key(Remote(), turned) == keys[0]

    # none of these is sent
    unsent = replace(
        ASKED, role="trader", may_submit=True, chance=3, state=ObservedState({"day": '"day_+1"'})
    )
    assert request_key(Remote(), unsent) == keys[0]
    # When this must change, so must the version in the key: all replies kept before are then asked
    # for anew.
    assert keys[0] == "30ea19fec79df513c2753a924d90544a8c61e2f1fba9b6f3d7c5d5e6c09fc015"


def test_a_key_is_the_hash_of_one_object_of_canonical_json():
    model = Remote(headers={"openai-organization": "org-a"})
    for request in (ASKED, replace(ASKED, tools=()), replace(ASKED, **OTHER_REQUESTS)):
        fields_asked = {
            "endpoint": model.endpoint,
            "caller": dict(model.traits.routing()),
            "messages": [message.to_json() for message in request.messages],
            "version": 1,
            "provider": model.provider,
            "model": model.name,
            "settings": model.settings(),
            "tools": [[tool.name, tool.description, tool.parameters] for tool in request.tools],
            "tool_choice": request.tool_choice,
            "response_schema": request.response_schema,
            "params": {
                name: value
                for name, value in asdict(request.params).items()
                if name not in TRANSPORT and value is not None
            },
        }
        for name in ("predictions", "places"):
            if getattr(request, name) is not None:
                fields_asked[name] = getattr(request, name)
        if request.own is not None:
            own = request.own
            fields_asked["own"] = {"api": own.api, "fields": own.fields, "instead": {}}

        key = sha256_hex(dumps_canonical(fields_asked))
        assert request_key(model, request) == key
        assert request_key(model, request, tool_texts(request)) == key


# ---- what goes in comes out


texts = st.text(st.characters(codec=None), max_size=40)  # lone surrogates too
counts = st.integers(0, 2**40)
opaque = st.none() | st.builds(Opaque, texts, texts)
tool_calls = st.lists(st.builds(ToolCall, texts, texts, texts, opaque), max_size=3).map(tuple)
replies = st.builds(
    Reply,
    texts,
    tool_calls,
    st.sampled_from(["stop", "tool_calls"]),
    st.builds(Usage, *[counts] * 5),
    texts,
    texts,
).filter(is_cacheable)


@pytest.mark.slow
@examples(3)
@given(given_=st.lists(replies, min_size=15, max_size=15))
def test_a_reply_comes_back_exactly(given_):
    with (
        tempfile.TemporaryDirectory() as folder,
        CallDatabase(Path(folder) / "replies.sqlite") as cache,
    ):
        cache.put([entry_of(number, reply) for number, reply in enumerate(given_)])
        assert [cached(cache, key_of(number)) for number in range(len(given_))] == given_


def test_truncated_refused_empty_or_malformed_replies_are_not_cached():
    accidents = [
        Reply("half", finish_reason="length"),
        Reply("no", finish_reason="refusal"),
        Reply("", finish_reason="content_filter"),
    ]

    for reply in (
        *accidents,
        Reply(),
        Reply(" \n", reasoning="long"),
        Reply("", finish_reason="tool_calls"),
    ):
        assert not is_cacheable(reply)
        with pytest.raises(ValueError, match="is not kept"):
            entry_of("a", reply)

    for wrong in (
        {"key": "abc"},
        {"created_at": "yesterday"},
        {"created_at": "2026-01-31T23:59:59+08:00"},
    ):
        with pytest.raises(ValueError, match=r"not a SHA-256|isoformat|not in UTC"):
            replace(entry_of("a"), **wrong)


def test_the_file_is_its_owners_and_durable_by_its_settings(cache, path):
    cache.put([entry_of(1)])
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}

    settings = {
        name: cache._writer.sql.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "auto_vacuum")
    }

    # FULL, INCREMENTAL
    assert settings == {"journal_mode": "wal", "synchronous": 2, "auto_vacuum": 2}


# ---- many at once


WRITER = """
import sys
from pathlib import Path
from ktdeval.calls.records.database import CallDatabase
from ktdeval.calls.records.record import CacheEntry
from ktdeval.harness.chat_messages import Reply
from ktdeval.values import sha256_hex
sys.stdin.readline()
cache = CallDatabase(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    key = sha256_hex(f"{sys.argv[2]} {number}")
    cache.put([CacheEntry(key, "openai", "gpt-9", Reply(key * 20), "2026-01-31T23:59:59Z")])
    assert cache.entry(key).reply == Reply(key * 20)
    print(key, flush=True)
cache.close()
"""


@pytest.mark.exhaustive
def test_processes_that_begin_a_file_at_the_same_moment_share_it(path):
    processes = [python(WRITER, path, name, 25, stdin=subprocess.PIPE) for name in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()

    ends = [process.communicate(timeout=240) for process in processes]

    assert [err for _, err in ends] == [""] * 4

    keys = {key for out, _ in ends for key in out.split()}
    assert len(keys) == 100
    assert keys_in(path) == keys

    with CacheAdmin(path) as cache_admin:
        assert cache_admin.verify() == CheckedReplies(100, ())


def test_a_writer_waits_for_another_process_and_reports_a_long_wait(path, monkeypatch):
    monkeypatch.setattr(database, "BUSY_S", 0.2)
    with CallDatabase(path) as cache:
        cache.put([entry_of(0)])
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        assert cached(cache, key_of(0)) == entry_of(0).reply  # a reader does not wait
        with pytest.raises(
            StoreError,
            match=(
                r"database is locked; another process has held it .* or choose another file \(of a run: --cache\)"
            ),
        ):
            cache.put([entry_of(1)])

        threading.Timer(0.05, other.execute, ("COMMIT",)).start()
        cache.put([entry_of(1)])
        assert cached(cache, key_of(1)) == entry_of(1).reply
        other.close()

    with pytest.raises(StoreError, match="closed"):
        cached(cache, key_of(1))


# ---- cache_admin


def aged(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat().replace("+00:00", "Z")


@pytest.fixture
def stocked(path: Path) -> Path:
    """Ten replies of each of two models, from 0.5 to 9.5 days old, that can't be compressed
    well.
    """
    with CallDatabase(path) as cache:
        for model in ("gpt-9", "o-4"):
            chance = random.Random(model)
            replies = [
                Reply(chance.randbytes(1000).hex(), usage=Usage(100 + day, 10)) for day in range(10)
            ]
            cache.put(
                [
                    entry_of((model, day), reply, model, aged(day + 0.5))
                    for day, reply in enumerate(replies)
                ]
            )

    return path


@on_each_row(
    "rule, count",
    ({}, 20),
    ({"model": "openai/gpt-*"}, 10),
    ({"model": "anthropic/*"}, 0),
    ({"older_than_days": 7}, 6),
    ({"older_than_days": 9.6}, 0),
    ({"model": "*/o-4", "older_than_days": 7}, 3),
    ({"max_bytes": 0}, 20),
    ({"max_bytes": 1_000_000_000}, 0),
    # old, then too much: ten of 1,350 bytes
    ({"older_than_days": 7, "max_bytes": 13500}, 10),
)
def test_pruning_removes_the_oldest_matching_entries_and_a_dry_run_none(stocked, rule, count):
    rule = CachePruneRule(**rule)
    before = stocked.stat().st_size
    with CacheAdmin(stocked) as cache_admin:
        entries = entries_in(stocked)
        planned = cache_admin.prune(rule, NOW, dry_run=True)
        assert entries_in(stocked) == entries

    with CacheAdmin(stocked) as cache_admin:
        pruned = cache_admin.prune(rule, NOW)
        left = entries_in(stocked)
        assert cache_admin.verify().findings == ()

    assert pruned == planned
    assert pruned.replies == count == 20 - len(left)

    named = [
        entry for entry in entries if fnmatchcase(f"{entry.provider}/{entry.model}", rule.model)
    ]
    gone, stay = (
        [entry.created_at for entry in named if (entry in left) is is_left]
        for is_left in (False, True)
    )

    assert len(gone) == count
    assert max(gone, default="") <= min(stay, default="~")
    assert stocked.stat().st_size <= before - max(0, pruned.bytes - 3 * 4096)
