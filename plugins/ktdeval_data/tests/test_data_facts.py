"""`ktdeval data check --facts`: a table and JSON of the same facts, of folders and of providers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ktdeval.testing import Terminal
from ktdeval_raw_markets.fact_ranges import RANGES

COINS = ("--first", "2025-01-01", "--last", "2025-05-30")  # 150 days


@pytest.fixture
def folder(tmp_path: Path, terminal: Terminal) -> Path:
    path = tmp_path / "coins"
    terminal.out("data", "make", "synthetic_crypto", *COINS, "--out", path)
    return path


@pytest.mark.slow
def test_facts_have_value_interval_n_range_and_verdict(folder: Path, terminal: Terminal) -> None:
    report = json.loads(terminal.text("data", "check", folder, "--facts", "--json"))
    assert report["market"] == "synthetic-crypto-7"
    assert report["synthetic"] is True

    by_name = {fact["fact"]: fact for fact in report["facts"]}
    assert set(by_name) == {one.fact for one in RANGES}

    clusters = by_name["volatility_lag_1"]
    assert clusters["n"] == 149
    assert clusters["interval"]["low"] < clusters["value"] < clusters["interval"]["high"]
    assert clusters["interval"]["block_days"] > 0
    assert clusters["low"] < clusters["high"]
    assert any("2018-01 to 2021-07" in source for source in clusters["sources"])

    momentum = by_name["momentum"]
    assert momentum["value"] is None
    assert momentum["verdict"] == "undefined"
    assert "0 months" in momentum["reason"]


@pytest.mark.slow
def test_the_table_says_the_same_on_one_line_a_fact(folder: Path, terminal: Terminal) -> None:
    report = json.loads(terminal.text("data", "check", folder, "--facts", "--json"))
    lines = terminal.text("data", "check", folder, "--facts").splitlines()
    assert lines[0].split() == [
        *("ASSETS", "FACT", "VALUE", "95", "%", "INTERVAL", "N", "REAL", "MARKETS", "VERDICT")
    ]
    assert len(lines) == len(report["facts"]) + 2
    for line, fact in zip(lines[1:], report["facts"], strict=False):
        assert fact["words"] in line
        assert fact["verdict"] in line
        if fact["value"] is not None:
            assert f"{fact['value']:.3f}" in line


@pytest.mark.exhaustive
def test_a_market_of_two_kinds_has_the_facts_of_each(tmp_path: Path, terminal: Terminal) -> None:
    path = tmp_path / "mixed"
    terminal.out("data", "make", "synthetic_mixed", *COINS, "--out", path)
    report = json.loads(terminal.text("data", "check", path, "--facts", "--json"))
    days = {fact["kind"]: fact["n"] for fact in report["facts"] if fact["fact"] == "breadth"}
    # Stocks have no bars on closed days.
    assert days == {"crypto": 149, "stock": 101}


def test_what_is_no_market_is_one_line(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    refused = terminal.refusals(
        "data check nowhere --facts",
        "data check empty --facts",
        "data check long --facts",
        "data check synthetic_us",
    )
    assert refused == snapshot("""\
data check nowhere --facts
  ktdeval: error: nowhere: no such folder; make one with `ktdeval data make PROVIDER --out DIR`
data check empty --facts
  ktdeval: error: empty is not a snapshot (manifest.json is missing); create one from it with `ktdeval data make`
data check long --facts
  ktdeval: error: --facts can't make long, which needs options: store the market with `ktdeval data make long`, and name its folder
data check synthetic_us
  ktdeval: error: 'synthetic_us' is a data provider, and `data check` takes a folder; check a source with `ktdeval data make synthetic_us --check-only`
""")
