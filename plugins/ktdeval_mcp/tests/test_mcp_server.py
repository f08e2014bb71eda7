"""The server over stdio in a second process, asked by the client of the official SDK."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("mcp")

from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

pytestmark = pytest.mark.anyio

SECRET = "sk-proj-0123456789abcdefghijkl"


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[Client]:
    """A client of a server that runs in a folder."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "ktdeval", "mcp"],
        cwd=folder,
        env={**os.environ, "OPENAI_API_KEY": SECRET},
    )
    async with Client(server) as client:
        yield client


def error_line(answer: Any) -> str:
    assert answer.is_error
    assert answer.structured_content is None
    [content] = answer.content
    assert "\n" not in content.text
    return content.text


def write_weights(folder: Path) -> Path:
    path = folder / "weights.csv"
    rows = ["date,symbol,weight", "2024-03-01,009213.SZ,0.5", "2024-04-01,009213.SZ,0.2"]
    path.write_text("\n".join(rows), encoding="utf-8")
    return path


async def test_each_tool_is_a_command_with_its_options(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}

    commands = {"judge", "audit", "plan", "compare", "luck", "card_verify"}
    assert set(tools) == {*commands, "docs_search"}
    judge = tools["judge"].input_schema
    assert judge["properties"]["days"]["type"] == "integer"
    assert judge["properties"]["dated"]["enum"] == ["decision", "fill"]
    assert not {"plugin", "json", "as_json", "check"} & set(judge["properties"])
    assert tools["audit"].input_schema["required"] == ["log"]


async def test_only_the_tool_that_writes_files_is_not_marked_as_reading(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        tools = (await client.list_tools()).tools

    writing = [tool for tool in tools if not tool.annotations.read_only_hint]
    assert [(tool.name, tool.annotations.destructive_hint) for tool in writing] == [
        ("judge", False)
    ]
    offered = {
        name for tool in tools if tool not in writing for name in tool.input_schema["properties"]
    }
    assert not offered & {"out", "sarif", "html", "save", "github"}


@pytest.mark.slow
async def test_a_file_is_judged_and_its_tear_sheet_read(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        weights = write_weights(tmp_path)
        answer = await client.call_tool(
            "judge", {"decisions": str(weights), "data": "synthetic", "until": "2024-05-06"}
        )
        assert not answer.is_error, answer.content
        listed = (await client.list_resources()).resources
        page = await client.read_resource(listed[0].uri)

    text, link = answer.content
    assert "Judged: weights.csv: target weights" in text.text
    content = answer.structured_content
    assert content["printed"] == text.text
    assert content["result"]["decisions"] == 2
    assert content["result"]["last"] == "2024-05-06"
    assert (content["exit_code"], content["shortened"]) == (0, "")
    assert content["command"].startswith("ktdeval judge --data=synthetic")

    assert [each.uri for each in listed] == [link.uri]
    [contents] = page.contents
    assert contents.mime_type == "text/html"
    assert contents.text.startswith("<!doctype html>")
    assert "Worst drawdowns" in contents.text


@pytest.mark.slow
async def test_the_page_of_a_judged_account_value_is_read_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "tear-sheet.html").write_text("<!doctype html>of values", encoding="utf-8")

    async with connected(tmp_path) as client:
        page = await client.read_resource(f"ktdeval://tear-sheet/{quote(str(tmp_path), safe='')}")
        with pytest.raises(MCPError) as too_long:
            await client.read_resource(f"ktdeval://tear-sheet/{'x' * 5000}")

    assert page.contents[0].text == "<!doctype html>of values"
    assert "can't read" in str(too_long.value)


@pytest.mark.slow
async def test_a_negative_verdict_is_a_result(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    messages = [
        {"role": "user", "content": "Date: 2024-03-01. Close 2024-05-06: 11.2. Buy or sell?"},
        {"role": "assistant", "content": "BUY"},
    ]
    log.write_text(json.dumps({"date": "2024-03-01", "messages": messages}), encoding="utf-8")

    async with connected(tmp_path) as client:
        answer = await client.call_tool("audit", {"log": str(log), "day_field": "date"})

    assert not answer.is_error
    content = answer.structured_content
    assert content["exit_code"] == 1
    assert content["result"]["errors"] >= 1
    assert "2024-05-06" in content["printed"]


@pytest.mark.slow
async def test_an_error_is_one_line_and_the_server_stays(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        absent = await client.call_tool("judge", {"decisions": "no/such.csv"})
        unknown = await client.call_tool("judge", {"decision": "weights.csv"})
        wrong_type = await client.call_tool("judge", {"sharpe": "two"})
        no_tool = await client.call_tool("judg", {})
        dashes = await client.call_tool("card_verify", {"path": "--plugin=evil.py"})
        with pytest.raises(MCPError) as no_run:
            await client.read_resource("ktdeval://tear-sheet/no%2Fsuch")
        with pytest.raises(MCPError) as no_sheet:
            await client.read_resource("file:///etc/passwd")
        still_there = await client.call_tool("docs_search", {"query": "deflated Sharpe ratio"})

    assert error_line(absent) == "no/such.csv: can't read: No such file or directory"
    assert "'decision' was unexpected" in error_line(unknown)
    assert error_line(wrong_type) == "judge: sharpe: 'two' is not of type 'number'"
    assert error_line(no_tool) == "no tool 'judg'; did you mean 'judge'?"
    assert "--plugin=evil.py" in error_line(dashes)
    assert "no/such: no run here" in str(no_run.value)
    assert "no resource file:///etc/passwd" in str(no_sheet.value)

    hits = still_there.structured_content["hits"]
    assert "Sharpe" in hits[0]["title"]
    assert all(len(hit["text"]) <= 1500 for hit in hits)


@pytest.mark.slow
async def test_a_secret_of_the_environment_is_not_in_an_answer(tmp_path: Path) -> None:
    nav = tmp_path / f"{SECRET}.csv"
    nav.write_text("date,nav\n2024-03-01,100\n", encoding="utf-8")

    async with connected(tmp_path) as client:
        answer = await client.call_tool("judge", {"nav": str(nav)})

    assert SECRET not in str(answer)
    assert "[OPENAI_API_KEY]" in answer.content[0].text
