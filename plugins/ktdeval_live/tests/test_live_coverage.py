"""Each byte of a test's folder is covered, or named as not covered: every file is changed in turn."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ktdeval.registry import Plugins
from ktdeval_live.checks.verification import LiveVerification, verify_test
from ktdeval_live.days.clock import of_text
from ktdeval_live.deciding.past_replay import SetClock
from ktdeval_live.record.folder import LiveFolder
from live_day import DECIDED_ON, FILLED_ON, kept_day
from support.live.live_week import AFTER, BEFORE
from support.live.time_authority import authority

pytestmark = pytest.mark.slow

pytest.importorskip("rfc3161_client", reason="needs the extra live")
if shutil.which("openssl") is None:
    pytest.skip("needs openssl for an authority", allow_module_level=True)

RECORD = f"records/momentum/us/{DECIDED_ON}.json"
CARD = "cards/momentum-us.json"
STAMP = "stamps/000000.tsr"
LINES = ("chain.jsonl", "published.jsonl")
FILES = (
    ".gitignore",
    "plan.json",
    "schedules/us.json",
    "base/us/manifest.json",
    "base/us/assets.parquet",
    "base/us/bars.parquet",
    "base/us/documents.parquet",
    "base/us/entities.parquet",
    "base/us/indices.parquet",
    f"data/us/{DECIDED_ON}-0.json",
    f"data/us/{FILLED_ON}-0.json",
    RECORD,
    STAMP,
    CARD,
    *LINES,
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, plugins: Plugins) -> Path:
    folder = tmp_path_factory.mktemp("coverage")
    clock = SetClock(of_text(BEFORE))
    with authority(folder / "authority", lambda: clock.time) as running:
        kept_day(folder / "day", plugins, clock, running)

    return folder / "day"


@pytest.fixture
def copy(kept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(kept, tmp_path / "copy"))


def verified(path: Path, plugins: Plugins) -> LiveVerification:
    result = verify_test(LiveFolder(path), plugins, of_text(AFTER))
    for finding in result.findings:
        print(finding)

    return result


def rules(path: Path, plugins: Plugins) -> set[str]:
    return {finding.rule for finding in verified(path, plugins).findings}


# --- what is there, and what is named


@pytest.mark.exhaustive
def test_changes_below_are_of_each_kind_of_file(kept: Path) -> None:
    kinds = set()
    for path in kept.rglob("*"):
        name = path.relative_to(kept).as_posix()
        if path.is_file() and not name.startswith((".git/", "private/", "stamps/")):
            kinds.add(name)

    assert kinds == set(FILES) - {STAMP}
    assert (kept / STAMP).is_file()


@pytest.mark.exhaustive
def test_what_is_not_covered_is_named_with_its_reason(copy: Path, plugins: Plugins) -> None:
    (copy / "README.md").write_text("mine", "utf-8")
    (copy / ".github").mkdir()
    result = verified(copy, plugins)

    assert result.findings == ()
    assert {one.name: bool(one.reason) for one in result.uncovered} == {
        ".git/": True,
        ".github/": True,
        "README.md": True,
        "cards/": True,
        "private/": True,
    }


# --- every file, changed in turn


def flip(place: float) -> Callable[[Path], None]:
    """Change one byte of a file, so that text stays text."""

    def change(path: Path) -> None:
        data = bytearray(path.read_bytes())
        at = min(int(place * len(data)), len(data) - 1)
        data[at] = ord("0") if data[at] != ord("0") else ord("1")
        path.write_bytes(data)

    return change


def append(text: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_bytes(path.read_bytes() + text)

    return change


CHANGES: dict[str, Callable[[Path], None]] = {
    "first byte": flip(0.0),
    "a byte of the first third": flip(0.3),
    "a byte of the middle": flip(0.5),
    "a byte of the last third": flip(0.8),
    "last byte": flip(1.0),
    "a line appended": append(b"\n"),
    "removed": Path.unlink,
}


@dataclass(frozen=True)
class Case:
    file: str
    change: str


def cases() -> Iterator[Case]:
    for file in FILES:
        for change in CHANGES:
            if (file, change) != (CARD, "removed"):  # named: it can be made again
                yield Case(file, change)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: f"{case.file}: {case.change}")
def test_change_of_any_file_is_found(copy: Path, plugins: Plugins, case: Case) -> None:
    CHANGES[case.change](copy / case.file)
    assert verified_or_unreadable(copy, plugins)


def verified_or_unreadable(path: Path, plugins: Plugins) -> bool:
    """Whether a change is found; a folder without its plan is no test at all."""
    if not (path / "plan.json").is_file():
        return True

    return bool(verified(path, plugins).findings)


@pytest.mark.parametrize("name", LINES)
def test_end_without_a_line_break_is_named(copy: Path, plugins: Plugins, name: str) -> None:
    append(b'{"at":')(copy / name)
    result = verified(copy, plugins)
    assert result.findings == ()
    assert name in {one.name for one in result.uncovered}


# --- what was missed before


def test_label_of_the_market_before_the_test_is_covered(copy: Path, plugins: Plugins) -> None:
    replace(copy / "base/us/manifest.json", '"source": "', '"source": "real prices of ')
    assert rules(copy, plugins) == {"base"}


def test_day_checksums_of_the_market_before_the_test_are_covered(
    copy: Path, plugins: Plugins
) -> None:
    replace(copy / "base/us/manifest.json", '"bars.parquet: close": "', '"bars.parquet: close": "0')
    assert rules(copy, plugins) == {"base"}


@pytest.mark.parametrize("text", [b" ", b"\n"])
def test_blank_after_a_record_is_found(copy: Path, plugins: Plugins, text: bytes) -> None:
    append(text)(copy / RECORD)
    assert rules(copy, plugins) == {"record"}


@pytest.mark.parametrize("number", [0, 1, -1], ids=["first", "middle", "last"])
def test_publication_that_is_left_out_is_found(copy: Path, plugins: Plugins, number: int) -> None:
    path = copy / "published.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)

    assert len(lines) > 2

    del lines[number]
    path.write_bytes(b"".join(lines))

    assert rules(copy, plugins) >= {"published"}


def test_publication_that_was_left_out_in_a_later_commit_is_found(
    copy: Path, plugins: Plugins
) -> None:
    path = copy / "published.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    who = ["-c", "user.name=m", "-c", "user.email=m@ktdeval.invalid"]

    for words in (["add", "--all"], [*who, "commit", "--quiet", "--message", "Publish"]):
        subprocess.run(["git", *words], cwd=copy, check=True)

    assert rules(copy, plugins) >= {"published"}


def test_part_of_a_stamp_that_its_signature_leaves_out_is_covered(
    copy: Path, plugins: Plugins
) -> None:
    append(b"\0")(copy / STAMP)
    assert rules(copy, plugins) == {"published"}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "folder", ["schedules", "base/us", "data/us", "records", "stamps", "cards"]
)
@pytest.mark.parametrize("name", ["x.json", ".x"])
def test_unknown_file_in_a_folder_of_the_record_is_found(
    copy: Path, plugins: Plugins, folder: str, name: str
) -> None:
    (copy / folder / name).write_text("{}", "utf-8")
    assert verified(copy, plugins).findings


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")
