"""Logs of other programs are read as decisions with their texts, days and models."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path

import pytest

from audit_play import FILES, conversation, day, write_lines
from ktdeval.errors import DataError, UsageError
from ktdeval_audit.audit import AuditSettings, audit_log
from ktdeval_audit.decision_days import date_log
from ktdeval_audit.log_types import AgentLog
from ktdeval_audit.readers import read_log

REAL = {
    "openinference_spans.jsonl": "spans",
    "openinference_otlp.json": "spans",
    "genai_spans.jsonl": "spans",
    "langsmith_runs.jsonl": "langsmith",
    "inspect.eval": "inspect",
    "inspect.json": "inspect",
}


@pytest.mark.parametrize(("name", "kind"), REAL.items())
def test_a_log_written_by_the_package_itself_has_its_decisions_texts_and_model(
    name: str, kind: str
) -> None:
    log = read_log(FILES / name)

    assert log.kind == kind
    assert len(log.decisions) == 2
    texts = [(text.role, text.text) for text in log.decisions[1].texts]
    assert ("prompt", "You trade US stocks. Answer with one JSON object.") in texts
    assert ("prompt", "Today is 2024-03-06. Decide on ACME.") in texts
    assert ("tool", '{"symbol": "ACME", "as_of": "2024-03-08", "close": 103.17}') in texts
    assert ("reply", '{"action": "BUY", "weight": 0.2, "reason": "momentum"}') in texts
    assert log.decisions[0].models in [("gpt-4o-2024-08-06",), ("mockllm/model",)]


@pytest.mark.parametrize("name", REAL)
def test_the_leak_of_each_real_log_is_the_only_finding(name: str) -> None:
    report = audit_log(read_log(FILES / name), None, AuditSettings(rules=("date-after",)))

    assert [(each.rule, each.level, each.day) for each in report.findings] == [
        ("date-after", "error", "2024-03-06")
    ]
    assert "2024-03-08" in report.findings[0].excerpt


def _read(folder: Path, *records: object) -> AgentLog:
    return read_log(write_lines(folder / "log.jsonl", records))


def test_blocks_of_anthropic_are_texts_calls_and_results(tmp_path: Path) -> None:
    content = [
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "5"}]}
    ]
    record = {
        "request": {
            "model": "claude-sonnet-4-5",
            "system": "You trade.",
            "messages": [{"role": "user", "content": content}],
        },
        "response": {
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "BUY"},
                {"type": "tool_use", "name": "f", "input": {"a": 1}},
            ]
        },
    }

    decision = _read(tmp_path, record).decisions[0]

    assert [(text.role, text.text) for text in decision.texts] == [
        ("prompt", "You trade."),
        ("tool", "5"),
        ("reply", "hm"),
        ("reply", "BUY"),
        ("reply", '{"a":1}'),
    ]
    assert decision.models == ("claude-sonnet-4-5",)


def test_items_of_the_responses_api_are_calls_and_results(tmp_path: Path) -> None:
    record = {
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Today is 2024-03-05."}]},
            {"type": "function_call", "name": "f", "arguments": '{"a": 1}'},
            {"type": "function_call_output", "output": "101.52"},
        ],
        "response": {
            "output": [{"type": "message", "content": [{"type": "output_text", "text": "B"}]}]
        },
    }

    texts = _read(tmp_path, record).decisions[0].texts

    assert [(text.role, text.text) for text in texts] == [
        ("prompt", "Today is 2024-03-05."),
        ("reply", '{"a": 1}'),
        ("tool", "101.52"),
        ("reply", "B"),
    ]


def test_single_messages_are_joined_by_their_thread(tmp_path: Path) -> None:
    log = _read(
        tmp_path,
        {"role": "user", "content": "a", "thread_id": "x"},
        {"role": "user", "content": "b", "thread_id": "y"},
        {"role": "assistant", "content": "c", "thread_id": "x"},
    )

    assert [[text.text for text in each.texts] for each in log.decisions] == [["a", "c"], ["b"]]
    assert [text.line for text in log.decisions[0].texts] == [1, 3]


# ---- days


def _days(log: AgentLog, **options: object) -> list[str]:
    return [str(each.day) for each in date_log(log, **options).texts]  # type: ignore[arg-type]


def test_each_turn_of_a_conversation_has_the_day_that_the_latest_prompt_names(
    tmp_path: Path,
) -> None:
    messages = [
        {"role": "system", "content": "You trade."},
        {"role": "user", "content": "Today is 2024-03-05."},
        {"role": "assistant", "content": "HOLD"},
        {"role": "user", "content": "Today is Wednesday, March 6, 2024."},
        {"role": "tool", "content": "as of 2024-03-08"},
    ]

    days = _days(_read(tmp_path, {"messages": messages}))

    assert days == ["2024-03-05"] * 3 + ["2024-03-06"] * 2


def test_a_field_counts_more_than_the_prompt_and_a_given_field_more_than_both(
    tmp_path: Path,
) -> None:
    record = conversation("", metadata={"trade_date": "2024-01-03", "known": "2024-01-02"})
    log = _read(tmp_path, record)

    assert set(_days(log)) == {"2024-01-03"}
    assert set(_days(log, day_field="known")) == {"2024-01-02"}


def test_a_table_of_decisions_gives_the_days(tmp_path: Path) -> None:
    log = _read(tmp_path, {"id": "a", **conversation("")})
    table = tmp_path / "days.csv"
    table.write_text("decision,day\na,2024-01-04\n", encoding="utf-8")

    assert set(_days(log, day_map=table)) == {"2024-01-04"}


def test_a_log_without_days_says_how_to_name_them(tmp_path: Path) -> None:
    log = _read(tmp_path, {"messages": [{"role": "user", "content": "hi"}], "epoch": 5})

    with pytest.raises(UsageError, match=r"--day-field.*--day-map.*fields: epoch"):
        date_log(log)
    with pytest.raises(UsageError, match="--day-field 'when': no decision"):
        date_log(log, "when")


def test_a_field_that_holds_no_day_is_named_with_its_line(tmp_path: Path) -> None:
    log = _read(tmp_path, {**conversation(""), "when": "soon"})

    with pytest.raises(DataError, match="line 1: --day-field when holds 'soon'"):
        date_log(log, "when")


# ---- refusals


def test_a_bad_line_is_named_with_its_number(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "log.jsonl", [conversation(""), conversation("")])
    path.write_text(path.read_text(encoding="utf-8") + "{broken\n", encoding="utf-8")

    with pytest.raises(DataError, match=r"log\.jsonl:3: is not JSON"):
        read_log(path)


def test_a_pickle_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "log.pkl"
    path.write_bytes(pickle.dumps({"a": 1}))

    with pytest.raises(DataError, match="is a pickle, which can run code; write the log as JSON"):
        read_log(path)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/a.json", b" " * (65 << 20))

    with pytest.raises(DataError, match="unpacks to more than may be read"):
        read_log(path)


def test_an_unknown_form_names_the_forms(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"a": 1}), encoding="utf-8")

    with pytest.raises(UsageError, match=r"keys of no known log.*--from.*langsmith"):
        read_log(path)
    with pytest.raises(UsageError, match="--from 'span' is not a kind of log; did you mean"):
        read_log(path, "span")


def test_the_prompt_names_the_day_in_many_ways() -> None:
    from ktdeval_audit.decision_days import stated_day

    for text in (
        "Today is Tuesday, March 5, 2024.",
        "Current date: **2024-03-05**",
        "Day 2024-03-05 has closed (step 0).",
        "Date: 2024/03/05",
        "今天是2024年3月5日",
        "Data as of 5 March 2024.",
    ):
        assert str(stated_day(text)) == "2024-03-05", text

    assert stated_day("The company was founded on 2024-03-05.") is None
    assert day() == "2023-05-22"
