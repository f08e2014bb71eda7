"""`ktdeval qfinzero`: data, tools, single calls and items from the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ktdeval.testing import Terminal
from ktdeval_qfinzero.catalogue import catalogue
from support.qfinzero.qfinzero_scoring_cases import load_tasks
from support.qfinzero.qfinzero_world import store_small
from support.runs.run_support import card_of

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


def qfinzero(words: str) -> list[str]:
    return ["paper", "qfinzero", *words.split()]


def test_tools_are_listed_with_names_or_whole_schemas(terminal: Terminal) -> None:
    operations = catalogue().operations
    names = [line.split() for line in terminal.text(*qfinzero("tools")).splitlines()]
    assert names == [[each.name, each.method, each.path] for each in operations]

    described = json.loads(terminal.text(*qfinzero("tools --format json")))
    assert [item["tool"] for item in described] == [each.wire_name for each in operations]
    assert all(item["parameters"]["additionalProperties"] is False for item in described)


def test_a_call_prints_its_answer(terminal: Terminal, folder: Path) -> None:
    january = {"tickers": "AVLN", "start": "2025-01-02", "end": "2025-01-31"}
    wanted = json.dumps({**january, "fields": "ticker,date,close"})
    when = f"--data {folder} --as-of 2025-01-03T22:00:00Z"
    text = terminal.text(*qfinzero(f"tools UPQ.stock.daily {when}"), wanted)

    assert json.loads(text)["as_of_ts"] == "2025-01-03T22:00:00Z"
    assert "2025-01-03" in text
    assert "2025-01-06" not in text


def test_an_answer_that_is_an_error_ends_with_one(terminal: Terminal, folder: Path) -> None:
    code, out, err = terminal.call(*qfinzero(f"tools upq_stock_daily {{}} --data {folder}"))

    assert (code, err) == (1, "")
    assert json.loads(out)["error"]["code"] == "invalid_argument"


def test_what_can_not_be_called_is_one_line(
    terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    refused = terminal.refusals(
        "paper qfinzero tools UPQ.stock.dayly {} --data small",
        "paper qfinzero tools UPQ.stock.daily {limit:1} --data small",
        "paper qfinzero tools UPQ.symbols.list --seed 0 --data small",
        "paper qfinzero tols",
    )
    assert refused == snapshot("""\
paper qfinzero tools UPQ.stock.dayly {} --data small
  ktdeval: error: there is no such tool; did you mean 'UPQ.stock.daily' or 'UPQ.crypto.daily' or 'UPQ.stock.minute'?; see `ktdeval paper qfinzero tools`
paper qfinzero tools UPQ.stock.daily {limit:1} --data small
  ktdeval: error: the arguments are not JSON; write them as one object in quotes, such as '{"limit": 5}'
paper qfinzero tools UPQ.symbols.list --seed 0 --data small
  ktdeval: error: --data names a dataset and --seed picks an embedded one; give one of them
paper qfinzero tols
  ktdeval: error: paper qfinzero: no command 'tols'; did you mean 'tools'?
