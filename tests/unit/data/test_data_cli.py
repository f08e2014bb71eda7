from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_data_long import BARS, write

from ktdeval.cli.main import main
from ktdeval.market.assembly import assemble
from ktdeval.market.storage import load_snapshot, save_snapshot
from raw_market import changed, market
from tables import on_each_row
from terminal import Terminal


def options(folder: Path, **files: str) -> list[str]:
    return ["--benchmark-code", "000688", *(word for name, path in write(folder, **files).items() for word in (f"--{name}", path))]


def test_the_listing_and_options_derive_from_the_providers_parameters(terminal: Terminal) -> None:
    # The listing names every provider.
    text = terminal.out("data")
    assert "ktdeval data import long --help" in text
    assert "ktdeval data build synthetic --help" in text
    entries = {entry["name"]: entry for entry in json.loads(terminal.out("data", "--json"))}
    assert {"long", "qlib", "synthetic"} <= entries.keys()
    (unit,) = (field for field in entries["long"]["params"] if field["name"] == "volume_unit")
    assert (unit["required"], unit["default"], unit["help"]) == (False, "share", "a lot is 100 shares")
    assert all(field["help"] for entry in entries.values() for field in entry["params"])
    # Options of an import derive from the providers parameters.
    text = terminal.out("data", "import", "long", "--help")
    for name in ("--bars", "--benchmark-code", "--map", "--volume-unit", "--repair", "--set", "--spec", "--out"):
        assert name in text
    text = terminal.out("data", "import", "--help")
    assert "qlib" in text
    assert "synthetic" not in text


def test_an_import_writes_a_snapshot_and_says_what_to_know(tmp_path: Path, terminal: Terminal) -> None:
    text = terminal.out("data", "import", "long", *options(tmp_path), "--out", tmp_path / "m")
    snapshot = load_snapshot(tmp_path / "m")
    assert f"2 days 2024-01-02…2024-01-03, 2 assets, id {snapshot.id}" in text


def test_documents_are_imported_beside_the_bars(tmp_path: Path, terminal: Terminal) -> None:
    rows = tmp_path / "news.jsonl"
    rows.write_text('{"published_at": "2024-01-02T14:00:00+08:00", "assets": "600519", "title": "A", "text": "b"}\n')
    (tmp_path / "entities.csv").write_text("code,kind,text\n600519,product,Feitian\n")
    words = [*options(tmp_path), "--entities", str(tmp_path / "entities.csv")]
    assert "give --documents too" in terminal.error("data", "import", "long", *words, "--out", tmp_path / "m")
    words += ["--documents", str(rows), "--documents-close", "16:00 Asia/Shanghai"]
    assert main(["data", "import", "long", *words, "--out", str(tmp_path / "m")]) == 0
    documents = load_snapshot(tmp_path / "m").documents
    assert (len(documents), documents[0].assets, str(documents.close)) == (1, ("600519.SH",), "16:00 Asia/Shanghai")
    assert "1 known by 16:00 Asia/Shanghai, 1 entities" in terminal.out("data", "info", tmp_path / "m")
    assert "documents: news, filings and other dated items" in terminal.out("data", "check", tmp_path / "m")
    rows.write_text('{"published_at": "2024-01-02 14:00"}\n')
    assert "line 1: published_at: '2024-01-02 14:00' has no time zone" in terminal.error("data", "check", "long", *words)


def test_faults_are_refused_until_a_repair_is_named(tmp_path: Path, terminal: Terminal) -> None:
    doubled = BARS + BARS.splitlines()[1] + "\n"
    words = ["data", "import", "long", *options(tmp_path, bars=doubled), "--out", str(tmp_path / "m")]
    error = terminal.error(*words)
    assert error.startswith("ktdeval: error: market bars: 1 duplicate_rows (first: 600519.SH 2024-01-02)")
    assert error.count("\n") == 1
    assert not (tmp_path / "m").exists()
    assert "repaired: drop_duplicates: 1 rows" in terminal.out(*words, "--repair", "drop_duplicates")
    assert load_snapshot(tmp_path / "m").meta.repairs == ("drop_duplicates: 1 rows",)


