"""Every wire alike: what each failure is called, what stops a run, and what a model does wrong,
against one stub provider.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from ktdeval.errors import KtdevalError, ModelError, ProviderError
from ktdeval.harness.chat_messages import Message, ModelRequest, Reply
from ktdeval.registry import load_plugins
from ktdeval.values import install_command
from support.providers.adapter_server import (
    LOOK,
    QUESTION,
    SUBMIT,
    Prepared,
    ask as asked,
    failure_of as failed,
    prepared,
)
from support.providers.stub_faults import BENT, BROKEN, KINDS, NOT_ON_WIRE, PROMPT, REFUSALS
from support.providers.stub_provider import KEY, FaultPlan, Stub, running_stub

pytestmark = pytest.mark.usefixtures("provider_keys")


class Wire(NamedTuple):
    """How a model is made over one wire."""

    stub: str  # the wire's name at the stub
    provider: str  # of the model
    args: dict[str, Any]  # further parameters
    variables: str  # that may hold its key, as messages name them
    package: str  # module of its SDK
    # faults that this provider's errors can't express, or express otherwise
    lacks: frozenset[str] = frozenset()

    def at(self, address: str, name: str = "stub-model", **params: Any) -> Any:
        return load_plugins().make_model(
            f"{self.provider}/{name}", {"base_url": address, **self.args, **params}
        )


OPENAI = ("OPENAI_API_KEY", "openai")
ANTHROPIC = ("ANTHROPIC_API_KEY", "anthropic")
GOOGLE = ("GEMINI_API_KEY or GOOGLE_API_KEY", "google.genai")
WIRES = {
    "responses": Wire("responses", "openai", {}, *OPENAI),
    "chat": Wire("chat", "openai", {"api": "chat"}, *OPENAI),
    "anthropic": Wire(
        "anthropic",
        "anthropic",
        {},
        *ANTHROPIC,
        frozenset({"unsupported", *NOT_ON_WIRE["anthropic"]}),
    ),
    "google": Wire(
        "google", "google", {}, *GOOGLE, frozenset({"prompt_filter", *NOT_ON_WIRE["google"]})
    ),
}
# a blocked prompt is a reply
FAILURES = {**KINDS, "context": PROMPT["context"], "too_large": PROMPT["too_large"]}
STOPS = {
    "no_quota": "set {} to the key of another account",
    "no_balance": "set {} to the key of another account",
    "unauthorized": "set {} to a valid key",
    "forbidden": "check what the key in {} may do",
    "unknown_model": "check the name after the slash in --model",
    "unsupported": "--model-args omit=temperature",
}
REPLIES = {
    "prompt_filter": "content_filter",
    "wrong_tool": "tool_calls",
    "odd_tool_name": "tool_calls",
    "parallel": "tool_calls",
    "bad_arguments": "tool_calls",
    "truncated": "length",
    "truncated_call": "length",
    "empty": "stop",
    "refusal": "refusal",
    "content_filter": "content_filter",
    "prose": "stop",
}

every_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)


def ask(text: str = "Day 3.", timeout_s: float = 240.0) -> ModelRequest:
    return asked((QUESTION[0], Message("user", text)), (LOOK, SUBMIT), timeout_s=timeout_s)


def failure_of(model: Any, request: ModelRequest | None = None) -> KtdevalError:
    return failed(model, request or ask())


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with running_stub() as running:
        yield running


def spoilt(wire: Wire, fault: str, stub: Stub) -> Reply | KtdevalError:
    """What one attempt comes to; there is no second one."""
    stub.plan = FaultPlan(faults=(fault,), retry_after_s=7)
    stub.counts.clear()
    stub.answered.clear()
    model = wire.at(stub.base_url_of(wire.stub))
    request = ask(timeout_s=0.3 if fault in ("silent", "slow") else 240.0)
    outcome: Reply | KtdevalError = (
        model.reply(request) if fault in REPLIES else failure_of(model, request)
    )

    assert stub.counts == {fault: 1}  # one attempt
    assert stub.answers == (fault in BENT)  # paid for where it came whole

    model.reply(ask())  # a fault comes once

    return outcome


def test_every_fault_has_a_name() -> None:
    assert {*REFUSALS, *BROKEN, *BENT} == {*FAILURES, *STOPS, *REPLIES}


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "kind"), FAILURES.items(), ids=FAILURES)
@every_wire
def test_a_failed_attempt_is_a_model_error_of_its_kind_and_made_once(
    wire: Wire, stub: Stub, fault: str, kind: str
) -> None:
    error = spoilt(wire, fault, stub)
    assert isinstance(error, ModelError)
    assert error.kind == kind

    asked_to_wait = kind in ("rate_limited", "overloaded")
    assert (error.retry_after_s is not None) == asked_to_wait
    assert not asked_to_wait or 0 <= (error.retry_after_s or 0) <= 7


@pytest.mark.slow
@every_wire
def test_what_a_model_does_wrong_is_a_reply(wire: Wire, stub: Stub) -> None:
    replies = {}
    for fault, finish in REPLIES.items():
        if fault in wire.lacks:
            continue

        reply = replies[fault] = spoilt(wire, fault, stub)
        assert isinstance(reply, Reply), fault
        assert reply.finish_reason == finish, fault

    assert (
        len({call.id for call in replies["parallel"].tool_calls})
        == len(replies["parallel"].tool_calls)
        >= 2
    )
    assert replies["odd_tool_name"].tool_calls[0].name == "get news?"
    assert replies["truncated"].content == "The first thing to look at is"

    empty = replies["empty"]
    assert empty == dataclasses.replace(empty, content="", tool_calls=(), reasoning="")

    if "bad_arguments" in replies:
        assert replies["bad_arguments"].tool_calls[0].arguments == '{"orders": ['


@every_wire
def test_a_reply_nested_without_end_or_of_no_text_is_a_bad_response(wire: Wire) -> None:
    deep = b'{"content": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    bad = (
        Prepared(deep),
        Prepared(b"\xff\xfe\x00 no text"),
        Prepared(b"\xff\xfe", headers={"Content-Encoding": "gzip"}),
    )

    for answer in bad:
        with prepared(answer) as server:
            error = failure_of(wire.at(server.address))

        assert isinstance(error, ModelError)
        assert error.kind == "bad_response"

    with prepared(Prepared(b"\xff\xfe\x00", 500)) as server:
        assert getattr(failure_of(wire.at(server.address)), "kind", "") == "server"


@every_wire
def test_making_a_model_needs_no_key_but_connecting_names_missing_ones(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = wire.at("http://127.0.0.1:9", api_key_env="MY_KEY")
    assert (model.secrets(), model.protocols[0], model.provider) == ((), "native", wire.provider)
    # the name of a variable changes no reply
    assert model.settings() == wire.at("http://127.0.0.1:9").settings()

    monkeypatch.setitem(sys.modules, "keyring", None)

    with pytest.raises(ProviderError, match="MY_KEY"):
        model.connect()

    for variable in wire.variables.split(" or "):
        monkeypatch.delenv(variable, raising=False)

    with pytest.raises(ProviderError, match=wire.variables):
        wire.at("http://127.0.0.1:9").connect()

    monkeypatch.setenv("MY_KEY", KEY)
    model.connect()
    model.connect()

    assert model.secrets() == (KEY,)
    assert KEY not in repr(model.caller) + repr(model)

    monkeypatch.setitem(sys.modules, wire.package, None)

    with pytest.raises(
        ProviderError, match=re.escape(install_command(wire.package.partition(".")[0]))
    ):
        wire.at("http://127.0.0.1:9", api_key_env="MY_KEY").connect()


@pytest.mark.slow
@every_wire
def test_threads_share_a_model(wire: Wire) -> None:
    texts = [f"Question {number}" for number in range(40)]
    with running_stub(latency_s=0.02) as stub:
        model = wire.at(stub.base_url_of(wire.stub))
        with ThreadPoolExecutor(16) as pool:
            together = list(pool.map(lambda text: model.reply(ask(text)), texts))

        assert stub.answers == 40
        assert stub.answered_twice == {}
        assert stub.max_at_once > 1
        assert [model.reply(ask(text)).tool_calls for text in texts[:10]] == [
            reply.tool_calls for reply in together[:10]
        ]
