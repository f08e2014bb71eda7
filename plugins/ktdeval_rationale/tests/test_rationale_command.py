"""`ktdeval compare rationale` on real runs of a model that tells stories about whatever it is shown, under
all four masks.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import ktdeval
import rationale_plugin
from ktdeval.errors import DataError, StoreError, UsageError
from ktdeval.harness import ModelRequest, Reply, ToolCall
from ktdeval.market.snapshots.storage import save_snapshot
from ktdeval.masking.names.identity_index import WITHHELD
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.testing import check_plugin, small_market
from ktdeval.trading.ledger import CountsRecord
from ktdeval.values import dumps_canonical, to_plain
from ktdeval_rationale.category_counts import read_steps
from ktdeval_rationale.command import rationale
from support.accept.accept_runs import evaluate
from support.runs.run_support import store_market

pytestmark = pytest.mark.slow

MASKS = ("bright", "stock_blind", "date_blind", "blinded")
WINDOWS = "2024-03-01:2024-03-06,2024-03-11:2024-03-14,2024-03-19:2024-03-22"
SECRET = "sk-told-aloud-0123456789"


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_market(tmp_path_factory.mktemp("market") / "small")


def run_of(folder: Path, market: Path, windows: str, tasks: list[str]) -> RunFolder:
    words = (
        "--plugin",
        str(Path(rationale_plugin.__file__)),
        "--data",
        str(market),
        "--windows",
        windows,
    )
    return evaluate(folder / "run", "test/storyteller", tasks, *words)


@pytest.fixture(scope="module")
def run(market: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run_of(
        tmp_path_factory.mktemp("run"),
        market,
        WINDOWS,
        [f"{mask}_fixed_candidate" for mask in MASKS],
    )


@pytest.fixture(scope="module")
def research(market: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A blinded run with tools, in which the model says a secret aloud."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(rationale_plugin.SECRET, f"{SECRET} and Kweichow Moutai")
        return run_of(
            tmp_path_factory.mktemp("research"),
            market,
            "2024-03-01:2024-03-06",
            ["blinded_open_research_paper"],
        )


@pytest.fixture
def copied(run: RunFolder, tmp_path: Path) -> RunFolder:
    return RunFolder.load(shutil.copytree(run.path, tmp_path / "copy"))


def tell(*words: object) -> str:
    return (
        CliRunner().invoke(rationale, [str(word) for word in words], catch_exceptions=False).stdout
    )


def printed_report(*words: object) -> Any:
    return json.loads(tell(*words, "--json"))


@pytest.fixture(scope="module")
def report(run: RunFolder) -> Any:
    return printed_report(run.path, "--examples", 2)


def masks_of(report: Any) -> Any:
    [subject] = report["subjects"]
    return subject["masks"]


def reopen(
    folder: RunFolder,
    spec: Any,
    change: Callable[[Any], Any] = lambda entry: entry,
    steps: int | None = None,
) -> None:
    """Make a finished episode one that is still under way, with the entries of its journal
    changed.
    """
    ledger = folder.load_ledger(spec)
    talks = to_plain(folder.load_transcript(spec))
    path = folder.episode_path(spec)

    for file in path.iterdir():
        file.unlink()

    entries = zip(to_plain(list(ledger.steps[:steps])), talks[:steps], strict=True)
    lines = [
        change({"step": step, "transcript": talk, "memory": None, "wall_s": 0.0})
        for step, talk in entries
    ]
    (path / "journal.jsonl").write_text("".join(f"{dumps_canonical(line)}\n" for line in lines))


@pytest.mark.exhaustive
@pytest.mark.parametrize("mask", MASKS)
def test_rates_are_the_shares_of_reasons_that_contain_the_words(
    run: RunFolder, report: Any, mask: str
) -> None:
    rates = masks_of(report)[mask]["reason_rates"]
    specs = [spec for spec in run.manifest.specs if spec.mask == mask]
    steps = list(chain.from_iterable(run.load_ledger(spec).steps for spec in specs))
    reasons = []

    for step in steps:
        reasons += [*(order.reason for order in step.orders), step.overall_reason]

    words = {
        "company": ("Moutai", "CATL"),
        "sector": ("semiconductor",),
        "event": ("Spring Festival",),
        "date": ("2016",),
        "stock": ("Moutai", "CATL", "semiconductor"),
        "recognition": ("asset_0001 is",),
        "code": ("600519.SH", WITHHELD),
        "withheld": (),
    }

    for row, wanted in words.items():
        naming = [text for text in reasons if has_any(text, wanted)]
        assert rates[row]["share"] == pytest.approx(len(naming) / len(reasons)), row
        assert rates[row]["low"] <= rates[row]["share"] <= rates[row]["high"]


def has_any(text: str, words: tuple[str, ...]) -> bool:
    return any(word in text for word in words)


def test_text_withheld_in_the_ledger_is_counted_as_submitted_where_known(
    run: RunFolder, report: Any, copied: RunFolder
) -> None:
    """Blinded ledgers say `[withheld]` for the code that the model guessed; its submission says
    that it was a code.
    """
    blinded = next(spec for spec in run.manifest.specs if spec.mask == "blinded")
    recorded = run.load_ledger(blinded).steps[rationale_plugin.GUESSING_STEP].overall_reason

    assert recorded == rationale_plugin.GUESS.replace("600519.SH", WITHHELD)

    rates = masks_of(report)["blinded"]["step_rates"]
    assert (rates["code"]["count"], rates["withheld"]["count"]) == (3, 0)  # once in each window

    for spec in copied.manifest.specs:
        reopen(
            copied,
            spec,
            lambda entry: {**entry, "transcript": {**entry["transcript"], "submission": None}},
        )

    rates = masks_of(printed_report(copied.path))["blinded"]["step_rates"]

    assert (rates["code"]["count"], rates["withheld"]["count"]) == (0, 3)


def test_decision_without_a_trade_has_its_reason_counted(
    tmp_path: Path,
) -> None:
    def says_a_name(request: ModelRequest) -> Reply:
        [label] = set(re.findall("asset_[0-9]+", request.messages[1].content))
        decision = {
            "stock_id": label,
            "decision": "BUY",
            "confidence": 0.5,
            "reason": "Tesla will rise, \ud800 and TSLA with it.",
        }
        text = json.dumps({"decisions": [decision], "overall_reason": "TSLA is cheap, I think."})

        return Reply("", (ToolCall("1", "submit_action", text),), "tool_calls")

    ktdeval.evaluate(
        says_a_name,
        "ama_tsla",
        data="synthetic_arena",
        limit=3,
        out=str(tmp_path / "run"),
        quiet=True,
    )
    rates = masks_of(printed_report(tmp_path / "run"))["blinded"]["reason_rates"]
    found = {row: (rates[row]["count"], rates[row]["n"]) for row in ("company", "withheld", "any")}

    # of three days; only the first one trades
    assert found == {"company": (6, 6), "withheld": (0, 6), "any": (6, 6)}


def test_appendix_a_shows_in_the_model_that_has_it(report: Any) -> None:
    """Hiding the stock removes what it knows of stocks, hiding the date what it knows of days, and
    neither the other.
    """
    [subject] = report["subjects"]
    rows = {(row["hidden"], row["before"], row["row"]): row for row in subject["hiding"]}

    for hidden, gone, stays, befores in (
        ("stock", "stock", "calendar", "date_blind"),
        ("date", "calendar", "stock", "stock_blind"),
    ):
        for before in ("bright", befores):
            row = rows[hidden, before, gone]
            assert (row["verdict"], row["share_before"], row["share_after"]) == (
                "removed (predicted)",
                0.5,
                0.0,
            )
            assert rows[hidden, before, stays]["verdict"] == "no change shown (predicted)"

    effects = {(row["row"], row["effect"]): row["value"] for row in subject["effects"]}
    for row, own in (("stock", "stock_effect"), ("calendar", "date_effect")):
        for effect in ("stock_effect", "date_effect"):
            assert effects[row, effect] == pytest.approx(0.5 * (effect == own)), (row, effect)


def test_examples_state_the_mention_its_place_and_whether_it_had_been_sent(
    run: RunFolder, report: Any
) -> None:
    [subject] = report["subjects"]
    examples = subject["examples"]
    company = next(
        row for row in examples if (row["mask"], row["category"]) == ("bright", "company")
    )

    assert (company["text"], company["was_sent"]) in {("Kweichow Moutai", False), ("CATL", False)}
    assert company["where"].startswith(
        "bright_fixed_candidate 2024-03-01:2024-03-06 seed 0 step 0, reason of order "
    )
    assert {row["mask"] for row in examples if row["category"] in ("company", "sector")} == {
        "bright",
        "date_blind",
    }
    assert "* bright sector: A leading ⟦semiconductor⟧ name, volume confirms." in tell(
        run.path, "--examples", 1
    )


@pytest.mark.exhaustive
def test_the_table_agrees_with_the_json(run: RunFolder) -> None:
    shown = tell(run.path)
    for words in (
        "test/storyteller, react, fixed_candidate",
        "stock: bright → stock_blind  company, brand or sector",
        "removed (pred",
    ):
        assert words in shown

    steps = shown.partition("Steps that name it")[2].splitlines()

    assert next(line for line in steps if line.strip().startswith("date or event")).split()[
        3:6
    ] == ["50.0", "[25.4,", "74.6]"]
    assert "Examples" not in shown
    assert tell(run.path) == shown


@pytest.mark.exhaustive
def test_runs_are_read_together_and_episodes_counted_once(
    copied: RunFolder, run: RunFolder, research: RunFolder
) -> None:
    value = printed_report(run.path, copied.path, research.path)
    modes = ["fixed_candidate", "open_research"]

    assert [subject["subject"] for subject in value["subjects"]] == [
        f"test/storyteller, react, {mode}" for mode in modes
    ]
    assert value["subjects"][0]["masks"]["bright"]["episodes"] == 3


def test_research_and_reasoning_are_read_and_secrets_are_not_printed(
    research: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORYTELLER_KEY_AGAIN", SECRET)
    text = tell(research.path, "--json", "--examples", 5)

    assert SECRET not in text
    assert "[STORYTELLER_KEY_AGAIN]" in text

    rates = masks_of(json.loads(text))["blinded"]
    assert rates["sources"]["research"]["texts"] >= 4
    assert rates["sources"]["reasoning"]["company"] == 4  # once a step, beside the submission
    assert (rates["step_rates"]["company"]["share"], rates["reason_rates"]["company"]["share"]) == (
        1.0,
        0.0,
    )


@pytest.mark.exhaustive
def test_second_stage_is_reported_with_its_encoder_or_why_it_was_skipped(
    run: RunFolder, report: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = printed_report(run.path, "--embeddings", "--examples", 1)
    assert value["second_stage"]["encoder"] == "letter groups"

    masks = masks_of(value)
    # `keeps its pricing power` is in an anchor too
    assert masks["bright"]["resembling"]["share"] > 0
    assert (
        masks["blinded"]["resembling"]["share"] == masks["bright"]["only_resembling"]["share"] == 0
    )
    assert value["subjects"][0]["resemblances"]["bright"][0]["category"] == "brand"
    assert "second stage: letter groups" in tell(run.path, "--embeddings", "--examples", 1)
    assert report["second_stage"] is None

    monkeypatch.setitem(sys.modules, "model2vec", None)  # as if it were not installed
    shown = tell(run.path, "--embedding-model", tmp_path)

    assert "second stage not run: a sentence-embedding model: model2vec is not installed" in shown
    assert "company, brand or sector" in shown


def test_an_unfinished_episode_counts_as_far_as_it_is(copied: RunFolder) -> None:
    spec = copied.manifest.specs[0]
    reopen(copied, spec, steps=2)
    value = printed_report(copied.path)

    assert masks_of(value)[spec.mask]["steps"] == 10
    assert (
        f"{spec.task} {spec.window.name} seed 0 is unfinished; its 2 steps are counted"
        in value["notes"]
    )

    shutil.rmtree(copied.path / "episodes")

    with pytest.raises(
        UsageError,
        match=r"no episode has a step with a reason: .* is unfinished; its 0 steps are counted",
    ):
        tell(copied.path)


def test_a_damaged_episode_and_one_without_orders_are_omitted_with_a_note(
    copied: RunFolder,
) -> None:
    def as_of_a_question(entry: Any) -> Any:
        counts = {
            name: entry["step"][name]
            for name in ("step", "provenance", *CountsRecord.__struct_fields__)
        }
        return {
            **entry,
            "step": {**counts, "sample": "probe_0000", "answer": None, "facts": {}, "scores": {}},
        }

    damaged, other = copied.manifest.specs[:2]
    (copied.episode_path(damaged) / "ledger.parquet").write_bytes(b"nothing")
    reopen(copied, other, as_of_a_question, steps=1)
    value = printed_report(copied.path)

    assert masks_of(value)[damaged.mask]["episodes"] == 3 - 1 - (other.mask == damaged.mask)

    for problem in ("not a readable ledger", "contains no orders, and so no reasons"):
        assert any("is left out: " in note and problem in note for note in value["notes"]), problem


@pytest.mark.exhaustive
def test_without_the_market_well_known_names_are_still_found(
    run: RunFolder, market: Path, tmp_path: Path
) -> None:
    moved = market.rename(tmp_path / "elsewhere")
    try:
        value = printed_report(run.path)
        assert masks_of(value)["bright"]["step_rates"]["company"]["count"] > 0
        assert any(
            note.startswith("without the market, only well-known names") for note in value["notes"]
        )
        assert printed_report(run.path, "--data", moved)["notes"] == []
    finally:
        moved.rename(market)

    save_snapshot(small_market(seed=12), tmp_path / "other")
    with pytest.raises(DataError, match="is snapshot"):
        tell(run.path, "--data", tmp_path / "other")

    with pytest.raises(StoreError, match="no run here"):
        tell(tmp_path)


def test_the_text_of_a_step_is_what_was_written_and_what_was_sent(run: RunFolder) -> None:
    check_plugin("ktdeval_rationale")
    spec = next(spec for spec in run.manifest.specs if spec.mask == "stock_blind")
    step = next(iter(read_steps(run, spec, str)))

    assert "day 2024-02-29 has closed" in step.sent
    assert [text.source for text in step.texts][-1] == "overall_reason"
    assert {text.order for text in step.texts if text.source == "reason"} == set(
        range(len(step.texts) - 1)
    )


# ==== rates with intervals, and differences between masks
