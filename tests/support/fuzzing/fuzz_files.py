"""Parsers of files that a user names, and of what a vendor of data sends."""

from __future__ import annotations

import functools
import gzip
import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.fuzzing.fuzz_kit import Parser, of_file, scratch, text_of
from support.paths import REPOSITORY


def files_of_users() -> dict[str, Parser]:
    """Return the parsers by name. Imports are inside: a run needs one of them."""
    return {
        **_task_files(),
        **_model_files(),
        **_tables(),
        **_vendors(),
        **_agent_logs(),
    }


def _agent_logs() -> dict[str, Parser]:
    from ktdeval_audit.decision_days import date_log
    from ktdeval_audit.readers import read_log

    folder = REPOSITORY / "plugins/ktdeval_audit/tests/files"
    names = ("openinference_spans.jsonl", "openinference_otlp.json", "langsmith_runs.jsonl")
    names += ("genai_spans.jsonl", "inspect.json", "inspect.eval")
    chat = b'{"messages": [{"role": "user", "content": "Today is 2024-03-05."}]}\n'
    seeds = (chat, *((folder / name).read_bytes() for name in names))
    modules = (
        "ktdeval_audit/log_files.py",
        "ktdeval_audit/readers/records.py",
        "ktdeval_audit/readers/decisions.py",
        "ktdeval_audit/readers/fields.py",
    )
    return {
        "agent log": Parser(of_file(lambda path: date_log(read_log(path)), "log"), seeds, modules)
    }


def _task_files() -> dict[str, Parser]:
    from ktdeval.registry.task_files import resolve_variants, task_specs, venue_specs

    def tasks(path: Path) -> object:
        specs = task_specs(path, lambda name, config, where: config)
        return resolve_variants({spec.name: spec for spec in specs})

    def venues(path: Path) -> object:
        return [spec.make() for spec in venue_specs(path)]

    task = b"""family: f
version: "1"
windows: {W1: {first: 2024-01-02, last: 2024-02-01}}
defaults: {trading: {fee: 1}}
variants:
  one: {summary: x, trading: {fee: 2}}
  two: {extends: one, groups: [a]}
"""
    venue = (
        b"here: {like: us_equity, days_a_year: 252}\nthere: {like: frictionless, close: '16:00'}\n"
    )

    return {
        "task file": Parser(
            of_file(tasks, "tasks.yaml"), (task,), ("ktdeval/registry/task_files.py",)
        ),
        "venue file": Parser(of_file(venues, "venues.yaml"), (venue,), ()),
        "data spec": Parser(
            of_file(_data_spec, "spec.yaml"),
            (b"seed: 3\n", b"first: 2024-01-02\nlast: '2024-03-01'\n"),
            ("ktdeval_data/make_command.py",),
        ),
        "recipe": Parser(
            of_file(_recipe, "recipe.yaml"),
            (
                b"recipe: 1\nmarket: us\nquery: {first: 2024-01-02, codes: [AAPL]}\nsnapshot: abc\n"
                b"day_fields: [open]\ndays: {2024-01-02: ab}\ncode_fields: [name]\ncodes: {A: b}\n",
            ),
            ("ktdeval_data/recipes.py",),
        ),
        "grid options": Parser(
            of_file(_grid_options, "grid.yaml"),
            (
                b"models: [builtin/momentum]\ntasks: [blinded_open_research]\ndata_args: {a: 1}\n",
                b"models: [{name: a/b, args: {x: 1}}]\ntasks: [t]\nseeds: 2\n",
            ),
            ("ktdeval_grid/planning/plan_overrides.py",),
        ),
    }


def _data_spec(path: Path) -> object:
    """Read the parameters of `ktdeval data make synthetic`."""
    from ktdeval.values import build_params
    from ktdeval_data.make_command import given_params

    spec = _plugins().spec("data", "synthetic")
    args = given_params({}, None, path)

    return build_params(spec.params, args, "data")


