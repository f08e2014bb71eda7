"""What the example of a prompt does to a decision: the probabilities that a model gives to sides and
to the example's confidence, with nothing but the example's line changed.

    python -m real_models.example_effect WEIGHTS MODEL LABEL [--out FILE] [--days N]

A rule model that never trades plays N days of each task, so that its transcript has the prompts.
To each is added the beginning of the answer, up to the side and up to the confidence, for the first
candidate. Probabilities are those of the next tokens, unconstrained, multiplied over the characters
of the figure; they are exact for a prompt and sampled over days and markets only.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import zstandard

from real_models.entrants import models
from real_models.model_server import serving

COLUMNS = ("label", "model", "task", "step", "variant", "outcome", "probability")
EXAMPLE = re.compile(r'^ {4}\{"(decisions|orders)": .*\n(?: {5}.*\n)*', re.MULTILINE)
SIDE = re.compile(r'"(decision|side)": "([^"]*)"')
CONFIDENCE = re.compile(r'"confidence": ([^,}]*)')
CONTEXT = 8192
TOP = 60  # next tokens of which the server tells the probability
FORCED_WEIGHT = 0.1  # where the confidence is asked for, a weight that no example shows
MASK_KEY = "5eed5eed5eed5eed5eed5eed5eed5eed"

# variants: what stands in the example, as a side and as a confidence; None: as it is
VARIANTS: Mapping[str, tuple[str | None, str | None]] = {
    "as it is": (None, None),
    "confidence 0.3": (None, "0.3"),
    "confidence 0.9": (None, "0.9"),
    "SELL": ("SELL", None),
    "HOLD": ("HOLD", None),
    "no figure, no side": ("<your decision>", "<your probability>"),
}
STANCES, ORDERS = ("BUY", "SELL", "HOLD"), ("BUY", "SELL")
TASKS: Mapping[str, tuple[str, ...]] = {
    "investorbench_msft": ("--data", "synthetic_investorbench"),
    "investorbench_nflx": ("--data", "synthetic_investorbench"),
    "investorbench_btc": ("--data", "synthetic_investorbench"),
    "blinded_memory_only": ("--windows", "W1"),
}
"""Options of each task. The last takes orders, the others a side for their one asset."""


@dataclass(frozen=True)
class Prompt:
    """The messages of one decision, and the label of the first candidate."""

    task: str
    step: int
    system: str
    user: str
    asset: str

    @property
    def sides(self) -> tuple[str, ...]:
        """Sides that a submission may have."""
        return STANCES if '{"decisions": ' in self.system else ORDERS


def main() -> None:
    """Measure one model; lines that the file has are not measured again."""
    options = arguments()
    model = models()[options.model]
    model = replace(model, port=model.port + 100)  # run.py may serve it, too
    done = set()
    if options.out.exists():
        with options.out.open(newline="") as file:
            done = {tuple(row[:5]) for row in csv.reader(file)}

    server = serving(
        model, options.weights, context=CONTEXT, threads=options.threads, prefix_cache=True
    )
    with server as running, tempfile.TemporaryDirectory() as place:
        asker = Asker(running.base_url.removesuffix("/v1"))
        for prompt in list(prompts(Path(place), options.days)):
            for variant in options.variants:
                key = (options.label, model.name, prompt.task, str(prompt.step), variant)
                system = with_example(prompt, variant)
                if key in done or system is None:
                    continue

                found = asker.probabilities(prompt, system)
                append(options.out, [(*key, name, f"{p:.5f}") for name, p in found.items()])


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("weights", type=Path, help="folder of get_models.py")
    parser.add_argument("model")
    parser.add_argument("label", help="which prompts these are, such as `before`")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("example_effect.csv"))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--days", type=int, default=3, help="days of each market")
    parser.add_argument("--threads", type=int, default=1)

    return parser.parse_args()


def append(path: Path, rows: Sequence[Sequence[str]]) -> None:
    """Add rows to a table; its first line names the columns."""
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(COLUMNS)
        writer.writerows(rows)


# --- prompts


def prompts(place: Path, days: int) -> Iterator[Prompt]:
    """Yield the prompts of the first days of each task."""
    for task, data in TASKS.items():
        out = place / task
        words = ["--model", "builtin/hold", "--tasks", task, *data, "--limit", str(days)]
        words += ["--mask-key", MASK_KEY, "--quiet", "--out", str(out)]
        subprocess.run(
            [sys.executable, "-m", "ktdeval", *words], check=True, stdout=subprocess.DEVNULL
        )
        yield from _of_run(task, out)


def _of_run(task: str, run: Path) -> Iterator[Prompt]:
    (path,) = run.glob("episodes/*/transcript.jsonl.zst")
    data = zstandard.ZstdDecompressor().stream_reader(path.open("rb"))

    for step, line in enumerate(io.TextIOWrapper(data, "utf-8")):
        messages = json.loads(line)["exchanges"][0]["sent"]
        texts = {message["role"]: message["content"] for message in messages}
        asset = re.search(r"asset_\d+", texts["user"])
        assert asset is not None

        yield Prompt(task, step, texts["system"], texts["user"], asset[0])


def with_example(prompt: Prompt, variant: str) -> str | None:
    """Return the system text with the example changed; None where there is none to change."""
    side, confidence = VARIANTS[variant]
    example = EXAMPLE.search(prompt.system)
    if example is None:
        raise SystemExit(f"example_effect: {prompt.task} shows no example that can be found")
    if side is not None and side.isupper() and side not in prompt.sides:
        return None

    text = example[0]
    if side is not None:
        text = SIDE.sub(rf'"\1": "{side}"', text)
    if confidence is not None:
        text = CONFIDENCE.sub(f'"confidence": {confidence}', text)

    return prompt.system.replace(example[0], text)


# --- probabilities


class Asker:
    """Asks a server of llama.cpp for the probabilities of texts."""

    def __init__(self, address: str) -> None:
        self._address = address

    def probabilities(self, prompt: Prompt, system: str) -> dict[str, float]:
        """Return the probability of each side, and of weights and confidences over all sides."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt.user}]
        head = self._post("/apply-template", {"messages": messages})["prompt"]
        names = ("orders", "side")
        if prompt.sides == STANCES:
            names = ("decisions", "decision")
        head += f'{{"{names[0]}": [{{"stock_id": "{prompt.asset}", "{names[1]}": "'

        found = {side: self._text(head, f'{side}"') for side in prompt.sides}
        whole = sum(found.values())

        for side in prompt.sides:
            start = f'{head}{side}", '
            figures = {}
            if prompt.sides == ORDERS:
                figures["weight"] = self._figures(start + '"target_weight": ')
                start += f'"target_weight": {FORCED_WEIGHT}, '
            figures["confidence"] = self._figures(start + '"confidence": ')

            for name, each in figures.items():
                for figure, probability in each.items():
                    key = f"{name} {figure}"
                    found[key] = found.get(key, 0.0) + probability * found[side] / whole

        return found

    def _figures(self, start: str) -> dict[str, float]:
        """Return the probabilities of 0.1, 0.2 … 0.9 and of 0.05 as the next figure."""
        lead = self._text(start, "0.")
        tenths = self._next(start + "0.")
        found = {}
        for digit in "123456789":
            ended = self._ends(f"{start}0.{digit}") if tenths.get(digit, 0.0) > 0.01 else 1.0
            found[f"0.{digit}"] = lead * tenths.get(digit, 0.0) * ended

        zero = tenths.get("0", 0.0)
        five = self._next(start + "0.0").get("5", 0.0) if zero > 0.01 else 0.0
        found["0.05"] = lead * zero * five
        return found

    def _ends(self, text: str) -> float:
        """Return the probability that the next token does not go on with a digit."""
        following = self._next(text)
        digits = sum(p for token, p in following.items() if token[:1].isdigit())
        return max(0.0, 1.0 - digits)

    def _text(self, start: str, wanted: str) -> float:
        """Return the probability that a text follows, however it is cut into tokens."""
        result = 1.0
        while wanted:
            tokens = self._next(start)
            fitting = {token: p for token, p in tokens.items() if token and _fits(token, wanted)}
            if not fitting:
                return 0.0

            result *= sum(fitting.values())
            longest = max(fitting, key=lambda token: fitting[token])
            taken = longest if len(longest) < len(wanted) else wanted
            start, wanted = start + taken, wanted[len(taken) :]

        return result

    def _next(self, text: str) -> dict[str, float]:
        """Return the probabilities of the likeliest next tokens."""
        asked = {"prompt": text, "n_predict": 1, "n_probs": TOP, "temperature": 0}
        answer = self._post("/completion", {**asked, "cache_prompt": True})
        tokens = answer["completion_probabilities"][0]["top_logprobs"]
        found: dict[str, float] = {}
        for token in tokens:
            found[token["token"]] = found.get(token["token"], 0.0) + math.exp(token["logprob"])

        return found

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        data = json.dumps(body).encode()
        request = urllib.request.Request(
            self._address + path, data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=7200) as answer:
            return json.load(answer)


def _fits(token: str, wanted: str) -> bool:
    """Whether a token begins the wanted text, or goes beyond its end."""
    return wanted.startswith(token) or token.startswith(wanted)


if __name__ == "__main__":
    main()
