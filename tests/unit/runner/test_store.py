"""Records of a run on disk: its folder, created once and never half; its journal; its ledgers of
every version.

Any episode, step by step into its journal: where it stops, what it keeps, and what it makes of
steps that all fail.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import asdict

from ktdeval.calls.stop_flag import StopSignal
from ktdeval.cards.fields.episode_parts import Maker
from ktdeval.errors import ModelError, ProviderError, StoreError
from ktdeval.harness.agent import StepCounts
from ktdeval.harness.steps.step_session import TranscriptEntry
from ktdeval.runner.episodes.episode_execution import EpisodeContext, run_episode
from ktdeval.runner.records.episode_journal import (
    Entry,
    Journal,
    JournalEntry,
    pack_lines,
    read_journal,
)
from ktdeval.runner.records.ledger_file import encode_ledger, load_ledger
from ktdeval.runner.records.run_claim import claim_folder
from ktdeval.runner.records.run_file_names import ANSWERS, LEDGER, TRANSCRIPT
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.run_manifest import RunManifest
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.task_api.events import EpisodeFailed, Event, SampleFinished
from ktdeval.task_api.scoring import AnswerRecord
from ktdeval.testing import not_empty, snapshot_of_days, step_record
from ktdeval.trading import ChargeRecord, Ledger, Scale
from ktdeval.trading.ledger import StepRecord
from ktdeval.values import from_plain, to_plain
from support.searching import examples

SPEC = EpisodeSpec(
    task="t",
    task_version="1",
    task_hash="0" * 64,
    snapshot="f" * 64,
    mask="blinded",
    mode="open_research",
    window=Window("W1", "2024-04-01", "2024-06-05"),
    model="builtin/hold",
    model_args={"k": 3},
    agent="react",
    agent_args={},
    call={"temperature": 0.7},
    seed=1,
)
ENTRY = JournalEntry[StepRecord]
MANIFEST = RunManifest({"data": "synthetic", "data_args": {}}, "f" * 64, (), "strict", (SPEC,))


def step(number: int, **changes: object) -> StepRecord:
    record = {
        "step": number,
        "decided_on": "2024-03-29",
        "filled_on": "2024-04-01",
        "provenance": "model",
        "failures": {"bad_json": 2},
        "tool_calls": 3,
        "tool_calls_valid": 2,
        "submissions": 1,
        "unmask_attempts": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "reasoning_tokens": 0,
        "cache_read_tokens": 0,
        "cache_write_tokens": 0,
        "overall_reason": "全部持有",
        "orders": [
            {
                "code": "600001.SH",
                "stock_id": None,
                "side": "BUY",
                "confidence": 0.1 + 0.2,
                "reason": "r",
                "target_weight": 0.05,
                "shares": None,
                "status": "filled",
                "rule": None,
                "message": "",
                "filled_shares": 100,
                "price_ticks": 123400,
                "notional_minor": 123400,
                "fee_minor": 500,
            },
        ],
        "corporate_actions": [],
        "positions": [
            {
                "code": "600001.SH",
                "shares": 100,
                "locked": 100,
                "price_ticks": 125000,
                "value_minor": 125000,
            }
        ],
        "cash_minor": 2**53 + 1,
        "holdings_minor": 125000,
        "nav_minor": 2**53 + 125001,
        "open_nav_minor": 1,
        "charges": [],
    }
    return from_plain({**record, **changes}, StepRecord, "record")


def transcript_entry(number: int) -> TranscriptEntry:
    return TranscriptEntry(step=number, exchanges=(), submission=None)


def run_folder(path, records, makers=()):
    folder = RunFolder.create(claim_folder(path), MANIFEST)
    with folder.open_journal(SPEC, ENTRY) as journal:
        for number, (record, maker) in enumerate(zip_longest(records, makers)):
            entry = JournalEntry(
                step=record,
                transcript=transcript_entry(number),
                memory=None,
                wall_s=0.5,
                made_by=maker,
            )
            journal.append(entry)

    return folder


def complete(folder):
    """Complete the folder's episode; return its mark."""

    def encode(steps):
        return LEDGER, encode_ledger(Ledger(SPEC.to_json(), 100, steps))

    folder.complete(SPEC, ENTRY, encode)

    return folder.mark(SPEC)


@pytest.mark.exhaustive
def test_a_process_that_ends_right_after_it_read_a_ledger_ends_well(tmp_path):
    # A thread of Arrow that frees Python's memory while the interpreter ends aborts it: one process
    # in six did, under load.
    path = tmp_path / "ledger.parquet"
    path.write_bytes(
        encode_ledger(Ledger(SPEC.to_json(), 10**11, [step(number) for number in range(300)]))
    )
    words = (
        "import sys, pathlib; from ktdeval.runner.records.ledger_file import load_ledger;"
        " load_ledger(pathlib.Path(sys.argv[1]))"
    )

    for _ in range(2):
        begun = [
            subprocess.Popen([sys.executable, "-c", words, path], stderr=subprocess.PIPE)
            for _ in range(6)
        ]
        assert [(each.communicate()[1], each.returncode) for each in begun] == [(b"", 0)] * 6


