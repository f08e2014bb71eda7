"""The agent `finmem` in whole runs: killed and resumed, traced over 200 steps, verified, and on
tasks of other kinds.

What it has to remember is worked out once more, slowly and on its own: plain loops over a flat
list, from the table of the papers and public codes, of what an episode's steps show (documents,
NAV, what the model named). The product gives only the seed of a draw and the vectors of texts.
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

from ktdeval.testing import on_each_row
from ktdeval.values import derive_seed
from ktdeval_memory.embedding import HashingEmbedder
from support.runs.run_support import PLUGIN, SAME_MASK, episodes, ktdeval, records
from support.searching import is_searching
from support.tables import beside

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
    memory["importance"] += {"paper": 5, "finmem": 5 * memory["count"], "investorbench": 18 * sign}[
        name
    ]

    return 1


def rows(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table, each by column."""
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def prompt_of(exchange: dict[str, Any]) -> str:
    """Return the first message of the user's in a call."""
    return next(message["content"] for message in exchange["sent"] if message["role"] == "user")


def state_in(prompt: str) -> dict[str, Any]:
    """Return the state in a prompt."""
    state: dict[str, Any] = json.loads(re.findall(r"```json\n(.*?)\n```", prompt, re.DOTALL)[-1])
    return state


def became_of(state: dict[str, Any]) -> str:
    """Say what became of the orders of the day before, which are for one asset."""
    orders = rows(state["last_step"]["orders"])
    if not orders:
        return ""

    asset = orders[0]["stock_id"]
    broken = ", ".join(dict.fromkeys(one["rule"] for one in orders if one.get("rule")))
    paid = sum(one["filled_shares"] * (one["fill_price"] or 0) for one in orders)

    if not paid:
        return f"{asset} rejected" + (f": {broken}" if broken else "")

    size = f"{100 * paid / state['account']['nav']:.3g} % of NAV"

    return f"{asset} filled {size}" + (f", cut by {broken}" if broken else "")


