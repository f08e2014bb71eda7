"""Dates that a text names: one list finds and reads them, and words tell known from planned days."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from audit_play import conversation, day, findings_of, report_of
from ktdeval.market import NO_MARKET
from ktdeval.masking import identities_of
from ktdeval.values import load_yaml
from ktdeval_audit.date_evidence import evidence_of
from ktdeval_audit.decision_days import stated_day
from ktdeval_audit.named_dates import days_of_year, named_dates
from support.paths import REPOSITORY

THURSDAY = date(2025, 8, 14)
WITH_A_WEEKDAY = (
    "Thu, 14 Aug 2025 20:00:00 GMT",  # mail, HTTP, RSS
    "Thu, 14 Aug 2025 20:00:00 -0400",
    "Thursday, 14-Aug-25 20:00:00 GMT",  # RFC 850
    "Thu Aug 14 20:00:03 2025",  # asctime
    "Thu Aug 14 20:00:03 UTC 2025",  # date
    "Thu Aug 14 2025 20:00:00 GMT+0000 (Coordinated Universal Time)",  # JavaScript
    "Thursday, August 14, 2025",
    "Thursday August 14 2025",
    "THURSDAY, AUGUST 14, 2025",
    "Thursday, August 14th, 2025",
    "Thursday the 14th of August, 2025",
    "Thursday 14 August 2025",
    "Thurs., Aug. 14, 2025",
    "Thu 2025-08-14",
    "Thu 08/14/2025",
    "Thu 14AUG2025",
    "Thursday Aug 14 '25",
    "Thursday (14 August 2025)",
    "(Thu) 14 Aug 2025",
    "14 Aug 2025 (Thursday)",
    "2025-08-14 (Thu)",
    "周四 2025年8月14日",
    "星期四,2025年8月14日",
    "2025年8月14日(星期四)",
    "jeudi 14 août 2025",
    "Donnerstag, 14. August 2025",
    "jueves, 14 de agosto de 2025",
    "2025년 8월 14일 목요일",
    "二○二五年八月十四日",
)
NOT_READ = ("24092024", "09242024")  # numbers that may count something


@pytest.mark.parametrize("text", WITH_A_WEEKDAY)
def test_a_day_next_to_its_weekday_is_read(text: str) -> None:
    assert [(each.first, each.unit) for each in named_dates(text)] == [(THURSDAY, "day")]


@pytest.mark.parametrize("text", WITH_A_WEEKDAY)
def test_a_prompt_that_begins_with_any_of_these_gives_a_decision_its_day(text: str) -> None:
    assert stated_day(f"Today is {text}. Decide.") == THURSDAY


@pytest.mark.parametrize(
    "prompt",
    [
        "Analyze and update today's (2025-08-14) positions.",
        "请分析并更新今日（2025-08-14 11:30:00）的持仓。",
        "It is now Thursday, August 14th, 2025.",
        "You trade.\nDate: Thu, 14 Aug 2025 16:00:00 -0400",
        "**Current date:** __Thursday, 14 August 2025__",
    ],
)
def test_a_prompt_says_the_day_in_other_words(prompt: str) -> None:
    assert stated_day(prompt) == THURSDAY


def test_every_span_that_the_masks_find_with_a_year_is_read() -> None:
    """The masks know more spellings than an audit needs, but those with a year are all read."""
    masks = load_yaml(REPOSITORY / "tests/unit/masking/test_masking_dates.yaml")
    index = identities_of(NO_MARKET, assets=False, dates=True)
    not_read = set()
    for text in (*masks["whole"], *WITH_A_WEEKDAY, *NOT_READ):
        read = [(each.start, each.end) for each in (*named_dates(text), *days_of_year(text))]
        for hit in index.find(text, "answer"):
            has_year = any(year in text[hit.start : hit.end] for year in ("2024", "2025"))
            is_read = any(start < hit.end and hit.start < end for start, end in read)
            if has_year and not is_read:
                not_read.add(text)

    assert not_read == set(NOT_READ)


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("June 22-29, 2025", "2025-06-22"),
        ("Sept 24-26", None),
        ("late March 2024", "2024-03-21"),
        ("Close 2.2048", None),
        ("section 3.2.10", None),
        ("2035.05 1570.62", None),
        ("order id 20250814-01", None),
        ("ticket INC-2026-0114", None),
        ("build 2025.04.11-rc1", None),
        ("account 4417-2039", None),
    ],
)
def test_ranges_are_read_by_their_first_day_and_numbers_are_not_read(
    text: str, first: str | None
) -> None:
    assert [str(each.first) for each in named_dates(text)] == ([first] if first else [])


# ---- known or only planned


PLANNED = (
    "a settlement date of {} under T+2",
    "the {} futures contract",
    "traders bought {} calls, which rose",
    "the 4.25% note due {} rallied",
    "the bond matures on {}",
    "Earnings calendar\n{} DIS, UBER",
    "Nvidia's earnings date was confirmed: {}",
    "the Fed's next meeting, on {}, is live",
    "the truce runs out on {} unless it is extended",
    "they agreed to extend the truce to {}",
    "the board declared a dividend payable on {}",
    "the evaluation horizon ends on {}",
    "we target 6,800 by {}",
    "if the Fed cuts on {}, curves steepen",
    "the CEO said he would retire on {}",
    '{{"symbol": "DIS", "date": "{}", "epsEstimate": 1.46}}',
    '{{"expiration": "{}", "lastPrice": 3.2}}',
    "Expires: {}",
    "- Resolution: {}T00:00:00Z (8 days from now)",
    "until the market cutoff ({}), it has to rise",
    "公司将于{}披露半年报",
    "股权登记日为{}",
)
KNOWN = (
    "the stock closed higher on {}",
    "it was expected to fall, and closed lower on {}",
    "by {} the spread had closed",
    "the {} FOMC meeting ended with a cut",
    "after its earnings on {}, Nvidia slid",
    "fresh data through {}",
    "as of {} it trades at 31 times earnings",
    "Published {} by the desk",
    "the range since {}",
    "you could have bought the dip on {}",
    "results of the auction on {} were weak",
    "公司于{}披露半年报",
    "截至{}收盘",
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [*((each, "planned") for each in PLANNED), *((each, "known") for each in KNOWN)],
)
def test_words_around_a_later_date_say_whether_it_was_known(words: str, expected: str) -> None:
    spelled = "2025-08-14"
    text = words.format(spelled)
    start = text.index(spelled)

    assert evidence_of(text, start, start + len(spelled)) == expected


REPORTED = (
    "Nvidia reported second-quarter results on {}, beating consensus.",
    "Nvidia posted record revenue on {}; the outlook was mixed.",
    "Walmart raised its full-year outlook on {}, citing resilient demand.",
    "Cisco topped analysts' estimates on {} but its guidance left investors cold.",
    "Mgmt lifted FY guidance on {} and we move numbers up 3%.",
    "On {}, in line with its forecast, the index fell.",
    "On {} Nvidia reported, above expectations.",
    "On the {} call, management walked back its outlook.",
    "The guidance call of {} disappointed.",
    "The S&P closed at a record on {}, and estimates keep climbing.",
    "The stake in Intel, unveiled on {}, upended every forecast.",
    "US CPI on {}: 2.7% vs 2.8% expected",
    "英伟达于{}公布财报,业绩超出市场预期。",
    "公司{}上调全年业绩指引。",
    "Title: MSFT: Where Will It Be in 1 Year\nPublish Time: {}\nContent: none",
    "https://www.example.org/Issues/{}/world-economic-outlook",
)
AHEAD = (
    "The {} guidance call is at 5 p.m.",
    "Consensus for {}: EPS 1.01.",
    "Its outlook for {} is upbeat.",
    "NVDA earnings {}. Consensus EPS 1.01.",
    "The company said on Monday it will report on {}.",
    "The company announced a conference call on {}.",
    "Nvidia reports on {}, the company said.",
    "Nvidia's results are released on {} after it raised guidance in May.",
    "Estimates for the {} print rose after AMD reported.",
    "The results, to be published on {}, could move markets.",
    "Once approved on {}, the merger closes.",
    "Odds of a rate cut on {} rose.",
    "the market cap at the {} close will be the valuation",
    "They agreed to meet on {}.",
    "payable to stockholders of record at the close of business on {}.",
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [*((each, "known") for each in REPORTED), *((each, "planned") for each in AHEAD)],
)
def test_a_past_verb_with_the_date_outranks_consensus_and_outlook(
    words: str, expected: str
) -> None:
    start = words.index("{}")
    text = words.format("August 27, 2025")

    assert evidence_of(text, start, start + len("August 27, 2025")) == expected


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("last 182.02 at {later}", "error"),  # nothing is said of it
        ("The {month} contract trades 35 points above spot.", "note"),
        ("In {month} the Fed cut rates.", "error"),
        ("The boom of 2031 was led by cars.", "warning"),
        ("It will earn more in 2031.", "note"),
        ("On {short} the index set another record.", "error"),
        ("It reports on {short}.", None),
        ("On {short} of last year it closed higher.", None),
        ("In 2019 it was calm. On {short} it closed higher.", None),
        ("The index ended {year} with a gain.", "warning"),
        ("The index gained this far in {year}.", None),
    ],
)
def test_the_level_of_a_later_date(tmp_path: Path, text: str, level: str | None) -> None:
    later = date.fromisoformat(day(10))
    words = text.format(
        later=later,
        month=f"{later:%B} {later.year + 1}",
        short=f"{later:%B} {later.day}",
        year=later.year,
    )
    found = findings_of(tmp_path, conversation("", tool=words), "date-after")

    assert [each.level for each in found] == ([level] if level else [])


def test_a_leak_behind_many_planned_dates_is_found(tmp_path: Path) -> None:
    planned = "\n".join(f"Options expire on {day(step)}." for step in range(1, 40))
    record = conversation("", tool=f"{planned}\nIt closed lower on {day(50)}.")

    levels = [each.level for each in findings_of(tmp_path, record, "date-after")]
    assert levels.count("error") == 1


def test_a_date_that_is_planned_first_and_known_later_is_an_error(tmp_path: Path) -> None:
    record = conversation("", tool=f"It reports on {day(5)}.\nOn {day(5)} it reported a loss.")

    assert [each.level for each in findings_of(tmp_path, record, "date-after")] == ["error", "note"]


def test_the_29th_of_february_names_no_day_near_years_without_one() -> None:
    (mentioned,) = days_of_year("on 29 February we will know")
    assert mentioned.soon_after(date(2026, 2, 1)) is None
    assert mentioned.soon_after(date(2028, 2, 1)) == date(2028, 2, 29)


def test_a_day_that_a_task_declares_is_one_note_with_a_count(tmp_path: Path) -> None:
    """A note of one decision stays as it is; a leak is never joined to it."""
    last = f"The last day of the episode is {day(30)}, or the last trading day before it."
    records = []
    for offset in range(3):
        words = f"Today is {day(offset)}. {last}"
        if offset == 1:
            words += f" Options expire on {day(40)}. It closed lower on {day(20)}."
        messages = [{"role": "user", "content": words}, {"role": "tool", "content": "quiet"}]
        records.append({"messages": [*messages, {"role": "assistant", "content": "HOLD"}]})

    report = report_of(tmp_path, records, with_market=False)

    found = {(each.level, each.count, each.message.partition(", ")[0]) for each in report.findings}
    assert found == {
        ("error", 1, f"the prompt names the day {day(20)}"),
        ("note", 1, f"the prompt names the day {day(40)}"),
        ("note", 3, f"the prompt names the day {day(30)}"),
    }
    (joined,) = [each for each in report.findings if each.count == 3]
    assert joined.message.endswith(f"as planned, in 3 decisions of {day()} to {day(2)}")
