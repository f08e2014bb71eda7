"""The frame of a page: one file with style, script and data in it, under a policy that lets it ask nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import html
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files

_ASSETS = files("ktdeval_view").joinpath("assets")


@dataclass(frozen=True)
class Page:
    """What makes one page differ from another.

    Attributes:
        title: of the window; plain text.
        body: name of the asset with the elements that the script fills.
        scripts: names of the assets that make up its script, in order.
        data: name -> packed data, which the script unpacks.
    """

    title: str
    body: str
    scripts: Sequence[str]
    data: Mapping[str, str]


def render(page: Page) -> str:
    """The page as HTML. Its policy names the hashes of its own style and script: anything else that got in is not run."""
    style = _asset("view.css")
    script = "\n".join(['"use strict";', *map(_asset, page.scripts)])
    # A block of a type that browsers don't run is plain data to them, which no policy need allow.
    data = "\n".join(f'<script type="text/plain" id="data-{name}">{packed}</script>' for name, packed in page.data.items())
    policy = (
        f"default-src 'none'; script-src '{_source_hash(script)}'; style-src '{_source_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="generator" content="ktdeval view">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{html.escape(clean(page.title))}</title>
<style>{style}</style>
</head>
<body class="true-names">
{_asset(page.body)}
{data}
<script>{script}</script>
</body>
</html>
"""


def clean(text: str) -> str:
    """One line without control and direction characters: what stands in a title may come from a stranger's plugin."""
    return "".join(" " if unicodedata.category(letter) in ("Cc", "Cf", "Zl", "Zp", "Cs") else letter for letter in text)


def _asset(name: str) -> str:
    return _ASSETS.joinpath(name).read_text(encoding="utf-8").strip()


def _source_hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
