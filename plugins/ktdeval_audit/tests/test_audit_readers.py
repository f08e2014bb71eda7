"""Logs of other programs are read as decisions with their texts, days and models."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

from audit_play import FILES, conversation, day, write_lines
from ktdeval.errors import DataError, UsageError
from ktdeval_audit.audit import AuditSettings, audit_log
from ktdeval_audit.decision_days import date_log
from ktdeval_audit.log_types import AgentLog
from ktdeval_audit.readers import read_log
from ktdeval_audit.readers.records import _find_texts

REAL = {
    "openinference_spans.jsonl": "spans",
    "openinference_otlp.json": "spans",
    "genai_spans.jsonl": "spans",
    "langsmith_runs.jsonl": "langsmith",
    "inspect.eval": "inspect",
    "inspect.json": "inspect",
}


@pytest.mark.parametrize(("name", "kind"), REAL.items())
def test_log_written_by_the_package_yields_decisions_texts_and_model(name: str, kind: str) -> None:
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
    assert "2024-03-08" in report.findings[0].examples[0]


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


REPORTED = [folder / "shared/data/reported" for folder in Path(__file__).resolve().parents]


@pytest.mark.parametrize(
    "record",
    [
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Today is 2024-03-06."}]},
                {"role": "model", "parts": [{"functionCall": {"name": "quote", "args": {}}}]},
                {"role": "user", "parts": [{"functionResponse": {"response": {"day": "LATE"}}}]},
            ]
        },
        {
            "conversations": [
                {"from": "human", "value": "Today is 2024-03-06."},
                {"from": "observation", "value": "as of LATE"},
                {"from": "gpt", "value": "BUY"},
            ]
        },
        {"date": "2024-03-06", "prompt": "It closed at 5 on LATE.", "response": "BUY"},
        {"new_messages": [{"role": "user", "content": "today's (2024-03-06): as of LATE"}]},
        {"2024-03-06": {"trade_date": "2024-03-06", "market_report": "It fell on LATE."}},
        {
            "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": "Today is 2024-03-06: LATE"},
        },
        {
            "data": [
                {
                    "traceId": "t",
                    "type": "GENERATION",
                    "input": [{"role": "user", "content": "Today is 2024-03-06."}],
                },
                {"traceId": "t", "type": "TOOL", "output": {"as_of": "LATE"}},
            ]
        },
        {
            "info": {"trace_id": "t"},
            "data": {
                "spans": [
                    {
                        "trace_id": "t",
                        "span_id": "s",
                        "attributes": {
                            "mlflow.spanType": '"CHAIN"',
                            "mlflow.spanInputs": '{"question": "Today is 2024-03-06."}',
                        },
                    },
                    {
                        "trace_id": "t",
                        "parent_span_id": "s",
                        "attributes": {
                            "mlflow.spanType": '"TOOL"',
                            "mlflow.spanOutputs": '"as of LATE"',
                        },
                    },
                ]
            },
        },
        {
            "context.trace_id": "t",
            "span_kind": "LLM",
            "attributes.llm.input_messages": [
                {"message.role": "user", "message.content": "Today is 2024-03-06: LATE"}
            ],
        },
    ],
)
def test_a_late_date_is_found_in_the_form_of_each_program(tmp_path: Path, record: object) -> None:
    early = tmp_path / "early.json"
    early.write_text(json.dumps(record).replace("LATE", "2024-03-05"), encoding="utf-8")
    late = tmp_path / "late.json"
    late.write_text(json.dumps(record).replace("LATE", "2024-03-08"), encoding="utf-8")

    rules = AuditSettings(rules=("date-after",))
    assert audit_log(read_log(early), None, rules).findings == ()
    (found,) = audit_log(read_log(late), None, rules).findings
    assert (found.level, found.day) == ("error", "2024-03-06")


PAGE_EXPORT = {
    "trace": {
        "id": "t1",
        "name": "desk",
        "input": '{"question": "Today is 2024-03-06."}',
        "output": '{"content": "BUY"}',
    },
    "observations": [
        {
            "id": "o2",
            "traceId": "t1",
            "type": "TOOL",
            "startTime": "2024-03-09T10:00:02Z",
            "output": "as of 2024-03-05",
        },
        {
            "id": "o1",
            "traceId": "t1",
            "type": "GENERATION",
            "startTime": "2024-03-09T10:00:01Z",
            "input": [{"role": "user", "content": "Today is 2024-03-06."}],
            "output": {"instructions": "You trade.", "role": "assistant", "content": "BUY"},
        },
    ],
}


def test_a_page_export_of_langfuse_is_one_trace(tmp_path: Path) -> None:
    log = _read(tmp_path, PAGE_EXPORT)

    assert [each.name for each in log.decisions] == ["trace t1"]
    assert texts_of(log) == [
        ("prompt", "Today is 2024-03-06."),
        ("prompt", "You trade."),
        ("reply", "BUY"),
        ("tool", "as of 2024-03-05"),
    ]


def _call(*messages: tuple[str, str], output: str = "", **fields: object) -> dict[str, object]:
    """A call as TradingAgents writes it into `llm_calls.json`."""
    return {
        "serialized": {"kwargs": {"model_name": "gpt-5.4-mini"}, "name": "ChatOpenAI"},
        "messages": [{"type": kind, "content": text, "tool_calls": []} for kind, text in messages],
        "output": output,
        "usage": {"total_tokens": len(output)},
        **fields,
    }


SYSTEM = ("SystemMessage", "You trade.")
ASKED = ("HumanMessage", "Today is 2024-03-06. Decide on ACME.")
SHOWN = ("ToolMessage", "as of 2024-03-05")


def test_calls_that_repeat_the_messages_before_them_are_one_decision(tmp_path: Path) -> None:
    path = tmp_path / "llm_calls.json"
    calls = [_call(SYSTEM, ASKED, output="quote()"), _call(SYSTEM, ASKED, SHOWN, output="BUY")]
    path.write_text(json.dumps(calls), encoding="utf-8")
    log = read_log(path)

    assert texts_of(log) == [
        ("prompt", "You trade."),
        ("prompt", "Today is 2024-03-06. Decide on ACME."),
        ("reply", "quote()"),
        ("tool", "as of 2024-03-05"),
        ("reply", "BUY"),
    ]
    assert [each.models for each in log.decisions] == [("gpt-5.4-mini",)]


@pytest.mark.parametrize(
    "later",
    [
        _call(SYSTEM, ASKED, output="SELL"),
        _call(SYSTEM, ("HumanMessage", "Today is 2024-03-07."), SHOWN),
        _call(SYSTEM, ASKED, SHOWN, trade_date="2024-03-07"),
        _call(SYSTEM, ASKED, SHOWN, id="another"),
    ],
    ids=["asked again", "another prompt", "another day", "an id of its own"],
)
def test_other_calls_are_decisions_of_their_own(tmp_path: Path, later: object) -> None:
    assert len(_read(tmp_path, _call(SYSTEM, ASKED, output="BUY"), later).decisions) == 2


def test_states_of_several_days_in_one_object_are_no_columns_of_a_table(tmp_path: Path) -> None:
    state = {"company_of_interest": "ACME", "market_report": "It rose.", "news_report": "None."}
    days = {f"2024-03-0{day}": {**state, "trade_date": f"2024-03-0{day}"} for day in (5, 6)}
    log = _read(tmp_path, days)

    assert log.kind == "tradingagents"
    assert _days(log) == ["2024-03-05"] * 2 + ["2024-03-06"] * 2


def test_the_advice_of_a_refusal_reads_the_log(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "log.jsonl", [{"day": "2024-03-06", "shown": "as of 2024-03-08", "said": "BUY"}]
    )
    with pytest.raises(UsageError, match="no known kind of log: day, shown, said") as refused:
        read_log(path)
    assert "--prompt shown --response said" in str(refused.value)

    named = {"--prompt": "shown", "--response": "said"}
    assert texts_of(read_log(path, None, named)) == [
        ("prompt", "as of 2024-03-08"),
        ("reply", "BUY"),
    ]
    with pytest.raises(UsageError, match="no record has a text at --prompt sent; keys: day, shown"):
        read_log(path, None, {"--prompt": "sent"})


def test_named_messages_may_stand_in_a_list_of_one_object(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    turns = [{"who": "desk", "words": "Today is 2024-03-06."}]
    path.write_text(json.dumps({"runs": [{"log": turns}, {"log": turns}]}), encoding="utf-8")

    assert len(read_log(path, None, {"--messages": "runs.log"}).decisions) == 2


def test_rows_of_a_csv_are_decisions(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        'date,prompt,response\n2024-03-06,"Sold\non 2024-03-08",HOLD\n2024-03-07,Decide.,BUY\n',
        encoding="utf-8",
    )
    log = read_log(path)

    assert texts_of(log, 1) == [("prompt", "Decide."), ("reply", "BUY")]
    assert [each.line for each in log.decisions] == [2, 4]


@pytest.mark.parametrize("number", ["a01", "a04", "a06", "a10", "a13", "a15", "a16"])
def test_a_reported_log_has_its_one_error(number: str) -> None:
    files = [file for folder in REPORTED for file in folder.glob(f"{number}_*")]
    if not files:
        pytest.skip("the reported files are not here")

    report = audit_log(read_log(files[0]), None, AuditSettings(rules=("date-after",)))
    assert [(each.level, each.day) for each in report.findings] == [("error", "2025-07-09")]


# ---- days


def _days(log: AgentLog, **options: object) -> list[str]:
    return [str(each.day) for each in date_log(log, **options).texts]  # type: ignore[arg-type]


STRONG = "Today is 2024-03-05."
LINE = "Decide.\nDate: 2024-03-06"
WEAK = "Fundamentals as of 2024-03-07."


@pytest.mark.parametrize(
    ("prompts", "days"),
    [
        ((STRONG,), ["05"]),
        ((WEAK,), ["07"]),
        ((STRONG, WEAK), ["05", "05"]),
        ((WEAK, STRONG), ["05", "05"]),
        ((STRONG, LINE), ["05", "05"]),
        ((LINE, WEAK), ["06", "06"]),
        ((WEAK, LINE, "Sales as of 2024-03-08."), ["06", "06", "06"]),
        ((STRONG, WEAK, "Today is 2024-03-08."), ["05", "05", "08"]),
        ((WEAK, "Prices up to 2024-03-08."), ["07", "08"]),
        ((f"{WEAK} {STRONG}",), ["05"]),
        (("Decide.", STRONG, "And now?"), ["05", "05", "05"]),
        ((("Decide.", "2024-03-04"), WEAK), ["04", "04"]),
        (((STRONG, "2024-03-04"), "Today is 2024-03-08."), ["04", "08"]),
    ],
)
def test_the_clearest_words_of_a_decision_give_its_days(
    tmp_path: Path, prompts: tuple[str | tuple[str, str], ...], days: list[str]
) -> None:
    """A prompt is its text, or its text with the field `trade_date` beside it."""
    messages = []
    for prompt in prompts:
        text, *field = (prompt,) if isinstance(prompt, str) else prompt
        messages.append({"role": "user", "content": text, "trade_date": "".join(field)})

    found = _days(_read(tmp_path, {"messages": messages}))
    assert found == [f"2024-03-{day}" for day in days]


def test_a_table_of_decisions_gives_the_days(tmp_path: Path) -> None:
    log = _read(tmp_path, {"id": "a", **conversation("")})
    table = tmp_path / "days.csv"
    table.write_text("decision,day\na,2024-01-04\n", encoding="utf-8")

    assert set(_days(log, day_map=table)) == {"2024-01-04"}


def test_a_log_without_days_says_how_to_name_them(tmp_path: Path) -> None:
    log = _read(tmp_path, {"messages": [{"role": "user", "content": "hi"}], "epoch": 5})

    with pytest.raises(UsageError, match=r"--day-field.*--day-map.*fields: epoch"):
        date_log(log)
    with pytest.raises(UsageError, match="--day-field 'when': not found in any decision"):
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

    with pytest.raises(
        DataError, match="is a pickle file, which can run code; write the log as JSON"
    ):
        read_log(path)


@pytest.mark.exhaustive
def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.eval"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("samples/a.json", b" " * (65 << 20))

    with pytest.raises(DataError, match="unpacks to more than the size limit"):
        read_log(path)


def test_an_unknown_form_names_the_forms(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"a": 1}), encoding="utf-8")

    with pytest.raises(UsageError, match=r"matches no known kind of log.*--from.*langsmith"):
        read_log(path)
    with pytest.raises(UsageError, match="--from 'span' is not a known kind of log; did you mean"):
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


# ---- trajectories of Harbor


def trajectory(*steps: dict[str, object], **fields: object) -> dict[str, object]:
    """A trajectory in ATIF 1.7, as Harbor's models of it have it."""
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
    agent = {"name": "claude-code", "version": "2.1", "model_name": "claude-opus-4-7"}
    return {
        "schema_version": "ATIF-v1.7",
        "session_id": "run-1",
        "agent": agent,
        "steps": numbered,
        **fields,
    }


