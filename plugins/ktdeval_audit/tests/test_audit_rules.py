"""Rules on texts: dates, identities, hindsight, documents, fills, cutoff."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from audit_play import (
    DAY,
    conversation,
    day,
    findings_of,
    market,
    report_of,
    write_lines,
)
from ktdeval.market import Document
from ktdeval_audit.audit import AuditSettings, audit_log
from ktdeval_audit.named_dates import named_dates
from ktdeval_audit.readers import read_log
from ktdeval_audit.report import report_lines

SPELLINGS = {
    "2024-03-08": ("2024-03-08", "day"),
    "2024/3/8": ("2024-03-08", "day"),
    "20240308": ("2024-03-08", "day"),
    "prices_20240308.csv": ("2024-03-08", "day"),
    "Mar 8th, 2024": ("2024-03-08", "day"),
    "the 8th of March 2024": ("2024-03-08", "day"),
    "8-Mar-2024": ("2024-03-08", "day"),
    "08MAR2024": ("2024-03-08", "day"),
    "8 mars 2024": ("2024-03-08", "day"),
    "2024年3月8日": ("2024-03-08", "day"),
    "1709856000": ("2024-03-08", "day"),
    '{"t": 1709856000000}': ("2024-03-08", "day"),
    "2024-W10": ("2024-03-04", "week"),
    "2024-03": ("2024-03-01", "month"),
    "March 2024": ("2024-03-01", "month"),
    "Mar '24": ("2024-03-01", "month"),
    "2024年3月": ("2024-03-01", "month"),
    "Q2 2024": ("2024-04-01", "quarter"),
    "2Q24": ("2024-04-01", "quarter"),
    "second quarter of 2024": ("2024-04-01", "quarter"),
    "2024年第二季度": ("2024-04-01", "quarter"),
    "H2 2024": ("2024-07-01", "half"),
    "FY2024": ("2024-01-01", "year"),
    # the two readings of 3/8 differ: the earlier one counts
    "8/3/2024": ("2024-03-08", "day"),
    "3/8/2024": ("2024-03-08", "day"),
}


@pytest.mark.parametrize(("text", "expected"), SPELLINGS.items())
def test_a_date_is_read_in_many_spellings(text: str, expected: tuple[str, str]) -> None:
    found = named_dates(text)

    assert [(str(each.first), each.unit) for each in found] == [expected]


@pytest.mark.parametrize(
    "text", ['{"volume": 20240308}', "[1,2024,3]", "2000 shares", "order 202403 of 5", "March 8th"]
)
def test_numbers_and_dates_without_a_year_are_no_dates(text: str) -> None:
    assert named_dates(text) == ()


def test_the_day_itself_and_earlier_dates_are_no_findings(tmp_path: Path) -> None:
    record = conversation(f"Since {day(-5)} it rose.", tool=f"as of {day()}, FY2022, Q1 2023")

    assert findings_of(tmp_path, record, "date-after") == []


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("The company will report on {later}.", "note"),
        ('{{"next_earnings_date": "{later}"}}', "note"),
        ("It was expected to fall, and closed lower on {later}.", "error"),
        ("The boom of 2031 was led by cars.", "warning"),
    ],
)
def test_a_scheduled_date_is_a_note_and_a_bare_year_a_warning(
    tmp_path: Path, text: str, level: str
) -> None:
    record = conversation("", tool=text.format(later=day(10)))

    assert [each.level for each in findings_of(tmp_path, record, "date-after")] == [level]


def test_a_models_own_text_may_plan_but_not_report(tmp_path: Path) -> None:
    plan = conversation("", reply=f"I hold until {day(10)}.")
    report = conversation("", reply=f"On {day(10)} it closed lower.")

    assert findings_of(tmp_path, plan, "date-after") == []
    assert [each.level for each in findings_of(tmp_path, report, "date-after")] == ["warning"]


def test_names_codes_and_dates_are_findings_only_under_a_claimed_mask(tmp_path: Path) -> None:
    name = market().names[1]
    record = conversation("", tool=f"{name} fell", reply="ok")

    assert findings_of(tmp_path, record, "identity") == []
    kinds = [each.message for each in findings_of(tmp_path, record, "identity", masked="both")]
    assert any("company" in why for why in kinds)
    assert any("calendar date" in why for why in kinds)


# ---- identities, hindsight


def test_a_name_in_base64_is_found_under_a_mask(tmp_path: Path) -> None:
    hidden = base64.b64encode(b"Testcorp 609000").decode()

    found = findings_of(tmp_path, conversation("", tool=hidden), "identity", masked="names")

    assert [("encoded" in each.message, each.level) for each in found] == [(True, "error")]


def test_reasons_of_hindsight_are_warnings_and_prompts_are_not_read(tmp_path: Path) -> None:
    words = "As we now know, this was the bottom."

    spoken = findings_of(tmp_path, conversation("", reply=words), "hindsight-words")
    assert [each.level for each in spoken] == ["warning"]
    assert findings_of(tmp_path, conversation(words), "hindsight-words") == []


# ---- documents


def test_quoting_a_document_from_a_later_day_is_an_error(
    tmp_path: Path,
) -> None:
    words = "The plant in Lunthra stops its second shift for three weeks because castings are late."
    at = datetime.fromisoformat(f"{day(2)}T04:00:00").replace(tzinfo=UTC)
    document = Document(at, at, "Wire", "news", (), "Plant in Lunthra stops a shift", words)
    documents = market().documents.with_items([document])
    with_news = replace(market(), documents=documents)

    for offset, count in ((0, 1), (3, 0)):
        record = conversation("", tool=f"News: {words}", metadata={"decided_on": day(offset)})
        log = read_log(write_lines(tmp_path / "log.jsonl", [record]))
        report = audit_log(log, with_news, AuditSettings(rules=("event-after",)))
        assert len(report.findings) == count

    record = conversation("", tool="Seen: Plant in Lunthra stops a shift")
    log = read_log(write_lines(tmp_path / "log.jsonl", [record]))
    report = audit_log(log, with_news, AuditSettings(rules=("event-after",)))
    assert [each.level for each in report.findings] == ["error"]


# ---- fills and cutoff


def test_fill_at_the_decision_bar_is_an_error_and_at_the_next_bar_is_valid(
    tmp_path: Path,
) -> None:
    code = market().codes[0]
    seen = float(market().close[DAY, 0])
    later = float(market().open[DAY + 1, 0])

    early = conversation("", fills=[{"code": code, "price": seen, "day": day()}])
    right = conversation("", fills=[{"code": code, "price": later, "day": day(1)}])

    assert [each.level for each in findings_of(tmp_path, early, "same-bar")] == ["error"]
    assert findings_of(tmp_path, right, "same-bar") == []


def test_the_share_of_days_before_the_cutoff_is_a_warning(tmp_path: Path) -> None:
    records = [conversation("", metadata={"decided_on": day(step)}) for step in (0, 10, 20, 30)]

    report = report_of(tmp_path, records, cutoff=day(10))

    assert report.cutoffs[0].share == 0.5
    (found,) = [each for each in report.findings if each.rule == "cutoff"]
    assert found.level == "warning"
    assert "2 of 4 decisions (50%)" in found.message


def test_an_unknown_cutoff_has_no_share(tmp_path: Path) -> None:
    report = report_of(tmp_path, [conversation("", model="nobody/knows")])

    assert [(each.cutoff, each.share) for each in report.cutoffs] == [("unknown", None)]


def test_after_a_lower_bound_memory_is_not_excluded(tmp_path: Path) -> None:
    """What others report of Kimi K2.6: it knows 2025-01, and perhaps later months."""
    messages = [{"role": "user", "content": "Today is 2025-03-03. Decide."}]
    record = {"model": "moonshot/kimi-k2.6", "messages": messages}
    report = report_of(tmp_path, [record], with_market=False)
    (facts,) = report.cutoffs

    assert (facts.cutoff, facts.is_lower_bound, facts.before) == ("2025-01", True, 0)
    assert (
        "cutoff of moonshot/kimi-k2.6: 2025-01 or later, so memory is not excluded (set it with"
        " --cutoff); 0 of 1 decisions before it"
    ) in "\n".join(report_lines(report))


def test_an_excerpt_hides_a_secret(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "Ab3" * 31
    record = conversation("", tool=f"key {key} as of {day(3)}")

    (found,) = findings_of(tmp_path, record, "date-after")

    assert key[:20] not in found.examples[0]
    assert day(3) in found.examples[0]


# ---- error texts of services


BOUND = (
    '{{"error": "HTTP 400: {{\\"errors\\": [{{\\"message\\": \\"Invalid \'start_time\':\'{now}\'. '
    "'start_time' must be on or after {later}T02:48Z\\\"}}]}}\"}}"
)


@pytest.mark.parametrize(
    "text",
    [BOUND, "start_time must be on or after {later}", "end_time must be a time before {later}."],
)
def test_a_bound_of_a_service_dates_the_run_and_is_no_leak(tmp_path: Path, text: str) -> None:
    record = conversation("Decide.", tool=text.format(now=day(), later=day(20)))
    (found,) = report_of(tmp_path, [record, record], with_market=False).findings

    assert (found.rule, found.level) == ("later-run", "note")
    assert f"bounds of {day(20)}, after the days of" in found.message
    assert "in a backtest" in found.message


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ('{{"error": "Data not found for date {later}. Verify the date."}}', "note"),
        ('{{"error": "No data. Available dates: [\'{later} 13:00:00\']", "code": 404}}', "note"),
        ("ValueError: no bars on {later}", "note"),
        # an error of another field, and one that did not happen, excuse nothing
        ('{{"error": null, "date": "{later}", "close": 103.17}}', "error"),
        ('{{"error": "none of the sources failed", "published": "{later}"}}', "error"),
        ('{{"error": "NVDA closed lower on {later}."}}', "error"),
        ("The bank must be sold: it failed on {later}.", "error"),
    ],
)
def test_a_date_in_an_error_text_was_not_shown_as_the_future(
    tmp_path: Path, text: str, level: str
) -> None:
    record = conversation("Decide.", tool=text.format(later=day(20)))
    levels = [each.level for each in findings_of(tmp_path, record, "date-after")]

    assert levels == [level]
