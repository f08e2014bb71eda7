"""A chat-completions server that answers after a fixed time: what the callers of `bench_calls.py`
are measured against.

    python benchmarks/stub_chat.py PORT LATENCY_MS

Where `submit_action` is forced it submits an empty action; anything else is answered with `42`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from aiohttp import web

_EMPTY_ACTION = json.dumps({"orders": [], "overall_reason": "nothing to do on this day"})


def make_app(latency_s: float) -> web.Application:
    """The server."""
    answered = 0

    async def chat(request: web.Request) -> web.Response:
        nonlocal answered
        began = time.perf_counter()
        body = await request.json()
        message: dict[str, object] = {"role": "assistant", "content": "42"}
        if body.get("tools"):
            function = {"name": "submit_action", "arguments": _EMPTY_ACTION}
            message = {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
            }
        await asyncio.sleep(max(0.0, latency_s - (time.perf_counter() - began)))
        answered += 1
        return web.json_response(
            {
                "id": "stub",
                "object": "chat.completion",
                "created": 1,
                "model": body.get("model", "m"),
                "choices": [
                    {
                        "index": 0,
                        "message": message,
                        "finish_reason": "tool_calls" if body.get("tools") else "stop",
                    }
                ],
                "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12},
            }
        )

    async def count(_: web.Request) -> web.Response:
        return web.json_response({"answered": answered})

    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/answered", count)
    return app


if __name__ == "__main__":
    web.run_app(
        make_app(float(sys.argv[2]) / 1000),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        print=None,
        access_log=None,
    )