PROMPT = {"source": "user", "message": "Today is 2024-03-06. Decide on ACME."}
LATE = '{"symbol": "ACME", "as_of": "2024-03-08", "close": 103.17}'
QUOTE = {
    "source": "agent",
    "message": "I look.",
    "reasoning_content": "hm",
    "tool_calls": [
        {"tool_call_id": "c1", "function_name": "quote", "arguments": {"symbol": "ACME"}}
    ],
    "observation": {"results": [{"source_call_id": "c1", "content": LATE}]},
}
QUOTE_TEXTS = [
    ("reply", "I look."),
    ("reply", "hm"),
    ("reply", '{"symbol":"ACME"}'),
    ("tool", LATE),
]


def texts_of(log: AgentLog, number: int = 0) -> list[tuple[str, str]]:
    return [(text.role, text.text) for text in log.decisions[number].texts]


@pytest.mark.parametrize("version", ["ATIF-v1.0", "ATIF-v1.7", "ATIF-v1.8"])
def test_a_trajectory_has_messages_thoughts_calls_and_results(tmp_path: Path, version: str) -> None:
    parts = [{"type": "text", "text": "part"}, {"type": "image", "source": {"path": "a.png"}}]
    system = {"source": "system", "message": "You trade."}
    last = {"source": "agent", "message": parts, "model_name": "claude-haiku-5-5"}
    log = _read(tmp_path, trajectory(system, PROMPT, QUOTE, last, schema_version=version))

    assert log.kind == "atif"
    assert texts_of(log) == [
        ("prompt", "You trade."),
        ("prompt", PROMPT["message"]),
        *QUOTE_TEXTS,
        ("reply", "part"),
    ]
    assert log.decisions[0].name == "run-1"
    assert log.decisions[0].models == ("claude-opus-4-7", "claude-haiku-5-5")