def _recipe(path: Path) -> object:
    from ktdeval_data.recipes import load_recipe

    return load_recipe(path, _plugins())


def _grid_options(path: Path) -> object:
    from ktdeval_grid.planning.plan_overrides import resolved_plan

    return resolved_plan(str(path), {"max_cost": 3.0, "data_args": {"x": 1}, "tasks": ("a,b",)})


@functools.cache
def _plugins() -> Any:
    from ktdeval.registry import load_plugins

    return load_plugins()


def _model_files() -> dict[str, Parser]:
    from ktdeval_models.script import load_script

    script = b"""steps: [{step: 0, replies: [{call: get_bars, arguments: {a: 1}}, {submit: {b: 2}}]}]
patterns: [{pattern: "a+b", replies: hello}]
answers: [x, [{text: y}, {fail: server}]]
otherwise: {raw: '{"a":'}
"""
    answer = b'{"place":"north","level":41}'

    return {
        "model script": Parser(
            of_file(lambda path: load_script(path, "script"), "script.yaml"),
            (script,),
            ("ktdeval_models/script.py",),
        ),
        "rehearsed reply": Parser(_rehearsed, (answer,), ("ktdeval/calls/tool_protocol_probe.py",)),
        "reply of a function": Parser(
            _of_function, (b'{"orders":[]}', b"text"), ("ktdeval/cli/python_api.py",)
        ),
        "shown submission": Parser(
            _submitted,
            (b'{"orders":[{"stock_id":"asset_0001"}]}', b'{"orders":null}'),
            ("ktdeval_view/episode_records.py",),
        ),
        "own mark of an episode": Parser(
            _marked,
            (
                b'{"sha256":{"ledger.parquet":"0"},"x":1}',
                b'{"sha256":{"../secret":"0"}}',
                b'{"sha256":{},"\\ud800":1}',
            ),
            ("ktdeval_board/redacted_records.py",),
        ),
    }


def _rehearsed(data: bytes) -> object:
    """Choose a protocol by replies whose call has these arguments."""
    from ktdeval.calls.tool_protocol_probe import choose_protocol
    from ktdeval.harness.chat_messages import CallParams, ModelRequest, Reply, ToolCall

    class Both:
        provider, name, protocols = "a", "b", ("native", "text")

    def ask(request: ModelRequest) -> Reply:
        call = ToolCall("1", "look_up_level", text_of(data))
        return Reply(text_of(data), (call,), "tool_calls")

    model: Any = Both()

    return choose_protocol(model, "auto", ask, CallParams())


def _of_function(data: bytes) -> object:
    from ktdeval.cli.python_api import _FunctionModel
    from ktdeval.harness.chat_messages import Message, ModelRequest, ToolSpec

    tool = ToolSpec("submit", "", {"type": "object"})
    request = ModelRequest((Message("user", "x"),), (tool,), "submit", submit_tool="submit")

    return _FunctionModel(lambda asked: text_of(data)).reply(request)


def _submitted(data: bytes) -> object:
    from ktdeval.harness.steps.step_session import TranscriptEntry
    from ktdeval_view.episode_records import submitted_handles

    talk = TranscriptEntry(step=0, exchanges=(), submission=text_of(data))

    return submitted_handles(talk, 1)


def _marked(data: bytes) -> object:
    """Renew an episode's mark, as the submission of a run does after a secret was replaced."""
    from ktdeval.errors import wrap_os_error
    from ktdeval.runner import LEDGER, MARK
    from ktdeval_board.redacted_records import _update_mark

    folder = scratch() / "episode"
    folder.mkdir(exist_ok=True)
    (folder / LEDGER).write_bytes(b"x")
    (folder / MARK).write_bytes(data)

    with wrap_os_error("records can't be copied"):
        return _update_mark(folder)


