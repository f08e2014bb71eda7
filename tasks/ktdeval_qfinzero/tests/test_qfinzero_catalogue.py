"""The catalogue: names, schemas, and identical answers to the same calls over every transport."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ktdeval.harness import Refusal
from ktdeval.masking import Exact
from ktdeval.testing import not_empty, on_each_row
from ktdeval.values import content_hash, dumps_canonical, install_command
from ktdeval_qfinzero.access.http import openapi_document
from ktdeval_qfinzero.access.workspaces import HEADER
from ktdeval_qfinzero.catalogue import catalogue, service_tools
from ktdeval_qfinzero.client_workspace import Workspace
from ktdeval_qfinzero.errors import ServiceError
from ktdeval_qfinzero.operations import Operation, plain_json
from ktdeval_qfinzero.scoring.types import SERVICE_TOOLS
from ktdeval_qfinzero.suite.prompt_texts import tool_hashes
from support.qfinzero.qfinzero_scenario import Played, day, in_process, played, trading
from support.qfinzero.qfinzero_server import Served
from support.qfinzero.qfinzero_world import small_dataset

OPERATIONS = catalogue().operations


def name_of(operation: Operation) -> str:
    return operation.name


# ---- what is declared


def test_every_tool_of_the_public_benchmark_is_there_at_its_address() -> None:
    ours = {operation.name: (operation.path, operation.method) for operation in OPERATIONS}
    further = {
        "ESP.calendar.coverage": ("/esp/calendar/coverage", "GET"),
        "ESP.news.search": ("/esp/news/search", "POST"),
        "ESP.health.freshness": ("/esp/health/freshness", "GET"),
    }
    wanted = dict(SERVICE_TOOLS) | further

    assert {name: ours.get(name) for name in wanted} == wanted


def test_names_are_unique_and_fit_every_provider() -> None:
    assert len({operation.wire_name for operation in OPERATIONS}) == len(OPERATIONS)
    assert all(
        tool.name.replace("_", "").isalnum() and len(tool.name) <= 64 for tool in service_tools()
    )
    assert {operation.family for operation in OPERATIONS} == {"UPQ", "ESP", "PMB"}


@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_schemas_are_valid_and_everything_is_described_and_bounded(operation: Operation) -> None:
    Draft202012Validator.check_schema(operation.parameters)
    Draft202012Validator.check_schema(dict(operation.result))

    assert operation.result["type"] == "object"
    assert "as_of_ts" in operation.result["required"]
    assert operation.family == "PMB" or not operation.changes
    assert operation.family != "UPQ" or operation.method == "GET"
    assert operation.summary
    assert "\n" not in operation.summary
    assert set(operation.required) <= set(operation.properties)
    assert set(operation.path_parameters) <= set(operation.required)

    for name, schema in operation.properties.items():
        assert schema.get("description"), name
        if "default" in schema:
            Draft202012Validator(dict(schema)).validate(schema["default"])

        for where, part in parts_of(name, dict(schema)):
            check_bounded(where, part)
            assert operation.method == "POST" or part.get("type") not in (
                "array",
                "object",
            ), f"{where}: no list fits a query"


def parts_of(where: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and those inside it."""
    yield where, schema
    for name, inner in schema.get("properties", {}).items():
        yield from parts_of(f"{where}.{name}", inner)

    if isinstance(schema.get("items"), dict):
        yield from parts_of(f"{where}[]", schema["items"])

    for word in ("anyOf", "oneOf", "allOf"):
        for inner in schema.get(word, ()):
            yield from parts_of(where, inner)


def check_bounded(where: str, schema: dict[str, Any]) -> None:
    """Nobody can send a text, list or number without end."""
    kinds = schema.get("type", ())
    kinds = kinds if isinstance(kinds, list | tuple) else [kinds]
    closed = (
        "enum" in schema
        or "const" in schema
        or re.search(r"^\^[^*+]*\$$", schema.get("pattern", ""))
    )

    assert "string" not in kinds or closed or "maxLength" in schema, (
        f"{where}: a text without maxLength"
    )
    assert "array" not in kinds or ("maxItems" in schema and "items" in schema), (
        f"{where}: a list without maxItems"
    )
    assert (
        not {"integer", "number"} & set(kinds)
        or closed
        or {"minimum", "maximum"} <= set(schema)
        or ({"exclusiveMinimum", "maximum"} <= set(schema))
    ), f"{where}: a number without bounds"
    assert "object" not in kinds or schema.get("additionalProperties") is False, (
        f"{where}: an object of anything"
    )


