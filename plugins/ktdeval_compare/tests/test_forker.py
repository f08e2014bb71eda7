"""Recorded steps asked again: what is sent, through which mask, and to whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ktdeval.calls.stop_flag import StopSignal
from ktdeval.errors import StoreError, UsageError
from ktdeval.harness import ModelRequest, Reply
from ktdeval.masking import identities_of
from ktdeval.registry import Plugins
from ktdeval.runner import (
    EpisodeAccess,
    ModelAccess,
    RunConfig,
    RunFolder,
    evaluate,
    open_access,
    open_recorded_snapshot,
    pack_lines,
)
from ktdeval_compare.forks.change_forms import parse_change
from ktdeval_compare.forks.forker import Forked, Forker, fork_config
from ktdeval_compare.forks.input_changes import CannotChangeError
from ktdeval_compare.transplants.transplanter import trading_tasks

pytestmark = pytest.mark.slow

CHANGES = (
    "MOM_12_1=reversed",
    "close_cny=+1 %",
    "sector=shuffled",
    "order=shuffled",
    "labels=shuffled",
    "performance=*-1",
)


class Listening:
    """A model that remembers what it is asked, and answers nothing."""

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []

    def reply(self, request: ModelRequest) -> Reply:
        self.asked.append(request)
        return Reply("")

    @property
    def prompt(self) -> str:
        return "\n".join(message.content for message in self.asked[0].messages)


def run_of(out: Path, plugins: Plugins, task: str, model: str = "momentum") -> RunFolder:
    config = RunConfig(
        model=f"builtin/{model}",
        tasks=(task,),
        windows=("W1",),
        limit=3,
        mask_key="0" * 32,
        out=str(out),
    )
    result = evaluate(config, plugins)
    assert not result.failed
    return RunFolder.load(result.folder)


def forker_of(folder: RunFolder, plugins: Plugins) -> Forker:
    (task,) = trading_tasks(folder, plugins)
    market = open_recorded_snapshot(folder, plugins, {})
    return Forker(folder, task, market, plugins, "0" * 64)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, plugins: Plugins) -> RunFolder:
    return run_of(tmp_path_factory.mktemp("fork") / "run", plugins, "blinded_fixed_candidate")


@pytest.fixture(scope="module")
def forker(folder: RunFolder, plugins: Plugins) -> Forker:
    return forker_of(folder, plugins)


def asked(forker: Forker, folder: RunFolder, step: int, change: str | None) -> str:
    """The prompt of a forked step."""
    model = Listening()
    (spec,) = folder.manifest.specs
    parsed = None if change is None else parse_change(change)
    access = EpisodeAccess(model, ModelAccess(model, None).for_episode(spec, print).counter)
    forker.ask(spec, step, Forked(parsed, 0), access)
    return model.prompt


def state_of(prompt: str) -> dict[str, Any]:
    (line,) = [line for line in prompt.splitlines() if line.startswith('{"day"')]
    state: dict[str, Any] = json.loads(line)
    return state


@pytest.mark.exhaustive
@pytest.mark.parametrize("step", [0, 2])
def test_a_step_asked_again_is_sent_the_recorded_prompt(
    forker: Forker, folder: RunFolder, step: int
) -> None:
    (spec,) = folder.manifest.specs
    sent: Any = folder.load_transcript(spec)[step].exchanges[0]["sent"]
    recorded = "\n".join(message["content"] for message in sent)
    assert asked(forker, folder, step, None) == recorded


@pytest.mark.parametrize("step", [0, 2])
def test_only_the_changed_cells_of_a_prompt_differ(
    forker: Forker, folder: RunFolder, step: int
) -> None:
    was = asked(forker, folder, step, None)
    now = asked(forker, folder, step, "MOM_12_1=1.5")

    before = state_of(was)
    after = state_of(now)
    for section in ("candidates", "holdings"):
        place = after[section]["columns"].index("MOM_12_1")
        for row, other in zip(before[section]["rows"], after[section]["rows"], strict=True):
            assert other[place] == 1.5
            row[place] = 1.5

    assert after == before
    # the words around the state are the same
    first = was.index('{"day"')
    assert now[:first] == was[:first]


def test_another_order_and_other_labels_tell_the_same(forker: Forker, folder: RunFolder) -> None:
    was = state_of(asked(forker, folder, 2, None))
    ordered = state_of(asked(forker, folder, 2, "order=shuffled"))
    labelled = state_of(asked(forker, folder, 2, "labels=shuffled"))

    rows = was["candidates"]["rows"]
    assert ordered["candidates"]["rows"] != rows
    assert sorted(ordered["candidates"]["rows"]) == sorted(rows)

    figures = [row[3:] for row in rows]
    assert [row[3:] for row in labelled["candidates"]["rows"]] == figures
    names = {row[0] for row in rows}
    shared = names & {row[0] for row in labelled["candidates"]["rows"]}
    assert len(shared) < 4  # of 9,999 numbers, two draws may have one or two in common


@pytest.mark.parametrize("change", CHANGES)
def test_no_code_and_no_day_is_in_a_forked_prompt(
    change: str, forker: Forker, folder: RunFolder, plugins: Plugins
) -> None:
    market = open_recorded_snapshot(folder, plugins, {})
    index = identities_of(market, assets=True, dates=True)
    prompt = asked(forker, folder, 2, change)
    assert not index.has_any(prompt)
    assert index.has_any(prompt + market.codes[0])  # what it would find


@pytest.mark.parametrize(
    "value", ["600519", "600519.SH", "2024-01-05", "5 January 2024", "*600519", "+600519"]
)
def test_a_value_that_names_a_code_or_a_day_is_refused(
    value: str, forker: Forker, folder: RunFolder
) -> None:
    (spec,) = folder.manifest.specs
    change = parse_change(f"MOM_12_1={value}")
    with pytest.raises(UsageError, match="names a stock, an industry or a day") as caught:
        forker.check(spec, 0, change)

    assert "600519" not in str(caught.value)


def test_samples_of_a_variant_draw_anew(tmp_path: Path, plugins: Plugins) -> None:
    folder = run_of(tmp_path / "run", plugins, "blinded_fixed_candidate", "random")
    forker = forker_of(folder, plugins)
    (spec,) = folder.manifest.specs
    config = fork_config(spec, {})
    _, access = open_access(config, plugins, tmp_path, StopSignal())
    of_episode = access.for_episode(spec, print)

    decisions = [forker.ask(spec, 0, Forked(None, sample), of_episode) for sample in (0, 1, 0)]
    assert decisions[0] == decisions[2]
    assert decisions[0].weights != decisions[1].weights


def test_where_tools_rank_by_the_changed_figure_there_is_no_decision(
    tmp_path: Path, plugins: Plugins
) -> None:
    folder = run_of(tmp_path / "run", plugins, "blinded_open_research")
    forker = forker_of(folder, plugins)
    (spec,) = folder.manifest.specs
    _, access = open_access(fork_config(spec, {}), plugins, tmp_path, StopSignal())

    change = parse_change("MOM_12_1=*-1")
    assert forker.check(spec, 0, change) is None  # tools may show it
    decision = forker.ask(spec, 0, Forked(change, 0), access.for_episode(spec, print))
    assert decision.failure is not None
    assert "a tool ranked by MOM_12_1" in decision.failure
    assert not decision.is_call_failure

    with pytest.raises(CannotChangeError, match="the step shows no MOM_12_1"):
        forker.check(spec, 0, parse_change("MOM_12_1=reversed"))


def test_labels_of_a_mask_that_shows_codes_are_no_placebo(tmp_path: Path, plugins: Plugins) -> None:
    folder = run_of(tmp_path / "run", plugins, "bright_fixed_candidate")
    forker = forker_of(folder, plugins)
    (spec,) = folder.manifest.specs
    with pytest.raises(CannotChangeError, match="the mask shows real codes"):
        forker.check(spec, 0, parse_change("labels=shuffled"))


@pytest.mark.exhaustive
def test_a_run_whose_replies_do_not_give_its_orders_is_refused(
    tmp_path: Path, plugins: Plugins
) -> None:
    folder = run_of(tmp_path / "run", plugins, "blinded_fixed_candidate")
    (spec,) = folder.manifest.specs
    other = run_of(tmp_path / "other", plugins, "blinded_fixed_candidate", "reversal")
    (other_spec,) = other.manifest.specs
    path = folder.episode_path(spec)
    said = (other.episode_path(other_spec) / "transcript.jsonl.zst").read_bytes()
    (path / "transcript.jsonl.zst").write_bytes(said)

    with pytest.raises(StoreError, match="step 0: does not follow from the recorded replies"):
        forker_of(folder, plugins).entries(spec, 0)


def test_a_model_that_is_given_factors_beside_its_prompt_is_refused(
    tmp_path: Path, plugins: Plugins
) -> None:
    folder = run_of(tmp_path / "run", plugins, "blinded_fixed_candidate")
    (spec,) = folder.manifest.specs
    said = [
        structs.replace(entry, predicted={"asset_0001": 0.5})
        for entry in folder.load_transcript(spec)
    ]
    (folder.episode_path(spec) / "transcript.jsonl.zst").write_bytes(pack_lines(said))

    with pytest.raises(UsageError, match="a fork changes only the prompt"):
        forker_of(folder, plugins).entries(spec, 0)


@pytest.mark.exhaustive
def test_a_model_behind_a_network_is_asked_through_its_budget_and_record(
    stub: Any, tmp_path: Path, plugins: Plugins, terminal: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from support.providers.stub_provider import KEY

    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    where = ("--base-url", stub.base_url, "--cache", "run")
    run = tmp_path / "run"
    terminal.out(
        "run", "--model", "openai_compatible/stub-model", "--tasks", "blinded_fixed_candidate",
        "--windows", "W1", "--limit", "1", "--canary", "0", "--quiet", "--out", run, *where,
    )  # fmt: skip
    before = stub.answers

    words = ("fork", run, "--change", "MOM_12_1=reversed", "--samples", "2", *where)
    _, out, err = terminal.call(*words, "--json")
    report = json.loads(out)
    assert "8 decisions to ask; about" in err
    assert report["draws"]
    assert (tmp_path / "run-fork" / "calls.sqlite").exists()
    made = stub.answers - before
    assert made >= 8

    # nothing is asked twice
    _, again, err = terminal.call(*words, "--json")
    assert "0 decisions to ask, 8 on record" in err
    assert json.loads(again) == report
    assert stub.answers - before == made


def test_a_fork_of_the_prompts_wording_replaces_that_text_alone(
    forker: Forker, folder: RunFolder
) -> None:
    before = asked(forker, folder, 0, None)
    after = asked(forker, folder, 0, "text of <your probability>=0.6")
    assert before.count("<your probability>") == 1
    assert after == before.replace("<your probability>", "0.6")


def test_a_text_that_the_prompt_lacks_is_a_failure_and_no_call(
    forker: Forker, folder: RunFolder
) -> None:
    model = Listening()
    (spec,) = folder.manifest.specs
    access = EpisodeAccess(model, ModelAccess(model, None).for_episode(spec, print).counter)
    decision = forker.ask(spec, 0, Forked(parse_change("text of no such words=0.6"), 0), access)
    assert decision.failure is not None
    assert "the prompt does not contain this text" in decision.failure
    assert not model.asked


@pytest.mark.parametrize("change", ["text=0.6", f"text of a={'b' * 201}"])
def test_a_rewording_without_a_text_or_too_long_is_refused(change: str) -> None:
    with pytest.raises(UsageError, match="expected 'text of OLD=NEW'"):
        parse_change(change)
