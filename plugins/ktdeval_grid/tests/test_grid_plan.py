"""Plans of grids: from YAML and from options, names of folders, and the paper's cells."""

from __future__ import annotations

from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grid_store import small_plan
from ktdeval.calls.costs.prices import choose_price
from ktdeval.cards.fields.knowledge.listed_cutoffs import listed_cutoff
from ktdeval.cards.fields.origin.fact_types import CutoffEntry
from ktdeval.errors import ConfigError, UsageError
from ktdeval.registry import load_plugins
from ktdeval.testing import on_each_row
from ktdeval.values import dumps_pretty, split_list
from ktdeval_grid.planning.plan import (
    PlannedModel,
    load_plan,
    named_by,
    plan_of,
    systems,
)
from ktdeval_grid.planning.plan_overrides import resolved_plan
from ktdeval_grid.planning.shipped_plans import plan_path, shipped_plans
from ktdeval_models.remote.base import PRICE_TABLE
from support.paths import REPOSITORY

MASKS = ("bright", "stock_blind", "date_blind", "blinded")
MODES = ("memory_only", "fixed_candidate", "open_research")


# What is wrong in a plan: fields over those of a faultless one, and the line that says so.
@on_each_row(
    "fields, message",
    ({"models": []}, "plan.yaml: models: name at least one"),
    ({"tasks": []}, "plan.yaml: tasks: name at least one"),
    ({"seeds": 0}, "plan.yaml: seeds: expected `int` >= 1"),
    ({"windos": "W1"}, "plan.yaml: unknown field 'windos'; did you mean 'windows'?"),
    (
        {"models": [{"nam": "a/b"}]},
        "plan.yaml: models[0]: unknown field 'nam'; did you mean 'name'?",
    ),
    ({"models": ["a/b", "a/b"]}, "plan.yaml: models[1]: a/b is listed twice; leave one out"),
    (
        {"models": ["a/b-c", "a-b/c"]},
        "plan.yaml: models[1]: has the label a-b-c of models[0]; give one of them another `label`",
    ),
    (
        {"models": [{"name": "a/b", "label": "X"}, {"name": "a/c", "label": "x"}]},
        "plan.yaml: models[1]: has the label x of models[0]; give one of them another `label`",
    ),
    (
        {"models": [{"name": "a/b", "label": "../x"}]},
        (
            "plan.yaml: models[0].label: expected `str` matching regex "
            "'^[A-Za-z0-9]([A-Za-z0-9.-]{0,58}[A-Za-z0-9])?$'"
        ),
    ),
    (
        {"options": {"temprature": 1}},
        "plan.yaml: models[0]: unknown field 'temprature'; did you mean 'temperature'?",
    ),
    (
        {"options": {"temperature": "hot"}},
        "plan.yaml: models[0]: temperature: expected a number, was 'hot'",
    ),
    (
        {"options": {"seeds": 3}},
        "plan.yaml: options.seeds: is not set here; give `seeds` of the plan",
    ),
    ({"options": {"out": "x"}}, "plan.yaml: options.out: is not set here; leave it out"),
    ({"options": {"extend": True}}, "plan.yaml: options.extend: is not set here; leave it out"),
    (
        {"models": [{"name": "a/b", "options": {"base_url": "x"}}]},
        "plan.yaml: models[0].options.base_url: is not set here; give `base_url` of the model",
    ),
    (
        {"prune": "informativ"},
        (
            "plan.yaml: prune: no rule 'informativ'; did you mean 'informative'?; rules are "
            "informative, no_stock_to_remember, or write one with name, reason and cells"
        ),
    ),
    (
        {"prune": [{"name": "mine", "cells": [{"masks": ["bright"]}]}]},
        "plan.yaml: prune[0]: field 'reason' is missing",
    ),
    ({"pages": ["views", "book"]}, "plan.yaml: pages[1]: invalid enum value 'book'"),
)
def test_a_faulty_plan_is_refused_with_file_and_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_of({"models": ["a/b"], "tasks": ["x"], **fields}, "plan.yaml")

    assert str(refused.value) == message


def test_models_and_agents_may_be_given_by_their_names_alone() -> None:
    short = plan_of(
        {"models": "a/b, c/d(size=3)", "agents": "react,vote(size=3,x=a)", "tasks": "x,y"}, "p"
    )
    long = {
        "models": [{"name": "a/b"}, {"name": "c/d", "args": {"size": 3}}],
        "agents": [{"name": "react"}, {"name": "vote", "args": {"size": 3, "x": "a"}}],
        "tasks": ["x", "y"],
    }

    assert short == plan_of(long, "p")


