"""Run folders of strangers: whatever stands in a file of one, or in its place, each command says it
on a line and ends.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from ktdeval.cli.main import main
from ktdeval.task_api.episode_spec import EpisodeSpec
from ktdeval.values import build
from support.json_places import Place, places, with_value
from support.runs.forging import change_transcript, edit_json, read_transcript, rehash
from support.runs.run_support import WINDOW, episodes
from support.searching import is_searching

TASK = "bright_open_research"
WHOLE = f"--model builtin/momentum --tasks {TASK} --windows {WINDOW} --limit 2 --quiet".split()
WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    1.5,
    10**17,
    "x",
    "\x1b]0;x\x07",
    [],
    [[1]],
    {},
    {"x": {"y": None}},
)


def run_command(*words: object) -> tuple[int, str]:
    """Exit code and error line of a command, in this process; a defect is raised. Differences that
    `card verify` finds are on stdout, and their first line stands for an error line.
    """
    out = io.StringIO()
    err = io.StringIO()

    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])

    found = out.getvalue().splitlines()
    if code == 1 and not err.getvalue() and found[-1:] and found[-1].endswith("not verified"):
        first = found[0].removeprefix("error ")
        return code, f"ktdeval: error: {first}\n"

    return code, err.getvalue()


def with_own_id(manifest: Any) -> Any:
    """Make the ids of a plan agree with its specs, as far as they are any."""
    for episode in manifest["episodes"] if isinstance(manifest.get("episodes"), list) else ():
        with contextlib.suppress(Exception):
            episode["id"] = build(
                EpisodeSpec, {k: v for k, v in episode.items() if k != "id"}, "spec"
            ).id

    return manifest


def check_each(
    run: Path, changed: Iterator[tuple[str, Callable[[], Any]]], *commands: tuple[object, ...]
) -> int:
    """Do each change and run each command: its code is 0, or an error on one line; a traceback is a
    defect.
    """
    bad = []
    count = 0

    for name, change in changed:
        change()
        for words in commands:
            count += 1
            shutil.rmtree(run.parent / "replayed", ignore_errors=True)
            try:
                code, err = run_command(*words)
            except Exception as error:  # noqa: BLE001 - the traceback that nobody may see
                bad.append((name, words[:2], f"{type(error).__name__}: {error}"))
                continue

            if code not in (0, 1, 2) or (
                code and (err.count("\n") != 1 or not err.startswith("ktdeval: error: "))
            ):
                bad.append((name, words[:2], err))

    assert bad == []

    return count


def commands(run: Path, market: Path, out: Path) -> tuple[tuple[object, ...], ...]:
    replay = (
        "run",
        "--model",
        f"replay/{run}",
        "--tasks",
        TASK,
        "--windows",
        WINDOW,
        "--limit",
        2,
        "--data",
        market,
        "--quiet",
    )
    return (
        ("card", "verify", run),
        ("score", run),
        ("view", run, "--out", out / "view.html"),
        ("compare", "rationale", run),
        (*replay, "--out", out / "replayed"),
    )


def test_every_field_of_a_manifest_of_each_wrong_type_is_one_line(
    run: Path, market: Path, tmp_path: Path
) -> None:
    manifest = json.loads((run / "manifest.json").read_text())

    def changes(wrong: tuple[Any, ...]) -> Iterator[tuple[str, Callable[[], Any]]]:
        for place in places(manifest):
            for value in wrong:
                text = json.dumps(with_own_id(with_value(manifest, place, value)))
                yield (
                    f"{place} = {value!r}",
                    lambda text=text: (run / "manifest.json").write_text(text),
                )

    verify, *others = commands(run, market, tmp_path)

    assert check_each(run, changes(WRONG), verify) > 350
    assert check_each(run, changes(({"x": {"y": None}},)), *others) > 80


def of_each_kind(found: Iterable[Place]) -> list[Place]:
    """The first and the last of the places that differ in nothing but positions in lists."""
    kinds: dict[Place, list[Place]] = {}
    for place in found:
        kinds.setdefault(
            tuple("#" if isinstance(part, int) else part for part in place), []
        ).append(place)

    ends = [(alike[0], alike[-1]) for alike in kinds.values()]

    return list(dict.fromkeys(chain.from_iterable(ends)))


def test_every_field_of_a_record_of_a_wrong_type_is_one_line(
    run: Path, market: Path, tmp_path: Path
) -> None:
    """Of fields in the same place of list items the first and the last; with `--hypothesis-profile
    search` all of them.
    """
    chosen = list if is_searching() else of_each_kind
    values = (None, [[1]]) if is_searching() else ([[1]],)
    (folder,) = episodes(run)
    entry = read_transcript(folder)[1]
    mark = json.loads((folder / "episode.json").read_text())

    def records() -> Iterator[tuple[str, Callable[[], Any]]]:
        for place in chosen(places(entry)):
            for wrong in values:
                false = with_value(entry, place, wrong)
                yield f"{place} = {wrong!r}", lambda false=false: replace_second(folder, false)

        replace_second(folder, entry)

    def marks(wrong: tuple[Any, ...]) -> Iterator[tuple[str, Callable[[], Any]]]:
        for place in places(mark):
            for value in wrong:
                false = with_value(mark, place, value)
                yield (
                    f"mark, {place} = {value!r}",
                    lambda false=false: edit_json(folder / "episode.json", lambda old: false),
                )

    verify, _, view, _, replay = commands(run, market, tmp_path)

    assert check_each(run, records(), verify, view, replay) > 100 * len(values)
    assert check_each(run, marks(WRONG[:4]), verify) > 100
    assert check_each(run, marks(WRONG[:1]), view, replay) > 50


def replace_second(folder: Path, entry: Any) -> None:
    change_transcript(folder, lambda old: [old[0], entry])
    rehash(folder)


def test_pipe_device_or_socket_in_place_of_a_file_is_reported_at_once(
    whole: Path, market: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    files = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())

    def changes() -> Iterator[tuple[str, Callable[[], Any]]]:
        for name in (
            *files,
            Path("certificate.json"),
            Path("canary.json"),
            Path("calls.sqlite"),
            Path("calls.jsonl"),
        ):
            for how, make in (
                ("pipe", os.mkfifo),
                ("socket", bind),
                ("device", lambda path: path.symlink_to("/dev/zero")),
            ):

                def put(name: Path = name, make: Callable[[Path], Any] = make) -> None:
                    shutil.rmtree(run, ignore_errors=True)
                    shutil.copytree(whole, run)
                    (run / name).unlink(missing_ok=True)
                    make(run / name)

                yield f"{name}: {how}", put

    assert check_each(run, changes(), *commands(run, market, tmp_path)) > 100


def bind(path: Path) -> None:
    # the path of a socket is short
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