def test_a_file_of_harbor_is_one_indented_object(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(trajectory(PROMPT, QUOTE), indent=2))

    assert texts_of(read_log(path))[1:] == QUOTE_TEXTS


def test_subagents_are_read_once_where_a_step_refers_to_them(tmp_path: Path) -> None:
    def subagent(identity: str, word: str) -> dict[str, object]:
        return trajectory({"source": "agent", "message": word}, trajectory_id=identity)

    delegates = {
        "source": "agent",
        "message": "I ask.",
        "observation": {
            "results": [
                {"subagent_trajectory_ref": [{"trajectory_id": "b"}]},
                {"subagent_trajectory_ref": [{"trajectory_id": "b"}]},
                {"subagent_trajectory_ref": [{"trajectory_path": "elsewhere.json"}]},
            ]
        },
    }
    closes = {"source": "agent", "message": "BUY"}
    embedded = [subagent("a", "of a"), subagent("b", "of b")]
    log = _read(tmp_path, trajectory(PROMPT, delegates, closes, subagent_trajectories=embedded))

    assert [text for _, text in texts_of(log)][1:] == ["I ask.", "of b", "BUY", "of a"]
    assert log.notes == ("A subagent's trajectory is in 'elsewhere.json', which was not read.",)


def test_subagents_of_one_name_are_all_read(tmp_path: Path) -> None:
    """ATIF forbids equal names; a log may hold them all the same."""
    embedded = [
        trajectory({"source": "agent", "message": word}, trajectory_id="a") for word in "xy"
    ]
    log = _read(tmp_path, trajectory(PROMPT, subagent_trajectories=embedded))

    assert [text for _, text in texts_of(log)][1:] == ["x", "y"]


