"""Malformed and hostile files of a forward test: each is a finding or an error on one line, and nothing
outside of the folder is read.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from ktdeval.cli.main import main
from ktdeval.errors import KtdevalError
from ktdeval.registry import Plugins
from ktdeval.testing import not_empty
from ktdeval.values import dumps_canonical
from ktdeval_live.checks.verification import verify_test
from ktdeval_live.days.clock import of_text
from ktdeval_live.record.folder import LiveFolder
from ktdeval_live.results.settled_cards import settle_test, write_cards
from support.json_places import Place, places, with_value
from support.live.live_forger import Forger
from support.live.live_plans import rehearsed
from support.searching import is_searching

NOW = "2024-06-10T00:00:00Z"
DAY = "2024-05-31"
DECIDED = 2  # number of the link with the decision
FILES = (
    "plan.json",
    "schedules/us.json",
    "chain.jsonl",
    "published.jsonl",
    f"data/us/{DAY}-0.json",
    f"records/one/us/{DAY}.json",
    "cards/one-us.json",
)
VALUES = (
    "(removed)", None, True, -1, 10**30, 1e308, "", "x", "../../x", "/etc/passwd", "a\n", "\x00",
    [], {}, [[]], {"kind": "begun"}, "2024-13-45T99:00:00Z", "2024-06-03T00:00:00", "9" * 5000,
)  # fmt: skip


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory, plugins: Plugins) -> LiveFolder:
    """Return a test of one day."""
    folder = rehearsed(
        tmp_path_factory.mktemp("live") / "day",
        plugins,
        last="2024-06-03",
        entrants=[{"name": "one", "model": "builtin/momentum", "agent": "investor"}],
    )
    write_cards(folder, settle_test(folder, plugins, of_text(NOW)).cards)

    assert verify_test(LiveFolder(folder.path), plugins).findings == ()

    return folder


def value_of(text: str, name: str) -> Any:
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines()]

    return json.loads(text)


def text_of(value: Any, name: str) -> str:
    if name.endswith(".jsonl"):
        return "".join(f"{dumps_canonical(line)}\n" for line in value)

    return dumps_canonical(value)


def assert_found(path: Path, plugins: Plugins, *changed: object) -> None:
    """There are findings in a folder, or it is an error, a line each."""
    try:
        lines = [str(finding) for finding in verify_test(LiveFolder(path), plugins).findings]
    except KtdevalError as error:
        lines = [str(error)]

    assert lines, changed
    assert all(line.isprintable() for line in lines)


def kinds_of_places(value: Any) -> Iterator[Place]:
    """Yield one place of each kind: elements of a list are of one kind."""
    seen = set()
    for place in places(value):
        kind = tuple("[]" if isinstance(part, int) else part for part in place)
        if kind not in seen:
            seen.add(kind)
            yield place


@pytest.fixture
def path(day: LiveFolder, tmp_path: Path) -> Path:
    """A copy of the test."""
    return Path(shutil.copytree(day.path, tmp_path / "copy"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FILES)
def test_changed_value_is_a_finding_or_an_error(path: Path, plugins: Plugins, name: str) -> None:
    text = (path / name).read_text("utf-8")
    value = value_of(text, name)
    offered = cycle(VALUES)
    values_each = 2 if is_searching() else 1

    for place in not_empty(kinds_of_places(value)):
        for new in islice(offered, values_each):
            changed = text_of(with_value(value, place, new), name)
            is_free = name.startswith("cards/") and place[0] == "provenance"
            if is_free or changed == text_of(value, name):
                continue

            (path / name).write_text(changed, "utf-8")
            assert_found(path, plugins, place, new)


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", range(4))
def test_changed_link_with_all_hashes_is_a_finding_or_an_error(
    path: Path, plugins: Plugins, number: int
) -> None:
    """The chain is made anew, so that what its links state is what is checked."""
    chain = (path / "chain.jsonl").read_bytes()
    body = json.loads(chain.splitlines()[number])["body"]
    offered = cycle(VALUES)

    for place in not_empty(kinds_of_places(body)):
        for new in (next(offered), next(offered)):
            (path / "chain.jsonl").write_bytes(chain)
            forger = Forger(path, plugins, of_text(NOW))
            if number == DECIDED:
                forger.shown.clear()  # so that its commitments stay as they are forged

            forger.links[number]["body"] = with_value(body, place, new)
            try:
                forger.rechain()
            except (KtdevalError, AttributeError, KeyError, TypeError):
                continue  # no such chain can be written

            assert_found(path, plugins, place, new)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("name", [*FILES, ".git/HEAD", "base/us/manifest.json"])
@pytest.mark.parametrize(
    "content",
    [None, b"", b"\xff\xfe", b"[" * 100_000, b"{}", b"null\n", b"\n" * 100, b'{"a":1,"a":1}'],
    ids=["missing", "empty", "no text", "deep", "object", "null", "lines", "twice"],
)
def test_file_that_is_no_such_file_is_a_finding_or_an_error(
    path: Path, name: str, content: bytes | None
) -> None:
    if content is None and name.startswith("cards/"):
        pytest.skip("a test may have no cards")

    (path / name).unlink()

    if content is not None:
        (path / name).write_bytes(content)

    assert main(["live", "verify", str(path)]) != 0


def test_huge_file_is_a_finding(path: Path, plugins: Plugins) -> None:
    with (path / f"records/one/us/{DAY}.json").open("r+b") as file:
        file.truncate(1 << 40)

    findings = verify_test(LiveFolder(path), plugins).findings

    assert [finding.rule for finding in findings] == ["file"]


def test_settings_of_a_repository_are_not_run(path: Path, tmp_path: Path, plugins: Plugins) -> None:
    mark = tmp_path / "was-run"
    command = f"touch {mark}"
    (path / ".git/config").write_text(
        f'[core]\nfsmonitor = "{command}"\nsshCommand = "{command}"\npager = "{command}"\n'
        f'[remote "origin"]\nurl = /nowhere\npromisor = true\nuploadpack = "{command};"\n'
        "[extensions]\npartialClone = origin\n[core]\nrepositoryformatversion = 1\n",
        "utf-8",
    )
    published = (path / "published.jsonl").read_text("utf-8").splitlines()
    commit = json.loads(published[-1])["commit"]
    (path / "published.jsonl").write_text(
        "".join(f"{line}\n" for line in published).replace(commit, "0" * 40), "utf-8"
    )
    findings = verify_test(LiveFolder(path), plugins).findings

    assert "published" in {finding.rule for finding in findings}
    assert not mark.exists()