class SlowMemory:
    """All that is remembered under one set, as a flat list."""

    def __init__(self, name: str) -> None:
        self.name, self.rules = name, TABLE[name]
        self.held: list[dict[str, Any]] = []
        self.made = 0
        self.counts: Counter[str] = Counter()
        self.pending: list[dict[str, Any]] = []
        self.shown: set[str] = set()

    def step(self, entry: dict[str, Any]) -> None:
        """Go through one step of a journal, its warm-up first, and compare the memories that its
        prompts show.
        """
        exchanges = entry["transcript"]["exchanges"]
        lessons = [exchange for exchange in exchanges if exchange["role"] == "warm_up"]
        later = [exchange for exchange in exchanges if exchange["role"] != "warm_up"]
        states = [state_in(prompt_of(exchange)) for exchange in [*lessons, later[0]]]
        value = 1.0  # of an account that follows the labels of one asset

        for index, exchange in enumerate(lessons):
            state = states[index]
            (outcome,) = rows(state["outcomes"])
            state["account"] = {"nav": value}
            moved = (
                f"the price of {outcome['stock_id']} then changed by {outcome['change_pct']:+.2f} % to"
                f" its next close, which called for {outcome['label']}"
            )
            reply = exchange["reply"]["content"]
            label = f"{outcome['label']} {outcome['stock_id']}"
            self.day(
                index - len(lessons),
                prompt_of(exchange),
                state,
                ("warm-up; " + moved, label, reply),
            )
            (asset,) = rows(states[index + 1]["candidates"])
            change = 1 + asset["return_1d_pct"] / 100
            value *= {"BUY": change, "SELL": 1 / change}.get(outcome["label"], 1.0)

        state = states[-1]
        if lessons:
            for decision in self.pending:
                decision["nav"] *= state["account"]["nav"] / value

        own = entry["step"]["provenance"] in ("model", "model_after_retry")
        reply = None
        if own:
            submitted = json.loads(entry["transcript"]["submission"])["decisions"]
            label = ", ".join(f"{each['decision']} {each['stock_id']}" for each in submitted)
            reply = (f"your decision ({label})", label, entry["step"]["overall_reason"])

        concluded = ""
        if later[0]["role"] == "reflection":
            concluded = later[0]["reply"]["content"]

        self.day(entry["step"]["step"], prompt_of(later[0]), state, reply, concluded)

    def day(
        self,
        number: int,
        user: str,
        state: dict[str, Any],
        reflection: tuple[str, str, str] | None,
        concluded: str = "",
    ) -> None:
        """Go through one day: what it shows, and the model's reason with what is said before it and
        what was decided.
        """
        texts = [
            f"{each['day']}, {each['kind']}: {each['title'] or ''} {each['text']}"
            for each in rows(state["news"])
        ]
        texts = [" ".join(text.split()) for text in texts]

        for document, text in zip(rows(state["news"]), texts, strict=True):
            if text not in self.shown:
                self.add(
                    {"quarterly report": "mid", "annual report": "long"}.get(
                        document["kind"], "short"
                    ),
                    text,
                    document["stock_ids"],
                )
                assert document["memory"] == f"M{self.made}"

        self.shown = set(texts)
        (asset,) = rows(state["candidates"])
        kind = {"stock": "a stock", "crypto": "a cryptocurrency"}[asset["kind"]]
        query = (
            f"news, reports and reflections about {asset['stock_id']}, {kind}, that matter for its"
            " price and for the decision to buy, sell or hold"
        )
        prompted = re.findall(r"^- (M\d+): ", user, re.MULTILINE)
        self.compare_recall(query, prompted)

        if self.pending and 0 <= self.pending[-1]["step"] == number - 1:
            self.pending[-1]["became"] = became_of(state)

        for decision in self.pending:
            decision["moved"] += math.log1p(asset["return_1d_pct"] / 100)

        self.settle(number, state, asset["stock_id"], concluded)
        if reflection is not None:
            before, label, text = reflection
            reason, _, named = text.partition(" [memory: ")
            self.reflect(f"{state['day']}, {before}: {reason}")
            ids = [id_ for id_ in named.rstrip("]").split(", ") if id_ in prompted]
            self.pending.append(
                {
                    "step": number,
                    "day": state["day"],
                    "nav": state["account"]["nav"],
                    "ids": ids,
                    "decided": label,
                    "became": "",
                    "reason": reason,
                    "moved": 0.0,  # log return
                }
            )

        self.end()

    def add(self, layer: str, text: str, assets: Sequence[str] = ()) -> None:
        self.made += 1
        layer = layer if layer in DRAWN or layer in self.rules["layers"] else "long"
        here = layer if layer in self.rules["layers"] else "stream"
        chance = derive_seed("importance", 0, layer, self.made, text, bits=53) / 2**53
        total = 0.0

        for value, share in self.rules["layers"][here][2] or [
            (value / 10, share) for value, share in DRAWN[layer]
        ]:
            importance = value
            total = total + share
            if chance < total:
                break

        self.held.append(
            {
                "id": f"M{self.made}",
                "text": text,
                "importance": importance,
                "age": 0,
                "count": 0,
                "assets": list(assets),
                "layer": here,
            }
        )
        self.counts["added"] += 1

    def compare_recall(self, query: str, prompted: Sequence[str]) -> None:
        """The prompt has the best scores of each layer, in their order; scores equal to 2e-5 may
        change places.
        """
        wanted: list[tuple[str, float]] = []
        scored: dict[str, float] = {}

        for layer in self.rules["layers"]:
            members = [one for one in self.held if one["layer"] == layer]
            scored |= dict(
                zip([one["id"] for one in members], self.scores(layer, members, query), strict=True)
            )
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
            [
                one["importance"] if layer == "stream" else min(one["importance"], 100) / 100
                for one in members
            ],
            [
                float(np.dot(np.asarray(_EMBED([one["text"]])[0], np.float64), near))
                for one in members
            ],
        ]

        if layer == "stream":
            parts = [list(scaled(part)) for part in parts]

        return [sum(three) for three in zip(*parts, strict=True)]

    def settle(self, number: int, state: dict[str, Any], asset: str, concluded: str) -> None:
        """Outcomes that are known now: concluded from if they are of decisions, then credited."""
        now = state["account"]["nav"]
        due = [each for each in self.pending if number - each["step"] >= self.rules["look_back"]]

        for done in [each for each in due if each["step"] >= 0]:
            became = f"; {done['became']}" if done["became"] else ""
            line = (
                f"{state['day']}, outcome of your decision of {done['day']} ({done['decided']}{became}):"
                f" the price of {asset} changed by {100 * math.expm1(done['moved']):+.2f} %, the NAV changed by"
                f" {100 * (now / done['nav'] - 1):+.2f} %. {concluded or done['reason']}"
            )
            self.reflect(line)

        for done in due:
            self.pending.remove(done)
            if " rejected" in done["became"]:
                continue  # what the account made is not its outcome

            sign = (now > done["nav"]) - (now < done["nav"])
            for one in self.held:
                if one["id"] in done["ids"]:
                    self.counts["credited"] += credit(self.name, one, sign)

    def reflect(self, text: str) -> None:
        layer = "reflection" if "reflection" in self.rules["layers"] else "long"
        vector = _EMBED([text])[0]
        for one in self.held:
            if (
                one["layer"] in (layer, "stream")
                and float(np.dot(_EMBED([one["text"]])[0], vector)) >= 0.95
            ):
                self.counts["near_equal"] += 1
                return

        self.add(layer, text)

    def end(self) -> None:
        """Decay, purge, flow twice."""
        remaining = []
        for one in self.held:
            stability, decay, _ = self.rules["layers"][one["layer"]]
            one["age"] += 1
            one["importance"] *= decay
            if self.name == "generative_agents" or (
                math.exp(-one["age"] / stability) >= 0.05 and one["importance"] >= 5
            ):
                remaining.append(one)

        self.counts["purged"] += len(self.held) - len(remaining)
        self.held = remaining
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
    least = min(values, default=0)
    most = max(values, default=0)
    return ((value - least) / (most - least) if most > least else 0 for value in values)


