"""Reworded instructions: what a wording must keep, and reworded items compared with the same
expected calls.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ktdeval.errors import ConfigError, DataError
from ktdeval.testing import error_lines, on_each_row
from ktdeval.values import sha256_hex
from ktdeval_qfinzero.benchmark.literals import literals_of, wording_problem
from ktdeval_qfinzero.benchmark.reworded import ItemWording, Wordings, load_wordings, reword_items
from support.qfinzero.qfinzero_suite_play import calling_items, config_of, task_of


@on_each_row(
    "original, wording, problem",
    (
        "Give me ZIMQ's daily bars of the past 9 trading days.",
        "Show the last nine trading days of ZIMQ, daily.",
        "",
    ),
    (
        "Give me ZIMQ's daily bars of the past 9 trading days.",
        "Show the last eight trading days of ZIMQ, daily.",
        "lacks 9",
    ),
    (
        "Get AVLN's daily prices on 2025-03-07.",
        "What were the daily prices of AVLN on March 7, 2025?",
        "",
    ),
    (
        "Get AVLN's daily prices on 2025-03-07.",
        "What were the daily prices of AVLN on March 8, 2025?",
        "lacks 2025-03-07",
    ),
    (
        "Get AVLN's daily prices on 2025-03-07.",
        "What were the daily prices of AVLN and BRKT on 2025-03-07?",
        "adds BRKT",
    ),
    (
        "Sell 40 shares of FYLQ short at $72.42.",
        "I want to go short 40 FYLQ by selling at $72.42.",
        "",
    ),
    (
        "Sell 40 shares of FYLQ short at $72.42.",
        "I want 40 FYLQ, buying at $72.42.",
        "lacks sell, short",
    ),
    (
        "Buy one O:MQVA250221C00155000, limit $3.19.",
        "Purchase a single O:MQVA250221C00155000 with a limit of 3.19 dollars.",
        "",
    ),
    (
        "Buy one O:MQVA250221C00155000, limit $3.19.",
        "Purchase a single O:MQVA250221P00155000 with a limit of 3.19 dollars.",
        "lacks O:MQVA250221C00155000",
    ),
    (
        "Show the KVLT puts of February 2025.",
        "Which puts on KVLT end in March 2025?",
        "lacks 2025-02",
    ),
    (
        "Prices of OVSK from 1:30 p.m. to 3:00 p.m.",
        "Prices of OVSK between 1:30 a.m. and 3:00 p.m.",
        "lacks 1:30pm",
    ),
    (
        "What about “Initial Jobless Claims”?",
        "What did “Jobless Claims” say, please?",
        "lacks Initial Jobless Claims",
    ),
    ("Get AVLN's daily prices.", "Get  avln's daily prices.", "is the original"),
    ("Get AVLN's daily prices.", "AVLN", "has 4 characters, expected 10 to 2000"),
)
def test_a_wording_keeps_every_literal(original: str, wording: str, problem: str) -> None:
    assert wording_problem(original, wording) == problem


def test_a_day_is_one_literal_however_it_is_written() -> None:
    ways = ("March 7, 2025", "Mar 7, 2025", "7 March 2025", "the 7th of March 2025", "2025-03-07")
    assert {literals_of(f"Bars of AVLN on {day}") for day in ways} == {
        frozenset({"AVLN", "2025-03-07"})
    }


def wordings(**instructions: str) -> Wordings:
    """Wordings of the small market's items, by their numbers (`i0`)."""
    items = calling_items()
    entries = []

    for name, instruction in instructions.items():
        task = items[int(name[1:])].task
        digest = sha256_hex(task.instruction)
        entries.append(ItemWording(id=task.id, original_sha256=digest, instruction=instruction))

    return Wordings(
        version=1,
        suite="calling",
        model="openai/some",
        model_args={},
        prompt_sha256="0" * 64,
        episodes=("e",),
        wordings=tuple(entries),
    )


def test_an_item_in_other_words_is_held_to_the_same_gold() -> None:
    items = calling_items()
    own = f"Please: {items[0].task.instruction}"
    (item,) = reword_items(items, wordings(i0=own), "calling", "w.json")

    assert item.task.instruction == own

    original = replace(item, task=replace(item.task, instruction=items[0].task.instruction))
    assert original == items[0]


def test_wordings_that_do_not_fit_are_refused() -> None:
    items = calling_items()
    good = wordings(i0=f"Please: {items[0].task.instruction}")
    (entry,) = good.wordings

    def problem(*changed: ItemWording, suite: Any = "calling") -> str:
        file = Wordings(
            version=1,
            suite="calling",
            model="m",
            model_args={},
            prompt_sha256="0" * 64,
            episodes=(),
            wordings=changed,
        )

        return error_lines(lambda: reword_items(items, file, suite, "w.json"))

    def entry_with(**changes: str) -> ItemWording:
        fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
        return ItemWording(**{**fields, **changes})

    text = problem(entry, suite="planning")
    text += problem(entry, entry)
    text += problem(entry_with(id="qc-9999"))
    text += problem(entry_with(original_sha256="0" * 64))
    text += problem(entry_with(instruction=f"{entry.instruction} Sell 7 ZZTP."))

    assert text == snapshot("""\
DataError: w.json: has wordings of the calling suite, not of planning
DataError: w.json: calling-1: has two wordings; give one
DataError: w.json: qc-9999: there is no such item
DataError: w.json: calling-1: is a wording of another instruction; use the items_seed and data_seed that it was made for
DataError: w.json: calling-1: adds 7, ZZTP, sell; the expected calls would not fit it
""")


def test_a_file_is_read_strictly_and_goes_with_our_own_items(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    path.write_text(json.dumps({"version": 1, "suite": "calling"}))
    with pytest.raises(DataError, match=r"w\.json: .*model"):
        load_wordings(path, "w.json")

    with pytest.raises(ConfigError, match="wordings: are of our own items"):
        config_of("qfinzero_calling", wordings="w.json", tasks_file="t.jsonl")


def test_a_task_without_wordings_describes_itself_as_before() -> None:
    assert "wordings" not in task_of("qfinzero_calling").describe()
