"""Boards in git repositories, without anyone's settings."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_NOBODY = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")


def git(folder: Path, *words: str) -> str:
    """Run git; what it prints."""
    alone = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    command = ("git", "-C", str(folder), *_NOBODY, *words)
    return subprocess.run(command, env=alone, capture_output=True, text=True, check=True).stdout


def commit(folder: Path) -> None:
    """Commit the whole work tree."""
    git(folder, "add", "--all", "--force")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "change")


def propose(folder: Path) -> None:
    """Put a folder into a repository, on a branch beside `main`."""
    git(folder, "init", "--quiet", "--initial-branch", "main")
    commit(folder)
    git(folder, "checkout", "--quiet", "-b", "proposal")