def compare_trace(name: str, entries: Sequence[dict[str, Any]]) -> None:
    """Follow every memory through the steps of a journal: layer, importance, age and credits after
    each are those recorded.
    """
    slow = SlowMemory(name)

    for entry in entries:
        slow.step(entry)
        recorded = entry["memory"]["memory"]
        expected = {one["id"]: one for one in slow.held}
        memories = {}
        for layer, ones in recorded["layers"].items():
            memories |= {one["id"]: {**one, "layer": layer} for one in ones}

        assert memories.keys() == expected.keys(), entry["step"]["step"]
        for id_, one in memories.items():
            wanted = expected[id_]
            place = (entry["step"]["step"], id_)
            assert {**one, "importance": 0} == {**wanted, "importance": 0}, place
            assert math.isclose(one["importance"], wanted["importance"], rel_tol=1e-12), place

        assert +slow.counts == Counter(recorded["counts"])


# ---- tests


STEPS = 214
DIES_AFTER = 201
RESUMED = {"finmem", "generative_agents"}  # between them all kinds of layers


def words(parameters: str, task: str, data: str, out: Path) -> list[str]:
    text = (
        f"--plugin {PLUGIN} --model test/naming --agent finmem --tasks {task} --data {data}"
        f" --agent-args parameters={parameters},texts=full --out {out}"
    )
    return [*text.split(), *SAME_MASK]


def verifies(run: Path) -> bool:
    return ktdeval("card", "verify", run, "--plugin", PLUGIN, cwd=run.parent).code == 0


def journal_of_killed(run: Path, after_step: int, *arguments: str) -> list[Any]:
    """The entries of the journal that a run leaves which is killed after a step."""
    environment = {"RUN_PLUGIN_DIE_AFTER_STEP": str(after_step)}
    died = ktdeval(*words(*arguments, run), cwd=run.parent, environment=environment)
    assert died.code == -signal.SIGKILL

    (episode,) = episodes(run)
    return [json.loads(line) for line in (episode / "journal.jsonl").read_text().splitlines()]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "parameters",
    [
        "paper",
        pytest.param("finmem", marks=pytest.mark.exhaustive),
        "investorbench",
        pytest.param("generative_agents", marks=pytest.mark.exhaustive),
    ],
)
def test_killed_after_200_steps_it_remembers_as_plain_loops_and_resumes(
    parameters: str, tmp_path: Path
) -> None:
    arguments = (parameters, "investorbench_btc", "synthetic_investorbench")
    entries = journal_of_killed(tmp_path / "run", DIES_AFTER, *arguments)
    trace = [entry["memory"]["memory"] for entry in entries]

    if parameters in RESUMED or is_searching():
        assert ktdeval(*words(*arguments, tmp_path / "whole"), cwd=tmp_path).code == 0
        done = ktdeval(*words(*arguments, tmp_path / "run"), cwd=tmp_path)
        assert done.code == 0, done
        assert f"resuming after {DIES_AFTER + 1} of {STEPS} steps" in done.err
        assert records(tmp_path / "run") == records(tmp_path / "whole")
        assert verifies(tmp_path / "run")

    compare_trace(parameters, entries)  # every memory at every step, against plain loops
    counts = trace[-1]["counts"]
    assert len(trace) == DIES_AFTER + 1

    if parameters == "generative_agents":
        assert counts.keys() <= {"added", "near_equal"}
    else:
        assert min(counts[what] for what in ("purged", "promoted", "demoted", "credited")) > 0

    assert counts["added"] - counts.get("purged", 0) == sum(
        len(held) for held in trace[-1]["layers"].values()
    )

    for before, after in zip(trace, trace[1:], strict=False):  # noqa: RUF007
        assert all(after["counts"][what] >= count for what, count in before["counts"].items())


@pytest.mark.exhaustive
@pytest.mark.parametrize("parameters", ["paper", "investorbench"])
def test_filings_go_through_the_deep_layers_as_in_plain_loops(
    parameters: str, tmp_path: Path
) -> None:
    arguments = (parameters, "investorbench_msft", "synthetic_investorbench")
    entries = journal_of_killed(tmp_path / "run", 140, *arguments)
    compare_trace(parameters, entries)

    assert any(entry["memory"]["memory"]["layers"]["mid"] for entry in entries)


@pytest.mark.exhaustive
@on_each_row(
    "task, data",
    ("blinded_memory_only,blinded_open_research", "synthetic"),
    ("market_news_blinded", "synthetic_us"),
)
def test_it_runs_tasks_of_other_kinds(task: str, data: str, tmp_path: Path) -> None:
    command = words("finmem", task, data, tmp_path / "run")
    done = ktdeval(*command, "--limit", 5, cwd=tmp_path)
    assert done.code == 0, done
    assert verifies(tmp_path / "run")

    for path in (tmp_path / "run" / "cards").glob("*.json"):
        assert json.loads(path.read_text())["decisions"]["model"] == 5
