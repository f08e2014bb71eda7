"""Models of a known memory, asked on the embedded market: what is planted is found, and the mask
leaves nothing of it.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ktdeval.harness import CallParams, Message, ModelRequest
from ktdeval.harness.chat_messages import USAGE_FIELDS
from ktdeval.market import MarketSnapshot, save_snapshot
from ktdeval.registry import load_plugins
from ktdeval.runner import open_snapshot
from ktdeval.task_api import VERDICT, AnswerRecord, EpisodeSpec, Score, Window
from ktdeval.testing import Terminal, check_scoring_task, not_empty, random_snapshot
from ktdeval.values import from_plain, loads_strict
from support.runs.run_support import card_of

PLUGINS = load_plugins()
LONG = Window("long", "2024-01-01", "2026-04-10")
SMALL = Window("small", "2023-02-01", "2024-02-29")
KINDS = ("code", "month", "close")


@cache
def embedded() -> MarketSnapshot:
    return open_snapshot(PLUGINS, "synthetic", {})


@cache
def small() -> MarketSnapshot:
    """Random walks of forty companies in five industries."""
    market = random_snapshot()
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = [f"Corp {letters[n % 26]}{letters[n // 26]}" for n in range(len(market.codes))]
    return replace(market, names=tuple(names))


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The small market in a folder, for a model to remember."""
    folder = tmp_path_factory.mktemp("small") / "market"
    save_snapshot(small(), folder)
    return str(folder)


def spec_of(mask: str, seed: int = 0, window: Window = LONG) -> EpisodeSpec:
    return EpisodeSpec(
        task=f"memory_floor_{mask}",
        task_version="1",
        task_hash="0",
        snapshot="0",
        mask=mask,
        mode="memory_floor",
        window=window,
        model="test",
        model_args={},
        agent="react",
        agent_args={},
        seed=seed,
        mask_key="5eed" * 8,
    )


@cache
def questions(mask: str, seed: int = 0) -> Any:
    task = PLUGINS.make_task(f"memory_floor_{mask}")
    return task.samples(spec_of(mask, seed), embedded(), None)


def answered(model: Any, mask: str, seed: int = 0) -> dict[str, Score]:
    """Scores of a model that answers each question about the small market."""
    task = PLUGINS.make_task(f"memory_floor_{mask}")
    asked = task.samples(spec_of(mask, seed, SMALL), small(), None)
    records = []
    for number in range(len(asked)):
        sample = asked.sample(number)
        request = ModelRequest(
            messages=(Message("system", sample.system), Message("user", sample.user)),
            tools=(sample.form,),
            tool_choice="submit_answer",
            params=CallParams(),
            chance=number,
        )
        (call,) = model.reply(request).tool_calls
        records.append(answer_record(number, asked, loads_strict(call.arguments)))

    return dict(task.summarise(records))


def answer_record(number: int, asked: Any, answer: Any) -> AnswerRecord:
    """Record of an answer that the model submitted at once."""
    counts = ("tool_calls", "tool_calls_valid", "submissions", "unmask_attempts", *USAGE_FIELDS)
    fields = {
        "step": number,
        "sample": asked.questions[number].id,
        "provenance": "model",
        "answer": answer,
        "facts": asked.facts(number),
        "scores": asked.score(number, answer),
        "failures": {},
    }
    return from_plain({**dict.fromkeys(counts, 0), **fields}, AnswerRecord, "test")


def verdicts(scores: dict[str, Score]) -> list[str]:
    """The beginning of the sentence about each kind."""
    return [str(scores[kind].detail[VERDICT]).partition(":")[0] for kind in KINDS]


def memory(market: str, **params: Any) -> Any:
    return PLUGINS.make_model("builtin/memory", {"market": market, **params})


# ---- planted memories


def test_a_full_memory_is_found_with_names_and_dates_in_sight(remembered: str) -> None:
    scores = answered(memory(remembered), "bright")
    assert [scores[kind].value for kind in KINDS] == [1.0, 1.0, 1.0]
    assert verdicts(scores) == ["remembers"] * 3


@pytest.mark.parametrize("recall", [0.0, 1.0])
def test_behind_the_mask_a_memory_is_worth_nothing_although_the_model_reads(
    recall: float, remembered: str
) -> None:
    scores = answered(memory(remembered, recall=recall), "blinded")
    assert verdicts(scores) == ["not above guessing"] * 3
    assert [scores[f"{kind}_control"].value for kind in KINDS] == [1.0, 1.0, 1.0]


