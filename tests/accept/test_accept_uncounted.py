"""A provider that does not count tokens: costs are not known, and never 0."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.providers.lucky_plugin import PLUGIN, UNCOUNTED
from support.runs.run_support import SAME_MASK, WINDOW, card_of, episodes, ktdeval

TASK = "bright_open_research"
DAYS = f"--tasks {TASK} --windows {WINDOW}"
WORDS = (
    f"--plugin {PLUGIN} --model lucky/x {DAYS} --limit 6 --seeds 2 --cache run --canary 0"
    " --price input=2,output=8"
)
PLAN = (*WORDS.split(), *SAME_MASK)


def made(folder: Path, uncounted: str) -> Path:
    run = folder / uncounted
    done = ktdeval(
        "run", *PLAN, "--quiet", "--out", run, cwd=folder, environment={UNCOUNTED: uncounted}
    )

    assert done.code == 0, done.err

    return run


def roles_of(run: Path) -> list[dict[str, Any]]:
    shown = ktdeval("view", "roles", run, "--json", cwd=run.parent).out
    return list(json.loads(shown).values())


@pytest.fixture(scope="module", params=["all", "some"])
def run(request: pytest.FixtureRequest, folder: Path) -> Path:
    return made(folder, request.param)


@pytest.mark.exhaustive
def test_the_cost_of_a_card_is_null_and_names_the_uncounted_replies(
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

    path = run / "cards" / f"{TASK}.json"
    verified = ktdeval("card", "verify", path, "--plugin", PLUGIN, cwd=run.parent)
    assert verified.code == 0, verified.err

    shown = ktdeval("card", "show", path, "--all", cwd=run.parent).out
    assert f"cost not known: {reason}" in " ".join(shown.split())


@pytest.mark.exhaustive
def test_costs_of_roles_and_of_what_a_plan_finished_are_not_known(run: Path) -> None:
    roles = roles_of(run)
    assert {role["usd"] for role in roles} == {None}
    assert sum(role["uncounted"] for role in roles) > 0

    plan = ktdeval(
        "plan", *PLAN, "--out", run, "--json", cwd=run.parent, environment={UNCOUNTED: run.name}
    )

    assert plan.code == 0, plan.err

    (task,) = json.loads(plan.out)["tasks"]
    assert task["finished"]["cost_usd"] is None


def test_tokens_left_of_a_plan_are_assumed_where_finished_steps_show_none(
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
    words = f"run --model builtin/momentum {DAYS} --limit 4 --quiet --out free"
    assert ktdeval(*words.split(), cwd=folder).code == 0

    card = card_of(folder / "free", TASK)
    assert card["cost"]["value"] == 0
    assert "uncounted" not in card["episodes"][0]
    assert {role["usd"] for role in roles_of(folder / "free")} == {0}
