"""Puts the probes of a de-anonymization task to scripted attackers, as the runner would: guarded,
one answer a probe.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from msgspec.structs import asdict

from ktdeval.harness.agent import StepCounts
from ktdeval.harness.chat_messages import Message, ModelRequest, Reply, ToolCall
from ktdeval.market.snapshots.snapshot import MarketSnapshot
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.registry import load_plugins
from ktdeval.task_api.episode_spec import EpisodeSpec, Window
from ktdeval.task_api.scoring import AnswerRecord, Sample, TargetTask
from ktdeval.values import dumps_canonical, loads_strict
from support.tasks.ktdfin_market import FIRST, LAST

PROBES = {"blinded": "deanon_probe"} | {
    mask: f"deanon_probe_{mask}" for mask in ("bright", "stock_blind", "date_blind")
}
MARCH = Window("March", FIRST, LAST)
NOTHING = {
    "tickers": [],
    "date": None,
    "sector": None,
    "board": None,
    "confidence": 0.0,
    "reasoning": "nothing to read",
}

_CODE = re.compile(r"\b[0-9]{6}\.(?:SH|SZ|BJ)\b")
_DATE = re.compile(r"\b[0-9]{4}-[0-9]{2}-[0-9]{2}\b")


@cache
def task_of(mask: str, **changes: Any) -> Any:
    """The probe task of a mask, with some of its config changed."""
    from ktdeval_deanon.task import DeanonConfig, DeanonTask

    spec = load_plugins(["ktdeval_deanon"]).specs("tasks")[PROBES[mask]]

    return DeanonTask(PROBES[mask], DeanonConfig.load({**spec.extra["config"], **changes}, "test"))


@cache
def target_task_of(mask: str) -> TargetTask:
    """The trading task behind a mask, with its tools."""
    plugins = load_plugins()
    task = plugins.make_task(f"{mask}_open_research")
    return TargetTask(task, plugins.tools(task.tools))


def spec_of(mask: str, window: Window = MARCH, seed: int = 0) -> EpisodeSpec:
    """An episode of probes."""
    return EpisodeSpec(
        task=PROBES[mask],
        task_version="1",
        task_hash="0",
        snapshot="0",
        mask=mask,
        mode="deanon_probe",
        window=window,
        model="test/attacker",
        model_args={},
        agent="react",
        agent_args={},
        seed=seed,
    )


def samples_of(
    market: MarketSnapshot,
    mask: str = "blinded",
    window: Window = MARCH,
    seed: int = 0,
    **changes: Any,
) -> Any:
    """The probes of one window."""
    return task_of(mask, **changes).samples(
        spec_of(mask, window, seed), market, target_task_of(mask)
    )


def payload_in(sample: Sample) -> dict[str, Any]:
    """The tools' answers that a probe shows."""
    payload: dict[str, Any] = json.loads(
        sample.user.partition("```json\n")[2].partition("\n```")[0]
    )
    return payload


class Reader:
    """Recovers what stands in the text and nothing else: codes, dates, and the industry and board
    of the stock in question.
    """

    def reply(self, request: ModelRequest) -> Reply:
        text = "\n".join(message.content for message in request.messages)
        shown = json.loads(text.partition("```json\n")[2].partition("\n```")[0])["snapshot"]
        codes = _CODE.findall(json.dumps(shown)) or _CODE.findall(text)
        dates = _DATE.findall(str(shown["day"])) or _DATE.findall(text)
        sector = None if shown["sector"].startswith("sector_") else shown["sector"]
        answer = {
            **NOTHING,
            "tickers": codes[:5],
            "date": dates[0] if dates else None,
            "sector": sector,
            "board": shown["board"],
        }
        call = ToolCall("call_1", "submit_answer", dumps_canonical(answer))

        return Reply(tool_calls=(call,), finish_reason="tool_calls")


def random_answer(
    facts: Mapping[str, Any], sample_set: Any, market: MarketSnapshot, chance: random.Random
) -> dict[str, Any]:
    """A guess of somebody who knows the index members of the day and reads the board, and nothing
    else.
    """
    key = (market.meta.name, facts["day"], facts["board"])

    if key not in _MEMBERS:
        listed = zip(
            market.codes, market.member[market.day_index(facts["day"])], market.boards, strict=True
        )
        _MEMBERS[key] = [
            code for code, member, own in listed if member and str(own) == facts["board"]
        ]

    candidates = _MEMBERS[key]
    tickers = chance.sample(candidates, min(5, len(candidates)))
    sector = market.industries[market.asset_index[chance.choice(candidates)]]
    day = str(market.days[chance.randrange(*sample_set.period)])

    return {**NOTHING, "tickers": tickers, "date": day, "sector": sector, "board": facts["board"]}


_MEMBERS: dict[tuple[str, str, str], list[str]] = {}


def record_of(
    sample_set: Any, number: int, answer: Mapping[str, Any] | None, provenance: str = "model"
) -> AnswerRecord:
    """An answered probe as the runner records it."""
    return AnswerRecord(
        **asdict(StepCounts().record()),
        step=number,
        sample=f"probe_{number:04d}",
        provenance=provenance,  # type: ignore[arg-type]
        answer=None if answer is None else dict(answer),
        facts=dict(sample_set.facts(number)),
        scores={} if answer is None else dict(sample_set.score(number, answer)),
    )


def attack(
    sample_set: Any, market: MarketSnapshot, attacker: Any, numbers: Sequence[int] | None = None
) -> list[AnswerRecord]:
    """Put probes to an attacker. What is sent passes the leak guard, what comes back is
    validated.
    """
    records = []

    for number in range(len(sample_set)) if numbers is None else numbers:
        sample = sample_set.sample(number)
        guard = LeakGuard(sample.lens, market)
        form = sample.form
        for text in (
            sample.system,
            sample.user,
            dumps_canonical([form.name, form.description, form.parameters]),
        ):
            guard.check(text)

        request = ModelRequest(
            (Message("system", sample.system), Message("user", sample.user)), (form,), form.name
        )
        answer = loads_strict(attacker.reply(request).tool_calls[0].arguments)
        Draft202012Validator(dict(form.parameters)).validate(answer)
        records.append(record_of(sample_set, number, answer))

    return records
