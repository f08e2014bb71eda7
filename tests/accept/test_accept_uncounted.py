"""A provider that does not count tokens: costs are not known, and never 0."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from support.providers.lucky_plugin import PLUGIN, UNCOUNTED
from support.runs.run_support import SAME_MASK, card_of, episodes, ktdeval

TASK = "bright_open_research"
PLAN = (
    "--plugin",
    PLUGIN,
    "--model",
    "lucky/x",
    "--tasks",
    TASK,
    "--windows",
    "2024-03-01:2024-03-29",
    "--limit",
    6,
    "--seeds",
    2,
    "--cache",
    "run",
    "--canary",
    0,
    "--price",
    "input=2,output=8",
    *SAME_MASK,
)


def made(folder: Path, uncounted: str) -> Path:
    run = folder / uncounted
    done = ktdeval(
        "run", *PLAN, "--quiet", "--out", run, cwd=folder, environment={UNCOUNTED: uncounted}
    )

    assert done.code == 0, done.err

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("uncounted")


@pytest.fixture(scope="module", params=["all", "some"])
def run(request: pytest.FixtureRequest, folder: Path) -> Path:
    return made(folder, request.param)


@pytest.mark.exhaustive
def test_the_cost_of_a_card_is_null_with_the_count_of_replies_without_tokens(
    run: Path,
) -> None:
    card = card_of(run, TASK)
    replies = sum(episode["uncounted"] for episode in card["episodes"])
    reason = f"the provider did not count the tokens of {replies} replies"

    assert replies > 0
    assert (card["cost"]["value"], card["cost"]["reason"]) == (None, reason)

    for name in ("per_episode", "return_per_usd"):
        undefined = sum(card["cost"][name]["undefined"].values())
        assert undefined == sum(episode["uncounted"] > 0 for episode in card["episodes"]), name
        assert "the episode cost nothing" not in card["cost"][name]["undefined"]

    verified = ktdeval(
        "card", "verify", run / "cards" / f"{TASK}.json", "--plugin", PLUGIN, cwd=run.parent
    )

    assert verified.code == 0, verified.err

    shown = " ".join(
        ktdeval("card", "show", run / "cards" / f"{TASK}.json", "--all", cwd=run.parent).out.split()
    )

    assert f"cost not known: {reason}" in shown


@pytest.mark.exhaustive
def test_the_costs_of_roles_and_of_the_finished_part_of_a_plan_are_not_known(run: Path) -> None:
    roles = json.loads(ktdeval("view", "roles", run, "--json", cwd=run.parent).out)
    assert {role["usd"] for role in roles.values()} == {None}
    assert sum(role["uncounted"] for role in roles.values()) > 0

    plan = ktdeval(
        "plan", *PLAN, "--out", run, "--json", cwd=run.parent, environment={UNCOUNTED: run.name}
    )

    assert plan.code == 0, plan.err

    (task,) = json.loads(plan.out)["tasks"]
    assert task["finished"]["cost_usd"] is None


def test_tokens_that_are_left_of_a_plan_are_assumed_where_the_finished_steps_show_none(
    run: Path, tmp_path: Path
) -> None:
    begun = Path(shutil.copytree(run, tmp_path / "begun"))
    shutil.rmtree(episodes(begun)[0])
    plan = ktdeval("plan", *PLAN, "--out", begun, "--json", cwd=tmp_path)
    fresh = ktdeval("plan", *PLAN, "--json", cwd=tmp_path)

    assert (plan.code, fresh.code) == (0, 0), plan.err

    (task,) = json.loads(plan.out)["tasks"]
    assert task["is_observed"]

    half = json.loads(fresh.out)["left"]["typical"]["input_tokens"] / 2
    assert json.loads(plan.out)["left"]["typical"]["input_tokens"] == pytest.approx(half, rel=0.01)


def test_a_model_of_this_machine_that_bills_nothing_costs_nothing(folder: Path) -> None:
    words = (
        "--model",
        "builtin/momentum",
        "--tasks",
        TASK,
        "--windows",
        "2024-03-01:2024-03-29",
        "--limit",
        4,
        "--quiet",
    )

    assert ktdeval("run", *words, "--out", folder / "free", cwd=folder).code == 0

    card = card_of(folder / "free", TASK)
    assert card["cost"]["value"] == 0
    assert "uncounted" not in card["episodes"][0]
    assert {
        role["usd"]
        for role in json.loads(
            ktdeval("view", "roles", folder / "free", "--json", cwd=folder).out
        ).values()
    } == {0}
