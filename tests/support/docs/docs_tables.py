"""Short lists that the code knows, inside pages that people write."""

from __future__ import annotations

import dataclasses
import re

from ktdeval.calls.costs.prompt_size import (
    KINDS,
    MAX_TOKENS,
    MIN_TOKENS,
    TOKEN_RATES,
    PromptBytes,
)
from ktdeval.harness.traits import AgentTraits, ModelTraits
from ktdeval.stats.metric import metric_rows
from ktdeval.task_api.traits import TaskTraits
from ktdeval.values import load_yaml
from ktdeval_models.remote.params import ProviderPreset, presets
from ktdeval_tables.names import NOT_READ, columns_beside
from support.docs.docs_markdown import code, plain_text, table

PANEL_WORDS = {
    "sharpe": "Sharpe ratio",
    "hhi": "HHI",
    "information_ratio": "IR, information ratio",
    "ece": "ECE",
    "ece_debiased": "ECE, debiased",
    "brier": "Brier",
    "psr": "PSR",
    "sortino": "Sortino ratio",
}


def with_table(text: str, name: str, content: str) -> str:
    """Return a page with a list between its markers. Raises ValueError: the markers are missing."""
    pattern = rf"(<!-- table: {re.escape(name)} -->\n).*?(\n<!-- end of table -->)"
    new, count = re.subn(
        pattern, lambda match: f"{match[1]}\n{content}\n{match[2]}", text, flags=re.DOTALL
    )

    if count != 1:
        raise ValueError(f"expected one pair of markers `<!-- table: {name} -->`, found {count}")

    return new


def columns_table() -> str:
    """Return the columns of vendors beside the prices, by role and meaning."""
    names: dict[tuple[str, str], list[str]] = {}
    for row in columns_beside().values():
        names.setdefault((row["role"], row["meaning"]), []).append(code(row["name"]))

    rows = []
    for (role, meaning), own in names.items():
        rows.append((role if role == NOT_READ else code(role), meaning, ", ".join(own)))

    return table(("role", "meaning", "columns"), rows)


def traits_table() -> str:
    """Return what tasks, models and agents may say of themselves, by record."""
    rows = []
    for record in (TaskTraits, ModelTraits, AgentTraits):
        for field in dataclasses.fields(record):
            rows.append((code(record.__name__), code(field.name), field.metadata["help"]))

    return table(("record", "trait", "meaning"), rows)


def token_rates_table() -> str:
    """Return the bytes a token of texts of one kind each, as counted, with what is estimated."""
    measured = load_yaml(TOKEN_RATES)
    rows = []

    for row in measured["contents"]:
        size = PromptBytes(*(row[kind] for kind in KINDS))
        counted = [size.total / tokens for tokens in row["tokens"].values()]
        estimated = [size.total / size.tokens(rate) for rate in (MIN_TOKENS, MAX_TOKENS)]
        rows.append((row["content"], *(f"{rate:.2f}" for rate in (*counted, *estimated))))

    names = [f"{code(name)} ({entry['package']})" for name, entry in measured["tokenizers"].items()]

    return table(("bytes a token of", *names, "low", "high"), rows)


_PROTOCOLS = {
    "chat": "Chat Completions",
    "messages": "Messages",
    "generate": "generateContent",
}


def providers_table() -> str:
    """Return the providers of remote models: protocol, key, how thoughts go back, extra, and where and
    when the facts were looked up.
    """
    rows = []

    for name, preset in sorted(presets().items()):
        protocol = _PROTOCOLS[preset.protocol]
        if name == "openai":
            protocol = "Responses, or Chat Completions (`api=chat`)"
        elif name == "vertex":
            protocol = "generateContent; Messages for Claude"

        places = [*map(code, preset.variables), *filter(None, [preset.credentials])]
        key = " or ".join(places)
        if not preset.needs_key:
            key += ", if wanted"

        pages = ", ".join(f"[{number}]({page})" for number, page in enumerate(preset.pages, 1))
        rows.append(
            (
                code(name),
                protocol,
                key,
                _thoughts(preset),
                code(preset.extra),
                f"{pages}, {preset.checked}",
            )
        )

    return table(
        ("provider", "API", "key in", "reasoning returned", "extra", "source, checked on"), rows
    )


def _thoughts(preset: ProviderPreset) -> str:
    """Return how thoughts of earlier turns go back to a provider."""
    if preset.protocol != "chat":
        return "with signatures"

    if preset.provider == "openai":
        return "encrypted; never over Chat Completions"

    return "always" if preset.sends_thoughts else "by model"


def glossary_panel() -> str:
    """Return the figures of the panel and what each means."""
    rows = []
    for name, row in metric_rows().items():
        word = PANEL_WORDS.get(name, name.replace("_", " "))
        rows.append((word, plain_text(row["summary"])))

    return table(("word", "meaning"), rows)
