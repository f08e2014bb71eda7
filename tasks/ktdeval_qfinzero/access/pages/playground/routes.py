"""Routes of the playground."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, Final, TypeVar

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from ktdeval.errors import KtdevalError
from ktdeval.registry import Plugins, load_plugins
from ktdeval.runner import RunConfig
from ktdeval.values import Value
from ktdeval_qfinzero.access.pages.http_answers import body_of, json_answer, page, text_in
from ktdeval_qfinzero.access.pages.page_settings import PageSettings
from ktdeval_qfinzero.access.pages.playground.chat_samples import (
    SUITES,
    add_sample,
    check_name,
    gold_calls,
    gold_task,
)
from ktdeval_qfinzero.access.pages.playground.chat_store import (
    ChatHead,
    ChatStore,
    RecordedTurn,
    answer_of_record,
    new_id,
    now_text,
)
from ktdeval_qfinzero.access.pages.playground.chat_view import listed_chats, shown_chat
from ktdeval_qfinzero.access.pages.playground.event_stream import run_events
from ktdeval_qfinzero.access.pages.playground.models import check_choice, offered_models
from ktdeval_qfinzero.access.pages.playground.runs import ChatRuns
from ktdeval_qfinzero.access.workspaces import Workspaces, first_moment
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.errors import ServiceError, conflict, invalid
from ktdeval_qfinzero.live.tool_use_config import MAX_INSTRUCTION_CHARS
from ktdeval_qfinzero.scoring.tasks_file import task_to_row
from ktdeval_qfinzero.scoring.types import GoldTask, Suite
from ktdeval_qfinzero.suite.grading import RecordedCall
from ktdeval_qfinzero.timestamps import moment_text, parse_moment

_SAMPLES: Final = "samples"
T = TypeVar("T")


class Choices(Value, frozen=True):
    """What a new chat may be about."""

    models: tuple[Any, ...]
    as_of: str  #: where a clock starts that nobody sets
    first: str
    last: str
    dataset: str


class SampleShown(Value, frozen=True):
    """An item made of a turn, before it is kept."""

    row: dict[str, Any]
    left_out: int  #: calls that the services refused, which are not expected


class SampleKept(Value, frozen=True):
    """An item that was kept, and how to ask it."""

    file: str
    command: str


class Playground:
    """Chats of a server. `workspaces`: those of the server, for their dataset and its limits."""

    def __init__(self, workspaces: Workspaces, settings: PageSettings) -> None:
        self._workspaces = workspaces
        self._settings = settings
        self.store = ChatStore(settings.chats, settings.most_chats)
        self.runs = ChatRuns(settings.max_running)

    @cached_property
    def plugins(self) -> Plugins:
        """Plugins by which a chosen model is checked; each run loads its own."""
        return load_plugins()

    def choices(self) -> Choices:
        """Return models and days that can be chosen."""
        info = self._workspaces.dataset.info
        limits = self._workspaces.limits
        start_ns = first_moment(self._workspaces.dataset, limits, None)
        last = str(info.last_day)
        if limits.as_of_ns is not None:
            last = moment_text(limits.as_of_ns)

        return Choices(
            models=tuple(offered_models(self.plugins, self._settings.models)),
            as_of=moment_text(start_ns),
            first=str(info.first_day),
            last=last,
            dataset=info.name,
        )

    def create(self, model: str, as_of: str) -> str:
        """Begin a chat without a turn and return its id. Raises ServiceError."""
        settings = self._settings
        chosen = check_choice(self.plugins, settings.models, model)
        dataset = self._workspaces.dataset
        as_of_ns = first_moment(dataset, self._workspaces.limits, as_of or None)
        data = None if settings.data is None else str(settings.data.resolve())
        head = ChatHead(
            id=new_id(),
            model=chosen,
            as_of=moment_text(as_of_ns),
            content_id=dataset.info.content_id,
            data=data,
            seed=settings.seed,
            created_at=now_text(),
            max_tokens=settings.max_tokens,
            max_cost=settings.max_cost,
        )
        self.store.create(head)
        return head.id

    def ask(self, chat_id: str, instruction: str) -> int:
        """Write a turn and begin to answer it; return its number. Raises ServiceError."""
        if not instruction.strip():
            raise invalid("instruction", "expected some words")

        numbers: list[int] = []

        def prepare() -> RunConfig:
            numbers.append(self.store.add_turn(chat_id, instruction))
            return self.store.keep_options(chat_id)

        self.store.path_of(chat_id)
        self.runs.begin(chat_id, prepare)
        return numbers[0]

    def resume(self, chat_id: str) -> None:
        """Go on with a turn that is not finished. Raises ServiceError: there is none."""
        turns = self.store.turns(chat_id)
        if not turns or turns[-1].is_complete:
            raise conflict("every turn of this chat is finished")
        self.runs.begin(chat_id, partial(self.store.keep_options, chat_id))

    def stop(self, chat_id: str) -> None:
        """Ask a running chat to end between two calls. Raises ServiceError: it does not run."""
        running = self.runs.running(chat_id)
        if running is None or running.is_over:
            raise conflict("no model is answering in this chat")
        running.stop.interrupt()

    def delete(self, chat_id: str) -> None:
        """Remove a chat. Raises ServiceError: it runs, or there is none."""
        if self.runs.is_running(chat_id):
            raise conflict("the model is answering in this chat; stop it first")
        self.store.delete(chat_id)

    def sample(self, chat_id: str, number: int, suite: str) -> SampleShown:
        """Make an item of a turn. Raises ServiceError: there is no such finished turn."""
        turn = self._find_finished(chat_id, number)
        workspace, calls = self._calls_of(chat_id, number)
        expected = gold_calls(workspace, calls)
        clock = self.store.head(chat_id).as_of
        instruction = f"{turn.instruction.strip()} (The clock stands at {clock}.)"
        item_id = f"chat-{chat_id[:6]}-{number}"
        task = gold_task(item_id, _suite(suite), instruction, expected, "chat")
        return SampleShown(row=task_to_row(task), left_out=len(calls) - len(expected))

    def keep_sample(
        self, chat_id: str, number: int, task_words: Callable[[GoldTask], GoldTask], suite: str
    ) -> SampleKept:
        """Keep an item of a turn, changed by `task_words`. Raises ServiceError."""
        workspace, calls = self._calls_of(chat_id, number)
        task = task_words(gold_task("x", _suite(suite), "x", gold_calls(workspace, calls), "chat"))
        path = add_sample(self._settings.chats / _SAMPLES, task)
        command = f"ktdeval run --model MODEL --tasks {path.resolve()}"
        return SampleKept(file=str(path), command=command)

    def _find_finished(self, chat_id: str, number: int) -> RecordedTurn:
        turns = self.store.turns(chat_id)
        if not 1 <= number <= len(turns) or not turns[number - 1].is_complete:
            raise invalid("turn", "there is no finished turn of this number")
        return turns[number - 1]

    def _calls_of(self, chat_id: str, number: int) -> tuple[Workspace, list[RecordedCall]]:
        """Return a turn's calls, and a workspace as it was before them."""
        turn = self._find_finished(chat_id, number)
        head = self.store.head(chat_id)
        dataset = self._workspaces.dataset
        if dataset.info.content_id != head.content_id:
            raise conflict("this chat is about another dataset than the one that is served")

        workspace = Workspace(dataset, parse_moment(head.as_of, "as_of"))
        for earlier in self.store.turns(chat_id)[: number - 1]:
            gold_calls(workspace, _recorded_calls(earlier))

        return workspace, _recorded_calls(turn)


