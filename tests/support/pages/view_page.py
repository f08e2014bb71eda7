"""Pages of `ktdeval view` taken apart, and the runs that the tests look at."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktdeval.values import loads_strict
from ktdeval_pages.text_deltas import BaseText, restore_text
from support.pages.report_page import Page, check_whole
from support.runs.run_support import PLUGIN, TASK, WINDOW, ktdeval, store_market

VIEW_PLUGIN = Path(__file__).with_name("view_plugin.py")
KEY = "stub-secret-key-c0ffee0123"
SECRETS = {"TALKER_API_KEY": KEY}
TALKER = (
    "--plugin",
    VIEW_PLUGIN,
    "--plugin",
    PLUGIN,
    "--model",
    "test/talker",
    "--windows",
    WINDOW,
    "--data",
    "market",
)
_BASE = "window.ktdevalBase = "
_BLOB = re.compile(r'<script type="text/plain" id="data-([a-z0-9-]+)">([A-Za-z0-9+/=]*)</script>')


def make_runs_folder(folder: Path) -> Path:
    """A folder with a small market and runs on it: finished ones of several kinds, one that was
    killed, and their pages.
    """
    store_market(folder / "market")
    runs: dict[str, tuple[tuple[object, ...], Mapping[str, str]]] = {
        "talk": ((*TALKER, "--tasks", TASK, "--agent", "two_minds"), SECRETS),
        "seeds": (
            (
                "--model",
                "builtin/chaos",
                "--tasks",
                TASK,
                "--windows",
                WINDOW,
                "--seeds",
                3,
                "--data",
                "market",
            ),
            {},
        ),
        "bright": (
            (
                "--model",
                "builtin/momentum",
                "--tasks",
                "bright_open_research",
                "--windows",
                WINDOW,
                "--data",
                "market",
            ),
            {},
        ),
        # Under this key the episode of seed 0 begins first, and is the one that dies.
        "killed": (
            (*TALKER, "--tasks", TASK, "--seeds", 2, "--mask-key", "0" * 32),
            SECRETS | {"RUN_PLUGIN_DIE_AFTER_STEP": "8"},
        ),
    }

    for name, (words, environment) in runs.items():
        done = ktdeval(*words, "--out", name, "--quiet", cwd=folder, environment=environment)
        assert done.code == (-9 if name == "killed" else 0), done
        view(folder, name)

    return folder


def view(runs_folder: Path, run: str, *words: object, code: int = 0) -> Any:
    """`ktdeval view RUN WORDS` in a process of its own, which ends with this exit code."""
    done = ktdeval(
        "view", run, *words, "--plugin", VIEW_PLUGIN, cwd=runs_folder, environment=SECRETS
    )

    assert done.code == code, done

    return done


def pages(folder: Path) -> list[Path]:
    """Pages of episodes."""
    others = ("index.html", "side-by-side.html", "tear-sheet-")
    return sorted(path for path in folder.glob("*.html") if not path.name.startswith(others))


def data_of(path: Path) -> dict[str, str]:
    """Return the packed parts of a page: name -> text, put together with those that it shares."""
    text = path.read_text()
    parts = {name: unpacked(packed) for name, packed in _BLOB.findall(text)}
    bases = [each for each in shared_files(text) if base_of(path.with_name(each)) is not None]
    if not bases:
        return parts

    (name,) = bases
    base = base_of(path.with_name(name)) or {}
    return {
        name: restore_text(
            BaseText(unpacked(base[name]) if name in base else ""), loads_strict(part)
        )
        for name, part in parts.items()
    }


def unpacked(packed: str) -> str:
    return zlib.decompress(base64.b64decode(packed)).decode()


def shared_files(text: str) -> list[str]:
    """Names of the files next to a page that it loads."""
    return re.findall(r' (?:src|href)="(shared-[0-9a-f]{12}\.(?:js|css))"', text)


def base_of(path: Path) -> dict[str, str] | None:
    """Packed data that pages share; None for a style or a script that draws."""
    text = path.read_text()
    if not text.startswith(_BASE):
        return None

    base: dict[str, str] = loads_strict(text.removeprefix(_BASE).removesuffix(";\n"))
    return base


def head_of(path: Path) -> dict[str, Any]:
    """The head of a page: its facts and rows, or the lines of an index."""
    head: dict[str, Any] = loads_strict(data_of(path)["head"])
    return head


def assets_of(path: Path) -> dict[str, list[str]]:
    """Code and company behind each handle of a page."""
    names = head_of(path)["names"]
    behind = zip(names["codes"], names["companies"], strict=True)
    return {handle: list(each) for handle, each in zip(names["handles"], behind, strict=True)}


def days_of(path: Path) -> list[dict[str, Any]]:
    """Every day of a page, with its system prompts put back where they were said."""
    data = data_of(path)
    texts = loads_strict(data["texts"])
    days = []

    for index, expected in enumerate(loads_strict(data["head"])["pieces"]):
        lines = data[f"days-{index}"].split("\n")
        assert len(lines) == expected
        days += [loads_strict(line) for line in lines]

    for day in days:
        for exchange in day["talk"]["exchanges"]:
            for message in exchange["sent"]:
                if message["role"] == "system":
                    message["content"] = texts[message.pop("text")]

    return days


def check_shared_page(path: Path) -> Page:
    """Return a page that shares files with others, after the checks of `check_page`: it loads
    nothing but these, which are named by their content.
    """
    text = path.read_text()
    shared = shared_files(text)
    page = check_whole(
        text, also=("index.html", *shared, *(each.name for each in pages(path.parent)))
    )
    names = {
        element.attributes[name]
        for element in page.elements()
        for name in ("src", "action", "data", "xlink:href")
        if name in element.attributes
    }

    assert names == {name for name in shared if name is not None and name.endswith(".js")}
    assert not re.search(r"<script>|<style|url\((?!#)|unsafe-", text)
    (policy,) = [
        meta.attributes["content"] or ""
        for meta in page.all("meta")
        if "http-equiv" in meta.attributes
    ]
    assert policy.startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:;"
    )

    for name in shared:
        content = path.with_name(name).read_bytes()
        assert name.removeprefix("shared-").startswith(hashlib.sha256(content).hexdigest()[:12])
        base = base_of(path.with_name(name))
        if base is not None:  # packed data can't be a script
            assert all(re.fullmatch("[A-Za-z0-9+/=]*", packed) for packed in base.values())

    return page


def source_hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def check_page(path: Path) -> Page:
    """Return a page after checks of what every page guarantees: it is whole, asks for nothing, and
    runs only the kit's script and its own.
    """
    text = path.read_text()
    page = check_whole(text, also=("index.html",))
    attributes = set[str]().union(*(element.attributes for element in page.elements()))

    assert not {"src", "action", "data", "style", "xlink:href"} & attributes

    scripts = [
        element for element in page.all("script") if element.attributes.get("type") != "text/plain"
    ]

    assert len(scripts) == 2

    (style,) = page.all("style")
    (policy,) = [
        meta.attributes["content"] or ""
        for meta in page.all("meta")
        if "http-equiv" in meta.attributes
    ]

    assert policy.startswith("default-src 'none'; ")

    shared, own = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert f"script-src {source_hash(shared)} {source_hash(own)};" in policy
    assert f"style-src {source_hash(style.text)};" in policy
    assert not re.search(r"url\((?!#)|unsafe-", text)  # `url(#…)` is of the page itself

    return page
