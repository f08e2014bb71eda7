"""Identities in what a program sends: none reaches the model, or a record of what it was sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktdeval.market.snapshots.storage import load_snapshot
from support.accept.accept_leaks import Scanner
from support.runs.outside_programs import Place, provider, said

pytestmark = pytest.mark.slow  # each test is a whole run

#: codings of a text as a whole (percent signs, base64) are a limit of the mask that docs/masks.md names
FORMS = {
    "code": "{code}",
    "six digits": "{digits}",
    "code in words": "the share {code}, of which I think well",
    "prefix": "SH{digits}",
    "wide digits": "{wide}",
    "spelled with spaces": "{spaced}",
    "spelled with hyphens": "{hyphens}",
    "html": "{html}",
    "unicode escapes": "{escaped}",
    "name": "{name}",
    "name in capitals": "{capitals}",
    "name with zero-width spaces": "{zero_width}",
    "date": "2024-03-01",
    "date without hyphens": "20240301",
    "date in words": "March 1, 2024",
    "date in Chinese": "2024年3月1日",
    "file name": "/home/me/{code}/2024-03-01.csv",
    "json in text": '{{"stock": "{code}", "day": "2024-03-01"}}',
    "month": "in March 2024",
}
BODY = """
import threading
forms = json.load(open("forms.json"))
def message(role, content, **more):
    return {"role": role, "content": content, **more}
def offered(name="look", description="Look.", parameters={"type": "object", "properties": {}}):
    return [{"type": "function", "function": {
        "name": name, "description": description, "parameters": parameters}}]
def send(messages, **more):
    return post(BRIDGE + "/v1/chat/completions", {"model": "m", "messages": messages, **more}, KEY)
