"""Parsers of what a person's page sends, and of what it shows of a tool's result."""

from __future__ import annotations

import json

from support.fuzzing.fuzz_kit import Parser, text_of


def people_parsers() -> dict[str, Parser]:
    """Return the readers of a page's message, of a form's text, and of a tool's result."""
    from ktdeval.harness import Message, ModelRequest, ToolSpec
    from ktdeval_human.forms import FormError, form_of
    from ktdeval_human.moments import RefusedInput, act_of, read_message
    from ktdeval_human.shown import in_lines, show_request

    submit = ToolSpec("submit", "Submits.", _SCHEMA)
    request = ModelRequest((Message("user", "?"),), tools=(submit,), submit_tool="submit", step=0)
    moment = show_request(request)
    form = form_of(_SCHEMA)

    def read_texts(data: bytes) -> object:
        text = text_of(data)
        return [field.read(text) for field in form.fields]

    sent = {
        "tool": "submit",
        "fields": {"n": "5 %", "weights": "a=1, b=2", "any": "[1]"},
        "rows": {"orders": [{"id": "a", "shares": "100"}]},
    }
    modules = ("moments.py", "forms.py", "shown.py")
    paths = tuple(f"ktdeval_human/{name}" for name in modules)
    return {
        "person's page": Parser(
            lambda data: act_of(read_message(data), moment),
            (json.dumps(sent).encode(), b'{"text": "words"}'),
            paths,
            (RefusedInput,),
        ),
        "person's form": Parser(read_texts, (b"1e400", b"a=b=c", b"{"), paths, (FormError,)),
        "person's result": Parser(
            lambda data: in_lines(text_of(data)),
            (b'{"columns":["day","close"],"rows":[["a",1],["b"]]}', b'[{"a":1},{"b":[{}]}]'),
            paths,
        ),
    }


_NUMBER = {"type": "number", "maximum": 1}
_ORDER = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "shares": {"type": "integer"}},
    "required": ["id"],
}
_SCHEMA = {
    "type": "object",
    "properties": {
        "orders": {"type": "array", "items": {"anyOf": [_ORDER]}},
        "n": _NUMBER,
        "weights": {"type": "object", "additionalProperties": _NUMBER},
        "flag": {"type": "boolean"},
        "side": {"type": "string", "enum": ["BUY", "SELL"]},
        "any": {},
    },
}
