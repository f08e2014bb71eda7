// Judges texts by llama.cpp's own converter of JSON Schemas and its own reader of grammars, without a model.
//
// Build (5 files of llama.cpp and no backend; L is `vendor/llama.cpp` of the sdist of llama-cpp-python 0.3.36, which
// `pip download --no-deps --no-binary :all: --only-binary scikit-build-core,cmake,ninja,flit-core llama-cpp-python` gets):
//
//   g++ -std=c++17 -O1 -I$L/src -I$L/common -I$L/include -I$L/ggml/include -I$L/vendor -o llama_judge llama_judge.cpp
//       $L/src/{llama-grammar,unicode,unicode-data}.cpp $L/common/{json-schema-to-grammar,json-schema,json,trie,unicode}.cpp
//
// Then: KTDEVAL_LLAMA_JUDGE=$PWD/llama_judge make test-schemas
//
// Lines in: {"schema": …}, then {"text": "…"} for each text. Lines out: `ok` or `error: …`; `true` or `false`.

#include "json-schema-to-grammar.h"
#include "llama-grammar.h"
#include "llama-impl.h"
#include "llama-vocab.h"
#include "unicode.h"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

// --- what the files above need of the rest of llama.cpp; the vocabulary is never asked

std::string string_join(const std::vector<std::string> & parts, const std::string & separator) {
    std::string joined;
    for (size_t index = 0; index < parts.size(); index++) {
        joined += (index ? separator : "") + parts[index];
    }
    return joined;
}

std::string string_repeat(const std::string & text, size_t times) {
    std::string repeated;
    while (times--) {
        repeated += text;
    }
    return repeated;
}

std::vector<std::string> string_split(const std::string & text, const std::string & delimiter) {
    std::vector<std::string> parts;
    size_t start = 0;
    for (size_t end = text.find(delimiter); end != std::string::npos; end = text.find(delimiter, start)) {
        parts.push_back(text.substr(start, end - start));
        start = end + delimiter.length();
    }
    parts.push_back(text.substr(start));
    return parts;
}

void ggml_abort(const char *, int, const char *, ...) { abort(); }
void llama_log_internal(enum ggml_log_level, const char *, ...) {}
bool llama_vocab::is_eog(llama_token) const { return false; }

const std::string & llama_vocab::token_to_piece(llama_token) const {
    static std::string none;
    return none;
}

int32_t llama_vocab::tokenize(const char *, int32_t, llama_token *, int32_t, bool, bool) const { return 0; }

// --- the judge

static llama_grammar * grammar_of(const std::string & schema) {
    std::string rules = json_schema_to_grammar(common_json::parse(schema), true);
    return llama_grammar_init_impl(nullptr, rules.c_str(), "root", false, nullptr, 0, nullptr, 0);
}

static bool is_admitted(const llama_grammar & grammar, const std::string & text) {
    llama_grammar * reader = llama_grammar_clone_impl(grammar);
    bool is_alive = true;
    for (uint32_t sign : unicode_cpts_from_utf8(text)) {
        llama_grammar_accept(reader, sign);
        if (llama_grammar_get_stacks(reader).empty()) {
            is_alive = false;
            break;
        }
    }

    bool is_whole = false;
    if (is_alive) {
        for (const auto & stack : llama_grammar_get_stacks(reader)) {
            is_whole = is_whole || stack.empty();
        }
    }
    llama_grammar_free_impl(reader);
    return is_whole;
}

int main() {
    llama_grammar * grammar = nullptr;
    std::string line;
    while (std::getline(std::cin, line)) {
        try {
            auto asked = nlohmann::ordered_json::parse(line);
            if (asked.contains("schema")) {
                grammar = grammar_of(asked["schema"].dump());
                std::cout << (grammar ? "ok" : "error: the grammar can't be read") << std::endl;
            } else {
                std::cout << (is_admitted(*grammar, asked["text"].get<std::string>()) ? "true" : "false") << std::endl;
            }
        } catch (const std::exception & error) {
            std::string message = error.what();
            std::cout << "error: " << message.substr(0, message.find('\n')) << std::endl;
        }
    }
}
