"""What is installed is named by its source, or is a package of somebody else's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ktdeval.values.installation import import_problem, install_command, requirement, source

METADATA = """Metadata-Version: 2.4
Name: ktdeval
Version: 9.9.9
Project-URL: Documentation, https://docs.example
Project-URL: Repository, https://code.example/ktdeval
Requires-Dist: numpy>=2.0
Provides-Extra: one
Requires-Dist: alpha[x]<3,>=2; extra == 'one'
Requires-Dist: beta; extra == "one"
Provides-Extra: oneself
Requires-Dist: gamma; extra == 'oneself'
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The metadata of an installation that comes before the one that runs."""
    folder = tmp_path / "ktdeval-9.9.9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(METADATA)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return folder


@pytest.mark.usefixtures("installed")
def test_an_unknown_extra_is_installed_from_sources() -> None:
    assert install_command("on") == "pip install '.[on]' # in a clone of ktdeval"


@pytest.mark.usefixtures("installed")
def test_the_source_is_the_repository_of_the_metadata() -> None:
    assert source() == "git+https://code.example/ktdeval"
    assert requirement() == "ktdeval @ git+https://code.example/ktdeval"
    assert requirement("a", "b") == "ktdeval[a,b] @ git+https://code.example/ktdeval"


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (
            {"url": "https://fork.example/k", "vcs_info": {"vcs": "git", "commit_id": "abc123"}},
            "git+https://fork.example/k@abc123",
        ),
        ({"url": "file:///home/me/k", "dir_info": {}}, "git+https://code.example/ktdeval"),
    ],
)
def test_an_installation_from_a_repository_is_repeated_from_its_commit(
    installed: Path, origin: dict[str, object], expected: str
) -> None:
    (installed / "direct_url.json").write_text(json.dumps(origin))
    assert source() == expected


def module_missing(name: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize(
    ("error", "package", "expected"),
    [
        (module_missing("ray"), "ray", "ray is not installed"),
        (module_missing("ray"), "", "ray is not installed"),
        (module_missing("a"), "a.b", "a.b is not installed"),
        (module_missing("a.b"), "a.b", "a.b is not installed"),
        (
            module_missing("msgpack"),
            "ray",
            "ray can't be imported (No module named 'msgpack')",
        ),
        (
            module_missing("ray.core"),
            "ray",
            "ray can't be imported (No module named 'ray.core')",
        ),
        (
            ImportError("cannot import name 'x'\n from 'mcp.server'", name="mcp.server"),
            "",
            "mcp can't be imported (cannot import name 'x' from 'mcp.server')",
        ),
        (
            ImportError("libc10.so: cannot open shared object file"),
            "",
            "a package can't be imported (libc10.so: cannot open shared object file)",
        ),
        (ImportError(), "torch", "torch can't be imported (ImportError)"),
    ],
)
def test_a_package_counts_as_missing_only_where_the_import_says_so(
    error: ImportError, package: str, expected: str
) -> None:
    assert import_problem(error, package) == expected
