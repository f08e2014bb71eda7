"""What a client of the server can't reach: files outside its folders, secrets, code of files."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("mcp")

from mcp.shared.exceptions import MCPError

from ktdeval.errors import UsageError
from ktdeval_mcp.folders import Folders
from test_mcp_server import SECRET, connected, error_line

pytestmark = pytest.mark.anyio

OUTSIDE = "PRIVATE-TEXT-OF-ANOTHER-FOLDER"


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """Folder of the server; beside it lies a file that is not for clients."""
    (tmp_path / "private.csv").write_text(f"date,nav\n2024-03-01,{OUTSIDE}\n", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder"


# ---- paths


@pytest.mark.parametrize(
    "path",
    [
        "../private.csv",
        "/etc/passwd",
        "~/.netrc",
        "a/../../private.csv",
        "link.csv",
        "linked/private.csv",
        "file:///etc/passwd",
        "s3://bucket/run",
        "bars=../private.csv",
        "synthetic(of=../private.csv)",
        "weights.csv,../private.csv",
        "weights.csv\0",
    ],
)
def test_a_path_outside_the_folders_is_refused_in_any_argument(path: str, inside: Path) -> None:
    (inside / "link.csv").symlink_to("../private.csv")
    (inside / "linked").symlink_to("..")

    with pytest.raises(UsageError, match=r"^judge: data_args: .*the folders of this server"):
        Folders.of((inside,)).check("judge", {"data_args": [path]})


@pytest.mark.parametrize("path", ["x.csv", "./x.csv", "deep/../x.csv", "openai/gpt-5", "inner.csv"])
def test_a_path_below_a_folder_is_taken(path: str, inside: Path) -> None:
    (inside / "x.csv").touch()
    (inside / "inner.csv").symlink_to("x.csv")

    Folders.of((inside,)).check("judge", {"decisions": path})


def test_each_root_is_open_and_relative_paths_start_at_the_first(inside: Path) -> None:
    other = inside.parent / "other"
    other.mkdir()
    folders = Folders.of((inside, other))

    assert folders.resolve("x.csv") == inside / "x.csv"
    assert folders.resolve(str(other / "x.csv")) == other / "x.csv"
    with pytest.raises(UsageError):
        folders.resolve(str(inside.parent / "others" / "x.csv"))  # shares only letters


@pytest.mark.slow
async def test_neither_a_tool_nor_a_resource_reads_outside(inside: Path) -> None:
    (inside / "run").mkdir()
    (inside / "run" / "tear-sheet.html").symlink_to("../../private.csv")
    (inside / "logs").mkdir()
    (inside / "logs" / "a.csv").symlink_to("../../private.csv")
    (inside / "plan.yaml").write_text(
        f"models: builtin/hold\ntasks: {inside.parent}/private.yaml\nplugin: evil.py\n"
    )
    answers: list[Any] = []

    async with connected(inside) as client:
        answers.append(await client.call_tool("judge", {"nav": "../private.csv"}))
        answers.append(await client.call_tool("judge", {"nav": "x.csv", "out": "../made"}))
        answers.append(await client.call_tool("audit", {"log": "logs"}))
        answers.append(await client.call_tool("plan", {"plan_file": "plan.yaml"}))
        for run in ("run", "../folder/run", str(inside / "run"), "..", "/etc"):
            with pytest.raises(MCPError) as refused:
                await client.read_resource(f"ktdeval://tear-sheet/{quote(run, safe='')}")
            answers.append(refused.value)

    assert OUTSIDE not in str(answers)
    for answer in answers[:4]:
        assert answer.is_error
    assert "Permission denied: outside the folders of this server" in error_line(answers[2])
    assert not (inside.parent / "made").exists()


# ---- secrets


@pytest.mark.slow
async def test_no_answer_of_any_kind_has_a_secret_of_the_environment(inside: Path) -> None:
    page = inside / SECRET / "tear-sheet.html"
    page.parent.mkdir()
    page.write_text(f"<p>{SECRET}</p>", encoding="utf-8")
    told: list[Any] = []

    async with connected(inside) as client:
        told.append(await client.read_resource(f"ktdeval://tear-sheet/{SECRET}"))
        with pytest.raises(MCPError) as unknown:
            await client.read_resource(f"ktdeval://{SECRET}")
        told.append(unknown.value)
        told.append(await client.call_tool(SECRET, {}))
        told.append(await client.call_tool("judge", {SECRET: 1}))
        told.append(await client.call_tool("docs_search", {"query": SECRET}))
        told.append(await client.call_tool("audit", {"log": f"{SECRET}.jsonl"}))
        with pytest.raises(MCPError) as protocol:
            await client.get_prompt(SECRET)
        told.append(protocol.value)

    assert "<p>[OPENAI_API_KEY]</p>" in str(told[0])
    for each in told:
        assert SECRET not in str(each), each


# ---- contents of files


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("passwd", "root:x:0:0:PRIVATE:/root:/bin/bash\nd:x:1:1:PRIVATE:/:/bin/sh\n"),
        ("netrc", "machine example.org login me password PRIVATE\n"),
        ("env.csv", "KEY_A=PRIVATE1,KEY_B=PRIVATE2\nc,d\n"),
        ("pair.yaml", "password: PRIVATE\nuser: me\n"),
        ("config.json", '{"auths": {"example.org": {"auth": "PRIVATE"}}}'),
        ("id", "-----BEGIN OPENSSH PRIVATE KEY-----\nPRIVATEPRIVATE\n-----END-----\n"),
    ],
)
async def test_an_error_quotes_nothing_of_a_file_that_is_no_data(
    name: str, text: str, inside: Path
) -> None:
    path = inside / name
    path.write_text(text.replace("PRIVATE KEY", "KEY"), encoding="utf-8")

    async with connected(inside) as client:
        for tool, argument in (
            ("judge", "decisions"),
            ("judge", "nav"),
            ("audit", "log"),
            ("card_verify", "path"),
            ("plan", "plan_file"),
        ):
            answer = await client.call_tool(tool, {argument: name})
            assert "PRIVATE" not in str(answer), (tool, answer)


# ---- code


@pytest.mark.slow
async def test_a_plan_file_runs_no_code(inside: Path) -> None:
    code = inside / "evil.py"
    code.write_text(f"open({str(inside / 'executed')!r}, 'w').close()\n", encoding="utf-8")
    plan = inside / "plan.yaml"
    plan.write_text(f"models: builtin/hold\ntasks: blinded_open_research\nplugin: {code}\n")

    async with connected(inside) as client:
        answer = await client.call_tool("plan", {"plan_file": str(plan)})

    assert "named by a file, and no file may name code to run" in error_line(answer)
    assert {path.name for path in inside.iterdir()} == {"evil.py", "plan.yaml"}
