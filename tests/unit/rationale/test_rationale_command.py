"""`ktdeval rationale` on real runs of a model that tells stories about whatever it is shown, under all four masks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import rationale_plugin
from accept_runs import evaluate
from ktdeval.errors import DataError, StoreError, UsageError
from ktdeval.jsonio import dumps_canonical
from ktdeval.market.storage import save_snapshot
from ktdeval.masking.identities import WITHHELD
from ktdeval.runner.store import RunFolder
from ktdeval.testing.conformance import check_plugin
from ktdeval.trading.ledger import CountsRecord
from ktdeval.typed import to_plain
from ktdeval_rationale.command import rationale
from ktdeval_rationale.counts import StepTexts, read_steps
from ktdfin_market import small_market
from run_support import store_market

PLUGIN = Path(rationale_plugin.__file__)
MASKS = ("bright", "stock_blind", "date_blind", "blinded")
WINDOWS = "2024-03-01:2024-03-06,2024-03-11:2024-03-14,2024-03-19:2024-03-22"
SECRET = "sk-told-aloud-0123456789"


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_market(tmp_path_factory.mktemp("market") / "small")


@pytest.fixture(scope="module")
def run(market: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    out = tmp_path_factory.mktemp("run") / "run"
    words = ("--plugin", str(PLUGIN), "--data", str(market), "--windows", WINDOWS)
    return evaluate(out, "test/storyteller", [f"{mask}_fixed_candidate" for mask in MASKS], *words)


@pytest.fixture(scope="module")
def research(market: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A blinded run with tools, in which the model says a secret aloud."""
    out = tmp_path_factory.mktemp("research") / "run"
    words = ("--plugin", str(PLUGIN), "--data", str(market), "--windows", "2024-03-01:2024-03-06")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(rationale_plugin.SECRET, f"{SECRET} and Kweichow Moutai")
        return evaluate(out, "test/storyteller", ["blinded_open_research"], *words)


@pytest.fixture(scope="module")
def report(run: RunFolder) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(tell(run.path, "--json", "--examples", 2))
    return value


def tell(*words: object) -> str:
    return CliRunner().invoke(rationale, [str(word) for word in words], catch_exceptions=False).stdout


def masks_of(report: dict[str, Any]) -> dict[str, Any]:
    [target_task] = report["subjects"]
    found: dict[str, Any] = target_task["masks"]
    return found


def share_of_reasons(run: RunFolder, mask: str, is_wanted: Callable[[str], bool]) -> float:
    """Counted by hand: reasons and overall reasons of the ledgers that hold something."""
    reasons = []
    for spec in run.manifest.specs:
        for step in run.load_ledger(spec).steps if spec.mask == mask else ():
            reasons += [order.reason for order in step.orders] + [step.overall_reason]
    return sum(map(is_wanted, reasons)) / len(reasons)


def test_the_plugin_keeps_the_contract() -> None:
    check_plugin("ktdeval_rationale")


@pytest.mark.parametrize("mask", MASKS)
def test_rates_are_the_shares_of_reasons_that_hold_the_words(run: RunFolder, report: dict[str, Any], mask: str) -> None:
    rates = masks_of(report)[mask]["reason_rates"]
    wanted = {
        "company": lambda text: "Moutai" in text or "CATL" in text,
        "sector": lambda text: "semiconductor" in text,
        "event": lambda text: "Spring Festival" in text,
        "date": lambda text: "2016" in text,
        "stock": lambda text: any(word in text for word in ("Moutai", "CATL", "semiconductor")),
        "recognition": lambda text: "asset_0001 is" in text,
        "code": lambda text: "600519.SH" in text or WITHHELD in text,
        "withheld": lambda text: False,
    }
    for row, is_wanted in wanted.items():
        assert rates[row]["share"] == pytest.approx(share_of_reasons(run, mask, is_wanted)), row
        assert rates[row]["low"] <= rates[row]["share"] <= rates[row]["high"]


def test_what_the_ledger_withholds_is_counted_as_what_was_submitted(run: RunFolder, report: dict[str, Any]) -> None:
    """Blinded ledgers say `[withheld]` for the code that the model guessed; its submission says that it was a code."""
    blinded = next(spec for spec in run.manifest.specs if spec.mask == "blinded")
    recorded = run.load_ledger(blinded).steps[rationale_plugin.GUESSING_STEP].overall_reason
    assert recorded == rationale_plugin.GUESS.replace("600519.SH", WITHHELD)
    rates = masks_of(report)["blinded"]["step_rates"]
    assert rates["code"]["count"] == 3  # once in each window
    assert rates["withheld"]["count"] == 0