def test_the_openapi_document_refers_to_nothing_that_it_lacks() -> None:
    document = openapi_document(catalogue(), is_guarded=True)
    assert document["openapi"] == "3.1.0"

    described = [*chain.from_iterable(methods.values() for methods in document["paths"].values())]
    assert len(described) == len(OPERATIONS) + 2
    assert len({item["operationId"] for item in described}) == len(described)

    for reference in re.findall(r'"\$ref": ?"([^"]+)"', json.dumps(document)):
        target: Any = document
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]

    for item in described:
        assert {"400", "401", "404", "409", "413", "500", "503"} < set(item["responses"])

    tags = {tag["name"] for tag in document["tags"]}

    assert {*chain.from_iterable(item["tags"] for item in described)} == tags


def test_models_and_logs_keep_their_wording() -> None:
    """A change of either hash means that recorded answers and broker logs are of another
    version.
    """
    workspace = Workspace(small_dataset())
    played(trading(), in_process(workspace))

    assert (
        workspace.broker.log.last_hash
        == "3832e0acf5093c5e9a108207833e202bf9257191117aefe45ad6f42ec2b87586"
    )
    assert (
        content_hash(tool_hashes())
        == "570f9e559673f4119b53eac77f9d0034485c6c20800ce5d738b3f2bd7243390a"
    )


# ---- what is answered


ORDER = {
    "instrument": {"type": "STOCK", "symbol": "AVLN"},
    "side": "BUY",
    "order_type": "MARKET",
    "qty": 1,
}