@pytest.mark.parametrize(
    "name", ["x/../../y", "a/模型", "-a/b-", "x/" + "long" * 40, "..", "a b/c\0d"]
)
def test_every_label_is_a_safe_name_of_a_folder(name: str) -> None:
    label = PlannedModel(name=name).short
    assert Path(label).name == label
    assert not label.startswith((".", "-"))
    assert not label.endswith(".")
    assert label.isascii()
    assert len(label) <= 60


def test_models_that_differ_in_anything_but_their_price_have_other_labels() -> None:
    same = "a/b"
    entries = [
        PlannedModel(name=same),
        PlannedModel(name=same, args={"n": 1}),
        PlannedModel(name=same, args={"n": 2}),
        PlannedModel(name=same, base_url="http://localhost:1/v1"),
        PlannedModel(name=same, options={"temperature": 0}),
    ]

    assert len({entry.short for entry in entries}) == len(entries)


def test_the_anchor_has_the_masks_modes_windows_and_seeds_of_the_paper() -> None:
    plan = load_plan(plan_path("ktd-fin"))
    plugins = load_plugins()
    tasks = [plugins.make_task(name) for name in plugins.resolve_tasks(plan.tasks)]
    cells = [(task.mask, task.mode) for task in tasks]

    assert sorted(cells) == sorted(product(MASKS, MODES))
    assert plan.windows == tuple(f"W{number}" for number in range(1, 11))
    assert (plan.seeds, plan.prune) == (5, ())
    assert [model.name for model in plan.models] == ["stepfun/step-3.5-flash"]


def test_appendix_j_has_the_models_masks_windows_and_seeds_of_the_paper() -> None:
    plan = load_plan(plan_path("ktd-fin-appendix-j"))
    plugins = load_plugins()
    tasks = [plugins.make_task(name) for name in plan.tasks]

    assert {(task.mask, task.mode) for task in tasks} == {
        ("bright", "open_research"),
        ("blinded", "open_research"),
    }
    assert plan.windows == tuple(f"W{number}" for number in range(1, 11))
    assert (len(plan.models), plan.seeds) == (3, 3)


# ---- the paper's plans


@pytest.mark.parametrize("name", shipped_plans())
def test_models_agents_and_tables_of_shipped_plans_exist(name: str) -> None:
    plan = load_plan(plan_path(name))
    plugins = load_plugins()
    for system in systems(plan):
        assert plugins.spec("models", plugins.model_spec_name(system.config.model)[0])
        assert plugins.spec("agents", system.config.agent)

    assert plan.name == name
    assert plan.tables


def _reference_rows() -> dict[str, list[str]]:
    """Cells of the docs' table of the reference grid, by model."""
    text = (REPOSITORY / "docs" / "grid.md").read_text(encoding="utf-8")
    section = text.partition("## The reference grid")[2].partition("\n## ")[0]
    rows = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].startswith("`"):
            rows[cells[0].strip("`")] = cells[1:]

    return rows


REFERENCE = load_plan(plan_path("reference"))


def test_the_docs_have_a_row_of_each_model_of_the_reference_grid() -> None:
    assert list(_reference_rows()) == [model.name for model in REFERENCE.models]


@pytest.mark.parametrize("model", REFERENCE.models, ids=lambda model: model.name)
def test_a_row_of_the_reference_grid_says_the_listed_cutoff_and_price(model: PlannedModel) -> None:
    cutoff = listed_cutoff(model.name, {})
    price = choose_price(model.name, {}, None, PRICE_TABLE, date(2026, 11, 26))
    stated_cutoff, stated_windows, stated_input, stated_output, _ = _reference_rows()[model.name]

    assert isinstance(cutoff, CutoffEntry)
    assert stated_cutoff == cutoff.date

    windows = load_plugins().make_task(REFERENCE.tasks[0]).windows
    spans = [windows[name] for name in REFERENCE.windows]
    before = sum(np.datetime64(span.last) <= cutoff.first for span in spans)
    after = sum(np.datetime64(span.first) > cutoff.last for span in spans)
    assert stated_windows == f"{before} / {len(spans) - before - after} / {after}"

    assert price is not None
    assert (float(stated_input), float(stated_output)) == (price.input, price.output)


# ---- options over a plan


def test_options_replace_the_fields_of_a_plan() -> None:
    given = {
        "models": ("builtin/random",),
        "seeds": 1,
        "windows": ("W1",),
        "prune": ("informative",),
        "temperature": 0.0,
        "pages": ("none",),
        "max_cost": None,
    }
    plan = resolved_plan("ktd-fin", given)

    assert [model.name for model in plan.models] == ["builtin/random"]
    assert (plan.seeds, plan.windows, plan.pages) == (1, ("W1",), ())
    assert [rule.name for rule in plan.prune] == ["informative"]
    assert plan.options["temperature"] == 0.0
    assert plan.options["max_output_tokens"] == 4096  # of the plan


