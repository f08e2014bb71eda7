"""What decides, by its bytes: two versions of one agent are two systems."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktdeval_command.code_identity import code_identity, imported_files, program_identity
from ktdeval_command.framework_agent import FrameworkAgent


def script(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def identity(*words: str) -> tuple[str, str] | None:
    found = program_identity(words)
    return None if found is None else (found.sha256, found.version)


def npm(folder: Path, version: str, code: str = "console.log(1)") -> str:
    """A program of npm: a link in `.bin` to a file of its package."""
    package = folder / "node_modules" / "@maker" / "agent"
    script(package / "bin" / "agent.js", f"#!/usr/bin/env node\n{code}\n")
    (package / "package.json").write_text(json.dumps({"name": "@maker/agent", "version": version}))
    link = folder / "node_modules" / ".bin" / "agent"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to("../@maker/agent/bin/agent.js")
    return str(link)


def test_npm_program_is_identified_by_its_linked_file_and_package_version(
    tmp_path: Path,
) -> None:
    one = identity(npm(tmp_path / "a", "2.1.197"))
    assert one is not None
    assert one[1] == "@maker/agent 2.1.197"
    assert identity(npm(tmp_path / "b", "2.1.197")) == one  # wherever it lies
    assert identity(npm(tmp_path / "c", "2.1.332")) != one  # a wrapper may be the same in both
    assert identity(npm(tmp_path / "d", "2.1.197", "console.log(2)")) != one


@pytest.mark.parametrize(
    "text",
    [
        '#!/bin/sh\nexec {target} "$@"\n',
        '#!/bin/bash\n# starts it\nexec "{target}" --flag "$@"\n',
        '#!/usr/bin/env bash\nD=$(dirname "$0")\nexec "$D/real/agent" "$@"\n',
        '#!/bin/sh\nexec "$(dirname "$0")/real/agent" "$@"\n',
    ],
)
def test_a_wrapper_script_is_followed_to_what_it_starts(tmp_path: Path, text: str) -> None:
    target = script(tmp_path / "real" / "agent", "\x7fELF one")
    wrapper = script(tmp_path / "wrapper", text.format(target=target))
    before = identity(wrapper)
    script(Path(target), "\x7fELF two")
    assert before is not None
    assert identity(wrapper) != before


def test_a_script_of_python_is_known_by_the_record_of_its_package(tmp_path: Path) -> None:
    program = script(tmp_path / "bin" / "aider", "#!/venv/bin/python\nfrom aider import main\n")
    record = tmp_path / "lib/python3.11/site-packages/aider_chat-0.9.1.dist-info/RECORD"
    script(record, "../../../bin/aider,sha256=x,10\naider/main.py,sha256=one,20\n")
    before = identity(program)
    assert before is not None
    assert before[1].startswith("aider_chat 0.9.1 ")

    record.write_text(record.read_text().replace("one", "two"))
    assert identity(program) != before


def test_an_interpreter_is_known_by_the_files_that_it_is_given(tmp_path: Path) -> None:
    assert identity("no-such-program") is None
    assert identity("python3", "agent.py") is None  # put into its folder, with a hash of its own

    agent = script(tmp_path / "agent.py", "import helper\n")
    script(tmp_path / "helper.py", "A = 1\n")
    before = identity("python3", agent)
    script(tmp_path / "helper.py", "A = 2\n")
    assert before is not None
    assert identity("python3", agent) != before


# ---- Python code


FILES = {
    "agent.py": "import tools\n\ndef act(desk):\n    from deep.inner import words\n",
    "tools.py": "import os, json, unrelated_package\nfrom deep import other\n",
    "deep/__init__.py": "",
    "deep/inner.py": "from . import sibling\nfrom .. import tools\n",
    "deep/sibling.py": "X = 1\n",
    "deep/other.py": "def broken(:\n",
    "not_imported.py": "X = 1\n",
    "notes.txt": "x",
}


def test_code_is_a_file_with_all_that_it_imports_from_its_own_folder(tmp_path: Path) -> None:
    for name, text in FILES.items():
        script(tmp_path / name, text)
    found = imported_files(tmp_path / "agent.py")
    assert sorted(found) == [
        "agent.py",
        "deep/__init__.py",
        "deep/inner.py",
        "deep/other.py",
        "deep/sibling.py",
        "tools.py",
    ]


def test_packages_of_others_are_not_its_own(tmp_path: Path) -> None:
    others = tmp_path / "site-packages"
    script(others / "numpy/__init__.py", "")
    script(others / "pack/__init__.py", "import numpy\n")
    script(others / "one_module.py", "import numpy\nimport pack\n")
    assert sorted(imported_files(others / "pack/__init__.py")) == ["pack/__init__.py"]
    assert sorted(imported_files(others / "one_module.py")) == ["one_module.py"]


def test_a_framework_agent_records_its_code() -> None:
    def act(desk: Any) -> None:
        """Do nothing."""

    @functools.wraps(act)
    def wrapped(desk: Any) -> None:
        return act(desk)

    class Acting:
        def __call__(self, desk: Any) -> None:
            """Do nothing."""

    same: list[Callable[..., Any]] = [act, wrapped, functools.partial(act), Acting()]
    own = code_identity(act)
    assert own is not None
    assert [code_identity(each) for each in same] == [own] * 4
    assert FrameworkAgent(act).traits.recorded_args == {"content": own}
    assert code_identity(print) is None