def _recorded_calls(turn: RecordedTurn) -> list[RecordedCall]:
    record = turn.record
    if record is None or record.answer is None:
        return []
    return list(answer_of_record(record).calls)


def _suite(text: str) -> Suite:
    if text not in SUITES:
        raise invalid("suite", f"expected {' or '.join(SUITES)}")
    return text


async def _carried_out(function: Callable[..., T], *arguments: object) -> T:
    """Call on a thread; an error of files or records is answered as a conflict."""
    try:
        return await to_thread.run_sync(partial(function, *arguments))
    except ServiceError:
        raise
    except KtdevalError as error:
        raise conflict(" ".join(str(error).split())[:1000]) from error


class _ChatEndpoints:
    """Handlers of requests."""

    def __init__(self, playground: Playground) -> None:
        self._playground = playground

    async def page(self, _: Request) -> Response:
        """Give the page."""
        return page("playground")

    async def choices(self, _: Request) -> Response:
        """Give what a chat may be about."""
        return json_answer(await _carried_out(self._playground.choices))

    async def chats(self, _: Request) -> Response:
        """List all chats."""
        return json_answer(await _carried_out(listed_chats, self._playground.store))

    async def create(self, request: Request) -> Response:
        """Begin a chat."""
        given = await body_of(request, "model", "as_of")
        model, as_of = text_in(given, "model", 500), text_in(given, "as_of", 40)
        chat_id = await _carried_out(self._playground.create, model, as_of)
        return json_answer({"id": chat_id}, HTTPStatus.CREATED)

    async def chat(self, request: Request) -> Response:
        """Give a chat with its turns."""
        store, runs = self._playground.store, self._playground.runs
        return json_answer(await _carried_out(shown_chat, store, runs, _id(request)))

    async def delete(self, request: Request) -> Response:
        """Remove a chat."""
        await _carried_out(self._playground.delete, _id(request))
        return json_answer({"deleted": True})

    async def ask(self, request: Request) -> Response:
        """Begin a turn."""
        given = await body_of(request, "instruction")
        instruction = text_in(given, "instruction", MAX_INSTRUCTION_CHARS)
        number = await _carried_out(self._playground.ask, _id(request), instruction)
        return json_answer({"turn": number}, HTTPStatus.ACCEPTED)

    async def resume(self, request: Request) -> Response:
        """Go on with a turn."""
        await body_of(request)
        await _carried_out(self._playground.resume, _id(request))
        return json_answer({"resumed": True}, HTTPStatus.ACCEPTED)

    async def stop(self, request: Request) -> Response:
        """End a run between two calls."""
        await body_of(request)
        self._playground.stop(_id(request))
        return json_answer({"stopping": True}, HTTPStatus.ACCEPTED)

    async def events(self, request: Request) -> Response:
        """Stream what a running turn shows."""
        chat_id = _id(request)
        self._playground.store.path_of(chat_id)
        stream = run_events(self._playground.runs, chat_id, _last_seen(request))
        return StreamingResponse(
            stream, headers={"cache-control": "no-store"}, media_type="text/event-stream"
        )

    async def sample(self, request: Request) -> Response:
        """Make an item of a turn."""
        suite = request.query_params.get("suite", "planning")
        number = _turn(request.query_params.get("turn", ""))
        return json_answer(await _carried_out(self._playground.sample, _id(request), number, suite))

    async def keep_sample(self, request: Request) -> Response:
        """Keep an item of a turn."""
        given = await body_of(request, "turn", "suite", "id", "category", "instruction")
        changed = _make_renamer(given)
        number = _turn(str(given.get("turn", "")))
        suite = text_in(given, "suite", 20, "planning")
        keep = self._playground.keep_sample
        kept = await _carried_out(keep, _id(request), number, changed, suite)
        return json_answer(kept, HTTPStatus.CREATED)


