"""What is installed is named by its source, or is a package of somebody else's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ktdeval.values.installation import install_command, requirement, source

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