@on_each_row(
    "changed, message",
    ({"qty": 5.5}, "give `order.qty` as a whole number from 1 to 1000000"),
    ({"qty": 0}, "give `order.qty` as a whole number from 1 to 1000000"),
    ({"side": "HOLD"}, "give `order.side` as one of BUY, SELL"),
    ({"limit_price": -1}, "give `order.limit_price` as a number above 0 and at most 1000000"),
    ({"limit_price": "cheap"}, "give `order.limit_price` as a number above 0 and at most 1000000"),
    ({"instrument": 7}, "give `order.instrument` as an object"),
    (
        {"expire_ts": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
        "give `order.expire_ts` as text of 1 to 40 characters",
    ),
    ({"mood": 1}, "has a field that is not known; known are: instrument, side"),
)
def test_a_refusal_names_the_valid_form_and_no_schema_keyword(
    changed: dict[str, Any], message: str
) -> None:
    given = {
        "session_id": "sess-000001",
        "account_id": "acct-000001",
        "order": {**ORDER, **changed},
    }
    text = catalogue().answer(Workspace(small_dataset()), "PMB.order.place", given)["error"][
        "message"
    ]

    assert text.startswith(message)
    assert not re.search(r"schema|type '|exclusiveMinimum|minLength|maxLength|validat", text)


@pytest.fixture(scope="module")
def story() -> Played:
    """Calls of every operation and their answers."""
    return played(day(), in_process(Workspace(small_dataset())))


def test_story_calls_every_operation_and_answers_follow_their_schemas(
    story: Played,
) -> None:
    assert {name for name, _, _ in story} == {operation.name for operation in OPERATIONS}
    for name, _, answer in story:
        Draft202012Validator(dict(catalogue().find(name).result)).validate(answer)
        assert answer["as_of_ts"], name


def over_http(
    served: Served, workspace: str, operation: Operation, arguments: dict[str, Any]
) -> dict[str, Any]:
    """The call as an HTTP client makes it."""
    from urllib.parse import quote, urlencode

    path = operation.path
    rest = dict(arguments)

    for name in operation.path_parameters:
        path = path.replace(f"{{{name}}}", quote(str(rest.pop(name)), safe=""))

    if operation.method == "GET":
        texts = {
            name: json.dumps(value) if isinstance(value, bool) else value
            for name, value in rest.items()
        }
        reply = served.get(f"{path}?{urlencode(texts)}" if texts else path, workspace)
    else:
        reply = served.post(path, rest, workspace)

    assert reply.status == 200, reply.text

    return reply.body


@pytest.mark.slow
def test_http_gives_what_the_process_gives(served: Served, story: Played) -> None:
    workspace = served.open()
    answers = played(
        day(),
        lambda name, arguments: over_http(served, workspace, catalogue().find(name), arguments),
    )

    assert [(name, dumps_canonical(answer)) for name, _, answer in answers] == [
        (name, dumps_canonical(answer)) for name, _, answer in story
    ]


def test_tools_of_a_task_give_what_the_process_gives(story: Played) -> None:
    class Scene:
        workspace = Workspace(small_dataset())

    tools = {tool.name: tool for tool in service_tools()}

    def use(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        outcome = tools[catalogue().find(name).wire_name].function(Scene, arguments)
        assert isinstance(outcome, Exact)
        return outcome.value

    assert [answer for _, _, answer in played(day(), use)] == [answer for _, _, answer in story]

    refused = tools["upq_stock_daily"].function(Scene, {"tickers": "AVLN"})
    assert isinstance(refused, Refusal)
    assert (refused.failure, refused.payload.value["error"]["code"]) == (
        "bad_arguments",
        "invalid_argument",
    )

    unknown = tools["esp_events_get"].function(Scene, {"event_id": "news_999"})
    assert (unknown.failure, unknown.payload.value["error"]["code"]) == ("not_found", "not_found")


def test_values_that_json_cannot_represent_are_refused_in_every_call() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]

    for value in (
        float("nan"),
        float("inf"),
        "\ud800",
        {"a": [float("-inf")]},
        deep,
        {"a": 10**400},
    ):
        with pytest.raises(
            ServiceError,
            match=(
                r"NaN or Infinity|halves of surrogate pairs|levels deep|a: expected a number of"
                r" fewer"
            ),
        ):
            plain_json(value)

    ids: dict[str, Any] = {
        "order_id": "ord-000001",
        "session_id": "sess-000001",
        "account_id": "acct-000001",
    }

    for name, given, message in (
        ("UPQ.symbols.list", [1], "arguments: expected one JSON object"),
        ("PMB.order.modify", {**ids, "updates": {}}, "updates: give at least 1 of: "),
    ):
        with pytest.raises(ServiceError, match=message):
            catalogue().call(Workspace(small_dataset()), name, given)

    with pytest.raises(ServiceError) as odd:
        plain_json({"a": {"\x00\n" + "x" * 99: [float("nan")]}})

    assert odd.value.field == f"a.'\\x00\\n{'x' * 38}'[0]", (
        "one printable line, whatever a member is called"
    )
    assert (
        repr(plain_json({"a": [5.0, 0.5, -0.0, 1e300, True]})) == "{'a': [5, 0.5, 0, 1e+300, True]}"
    )


@pytest.mark.shared_data
def test_arguments_of_the_public_benchmarks_calls_are_accepted(shared_data: Path) -> None:
    folder = shared_data / "qfinzero"
    if not folder.is_dir():
        pytest.skip(f"needs the public tasks in {folder}, which are not there")

    paths = not_empty(folder.glob("*_tasks_esp_public.jsonl"))
    lines = chain.from_iterable(path.read_text().splitlines() for path in paths)
    for row in map(json.loads, lines):
        for wanted in row.get("expected_tool_calls") or row["expected_steps"]:
            if wanted["tool_name"] not in SERVICE_TOOLS:
                continue

            operation = catalogue().find(wanted["tool_name"])
            given = {**wanted["required_params"], **wanted.get("optional_params", {})}
            known = {
                name: value
                for name, value in given.items()
                if not (isinstance(value, str) and value.startswith("{"))
            }
            missing = {name: "x" for name in operation.required if name not in known}
            operation.read({**known, **missing})


# ---- without extras


@pytest.mark.exhaustive
def test_tools_of_a_task_need_no_extra_and_a_server_names_a_missing_one() -> None:
    script = """
import sys
for name in ("uvicorn", "mcp", "mcp_types", "starlette", "pydantic", "anyio", "httpx"):
    sys.modules[name] = None
import ktdeval_qfinzero
assert "numpy" not in sys.modules
from ktdeval_qfinzero.catalogue import service_tools
assert len(service_tools()) > 40
from ktdeval.cli.main import main
sys.exit(main(["paper", "qfinzero", "serve"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    lacks = f"`ktdeval paper qfinzero serve`: anyio is not installed: {install_command('qfinzero')}"

    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"ktdeval: error: {lacks}\n")


def test_the_manifest_offers_the_commands() -> None:
    import ktdeval_qfinzero

    specs = {spec.name: spec.make() for spec in ktdeval_qfinzero.ktdeval_commands()}
    assert (set(specs), HEADER) == ({"paper qfinzero"}, "Qfinzero-Workspace")
