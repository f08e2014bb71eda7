"""`--model NAME(option=value,…)`, the form in which boards and grids write a model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from ktdeval.cards.system import System
from ktdeval.errors import ConfigError
from ktdeval.runner import RunConfig
from ktdeval.values import dumps_canonical

NUMBERS = st.integers(-9, 9) | st.floats(0.001, 0.999)


def config(model: str, **changes: Any) -> RunConfig:
    return RunConfig(model=model, tasks=("blinded_open_research",), **changes)


@given(st.dictionaries(st.sampled_from(["recall", "positions", "seed"]), NUMBERS))
def test_a_system_as_cards_and_boards_name_it_is_a_model_of_a_run(args: dict[str, Any]) -> None:
    settings = tuple((name, dumps_canonical(value)) for name, value in sorted(args.items()))
    name = System("builtin/memory", settings, "react", (), ()).model_name
    found = config(name)
    assert (found.model, dict(found.model_args)) == ("builtin/memory", args)


def test_parameters_in_the_name_join_those_of_the_option() -> None:
    found = config("builtin/memory(recall=0.9)", model_args={"positions": 3, "recall": 0.9})
    assert found.model_args == {"positions": 3, "recall": 0.9}

    agent = config("builtin/momentum", agent="react(research=2)")
    assert (agent.agent, agent.agent_args) == ("react", {"research": 2})


@pytest.mark.parametrize("name", ["local/a model (final)", "local/(x)", "local/model(3)"])
def test_other_parentheses_are_part_of_the_name(name: str) -> None:
    assert config(name).model == name


def test_a_parameter_with_two_values_is_refused_by_name() -> None:
    with pytest.raises(ConfigError) as refused:
        config("builtin/memory(recall=0.9)", model_args={"recall": 0.5})

    assert str(refused.value) == (
        "--model builtin/memory(recall=0.9): recall is 0.9 here, and 0.5 in --model-args; give one"
        " of them"
    )