def _tables() -> dict[str, Parser]:
    from ktdeval_compare.variances.variance_runs import read_table

    def head(path: Path) -> object:
        from ktdeval_tables.readers.text_encoding import at_line, encodings, first_lines

        for encoding in encodings(path):
            try:
                first_lines(path, encoding)
            except UnicodeDecodeError:
                continue

        return at_line(path, "600519")

    table = b"# a source\nagent,model,seed,return\na,b,0,1.5\na,c,0,\n"
    bars = b"date,code\n2024-01-02,600519\n"
    unreadable = (ValueError, EOFError, OSError, zlib.error)

    return {
        "table of runs": Parser(
            of_file(lambda path: read_table(str(path), None), "runs.csv"),
            (table,),
            ("ktdeval_compare/variances/variance_runs.py",),
        ),
        # Its callers catch what damaged packed files raise, as `market csv` shows.
        "lines of a table": Parser(
            of_file(head, "bars.csv"),
            (
                bars,
                bars.decode().encode("utf-16"),
                "日期;代码\n2024/1/2;600519\n".encode("gb18030"),
            ),
            ("ktdeval_tables/readers/text_encoding.py", "ktdeval_tables/readers/file_kinds.py"),
            unreadable,
        ),
        "lines of a packed table": Parser(
            of_file(head, "bars.csv.gz"), (gzip.compress(bars),), (), unreadable
        ),
    }


def _vendors() -> dict[str, Parser]:
    klines = json.dumps([[1704153600000, "1", "2", "0.5", "1.5", "10", 2, "3", 4, "5", "6", "0"]])
    tushare = b'{"code":0,"msg":"","data":{"fields":["a"],"items":[["x"]],"has_more":false}}'
    alpaca = b'{"bars":{"AAPL":[{"t":"2024-01-02","o":1}]},"next_page_token":null}'
    kept = b'{"vendor":"v","api":"a","params":{},"columns":["x"],"rows":[[1]]}'

    return {
        "vendor answer": Parser(
            _replied("Tushare", TUSHARE_TOKEN="x" * 20),
            (tushare,),
            ("ktdeval_data/fetch/http_vendors.py",),
        ),
        "binance answer": Parser(
            _replied("Binance"), (klines.encode(), b'{"symbols":[{"symbol":"A"}]}'), ()
        ),
        "alpaca answer": Parser(
            _replied("Alpaca", APCA_API_KEY_ID="x" * 20, APCA_API_SECRET_KEY="y" * 20),
            (alpaca, alpaca.replace(b"bars", b"corporate_actions")),
            (),
        ),
        "kept vendor answer": Parser(_kept, (kept,), ("ktdeval_data/fetch/vendor_requests.py",)),
    }


def _replied(name: str, **keys: str) -> Callable[[bytes], object]:
    """Return a parser of what a vendor's server answers."""

    def parse(data: bytes) -> object:
        from ktdeval_data.fetch import http_vendors
        from ktdeval_data.fetch.vendor_requests import VendorRequest

        os.environ.update(keys)
        made: Any = type(
            f"Fuzzed{name}", (getattr(http_vendors, name),), {"_content": lambda *_: data}
        )

        return made("vendor", "https://vendor.example").call(VendorRequest("bars", {}))

    return parse


def _kept(data: bytes) -> object:
    """Read an answer that was kept."""
    from ktdeval_data.fetch.vendor_requests import AnswerFolder, VendorRequest

    folder = scratch() / "answers"
    answers = AnswerFolder("v", folder, lambda: _unasked(), 60)
    request = VendorRequest("a", {})

    if not list(folder.glob("v-*.json")):
        answers = AnswerFolder("v", folder, lambda: _Once(), 60_000, lambda line: None)
        answers.ask(request)

    for path in folder.glob("v-*.json"):
        path.write_bytes(data)

    return answers.ask(request)


class _Once:
    """Answers once, so that its answer is kept."""

    secrets = ()

    def call(self, request: object) -> Any:
        from ktdeval_data.fetch.vendor_requests import VendorAnswer

        return VendorAnswer(("x",), [[1]])


def _unasked() -> Any:
    raise AssertionError("the answer was kept")
