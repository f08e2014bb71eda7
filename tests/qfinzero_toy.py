"""A catalogue of toy operations, for what the real ones never do: crash, wait, answer with NaN, and echo what they were given."""

from __future__ import annotations

import threading
from typing import Any

from ktdeval_qfinzero.errors import conflict
from ktdeval_qfinzero.moments import MINUTE, moment_text
from ktdeval_qfinzero.operations import Catalogue, Operation
from ktdeval_qfinzero.workspace import Workspace

RESULT = {"type": "object", "properties": {"as_of_ts": {"type": "string"}}, "required": ["as_of_ts"]}
HOLD = threading.Event()
HOLDING = threading.Semaphore(0)


def now(workspace: Workspace) -> str:
    return moment_text(workspace.clock.as_of_ns)


def echo(workspace: Workspace, arguments: Any) -> Any:
    return {"as_of_ts": now(workspace), "given": dict(arguments)}


def advance(workspace: Workspace, arguments: Any) -> Any:
    workspace.clock.advance(workspace.clock.as_of_ns + arguments["minutes"] * MINUTE)
    return {"as_of_ts": now(workspace)}


def wait(workspace: Workspace, arguments: Any) -> Any:
    HOLDING.release()
    assert HOLD.wait(20)
    return {"as_of_ts": now(workspace)}


def crash(workspace: Workspace, arguments: Any) -> Any:
    raise ZeroDivisionError("a secret of the process")


def refuse(workspace: Workspace, arguments: Any) -> Any:
    raise conflict("not now", "thing")


def words(description: str, **more: Any) -> dict[str, Any]:
    return {"description": description, **more}


TOYS = Catalogue(
    [
        Operation(
            "TOY.echo.get", "GET", "/toy/{name}", "Echo.",
            {
                "name": words("a name", type="string", maxLength=20),
                "count": words("a whole number", type="integer", minimum=0, maximum=9, default=3),
                "share": words("a number", type="number"),
                "is_big": words("yes or no", type="boolean", default=False),
                "word": words("a word", enum=["none", "all"]),
            },
            ("name",), RESULT, echo,
        ),
        Operation(
            "TOY.echo.post", "POST", "/toy/{name}/echo", "Echo.",
            {
                "name": words("a name", type="string", maxLength=20),
                "count": words("a whole number", type="integer"),
                "thing": words("anything"),
            },
            ("name", "count"), RESULT, echo,
        ),
        Operation(
            "TOY.clock.advance", "POST", "/toy/advance", "Go forward.",
            {"minutes": words("how many", type="integer", minimum=0, default=1)}, (), RESULT, advance, changes=True,
        ),
        Operation("TOY.wait", "POST", "/toy/wait", "Wait.", {}, (), RESULT, wait),
        Operation("TOY.crash", "POST", "/toy/crash", "Crash.", {}, (), RESULT, crash),
        Operation("TOY.refuse", "GET", "/toy-refuse", "Refuse.", {}, (), RESULT, refuse),
        Operation("TOY.nan", "GET", "/toy-nan", "Not a number.", {}, (), RESULT, lambda *_: {"as_of_ts": float("nan")}),
    ]
)  # fmt: skip