def test_a_model_that_reads_and_remembers_nothing_is_at_chance(remembered: str) -> None:
    scores = answered(memory(remembered, recall=0.0), "bright")
    assert verdicts(scores) == ["not above guessing"] * 3


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("mask", ["bright", "blinded"])
def test_a_dose_of_memory_lies_near_the_interval_of_right_answers(
    mask: str, seed: int, remembered: str
) -> None:
    """With a recall of 0.5, half of the codes, and a quarter of the rest by chance: 0.625. Six
    seeds and two masks: an interval of 95 % may miss, but not by more than 0.12.
    """
    dose = 0.5 if mask == "bright" else 0.0
    scores = answered(memory(remembered, recall=0.5, seed=seed), mask, seed)
    for kind, blind in (("code", 0.25), ("month", 0.5)):
        interval = scores[kind].interval
        assert interval is not None
        assert interval.low is not None
        assert interval.high is not None
        expected = dose + (1.0 - dose) * blind
        assert interval.low - 0.12 < expected < interval.high + 0.12


@pytest.mark.parametrize("model", ["random", "first_listed", "trivial"])
@pytest.mark.parametrize("mask", ["bright", "blinded"])
def test_models_that_do_not_read_are_no_evidence(model: str, mask: str) -> None:
    scores = answered(PLUGINS.make_model(f"builtin/{model}", {}), mask)
    assert verdicts(scores) == ["no evidence"] * 3


def test_a_constant_has_the_base_rate_and_the_first_choice_a_quarter() -> None:
    """`builtin/trivial` always says rise, and always takes A."""
    scores = answered(PLUGINS.make_model("builtin/trivial", {}), "bright")
    detail = scores["month"].detail

    assert scores["month"].value == detail["rising_in_sample"] > 0.5
    assert abs(detail["rising_in_sample"] - detail["rising_in_market"]) < 0.005
    assert scores["month"].baseline == max(detail["rising_in_sample"], detail["rising_in_market"])
    assert scores["code"].value == 0.25


@pytest.mark.exhaustive
def test_guesses_by_month_are_rarely_taken_for_a_memory() -> None:
    """A model that knows nothing says the same of all assets in a month. In half a year
    the plain interval lies above guessing in a fifth of such cards, and the one with months as
    clusters in less than 2.5 %.
    """
    task = PLUGINS.make_task("memory_floor_bright")
    window = Window("half a year", "2024-07-01", "2024-12-31")
    asked = task.samples(spec_of("bright", 0, window), embedded(), None)
    months = []
    for number in range(len(asked)):
        facts = asked.facts(number)
        if facts["kind"] == "month":
            months.append((number, facts))

    claims = plain = 0
    for draw in range(400):
        chance = random.Random(draw)
        side_of: dict[str, str] = {}
        records = []
        for number, facts in months:
            side = side_of.setdefault(facts["month"], chance.choice(["rise", "fall"]))
            answer = {"answer": facts["right"] if facts["control"] else side, "probability": 0.5}
            records.append(answer_record(number, asked, answer))

        score = task.summarise(records)["month"]
        claims += str(score.detail[VERDICT]).startswith("remembers")
        plain += score.interval.low > score.baseline

    assert claims / 400 < 0.025
    assert plain / 400 > 0.15


# ---- questions


@pytest.mark.parametrize("mask", ["bright", "blinded"])
def test_no_question_shows_what_the_mask_hides_and_equal_specs_give_equal_questions(
    mask: str,
) -> None:
    asked = questions(mask)
    again = PLUGINS.make_task(f"memory_floor_{mask}").samples(spec_of(mask), embedded(), None)
    assert len(asked) == 3 * (100 + 40)

    check_scoring_task(PLUGINS.make_task(f"memory_floor_{mask}"), None, small())
    for number in range(0, len(asked), 7):
        assert asked.sample(number).user == again.sample(number).user

    facts = [asked.facts(number) for number in range(len(asked))]
    assert facts != [questions(mask, 1).facts(number) for number in range(len(asked))]


def test_questions_are_short_and_kinds_begin_alike() -> None:
    """A third of a kilobyte with the system prompt is about 100 tokens."""
    asked = questions("bright")
    for kind in KINDS:
        texts = []
        for number in range(len(asked)):
            sample = asked.sample(number)
            if sample.id.startswith(kind):
                texts.append(sample.user)
                assert len(sample.system) + len(sample.user) < 650

        first_lines = {text.partition("\n")[0] for text in not_empty(texts, 140)}
        assert len(first_lines) == 1


def test_each_beginning_of_a_run_has_all_kinds_and_their_controls() -> None:
    asked = questions("bright")
    first = [asked.facts(number) for number in range(42)]
    counts = {(kind, control): 0 for kind in KINDS for control in (False, True)}
    for facts in first:
        counts[facts["kind"], facts["control"]] += 1

    assert set(counts.values()) == {10, 4}
    rising = [each["right"] for each in first if each["kind"] == "month" and not each["control"]]
    assert rising.count("rise") in (5, 6)


