"""A catalogue of toy operations, for what the real ones never do: crash, wait, answer with NaN, and
echo what they were given.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.errors import conflict
from ktdeval_qfinzero.operations import Catalogue, Operation, query
from ktdeval_qfinzero.schemas import Arguments, Nothing, make_description
from ktdeval_qfinzero.timestamps import MINUTE

HOLD = threading.Event()
HOLDING = threading.Semaphore(0)

Name = Annotated[str, Meta(description="a name", max_length=20)]


class Echo(msgspec.Struct):
    given: dict[str, Any] | UnsetType = UNSET


class EchoGet(Arguments):
    name: Name
    count: Annotated[int, Meta(description="a whole number", ge=0, le=9)] = 3
    share: Annotated[float, make_description("a number")] | None = None
    is_big: Annotated[bool, make_description("yes or no")] = False
    word: Annotated[Literal["none", "all"], make_description("a word")] | None = None


class EchoPost(Arguments):
    name: Name
    count: Annotated[int, make_description("a whole number")]
    thing: Annotated[Any, make_description("anything")] = None


class Advance(Arguments):
    minutes: Annotated[int, Meta(description="how many", ge=0)] = 1


def echo_get(workspace: Workspace, given: EchoGet) -> Echo:
    return Echo(
        {name: value for name, value in msgspec.structs.asdict(given).items() if value is not None},
    )


def echo_post(workspace: Workspace, given: EchoPost) -> Echo:
    return Echo(msgspec.structs.asdict(given))


def advance(workspace: Workspace, given: Advance) -> Echo:
    workspace.clock.advance(workspace.clock.as_of_ns + given.minutes * MINUTE)
    return Echo()


def wait(workspace: Workspace, given: Nothing) -> Echo:
    HOLDING.release()
    HOLD.wait()
    return Echo()


def crash(workspace: Workspace, given: Nothing) -> Echo:
    raise ZeroDivisionError("a secret of the process")


def refuse(workspace: Workspace, given: Nothing) -> Echo:
    raise conflict("not now", "thing")


def nan(workspace: Workspace, given: Nothing) -> Echo:
    return Echo({"nan": float("nan")})


def toy(
    name: str, method: Literal["GET", "POST"], path: str, function: Any, changes: bool = False
) -> Operation:
    return replace(query(name, path, function, method), summary="Play.", changes=changes)


TOYS = Catalogue(
    [
        toy("TOY.echo.get", "GET", "/toy/{name}", echo_get),
        toy("TOY.echo.post", "POST", "/toy/{name}/echo", echo_post),
        toy("TOY.clock.advance", "POST", "/toy/advance", advance, changes=True),
        toy("TOY.wait", "POST", "/toy/wait", wait),
        toy("TOY.crash", "POST", "/toy/crash", crash),
        toy("TOY.refuse", "GET", "/toy-refuse", refuse),
        toy("TOY.nan", "GET", "/toy-nan", nan),
    ]
)