def test_an_episode_resumed_with_other_code_keeps_the_steps_of_each(tmp_path):
    one = Maker(ktdeval="0.1.0", code="1" * 16, python="3.11.4")
    other = Maker(ktdeval="0.1.0", code="2" * 16, python="3.11.4")
    folder = run_folder(tmp_path / "run", map(step, range(4)), [one, one, other, None])
    mark = complete(folder)

    assert mark.steps == 4
    assert [(made.code, made.steps) for made in mark.made_by] == [(one.code, 2), (other.code, 1)]


def test_completing_an_episode_moves_its_journal_to_ledger_and_transcript(tmp_path):
    folder = run_folder(tmp_path / "run", [step(0), step(1)])
    assert not folder.is_complete(SPEC)

    complete(folder)
    assert folder.is_complete(SPEC)
    assert [record.step for record in folder.load_ledger(SPEC).steps] == [0, 1]
    assert folder.load_transcript(SPEC) == [transcript_entry(0), transcript_entry(1)]
    assert folder.mark(SPEC).wall_s == 1.0
    assert not (folder.episode_path(SPEC) / "journal.jsonl").exists()


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
values = st.recursive(
    scalars | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.exhaustive
@examples(20)
@given(st.lists(st.dictionaries(st.text(), values)), values)
def test_a_transcript_has_the_bytes_of_its_entries_in_any_surroundings(
    tmp_path_factory, schemas, memory
):
    call = {"kept": 0, "sent": [], "tools": [], "tool_choice": None, "seed": 0, "error": "timeout"}
    exchanges = [{**call, "schemas": own} for own in schemas]
    folder = RunFolder.create(claim_folder(tmp_path_factory.mktemp("run")), MANIFEST)
    entry = TranscriptEntry(step=0, exchanges=tuple(exchanges), submission=None)
    with folder.open_journal(SPEC, ENTRY) as journal:
        journal.append(
            JournalEntry(step=step(0), transcript=entry, memory=memory, shown=("asset_0001",))
        )

    complete(folder)
    folder.release()

    assert (folder.episode_path(SPEC) / TRANSCRIPT).read_bytes() == pack_lines([entry])


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "x" * 200, "a\x00b"])
def test_a_task_name_can_never_leave_the_cards_folder(tmp_path, name):
    with pytest.raises(StoreError, match="can't be a file name"):
        RunFolder(tmp_path, MANIFEST).card_path(name)


# -- the journal


def test_appended_records_are_recovered_in_order_and_nan_is_never_written(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path, dict) as journal:
        assert journal.recovered == []
        journal.append({"step": 0})
        with pytest.raises(ValueError, match="JSON"):
            journal.append({"nav": float("nan")})

        journal.append({"step": 1, "text": "多行\n文本"})

    with Journal(path, dict) as journal:
        assert journal.recovered == [{"step": 0}, {"step": 1, "text": "多行\n文本"}]


def test_a_line_torn_at_any_byte_is_cut_off_and_the_rest_stays(tmp_path):
    path = tmp_path / "journal.jsonl"
    for torn in range(1, 15):
        path.write_bytes(b'{"step":0}\n' + b'{"a":2,"step":1}\n'[:torn])
        with Journal(path, dict) as journal:
            assert journal.recovered == [{"step": 0}]
            journal.append({"step": 1, "again": True})

        assert list(read_journal(path, dict)) == [{"step": 0}, {"step": 1, "again": True}]


# -- ledger files


def ledgers() -> tuple[Ledger, Ledger]:
    record = step_record(snapshot_of_days(["600001.SH"], [[10.0], [10.5]]), 0, 1)
    charges = (
        ChargeRecord(
            kind="borrow",
            code="TSLA",
            shares=-10_000,
            price_ticks=3_000_000,
            cash_minor=-12,
            fee_minor=0,
        ),
    )
    charged = from_plain({**to_plain(record), "charges": to_plain(charges)}, StepRecord, "record")
    of_a_shares = Ledger({"seed": 1}, 100_000_000, [record])

    return of_a_shares, Ledger(
        {"seed": 1}, 1_000_000, [charged], "USD", 100, 365, {"TSLA": Scale(10_000, 10_000)}
    )


def test_a_ledger_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "ledger.parquet"
    for ledger in not_empty(ledgers(), 2):
        path.write_bytes(encode_ledger(ledger))
        assert load_ledger(path) == dataclasses.replace(ledger, steps=list(ledger.steps))
        assert encode_ledger(load_ledger(path)) == path.read_bytes()


def test_a_ledger_of_another_version_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.parquet"
    path.write_bytes(encode_ledger(ledgers()[1]))
    table = pq.read_table(path)
    market = table.schema.metadata[b"ktdeval.ledger"].replace(b'"version":1', b'"version":3')
    metadata = {**table.schema.metadata, b"ktdeval.ledger": market}
    pq.write_table(table.replace_schema_metadata(metadata), path)

    with pytest.raises(StoreError, match=r"ledger.parquet.*version"):
        load_ledger(path)