def test_a_subagent_that_refers_to_itself_is_read_once(tmp_path: Path) -> None:
    refers = {
        "source": "agent",
        "message": "again",
        "observation": {"results": [{"subagent_trajectory_ref": [{"trajectory_id": "a"}]}]},
    }
    own = trajectory({**refers, "message": "inside"}, trajectory_id="a")

    log = _read(tmp_path, trajectory(PROMPT, refers, subagent_trajectories=[own]))

    assert [text for _, text in texts_of(log)][1:] == ["again", "inside"]


def test_what_a_step_keeps_of_a_tool_is_no_day_of_the_decision(tmp_path: Path) -> None:
    """Harbor's adapter of Claude Code keeps the raw result of a tool with the step."""
    step = {**QUOTE, "extra": {"tool_use_result": {"as_of": "2024-03-08"}}}
    path = write_lines(tmp_path / "log.jsonl", [trajectory(PROMPT, step)])
    findings = audit_log(read_log(path), None, AuditSettings(rules=("date-after",))).findings

    assert [(each.rule, each.day) for each in findings] == [("date-after", "2024-03-06")]


# ---- events of Claude Code


def event(kind: str, content: object, **fields: object) -> dict[str, object]:
    message = {"role": kind, "content": content}
    return {"type": kind, "message": message, "session_id": "s", "uuid": "u", **fields}


