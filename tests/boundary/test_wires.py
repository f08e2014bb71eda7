"""What models of providers send over the wire, and what comes of the replies: golden requests.

A server on this machine answers two steps: one with orders, one first with prose, which the model
is asked to mend. `python tests/boundary/test_wires.py` writes the requests anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from corner_market import CORNERS, make_market, read_scene

import ktdeval
from ktdeval.testing import AnsweringHandler, running_server

FOLDER = Path(__file__).with_name("wires")
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
REASON = "an order of the scene"
ORDER = {"stock_id": "ACME", "side": "BUY", "target_weight": 0.2, "confidence": 0.6}
SUBMISSION = {"orders": [{**ORDER, "reason": REASON}], "overall_reason": REASON}
PROSE = "I would rather wait."
#: what the replies to the requests hold: a submission or prose
TALK = (SUBMISSION, PROSE, SUBMISSION)


def _chat(said: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said}
    if said is not PROSE:
        call = {"name": "submit_action", "arguments": json.dumps(said)}
        calls = [{"id": "call_1", "type": "function", "function": call}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}

    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    about = {"id": "c1", "object": "chat.completion", "created": 1, "model": "served-1"}
    return {**about, "choices": [choice], "usage": usage}


def _responses(said: Any) -> dict[str, Any]:
    text = {"type": "output_text", "text": said, "annotations": []}
    part = {"type": "message", "id": "m1", "role": "assistant", "content": [text]}
    if said is not PROSE:
        part = {"type": "function_call", "id": "f1", "call_id": "call_1"}
        part |= {"name": "submit_action", "arguments": json.dumps(said)}

    about = {"id": "r1", "object": "response", "created_at": 1, "model": "served-1"}
    about |= {"parallel_tool_calls": False, "tool_choice": "auto", "tools": []}
    usage = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
    usage |= {"input_tokens_details": {"cached_tokens": 0}}
    usage |= {"output_tokens_details": {"reasoning_tokens": 0}}
    output = [{**part, "status": "completed"}]
    return {**about, "status": "completed", "output": output, "usage": usage}


def _messages(said: Any) -> dict[str, Any]:
    part = {"type": "text", "text": said}
    stop = "end_turn"
    if said is not PROSE:
        part = {"type": "tool_use", "id": "call_1", "name": "submit_action", "input": said}
        stop = "tool_use"

    about = {"id": "m1", "type": "message", "role": "assistant", "model": "served-1"}
    usage = {"input_tokens": 11, "output_tokens": 7}
    return {**about, "content": [part], "stop_reason": stop, "stop_sequence": None, "usage": usage}


def _generated(said: Any) -> dict[str, Any]:
    part: dict[str, Any] = {"text": said}
    if said is not PROSE:
        part = {"functionCall": {"name": "submit_action", "args": said}}

    content = {"role": "model", "parts": [part]}
    candidates = [{"content": content, "finishReason": "STOP", "index": 0}]
    usage = {"promptTokenCount": 11, "candidatesTokenCount": 7, "totalTokenCount": 18}
    return {"candidates": candidates, "usageMetadata": usage, "modelVersion": "served-1"}


#: by name of a golden file: the model, what follows the server's address, and its replies
WIRES = {
    "chat": ("openai_compatible/served", "/v1", _chat),
    "responses": ("openai/gpt-4.1", "/v1", _responses),
    "messages": ("anthropic/claude-sonnet-4-5", "", _messages),
    "generated": ("google/gemini-2.5-pro", "", _generated),
}


@contextmanager
def answering(write: Any) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that talks, its address, and the requests that it got."""
    asked: list[dict[str, Any]] = []

    class Handler(AnsweringHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said: Any = PROSE
            if "submit_action" in json.dumps(body):  # no question about the model itself
                said = TALK[len(asked)]
                asked.append({"path": self.path, "body": body})

            reply = json.dumps(write(said)).encode()
            self.answer(reply, headers={"Content-Type": "application/json"})

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with running_server(server):
        yield f"http://127.0.0.1:{server.server_address[1]}", asked


def played(name: str, place: Path) -> tuple[list[dict[str, Any]], Any]:
    """Let a model of a provider trade for two steps; return the requests, and the evaluation."""
    model, path, write = WIRES[name]
    scene = read_scene("mixed")
    with answering(write) as (address, asked):
        run = ktdeval.evaluate(
            model,
            str(CORNERS / "tasks/shorts.yaml"),
            data=str(make_market(scene, place / "market")),
            windows="2024-03-08:2024-03-15",
            limit=2,
            mask_key=scene["mask_key"],
            base_url=f"{address}{path}",
            price={"input": 1.0, "output": 2.0},
            tool_protocol="native",
            max_retries=0,
            cache=str(place / "replies.sqlite"),
            out=str(place / "run"),
            quiet=True,
        )

    return asked, run


def text_of(asked: list[dict[str, Any]]) -> str:
    return json.dumps(asked, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def keys() -> Mapping[str, str]:
    return dict.fromkeys(KEYS, "a-key-of-the-test")


@pytest.mark.slow
@pytest.mark.parametrize("name", WIRES)
def test_requests_are_those_recorded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, key in keys().items():
        monkeypatch.setenv(variable, key)

    asked, run = played(name, tmp_path)
    assert asked == json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))

    ledger = run.ledger()
    assert list(ledger["provenance"]) == ["model", "model_after_retry"]
    assert list(ledger["input_tokens"]) == [11, 22]
    assert list(ledger["output_tokens"]) == [7, 14]
    assert list(run.orders()["code"]) == ["ACME", "ACME"]


if __name__ == "__main__":
    os.environ.update(keys())
    for each in WIRES:
        with TemporaryDirectory() as scratch:
            content = text_of(played(each, Path(scratch))[0])
            (FOLDER / f"{each}.json").write_text(content, encoding="utf-8")