def test_file_set_and_options_give_parameters_in_that_order_as_they_are_spelt(tmp_path: Path, terminal: Terminal) -> None:
    # File set and options give parameters in that order.
    paths = write(tmp_path, bars=BARS.replace("open", "o").replace("close", "c"))
    spec = tmp_path / "spec.yaml"
    lines = [f"{name}: {path}" for name, path in paths.items()]
    spec.write_text(
        "\n".join([*lines, "name: from file", "map: {open: o, close: nothing}", "volume_unit: lot", "benchmark_code: 000688.SH"])
    )
    words = ["data", "import", "long", "--spec", str(spec), "--set", "name=from set,volume_unit=share"]
    assert main([*words, "--map", "close=c", "--name", "from option", "--out", str(tmp_path / "m")]) == 0
    snapshot = load_snapshot(tmp_path / "m")
    assert snapshot.meta.name == "from option"
    assert snapshot.volume[0, 1] == 1200
    # Choices keep their spelling.
    in_units = BARS.replace("12100", "1210").replace("350000", "35000").replace("505,", "50.5,")
    words = ["data", "import", "long", *options(tmp_path, bars=in_units), "--amount-unit", "thousand_CNY", "--volume_unit", "lot"]
    assert main([*words, "--out", str(tmp_path / "n")]) == 0
    assert load_snapshot(tmp_path / "n").amount[0, 1] == 1_210_000


def test_check_and_info_judge_a_source_or_a_stored_snapshot(tmp_path: Path, terminal: Terminal) -> None:
    # Check judges a source and its exit code tells.
    assert terminal.out("data", "check", "long", *options(tmp_path)).rstrip().endswith("0 kinds of error")
    bad = options(tmp_path, bars=BARS.replace("10.3,9.9", "1,9.9"))
    code, text, _ = terminal.call("data", "check", "long", *bad)
    assert (code, "impossible_bars" in text) == (1, True)
    assert main(["data", "check", "long", *bad, "--repair", "drop_impossible"]) == 0
    # Check judges a stored snapshot.
    save_snapshot(assemble(market(changed("600519.SH", "2024-01-04", volume=0.0))), tmp_path / "m")
    for words in (["--json", str(tmp_path / "m")], [str(tmp_path / "m"), "--json"]):
        report = json.loads(terminal.out("data", "check", *words))
        assert report["errors"] == 0
        assert [(entry["kind"], entry["count"]) for entry in report["findings"]] == [("short_history", 5), ("suspended_rows", 1)]
    # Info says what a snapshot holds.
    stored = save_snapshot(assemble(market()), tmp_path / "n")
    facts = json.loads(terminal.out("data", "info", tmp_path / "n", "--json"))
    assert facts["id"] == stored.id
    assert (facts["days"], facts["assets"], facts["bars"], facts["boards"]) == (5, 3, 15, {"main": 2, "star": 1})
    assert "benchmark      000688.SH" in terminal.out("data", "info", tmp_path / "n")


@on_each_row
def test_bad_input_is_one_clear_line(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: Terminal
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in terminal.refusal("data", *words)
    assert list(tmp_path.iterdir()) == []


def test_a_generated_market_is_stored_with_its_truth(tmp_path: Path, terminal: Terminal) -> None:
    words = ["data", "build", "synthetic", "--set", "seed=3", "--first", "2024-01-02", "--last", "2024-02-08"]
    assert main([*words, "--out", str(tmp_path / "m")]) == 0
    names = {path.name for path in (tmp_path / "m").iterdir()}
    assert {"manifest.json", "truth.json", "truth.parquet"} <= names
    assert load_snapshot(tmp_path / "m").meta.synthetic
