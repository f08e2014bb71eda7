"""A plan is published, so that none of its addresses holds a secret."""

from __future__ import annotations

from typing import Any

import pytest

from ktdeval.errors import ConfigError
from ktdeval.testing import on_each_row
from support.live.live_plans import US, plan_of

TOKEN = "https://ghp_abcdefghijklmnopqrst@github.com/me/spring.git"


def market(**changes: Any) -> dict[str, Any]:
    return {"markets": {"us": {**US, **changes}}}


def entrant(**changes: Any) -> dict[str, Any]:
    return {"entrants": [{"name": "momentum", "model": "builtin/momentum", **changes}]}


@on_each_row(
    "changes, where",
    ({"publish": {"remote": TOKEN}}, "publish.remote"),
    ({"publish": {"stamp": {"url": TOKEN, "certificate": "x"}}}, "publish.stamp.url"),
    (market(data=TOKEN), "markets.us.data"),
    (market(data_args={"url": TOKEN}), "markets.us.data_args.url"),
    (market(source_args={"endpoint": TOKEN}), "markets.us.source_args.endpoint"),
    (entrant(model_args={"base_url": TOKEN}), "entrants[0].model_args.base_url"),
    (entrant(agent_args={"embedding_url": TOKEN}), "entrants[0].agent_args.embedding_url"),
    (entrant(options={"base_url": TOKEN}), "entrants[0].options.base_url"),
)
def test_plan_with_a_push_token_is_refused_without_showing_it(
    changes: dict[str, Any], where: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_of(**changes)

    assert str(caught.value).startswith(f"plan: {where}: expected an address without a user or a t")
    assert "ghp_" not in str(caught.value)
