"""A run folder that holds a part of a run may get further tasks, windows and seeds, and nothing
else may change.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ktdeval.runner.plans.plan_growth import growth_problem, unite_episodes
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.runner.records.run_manifest import Growth, RunManifest
from ktdeval.task_api.episode_spec import EpisodeSpec, Window

SPEC = EpisodeSpec(
    task="one",
    task_version="1",
    task_hash="a" * 64,
    snapshot="b" * 64,
    mask="blinded",
    mode="open_research",
    window=Window("W1", "2024-01-02", "2024-03-01"),
    model="builtin/hold",
    model_args={},
    agent="react",
    agent_args={},
    mask_key="0" * 32,
)


@pytest.mark.parametrize(
    "added",
    [
        replace(SPEC, seed=1),
        replace(SPEC, window=Window("W2", "2024-02-02", "2024-04-01")),
        replace(SPEC, task="two", task_hash="c" * 64),
    ],
)
def test_seeds_windows_and_tasks_may_be_added_and_taken_away(added: EpisodeSpec) -> None:
    assert growth_problem([SPEC], [SPEC, added]) is None
    assert growth_problem([SPEC, added], [SPEC]) is None


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("task version", replace(SPEC, task_hash="d" * 64)),
        ("model", replace(SPEC, model_args={"x": 1})),
        ("agent", replace(SPEC, agent="by_asset")),
        ("limit", replace(SPEC, limit=3)),
        ("mask key", replace(SPEC, mask_key="1" * 32)),
        ("call parameters", replace(SPEC, call={"temperature": 0.1})),
    ],
)
def test_anything_else_is_a_difference_with_its_name(name: str, changed: EpisodeSpec) -> None:
    problem = growth_problem([SPEC], [replace(changed, seed=1)])
    assert problem is not None
    assert problem.startswith(f"{name} of one: ")


def test_recorded_episodes_follow_the_planned_ones() -> None:
    other = replace(SPEC, seed=1)
    assert unite_episodes([other], [SPEC, other]) == (other, SPEC)


OTHER_TASK = replace(SPEC, task="two", task_hash="c" * 64)
OTHER_SEED = replace(SPEC, seed=1)


@pytest.mark.parametrize(
    ("growth", "planned", "problem"),
    [
        ("none", [SPEC, OTHER_TASK], "task: one; now one, two"),
        ("tasks", [SPEC, OTHER_TASK], ""),
        ("tasks", [SPEC, OTHER_SEED], "seed: 0; now 0, 1"),
        ("tasks", [OTHER_TASK], "task: one; now "),
        ("any", [SPEC, OTHER_SEED], ""),
    ],
)
def test_run_that_may_gain_tasks_keeps_the_whole_plan_of_existing_ones(
    growth: Growth, planned: list[EpisodeSpec], problem: str, tmp_path: Path
) -> None:
    def plan(specs: list[EpisodeSpec]) -> RunManifest:
        return RunManifest(None, SPEC.snapshot, (), "strict", tuple(specs))

    recorded = RunFolder(tmp_path, plan([SPEC]))

    assert recorded.difference(plan(planned), growth) == problem
