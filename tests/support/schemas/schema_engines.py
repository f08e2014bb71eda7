"""Engines by which servers constrain what a model writes: each compiles a JSON Schema and judges
texts by it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar

import pytest

from support.paths import SUPPORT

Schema = Mapping[str, Any]
Judge = Callable[[str], bool]

AJV_FOLDER = SUPPORT / "schemas" / "ajv"
AJV = "ajv strict"
LLAMA_JUDGE = "KTDEVAL_LLAMA_JUDGE"


class Engine(ABC):
    """An engine that this machine may have."""

    name: ClassVar[str]
    how: ClassVar[str]  #: how to get it

    @abstractmethod
    def is_here(self) -> bool:
        """Whether it can be used."""

    @abstractmethod
    def compile(self, schema: Schema) -> Judge:
        """Return its judge of texts. Raises ValueError: it refuses the schema."""


def installed(engine: Engine) -> Engine:
    """Return the engine, or skip the test and say how to get it."""
    if not engine.is_here():
        pytest.skip(f"{engine.name} is not here: {engine.how}")

    return engine


class Guidance(Engine):
    """llguidance, in vLLM, SGLang, llama.cpp and OpenAI's servers."""

    name = "llguidance"
    how = "pip install llguidance"

    def is_here(self) -> bool:
        return importlib.util.find_spec("llguidance") is not None

    def compile(self, schema: Schema) -> Judge:
        from llguidance import LLMatcher, LLTokenizer

        tokens = LLTokenizer("byte")
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema))

        if problem := LLMatcher.validate_grammar(grammar, tokens):
            raise ValueError(problem)

        def judge(text: str) -> bool:
            matcher = LLMatcher(tokens, grammar)
            written = list(text.encode())
            return bool(
                matcher.try_consume_tokens(written) == len(written) and matcher.is_accepting()
            )

        return judge


class Outlines(Engine):
    """outlines-core, in vLLM, TGI and SGLang: a regular expression of the whole text, as an
    automaton of its bytes.
    """

    name = "outlines-core"
    how = "pip install outlines-core"

    def is_here(self) -> bool:
        return importlib.util.find_spec("outlines_core") is not None

    def compile(self, schema: Schema) -> Judge:
        from outlines_core import Guide, Index, Vocabulary
        from outlines_core.json_schema import build_regex_from_schema

        # The engine's own automaton, since Python's `re` goes back and forth for minutes on some
        # of these expressions.
        single_bytes: dict[str | bytes, list[int]] = {bytes([byte]): [byte] for byte in range(256)}
        end_of_text = 256
        index = Index(
            build_regex_from_schema(json.dumps(schema)), Vocabulary(end_of_text, single_bytes)
        )

        # Not `index.get_transitions()`: as dictionaries of Python they take gigabytes.
        def judge(text: str) -> bool:
            guide = Guide(index)
            tokens = list(text.encode())
            if not guide.accepts_tokens(tokens):
                return False

            for token in tokens:
                guide.advance(token, return_tokens=False)
            return guide.is_finished()

        return judge


class Grammar(Engine):
    """xgrammar, the default of vLLM, SGLang and TensorRT-LLM."""

    name = "xgrammar"
    how = "pip install xgrammar (it needs torch; `make test-qlib` has both)"

    def is_here(self) -> bool:
        return importlib.util.find_spec("xgrammar") is not None

    def compile(self, schema: Schema) -> Judge:
        import xgrammar
        from xgrammar.testing import _is_grammar_accept_string

        try:
            grammar = xgrammar.Grammar.from_json_schema(json.dumps(schema), strict_mode=True)
        except RuntimeError as error:
            raise ValueError(str(error)) from error

        return lambda text: bool(_is_grammar_accept_string(grammar, text))


class Llama(Engine):
    """llama.cpp's converter to a grammar, in llama-server, Ollama and LM Studio; `llama_judge.cpp`
    says how to build the judge.
    """

    name = "llama.cpp"
    how = f"build tests/support/schemas/llama_judge.cpp and set {LLAMA_JUDGE} to its path"

    def is_here(self) -> bool:
        return LLAMA_JUDGE in os.environ

    def compile(self, schema: Schema) -> Judge:
        process = _llama()
        answer = _answer_to(process, {"schema": schema})
        if answer != "ok":
            raise ValueError(answer)

        return lambda text: _answer_to(process, {"text": text}) == "true"


ENGINES: tuple[Engine, ...] = (Guidance(), Outlines(), Grammar(), Llama())


@cache
def _llama() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [os.environ[LLAMA_JUDGE]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _answer_to(process: subprocess.Popen[str], line: Any) -> str:
    assert process.stdin is not None
    assert process.stdout is not None

    process.stdin.write(json.dumps(line) + "\n")
    process.stdin.flush()

    return process.stdout.readline().strip()


def has_ajv() -> bool:
    """Whether ajv is installed: by `npm ci` in `tests/support/schemas/ajv`, or in a folder named by
    NODE_PATH.
    """
    if shutil.which("node") is None:
        return False

    found = subprocess.run(
        ["node", "-e", "require('ajv')"], cwd=AJV_FOLDER, capture_output=True, check=False
    )

    return found.returncode == 0


def ajv_refusals(schemas: Mapping[str, Schema]) -> dict[str, str]:
    """Return what ajv in its strict mode says of each schema that it refuses."""
    done = subprocess.run(
        ["node", "strict.cjs"],
        cwd=AJV_FOLDER,
        input=json.dumps(schemas),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))
