"""An agent written by the testbed's README decides every day of a market whose exchanges keep
calendars of their own.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cli.main import main
from ktdeval.harness import shown_state, table_rows
from ktdeval.runner.records.run_folder import RunFolder
from support.providers.adapter_server import Prepared, prepared
from support.providers.stub_provider import skip_without_sdks
from test_trading_action import model, request

skip_without_sdks()

STEPS = 9  # of which a Tesla share is traded on six or seven


def readme_agent(body: dict[str, Any]) -> Prepared:
    """Answer as an agent does that takes each field for what the README says it is; anything else
    is its crash, a 500.
    """
    try:
        (symbol,) = body["symbol"]
        price = round(body["price"][symbol], 2)
        headlines = body["news"][symbol].split("\n")
        earlier = [round(bar["price"], 2) for bar in body.get("history_price", {}).get(symbol, [])]
        days = [str(bar["date"]) for bar in body.get("history_price", {}).get(symbol, [])]
        is_known_twice = str(body["date"]) in days
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return Prepared({"detail": repr(error)}, 500)

    if is_known_twice:
        return Prepared({"detail": "the day's own price is no earlier one"}, 500)

    rose = not earlier or price > sum(earlier) / len(earlier)
    action = "BUY" if rose else "SELL"

    return Prepared(
        {
            "recommended_action": action,
            "reasoning": f"{len(headlines)} headlines and {len(earlier)} prices.",
        }
    )


def run(tmp_path: Path, address: str, *words: str) -> tuple[Any, Any]:
    """The steps and the conversations of a run that asks the agent."""
    fixed = [
        "--model",
        "trading_action/readme",
        "--base-url",
        address,
        "--limit",
        str(STEPS),
        "--max-retries",
        "0",
    ]
    fixed += [
        "--max-failures",
        "100",
        "--canary",
        "0",
        "--quiet",
        "--out",
        str(tmp_path / "run"),
        "--cache",
        "run",
    ]

    assert main([*fixed, *words]) == 0
    assert main(["card", "verify", str(tmp_path / "run")]) == 0

    folder = RunFolder.load(tmp_path / "run")
    (spec,) = folder.manifest.specs

    return folder.load_ledger(spec).steps, folder.load_transcript(spec)


def closed_steps(talks: Any) -> list[int]:
    """The steps on which the one asset that was asked about has no close."""
    found = []
    for talk in talks:
        state = shown_state(talk.exchanges[0]["sent"][-1]["content"])
        (candidate,) = table_rows(state["candidates"])
        if candidate["close"] is None:
            found.append(talk.step)

    return found


@pytest.mark.exhaustive
def test_it_decides_each_day_of_a_share_next_to_coins(tmp_path: Path) -> None:
    with prepared(readme_agent) as server:
        words = [
            "--tasks",
            "ama_tsla",
            "--data",
            "synthetic_arena",
            "--windows",
            "2025-08-02:2025-09-30",
        ]
        steps, talks = run(tmp_path, server.address, *words)

    assert [step.provenance for step in steps] == ["model"] * STEPS
    assert len(server.bodies) == STEPS

    closed = closed_steps(talks)
    assert 2 <= len(closed) <= 4

    for step in closed:
        (price,) = server.bodies[step]["price"].values()
        ((*_, last),) = server.bodies[step]["history_price"].values()
        assert price == last["price"], "the last valid price, as the testbed sends it"
        assert steps[step].orders == (), (
            "a decision on a closed exchange is no order that could be refused"
        )


@pytest.mark.exhaustive
def test_a_task_without_bars_shows_the_last_close(tmp_path: Path) -> None:
    with prepared(readme_agent) as server:
        words = [
            "--tasks",
            "investorbench_tsla",
            "--data",
            "synthetic_arena",
            "--windows",
            "2025-08-02:2025-09-30",
        ]
        steps, talks = run(tmp_path, server.address, *words)

    assert [step.provenance for step in steps] == ["model"] * STEPS
    assert 2 <= len(closed_steps(talks)) <= 4


@pytest.mark.exhaustive
def test_by_asset_asks_about_each_asset_on_its_own_sessions(tmp_path: Path) -> None:
    with prepared(readme_agent) as server:
        words = ["--agent", "by_asset", "--tasks", "market_blinded", "--data", "synthetic_mixed"]
        steps, _ = run(tmp_path, server.address, *words, "--windows", "2025-08-01:2025-08-29")

    assert [step.provenance for step in steps] == ["model"] * STEPS

    asked = Counter(body["date"] for body in server.bodies)
    assert len(asked) == STEPS
    assert min(asked.values()) < max(asked.values()), (
        "fewer are asked about where an exchange is closed"
    )


# ---- the request


@pytest.mark.parametrize("name", ["candidates", "positions", "history"])
def test_the_last_valid_price_is_sent_wherever_it_is_shown(name: str) -> None:
    closed: dict[str, Any] = {
        "candidates": {"columns": ["stock_id", "close"], "rows": [["asset_0042", None]]},
        "history": {"columns": ["day", "close"], "rows": []},
    }
    shown: dict[str, Any] = {
        "candidates": {
            "columns": ["stock_id", "close", "last_close"],
            "rows": [["asset_0042", None, 9.5]],
        },
        "positions": {"columns": ["stock_id", "last_close"], "rows": [["asset_0042", 9.5]]},
        "history": {"columns": ["day", "close"], "rows": [["day_-2", 9.0], ["day_-1", 9.5]]},
    }

    with prepared(Prepared({"recommended_action": "HOLD", "reasoning": "Nothing new."})) as server:
        model(server.address).reply(request(**{**closed, name: shown[name]}))

    (body,) = server.bodies

    assert body["price"] == {"asset_0042": 9.5}

    if name == "history":
        assert body["history_price"]["asset_0042"][-1] == {"date": "day_-1", "price": 9.5}


def test_an_asset_without_any_price_yet_is_not_asked_about() -> None:
    unknown = {"columns": ["stock_id", "close", "last_close"], "rows": [["asset_0042", None, None]]}
    with prepared(Prepared({"recommended_action": "BUY", "reasoning": "Why not?"})) as server:
        reply = model(server.address).reply(
            request(candidates=unknown, history={"columns": ["day", "close"], "rows": []})
        )

    assert server.bodies == []
    assert '"decision": "HOLD"' in reply.tool_calls[0].arguments
