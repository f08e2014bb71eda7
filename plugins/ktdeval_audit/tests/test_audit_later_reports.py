"""Reports of a later day are leaks, whatever nouns of plans stand beside their date; and what holds no
decision, or nothing that an agent was shown, is not called clean.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from audit_play import conversation, day, findings_of
from ktdeval.testing import Terminal
from ktdeval_audit.date_evidence import evidence_of
from ktdeval_audit.named_dates import days_of_year, named_dates

NOUNS = ("consensus", "guidance", "outlook", "forecasts", "estimates")
REPORTS = (
    "NVIDIA reported revenue of $46.7 billion on August 27, 2025, beating {noun} of $46.2 billion.",
    "NVIDIA reported results on August 27, 2025, above {noun}.",
    "Above all {noun}, NVIDIA posted record sales on August 27, 2025.",
    "On August 27, 2025 NVIDIA announced results that were better than {noun}.",
)


def evidence(text: str) -> str:
    (date,) = (*named_dates(text), *days_of_year(text))
    return evidence_of(text, date.start, date.end)


@pytest.mark.parametrize(("form", "noun"), list(product(REPORTS, NOUNS)))
def test_a_report_of_a_later_day_is_known_beside_any_noun_of_plans(form: str, noun: str) -> None:
    assert evidence(form.format(noun=noun)) == "known"


@pytest.mark.parametrize("noun", NOUNS)
def test_a_noun_at_the_head_of_the_date_is_a_plan(noun: str) -> None:
    assert evidence(f"The {noun} for August 27, 2025 have not moved.") == "planned"


@pytest.mark.parametrize(
    "text",
    [
        "Cisco, which reported in May, is due to publish its results on August 13, 2025.",
        "Results are to be reported on August 27, 2025.",
        "Data are published on August 12, 2025.",
        "We trimmed our estimates ahead of the print on August 21, 2025.",
        "The company announced a conference call on August 21, 2025.",
        "The board declared a dividend, payable on September 12, 2025.",
        "They raised the guidance for the quarter ending October 26, 2025.",
    ],
)
def test_a_verb_of_reporting_that_does_not_govern_the_date_is_no_report(text: str) -> None:
    assert evidence(text) == "planned"


def decision(text: str, decided: str) -> dict[str, object]:
    return {
        "messages": [
            {"role": "user", "content": f"Today is {decided}. Decide."},
            {"role": "tool", "content": text},
            {"role": "assistant", "content": "HOLD"},
        ]
    }


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        # NVIDIA's second quarter of 2026 ended in July 2025
        ("NVIDIA reported Q2 2026 revenue of $46.7bn.", []),
        ("Apple's Q1 2026 iPhone sales were up.", []),
        ("$NVDA Q2 2026 results were strong.", []),
        # a country has no fiscal quarters of its own
        ("Q1 2026 GDP was revised down.", ["warning"]),
        # not even a fiscal year begins so early
        ("NVIDIA reported Q2 2027 revenue of $90bn.", ["warning"]),
    ],
)
def test_a_quarter_beside_a_company_may_be_a_fiscal_one(
    text: str, levels: list[str], tmp_path: Path
) -> None:
    found = findings_of(tmp_path, decision(text, "2025-09-01"), "date-after")

    assert [finding.level for finding in found] == levels


# ---- what is no decision, and what is not in the log


def audited(tmp_path: Path, terminal: Terminal, *records: object) -> str:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    _, out, err = terminal.call("audit", path)
    return f"{out}{err}"


SETTINGS = {
    "model": "gpt-4.1",
    "temperature": 0.2,
    "description": "a desk",
    "system_prompt": "You trade. Today is 2025-08-05.",
}
PAIR = {"prompt": "Today is 2025-08-05. Buy?", "chosen": "Yes.", "rejected": "No."}
SESSION = {"type": "summary", "summary": "Trading on 2025-08-05", "sessionId": "s1"}
ASKED = {"role": "user", "content": "Today is 2025-08-05. Buy?"}
TURNS = {
    "chosen": [ASKED, {"role": "assistant", "content": "Yes."}],
    "rejected": [ASKED, {"role": "assistant", "content": "No."}],
}
INSTRUCTED = {"messages": [{"role": "system", "content": "You trade. Today is 2025-08-05."}]}


@pytest.mark.parametrize("record", [SETTINGS, PAIR, TURNS, SESSION, INSTRUCTED])
def test_settings_pairs_and_sessions_without_texts_are_no_decisions(
    record: dict[str, object], tmp_path: Path, terminal: Terminal
) -> None:
    printed = audited(tmp_path, terminal, record)

    assert "error" in printed
    assert "Nothing was found" not in printed


def test_settings_beside_a_conversation_are_left_out_and_counted(
    tmp_path: Path, terminal: Terminal
) -> None:
    printed = audited(tmp_path, terminal, SETTINGS, decision("quiet", "2025-08-05"))

    assert "1 decision of log.jsonl" in printed
    assert "1 record with settings left out: no decision." in printed


def test_a_log_without_results_of_tools_is_not_called_clean(
    tmp_path: Path, terminal: Terminal
) -> None:
    printed = audited(tmp_path, terminal, conversation("Decide."))

    assert printed.startswith(
        "What the agent was shown is not in this log beyond its prompts: it holds no tool results."
    )
    assert "Nothing was found" not in printed


def test_a_log_without_results_of_tools_says_so_beside_notes_and_annotations(
    tmp_path: Path, terminal: Terminal
) -> None:
    unseen = "What the agent was shown is not in this log beyond its prompts"
    record = conversation(f"The last day of the episode is {day(30)}.")
    path = tmp_path / "log.jsonl"

    assert audited(tmp_path, terminal, record).startswith(
        f"{unseen}: it holds no tool results. No error, but 1 note."
    )
    _, annotations, _ = terminal.call("audit", path, "--github")
    assert f"::notice title=ktdeval audit%3A not shown::{unseen}" in annotations
    _, _, _ = terminal.call("audit", path, "--sarif", tmp_path / "audit.sarif")
    assert unseen in (tmp_path / "audit.sarif").read_text()


def test_a_log_of_replies_alone_holds_nothing_that_was_shown(
    tmp_path: Path, terminal: Terminal
) -> None:
    reply = {"trade_date": "2025-08-05", "response": "HOLD"}

    assert audited(tmp_path, terminal, reply).startswith(
        "What the agent was shown is not in this log: it holds only replies."
    )


def test_a_log_with_results_of_tools_can_be_clean(tmp_path: Path, terminal: Terminal) -> None:
    printed = audited(tmp_path, terminal, decision("quiet", "2025-08-05"))

    assert printed.startswith("Nothing was found that the agent could not have known.")
