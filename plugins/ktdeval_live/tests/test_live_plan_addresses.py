"""A plan is published, so that none of its addresses holds a secret."""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval.errors import ConfigError
from live_plans import US, plan_of

TOKEN = "https://ghp_abcdefghijklmnopqrst@github.com/me/spring.git"
ENTRANT = {"name": "momentum", "model": "builtin/momentum"}
PLANS: dict[str, dict[str, Any]] = {
    "publish.remote": {"publish": {"remote": TOKEN}},
    "publish.stamp.url": {"publish": {"stamp": {"url": TOKEN, "certificate": "x"}}},
    "markets.us.data": {"markets": {"us": {**US, "data": TOKEN}}},
    "markets.us.data_args.url": {"markets": {"us": {**US, "data_args": {"url": TOKEN}}}},
    "markets.us.source_args.endpoint": {
        "markets": {"us": {**US, "source_args": {"endpoint": TOKEN}}}
    },
    "entrants[0].model_args.base_url": {
        "entrants": [{**ENTRANT, "model_args": {"base_url": TOKEN}}]
    },
    "entrants[0].agent_args.embedding_url": {
        "entrants": [{**ENTRANT, "agent_args": {"embedding_url": TOKEN}}]
    },
    "entrants[0].options.base_url": {"entrants": [{**ENTRANT, "options": {"base_url": TOKEN}}]},
}


@pytest.mark.parametrize(("where", "changes"), PLANS.items(), ids=PLANS)
def test_plan_with_a_push_token_is_refused(where: str, changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_of(**changes)

    assert str(caught.value).startswith(f"plan: {where}: expected an address without a user or a t")
    assert "ghp_" not in str(caught.value)


def test_key_of_ssh_is_the_way_to_push() -> None:
    plan = plan_of(publish={"remote": "git@github.com:me/spring.git"})
    assert plan.publish.remote == "git@github.com:me/spring.git"
