"""What a sandbox may show: an allow-list, refused where it holds a market, a run, a cache or a key."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ktdeval.values import dumps_pretty
from ktdeval_command.sandboxes.installed_program import installation_of
from ktdeval_command.sandboxes.shown_parts import (
    PrivateFiles,
    ShownError,
    SourcePart,
    check_copied,
    contents_of,
    named_parts,
    private_files,
    search_part,
)

NOTHING = PrivateFiles(())
KEY = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQ\n-----END PRIVATE KEY-----\n"


@pytest.fixture
def tool(tmp_path: Path) -> Path:
    """A folder that may be shown."""
    folder = tmp_path / "tool"
    (folder / "lib").mkdir(parents=True)
    (folder / "agent.py").write_text("print('hold')")
    return folder


def test_a_folder_is_shown_with_the_number_and_the_hash_of_its_files(tool: Path) -> None:
    before = search_part(SourcePart(tool, "folder"), NOTHING).shown
    (tool / "lib" / "more.py").write_text("x = 1")
    search_part.cache_clear()
    after = search_part(SourcePart(tool, "folder"), NOTHING).shown

    assert (before.kind, before.files, after.files) == ("folder", 1, 2)
    assert before.sha256 != after.sha256
    assert str(tool) not in str(after)  # a card has no path of the user


@pytest.mark.parametrize("where", ["agent.py", "lib/site-packages/prices/data.bin"])
def test_what_a_part_holds_is_hashed_by_content(tool: Path, where: str) -> None:
    """A file of zeros of the right size can't be replaced by prices later."""
    path = tool / where
    path.parent.mkdir(parents=True, exist_ok=True)
    part = SourcePart(tool, "folder")
    found = []
    for content in ("0" * 8, "12345678", "0" * 8):
        path.write_text(content)
        contents_of.cache_clear()
        search_part.cache_clear()
        found.append((search_part(part, NOTHING).shown.sha256, contents_of((part,))))

    sizes, contents = zip(*found, strict=True)
    assert len(set(sizes)) == 1
    assert contents[0] == contents[2] != contents[1]


def test_the_hash_of_contents_does_not_depend_on_the_place(tool: Path, tmp_path: Path) -> None:
    (tool / "lib" / "link").symlink_to("agent.py")
    copy = Path(shutil.copytree(tool, tmp_path / "elsewhere", symlinks=True))
    own, other = (contents_of((SourcePart(path, "folder"),)) for path in (tool, copy))

    assert own == other
    assert own != contents_of((SourcePart(tool / "lib", "folder"),))


def test_the_hash_of_contents_leaves_out_what_a_sandbox_hides(tool: Path) -> None:
    packages = tool / "lib" / "site-packages"
    packages.mkdir()
    before = contents_of((SourcePart(tool, "folder"),))
    (packages / "ktdeval").mkdir()
    (packages / "ktdeval" / "market.py").write_text("x = 1")
    contents_of.cache_clear()

    assert contents_of((SourcePart(tool, "folder"),)) == before


# ---- what is refused


def put_market(tool: Path, data: Path) -> None:
    shutil.copytree(data, tool / "lib" / "csi300")


def put_bars_alone(tool: Path, data: Path) -> None:
    (tool / "lib" / "site-packages").mkdir()
    shutil.copy(data / "bars.parquet", tool / "lib" / "site-packages")


def put_renamed_copy(tool: Path, data: Path) -> None:
    shutil.copy(data / "bars.parquet", tool / "lib" / "weights.bin")


def put_hard_link(tool: Path, data: Path) -> None:
    os.link(data / "bars.parquet", tool / "lib" / "weights.bin")


def put_manifest(tool: Path, data: Path) -> None:
    shutil.copy(data / "manifest.json", tool / "lib")


def put_run_manifest(tool: Path, _data: Path) -> None:
    run = {"version": 2, "rules": "strict", "episodes": [], "data": None}
    (tool / "lib" / "manifest.json").write_text(dumps_pretty(run))


def put_cache_entry(tool: Path, _data: Path) -> None:
    (tool / "lib" / "manifest.json").write_text('{"title": "returns", "sums": {}}')


def put(name: str, text: str = "x") -> Callable[[Path, Path], None]:
    def write(tool: Path, _data: Path) -> None:
        path = tool / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


def put_socket(tool: Path, _data: Path) -> None:
    here = Path.cwd()
    os.chdir(tool)  # an address is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("docker.sock")
    finally:
        os.chdir(here)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (put_market, "a copy of a file of the run's market"),
        (put_bars_alone, "the prices of a market"),
        (put_renamed_copy, "a copy of a file of the run's market"),
        (put_hard_link, "a link to a file of the run's market"),
        (put_manifest, "a copy of a file of the run's market"),
        (put_run_manifest, "a run"),
        (put_cache_entry, "a cache of ktdeval"),
        (put("run/episodes/ab/ledger.parquet"), "a run"),
        (put("run/calls.sqlite"), "a run"),
        (put("cache/replies.sqlite"), "a cache of replies"),
        (put("key.json", '{"id": "ab", "mask_key": "cd"}'), "a mask key"),
        (put("sign.key", KEY), "a private key"),
        (put(".env"), "a key"),
        (put("config.toml", "key = 'sk-proj-0a1b2c3d4e5f6a7b8c9d'"), r"an API key \(sk-…\)"),
        (put(".ssh/known_hosts"), "a key"),
        (put(".git/config"), "a repository"),
        (put_socket, "a socket, pipe or device"),
    ],
)
def test_a_folder_is_refused_that_holds(
    change: Callable[[Path, Path], None], what: str, tool: Path, own_market: Path
) -> None:
    change(tool, own_market)

    with pytest.raises(ShownError, match=rf"the program would be shown {what} \({tool}/.+\); move"):
        search_part(SourcePart(tool, "folder"), private_files((own_market,)))


