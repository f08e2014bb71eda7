"""The agent `finmem` in whole runs: killed and resumed, traced over 200 steps, verified, and on tasks of other kinds.

What it has to remember is worked out once more, slowly and on its own: plain loops over a flat list, from the table of the papers
and public codes, of what an episode's steps show (documents, NAV, what the model named). The product gives only the seed of a
draw and the vectors of texts.
"""

from __future__ import annotations

import json
import math
import re
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ktdeval.seeds import derive_seed
from ktdeval_investorbench.embedding import HashingEmbedder
from run_support import PLUGIN, SAME_MASK, episodes, ktdeval, records
from searching import is_searching
from tables import beside, on_each_row

DEEP = {"short": "mid", "mid": "long"}
BACK = {"mid": "short", "long": "mid"}
DRAWN, TABLE = (beside(__file__)[name] for name in ("drawn", "sets"))
TABLE["generative_agents"]["layers"]["stream"][0] = -1 / math.log(0.995)

_EMBED = HashingEmbedder()


def credit(name: str, memory: dict[str, Any], sign: int) -> int:
    """Credit one memory; how many credits that were."""
    if name == "generative_agents" or not sign or (name == "paper" and sign < 0):
        return 0
    memory["count"] += sign
    memory["importance"] += {"paper": 5, "finmem": 5 * memory["count"], "investorbench": 18 * sign}[name]
    return 1


