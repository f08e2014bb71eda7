"""Pages of a run as differences from shared data: complete for any content, and small if episodes
of a window repeat each other.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from ktdeval_view.document import PageData
from ktdeval_view.shared_pages import SharedPages
from support.pages.view_page import base_of, check_shared_page, data_of, shared_files

SCRIPTS = ("base.js", "pieces.js")


def page_data(days: list[object], title: str = "Episode") -> PageData:
    return PageData(
        title=title,
        template="episode.html",
        scripts=SCRIPTS,
        head={"label": title},
        values={"texts": ["a system prompt"]},
        days=[json.dumps(day) for day in days],
    )


def prices(seed: int, days: int = 40) -> list[object]:
    """Days with many figures, different for each seed."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 10**6, 40).tolist() for _ in range(days)]


def write(folder: Path, shared: SharedPages, **texts: str) -> list[Path]:
    paths = []
    for name, text in {**texts}.items():
        path = folder / f"{name}.html"
        path.write_text(text)
        paths.append(path)

    for name, text in shared.files.items():
        (folder / name).write_text(text)

    return paths


def bases_of(path: Path) -> list[str]:
    names = shared_files(path.read_text())
    return [name for name in names if base_of(path.with_name(name)) is not None]


def test_pages_of_a_window_are_stored_as_complete_differences_from_a_base(
    tmp_path: Path,
) -> None:
    shared = SharedPages()
    days = {"one": prices(1), "two": [*prices(1, 39), ["another day"]], "three": prices(1, 45)}
    texts = {name: shared.page(page_data(own, name), "W1") for name, own in days.items()}
    paths = write(tmp_path, shared, **texts)

    for path in paths:
        check_shared_page(path)
        data = data_of(path)
        head = json.loads(data["head"])
        lines = [
            json.loads(line)
            for number in range(len(head["pieces"]))
            for line in data[f"days-{number}"].split("\n")
        ]
        assert lines == days[path.stem]
        assert sum(head["pieces"]) == len(lines)
        assert head["label"] == path.stem
        assert json.loads(data["texts"]) == ["a system prompt"]

    # All three share one base; the second stores little data of its own.
    assert len({name for path in paths for name in bases_of(path)}) == 1
    assert paths[1].stat().st_size < (tmp_path / bases_of(paths[1])[0]).stat().st_size


def test_dissimilar_page_becomes_its_own_base_up_to_four_bases(
    tmp_path: Path,
) -> None:
    shared = SharedPages()
    texts = {f"page-{number}": shared.page(page_data(prices(number)), "W1") for number in range(6)}
    paths = write(tmp_path, shared, **texts)
    bases = [bases_of(path) for path in paths]

    assert len({base for (base,) in bases[:4]}) == 4
    assert bases[4:] == [[], []]
    assert all(json.loads(data_of(path)["head"])["label"] == "Episode" for path in paths)


def test_each_window_has_its_own_bases_and_pages_are_byte_reproducible() -> None:
    first = SharedPages()
    second = SharedPages()
    for shared in (first, second):
        for window in ("W1", "W2"):
            shared.page(page_data(prices(1)), window)
            shared.page(page_data(prices(1), "Another"), window)

    assert first.files == second.files
    # The data of both windows are equal, so they are in the same file.
    assert len(first.files) == 1 + 2 + 1
