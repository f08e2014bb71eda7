"""Data files of sites, and pages of a model, of a card and of two cards of a forged site:
addresses, and what stands on them.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import shutil
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ktdeval.values import loads_strict
from ktdeval_board.site.files import data_file
from ktdeval_pages.text_deltas import BaseText, restore_text
from support.pages.browser_pages import Reader, keep_drawing

DIVISION = "blinded-open-research"
OTHER = "bright-open-research"
MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
NEXT_TO_DRAW = """() => {
    const open = [...document.querySelectorAll('.chart-plot:not([data-drawn]), .loading')].filter(part => part.checkVisibility());
    open[0]?.scrollIntoView({block: 'center'});
    return open[0]?.parentElement.outerHTML.slice(0, 400);
}"""


def cards_of(site: Path, division: str = DIVISION) -> list[dict[str, Any]]:
    """Rows of the index of cards, as mappings."""
    index = read_data(site, "cards-index")
    rows = [dict(zip(index["columns"], row, strict=True)) for row in index["rows"]]
    return [row for row in rows if row["division"] == division]


def entry_of(site: Path, card: str) -> dict[str, Any]:
    return dict(read_data(site, f"card/{card}"))


def ranked(site: Path, division: str = DIVISION) -> list[dict[str, Any]]:
    """Rows of ranked entrants with all there is of them, best first."""
    rows = [row for row in read_data(site, f"division/{division}/all")["rows"] if row["ranked"]]
    entries = [entry_of(site, row["card"]) for row in rows]
    whole = [
        entry["has_decisions"] and entry["card"]["attribution"]["value"] is not None
        for entry in entries
    ]

    return list(itertools.compress(rows, whole))


def numbers(text: str) -> list[float]:
    """Figures in a text as shown, percent as percent."""
    return [
        float(figure.replace("−", "-").replace(",", ""))
        for figure in re.findall(r"[−+-]?\d[\d,]*(?:\.\d+)?", text)
    ]


def draw_all(tab: Any) -> None:
    """Bring every chart into view, and what is loaded on the way, until all are drawn; then back to
    the top.
    """
    deadline = time.monotonic() + 240

    for turn in itertools.count(1):
        if not (waits := tab.evaluate(NEXT_TO_DRAW)):
            break

        assert time.monotonic() < deadline, f"never drawn: {waits}"
        time.sleep(0.03)
        if turn % 100 == 0:
            keep_drawing(tab)

    tab.evaluate("scrollTo(0, 0)")


def chart_table(tab: Any, title: str) -> list[list[str]]:
    """The figures of a chart, from the table that its button opens."""
    figure = tab.locator("figure.chart", has=tab.locator("figcaption strong", has_text=title)).first
    if figure.locator(".chart-table").is_hidden():
        figure.get_by_role("button", name="Table of the figures").click()

    return list(
        figure.locator("table").evaluate(
            "table => [...table.rows].map(row => [...row.cells].map(cell => cell.innerText))"
        )
    )


def table_rows(tab: Any, caption: str) -> list[list[str]]:
    """The body of a table by its caption."""
    table = tab.locator(
        "table.grid", has=tab.locator("caption", has_text=re.compile(rf"^{re.escape(caption)}$"))
    ).first
    return list(
        table.evaluate(
            "table => [...table.tBodies[0].rows].map(row => [...row.cells].map(cell =>"
            " cell.innerText))"
        )
    )


def facts_of(tab: Any) -> dict[str, str]:
    """Terms and what they say."""
    pairs = tab.locator("main dl.facts > div").evaluate_all(
        "all => all.map(div => [...div.children].map(part => part.innerText))"
    )
    return {pair[0]: pair[1] for pair in pairs}


def link(page: str, **state: str) -> str:
    return f"{page}#{'&'.join(f'{name}={value}' for name, value in state.items())}"


def with_markup(value: Any) -> Any:
    """A value in which every text that is no name of something else carries markup."""
    if isinstance(value, dict):
        names = (
            "card",
            "id",
            "hash",
            "scope",
            "division",
            "snapshot",
            "tier",
            "baseline",
            "kind",
            "rank_by",
        )
        return {
            key: one if key in names and isinstance(one, str) else with_markup(one)
            for key, one in value.items()
        }

    if isinstance(value, list):
        return [with_markup(one) for one in value]

    names_of_things = r"\d{4}-\d\d-\d\d|[0-9a-f]{64}|[a-z]+_[a-z_]+|all|W\d+|trading|synthetic|main|blinded-.*|bright-.*"
    is_words = isinstance(value, str) and not re.fullmatch(names_of_things, value)

    return value + MARKUP if is_words else value


def model_page(session: Reader, row: dict[str, Any], **state: str) -> Any:
    """The page of a model at one of its cards, with all charts drawn."""
    tab = session.open(link("model.html", model=row["model"], card=row["card"], **state))
    draw_all(tab)
    return tab


def pair_page(session: Reader, first: dict[str, Any], second: dict[str, Any], **state: str) -> Any:
    """The page of two cards."""
    return session.open(link("compare.html", a=first["card"], b=second["card"], **state))


def read_data_file(content: bytes, data: Path | None = None) -> Any:
    """Return the value that the content of a data file hands over; `data`: the folder of the data
    files, for those that are deltas of another.
    """
    text = data_text(content, data)
    return loads_strict(text)


def data_text(content: bytes, data: Path | None = None) -> str:
    """Return the JSON text that the content of a data file hands over; arguments as of
    `read_data_file`.
    """
    head, _, rest = content.partition(b"\n")
    names = re.fullmatch(rb"ktdevalReceive(Packed|Delta|)\((.*),", head)
    if not rest.endswith(b"\n);\n") or names is None:
        raise ValueError("is no data file of a site")

    text = rest.removesuffix(b"\n);\n").decode()
    if not names[1]:
        return text

    unpacked = zlib.decompress(base64.b64decode(loads_strict(text))).decode()
    if names[1] == b"Packed":
        return unpacked

    assert data is not None
    _, base_name = loads_strict(f"[{names[2].decode()}]")
    base = read_data_file((data / f"{base_name}.js").read_bytes())
    return restore_text(BaseText(base), loads_strict(unpacked))


def read_data(site: Path, name: str) -> Any:
    """The value of a data file of a site."""
    return read_data_file((site / "data" / f"{name}.js").read_bytes(), site / "data")


def card_file(site: Path, card_id: str) -> bytes:
    """Bytes of a card's file, as its page hands them out."""
    text = data_text((site / "data" / "card" / f"{card_id}.js").read_bytes(), site / "data")
    start = len('{"card":')
    in_units = text.encode("utf-16-le")[2 * start :]
    length = loads_strict(text)["card_length"]
    return in_units[: 2 * length].decode("utf-16-le").encode()


def changed_site(site: Path, folder: Path, changes: dict[str, Callable[[Any], Any]]) -> Path:
    """A copy of a site in which some data files hold other values."""
    shutil.copytree(site, folder)
    for name, change in changes.items():
        value = json.dumps(change(read_data(site, name)), ensure_ascii=False)
        (folder / "data" / f"{name}.js").write_bytes(data_file(name, value.encode()))

    return folder


def rank_words(row: dict[str, Any], rank: str = "rank") -> str:
    """Ranks that a row may have, as shown."""
    return str(row["alpha_group_ranks" if rank == "alpha_rank" else "group_ranks"])