class SlowMemory:
    """All that is remembered under one set, as a flat list."""

    def __init__(self, name: str) -> None:
        self.name, self.rules = name, TABLE[name]
        self.held: list[dict[str, Any]] = []
        self.made = 0
        self.counts: Counter[str] = Counter()
        self.pending: list[tuple[int, str, float, list[str], str]] = []
        self.shown: set[str] = set()

    def step(self, entry: dict[str, Any]) -> None:
        """Go through one step of a journal, its warm-up first, and compare the memories that its prompts show."""
        prompts = [
            next(message["content"] for message in exchange["sent"] if message["role"] == "user")
            for exchange in entry["transcript"]["exchanges"]
        ]
        states = [json.loads(re.findall(r"```json\n(.*?)\n```", user, re.DOTALL)[-1]) for user in prompts]
        lessons = [index for index, state in enumerate(states) if "outcomes" in state]
        value = 1.0  # of an account that follows the labels of one asset
        for index in lessons:
            state, said = states[index], entry["transcript"]["exchanges"][index]["reply"]["content"]
            outcome = dict(zip(state["outcomes"]["columns"], state["outcomes"]["rows"][0], strict=True))
            state["account"] = {"nav": value}
            moved = f"{outcome['stock_id']} then changed by {outcome['change_pct']} %, which called for {outcome['label']}"
            self.day(index - len(lessons), prompts[index], state, ("warm-up; " + moved, said))
            later = states[index + 1]["candidates"]
            change = 1 + later["rows"][0][later["columns"].index("return_1d_pct")] / 100
            value *= {"BUY": change, "SELL": 1 / change}.get(outcome["label"], 1.0)
        state = states[len(lessons)]
        if lessons:
            now = state["account"]["nav"]
            self.pending = [(step, day, nav * now / value, ids, reason) for step, day, nav, ids, reason in self.pending]
        own = entry["step"]["provenance"] in ("model", "model_after_retry")
        said = ("reflection", entry["step"]["overall_reason"]) if own else None
        self.day(entry["step"]["step"], prompts[len(lessons)], state, said)

    def day(self, number: int, user: str, state: dict[str, Any], said: tuple[str, str] | None) -> None:
        """Go through one day: what it shows, and the model's reason with what is said before it."""
        documents = [dict(zip(state["news"]["columns"], row, strict=True)) for row in state["news"]["rows"]]
        texts = [f"{each['day']}, {each['kind']}: {each['title'] or ''} {each['text']}" for each in documents]
        texts = [" ".join(text.split()) for text in texts]
        for document, text in zip(documents, texts, strict=True):
            if text not in self.shown:
                self.add({"quarterly report": "mid", "annual report": "long"}.get(document["kind"], "short"), text)
        self.shown = set(texts)
        asset = state["candidates"]["rows"][0][state["candidates"]["columns"].index("stock_id")]
        query = f"news, reports and reflections about {asset} that matter for its price and for the decision to buy, sell or hold"
        prompted = re.findall(r"^- (M\d+): ", user, re.MULTILINE)
        self.compare_recall(query, prompted)
        self.settle(number, state)
        if said is not None:
            reason, _, named = said[1].partition(" [memory: ")
            self.reflect(f"{state['day']}, {said[0]}: {reason}")
            ids = [id_ for id_ in named.rstrip("]").split(", ") if id_ in prompted]
            self.pending.append((number, state["day"], state["account"]["nav"], ids, reason))
        self.end()

    def add(self, layer: str, text: str) -> None:
        self.made += 1
        layer = layer if layer in DRAWN or layer in self.rules["layers"] else "long"
        here = layer if layer in self.rules["layers"] else "stream"
        chance = derive_seed("importance", 0, layer, self.made, text, bits=53) / 2**53
        total = 0.0
        for value, share in self.rules["layers"][here][2] or [(value / 10, share) for value, share in DRAWN[layer]]:
            importance, total = value, total + share
            if chance < total:
                break
        self.held.append({"id": f"M{self.made}", "text": text, "importance": importance, "age": 0, "count": 0, "layer": here})
        self.counts["added"] += 1

    def compare_recall(self, query: str, prompted: Sequence[str]) -> None:
        """The prompt has the best scores of each layer, in their order; scores equal to 2e-5 may change places."""
        wanted: list[tuple[str, float]] = []
        scored: dict[str, float] = {}
        for layer in self.rules["layers"]:
            members = [one for one in self.held if one["layer"] == layer]
            scored |= dict(zip([one["id"] for one in members], self.scores(layer, members, query), strict=True))
            ranked = sorted(members, key=lambda one: -scored[one["id"]])[: self.rules["top"]]
            wanted += [(one["id"], scored[one["id"]]) for one in ranked]
        assert len(prompted) == len(wanted)
        for id_, (other, score) in zip(prompted, wanted, strict=True):
            assert id_ == other or abs(scored[id_] - score) < 2e-5, (id_, other)
        if self.name == "generative_agents":
            for one in self.held:
                one["age"] = 0 if one["id"] in prompted else one["age"]

    def scores(self, layer: str, members: Sequence[dict[str, Any]], query: str) -> list[float]:
        stability = self.rules["layers"][layer][0]
        near = np.asarray(_EMBED([query])[0], np.float64)
        parts = [
            [math.exp(-one["age"] / stability) for one in members],
            [one["importance"] if layer == "stream" else min(one["importance"], 100) / 100 for one in members],
            [float(np.dot(np.asarray(_EMBED([one["text"]])[0], np.float64), near)) for one in members],
        ]
        if layer == "stream":
            parts = [list(scaled(part)) for part in parts]
        return [sum(three) for three in zip(*parts, strict=True)]

    def settle(self, number: int, state: dict[str, Any]) -> None:
        """Outcomes that are known now."""
        for done in list(self.pending):
            step, day, nav, ids, reason = done
            if number - step < self.rules["look_back"]:
                continue
            self.pending.remove(done)
            now = state["account"]["nav"]
            for one in self.held:
                if one["id"] in ids:
                    self.counts["credited"] += credit(self.name, one, (now > nav) - (now < nav))
            who = f"who followed the label of {day} has made" if step < 0 else f"since the decision of {day} the account has made"
            told = f"{who} {100 * (now / nav - 1):+.2f} %. The reason had been: {reason}"
            self.reflect(f"{state['day']}, outcome: {told}")

    def reflect(self, text: str) -> None:
        layer = "reflection" if "reflection" in self.rules["layers"] else "long"
        vector = _EMBED([text])[0]
        for one in self.held:
            if one["layer"] in (layer, "stream") and float(np.dot(_EMBED([one["text"]])[0], vector)) >= 0.95:
                self.counts["near_equal"] += 1
                return
        self.add(layer, text)

    def end(self) -> None:
        """Decay, purge, flow twice."""
        kept = []
        for one in self.held:
            stability, decay, _ = self.rules["layers"][one["layer"]]
            one["age"] += 1
            one["importance"] *= decay
            if self.name == "generative_agents" or (math.exp(-one["age"] / stability) >= 0.05 and one["importance"] >= 5):
                kept.append(one)
        self.counts["purged"] += len(self.held) - len(kept)
        self.held = kept
        for _ in range(2):
            for layer in ("short", "mid", "long"):
                for one in [one for one in self.held if one["layer"] == layer]:
                    if one["importance"] >= self.rules["promote"].get(layer, math.inf):
                        one["layer"], one["age"] = DEEP[layer], 0
                        self.counts["promoted"] += 1
                    elif one["importance"] < self.rules["demote"].get(layer, 0):
                        one["layer"] = BACK[layer]
                        self.counts["demoted"] += 1


def scaled(values: Sequence[float]) -> Iterator[float]:
    """Values between the least, 0, and the most, 1; all 0 where they are equal."""
    least, most = min(values, default=0), max(values, default=0)
    return ((value - least) / (most - least) if most > least else 0 for value in values)