""")


def test_a_dataset_is_described_and_checked(terminal: Terminal, folder: Path) -> None:
    output = terminal.text("data", "info", folder)
    facts = dict(re.split(r" {2,}", line, maxsplit=1) for line in output.splitlines())

    assert facts["name"] == "small"
    assert (facts["form"], facts["synthetic"]) == ("QFinZero dataset", "yes")
    assert facts["clock_starts"] == "2025-01-06T21:00:00Z"
    assert "stock minute 4680" in facts["rows"]

    described = terminal.report("data", "info", folder)
    assert (described["id"], described["rows"]["stock minute"]) == (facts["id"], 4680)

    assert terminal.text("data", "check", folder) == f"{folder}: sound\n"
    sound = {"form": "QFinZero dataset", "errors": 0, "warnings": 0, "findings": []}
    assert terminal.report("data", "check", folder) == sound


def test_a_damaged_dataset_is_found_out(terminal: Terminal, tmp_path: Path) -> None:
    folder = store_small(tmp_path / "small")
    part = folder / "market.duckdb"
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    changed = "its SHA-256 is not that of the manifest"

    code, out, _ = terminal.call("data", "check", folder)
    assert code == 1
    assert f"error market.duckdb: {changed}\n" in out

    report = json.loads(terminal.call("data", "check", folder, "--json")[1])
    assert report["errors"] == len(report["findings"]) >= 1
    found = {"path": "market.duckdb", "level": "error", "message": changed}
    assert any(finding.items() >= found.items() for finding in report["findings"])
    assert "not a market snapshot" in terminal.refusal("data", "info", tmp_path)


def test_files_of_ones_own_become_a_dataset_and_grow(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    (tmp_path / "symbols.csv").write_text(
        "symbol,asset_class,name,sector,listed\nAVLN,stock,Avalon,tech,2024-12-01\n"
    )
    bars = PRICES + "AVLN,2025-01-02,10,11,9,10.5,1000\nAVLN,2025-01-03,10.5,11,10,10.2,900\n"
    (tmp_path / "bars.csv").write_text(bars + "AVLN,2025-01-06,10.2,9,10,10.1,800\n")
    folder = tmp_path / "mine"
    make = f"data make qfinzero_files {tmp_path}/spec.yaml --out {folder}".split()

    code, out, errors = terminal.call(*make)
    assert code == 2
    assert "bars.csv" in out  # each problem with its file
    assert errors.startswith("ktdeval: error: nothing was written")
    assert not folder.exists()

    (tmp_path / "bars.csv").write_text(bars)
    output = terminal.text(*make)

    assert "2  stock day" in output
    assert "mine, market, id " in output
    assert "minute bars  none" in output

    (tmp_path / "bars.csv").write_text(bars + "AVLN,2025-01-06,10.2,10.4,10,10.1,800\n")
    assert "stock day: 1 new, 2 as stored" in terminal.text(*make, "--update")
    assert "nothing has changed" in terminal.text(*make, "--update")


def test_a_market_is_generated_by_its_options(terminal: Terminal, tmp_path: Path) -> None:
    days = "--first-day 2025-01-02 --last-day 2025-01-08 --as-of-day 2025-01-07"
    minutes = "--minute-first 2025-01-06 --minute-last 2025-01-06"
    size = "--stocks 1 --coins 0 --option-underlyings 0 --option-minute-underlyings 0"
    make = f"data make qfinzero --out {tmp_path}/a {days} {minutes} {size}".split()

    for _ in range(2):  # the second time the same market is in the folder already
        code, output, progress = terminal.call(*make)
        assert code == 0
        assert "minute bars  2025-01-06 … 2025-01-06" in output
        assert "starts at 2025-01-07T21:00:00Z" in output
        assert progress == "generating the market: some seconds\n"

    assert terminal.text("data", "check", tmp_path / "a") == f"{tmp_path / 'a'}: sound\n"


@pytest.mark.exhaustive
def test_items_are_printed_proved_and_published_as_a_runnable_dataset(
    terminal: Terminal, tmp_path: Path
) -> None:
    path = tmp_path / "planning.jsonl"
    folder = tmp_path / "made"
    out = tmp_path / "run"
    path.write_text(terminal.out(*qfinzero("items planning")))
    tasks = load_tasks(path)

    assert len(tasks) >= 100

    refused = sum(task.refuse for task in tasks)
    proved = f"{len(tasks)} items: {len(tasks) - refused} carried out, {refused} to be refused\n"
    published = terminal.out(*qfinzero(f"items planning --prove --publish {folder}"))

    assert published == f"{folder}: {len(tasks)} items\n{proved}"
    assert load_tasks(folder) == tasks

    run = f"--model builtin/chaos --tasks qfinzero_planning_text --limit 2 --out {out} --quiet"
    shown = terminal.out(*run.split(), "--items", folder)
    assert shown.endswith(f"score   ktdeval score {out} --items {folder}\n")

    material = card_of(out, "qfinzero_planning_text")["task"]["config"]["material"]
    assert (material["tasks_file"]["name"], material["questions"]["count"]) == ("made", len(tasks))

    terminal.out("card", "verify", out, "--items", folder)
    terminal.out("score", out, "--items", folder)
    unknown = terminal.error("card", "verify", out)
    assert re.search("qfinzero_planning_text was run as version .*, and give the --items", unknown)
