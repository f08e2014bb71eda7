"""Git on the repository of a stranger: each attack makes a file where plain git is run, and none where
ktdeval runs it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ktdeval.errors import StoreError
from ktdeval.stores import Git, git_around

PLAIN = {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
}  # fmt: skip
WHO = {name: value for name, value in PLAIN.items() if "CONFIG" not in name}


class Trap:
    """A repository of a stranger, with a program that leaves a mark wherever it is started."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "repository"
        self.remote = str(folder / "remote.git")
        self.mark = folder / "mark"
        self.environment: dict[str, str] = {}
        self.program = folder / "program"
        self.program.write_text(f"#!/bin/sh\ntouch {self.mark}\nexit 1\n", "utf-8")
        self.program.chmod(0o755)
        self.path.mkdir()
        plain(self.path, "init", "--quiet", "--bare", self.remote)
        plain(self.path, "init", "--quiet", "--initial-branch=main")
        self.write("one", "1\n")
        plain(self.path, "add", "--all")
        plain(self.path, "commit", "--quiet", "--message=one")
        self.write("one", "11\n")
        self.write("two", "2\n")

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def settings(self, text: str, name: str = ".git/config") -> None:
        path = self.path / name
        before = path.read_text("utf-8") if path.exists() else ""
        path.write_text(f"{before}\n{text.format(program=self.program)}\n", "utf-8")

    def hook(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(self.program)


def plain(folder: Path, *words: str, check: bool = True, **more: str) -> None:
    """Run git as anybody does."""
    environment = {n: v for n, v in os.environ.items() if not n.startswith("GIT_")}
    subprocess.run(
        ["git", *words],
        cwd=folder,
        env={**environment, **PLAIN, **more},
        check=check,
        capture_output=True,
        timeout=60,
    )


ATTACKS: dict[str, Callable[[Trap], None]] = {}


def attack(make: Callable[[Trap], None]) -> Callable[[Trap], None]:
    ATTACKS[make.__name__] = make
    return make


@attack
def monitor(trap: Trap) -> None:
    trap.settings("[core]\nfsmonitor = {program}")


@attack
def monitor_in_an_included_file(trap: Trap) -> None:
    trap.settings("[core]\nfsmonitor = {program}", "included")
    trap.settings("[include]\npath = ../included")


@attack
def monitor_in_a_file_included_on_a_condition(trap: Trap) -> None:
    trap.settings("[core]\nfsmonitor = {program}", "included")
    trap.settings('[includeIf "onbranch:**"]\npath = ../included')


@attack
def monitor_of_the_work_tree(trap: Trap) -> None:
    trap.settings("[extensions]\nworktreeConfig = true")
    trap.settings("[core]\nfsmonitor = {program}", ".git/config.worktree")


@attack
def monitor_of_a_submodule(trap: Trap) -> None:
    inner = trap.path / "inner"
    inner.mkdir()
    plain(inner, "init", "--quiet")
    plain(inner, "commit", "--quiet", "--allow-empty", "--message=inner")
    plain(trap.path, "add", "inner")
    trap.write(".gitmodules", '[submodule "inner"]\npath = inner\nurl = ./inner\nignore = none\n')
    trap.settings("[core]\nfsmonitor = {program}", "inner/.git/config")


@attack
def monitor_of_a_repository_elsewhere(trap: Trap) -> None:
    elsewhere = trap.path.parent / "elsewhere"
    (trap.path / ".git").rename(elsewhere)
    trap.settings("[core]\nfsmonitor = {program}", str(elsewhere / "config"))
    trap.write(".git", f"gitdir: {elsewhere}\n")


@attack
def hooks_of_the_repository(trap: Trap) -> None:
    for name in ("pre-commit", "pre-push", "post-index-change", "reference-transaction"):
        trap.hook(trap.path / ".git" / "hooks" / name)


@attack
def folder_of_hooks(trap: Trap) -> None:
    trap.hook(trap.path / "hooks" / "pre-commit")
    trap.settings("[core]\nhooksPath = hooks")


@attack
def hook_of_a_collection(trap: Trap) -> None:
    trap.hook(trap.path / ".git" / "hooks" / "pre-auto-gc")
    trap.settings("[gc]\nauto = 1")
    for number in (263, 410, 523, 790):  # their hashes begin with 17, where git counts
        trap.write(f"many/{number}", f"{number}\n")


@attack
def filter_of_contents(trap: Trap) -> None:
    trap.settings('[filter "x"]\nclean = {program}')
    trap.write(".gitattributes", "* filter=x\n")


@attack
def filter_that_runs_on(trap: Trap) -> None:
    trap.settings('[filter "x"]\nprocess = {program}')
    trap.write(".gitattributes", "* filter=x\n")


@attack
def filter_by_attributes_of_no_commit(trap: Trap) -> None:
    trap.settings('[filter "x"]\nclean = {program}')
    trap.write(".git/info/attributes", "* filter=x\n")


@attack
def viewer_of_contents(trap: Trap) -> None:
    trap.settings('[diff "x"]\ntextconv = {program}')
    trap.write(".gitattributes", "* diff=x\n")


@attack
def viewer_of_differences(trap: Trap) -> None:
    trap.settings("[diff]\nexternal = {program}")


@attack
def viewer_of_differences_by_attribute(trap: Trap) -> None:
    trap.settings('[diff "x"]\ncommand = {program}')
    trap.write(".gitattributes", "* diff=x\n")


@attack
def signer(trap: Trap) -> None:
    trap.settings("[commit]\ngpgSign = true\n[gpg]\nprogram = {program}")


@attack
def shell_to_the_remote(trap: Trap) -> None:
    trap.settings("[core]\nsshCommand = {program}")
    trap.remote = "git@localhost:x.git"


@attack
def proxy_to_the_remote(trap: Trap) -> None:
    trap.settings("[core]\ngitProxy = {program}")
    trap.remote = "git://localhost/x.git"


@attack
def receiver_of_a_remote(trap: Trap) -> None:
    trap.settings(f'[remote "origin"]\nurl = {trap.remote}\nreceivepack = {{program}}')
    trap.remote = "origin"


@attack
def program_as_a_remote(trap: Trap) -> None:
    trap.settings('[protocol "ext"]\nallow = always\n[remote "origin"]\nurl = ext::{program} %S')
    trap.remote = "origin"


@attack
def program_for_an_address(trap: Trap) -> None:
    trap.settings('[protocol]\nallow = always\n[url "ext::{program} "]\ninsteadOf = https://')
    trap.remote = "https://localhost/x.git"


@attack
def hooks_of_a_remote_in_the_folder(trap: Trap) -> None:
    plain(trap.path, "init", "--quiet", "--bare", "inside.git")
    trap.hook(trap.path / "inside.git" / "hooks" / "pre-receive")
    trap.remote = "inside.git"


@attack
def hooks_of_a_remote_in_the_folder_by_a_url(trap: Trap) -> None:
    hooks_of_a_remote_in_the_folder(trap)
    trap.remote = f"file://{trap.path}/inside.git"


@attack
def variables_of_the_caller(trap: Trap) -> None:
    trap.environment = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(trap.program),
        "GIT_EXTERNAL_DIFF": str(trap.program),
    }


