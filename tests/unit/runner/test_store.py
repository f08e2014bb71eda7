"""The run folder: created once, owned by one run and one process, complete or not but never half."""

from __future__ import annotations

import subprocess
import sys

import pytest

from ktdeval.contracts.spec import EpisodeSpec, Window
from ktdeval.errors import StoreError
from ktdeval.harness.session import TranscriptEntry
from ktdeval.runner.journal import JournalEntry
from ktdeval.runner.ledger_file import encode_ledger, load_ledger
from ktdeval.runner.store import LEDGER, RunFolder, RunManifest
from ktdeval.trading.ledger import Ledger, StepRecord
from ktdeval.typed import from_plain

SPEC = EpisodeSpec(
    task="t", task_version="1", task_hash="0" * 64, snapshot="f" * 64, mask="blinded", mode="open_research",
    window=Window("W1", "2024-04-01", "2024-06-05"), model="builtin/hold", model_args={"k": 3}, agent="react", agent_args={},
    call={"temperature": 0.7}, seed=1,
)  # fmt: skip
ENTRY = JournalEntry[StepRecord]
MANIFEST = RunManifest({"data": "synthetic", "data_args": {}}, "f" * 64, (), "strict", (SPEC,))


def step(number: int, **changes: object) -> StepRecord:
    record = {
        "step": number, "decided_on": "2024-03-29", "filled_on": "2024-04-01", "provenance": "model", "failures": {"bad_json": 2},
        "tool_calls": 3, "tool_calls_valid": 2, "submissions": 1, "unmask_attempts": 0, "input_tokens": 0, "output_tokens": 0,
        "reasoning_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0,
        "overall_reason": "全部持有", "orders": [
            {"code": "600001.SH", "stock_id": None, "side": "BUY", "confidence": 0.1 + 0.2, "reason": "r", "target_weight": 0.05,
             "shares": None, "status": "filled", "rule": None, "message": "", "filled_shares": 100, "price_ticks": 123400,
             "notional_minor": 123400, "fee_minor": 500},
        ],
        "corporate_actions": [], "positions": [
            {"code": "600001.SH", "shares": 100, "locked": 100, "price_ticks": 125000, "value_minor": 125000}],
        "cash_minor": 2**53 + 1, "holdings_minor": 125000, "nav_minor": 2**53 + 125001, "open_nav_minor": 1,
    }  # fmt: skip
    return from_plain({**record, **changes}, StepRecord, "record")


def said(number: int) -> TranscriptEntry:
    return TranscriptEntry(step=number, exchanges=(), submission=None)


def run_folder(path, records):
    folder = RunFolder.create(path, MANIFEST)
    with folder.open_journal(SPEC, ENTRY) as journal:
        for number, record in enumerate(records):
            journal.append(JournalEntry(step=record, transcript=said(number), memory=None, wall_s=0.5))
    return folder


def test_a_ledger_file_gives_back_every_field_exactly(tmp_path):
    ledger = Ledger(SPEC.to_json(), 100_000_000, [step(0), step(1, failures={}, orders=[], positions=[])])
    path = tmp_path / "ledger.parquet"
    path.write_bytes(encode_ledger(ledger))
    assert load_ledger(path) == ledger
    assert encode_ledger(load_ledger(path)) == path.read_bytes()


@pytest.mark.slow
def test_a_process_that_ends_right_after_it_read_a_ledger_ends_well(tmp_path):
    # A thread of Arrow that frees Python's memory while the interpreter ends aborts it: one process in six did, under load.
    path = tmp_path / "ledger.parquet"
    path.write_bytes(encode_ledger(Ledger(SPEC.to_json(), 10**11, [step(number) for number in range(300)])))
    words = "import sys, pathlib; from ktdeval.runner.ledger_file import load_ledger; load_ledger(pathlib.Path(sys.argv[1]))"
    for _ in range(2):
        begun = [subprocess.Popen([sys.executable, "-c", words, path], stderr=subprocess.PIPE) for _ in range(6)]
        assert [(each.communicate()[1], each.returncode) for each in begun] == [(b"", 0)] * 6


def test_completing_an_episode_moves_its_journal_into_ledger_and_transcript(tmp_path):
    folder = run_folder(tmp_path / "run", [step(0), step(1)])
    assert not folder.is_complete(SPEC)
    folder.complete(SPEC, ENTRY, lambda steps: (LEDGER, encode_ledger(Ledger(SPEC.to_json(), 100, steps))))
    assert folder.is_complete(SPEC)
    assert [record.step for record in folder.load_ledger(SPEC).steps] == [0, 1]
    assert folder.load_transcript(SPEC) == [said(0), said(1)]
    assert folder.mark(SPEC).wall_s == 1.0
    assert not (folder.episode_path(SPEC) / "journal.jsonl").exists()


def test_a_journal_from_before_money_had_general_names_resumes(tmp_path):
    folder = run_folder(tmp_path / "run", [step(0), step(1)])
    path = folder.episode_path(SPEC) / "journal.jsonl"
    today = path.read_text()
    assert today.count("_minor") == 14
    path.write_text(today.replace("_minor", "_fen"))
    with folder.open_journal(SPEC, ENTRY) as journal:
        assert [entry.step for entry in journal.recovered] == [step(0), step(1)]
    path.write_text('{"step":["nav_fen"],"nav_fen":1}\n')
    with pytest.raises(StoreError, match="corrupt here"):
        folder.open_journal(SPEC, ENTRY)


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "x" * 200, "a\x00b"])
def test_a_task_name_can_never_leave_the_cards_folder(tmp_path, name):
    with pytest.raises(StoreError, match="can't be a file name"):
        RunFolder(tmp_path, MANIFEST).card_path(name)