def test_a_market_of_another_run_is_known_by_its_manifest(tool: Path, market: Path) -> None:
    shutil.copy(market / "manifest.json", tool)

    with pytest.raises(ShownError, match=r"would be shown a market \("):
        search_part(SourcePart(tool, "folder"), NOTHING)


@pytest.mark.parametrize("inside", [True, False])
def test_a_place_of_the_run_is_refused_whatever_lies_there(tool: Path, inside: bool) -> None:
    place = tool / "lib" if inside else tool.parent

    with pytest.raises(ShownError, match="what belongs to the run"):
        search_part(SourcePart(tool, "folder"), PrivateFiles((place,)))


def test_a_link_shows_nothing(tool: Path, market: Path) -> None:
    """It leads nowhere in a sandbox, where its target is not shown."""
    (tool / "lib" / "csi300").symlink_to(market)
    (tool / "lib" / "bars").symlink_to(market / "bars.parquet")

    assert search_part(SourcePart(tool, "folder"), private_files((market,))).shown.files == 3


@pytest.mark.parametrize("name", ["site-packages", "node_modules"])
def test_packages_may_have_keys_for_their_tests_and_files_of_any_name(
    name: str, tool: Path
) -> None:
    put(f"{name}/tornado/test/test.key", KEY)(tool, tool)
    put(f"{name}/bottleneck/.env")(tool, tool)
    put(f"{name}/@icons/fork.json", "{}")(tool, tool)
    put(f"{name}/web/manifest.json", '{"name": "app"}')(tool, tool)

    assert search_part(SourcePart(tool, "folder"), NOTHING).shown.files == 5


def test_ktdeval_packages_are_hidden_from_the_program(tool: Path) -> None:
    packages = tool / "lib" / "python3.12" / "site-packages"
    for name in ("ktdeval", "ktdeval_data", "numpy"):
        (packages / name).mkdir(parents=True)

    hidden = search_part(SourcePart(tool, "folder"), NOTHING).hidden
    assert set(hidden) == {packages / "ktdeval", packages / "ktdeval_data"}


# ---- folders that the user names


@pytest.mark.parametrize(
    "mark", ["pyproject.toml", ".git", "setup.py", "package.json", "requirements.txt", ".venv"]
)
def test_the_root_of_a_project_is_refused(mark: str, tool: Path) -> None:
    (tool / mark).mkdir()

    with pytest.raises(ShownError, match=rf"readable={tool}: is the root of a project \({mark}\)"):
        named_parts(tool)


def test_of_an_environment_only_its_parts_are_shown(tool: Path) -> None:
    (tool / "pyvenv.cfg").write_text("")
    (tool / "pyproject.toml").write_text("")

    assert [part.path for part in named_parts(tool)] == [tool / "lib", tool / "pyvenv.cfg"]


def test_an_environment_in_the_root_of_a_project_does_not_show_its_market(
    own_market: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editable install names the project in a .pth file, which shows nothing either."""
    project = own_market.parent
    (project / "pyvenv.cfg").write_text("")
    editable = project / "lib" / "python3.12" / "site-packages" / "project.pth"
    editable.parent.mkdir(parents=True)
    editable.write_text(f"{project}\n")
    agent = project / "bin" / "agent"
    agent.parent.mkdir()
    agent.write_text("#!/bin/sh\n")
    agent.chmod(0o755)
    monkeypatch.chdir(project)

    parts = installation_of("bin/agent").parts
    for part in parts:
        search_part(part, private_files((own_market,)))

    assert [part.path.name for part in parts] == ["bin", "lib", "pyvenv.cfg"]


def test_a_file_is_not_copied_that_is_the_market_s(tool: Path, own_market: Path) -> None:
    link = tool / "prices"
    link.symlink_to(own_market / "bars.parquet")

    check_copied(tool / "agent.py", private_files((own_market,)))
    with pytest.raises(ShownError, match=r"of the run's market.*leave it out of run="):
        check_copied(link, private_files((own_market,)))


# ---- files that a command line names


@pytest.mark.parametrize(("name", "text"), [(".env", ""), ("k.pem", KEY), ("ledger.parquet", "")])
def test_a_file_is_not_copied_that_is_a_key_or_of_a_run(name: str, text: str, tool: Path) -> None:
    (tool / name).write_text(text)

    with pytest.raises(ShownError, match="leave it out of run="):
        check_copied(tool / name, NOTHING)