@pytest.fixture
def trap(tmp_path: Path, request: pytest.FixtureRequest) -> Trap:
    made = Trap(tmp_path)
    ATTACKS[request.param](made)
    made.mark.unlink(missing_ok=True)
    return made


every = pytest.mark.parametrize("trap", ATTACKS, indirect=True)


@every
def test_plain_git_runs_the_program(trap: Trap) -> None:
    for words in (
        ("status",),
        ("diff", "HEAD"),
        ("add", "--all"),
        ("commit", "--quiet", "--message=two"),
        ("commit", "--quiet", "--no-verify", "--no-gpg-sign", "--message=two"),
        ("show", "HEAD:one"),
        ("push", "--quiet", trap.remote, "HEAD:refs/heads/main"),
    ):
        plain(trap.path, *words, check=False, **trap.environment)

    assert trap.mark.exists()


def uses(git: Git, remote: str) -> Iterator[Callable[[], object]]:
    """Yield each command that ktdeval gives to git."""
    yield lambda: git.change("status", "--porcelain", "--ignore-submodules=all", "--", ".")
    yield lambda: git.change("add", "--all", "--", ".")
    yield lambda: git.change("commit", "--quiet", "--message=two", extra=WHO)
    yield lambda: git.change("commit", "--quiet", "--message=two", extra=WHO)
    yield lambda: git.push(remote, "main")
    yield lambda: git.read("rev-list", "HEAD", "--")
    yield lambda: git.read("cat-file", "blob", "HEAD:one")
    yield lambda: git.read("diff", "--raw", "--no-ext-diff", "--no-textconv", "HEAD", "--", ".")
    yield lambda: git.read("ls-files", "--others", "--exclude-standard", "--", ".")
    yield lambda: git.pipe("cat-file", "--batch").communicate(b"HEAD:one\n")


