"""Make a grammar of each JSON Schema on stdin, by name, as llama-cpp-python's server does, and print
the names of those that llama.cpp can't read: such a request ends the server.

Run by the Python of the environment that `make test-llm` makes.
"""

from __future__ import annotations

import json
import sys

import llama_cpp
from llama_cpp.llama_grammar import json_schema_to_gbnf
from serve_model import model_file


def main() -> None:
    """Judge the schemas."""
    model = llama_cpp.Llama(str(model_file()), vocab_only=True, verbose=False)
    vocabulary = llama_cpp.llama_model_get_vocab(model.model)
    unread = []

    for name, schema in json.load(sys.stdin).items():
        grammar = json_schema_to_gbnf(json.dumps(schema)).encode()
        sampler = llama_cpp.llama_sampler_init_grammar(vocabulary, grammar, b"root")
        if not sampler:
            unread.append(name)
            continue

        llama_cpp.llama_sampler_free(sampler)

    print(json.dumps(unread))


if __name__ == "__main__":
    main()
