"""Placeholders such as `{bridge}` in the texts of a profile, and their values in a step.

A text is filled in one pass. The values are never parsed again, neither by a shell nor by a
template language.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from ktdeval.errors import ConfigError
from ktdeval.values import JsonValue, near_matches

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
LIST = "{tools_stdio}"
SECRETS = frozenset({"bridge_token", "tools_token"})


@dataclass(frozen=True)
class StepValues:
    """Values of the placeholders, keyed by name."""

    bridge: str  #: address of the model bridge, without a path
    bridge_token: str  #: API key of the bridge, for this step
    tools_url: str  #: address of the tool server, for MCP over Streamable HTTP
    tools_token: str  #: bearer token of the tool server, for this step
    tools_stdio: tuple[
        str, ...
    ]  #: argv of the tool server over stdio; as a list item, it expands to several items
    prompt: str  #: the step as text, as built-in agents receive it
    model: str  #: name of the run's model
    task_file: str = "task.md"  #: file with the prompt, relative to the program's folder
    folder: str = "."  #: the program's folder, which is also its working directory and its home
    #: a folder that is empty at the start of each step, relative to the program's folder
    temporary: str = "../tmp"


NAMES = tuple(field.name for field in fields(StepValues))


def check_placeholders(value: JsonValue, where: str) -> None:
    """Check a text, or all texts in a JSON value. Raise ConfigError, with a message that starts
    with `where`, in three cases: a text has an unknown placeholder; a text has the placeholder that
    expands to a list, but is not a list item by itself; a number can't be represented in JSON.
    """
    if isinstance(value, str):
        _check_text(value, where)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where}: JSON has no number {value}; quote it, or use another one")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _check_text(key, where)
            check_placeholders(item, f"{where}.{key}")
    elif isinstance(value, Sequence):
        for index, item in enumerate(value):
            if item != LIST:
                check_placeholders(item, f"{where}[{index}]")


def _check_text(text: str, where: str) -> None:
    for name in _PLACEHOLDER.findall(text):
        if name not in NAMES:
            raise ConfigError(
                f"{where}: unknown placeholder {{{name[:80]}}}{near_matches(name, NAMES)};"
                f" known are {', '.join(NAMES)}"
            )
        if f"{{{name}}}" == LIST:
            raise ConfigError(
                f"{where}: {LIST} expands to several words; make it a list item of its own"
            )


def names_in(text: str) -> set[str]:
    """Return the names of the placeholders in a text."""
    return set(_PLACEHOLDER.findall(text))


def fill_placeholders(text: str, values: StepValues) -> str:
    """Return a checked text with its values filled in."""
    return _PLACEHOLDER.sub(lambda match: str(getattr(values, match[1])), text)


def filled_words(words: Sequence[str], values: StepValues) -> tuple[str, ...]:
    """Return checked words with their values filled in."""
    result: list[str] = []
    for word in words:
        if word == LIST:
            result += values.tools_stdio
        else:
            result.append(fill_placeholders(word, values))
    return tuple(result)


def filled_json(value: JsonValue, values: StepValues) -> JsonValue:
    """Return checked JSON with the values filled into its texts and field names."""
    if isinstance(value, str):
        return fill_placeholders(value, values)
    if isinstance(value, Mapping):
        return {
            fill_placeholders(key, values): filled_json(item, values) for key, item in value.items()
        }
    if isinstance(value, Sequence):
        items: list[JsonValue] = []
        for item in value:
            items += values.tools_stdio if item == LIST else [filled_json(item, values)]
        return items
    return value