def compare_trace(name: str, entries: Sequence[dict[str, Any]]) -> SlowMemory:
    """Follow every memory through the steps of a journal: layer, importance, age and credits after each are those recorded."""
    slow = SlowMemory(name)
    for entry in entries:
        slow.step(entry)
        recorded = entry["memory"]["memory"]
        expected = {one["id"]: one for one in slow.held}
        memories = {one["id"]: {**one, "layer": layer} for layer, ones in recorded["layers"].items() for one in ones}
        assert memories.keys() == expected.keys(), entry["step"]["step"]
        for id_, one in memories.items():
            wanted = expected[id_]
            assert {**one, "importance": 0} == {**wanted, "importance": 0}, (entry["step"]["step"], id_)
            assert math.isclose(one["importance"], wanted["importance"], rel_tol=1e-12), (entry["step"]["step"], id_)
        assert +slow.counts == Counter(recorded["counts"])
    return slow


# ---- tests


STEPS, DIES_AFTER = 214, 201
RESUMED = {"finmem", "generative_agents"}  # between them all kinds of layers
AGENT = ("--plugin", PLUGIN, "--model", "test/naming", "--agent", "finmem", *SAME_MASK)


def words(parameters: str, task: str, data: str, out: Path, *more: str) -> tuple[Any, ...]:
    return (*AGENT, "--agent-args", f"parameters={parameters}", "--tasks", task, "--data", data, "--out", out, *more)


@pytest.mark.parametrize("parameters", ["paper", "finmem", "investorbench", "generative_agents"])
def test_killed_after_200_steps_it_remembers_as_plain_loops_and_resumed_it_equals_an_uninterrupted_run(
    parameters: str, tmp_path: Path
) -> None:
    told = (parameters, "investorbench_btc", "synthetic_investorbench")
    died = ktdeval(*words(*told, tmp_path / "run"), cwd=tmp_path, environment={"RUN_PLUGIN_DIE_AFTER_STEP": str(DIES_AFTER)})
    assert died.code == -signal.SIGKILL
    entries = journal(tmp_path / "run")
    trace = [entry["memory"]["memory"] for entry in entries]
    if parameters in RESUMED or is_searching():
        assert ktdeval(*words(*told, tmp_path / "whole"), cwd=tmp_path).code == 0
        done = ktdeval(*words(*told, tmp_path / "run"), cwd=tmp_path)
        assert done.code == 0, done
        assert f"resuming after {DIES_AFTER + 1} of {STEPS} steps" in done.err
        assert records(tmp_path / "run") == records(tmp_path / "whole")
        assert ktdeval("card", "verify", tmp_path / "run", "--plugin", PLUGIN, cwd=tmp_path).code == 0

    compare_trace(parameters, entries)  # every memory at every step, against plain loops
    counts = trace[-1]["counts"]
    print(parameters, len(trace), "steps:", counts, {layer: len(held) for layer, held in trace[-1]["layers"].items()})
    assert len(trace) == DIES_AFTER + 1
    if parameters == "generative_agents":
        assert counts.keys() <= {"added", "near_equal"}
    else:
        assert min(counts[what] for what in ("purged", "promoted", "demoted", "credited")) > 0
    assert counts["added"] - counts.get("purged", 0) == sum(len(held) for held in trace[-1]["layers"].values())
    for before, after in zip(trace, trace[1:], strict=False):  # noqa: RUF007
        assert all(after["counts"][what] >= count for what, count in before["counts"].items())


@pytest.mark.parametrize("parameters", ["paper", "investorbench"])
def test_filings_go_through_the_deep_layers_as_in_plain_loops(parameters: str, tmp_path: Path) -> None:
    told = words(parameters, "investorbench_msft", "synthetic_investorbench", tmp_path / "run")
    assert ktdeval(*told, cwd=tmp_path, environment={"RUN_PLUGIN_DIE_AFTER_STEP": "140"}).code == -signal.SIGKILL
    entries = journal(tmp_path / "run")
    slow = compare_trace(parameters, entries)
    print(parameters, "with filings", len(entries), "steps:", dict(slow.counts))
    assert any(entry["memory"]["memory"]["layers"]["mid"] for entry in entries)


def journal(run: Path) -> list[Any]:
    """Entries of the journal of a run that was killed."""
    (episode,) = episodes(run)
    return [json.loads(line) for line in (episode / "journal.jsonl").read_text().splitlines()]


@on_each_row
def test_it_runs_tasks_of_other_kinds(task: str, data: str, tmp_path: Path) -> None:
    done = ktdeval(*words("finmem", task, data, tmp_path / "run", "--limit", "5"), cwd=tmp_path)
    assert done.code == 0, done
    assert ktdeval("card", "verify", tmp_path / "run", "--plugin", PLUGIN, cwd=tmp_path).code == 0
    for path in (tmp_path / "run" / "cards").glob("*.json"):
        assert json.loads(path.read_text())["decisions"]["model"] == 5
