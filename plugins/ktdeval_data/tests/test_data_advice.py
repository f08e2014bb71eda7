"""What a check advises works: each way out, taken from the printed line, is run."""

from __future__ import annotations

import re
from importlib import resources
from itertools import chain
from pathlib import Path

import pytest

from advice_cases import Case, cases, write
from ktdeval.testing import Terminal
from ktdeval.values import csv_rows

CASES = list(cases())
_FINDINGS = Path(str(resources.files("ktdeval_raw_markets.checks"))) / "findings.csv"
KINDS = {row["rule"]: row for row in csv_rows(_FINDINGS)}
_OPTION = re.compile(r"--[a-z][a-z-]*")
_WORDS = {"or", "and", "where", "with", "takes", "of", "is"}  # of a sentence, after an option


def printed_of(text: str, kind: str) -> str | None:
    """What is printed of a finding: its line, and those below it; None where it is not found."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if re.search(rf"\[{kind}[\] ]", line)]

    if not starts:
        return None

    own = [lines[starts[0]]]
    for line in lines[starts[0] + 1 :]:
        if not line.startswith("  "):
            break

        own.append(line.strip())

    return "\n".join(own)


def advice_in(printed: str) -> str:
    """The words after `fix:`; nothing where none are printed."""
    lines = [line for line in printed.splitlines() if line.startswith("fix: ")]
    return lines[0].removeprefix("fix: ") if lines else ""


def ways_in(advice: str, blanks: dict[str, str]) -> list[str]:
    """Options with their values, those that stand together as one way; blanks are filled in."""
    for blank, value in blanks.items():
        advice = advice.replace(blank, value)

    ways: list[list[str]] = []
    goes_on = False
    words = [word.strip("(),;.") for word in advice.split()]

    for number, word in enumerate(words):
        if _OPTION.fullmatch(word):
            following = words[number + 1] if number + 1 < len(words) else ""
            values = [] if following in _WORDS else [following]
            if goes_on:
                ways[-1] += [word, *values]
            else:
                ways.append([word, *values])

        goes_on = bool(ways) and word in ways[-1]
        # `--first DAY leaves …, and --repair NAME` are needed together.
        if word == "and" and ", and --" in advice:
            goes_on = True

    return [" ".join(way) for way in ways]


def with_options(options: tuple[str, ...], way: str) -> list[str]:
    """The options of an import, changed by those of a way."""
    words = way.split()
    changed = dict(zip(options[::2], options[1::2], strict=True))
    changed |= dict(zip(words[::2], words[1::2], strict=True))

    return [*chain.from_iterable(changed.items())]


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_advised_fix_of_each_finding_works(
    case: Case, tmp_path: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(case.files, tmp_path)
    start = ["long", "--bars", "bars.csv"]
    _, text, error = terminal.call("data", "make", *start, *case.options, "--check-only")
    printed = printed_of(text, case.kind)

    assert printed is not None, (text, error)

    advice = advice_in(printed)

    if not case.way and not case.corrected:
        assert advice == "", "there is nothing to fix"
        terminal.out("data", "make", *start, *case.options, "--out", "stored")
        return

    options = list(case.options)
    if case.way:
        ways = ways_in(advice, dict(case.blanks))
        (way,) = (each for each in ways if each.startswith(case.way))
        options = with_options(case.options, way)
    else:
        assert re.search("correct|give|add|leave|quote|without", advice), advice
        write(case.corrected, tmp_path)

    _, after, error = terminal.call("data", "make", *start, *options, "--check-only")
    left = printed_of(after, case.kind)

    assert after, error
    assert (left is None) is case.is_whole, after

    terminal.out("data", "make", *start, *options, "--out", "stored")


def test_each_kind_of_finding_has_a_case() -> None:
    assert {case.kind for case in CASES} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_each_option_that_a_message_names_is_run_by_a_case(kind: str) -> None:
    """Those of messages that are made for the fault at hand are in the cases themselves."""
    row = KINDS[kind]
    advised = {way.split()[0] for way in ways_in(row["fix"], {})} - {"--repair"}
    ways = [case.way for case in CASES if case.kind == kind]
    tried = set(_OPTION.findall(" ".join(ways)))

    assert advised <= tried | {"--repair"}

    repaired = {way.split()[-1] for way in ways if "--repair" in way}
    assert set(row["repairs"].split()) <= repaired


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_names_an_option_or_states_that_none_helps(kind: str) -> None:
    fix = KINDS[kind]["fix"]
    assert fix or KINDS[kind]["level"] == "note"

    if fix.startswith("no option helps"):
        assert "--" not in fix
    elif fix and fix != "{}":
        assert "--" in fix or re.match("correct|give", fix)
