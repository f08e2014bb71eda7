"""Options of an entrant that its plan sets by itself."""

from __future__ import annotations

import pytest

from ktdeval.errors import ConfigError
from ktdeval_live.plan import check_plan
from live_plans import plan_of


@pytest.mark.parametrize("option", ["batch", "canary", "seed"])
def test_an_option_that_a_plan_sets_is_refused_for_an_entrant(option: str) -> None:
    entrant = {"name": "momentum", "model": "builtin/momentum", "options": {option: 1}}
    plan = plan_of(entrants=[entrant])
    with pytest.raises(ConfigError, match=rf"options\.{option}: is fixed by the plan; leave it"):
        check_plan(plan, "plan.yaml")