# -- an episode, step by step into its journal


class Script:
    """An episode whose steps end as told: a provenance, or an exception."""

    entry_type: type[Entry] = JournalEntry[AnswerRecord]

    def __init__(self, steps: Sequence[str | BaseException]) -> None:
        self.steps = steps
        self.total_steps = len(steps)
        self.run: list[int] = []

    def is_own(self, index: int, entry: Entry) -> bool:
        return bool(entry.step.step == index)

    def resume(self, last: Entry) -> None:
        """Nothing to take up."""

    def close(self) -> None:
        """Nothing to end."""

    def run_step(self, step: int) -> Entry:
        self.run.append(step)
        end = self.steps[step]
        if isinstance(end, BaseException):
            raise end

        failures = {"error": {"model_bad_request": 1}, "outage": {"model_server": 1}}.get(end, {})
        if failures:
            end = "error"

        counts = StepCounts(failures=failures).record()
        record = AnswerRecord(
            **asdict(counts),
            step=step,
            sample="s",
            provenance=end,
            answer=None,
            facts={},
            scores={},
        )

        return JournalEntry(step=record, transcript=transcript_entry(step), memory=None)

    def event(self, record: AnswerRecord) -> SampleFinished:
        return SampleFinished(SPEC, record.step, self.total_steps, 0, record.provenance)

    def encode(self, records: Sequence[AnswerRecord]) -> tuple[str, bytes]:
        return ANSWERS, pack_lines(records)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(claim_folder(tmp_path / "run"), MANIFEST)


EVENTS: list[Event] = []  #: of the last play


def play(
    folder: RunFolder, script: Script, max_errors: int | None = None, stop: StopSignal | None = None
) -> tuple[str | None, StopSignal]:
    events = EVENTS
    events.clear()
    stop = stop or StopSignal()
    context = EpisodeContext(
        lambda: script,
        folder,
        events.append,
        stop,
        lambda text: text.replace("secret", "…"),
        max_errors,
    )

    return run_episode(SPEC, context).error, stop


def recorded(folder: RunFolder) -> list[int]:
    return [
        entry.step.step
        for entry in read_journal(folder.episode_path(SPEC) / "journal.jsonl", Script.entry_type)
    ]


def test_all_steps_become_one_file(folder: RunFolder) -> None:
    assert play(folder, Script(["model", "error", "fallback"]))[0] is None
    assert [record.provenance for record in folder.load_answers(SPEC)] == [
        "model",
        "error",
        "fallback",
    ]
    assert folder.load_recorded(SPEC)[1] == [
        transcript_entry(0),
        transcript_entry(1),
        transcript_entry(2),
    ]


def test_consecutive_steps_with_failed_calls_stop_the_run(
    folder: RunFolder,
) -> None:
    error, stop = play(
        folder, Script([*["error", "error", "model"] * 2, *["error"] * 9]), max_errors=3
    )

    assert error is not None
    assert error.startswith(
        "3 steps in a row ended in a failed call (model_bad_request); fix the cause, then run the same command"
        " again"
    )
    assert isinstance(stop.reason, ProviderError)
    assert recorded(folder) == list(range(8))


def test_a_step_that_failed_by_an_outage_is_not_recorded(folder: RunFolder) -> None:
    error, stop = play(folder, Script(["model", "error", "outage", "model"]), max_errors=3)

    assert error is not None
    assert error.startswith("a call of a step failed for good (server)")
    assert isinstance(stop.reason, ProviderError)
    assert recorded(folder) == [0, 1]

    assert play(folder, Script(["model"] * 4), max_errors=3)[0] is None
    assert [each.provenance for each in folder.load_answers(SPEC)] == ["model", "error", "model", "model"]  # fmt: skip


def test_a_free_model_that_fails_by_plan_holds_and_goes_on(folder: RunFolder) -> None:
    assert play(folder, Script(["model", "outage", "model"]), max_errors=None)[0] is None


def test_a_stopped_run_resumes_where_it_stopped(folder: RunFolder) -> None:
    play(folder, Script(["model", ProviderError("no quota")]))
    script = Script(["model", "model"])
    assert play(folder, script)[0] is None
    assert script.run == [1]


def test_what_stops_one_episode_stops_the_others_with_the_same_reason(folder: RunFolder) -> None:
    stop = StopSignal()
    stop.stop(ProviderError("no quota"))
    script = Script(["model"])

    assert play(folder, script, stop=stop)[0] == "no quota"
    assert script.run == []


def test_defect_is_located_without_secrets_and_fails_only_its_episode(
    folder: RunFolder,
) -> None:
    error, stop = play(folder, Script([ValueError("the secret is out")]))
    assert error is not None
    assert error.startswith("ValueError: the … is out (")
    assert "test_store.py:" in error
    assert EVENTS[-1] == EpisodeFailed(SPEC, error)
    assert play(folder, Script([ModelError("server", "down")]), stop=stop)[0] == "down"
    assert not stop.is_set()
