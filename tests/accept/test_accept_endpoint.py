"""What an endpoint learns beside the prompts: seeds, ids, headers and orders say nothing of a
window that a mask hides.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ktdeval.registry import load_plugins
from ktdeval.runner.records.run_folder import RunFolder
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.testing import AnsweringHandler, running_server, small_market
from ktdeval.values import derive_seed
from support.runs.run_support import ktdeval, preload

preload("openai.resources.chat")

KEY = "0123456789abcdef" * 2
WINDOWS = ("2024-03-01:2024-03-12", "2024-03-15:2024-03-26")
MASKS = ("bright", "stock_blind", "date_blind", "blinded")
TASKS = [
    f"{mask}_{mode}" for mask, mode in itertools.product(MASKS, ("memory_only", "open_research"))
]
PROBES = [f"deanon_probe{end}" for end in ("", "_bright", "_stock_blind", "_date_blind")]
SEEDS = range(2)
STEPS = range(2)
SECRET = "sk-test-of-an-endpoint"
COMMON = f"--limit {len(STEPS)} --mask-key {KEY} --tool-protocol native --canary 0 --quiet"
Heard = list[tuple[dict[str, str], dict[str, Any]]]
SENT_BITS = 31  #: of a call's seed that this API takes
MARKET = small_market()


ANSWER = """{"id": "x", "object": "chat.completion", "model": "stub", "choices": [CHOICE],
"usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11}}"""
SEEN_ENOUGH = """{"index": 0, "finish_reason": "stop",
"message": {"role": "assistant", "content": "I have seen enough."}}"""
WAITS = r"""{"index": 0, "finish_reason": "tool_calls",
"message": {"role": "assistant", "content": "",
"tool_calls": [{"id": "a", "type": "function", "function": {"name": "SUBMIT",
"arguments": "{\"orders\": [], \"overall_reason\": \"I wait.\"}"}}]}}"""


class Endpoint(AnsweringHandler):
    """An OpenAI-compatible server that keeps each request, and holds."""

    heard: Heard

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.heard.append((dict(self.headers), body))
        choice = SEEN_ENOUGH
        if body.get("tool_choice"):
            choice = WAITS.replace("SUBMIT", body["tools"][0]["function"]["name"])

        answer = ANSWER.replace("CHOICE", choice)
        self.answer(answer.encode(), headers={"Content-Type": "application/json"})


@contextmanager
def endpoint() -> Iterator[tuple[str, Heard]]:
    """The address of a running_server server, and the requests that it keeps."""
    handler = type("Handler", (Endpoint,), {"heard": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    with running_server(server):
        yield f"http://127.0.0.1:{server.server_port}/v1", handler.heard


def ask(text: str, folder: Path, **environment: str) -> None:
    done = ktdeval(*text.split(), cwd=folder, environment=environment)
    assert done.code == 0, done


class Overheard:
    """One run of all tasks, and what its endpoint got for each episode."""

    def __init__(self, folder: Path, market: Path) -> None:
        with endpoint() as (address, heard):
            text = (
                f"--model openai_compatible/stub --base-url {address} --data {market} --out run"
                f" --tasks {','.join((*TASKS, *PROBES))} --windows {','.join(WINDOWS)} --cache run"
                f" --seeds {len(SEEDS)} {COMMON}"
            )
            ask(text, folder, OPENAI_COMPATIBLE_API_KEY=SECRET)

        self.run, self.heard = RunFolder.load(folder / "run"), heard
        self.specs = self.run.manifest.specs

    def sent(self, spec: EpisodeSpec) -> list[int]:
        """The seeds of an episode's calls, as recorded."""
        exchanges = itertools.chain.from_iterable(
            entry.exchanges for entry in self.run.load_transcript(spec)
        )
        return [exchange["seed"] for exchange in exchanges]

    def first_text(self, spec: EpisodeSpec) -> str:
        """What an episode's endpoint was shown first."""
        exchange = self.run.load_transcript(spec)[0].exchanges[0]
        return str(exchange["sent"][-1]["content"])


@pytest.fixture(scope="module")
def overheard(market: Path, tmp_path_factory: pytest.TempPathFactory) -> Overheard:
    return Overheard(tmp_path_factory.mktemp("endpoint"), market)


def values(part: Any) -> Iterator[int | str]:
    """Every number and text of a request but those of its conversation."""
    if isinstance(part, Mapping):
        for name, value in part.items():
            if name not in ("content", "tools"):
                yield from values(value)
    elif isinstance(part, Sequence) and not isinstance(part, str):
        for value in part:
            yield from values(value)
    elif isinstance(part, int | str):
        yield part


def guesses(windows: Sequence[tuple[str, str]], key: str | None) -> Iterator[int]:
    """What code and seed give for the calls of any window, task and mask; `key` is what an endpoint
    does not have.
    """
    for seed, (first, last) in itertools.product(SEEDS, windows):
        starts = [
            derive_seed(seed, first, last, purpose) for purpose in ("calls", "mask", "probes")
        ]
        for task in (*TASKS, *PROBES):
            mask = next((name for name in MASKS if name in task), "blinded")
            starts.append(derive_seed(key or "", seed, first, last, task, mask, "calls"))

        for start in starts:
            yield start % (1 << SENT_BITS)
            for step, call in itertools.product(STEPS, range(5)):
                yield derive_seed(start, step, call) % (1 << SENT_BITS)


@pytest.mark.exhaustive
def test_no_value_that_leaves_is_what_code_and_seed_give_for_any_window(
    overheard: Overheard,
) -> None:
    days = [str(day) for day in MARKET.days]
    tried = [tuple(words.split(":")) for words in WINDOWS]
    tried += [(first, last) for first, last in itertools.combinations(days[-30:], 2)]
    sent = set(itertools.chain.from_iterable(values(body) for _, body in overheard.heard))
    numbers = {value for value in sent if isinstance(value, int) and value > 1 << 16}

    assert len(numbers) >= len(overheard.specs) * len(STEPS)
    assert numbers.isdisjoint(guesses(tried, None))

    spelled = {f"{number:x}" for number in numbers} | {str(number) for number in numbers}
    assert not [text for text in sent if isinstance(text, str) and text in spelled]
    # the attack is the right one: with the key it names each call
    assert numbers <= set(guesses(tried[:2], KEY))


@pytest.mark.exhaustive
def test_no_episode_shares_a_seed_and_no_other_field_or_header_differs(
    overheard: Overheard,
) -> None:
    seeds = list(itertools.chain.from_iterable(overheard.sent(spec) for spec in overheard.specs))
    assert len(seeds) == len(overheard.heard) == len(set(seeds)) > len(overheard.specs)

    own = {"content-length", "messages", "tools", "tool_choice", "seed"}
    rest = []

    for head, body in overheard.heard:
        sent = {**head, **body}
        rest.append({name: sent[name] for name in sent if name.lower() not in own})

    assert rest == rest[:1] * len(rest)


def test_the_order_under_one_mask_names_no_stock_under_another(
    overheard: Overheard,
) -> None:
    """The lists of memory_only under all four masks, position by position: no more in common than
    two random orders.
    """
    plugins = load_plugins()

    for window, seed in itertools.product(WINDOWS, SEEDS):
        orders = {}
        for mask in MASKS:
            (spec,) = [
                spec
                for spec in overheard.specs
                if (spec.task, spec.window_name, spec.seed) == (f"{mask}_memory_only", window, seed)
            ]
            lens = plugins.make_task(spec.task).scene(spec, MARKET).lens
            shown = json.loads(overheard.first_text(spec).split("```json\n")[1].split("\n```")[0])[
                "universe"
            ]
            codes = {lens.asset_handle(asset): code for asset, code in enumerate(MARKET.codes)}
            orders[mask] = [codes[handle] for handle in shown]

        assert min(len(order) for order in orders.values()) > 30
        for one, other in itertools.combinations(MASKS, 2):
            # where days are hidden, the list has all that were ever in the market
            pairs = zip(orders[one], orders[other], strict=False)
            same = sum(mine == theirs for mine, theirs in pairs)
            assert same <= 6, (one, other, same)


@pytest.mark.exhaustive
def test_another_organisation_does_not_get_the_first_ones_replies(
    market: Path, tmp_path: Path
) -> None:
    with endpoint() as (address, heard):

        def calls(out: str, organisation: str, headers: str = "") -> int:
            """How many calls the endpoint heard in a run of somebody."""
            before = len(heard)
            text = (
                f"--model openai/stub --model-args api=chat --base-url {address} --data {market}"
                f" --tasks blinded_memory_only --windows {WINDOWS[0]} --cache replies.sqlite"
                f" --out {out} {COMMON}"
            )
            who = {"OPENAI_ORG_ID": organisation, "OPENAI_CUSTOM_HEADERS": headers}
            ask(text, tmp_path, OPENAI_API_KEY=SECRET, **who)
            return len(heard) - before

        own = calls("first", "org-a")
        assert own > 0
        assert calls("again", "org-a") == 0
        assert calls("other", "org-b") == own
        assert calls("routed", "org-a", "X-Route: eu") == own
        assert calls("turned", "org-a", "X-Auth-Token: next") == 0

    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    words = (b"org-a", b"org-b", b"X-Route", SECRET.encode())
    assert not [word for word in words if word in stored]


def test_the_order_of_episodes_names_no_window(overheard: Overheard) -> None:
    """The plan's order is public: an endpoint must not know the window of a task's first episode by
    it, or find it again.
    """
    spec_of = {}

    for spec in overheard.specs:
        spec_of |= {seed % (1 << SENT_BITS): spec for seed in overheard.sent(spec)}

    begun = list(dict.fromkeys(spec_of[body["seed"]].id for _, body in overheard.heard))
    orders = []
    for task in (*TASKS, *PROBES):
        planned = [spec.id for spec in overheard.specs if spec.task == task]
        orders.append(tuple(planned.index(identity) for identity in begun if identity in planned))

    assert {len(order) for order in orders} == {len(WINDOWS) * len(SEEDS)}
    assert orders.count(tuple(range(4))) <= 2  # one in 24 by chance
    assert len(set(orders)) > len(orders) / 2