def test_without_the_submission_it_is_counted_as_withheld(run: RunFolder, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "run")
    folder = RunFolder.load(copy)
    for spec in folder.manifest.specs:
        reopen(folder, spec, lambda talk: {**talk, "submission": None})
    rates = masks_of(json.loads(tell(copy, "--json")))["blinded"]["step_rates"]
    assert (rates["code"]["count"], rates["withheld"]["count"]) == (0, 3)


def reopen(folder: RunFolder, spec: Any, change: Callable[[Any], Any], steps: int | None = None) -> None:
    """Make a finished episode one that is still under way, with its transcript changed."""
    ledger, talks = folder.load_ledger(spec), to_plain(folder.load_transcript(spec))
    path = folder.episode_path(spec)
    for file in path.iterdir():
        file.unlink()
    entries = zip(ledger.steps[:steps], talks[:steps], strict=True)
    lines = [
        dumps_canonical({"step": to_plain(step), "transcript": change(talk), "memory": None, "wall_s": 0.0})
        for step, talk in entries
    ]
    (path / "journal.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_appendix_a_shows_in_the_model_that_has_it(report: dict[str, Any]) -> None:
    """Hiding the stock removes what it knows of stocks, hiding the date what it knows of days, and neither the other."""
    [target_task] = report["subjects"]
    verdicts = {(row["hidden"], row["before"], row["row"]): row for row in target_task["hiding"]}
    for before in ("bright", "date_blind"):
        row = verdicts["stock", before, "stock"]
        assert (row["verdict"], row["share_after"]) == ("removed (predicted)", 0.0)
        assert row["share_before"] == 0.5
        assert verdicts["stock", before, "calendar"]["verdict"] == "no change shown (predicted)"
    for before in ("bright", "stock_blind"):
        row = verdicts["date", before, "calendar"]
        assert (row["verdict"], row["share_before"], row["share_after"]) == ("removed (predicted)", 0.5, 0.0)
        assert verdicts["date", before, "stock"]["verdict"] == "no change shown (predicted)"
    effects = {(row["row"], row["effect"]): row["value"] for row in target_task["effects"]}
    assert effects["stock", "stock_effect"] == pytest.approx(0.5)
    assert effects["stock", "date_effect"] == pytest.approx(0.0)
    assert effects["calendar", "date_effect"] == pytest.approx(0.5)
    assert effects["calendar", "stock_effect"] == pytest.approx(0.0)


def test_examples_say_what_where_and_whether_it_had_been_sent(run: RunFolder, report: dict[str, Any]) -> None:
    [target_task] = report["subjects"]
    examples = target_task["examples"]
    company = next(row for row in examples if (row["mask"], row["category"]) == ("bright", "company"))
    assert (company["text"], company["was_sent"]) in {("Kweichow Moutai", False), ("CATL", False)}
    assert company["where"].startswith("bright_fixed_candidate 2024-03-01:2024-03-06 seed 0 step 0, reason of order ")
    assert {row["mask"] for row in examples if row["category"] in ("company", "sector")} == {"bright", "date_blind"}
    shown = tell(run.path, "--examples", 1)
    assert "* bright sector: A leading ⟦semiconductor⟧ name, volume confirms." in shown
    assert "Examples" not in tell(run.path)


def test_the_table_says_the_same(run: RunFolder) -> None:
    shown = tell(run.path)
    assert "test/storyteller, react, fixed_candidate" in shown
    steps = shown.partition("Steps that name it")[2].splitlines()
    assert next(line for line in steps if line.strip().startswith("date or event")).split()[3:6] == ["50.0", "[25.4,", "74.6]"]
    assert "stock: bright → stock_blind  company, brand or sector" in shown
    assert "removed (predicted)" in shown
    assert tell(run.path) == shown


def test_runs_are_read_together_and_episodes_counted_once(run: RunFolder, research: RunFolder, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "copy")
    value = json.loads(tell(run.path, copy, research.path, "--json"))
    assert [target_task["subject"] for target_task in value["subjects"]] == [
        "test/storyteller, react, fixed_candidate",
        "test/storyteller, react, open_research",
    ]
    assert value["subjects"][0]["masks"]["bright"]["episodes"] == 3


def test_research_and_reasoning_are_read_and_secrets_are_not_told(research: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORYTELLER_KEY_AGAIN", SECRET)
    text = tell(research.path, "--json", "--examples", 5)
    assert SECRET not in text
    assert "[STORYTELLER_KEY_AGAIN]" in text
    rates = masks_of(json.loads(text))["blinded"]
    assert rates["sources"]["research"]["texts"] >= 4
    assert rates["sources"]["reasoning"]["company"] == 4  # once a step, beside the submission
    assert rates["step_rates"]["company"]["share"] == 1.0
    assert rates["reason_rates"]["company"]["share"] == 0.0


def test_the_second_stage_is_reported_with_its_encoder(run: RunFolder, tmp_path: Path) -> None:
    value = json.loads(tell(run.path, "--json", "--embeddings", "--examples", 1))
    assert value["second_stage"]["encoder"] == "letter groups"
    masks = masks_of(value)
    assert masks["bright"]["resembling"]["share"] > 0  # `keeps its pricing power` is in an anchor too
    assert masks["blinded"]["resembling"]["share"] == 0
    assert masks["bright"]["only_resembling"]["share"] == 0
    assert value["subjects"][0]["resemblances"]["bright"][0]["category"] == "brand"
    assert "second stage: letter groups" in tell(run.path, "--embeddings", "--examples", 1)
    assert json.loads(tell(run.path, "--json"))["second_stage"] is None


def test_a_model_that_cannot_be_had_is_said_and_the_rest_is_told(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "model2vec", None)  # as if it were not installed
    shown = tell(run.path, "--embedding-model", tmp_path)
    assert "second stage not run: a sentence-embedding model needs the package model2vec" in shown
    assert "company, brand or sector" in shown


def test_unfinished_episodes_count_as_far_as_they_are(run: RunFolder, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "run")
    folder = RunFolder.load(copy)
    spec = folder.manifest.specs[0]
    reopen(folder, spec, lambda talk: talk, steps=2)
    value = json.loads(tell(copy, "--json"))
    assert masks_of(value)[spec.mask]["steps"] == 10
    assert f"{spec.task} {spec.window.name} seed 0 is unfinished: 2 steps of it count" in value["notes"]


def test_a_damaged_episode_is_left_out_and_said(run: RunFolder, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "run")
    folder = RunFolder.load(copy)
    spec = folder.manifest.specs[0]
    (folder.episode_path(spec) / "ledger.parquet").write_bytes(b"nothing")
    value = json.loads(tell(copy, "--json"))
    assert masks_of(value)[spec.mask]["episodes"] == 2
    assert any("is left out: " in note and "not a readable ledger" in note for note in value["notes"])


def test_an_episode_without_orders_is_left_out_and_said(run: RunFolder, tmp_path: Path) -> None:
    """As one of a task that asks questions instead of trading."""
    copy = shutil.copytree(run.path, tmp_path / "run")
    folder = RunFolder.load(copy)
    spec = folder.manifest.specs[0]
    reopen(folder, spec, lambda talk: talk, steps=1)
    path = folder.episode_path(spec) / "journal.jsonl"
    entry = json.loads(path.read_text())
    counts = {name: entry["step"][name] for name in ("step", "provenance", *CountsRecord.__struct_fields__)}
    entry["step"] = {**counts, "sample": "probe_0000", "answer": None, "facts": {}, "scores": {}}
    path.write_text(f"{json.dumps(entry)}\n")
    assert any("holds no orders, so no reasons" in note for note in json.loads(tell(copy, "--json"))["notes"])


def test_without_the_market_well_known_names_are_still_found(run: RunFolder, market: Path, tmp_path: Path) -> None:
    moved = market.rename(tmp_path / "elsewhere")
    try:
        value = json.loads(tell(run.path, "--json"))
        assert masks_of(value)["bright"]["step_rates"]["company"]["count"] > 0
        assert any(note.startswith("without the market only well-known names") for note in value["notes"])
        assert json.loads(tell(run.path, "--json", "--data", moved))["notes"] == []
    finally:
        moved.rename(market)
    other = tmp_path / "other"
    save_snapshot(small_market(seed=12), other)
    with pytest.raises(DataError, match="is snapshot"):
        tell(run.path, "--data", other)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no run here"):
        tell(tmp_path)


def test_a_run_without_a_step_says_so(run: RunFolder, tmp_path: Path) -> None:
    copy = shutil.copytree(run.path, tmp_path / "run")
    shutil.rmtree(copy / "episodes")
    with pytest.raises(UsageError, match=r"no episode has a step with a reason: .* is unfinished: 0 steps of it count"):
        tell(copy)


def test_the_text_of_a_step_is_what_was_written_and_what_was_sent(run: RunFolder) -> None:
    spec = next(spec for spec in run.manifest.specs if spec.mask == "stock_blind")
    [step, *_] = read_steps(run, spec, str)
    assert isinstance(step, StepTexts)
    assert "day 2024-02-29 has closed" in step.sent
    assert [text.source for text in step.texts][-1] == "overall_reason"
    assert {text.order for text in step.texts if text.source == "reason"} == set(range(len(step.texts) - 1))
