"""`ktdeval audit` at the command line: words, exit codes, JSON, SARIF, annotations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from audit_play import FILES, conversation, day, report_of, write_lines
from ktdeval.cli.main import cli
from ktdeval.values import LEVELS
from ktdeval_audit.findings import RULES
from ktdeval_audit.report import github_lines
from ktdeval_audit.sarif import to_sarif

SMELLS = FILES / "openinference_spans.jsonl"


def _run(*words: object) -> Result:
    return CliRunner().invoke(cli, ["audit", *map(str, words)])


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "clean.jsonl", [conversation("Decide.")])


def test_a_clean_log_ends_with_0(clean: Path) -> None:
    assert _run(clean).exit_code == 0


def test_leak_exits_with_1_and_the_finding_explains_cause_and_fix() -> None:
    result = _run(SMELLS)

    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0] == "The agent was shown what it could not have known: 1 error."
    assert "error [date-after] line 6" in result.output
    assert "2 days after the day of the decision, 2024-03-06" in result.output
    assert "  fix: show the agent nothing later than the day of the decision" in lines


def test_a_warning_ends_with_1_only_if_it_is_asked_for(tmp_path: Path) -> None:
    log = write_lines(tmp_path / "log.jsonl", [conversation("", reply="As we now know, it fell.")])

    assert _run(log).exit_code == 0
    assert _run(log, "--fail-on", "warning").exit_code == 1
    assert _run(log, "--fail-on", "warning", "--rules", "date-after").exit_code == 0


@pytest.mark.parametrize("text", ["", "{broken\n", '{"a": 1}\n', "[]"])
def test_bad_input_ends_with_2_and_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(text, encoding="utf-8")

    result = _run(path)

    assert result.exit_code != 0
    assert result.exception is not None


def test_an_unknown_rule_suggests_the_near_one(clean: Path) -> None:
    result = _run(clean, "--rules", "date-aftr")

    assert "--rules 'date-aftr' is not a rule; did you mean 'date-after'" in str(result.exception)


def test_the_same_log_gives_the_same_bytes() -> None:
    assert _run(SMELLS, "--json").output == _run(SMELLS, "--json").output


def test_sarif_has_what_the_standard_requires(tmp_path: Path) -> None:
    path = tmp_path / "out.sarif"
    _run(SMELLS, "--sarif", path)
    log = json.loads(path.read_text(encoding="utf-8"))

    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "ktdeval audit"
    assert [rule["id"] for rule in driver["rules"]] == list(RULES)
    (result,) = run["results"]
    assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert result["level"] in LEVELS
    assert result["message"]["text"]
    place = result["locations"][0]["physicalLocation"]
    assert place["region"]["startLine"] == 6
    assert ":" not in place["artifactLocation"]["uri"]
    assert result["partialFingerprints"]


# ---- SARIF: the fields that sections 3.13 to 3.30 of the standard require


def test_sarif_of_equal_leaks_in_two_places_has_two_fingerprints(tmp_path: Path) -> None:
    records = [conversation(f"{name} fell on {day(3)}.", id=name) for name in ("a", "b")]
    report = report_of(tmp_path, records, with_market=False)

    results = to_sarif(report, "log.jsonl")["runs"][0]["results"]  # type: ignore[index,call-overload]

    assert len({json.dumps(each["partialFingerprints"]) for each in results}) == 2


def test_annotations_escape_what_github_reads_as_a_command(tmp_path: Path) -> None:
    record = conversation("", tool=f"100% up\n::error::forged {day(3)}", id="a%b\n::set-env::x")
    report = report_of(tmp_path, [record], with_market=False)

    lines = list(github_lines(report, "my,log:1.jsonl"))

    assert all("\n" not in line for line in lines)
    assert lines[0].startswith("::error file=my%2Clog%3A1.jsonl,line=1,title=")
    assert "a%25b" in lines[0]


# ---- annotations


def test_a_terminal_gets_no_control_characters(tmp_path: Path) -> None:
    record = conversation("", tool=f"\x1b[31mred {day(3)}", id="x\x1b[2J")
    log = write_lines(tmp_path / "log.jsonl", [record])

    assert "\x1b" not in _run(log).output
    assert "\x1b" not in _run(log, "--github").output
