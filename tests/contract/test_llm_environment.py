"""How the server of the real language model is compiled, here and in the documentation."""

from __future__ import annotations

import re

import pytest

from support.llm.llm_environment import build_arguments
from support.paths import REPOSITORY

WITH_AMX = "flags\t\t: fpu sse4_2 avx f16c fma avx2 bmi2 avx512f amx_bf16 amx_tile amx_int8\n"
OLD = "flags\t\t: fpu sse4_2 avx\n"
ARM = "Features\t: fp asimd\n"
OFF_FROM_AVX2 = "-DGGML_AVX2=OFF -DGGML_FMA=OFF -DGGML_F16C=OFF -DGGML_BMI2=OFF"


@pytest.mark.parametrize(
    ("processor", "arguments"),
    [
        (
            WITH_AMX,
            "-DGGML_NATIVE=OFF -DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON"
            " -DGGML_F16C=ON -DGGML_BMI2=ON",
        ),
        (OLD, f"-DGGML_NATIVE=OFF -DGGML_SSE42=ON -DGGML_AVX=ON {OFF_FROM_AVX2}"),
        (ARM, "-DGGML_NATIVE=OFF"),
        ("", "-DGGML_NATIVE=OFF"),
    ],
    ids=["with amx", "old", "arm", "unknown"],
)
def test_llama_cpp_is_compiled_with_safe_instructions_that_the_processor_has(
    processor: str, arguments: str
) -> None:
    assert build_arguments(processor) == arguments


def test_the_first_recipe_of_the_documentation_compiles_no_amx() -> None:
    page = (REPOSITORY / "docs/models.md").read_text("utf-8")
    commands = re.findall(r"^(?:.*\\\n)?.*pip install 'llama-cpp-python.*$", page, re.MULTILINE)
    assert commands
    assert all("-DGGML_NATIVE=OFF -DGGML_AVX2=ON" in command for command in commands)