@pytest.mark.sampled(12)
@pytest.mark.slow
@every
def test_ktdeval_runs_nothing(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in trap.environment.items():
        monkeypatch.setenv(name, value)

    repositories = [Git(trap.path / ".git", trap.path), git_around(trap.path)]
    for git in repositories:
        assert git is not None
        for use in uses(git, trap.remote):
            with suppress(StoreError):
                use()

    assert not trap.mark.exists()


REFUSED = {
    "monitor_in_an_included_file": "'include.path'",
    "monitor_of_a_repository_elsewhere": "points to a repository elsewhere",
    "filter_of_contents": "'filter.…clean'",
    "filter_by_attributes_of_no_commit": "info/attributes changes what git reads",
    "program_for_an_address": "'protocol.allow'",
    "shell_to_the_remote": "'core.sshcommand'",
    "receiver_of_a_remote": "'remote.…receivepack'",
    "hooks_of_a_remote_in_the_folder": "is not an absolute path",
}


@pytest.mark.parametrize(("trap", "words"), REFUSED.items(), ids=REFUSED, indirect=["trap"])
def test_a_refusal_names_what_is_to_be_removed(trap: Trap, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        Git(trap.path / ".git", trap.path).push(trap.remote, "main")


def test_files_of_a_work_tree_elsewhere_are_not_committed(tmp_path: Path) -> None:
    trap = Trap(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "secret").write_text("1", "utf-8")
    trap.settings(f"[core]\nworktree = {tmp_path / 'home'}")
    git = Git(trap.path / ".git", trap.path)

    with pytest.raises(StoreError, match=r"core\.worktree"):
        git.change("add", "--all", "--", ".")

    plain(trap.path, "config", "--unset", "core.worktree")

    assert b"secret" not in git.read("ls-files")


def test_usual_settings_are_no_obstacle(tmp_path: Path) -> None:
    trap = Trap(tmp_path)
    plain(trap.path, "remote", "add", "origin", trap.remote)
    plain(trap.path, "config", "branch.main.remote", "origin")
    plain(trap.path, "config", "user.name", "somebody")
    git = Git(trap.path / ".git", trap.path)
    git.change("add", "--all", "--", ".")
    git.change("commit", "--quiet", "--message=two", extra=WHO)
    git.push("origin", "main")
    pushed = Git(Path(trap.remote), Path(trap.remote))

    assert pushed.read("cat-file", "blob", "main:two") == b"2\n"


def test_a_refusal_shows_no_password_of_an_address(tmp_path: Path) -> None:
    trap = Trap(tmp_path)
    trap.settings('[http "https://me:secret@example.org"]\nproxy = x')
    with pytest.raises(StoreError, match=r"http\.…proxy") as caught:
        Git(trap.path / ".git", trap.path).push(trap.remote, "main")

    assert "secret" not in str(caught.value)


def test_an_option_is_no_remote(tmp_path: Path) -> None:
    trap = Trap(tmp_path)
    with pytest.raises(StoreError, match="is not an absolute path"):
        Git(trap.path / ".git", trap.path).push(f"--receive-pack={trap.program}", "main")

    with pytest.raises(StoreError, match="git push failed"):
        Git(trap.path / ".git", trap.path).push("--receive-pack=x:y", "main")
