"""Design tokens: the light and dark colours of all pages, and their CSS variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ktdeval.values import load_yaml


@dataclass(frozen=True, slots=True)
class Colour:
    """Hex codes of a colour token."""

    light: str
    dark: str


def _read_tokens() -> dict[str, dict[str, Colour]]:
    groups = load_yaml(Path(__file__).with_name("tokens.yaml"))
    read: dict[str, dict[str, Colour]] = {}
    for group, tokens in groups.items():
        read[group] = {name: Colour(*codes) for name, codes in tokens.items()}
    return read


_GROUPS = _read_tokens()

TOKENS: Mapping[str, Colour] = _GROUPS["surfaces"] | _GROUPS["plots"] | _GROUPS["series"]
"""Colours, keyed by token name."""

SERIES: tuple[str, ...] = tuple(_GROUPS["series"])
"""Tokens for the lines of a plot, in order."""


def css_variables() -> str:
    """Return the rules that define the tokens as CSS variables.

    A page follows the system theme unless its root element sets a theme (`data-theme`). It is
    always printed in the light theme.
    """
    light = _declarations("light", [colour.light for colour in TOKENS.values()])
    dark = _declarations("dark", [colour.dark for colour in TOKENS.values()])
    rules = [
        f":root, :root[data-theme=light] {{ {light} }}",
        f":root[data-theme=dark] {{ {dark} }}",
        "@media screen and (prefers-color-scheme: dark) {",
        f"  :root:not([data-theme=light]) {{ {dark} }}",
        "}",
        f"@media print {{ :root, :root[data-theme=dark] {{ {light} }} }}",
    ]
    return "\n".join(rules) + "\n"


def _declarations(scheme: str, codes: list[str]) -> str:
    variables = [f"--{name}: {code}" for name, code in zip(TOKENS, codes, strict=True)]
    return "; ".join([f"color-scheme: {scheme}", *variables]) + ";"
