"""Git calls, all made in the same safe way. Since a repository may come from a stranger, programs
named in its settings are not run. Neither its settings nor the caller's environment change what is
read or committed.

The repository's settings are read first, which runs nothing, and are rejected unless they are known
to be harmless. The user's settings, such as credential helpers, apply only to a push.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from ktdeval.errors import StoreError, os_advice
from ktdeval.values.disk.files import read_plain

_TIMEOUT_S = 120
_MAX_SAID = 1000  # characters of git's output, which repeats paths after the reason
_SHOWN_KEY = 100  # maximum characters of a setting's name

_OFF = {
    "core.attributesFile": os.devnull,
    "core.commitGraph": "false",
    "core.excludesFile": os.devnull,
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "diff.external": "",
    "diff.ignoreSubmodules": "all",
    "protocol.ext.allow": "never",
    "submodule.recurse": "false",
}
"""Settings that override the repository's and the user's."""
_AS_IT_IS = {
    **_OFF,
    "commit.gpgSign": "false",
    "core.autocrlf": "false",
    "core.fsync": "all",
    "gc.autoDetach": "false",
    "push.followTags": "false",
    "push.gpgSign": "false",
    "push.recurseSubmodules": "no",
}
"""The same, and settings with which a change is committed unmodified and alone, and survives a
power cut.
"""

_SURROUNDINGS = {
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_EDITOR": ":",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_LOCAL = {
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone would fetch missing objects
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
_NETWORK = {"GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
_OF_A_PUSH = frozenset({
    "GIT_ASKPASS", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM", "GIT_SSH",
    "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
})  # fmt: skip
"""Variables of the caller that say how to reach a remote; all others of git are dropped."""

_CORE = (
    "abbrev|autocrlf|bare|bigfilethreshold|commentchar|commitgraph|compression|eol|filemode|fsync"
    "|fsyncmethod|fsyncobjectfiles|ignorecase|logallrefupdates|longpaths|loosecompression"
    "|multipackindex|precomposeunicode|preloadindex|protecthfs|protectntfs|quotepath"
    "|repositoryformatversion|safecrlf|sharedrepository|symlinks|untrackedcache|whitespace"
)
_HARMLESS = re.compile(
    rf"core\.({_CORE}|attributesfile|editor|excludesfile|fsmonitor|hookspath|pager)"
    r"|(advice|alias|color|column|gui|init|pull|tag)\..*"
    r"|(author|committer|user)\.(name|email|useconfigonly)"
    r"|branch\..*\.(description|merge|pushremote|rebase|remote)"
    r"|commit\.(gpgsign|verbose)"
    r"|diff\.(algorithm|colormoved|external|ignoresubmodules|renames)"
    r"|extensions\.(noop|objectformat|refstorage|relativeworktrees|worktreeconfig)"
    r"|fetch\.(all|parallel|prune|prunetags)"
    r"|gc\.(auto|autodetach|autopacklimit|logexpiry|pruneexpire)"
    r"|lfs\..*"
    r"|push\.(autosetupremote|default|followtags|gpgsign|recursesubmodules)"
    r"|remote\..*\.(fetch|prune|push|pushurl|tagopt|url)",
    re.DOTALL,
)
"""Harmless settings: they run nothing, are in `_OFF`, or run programs that commands here never use,
such as an editor, a pager or an alias.
"""
_HARMLESS_OFFLINE = re.compile(
    r"(credential|diff|http|receive|remote|submodule|url)\..*"
    r"|core\.(askpass|gitproxy|sshcommand)|extensions\.partialclone",
    re.DOTALL,
)
"""Settings of a network, which commands that read never use, and of viewers, which they never start."""
_NO_VIEWER = ("--no-ext-diff", "--no-textconv")
_TRUSTED_SCOPES = (b"system", b"global", b"command")


class Git:
    """Git commands on one repository. `git_dir` is its `.git`, and `work_tree` contains its files.
    `folder` is where commands run; by default, this is the top of the work tree.
    """

    def __init__(self, git_dir: Path, work_tree: Path, folder: Path | None = None) -> None:
        self.git_dir = git_dir
        self._work_tree = work_tree
        self._folder = folder or work_tree

    def read(self, *arguments: str) -> bytes:
        """Return the output of a command that changes nothing and needs no network. Raises
        StoreError if the command fails or the settings are not harmless.
        """
        self._check_settings(_HARMLESS, _HARMLESS_OFFLINE)
        return self._out(arguments, self._run(arguments, _LOCAL))

    def answer(self, *arguments: str) -> bytes | None:
        """Do the same as `read`, but return None if the command fails. Raises StoreError if the
        settings are not harmless.
        """
        self._check_settings(_HARMLESS, _HARMLESS_OFFLINE)
        done = self._run(arguments, _LOCAL)
        return None if done.returncode else done.stdout

    def pipe(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command that changes nothing, with pipes for its input and output. Raises
        StoreError if git is not installed or the settings are not harmless.
        """
        self._check_settings(_HARMLESS, _HARMLESS_OFFLINE)
        try:
            return subprocess.Popen(  # noqa: S603 - git, without a shell
                _command(_OFF, arguments),
                cwd=self._folder,
                env=self._environment(_LOCAL),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            raise _not_started(self._folder, error) from error

    def init(self, branch: str) -> None:
        """Create the repository. Raises StoreError."""
        arguments = ("init", "--quiet", "--template=", f"--initial-branch={branch}")
        self._out(arguments, self._run(arguments, _LOCAL))

    def change(
        self, *arguments: str, extra: Mapping[str, str] | None = None, lock: int = -1
    ) -> str:
        """Change the repository without using the network, and return git's output. `extra`
        contains environment variables, and `lock` is a descriptor that git inherits. Raises
        StoreError as `read` does.
        """
        self._check_own()
        done = self._run(arguments, {**_LOCAL, **(extra or {})}, _AS_IT_IS, lock)
        return self._out(arguments, done).decode("utf-8", "surrogateescape")

    def push(self, remote: str, branch: str) -> None:
        """Push HEAD to a branch of a remote, which is given by address or name. Raises StoreError
        if the remote rejects the push, if it can't be reached, or if the settings are not harmless.
        """
        self._check_own()
        address = self._push_address(remote)
        self._check_local_remote(address)
        arguments = ("push", "--quiet", "--", address, f"HEAD:refs/heads/{branch}")
        self._out(arguments, self._run(arguments, _NETWORK, _AS_IT_IS))

    # ---- checks against planted settings

    def _check_own(self) -> None:
        """Raise StoreError if a change or push could run a program or affect anything outside this
        repository.
        """
        is_elsewhere = (self.git_dir / "commondir").exists()
        if self.git_dir.is_symlink() or self.git_dir.is_file() or is_elsewhere:
            raise StoreError(
                f"{self.git_dir}: points to a repository elsewhere; make it a real folder"
            )
        self._check_settings(_HARMLESS)

    def _check_settings(self, *harmless: re.Pattern[str]) -> None:
        """Raise StoreError if settings or attributes of the repository could run a program or alter
        what is read.
        """
        if os.path.lexists(self._common_dir() / "info" / "attributes"):
            raise StoreError(
                f"{self.git_dir}: info/attributes changes what git reads, and no commit shows it;"
                " delete the file, or put its lines into .gitattributes"
            )

        arguments = ("config", "--list", "--includes", "--show-scope", "--name-only", "-z")
        listed = self._out(arguments, self._run(arguments, _LOCAL)).split(b"\0")
        for scope, key in zip(listed[::2], listed[1::2], strict=False):
            name = key.decode("utf-8", "replace")
            is_known = any(known.fullmatch(name) for known in harmless)
            if scope not in _TRUSTED_SCOPES and not is_known:
                raise StoreError(
                    f"{self.git_dir}: its settings have {_shown_setting(name)}, which could run a "
                    "program or change what git reads; remove it from the file config there"
                )

    def _common_dir(self) -> Path:
        """Return the folder that linked work trees share."""
        link = self.git_dir / "commondir"
        if not link.exists():
            return self.git_dir
        return self.git_dir / os.fsdecode(read_plain(link).rstrip(b"\n"))

    def _push_address(self, remote: str) -> str:
        """Return the address of a remote that is named in the settings. Any other string is
        returned unchanged.
        """
        if re.fullmatch(r"[A-Za-z0-9_.-]+", remote) is None:
            return remote

        for key in (f"remote.{remote}.pushurl", f"remote.{remote}.url"):
            done = self._run(("config", "--local", "--get-all", key), _LOCAL)
            addresses = done.stdout.decode("utf-8", "surrogateescape").split("\n")[:-1]
            if len(addresses) > 1:
                raise StoreError(
                    f"{self._work_tree}: the remote {remote} has several addresses; give one"
                )
            if addresses:
                return addresses[0]
        return remote

    def _check_local_remote(self, address: str) -> None:
        """Raise StoreError if a remote on this machine may have come with the folder, since the
        remote's hooks would run.
        """
        path = local_path(address)
        if path is None:
            return

        is_inside = path.resolve().is_relative_to(self._work_tree.resolve())
        if is_inside or not path.is_absolute():
            raise StoreError(
                f"{self._work_tree}: the remote lies in this folder or is not an absolute path, so"
                " its hooks can't be trusted; give an absolute path outside of it"
            )

    # ---- processes

    def _out(self, arguments: Sequence[str], done: subprocess.CompletedProcess[bytes]) -> bytes:
        if done.returncode:
            text = " ".join(done.stderr.decode("utf-8", "replace").split())[-_MAX_SAID:]
            said = text or f"it ended with {done.returncode}"
            raise StoreError(f"{self._work_tree}: git {arguments[0]} failed: {said}")
        return done.stdout

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        # Set explicitly, since git would otherwise use an enclosing repository if the folder has
        # none.
        places = {"GIT_DIR": str(self.git_dir)}
        if self.git_dir.exists():  # otherwise `init` would record the work tree
            places["GIT_WORK_TREE"] = str(self._work_tree)
        kept = _OF_A_PUSH if more is _NETWORK else frozenset[str]()
        return {**_callers(kept), **_SURROUNDINGS, **places, **more}

    def _run(
        self,
        arguments: Sequence[str],
        more: Mapping[str, str],
        settings: Mapping[str, str] = _OFF,
        lock: int = -1,
    ) -> subprocess.CompletedProcess[bytes]:
        words = _command(settings, arguments)
        return _run_git(words, self._folder, self._environment(more), lock)


def git_around(folder: Path) -> Git | None:
    """Return the repository that contains a folder, with commands that run in the folder. Returns
    None if no repository contains it, or if git does not trust the repository. Raises StoreError if
    git can't be started.
    """
    words = _command(_OFF, ("rev-parse", "--absolute-git-dir", "--show-toplevel"))
    # The user's own settings say which repositories of other users are trusted (safe.directory).
    environment = {**_callers(_OF_A_PUSH), **_SURROUNDINGS}
    done = _run_git(words, folder, environment)
    lines = done.stdout.split(b"\n")
    if done.returncode or len(lines) != 3:
        return None
    return Git(Path(os.fsdecode(lines[0])), Path(os.fsdecode(lines[1])), folder)


def local_path(address: str) -> Path | None:
    """Return the path of a remote on this machine; None for a remote elsewhere."""
    if address.lower().startswith("file:"):
        return Path(re.sub(r"^file:/*", "/", address, flags=re.IGNORECASE))
    head, colon, _ = address.partition(":")
    is_elsewhere = bool(colon) and "/" not in head  # a URL, or HOST:PATH
    return None if is_elsewhere else Path(address)


def _run_git(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], lock: int = -1
) -> subprocess.CompletedProcess[bytes]:
    """Run git until it ends. Raises StoreError if git is not installed or takes too long."""
    try:
        process = subprocess.Popen(  # noqa: S603 - git, without a shell
            words,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=() if lock < 0 else (lock,),
            start_new_session=True,  # no terminal, so that ssh can't prompt
        )
    except OSError as error:
        raise _not_started(folder, error) from error

    try:
        out, said = process.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise StoreError(
            f"{folder}: git took longer than {_TIMEOUT_S} s; it is tried again"
        ) from error
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # including ssh, which git has started
            process.wait()

    return subprocess.CompletedProcess(words, process.returncode, out, said)


def _not_started(folder: Path, error: OSError) -> StoreError:
    advice = os_advice(error, "install git")
    return StoreError(f"{folder}: git can't be started ({error.strerror or error}); {advice}")


def _command(settings: Mapping[str, str], arguments: Sequence[str]) -> list[str]:
    words = ["git", "--no-pager"]
    for name, value in settings.items():
        words += ["-c", f"{name}={value}"]
    if arguments[0] == "diff":
        return [*words, "diff", *_NO_VIEWER, *arguments[1:]]
    return [*words, *arguments]


def _callers(kept: Collection[str]) -> dict[str, str]:
    """Return the caller's environment. Of git's own variables, it has only those in `kept`."""
    environment = {}
    for name, value in os.environ.items():
        if not name.startswith("GIT_") or name in kept:
            environment[name] = value
    return environment


def _shown_setting(key: str) -> str:
    """Return the name of a setting on one line, without any password in an address that it
    contains.
    """
    section, _, rest = key.partition(".")
    variable = rest.rpartition(".")[2]
    name = f"{section}.…{variable}" if "." in rest else f"{section}.{rest}"
    return f"{name[:_SHOWN_KEY]!r}"