def test_the_words_of_each_kind_of_question() -> None:
    shown = {}
    for mask in ("bright", "blinded"):
        asked = questions(mask)
        for number in range(42):
            sample = asked.sample(number)
            if sample.facts["control"]:
                shown.setdefault(f"{sample.facts['kind']} {mask}", sample.user)

    assert "\n\n".join(f"[{name}]\n{text}" for name, text in shown.items()) == snapshot("""\
[code bright]
Which of these codes is that of the company?
company: Yarlovask Voreskar 43
A: 609046.SH
B: 609499.SH
C: 309606.SZ
D: 009708.SZ

From a table of codes:
609046.SH: Yarlovask Voreskar 43
609499.SH: Haxilvane Jarnapteq 52
309606.SZ: Gundoburk Praxibund 92
009708.SZ: Quelozzet Rudvontiv 50

[month bright]
Did the price rise or fall in this month, from the last close before it to its own last close?
asset: 309025.SZ (Fyleluth Lornamphor 84)
month: September 2024

From a table of closes:
last close before the month: 26.24
last close of the month: 33.29

[close bright]
What was the close on this day, in CNY, as traded on it? An answer within ten per cent is right.
asset: 009036.SZ (Ulfissolt Crevibund 47)
day: 2025-09-04

From a table of closes:
close of the day: 36.73

[code blinded]
Labels are drawn anew for each list. Which of these labels is that of the asset of another list?
asset in the other list: asset_6798
A: asset_3754
B: asset_0425
C: asset_9325
D: asset_4525

From a table of codes:
asset_3754: asset_6798
asset_0425: asset_1260
asset_9325: asset_3790
asset_4525: asset_4758

[month blinded]
Did the price rise or fall in this month, from the last close before it to its own last close?
asset: asset_0174
last day of the month: day_+5

From a table of closes:
last close before the month: 32.39
last close of the month: 36.28

[close blinded]
What was the close on this day, in CNY, as traded on it? An answer within ten per cent is right.
asset: asset_7964
day: day_+20

From a table of closes:
close of the day: 21.54\
""")


# ---- whole runs


def test_a_run_prints_a_sentence_for_each_kind_and_verifies(
    tmp_path: Path, terminal: Terminal
) -> None:
    run = tmp_path / "run"
    words = "--model builtin/memory --tasks memory_floor --limit 42 --quiet"
    terminal.out(*words.split(), "--windows", "W1", "--mask-key", "5eed" * 8, "--out", str(run))
    terminal.out("card", "verify", run)

    bright = card_of(run, "memory_floor_bright")
    assert [bright["scores"][kind]["value"] for kind in KINDS] == [1.0, 1.0, 1.0]
    card = run / "cards" / "memory_floor_blinded.json"
    assert terminal.out("card", "show", card).partition("\nall ")[0] == snapshot("""\
memory_floor_blinded · builtin/memory
[synthetic] [limited] [public key]
may not be ranked: it measures what a model remembers of a market, not what it can do; every episode was cut after 42 samples

code: not above guessing: 0 of 10 right, interval 0.0 to 27.8 %, guessing 25.0
%; the interval allows a memory of at most 3.7 % of these facts if the others
are guessed blindly; control: 4 of 4.
month: no evidence: too few controls to tell reading from guessing, 4 of 4
right, interval 51.0 to 100.0 %, guessing 55.0 %; questions: 7 of 10 right,
interval 35.4 to 93.7 % with months as clusters, guessing 60.0 %.
close: not above guessing: 2 of 10 right, interval 5.7 to 51.0 %, guessing 14.6
%; the interval allows a memory of at most 51.0 % of these facts if the others
are guessed blindly; control: 4 of 4.

Scores
    score                value  unit   95 % interval  baseline   n
  scores
    code                  0.00     %    0.00 … 27.75     25.00  10
    month                70.00     %   39.68 … 89.22     60.00  10
    close                20.00     %    5.67 … 50.98     14.59  10
  diagnostics
    code_control        100.00     %  51.01 … 100.00     25.00   4
    month_control       100.00     %  51.01 … 100.00     55.01   4
    close_control       100.00     %  51.01 … 100.00     14.59   4
    code_brier          0.0625     1                    0.1875  10
    month_brier           0.25     1                      0.24  10
    close_brier           0.17     1           0 … 1    0.1246  10
    copied_probability    0.00     %     0.00 … 8.38            42
    unanswered            0.00     %     0.00 … 8.38            42
""")


def test_a_model_that_trades_is_refused_before_the_first_question(
    tmp_path: Path, terminal: Terminal
) -> None:
    words = "--model builtin/momentum --tasks memory_floor_bright --out"
    refused = terminal.error(*words.split(), tmp_path / "run")
    assert refused.startswith("ktdeval: error: builtin/momentum trades, and needs a task that")
    assert "builtin/first_listed, builtin/memory, builtin/random, builtin/trivial" in refused
