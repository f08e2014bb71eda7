"""`ktdeval qfinzero`: data, tools, single calls and items from the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ktdeval.cli.main import main
from ktdeval_qfinzero.catalogue import catalogue
from support.qfinzero.qfinzero_scoring_cases import load_tasks
from support.qfinzero.qfinzero_world import store_small

PRICES = "ticker,date,open,high,low,close,volume\n"
SPEC = """
name: mine
default_as_of: 2025-01-06T21:00:00Z
bars:
  - {file: bars.csv, asset_class: stock, resolution: day, columns: {symbol: ticker}}
symbols:
  - {file: symbols.csv}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_small(tmp_path_factory.mktemp("data") / "small")


def command(words: Sequence[object]) -> list[str]:
    """The words of a command: those that don't begin with `data` follow `paper qfinzero`."""
    texts = [str(word) for word in words]
    if texts[0] == "data":
        return texts

    return ["paper", "qfinzero", *texts]


def printed(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    """What a command of the services, or of their data, prints that ends as it should."""
    assert main(command(words)) == code

    out, errors = capsys.readouterr()
    assert errors == ""

    return out


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line of an error."""
    assert main(command(words)) == 2

    errors = capsys.readouterr().err
    assert errors.count("\n") == 1

    return errors.removeprefix("ktdeval: error: ").rstrip()


def test_tools_are_listed_with_names_or_whole_schemas(capsys: pytest.CaptureFixture[str]) -> None:
    names = [line.split() for line in printed(capsys, "tools").splitlines()]
    assert names == [[each.name, each.method, each.path] for each in catalogue().operations]

    described = json.loads(printed(capsys, "tools", "--format", "json"))
    assert [item["tool"] for item in described] == [
        each.wire_name for each in catalogue().operations
    ]
    assert all(item["parameters"]["additionalProperties"] is False for item in described)


def test_a_call_prints_its_answer(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    wanted = json.dumps(
        {
            "tickers": "AVLN",
            "start": "2025-01-02",
            "end": "2025-01-31",
            "fields": "ticker,date,close",
        }
    )
    answer = json.loads(
        printed(
            capsys,
            "tools",
            "UPQ.stock.daily",
            wanted,
            "--data",
            folder,
            "--as-of",
            "2025-01-03T22:00:00Z",
        )
    )

    assert answer["as_of_ts"] == "2025-01-03T22:00:00Z"
    assert "2025-01-03" in json.dumps(answer)
    assert "2025-01-06" not in json.dumps(answer)


def test_what_can_not_be_called_ends_with_its_code_and_one_line(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    answer = json.loads(printed(capsys, "tools", "upq_stock_daily", "{}", "--data", folder, code=1))
    assert answer["error"]["code"] == "invalid_argument"

    for words, message in (
        (("tools", "UPQ.stock.dayly", "{}", "--data", folder), "did you mean"),
        (("tools", "UPQ.stock.daily", "{limit: 1}", "--data", folder), "are not JSON"),
        (("tools", "UPQ.symbols.list", "--data", folder, "--seed", "0"), "give one of them"),
        (("tols",), "did you mean 'tools'?"),
    ):
        assert message in refusal(capsys, *words)


def test_a_dataset_is_described_and_checked(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    output = printed(capsys, "data", "info", folder)
    facts = dict(re.split(r" {2,}", line, maxsplit=1) for line in output.splitlines())

    assert facts["name"] == "small"
    assert (facts["form"], facts["synthetic"]) == ("QFinZero dataset", "yes")
    assert facts["clock_starts"] == "2025-01-06T21:00:00Z"
    assert "stock minute 4680" in facts["rows"]

    described = json.loads(printed(capsys, "data", "info", folder, "--json"))
    assert described["id"] == facts["id"]
    assert described["rows"]["stock minute"] == 4680
    assert printed(capsys, "data", "check", folder) == f"{folder}: sound\n"

    report = json.loads(printed(capsys, "data", "check", folder, "--json"))
    assert report == {
        "form": "QFinZero dataset",
        "errors": 0,
        "warnings": 0,
        "findings": [],
    }


def test_a_damaged_dataset_is_found_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = store_small(tmp_path / "small")
    part = folder / "market.duckdb"
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    name = part.relative_to(folder).as_posix()
    changed = "its SHA-256 is not that of the manifest"

    assert f"error {name}: {changed}\n" in printed(capsys, "data", "check", folder, code=1)

    report = json.loads(printed(capsys, "data", "check", folder, "--json", code=1))
    assert report["errors"] == len(report["findings"]) >= 1
    assert (name, "error", changed) in {
        (found["path"], found["level"], found["message"]) for found in report["findings"]
    }
    assert "not a market snapshot" in refusal(capsys, "data", "info", tmp_path)


def test_files_of_ones_own_become_a_dataset_and_grow(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    (tmp_path / "symbols.csv").write_text(
        "symbol,asset_class,name,sector,listed\nAVLN,stock,Avalon,tech,2024-12-01\n"
    )
    bars = PRICES + "AVLN,2025-01-02,10,11,9,10.5,1000\nAVLN,2025-01-03,10.5,11,10,10.2,900\n"
    (tmp_path / "bars.csv").write_text(bars + "AVLN,2025-01-06,10.2,9,10,10.1,800\n")
    folder = tmp_path / "mine"
    make = ["data", "make", "qfinzero_files", tmp_path / "spec.yaml", "--out", folder]

    assert main(command(make)) == 2

    out, errors = capsys.readouterr()
    assert "bars.csv" in out  # each problem with its file
    assert errors.startswith("ktdeval: error: nothing was written")
    assert not folder.exists()

    (tmp_path / "bars.csv").write_text(bars)
    output = printed(capsys, *make)

    assert "2  stock day" in output
    assert "mine, market, id " in output
    assert "minute bars  none" in output

    (tmp_path / "bars.csv").write_text(bars + "AVLN,2025-01-06,10.2,10.4,10,10.1,800\n")
    assert "stock day: 1 new, 2 as stored" in printed(capsys, *make, "--update")
    assert "nothing has changed" in printed(capsys, *make, "--update")


def test_a_market_is_generated_by_its_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    days = [
        "--first-day",
        "2025-01-02",
        "--last-day",
        "2025-01-08",
        "--minute-first",
        "2025-01-06",
        "--minute-last",
        "2025-01-06",
    ]
    small = [
        *days,
        "--as-of-day",
        "2025-01-07",
        "--stocks",
        "1",
        "--coins",
        "0",
        "--option-underlyings",
        "0",
    ]
    words = [
        "data",
        "make",
        "qfinzero",
        "--out",
        tmp_path / "a",
        *small,
        "--option-minute-underlyings",
        "0",
    ]

    for _ in range(2):  # the second time the same market is in the folder already
        assert main(command(words)) == 0
        output, progress = capsys.readouterr()
        assert "minute bars  2025-01-06 … 2025-01-06" in output
        assert "starts at 2025-01-07T21:00:00Z" in output
        assert progress == "generating the market: some seconds\n"

    assert printed(capsys, "data", "check", tmp_path / "a") == f"{tmp_path / 'a'}: sound\n"


@pytest.mark.exhaustive
def test_the_items_are_printed_proved_and_published_as_a_dataset_that_a_run_asks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "planning.jsonl"
    folder = tmp_path / "made"
    out = tmp_path / "run"

    assert main(["paper", "qfinzero", "items", "planning"]) == 0

    path.write_text(capsys.readouterr().out)
    tasks = load_tasks(path)

    assert len(tasks) >= 100
    assert (
        main(["paper", "qfinzero", "items", "planning", "--prove", "--publish", str(folder)]) == 0
    )

    refused = sum(task.refuse for task in tasks)
    proved = f"{len(tasks)} items: {len(tasks) - refused} carried out, {refused} to be refused\n"

    assert capsys.readouterr().out == f"{folder}: {len(tasks)} items\n{proved}"
    assert load_tasks(folder) == tasks

    asked = [
        "--model",
        "builtin/chaos",
        "--tasks",
        "qfinzero_planning_text",
        "--limit",
        "2",
        "--out",
        str(out),
        "--quiet",
    ]

    assert main([*asked, "--items", str(folder)]) == 0
    assert capsys.readouterr().out.endswith(f"score   ktdeval score {out} --items {folder}\n")

    material = json.loads((out / "cards" / "qfinzero_planning_text.json").read_text())["task"][
        "config"
    ]["material"]

    assert (material["tasks_file"]["name"], material["questions"]["count"]) == ("made", len(tasks))
    assert main(["card", "verify", str(out), "--items", str(folder)]) == 0
    assert main(["score", str(out), "--items", str(folder)]) == 0

    capsys.readouterr()
    assert main(["card", "verify", str(out)]) == 2
    assert re.fullmatch(
        r".*: qfinzero_planning_text was run as version .*, and give the --items with which it was run\n",
        capsys.readouterr().err,
    )


@pytest.mark.parametrize(
    "words",
    [
        ["paper"],
        ["paper", "qfinzero"],
        ["paper", "qfinzero", "serve"],
        ["data", "make", "qfinzero"],
    ],
    ids=" ".join,
)
def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert main([*words, "--help"]) == 0
    assert "Usage: ktdeval" in capsys.readouterr().out
