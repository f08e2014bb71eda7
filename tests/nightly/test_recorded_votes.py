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
from ktdeval.testing import Terminal
from support.accept.voting_models import order_model, stance_model
from support.runs.forging import change_transcript, rehash

VOTERS = 5
FAILING = frozenset({"day_+4", "day_+5"})
#: the same mask key in two runs, others of their own
KEYS = ("0" * 32, "0" * 32, "1" * 32, "2" * 32, "3" * 32)
#: runs of decisions on one coin, two seeds each, and of orders on five stocks
STANCES = "stances0 stances1 stances2 stances3 stances4"
ORDERS = "orders0 orders1 orders2 orders3 orders4"


def run(
    model: Callable[..., Any],
    out: Path,
    tasks: str = "ama_btc",
    data: str = "synthetic_arena",
    **more: Any,
) -> Path:
    options = {"limit": 20, **more}
    return ktdeval.evaluate(model, tasks, data=data, out=out, quiet=True, **options).folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the voters' runs, and the vote of those with decisions; the calls of their last
    one fail on two days.
    """
    folder = tmp_path_factory.mktemp("votes")

    for number, key in enumerate(KEYS):
        name = f"voter{number}"
        stance = stance_model(name, FAILING if number == VOTERS - 1 else frozenset())
        run(stance, folder / f"stances{number}", seeds=2, mask_key=key)
        funds = ("deepfund_berkshire", "synthetic_deepfund")
        run(order_model(name), folder / f"orders{number}", *funds, mask_key=key)

    (folder / "mine").mkdir()
    (folder / "mine" / "notes.txt").touch()
    runs = [str(folder / name) for name in STANCES.split()]
    assert main(["paper", "vote", *runs, "--out", str(folder / "elected")]) == 0

    return folder


@pytest.fixture(autouse=True)
def _at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)


def vote(terminal: Terminal, words: str) -> str:
    """What `ktdeval paper vote` prints."""
    return terminal.text("paper", "vote", *words.split())


def refused(terminal: Terminal, words: str) -> str:
    return terminal.refusal("paper", "vote", *words.split())


def found_out(terminal: Terminal, words: str) -> str:
    """What is wrong with an elected run."""
    code, _, err = terminal.call("paper", "vote", *words.split())
    assert code == 1
    return err


def decisions_of(names: str) -> pd.DataFrame:
    """One row for each decision in the transcripts of runs: seed, step, decision, confidence."""
    rows = []

    for name in names.split():
        folder = RunFolder.load(Path(name))
        for spec in folder.manifest.specs:
            for entry in folder.load_transcript(spec):
                for each in json.loads(entry.submission or "{}").get("decisions", []):
                    rows.append({**each, "seed": spec.seed, "step": entry.step})

    return pd.DataFrame(rows)


def test_decisions_are_elected_as_an_independent_count_elects_them(terminal: Terminal) -> None:
    ballots = decisions_of(STANCES)
    cells = ballots.groupby(["seed", "step"])
    counts = cells["decision"].value_counts().unstack(fill_value=0)
    majority = counts.idxmax(axis=1).where(counts.max(axis=1) > VOTERS / 2, "HOLD")

    assert majority.nunique() == 3  # all three are elected on some day
    assert (counts.max(axis=1) <= VOTERS / 2).any()  # and some day has no majority
    # a failed call is no vote, and counts against every majority
    assert len(ballots) == 2 * (20 * VOTERS - len(FAILING))

    folder = RunFolder.load(Path("elected"))

    for spec in folder.manifest.specs:
        held = 0
        for step in folder.load_ledger(spec).steps:
            cell = (spec.seed, step.step)
            decision = majority[cell]
            held = {"BUY": 1, "SELL": -1, "HOLD": held}[decision]
            sides = [(position.shares > 0) - (position.shares < 0) for position in step.positions]
            assert sum(sides) == held
            assert step.provenance == "elected"
            assert step.failures == (
                {"no_ballot": 1, "silent_role": 1} if step.step in (4, 5) else {}
            )
            same = cells.get_group(cell).query("decision == @decision")
            for order in step.orders:
                assert order.confidence == pytest.approx(same["confidence"].mean())

    verified = terminal.text("card", "verify", "elected")
    assert "verified (episodes: 2, steps executed again: 40" in verified
    assert terminal.text("card", "verify", "--card-only", "elected")

    voters = vote(terminal, f"{STANCES} --verify elected")
    assert "ballots of 5 voters as in their runs, steps executed again: 40" in voters


def orders_of(name: str) -> pd.DataFrame:
    frame = ktdeval.load_run(name).orders()
    return frame.drop_duplicates(["filled_on", "code"], keep="last")


def test_orders_are_elected_as_an_independent_count_elects_them(
    tmp_path: Path, terminal: Terminal
) -> None:
    out = tmp_path / "elected"
    vote(terminal, f"{ORDERS} --out {out}")
    ballots = pd.concat(list(map(orders_of, ORDERS.split())))
    sides = ballots.groupby(["filled_on", "code", "side"]).agg(
        votes=("side", "size"),
        confidence=("confidence", "mean"),
        weight=("target_weight", "median"),
    )
    expected = sides[sides["votes"] > VOTERS / 2].reset_index()

    assert len(expected) > 10
    assert set(expected["side"]) == {"BUY", "SELL"}

    found = orders_of(str(out)).rename(columns={"target_weight": "weight"})
    columns = ["filled_on", "code", "side", "confidence", "weight"]
    ours, theirs = (
        frame[columns].sort_values(columns[:3], ignore_index=True) for frame in (found, expected)
    )
    pd.testing.assert_frame_equal(ours, theirs, check_dtype=False)

    assert "verified" in vote(terminal, f"{ORDERS} --verify {out}")


def test_the_card_says_that_it_is_a_vote_and_of_whom(terminal: Terminal) -> None:
    (card,) = ktdeval.load_run("elected").typed_cards
    plain = card.plain

    assert "elected" in plain["labels"]
    assert plain["failures"] == {"no_ballot": 4, "silent_role": 4}
    assert plain["decisions"]["elected"] == 40
    assert (plain["model"]["name"], plain["agent"]["name"]) == ("elected/majority", "vote")

    voters = plain["model"]["args"]["voters"]
    assert [voter["model"] for voter in voters] == [f"python/voter{n}" for n in range(VOTERS)]
    assert {voter["agent"] for voter in voters} == {"react"}
    assert len({voter["records"] for voter in voters}) == VOTERS
    # The voters' models are functions, whose cost nobody knows: theirs is not 0.
    assert plain["cost"]["value"] is None
    assert "elected" in terminal.text("card", "show", "elected")
    assert "voter 3 (python/voter2)" in terminal.text("view", "roles", "elected")


def test_equal_elections_give_equal_bytes_and_no_handles_of_a_voter(
    tmp_path: Path, terminal: Terminal
) -> None:
    vote(terminal, f"{STANCES} --out {tmp_path}/again")
    first = RunFolder.load(Path("elected"))
    again = RunFolder.load(tmp_path / "again")
    specs = first.manifest.specs

    assert first.manifest.to_json() == again.manifest.to_json()
    assert first.artefacts(specs) == again.artefacts(specs)
    assert specs[0].mask_key not in KEYS


# -- what is found out


def rewritten(name: str, out: Path, change: Callable[[list[Any]], Any]) -> Path:
    """A copy of a run with changed transcripts, and marks made to fit."""
    shutil.copytree(name, out)
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


def test_a_turned_ballot_is_found_by_the_voters_records(tmp_path: Path, terminal: Terminal) -> None:
    forged = rewritten("elected", tmp_path / "forged", turn_a_ballot)
    found = found_out(terminal, f"{STANCES} --verify {forged}")

    assert "step 7: the ballot of voter 2 is not the one that" in found
    assert terminal.call("card", "verify", forged)[0] == 1


def test_a_changed_record_of_a_voter_is_found(tmp_path: Path, terminal: Terminal) -> None:
    def change(entries: list[Any]) -> None:
        for entry in entries:
            entry["submission"] = (entry["submission"] or "").replace("BUY", "SELL")

    forged = rewritten("stances2", tmp_path / "voter", change)
    voters = STANCES.replace("stances2", str(forged))

    assert "voter 3: records: recorded" in found_out(terminal, f"{voters} --verify elected")

    # Without a mark that fits, it is no finished record at all.
    transcript = next(forged.rglob("transcript.jsonl.zst"))
    transcript.write_bytes(transcript.read_bytes() + b"x")
    message = refused(terminal, f"{voters} --out {tmp_path}/out")

    assert "was changed after the episode ended" in message


def test_other_voters_and_another_order_are_found(terminal: Terminal) -> None:
    turned = found_out(terminal, "stances1 stances0 stances2 stances3 stances4 --verify elected")
    fewer = found_out(terminal, "stances0 stances1 stances2 stances3 --verify elected")

    assert "voter 1: model: recorded python/voter0" in turned
    assert "it has 5 voters, but 4 runs are given" in fewer


# -- what is refused


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("stances0 --out new", "a vote needs two or more runs"),
        ("stances0 stances1 stances0 --out new", "a run votes once"),
        (STANCES, "--out"),
        (f"{STANCES} --out mine", "exists already"),
        (f"{STANCES} --verify stances0", "is not an elected run"),
    ],
)
def test_a_vote_needs_different_finished_runs_and_a_new_folder(
    words: str, message: str, terminal: Terminal
) -> None:
    assert message in refused(terminal, words)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"seeds": 1}, "seeds differ: 0; "),
        ({"limit": 5}, "the limit of steps differ: 5; "),
        ({"windows": "2025-08-02:2025-08-30"}, "windows differ: 2025-08-02:2025-08-30"),
        ({"tasks": "ama_btc_flat"}, "tasks differ: ama_btc_flat; "),
        ({"data_args": {"seed": 9}}, "the market (snapshot) differ: "),
    ],
)
def test_runs_of_another_plan_are_refused_by_what_differs(
    more: dict[str, Any], words: str, tmp_path: Path, terminal: Terminal
) -> None:
    differing = run(stance_model("other"), tmp_path / "other", **{"seeds": 2, **more})
    message = refused(terminal, f"stances0 {differing} --out {tmp_path}/out")

    assert words in message
    assert str(differing) in message
    assert not (tmp_path / "out").exists()


def test_runs_of_different_rules_vote_by_those_that_are_given(
    tmp_path: Path, terminal: Terminal
) -> None:
    other = run(stance_model("other"), tmp_path / "other", seeds=2, rules="paper")
    words = f"stances0 {other} --out {tmp_path}/out"

    assert "rules differ: paper" in refused(terminal, words)
    vote(terminal, f"{words} --rules paper")


# -- what accounts of their own mean


def trader(name: str, sides: Mapping[str, str]) -> Callable[..., str]:
    """A model that trades the cheapest asset on some days."""

    def decide(request: ModelRequest) -> str:
        assert request.state is not None

        if request.tool_choice is None:
            return "no research"

        prices = request.state.prices
        cheapest = min(prices, key=prices.__getitem__)
        orders = []
        if side := sides.get(request.state.day):
            weight = {"BUY": 0.05, "SELL": 0.0}[side]
            orders = [order_of(cheapest, side=side, target_weight=weight)]

        return json.dumps({"orders": orders, "overall_reason": "as in the script"})

    decide.__name__ = name

    return decide


def order_of(label: str, **more: Any) -> dict[str, Any]:
    order = {"side": "BUY", "target_weight": 0.05, "confidence": 0.5, "reason": "as in the script"}
    return {"stock_id": label, **order, **more}


def test_an_elected_sale_of_what_only_the_voters_hold_is_left_out(
    tmp_path: Path, terminal: Terminal
) -> None:
    # One after the other, two of three voters buy the cheapest asset; then both sell it.
    sides = {
        "one": {"day_+0": "BUY", "day_+2": "SELL"},
        "two": {"day_+1": "BUY", "day_+2": "SELL"},
        "three": {},
    }
    market = ("blinded_fixed_candidate", "synthetic")
    runs = []

    for name, traded in sides.items():
        made = run(trader(name, traded), tmp_path / name, *market, limit=4, windows="W1")
        assert len(ktdeval.load_run(made).orders()) == len(traded)
        runs.append(str(made))

    out = tmp_path / "elected"
    vote(terminal, f"{' '.join(runs)} --out {out}")
    elected = ktdeval.load_run(out)
    (card,) = elected.typed_cards

    assert elected.orders().empty
    assert card.plain["failures"] == {"constraint": 1}
    assert card.plain["decisions"]["elected"] == 4
    assert "verified" in vote(terminal, f"{' '.join(runs)} --verify {out}")


def screening(request: ModelRequest) -> Reply | str:
    """A model that finds stocks by a research tool, and buys one of them."""
    found = [message.content for message in request.messages if message.role == "tool"]
    if request.tool_choice is None:
        if found:
            return "done"

        return Reply(tool_calls=(ToolCall("call", "screen_candidates", '{"factors": ["RV_60"]}'),))

    label = re.findall("asset_[0-9]+", found[0])[0]

    return json.dumps({"orders": [order_of(label)], "overall_reason": "found by screening"})


@pytest.mark.parametrize(
    ("model", "market", "agent", "message"),
    [
        (
            screening,
            ("blinded_open_research", "synthetic"),
            "react",
            "only the voters' own research has shown",
        ),
        (
            stance_model("voter"),
            ("ama_btc", "synthetic_arena"),
            "by_asset",
            "no submission is on record",
        ),
    ],
    ids=["orders on what research has shown", "decisions that no model wrote as a whole"],
)
def test_what_can_not_be_elected_stops_the_election_and_leaves_nothing(
    model: Any,
    market: tuple[str, str],
    agent: str,
    message: str,
    tmp_path: Path,
    terminal: Terminal,
) -> None:
    runs = [run(model, tmp_path / name, *market, agent=agent, limit=2) for name in ("run0", "run1")]
    code, _, err = terminal.call("paper", "vote", *runs, "--out", tmp_path / "elected")

    assert code != 0
    assert message in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run0", "run1"]
