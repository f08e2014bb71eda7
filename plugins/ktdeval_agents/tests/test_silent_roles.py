"""Teams on servers that refuse roles, or answer them with calls that were not allowed: what the card
says of it, and that a role that may not call gets no tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cards import load_card, parse_card
from ktdeval.cli.main import main
from ktdeval.errors import CardError
from ktdeval.testing import Terminal
from support.providers.adapter_server import Prepared, prepared
from support.providers.stub_provider import skip_without_sdks

skip_without_sdks()

STEPS = 2
SPEAKING = 11  #: roles of the team `trade` that are asked once a step, before the last one submits
REFLECTIONS = STEPS - 1  #: the team looks back on the step before
TURNS = SPEAKING * STEPS + REFLECTIONS
NOTHING = {"orders": [], "overall_reason": "Nothing to do today."}
Answer = Callable[[Any], Prepared]


def reply(content: str | None = None, *calls: tuple[str, Any], refusal: str = "") -> Prepared:
    """An answer of Chat Completions."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if refusal:
        message["refusal"] = refusal
    if calls:
        message["tool_calls"] = [
            {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for number, (name, arguments) in enumerate(calls)
        ]

    reason = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920}
    return Prepared({"choices": [{"message": message, "finish_reason": reason}], "usage": usage})


def is_forced(body: Any) -> bool:
    return isinstance(body.get("tool_choice"), dict)


def calls_what_is_listed(body: Any) -> Prepared:
    """A server that ignores `tool_choice: none`: its model calls a listed tool whenever there is
    one, and writes a report only without tools.
    """
    tools = [tool["function"]["name"] for tool in body.get("tools", ())]
    if is_forced(body):
        return reply(None, (tools[-1], NOTHING))
    if tools:
        return reply(None, (tools[0], {}))
    return reply("The market looks calm.")


def refuses_reports(body: Any) -> Prepared:
    """A provider that refuses each request but the forced submission."""
    if is_forced(body):
        return reply(None, ("submit_action", NOTHING))
    return reply(None, refusal="I can't help with that.")


def reports(body: Any) -> Prepared:
    return reply(None, ("submit_action", NOTHING)) if is_forced(body) else reply("Calm.")


def played(answer: Answer, out: Path, task: str = "blinded_fixed_candidate") -> list[Any]:
    """Run the team, and return the bodies of the requests."""
    with prepared(answer) as server:
        words = ["--model", "openai_compatible/q", "--base-url", f"{server.address}/v1"]
        words += ["--agent", "trade", "--tasks", task, "--windows", "W1", "--limit", str(STEPS)]
        words += ["--tool-protocol", "native", "--canary", "0", "--cache", "run", "--quiet"]
        assert main([*words, "--out", str(out)]) == 0

    return [body for body in server.bodies if len(body["messages"]) > 1]


def card_in(run: Path) -> Any:
    (path,) = (run / "cards").glob("*.json")
    return load_card(path)


def test_roles_that_may_not_call_get_no_tool_and_answer_at_the_first_call(tmp_path: Path) -> None:
    asked = played(calls_what_is_listed, tmp_path)
    card = card_in(tmp_path)

    listed = [len(body.get("tools", ())) for body in asked]
    assert listed == [*[0] * SPEAKING, 1, *[0] * (SPEAKING + 1), 1]
    assert not any("tool_choice" in body for body in asked if "tools" not in body)
    assert sum(role.turns for role in card.roles) == TURNS
    assert sum(role.silent for role in card.roles) == 0
    assert "roles silent" not in card.labels
    assert card.failures == {}


def test_refused_roles_are_counted_labelled_and_never_ranked(
    tmp_path: Path, terminal: Terminal
) -> None:
    played(refuses_reports, tmp_path)
    card = card_in(tmp_path)
    turns = {role.role: (role.turns, role.silent) for role in card.roles if role.turns}

    assert turns.pop("reflection") == (REFLECTIONS, REFLECTIONS)
    assert list(turns.values()) == [(STEPS, STEPS)] * SPEAKING
    assert card.failures == {"refusal": TURNS, "silent_role": TURNS}
    assert card.coverage.steps_decided == STEPS
    assert "roles silent" in card.labels
    reason = "12 of 12 roles answered in fewer than 95 % of their turns"
    assert reason in card.rankable.reasons

    shown = terminal.out("card", "show", tmp_path)
    assert "[roles silent]" in shown
    assert "Failures and repairs" in shown.partition("Metrics")[0]
    assert "23 of 23 turns of roles without an answer" in " ".join(shown.split())

    table = terminal.out("view", "roles", tmp_path)
    heads = next(line for line in table.splitlines() if line.startswith("role"))
    assert heads.split()[:7] == ["role", "model", "calls", "failed", "empty", "turns", "silent"]
    bull = next(line for line in table.splitlines() if line.startswith("bull"))
    assert bull.split()[2:7] == ["2", "0", "0", "2", "2"]
    assert main(["card", "verify", str(tmp_path)]) == 0

    (path,) = (tmp_path / "cards").glob("*.json")
    forged = json.loads(path.read_text())
    for role in forged["episodes"][0]["roles"]:
        role["silent"] = 0

    with pytest.raises(CardError, match=r"episodes\[0\]\.roles: have 0 silent turns"):
        parse_card(json.dumps(forged), "card")


def test_calls_after_research_are_no_report(tmp_path: Path) -> None:
    """A role that researched must list its tools when it reports; a server that ignores
    `tool_choice: none` then leaves it silent, and the card says so.
    """
    asked = played(calls_what_is_listed, tmp_path, "blinded_open_research")
    card = card_in(tmp_path)
    silent = {role.role for role in card.roles if role.silent}

    assert silent
    assert {role.silent for role in card.roles if role.silent} == {STEPS}
    assert "roles silent" in card.labels
    assert not card.rankable.value
    listed = [[tool["function"]["name"] for tool in body.get("tools", ())] for body in asked]
    submitting = [names for names in listed if "submit_action" in names]
    assert all(names == submitting[0] for names in submitting), "only the last role may submit"
    assert main(["card", "verify", str(tmp_path)]) == 0


@pytest.mark.parametrize(("silent", "labelled"), [(0, False), (1, True)])
def test_one_silent_role_is_enough(silent: int, labelled: bool, tmp_path: Path) -> None:
    """The bound is of each role: without one of its roles, a team is another team."""

    def answer(body: Any) -> Prepared:
        is_bull = "You are the bull researcher" in body["messages"][-1]["content"]
        return reply("") if silent and is_bull and not is_forced(body) else reports(body)

    played(answer, tmp_path)
    card = card_in(tmp_path)

    assert ("roles silent" in card.labels) is labelled
    assert sum(role.silent for role in card.roles) == silent * STEPS
    if labelled:
        (reason,) = (each for each in card.rankable.reasons if "roles" in each)
        assert reason == "1 of 12 roles answered in fewer than 95 % of their turns"