def playground_routes(playground: Playground) -> list[Route]:
    """Return the routes of the page and of what it asks for."""
    own = _ChatEndpoints(playground)
    chats = "/playground/chats"
    chat = f"{chats}/{{chat}}"
    return [
        Route("/playground", own.page, methods=["GET"]),
        Route("/playground/choices", own.choices, methods=["GET"]),
        Route(chats, own.chats, methods=["GET"]),
        Route(chats, own.create, methods=["POST"]),
        Route(chat, own.chat, methods=["GET"]),
        Route(chat, own.delete, methods=["DELETE"]),
        Route(f"{chat}/turns", own.ask, methods=["POST"]),
        Route(f"{chat}/resume", own.resume, methods=["POST"]),
        Route(f"{chat}/stop", own.stop, methods=["POST"]),
        Route(f"{chat}/events", own.events, methods=["GET"]),
        Route(f"{chat}/sample", own.sample, methods=["GET"]),
        Route(f"{chat}/samples", own.keep_sample, methods=["POST"]),
    ]


def _id(request: Request) -> str:
    return str(request.path_params["chat"])


def _turn(text: str) -> int:
    if not text.isdecimal() or len(text) > 4:
        raise invalid("turn", "expected the number of a turn")
    return int(text)


def _last_seen(request: Request) -> int:
    """Return how many events a client that comes back has seen."""
    text = request.headers.get("last-event-id", "")
    if text.isdecimal() and len(text) < 9:
        return int(text) + 1
    return 0


def _make_renamer(given: dict[str, Any]) -> Callable[[GoldTask], GoldTask]:
    """Return what gives an item the words that a user chose. Raises ServiceError."""
    item_id = check_name(text_in(given, "id", 64), "id")
    category = check_name(text_in(given, "category", 64, "chat"), "category")
    instruction = text_in(given, "instruction", MAX_INSTRUCTION_CHARS).strip()
    if not instruction:
        raise invalid("instruction", "expected some words")

    def renamed(task: GoldTask) -> GoldTask:
        calls = task.calls
        return GoldTask(
            item_id, task.suite, category, task.difficulty, instruction, calls, task.notes
        )

    return renamed
