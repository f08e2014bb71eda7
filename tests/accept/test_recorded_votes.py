"""Elections from recorded decisions: five runs of one agent over as many models, counted a second
time with pandas; what is refused, and what is found out.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ktdeval
from ktdeval.cli.main import main
from ktdeval.harness import ModelRequest, Reply, ToolCall
from ktdeval.runner import RunFolder
from support.accept.voting_models import order_model, stance_model
from support.runs.forging import change_transcript, rehash
from support.terminal import Terminal

VOTERS = 5
FAILING = frozenset({"day_+4", "day_+5"})
#: the same mask key in two runs, others of their own
KEYS = ("0" * 32, "0" * 32, "1" * 32, "2" * 32, "3" * 32)


def run(model: Callable[..., Any], out: Path, task: str, data: str, **more: Any) -> Path:
    options = {"limit": 20, **more}
    return ktdeval.evaluate(model, task, data=data, out=str(out), quiet=True, **options).folder


@pytest.fixture(scope="module")
def stances(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs of decisions on one coin, two seeds each; the calls of the last voter fail on two
    days.
    """
    folder = tmp_path_factory.mktemp("stances")
    runs = []

    for number, key in enumerate(KEYS):
        fails_on = FAILING if number == VOTERS - 1 else frozenset()
        model = stance_model(f"voter{number}", fails_on)
        out = folder / f"run{number}"
        runs.append(run(model, out, "ama_btc", "synthetic_arena", seeds=2, mask_key=key))

    return runs


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs of orders on five stocks."""
    folder = tmp_path_factory.mktemp("orders")
    runs = []

    for number, key in enumerate(KEYS):
        model = order_model(f"voter{number}")
        out = folder / f"run{number}"
        runs.append(run(model, out, "deepfund_berkshire", "synthetic_deepfund", mask_key=key))

    return runs


@pytest.fixture(scope="module")
def elected(stances: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("elected") / "run"
    assert main(["paper", "vote", *map(str, stances), "--out", str(out)]) == 0
    return out


def decisions_of(path: Path) -> pd.DataFrame:
    """One row for each decision in the transcripts of a run: seed, step, decision, confidence."""
    folder = RunFolder.load(path)
    rows = []

    for spec in folder.manifest.specs:
        for entry in folder.load_transcript(spec):
            submitted = json.loads(entry.submission or "{}").get("decisions", [])
            rows += [
                {
                    "seed": spec.seed,
                    "step": entry.step,
                    "decision": each["decision"],
                    "confidence": each["confidence"],
                }
                for each in submitted
            ]

    return pd.DataFrame(rows)


@pytest.mark.exhaustive
def test_decisions_are_elected_as_an_independent_count_elects_them(
    stances: list[Path], elected: Path, terminal: Terminal
) -> None:
    ballots = pd.concat([decisions_of(path).assign(voter=path.name) for path in stances])
    counts = ballots.groupby(["seed", "step"])["decision"].value_counts().unstack(fill_value=0)
    majority = counts.idxmax(axis=1).where(counts.max(axis=1) > VOTERS / 2, "HOLD")

    assert majority.nunique() == 3  # all three are elected on some day
    assert (counts.max(axis=1) <= VOTERS / 2).any()  # and some day has no majority
    assert len(ballots) == 2 * (20 * VOTERS - len(FAILING))

    folder = RunFolder.load(elected)

    for spec in folder.manifest.specs:
        held = 0
        for step in folder.load_ledger(spec).steps:
            decision = majority[spec.seed, step.step]
            held = {"BUY": 1, "SELL": -1, "HOLD": held}[decision]
            sides = [(position.shares > 0) - (position.shares < 0) for position in step.positions]
            assert sum(sides) == held
            assert step.provenance == "elected"
            assert step.failures == ({"no_ballot": 1} if step.step in (4, 5) else {})
            for order in step.orders:
                same = ballots[
                    (ballots["seed"] == spec.seed)
                    & (ballots["step"] == step.step)
                    & (ballots["decision"] == decision)
                ]
                assert order.confidence == pytest.approx(same["confidence"].mean())

    assert "verified (episodes: 2, steps executed again: 40" in terminal.text(
        "card", "verify", elected
    )

    text = terminal.text("paper", "vote", *stances, "--verify", elected)
    assert "ballots of 5 voters as in their runs, steps executed again: 40" in text
    assert terminal.text("card", "verify", "--card-only", elected)


@pytest.mark.exhaustive
def test_a_failed_call_is_no_vote_and_counts_against_every_majority(
    stances: list[Path], elected: Path
) -> None:
    (card,) = ktdeval.load_run(elected).typed_cards
    assert card.plain["failures"] == {"no_ballot": 4}
    assert card.plain["decisions"]["elected"] == 40

    # On the days on which one voter failed, two of four are no majority.
    ballots = pd.concat([decisions_of(path) for path in stances])
    days = ballots[ballots["step"].isin((4, 5))]

    assert (days.groupby(["seed", "step"]).size() == VOTERS - 1).all()


def orders_of(path: Path) -> pd.DataFrame:
    frame = ktdeval.load_run(path).orders()
    return frame.drop_duplicates(["filled_on", "code"], keep="last")


@pytest.mark.exhaustive
def test_orders_are_elected_as_an_independent_count_elects_them(
    orders: list[Path], tmp_path: Path, terminal: Terminal
) -> None:
    out = tmp_path / "elected"
    terminal.text("paper", "vote", *orders, "--out", out)
    ballots = pd.concat([orders_of(path) for path in orders])
    sides = ballots.groupby(["filled_on", "code", "side"]).agg(
        votes=("side", "size"),
        confidence=("confidence", "mean"),
        weight=("target_weight", "median"),
    )
    expected = sides[sides["votes"] > VOTERS / 2].reset_index()

    assert len(expected) > 10
    assert set(expected["side"]) == {"BUY", "SELL"}

    found = orders_of(out).rename(columns={"target_weight": "weight"})
    columns = ["filled_on", "code", "side", "confidence", "weight"]
    pd.testing.assert_frame_equal(
        found[columns].sort_values(columns[:3]).reset_index(drop=True),
        expected[columns].sort_values(columns[:3]).reset_index(drop=True),
        check_dtype=False,
    )

    assert "verified" in terminal.text("paper", "vote", *orders, "--verify", out)


@pytest.mark.exhaustive
def test_the_card_says_that_it_is_a_vote_and_of_whom(
    stances: list[Path], elected: Path, terminal: Terminal
) -> None:
    (card,) = ktdeval.load_run(elected).typed_cards
    plain = card.plain

    assert "elected" in plain["labels"]
    assert plain["model"]["name"] == "elected/majority"

    voters = plain["model"]["args"]["voters"]
    assert [voter["model"] for voter in voters] == [f"python/voter{n}" for n in range(VOTERS)]
    assert {voter["agent"] for voter in voters} == {"react"}
    assert len({voter["records"] for voter in voters}) == VOTERS
    assert plain["agent"]["name"] == "vote"
    # The voters' models are functions, whose cost nobody knows: theirs is not 0.
    assert plain["cost"]["value"] is None
    assert "elected" in terminal.text("card", "show", elected)
    assert "voter 3 (python/voter2)" in terminal.text("view", "roles", elected)


@pytest.mark.exhaustive
def test_equal_elections_give_equal_bytes_and_no_handles_of_a_voter(
    stances: list[Path], elected: Path, tmp_path: Path, terminal: Terminal
) -> None:
    again = tmp_path / "again"
    terminal.text("paper", "vote", *stances, "--out", again)
    first = RunFolder.load(elected)

    assert first.manifest.to_json() == RunFolder.load(again).manifest.to_json()

    specs = first.manifest.specs
    assert first.artefacts(specs) == RunFolder.load(again).artefacts(specs)
    assert specs[0].mask_key not in KEYS


# -- what is found out


def rewritten(run: Path, out: Path, change: Callable[[list[Any]], Any]) -> Path:
    """A copy of a run with changed transcripts, and marks made to fit."""
    shutil.copytree(run, out)
    for folder in (out / "episodes").iterdir():
        change_transcript(folder, change)
        rehash(folder)

    return out


def turn_a_ballot(entries: list[Any]) -> None:
    call = entries[7]["exchanges"][1]["reply"]["tool_calls"][0]
    ballot = json.loads(call["arguments"])
    now = ballot["decisions"][0]["decision"]
    ballot["decisions"][0]["decision"] = "SELL" if now == "BUY" else "BUY"
    call["arguments"] = json.dumps(ballot)


@pytest.mark.exhaustive
def test_a_turned_ballot_is_found_by_the_voters_records(
    stances: list[Path], elected: Path, tmp_path: Path, terminal: Terminal
) -> None:
    forged = rewritten(elected, tmp_path / "forged", turn_a_ballot)
    code, _, err = terminal.call("paper", "vote", *stances, "--verify", forged)

    assert code == 1
    assert "step 7: the ballot of voter 2 is not the one that" in err
    assert terminal.call("card", "verify", forged)[0] == 1


@pytest.mark.exhaustive
def test_a_changed_record_of_a_voter_is_found(
    stances: list[Path], elected: Path, tmp_path: Path, terminal: Terminal
) -> None:
    def change(entries: list[Any]) -> None:
        for entry in entries:
            entry["submission"] = (entry["submission"] or "").replace("BUY", "SELL")

    forged = rewritten(stances[2], tmp_path / "voter", change)
    voters = [*stances[:2], forged, *stances[3:]]
    code, _, err = terminal.call("paper", "vote", *voters, "--verify", elected)

    assert code == 1
    assert "voter 3: records: recorded" in err

    # Without a mark that fits, it is no finished record at all.
    spec = RunFolder.load(forged).manifest.specs[0]
    transcript = RunFolder.load(forged).episode_path(spec) / "transcript.jsonl.zst"
    transcript.write_bytes(transcript.read_bytes() + b"x")
    refused = terminal.refusal("paper", "vote", *voters, "--out", tmp_path / "out")

    assert "was changed after the episode ended" in refused


@pytest.mark.exhaustive
def test_other_voters_and_another_order_are_found(
    stances: list[Path], elected: Path, terminal: Terminal
) -> None:
    turned = [stances[1], stances[0], *stances[2:]]
    code, _, err = terminal.call("paper", "vote", *turned, "--verify", elected)

    assert (code, "voter 1: model: recorded python/voter0" in err) == (1, True)

    code, _, err = terminal.call("paper", "vote", *stances[:4], "--verify", elected)
    assert (code, "it has 5 voters, but 4 runs are given" in err) == (1, True)

    refused = terminal.refusal("paper", "vote", *stances, "--verify", stances[0])
    assert "is not an elected run" in refused


# -- what is refused


def other(tmp_path: Path, **more: Any) -> Path:
    options = {"task": "ama_btc", "data": "synthetic_arena", "seeds": 2, **more}
    return run(stance_model("other"), tmp_path / "other", **options)


@pytest.mark.exhaustive
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"seeds": 1}, "seeds differ: 0; "),
        ({"limit": 5}, "the limit of steps differ: 5; "),
        ({"windows": "2025-08-02:2025-08-30"}, "windows differ: 2025-08-02:2025-08-30"),
        ({"task": "ama_btc_flat"}, "tasks differ: ama_btc_flat; "),
        ({"data_args": {"seed": 9}}, "the market (snapshot) differ: "),
    ],
)
def test_runs_of_another_plan_are_refused_by_what_differs(
    more: dict[str, Any], words: str, stances: list[Path], tmp_path: Path, terminal: Terminal
) -> None:
    differing = other(tmp_path, **more)
    refused = terminal.refusal("paper", "vote", stances[0], differing, "--out", tmp_path / "out")

    assert words in refused
    assert str(differing) in refused
    assert not (tmp_path / "out").exists()


@pytest.mark.exhaustive
def test_a_vote_needs_two_different_finished_runs_and_a_new_folder(
    stances: list[Path], tmp_path: Path, terminal: Terminal
) -> None:
    out = tmp_path / "out"
    refused = terminal.refusal("paper", "vote", stances[0], "--out", out)

    assert "a vote needs two or more runs" in refused

    refused = terminal.refusal("paper", "vote", stances[0], stances[1], stances[0], "--out", out)
    assert "a run votes once" in refused
    assert "--out" in terminal.refusal("paper", "vote", *stances)

    out.mkdir()
    (out / "notes.txt").write_text("mine")

    assert "exists already" in terminal.refusal("paper", "vote", *stances, "--out", out)

    differing = other(tmp_path, rules="paper")
    refused = terminal.refusal("paper", "vote", stances[0], differing, "--out", tmp_path / "new")

    assert "rules differ: paper" in refused

    terminal.text(
        "paper", "vote", stances[0], differing, "--rules", "paper", "--out", tmp_path / "new"
    )


@pytest.mark.exhaustive
def test_half_of_an_even_number_is_no_majority(
    stances: list[Path], tmp_path: Path, terminal: Terminal
) -> None:
    terminal.text("paper", "vote", *stances[:2], "--out", tmp_path / "two")
    first, second = (decisions_of(path).set_index(["seed", "step"]) for path in stances[:2])
    agreed = first["decision"].where(first["decision"] == second["decision"], "HOLD")
    folder = RunFolder.load(tmp_path / "two")
    traded = set()

    for spec in folder.manifest.specs:
        steps = folder.load_ledger(spec).steps
        traded |= {(spec.seed, step.step) for step in steps if step.orders}

    assert 0 < (agreed != "HOLD").sum() < len(agreed)
    assert traded
    assert traded <= set(agreed[agreed != "HOLD"].index)


# -- what accounts of their own mean


def script(name: str, trades: Mapping[str, tuple[str, int]]) -> Callable[..., str]:
    """A model that trades an asset, counted from the cheapest, on some days."""

    def decide(request: ModelRequest) -> str:
        assert request.state is not None

        if request.tool_choice is None:
            return "no research"

        orders = []
        if request.state.day in trades:
            side, place = trades[request.state.day]
            by_price = sorted(request.state.prices.items(), key=lambda item: item[1])
            size = {"target_weight": 0.0 if side == "SELL" else 0.05}
            order = {"side": side, "confidence": 0.5, "reason": "as in the script", **size}
            orders = [{"stock_id": by_price[place][0], **order}]

        return json.dumps({"orders": orders, "overall_reason": "as in the script"})

    decide.__name__ = name

    return decide


@pytest.mark.exhaustive
def test_an_elected_sale_of_what_only_the_voters_hold_is_left_out(
    tmp_path: Path, terminal: Terminal
) -> None:
    # One after the other, two of three voters buy the cheapest asset; then both sell it.
    scripts = {
        "one": {"day_+0": ("BUY", 0), "day_+2": ("SELL", 0)},
        "two": {"day_+1": ("BUY", 0), "day_+2": ("SELL", 0)},
        "three": {},
    }
    runs = []

    for name, trades in scripts.items():
        model = script(name, trades)
        runs.append(
            run(
                model,
                tmp_path / name,
                "blinded_fixed_candidate",
                "synthetic",
                limit=4,
                windows="W1",
            )
        )
        assert len(ktdeval.load_run(runs[-1]).orders()) == len(trades)

    out = tmp_path / "elected"
    terminal.text("paper", "vote", *runs, "--out", out)

    assert ktdeval.load_run(out).orders().empty

    (card,) = ktdeval.load_run(out).typed_cards
    assert card.plain["failures"] == {"constraint": 1}
    assert card.plain["decisions"]["elected"] == 4
    assert "verified" in terminal.text("paper", "vote", *runs, "--verify", out)


def screening(request: ModelRequest) -> Reply | str:
    """A model that finds stocks by a research tool, and buys one of them."""
    found = [message.content for message in request.messages if message.role == "tool"]
    if request.tool_choice is None:
        if found:
            return "done"

        return Reply(tool_calls=(ToolCall("call", "screen_candidates", '{"factors": ["RV_60"]}'),))

    label = re.findall("asset_[0-9]+", found[0])[0]
    order = {"stock_id": label, "side": "BUY", "target_weight": 0.05, "confidence": 0.5}
    orders = [{**order, "reason": "found by screening"}]

    return json.dumps({"orders": orders, "overall_reason": "found by screening"})


@pytest.mark.exhaustive
def test_an_order_on_what_only_research_has_shown_stops_the_election_and_leaves_nothing(
    tmp_path: Path, terminal: Terminal
) -> None:
    runs = []
    for number in range(2):
        out = tmp_path / f"run{number}"
        runs.append(run(screening, out, "blinded_open_research", "synthetic", limit=2))
        assert len(ktdeval.load_run(out).orders()) == 2

    refused = terminal.call("paper", "vote", *runs, "--out", tmp_path / "elected")

    assert refused[0] != 0
    assert "only the voters' own research has shown" in refused[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run0", "run1"]


@pytest.mark.exhaustive
def test_decisions_that_no_model_wrote_as_a_whole_are_refused(
    tmp_path: Path, terminal: Terminal
) -> None:
    runs = []
    for number in range(2):
        out = tmp_path / f"run{number}"
        options = {"agent": "by_asset", "limit": 2}
        runs.append(run(stance_model(f"v{number}"), out, "ama_btc", "synthetic_arena", **options))

    code, _, err = terminal.call("paper", "vote", *runs, "--out", tmp_path / "elected")

    assert code != 0
    assert "no submission is on record" in err