INIT = {"type": "system", "subtype": "init", "session_id": "s", "model": "claude-opus-5-5"}


CALL = {"type": "tool_use", "id": "t", "name": "quote", "input": {"symbol": "ACME"}}
RETURNED = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": LATE}]}


STREAM = [
    {"type": "system", "subtype": "hook_response", "session_id": "s", "output": "be brief"},
    INIT,
    event("user", PROMPT["message"], parent_tool_use_id=None),
    {"type": "stream_event", "session_id": "s", "event": {"type": "content_block_delta"}},
    event("assistant", [{"type": "thinking", "thinking": "hm", "signature": "x"}]),
    event("assistant", [CALL]),
    event("user", [RETURNED], tool_use_result={"as_of": "2024-03-08"}),
    {"type": "rate_limit_event", "session_id": "s"},
    event("assistant", [{"type": "text", "text": "BUY"}]),
    {"type": "result", "subtype": "success", "session_id": "s", "result": "BUY"},
]
STREAM_TEXTS = [
    ("tool", "be brief"),
    ("prompt", PROMPT["message"]),
    ("reply", "hm"),
    ("reply", '{"symbol":"ACME"}'),
    ("tool", LATE),
    ("reply", "BUY"),
]


@pytest.mark.parametrize("is_list", [False, True])
def test_a_stream_of_claude_code_is_a_session(tmp_path: Path, is_list: bool) -> None:
    """`--output-format stream-json`, or `json` with --verbose: the same events as a list."""
    path = write_lines(tmp_path / "log.jsonl", [STREAM] if is_list else STREAM)
    log = read_log(path)

    assert log.kind == "claude-code"
    assert texts_of(log) == STREAM_TEXTS
    assert log.decisions[0].models == ("claude-opus-5-5",)
    assert log.notes == ("Records without text were left out: 1 rate_limit_event, 1 system/init.",)

    findings = audit_log(log, None, AuditSettings(rules=("date-after",))).findings
    assert [(each.rule, each.day) for each in findings] == [("date-after", "2024-03-06")]


def test_a_transcript_of_claude_code_is_read_by_session(tmp_path: Path) -> None:
    def turn(session: str, kind: str, content: object) -> dict[str, object]:
        return {
            "parentUuid": None,
            "isSidechain": False,
            "sessionId": session,
            "type": kind,
            "message": {"role": kind, "content": content, "model": "<synthetic>"},
            "toolUseResult": {"as_of": "2024-03-08"},
        }

    log = _read(
        tmp_path,
        {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}},
        turn("x", "user", "Today is 2024-03-06."),
        turn("y", "user", "Today is 2024-03-07."),
        turn("x", "assistant", [{"type": "text", "text": "HOLD"}]),
    )

    assert log.kind == "claude-code"
    assert [each.name for each in log.decisions] == ["x", "y"]
    assert texts_of(log) == [("prompt", "Today is 2024-03-06."), ("reply", "HOLD")]
    assert log.decisions[0].models == ()
    assert [str(each) for each in date_log(log).days] == ["2024-03-06", "2024-03-07"]


@pytest.mark.parametrize("kind", ["atif", "claude-code"])
@pytest.mark.parametrize(
    "record",
    [
        {"schema_version": "ATIF-v1.7", "agent": None, "steps": [None, 1, {"observation": []}]},
        {"schema_version": "ATIF-v1.7", "steps": [{"message": {"a": 1}, "tool_calls": 3}]},
        {"type": "assistant", "session_id": 3, "message": {"content": None}},
        {"type": "system", "subtype": "init", "model": ["x"]},
        [[], "x", None],
    ],
)
def test_a_log_without_texts_is_said_to_have_none(
    tmp_path: Path, kind: str, record: object
) -> None:
    path = write_lines(tmp_path / "log.jsonl", [record])

    with pytest.raises(UsageError, match=f"read as {kind}, the log has no messages with text"):
        read_log(path, kind)


def test_fields_of_a_record_are_not_copied_for_each_of_its_keys() -> None:
    lists: dict[str, Any] = {
        f"c{number}": [{"role": "user", "content": "x"}] for number in range(9)
    }

    found = [fields for _, fields in _find_texts({"model": "m", **lists}, {})]

    assert len(found) == 9
    assert all(each is found[0] for each in found)