user = message("user", "Go on.")
def called(arguments="{}", name="look", id="c1"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
for form in forms:
"""
PLACES = {
    "system prompt": 'send([message("system", form), user])',
    "developer prompt": 'send([message("developer", form), user])',
    "user message": 'send([message("user", form)])',
    "part of a message": 'send([message("user", [{"type": "text", "text": form}])])',
    "assistant's own words": 'send([user, message("assistant", form), user])',
    "tool result": (
        'send([user, message("assistant", None, tool_calls=[called()]),'
        ' message("tool", form, tool_call_id="c1")], tools=offered())'
    ),
    "call's arguments": (
        'send([user, message("assistant", None, tool_calls=[called(json.dumps({"a": form}))]),'
        ' message("tool", "ok", tool_call_id="c1")], tools=offered())'
    ),
    "call's name": (
        'send([user, message("assistant", None, tool_calls=[called(name=form)]),'
        ' message("tool", "ok", tool_call_id="c1")], tools=offered())'
    ),
    "call's id": (
        'send([user, message("assistant", None, tool_calls=[called(id=form)]),'
        ' message("tool", "ok", tool_call_id=form)], tools=offered())'
    ),
    "tool description": "send([user], tools=offered(description=form))",
    "tool name": "send([user], tools=offered(name=form))",
    "schema's description": (
        'send([user], tools=offered(parameters={"type": "object", "description": form}))'
    ),
    "schema's property": (
        'send([user], tools=offered(parameters={"type": "object", "properties":'
        ' {form: {"type": "string"}}, "required": [form]}))'
    ),
    "schema's values": (
        'send([user], tools=offered(parameters={"type": "object", "properties":'
        ' {"a": {"enum": [form, "b"]}}}))'
    ),
    "response schema": (
        'send([user], response_format={"type": "json_schema", "json_schema": {"name": "x",'
        ' "schema": {"type": "object", "properties": {"a": {"const": form}}}}})'
    ),
    "response schema's name": (
        'send([user], response_format={"type": "json_schema", "json_schema": {"name": form,'
        ' "schema": {"type": "object"}}})'
    ),
    "model's name": "send([user], model=form)",
    "user field": 'send([user], user=form, metadata={"a": form})',
    "stop": "send([user], stop=[form])",
    "author's name": 'send([message("user", "Go on.", name=form)])',
    "Anthropic's system": (
        'post(BRIDGE + "/v1/messages", {"model": "m", "max_tokens": 9, "system": form,'
        ' "messages": [user]}, KEY)'
    ),
    "Responses' instructions": (
        'post(BRIDGE + "/v1/responses", {"model": "m", "instructions": form, "input": "Go on."},'
        " KEY)"
    ),
    "Gemini's system": (
        'post(BRIDGE + "/v1beta/models/m:generateContent", {"contents": [{"role": "user",'
        ' "parts": [{"text": "Go on."}]}], "systemInstruction": {"parts": [{"text": form}]}}, KEY)'
    ),
}
REFUSED = ("tool name",)  # in which each form is refused before anybody is asked
SHOWN = {
    "standard output": "print(form)",
    "standard error": "print(form, file=sys.stderr)",
    "file name": 'open(form.replace("/", "_"), "w").write("x")',
    "folder name": 'os.makedirs(form.replace("/", "_"), exist_ok=True)',
    "link's name": 'os.symlink("/etc/passwd", form.replace("/", "_"))',
}


@pytest.fixture(scope="module")
def scanner(market: Path) -> Scanner:
    return Scanner(load_snapshot(market))


@pytest.fixture(scope="module")
def forms(market: Path) -> list[str]:
    """Identities of the market, each in another form."""
    snapshot = load_snapshot(market)
    code = snapshot.codes[3]
    name = snapshot.names[3]
    digits = code[:6]
    given = {
        "code": code,
        "digits": digits,
        "wide": "".join(chr(ord(digit) + 0xFEE0) for digit in digits),
        "spaced": " ".join(digits),
        "hyphens": "-".join(digits),
        "html": "".join(f"&#{ord(letter)};" for letter in code),
        "escaped": "".join(f"\\u{ord(letter):04x}" for letter in code),
        "name": name,
        "capitals": name.upper(),
        "zero_width": "\u200b".join(name),
    }
    return [form.format(**given) for form in FORMS.values()]


@pytest.fixture
def place(place: Place, forms: list[str]) -> Place:
    (place.folder / "forms.json").write_text(json.dumps(forms))
    return place


def words_of(value: Any) -> Iterator[str]:
    """All texts of a JSON value, names of its fields, too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from words_of(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from words_of(item)


def leaks(scanner: Scanner, value: Any, forms: list[str]) -> set[str]:
    """Identities in a value: what the scanner finds, and any form as it was sent."""
    texts = list(words_of(value))
    found = scanner.leaks(texts, assets=True, dates=True)
    return found | {form for form in forms if any(form in text for text in texts)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("where", PLACES)
def test_no_identity_in_a_programs_request_reaches_the_model(
    place: Place, scanner: Scanner, forms: list[str], where: str
) -> None:
    with provider() as asked:
        done = place.play(
            BODY + "    " + PLACES[where] + "\nsubmit()\n",
            *asked.words,
            run="python3 trader.py forms.json",
        )
        assert done.code == 0, done
        assert leaks(scanner, asked.bodies, forms) == set()
        assert (len(asked.bodies) > 0) == (where not in REFUSED)

    (entry,) = place.entries
    sent = [exchange["sent"] for exchange in entry["exchanges"]]
    acts = [act.get("tools") for act in entry["external"]["acts"]]
    assert leaks(scanner, [sent, acts], forms) == set()
    verified = place.verified()
    assert verified.code == 0, verified


def test_a_tool_whose_name_holds_an_identity_is_refused_by_name(
    place: Place, forms: list[str]
) -> None:
    digits = forms[1]
    with provider() as asked:
        done = place.play(
            f"""
            tools = [{{"type": "function", "function": {{"name": "look_{digits}"}}}}]
            print(ask(tools=tools))
            submit()
            """,
            *asked.words,
        )

    assert done.code == 0, done
    assert asked.bodies == []
    assert place.steps[0].failures == {"identity_in_tool_name": 1}
    assert "the name of a tool holds an identity" in place.report["output"]


@pytest.mark.parametrize("where", SHOWN)
def test_no_identity_that_a_program_shows_is_on_record(
    place: Place, scanner: Scanner, forms: list[str], where: str
) -> None:
    done = place.play(
        BODY + "    " + SHOWN[where] + "\nsubmit()\n", run="python3 trader.py forms.json"
    )

    assert done.code == 0, done
    report = {name: place.report[name] for name in ("output", "refused", "problem")}
    assert leaks(scanner, report, forms) == set()


def test_the_models_own_words_reach_a_program_without_identities(
    place: Place, scanner: Scanner, forms: list[str]
) -> None:
    def named(_body: Any) -> dict[str, Any]:
        return {"role": "assistant", "content": " / ".join(forms)}

    with provider(named) as asked:
        done = place.play(
            """
            answer = words(ask())
            again = ask("You said: " + answer)
            print(answer)
            submit()
            """,
            *asked.words,
        )
        assert done.code == 0, done
        assert leaks(scanner, asked.bodies, forms) == set()

    assert "[withheld]" in place.report["output"]
    assert leaks(scanner, place.report["output"], forms) == set()


def test_identities_in_reasons_are_withheld_from_the_ledger(
    place: Place, scanner: Scanner, forms: list[str]
) -> None:
    done = place.play(
        """
        forms = json.load(open("forms.json"))
        submit({"orders": [], "overall_reason": " / ".join(forms)})
        """,
        run="python3 trader.py forms.json",
    )

    assert done.code == 0, done
    assert place.steps[0].provenance == "model"
    assert leaks(scanner, place.steps[0].overall_reason, forms) == set()


def test_identities_in_arguments_of_a_tool_find_nothing(
    place: Place, scanner: Scanner, forms: list[str]
) -> None:
    done = place.play(
        """
        forms = json.load(open("forms.json"))
        for form in forms[:6]:
            print(tool("get_stock_snapshot", stock_id=form)["text"])
        submit()
        """,
        run="python3 trader.py forms.json",
    )

    assert done.code == 0, done
    assert place.steps[0].unmask_attempts > 0
    results = [act["result"] for act in place.acts if act["kind"] == "tool"]
    assert leaks(scanner, results, forms) == set()


def test_days_in_a_prompt_are_withheld_and_not_fatal(place: Place, scanner: Scanner) -> None:
    with provider(said) as asked:
        done = place.play(
            """
            import datetime
            now = datetime.datetime.now()
            week = [datetime.datetime(2024, 9, day, 9, 30) for day in range(23, 30)]
            year = [datetime.datetime(2023, month, 5, 9, 30) for month in range(1, 13)]
            for day in (now, *week, *year):
                for form in (day.isoformat(), day.strftime("%A, %d %B %Y"), day.strftime("%c")):
                    assert words(ask(f"Today is {form}. What now?")) , form
            submit()
            """,
            *asked.words,
        )

    assert done.code == 0, done
    assert place.steps[0].failures == {"identity_withheld": 60}
    assert len(asked.bodies) == 60
    assert scanner.leaks(words_of(asked.bodies), assets=True, dates=True) == set()