def test_an_address_and_a_price_are_of_the_one_model_that_is_named() -> None:
    given = {
        "models": ("vllm/qwen(omit=seed)",),
        "tasks": ("t",),
        "base_url": "http://localhost:8000/v1",
        "price": {"input": 1, "output": 2},
    }
    (model,) = resolved_plan(None, given).models

    assert model == PlannedModel(
        name="vllm/qwen",
        args={"omit": "seed"},
        base_url="http://localhost:8000/v1",
        price={"input": 1, "output": 2},
    )

    with pytest.raises(UsageError, match="--models names 2; write a plan"):
        resolved_plan(None, {**given, "models": ("a/b,c/d",)})

    (model,) = resolved_plan(None, {**given, "base_url": None}).models
    assert (model.base_url, model.price) == (None, given["price"])


# ---- words of a plan


@on_each_row(
    "text, items",
    ("a,b", ["a", "b"]),
    ("a(x=1,y=2),b", ["a(x=1,y=2)", "b"]),
    ("a(x=(1,2),y=3), b ,,c", ["a(x=(1,2),y=3)", "b", "c"]),
    ("a),b", ["a)", "b"]),
    ("", []),
)
def test_a_text_is_split_at_commas_outside_of_parentheses(text: str, items: list[str]) -> None:
    assert list(split_list(text)) == items


@on_each_row(
    "stem, name",
    ("Lab", "lab"),
    ("My Grid (2)", "my-grid-2"),
    ("a b", "a-b"),
    ("--", "grid"),
    (
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ),
    ("模型", "grid"),
)
def test_a_plan_without_a_name_is_called_as_its_file_in_safe_letters(stem: str, name: str) -> None:
    assert named_by(Path(f"{stem}.yaml"), {})["name"] == name
    assert named_by(Path(f"{stem}.yaml"), {"name": "mine"}) == {"name": "mine"}


@on_each_row(
    "name, has_hash",
    ("a/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", False),
    ("a/bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", True),
    ("a/b.c", False),
    ("a/b:c", True),
)
def test_a_name_that_is_cut_or_changed_has_a_hash_in_its_label(name: str, has_hash: bool) -> None:
    label = PlannedModel(name=name).short
    plain = name.replace("/", "-").replace(":", "-")[:48]

    assert label.startswith(plain)

    digest = label.removeprefix(plain)
    assert bool(digest) is has_hash
    assert len(digest) == (9 if has_hash else 0)


def test_two_rules_of_one_name_are_refused() -> None:
    rule = {"name": "odd", "reason": "odd seeds are enough", "cells": [{"seeds": [0]}]}
    with pytest.raises(ConfigError) as refused:
        small_plan(prune=[rule, {**rule, "cells": []}])

    assert str(refused.value) == (
        "plan.yaml: prune: two rules are called odd; give each a name of its own"
    )


@on_each_row(
    "given, fields",
    ({"data_args": {"b": 2}}, {"data_args": {"a": 1, "b": 2}}),
    ({"concurrency": 3}, {"concurrency": 3}),
    ({"agents": ["vote(size=3,x=a),react"]}, {"agents": ["vote(size=3,x=a)", "react"]}),
    ({"tasks": ["t,u"], "tables": ["x,y"]}, {"tasks": ["t", "u"], "tables": ["x", "y"]}),
    ({"prune": ["none"]}, {"prune": []}),
    ({"limit": 7}, {"options": {"limit": 7, "cache": "run"}}),
)
def test_an_option_replaces_its_field_and_leaves_the_others(
    given: dict[str, Any], fields: dict[str, Any], tmp_path: Path
) -> None:
    written = {
        "name": "lab",
        "models": ["a/b"],
        "tasks": ["t"],
        "data_args": {"a": 1},
        "prune": ["informative"],
        "options": {"limit": 4, "cache": "run"},
    }
    path = tmp_path / "lab.yaml"
    path.write_text(dumps_pretty(written))

    assert resolved_plan(str(path), given) == plan_of({**written, **fields}, "p")


def test_an_address_or_a_price_without_models_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("models: [a/b]\ntasks: [t]\n")

    for given in ({"base_url": "http://localhost:1/v1"}, {"price": {"input": 1}}):
        with pytest.raises(UsageError, match="--base-url and --price need --models with"):
            resolved_plan(str(path), given)


def test_a_mistake_is_named_with_the_file_or_with_the_options_over_it(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("models: [a/b]\ntasks: [t]\nseeds: 0\n")
    with pytest.raises(ConfigError, match=r"lab\.yaml: seeds: expected"):
        resolved_plan(str(path), {"seeds": 2})

    path.write_text("models: [a/b]\ntasks: [t]\n")
    with pytest.raises(ConfigError, match=r"lab\.yaml with options: seeds: expected"):
        resolved_plan(str(path), {"seeds": 0})
