"""Frame of pages: Jinja2 templates of a plugin that extend the kit's, and the policy of a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ktdeval.cards import label_word
from ktdeval.errors import StoreError
from ktdeval_pages.page_words import label_meaning

if TYPE_CHECKING:
    from jinja2 import Environment


_HEAD = 65_536  #: Bytes at the start of a page that contain its generator


def refuse_foreign_page(path: Path, command: str) -> None:
    """Raise StoreError if a file of this name has another generator than a command, such as
    `ktdeval view`: it would be overwritten.
    """
    if not path.is_file():
        return

    with path.open("rb") as file:
        head = file.read(_HEAD)
    if f'<meta name="generator" content="{command}">'.encode() not in head:
        raise StoreError(f"{path}: was not written by {command}; choose another --out")


def make_environment(
    package: str, finalize: Callable[[object], object] | None = None
) -> Environment:
    """Return the templates of a plugin's folder `templates`, with those of the kit under `pages/`.

    Values are escaped in HTML, and a name that a template uses and was not given is an error.
    `finalize` is applied to each printed value.
    """
    from jinja2 import (  # noqa: PLC0415 - commands that make no page start without it
        ChoiceLoader,
        Environment,
        PackageLoader,
        PrefixLoader,
        StrictUndefined,
        select_autoescape,
    )

    kit = PrefixLoader({"pages": PackageLoader("ktdeval_pages")})
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), kit]),
        autoescape=select_autoescape(["html"]),
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["label_meaning"] = label_meaning
    environment.filters["label_word"] = label_word

    return environment


def content_security_policy(scripts: str, styles: str, images: str) -> str:
    """Return a policy under which a page loads only these sources, and makes no other request.

    It is part of the page itself, since a page opened from the disk has no headers.
    """
    directives = (
        "default-src 'none'",
        f"script-src {scripts}",
        f"style-src {styles}",
        f"img-src {images}",
        "connect-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(directives)
