import json
from typing import TYPE_CHECKING, Annotated, Literal

import jsonschema
import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot

from ktdeval.errors import PluginError
from ktdeval.harness.tools.arguments import AssetArg, Bounds, DayArg, Length, ToolArgumentError
from ktdeval.harness.tools.tool_definition import Refusal, Tool, call, json_tool, tool
from ktdeval.masking.payload_types import AssetRef, DayRef
from ktdeval.testing import errors_of, on_each_row
from support.masking.masking_market import BASE_ROW, CODES, MARKET, lens_of
from support.searching import examples
from support.tables import beside

if TYPE_CHECKING:
    from decimal import Decimal

BLIND = lens_of("blinded")
BRIGHT = lens_of("bright")
ONE = BLIND.asset_handle(1)
TWO = BLIND.asset_handle(2)


@tool
def study(
    context: "Decimal",  # a type that exists for type checkers only must not matter
    stock_ids: Annotated[list[AssetArg], Length(1, 3)],
    dim: Literal["momentum", "volatility"] = "momentum",
    lookback: Annotated[int, Bounds(1, 250)] = 20,
    weights: dict[AssetArg, Annotated[float, Bounds(0, 1)]] | None = None,
    since: DayArg | None = None,
    strict: bool = False,
    note: str = "",
    scale: float = 1.0,
):
    """Study some stocks.

    Second paragraph.

    Args:
        stock_ids: the stocks,
            up to three.
        lookback: trading days.
    """
    return {
        "stocks": [AssetRef(asset) for asset in stock_ids],
        "weights": {AssetRef(asset): weight for asset, weight in (weights or {}).items()},
        "since": None if since is None else DayRef(since),
        "rest": [context, dim, lookback, strict, note, scale],
    }


@tool
def refresh(context):
    """Take no arguments."""
    return {"context": context}


@tool
def picky(context, k: int = 1):
    """Raise."""
    raise ToolArgumentError("k", "a number that the data have")


def ask(arguments, lens=BLIND, which: Tool = study):
    outcome = call(
        which, "ctx", arguments if isinstance(arguments, str) else json.dumps(arguments), lens
    )
    return lens.render(outcome.payload), outcome


def problem(arguments, lens=BLIND):
    shown, outcome = ask(arguments, lens)
    return outcome.failure, shown["error"]["argument"], shown["error"]["expected"]


def test_the_schema_comes_from_the_signature_and_the_docstring():
    jsonschema.Draft202012Validator.check_schema(study.parameters)
    assert study.name == "study"
    assert study.description == "Study some stocks.\n\nSecond paragraph."
    assert study.parameters == beside(__file__)["parameters"]
    assert study.spec.parameters is study.parameters


def test_handles_come_in_as_columns_and_go_out_as_handles():
    shown, outcome = ask(
        {"stock_ids": [TWO, ONE], "weights": {ONE: 0.5}, "since": "day_-3", "lookback": 5.0}
    )

    assert outcome.failure is None
    assert shown == {
        "stocks": [TWO, ONE],
        "weights": {ONE: 0.5},
        "since": "day_-3",
        "rest": ["ctx", "momentum", 5, False, "", 1.0],
    }


def test_a_visible_code_is_understood_in_any_vendor_style():
    shown, _ = ask(
        {"stock_ids": ["SH600519", "000001"], "since": str(MARKET.days[BASE_ROW])}, BRIGHT
    )
    assert shown["stocks"] == ["600519.SH", "000001.SZ"]


@pytest.mark.parametrize("text", ["", "  ", "{}", "null", " null ", '""', '" "'])
def test_no_arguments_may_be_written_as_nothing(text):
    assert ask(text, which=refresh)[0] == {"context": "ctx"}


def test_null_is_the_default_of_an_optional_argument():
    assert ask({"stock_ids": [ONE], "weights": None, "since": None})[1].failure is None


JSON_ONLY = ("bad_json", "arguments", "one JSON object, without NaN or Infinity")
AN_OBJECT = ("bad_arguments", "arguments", "one JSON object")
NO_JSON = [
    "{",
    "nope",
    '{"a": NaN}',
    '{"a": Infinity}',
    '{"a": -Infinity}',
    "[" * 100_000,
    '{"a":' * 50_000,
    '{"a": 1}{',
    "1" * 5000,
]
NO_OBJECT = ["[]", "5", '"text"', "true"]
DOUBLED = ('{"lookback": 5, "lookback": 60}', '{"weights": {"a": 0.1, "a": 0.2}}')
EACH_ONCE = ("bad_json", "arguments", "each field once in an object")

JSON_TOOL = {
    "type": "object",
    "properties": {"order": {"type": "object"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (text, message)
        for texts, message in ((NO_JSON, JSON_ONLY), (NO_OBJECT, AN_OBJECT), (DOUBLED, EACH_ONCE))
        for text in texts
    ],
)
def test_arguments_that_are_not_a_json_object_get_feedback(text, message):
    def refuse(context, arguments):
        raise AssertionError

    assert problem(text) == message
    assert (
        call(
            json_tool("place_order", "Place an order.", JSON_TOOL, refuse), None, text, BRIGHT
        ).failure
        == message[0]
    )


@on_each_row(
    "arguments, failure, argument, expected",
    ({}, "bad_arguments", "stock_ids", "a value: this argument is required"),
    (
        {"stock_ids": ["ONE"], "lookbak": 3},
        "bad_arguments",
        "(unknown)",
        "only these arguments: stock_ids, dim,",
    ),
    ({"stock_ids": "ONE"}, "bad_arguments", "stock_ids", "a list"),
    ({"stock_ids": []}, "bad_arguments", "stock_ids", "1 to 3 items"),
    ({"stock_ids": ["ONE", "ONE", "ONE", "ONE"]}, "bad_arguments", "stock_ids", "1 to 3 items"),
    (
        {"stock_ids": ["ONE", "asset_9999"]},
        "unknown_asset",
        "stock_ids[1]",
        "a stock_id exactly as it was shown to you",
    ),
    (
        {"stock_ids": [7]},
        "unknown_asset",
        "stock_ids[0]",
        "a stock_id exactly as it was shown to you",
    ),
    (
        {"stock_ids": [None]},
        "unknown_asset",
        "stock_ids[0]",
        "a stock_id exactly as it was shown to you",
    ),
    ({"stock_ids": ["ONE"], "dim": "value"}, "bad_arguments", "dim", "one of momentum, volatility"),
    (
        {"stock_ids": ["ONE"], "dim": ["momentum"]},
        "bad_arguments",
        "dim",
        "one of momentum, volatility",
    ),
    ({"stock_ids": ["ONE"], "lookback": 0}, "bad_arguments", "lookback", "a value from 1 to 250"),
    ({"stock_ids": ["ONE"], "lookback": 1.5}, "bad_arguments", "lookback", "an integer"),
    ({"stock_ids": ["ONE"], "lookback": True}, "bad_arguments", "lookback", "an integer"),
    ({"stock_ids": ["ONE"], "lookback": "20"}, "bad_arguments", "lookback", "an integer"),
    ({"stock_ids": ["ONE"], "lookback": None}, "bad_arguments", "lookback", "an integer"),
    ({"stock_ids": ["ONE"], "strict": 1}, "bad_arguments", "strict", "true or false"),
    ({"stock_ids": ["ONE"], "note": 5}, "bad_arguments", "note", "a string"),
    ({"stock_ids": ["ONE"], "weights": [0.5]}, "bad_arguments", "weights", "an object"),
    (
        {"stock_ids": ["ONE"], "weights": {"x": 0.5}},
        "unknown_asset",
        "weights (key 1)",
        "a stock_id exactly as it was shown to you",
    ),
    (
        {"stock_ids": ["ONE"], "weights": {"ONE": 1.5}},
        "bad_arguments",
        "weights (value 1)",
        "a value from 0 to 1",
    ),
    (
        {"stock_ids": ["ONE"], "since": "day_+9999"},
        "unknown_day",
        "since",
        "a trading day exactly as it was shown to you",
    ),
    (
        {"stock_ids": ["ONE"], "since": "2024-01-02"},
        "unknown_day",
        "since",
        "a trading day exactly as it was shown to you",
    ),
)
def test_a_bad_argument_comes_back_as_feedback(arguments, failure, argument, expected):
    feedback = problem(json.dumps(arguments).replace("ONE", ONE))
    assert feedback[:2] == (failure, argument)
    assert feedback[2].startswith(expected)


@pytest.mark.parametrize("scale", ["1e999", 10**400], ids=["infinite", "of 401 digits"])
def test_a_number_beyond_floats_is_feedback(scale):
    assert problem(f'{{"stock_ids": ["{ONE}"], "scale": {scale}}}') == (
        "bad_arguments",
        "scale",
        "a number of ordinary size",
    )


def test_huge_integer_or_repeated_key_is_feedback_that_suggests_names():
    assert problem({"stock_ids": [ONE], "lookback": 10**400}) == (
        "bad_arguments",
        "lookback",
        "a value from 1 to 250",
    )

    twice = {"stock_ids": [ONE], "weights": {ONE: 0.5, ONE.upper(): 1}}
    assert problem(twice) == ("bad_arguments", "weights (key 2)", "each key once")
    assert problem({"stock_ids": [ONE], "lookbak": 3})[2].endswith("; did you mean 'lookback'?")
    assert problem({"stock_ids": [ONE], "dim": "volatilty"})[2].endswith(
        "; did you mean 'volatility'?"
    )


secrets = st.text(st.sampled_from("qxzQXZ"), min_size=6, max_size=30)


@examples(40)
@given(
    secret=secrets,
    place=st.sampled_from(["key", "stock", "dim", "lookback", "weights", "since", "whole"]),
)
def test_feedback_never_quotes_what_the_model_wrote(secret, place):
    arguments = {
        "key": {secret: 1},
        "stock": {"stock_ids": [secret]},
        "dim": {"stock_ids": [ONE], "dim": secret},
        "lookback": {"stock_ids": [ONE], "lookback": secret},
        "weights": {"stock_ids": [ONE], "weights": {secret: 1}},
        "since": {"stock_ids": [ONE], "since": secret},
        "whole": secret,
    }[place]
    shown, outcome = ask(arguments)

    assert outcome.failure is not None
    assert secret not in json.dumps(shown)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from([ONE, "day_+0", "600519"]),
    lambda part: (
        st.lists(part, max_size=3)
        | st.dictionaries(st.sampled_from([ONE, "a", "stock_ids"]), part, max_size=3)
    ),
    max_leaves=8,
)
argument_objects = st.dictionaries(
    st.sampled_from([*study.parameters["properties"], "other"]), json_values
)


@pytest.mark.exhaustive
@examples(50)
@given(text=st.text(max_size=40) | argument_objects.map(json.dumps))
def test_no_arguments_make_a_call_raise(text):
    ask(text)


@pytest.mark.exhaustive
@examples(50)
@given(arguments=argument_objects)
def test_a_call_runs_only_if_its_arguments_meet_the_schema(arguments):
    try:
        text = json.dumps(arguments, allow_nan=False)
    except ValueError:
        return

    _, outcome = ask(text)
    is_valid = jsonschema.Draft202012Validator(study.parameters).is_valid(json.loads(text))
    if outcome.failure is None:
        assert is_valid
    elif (
        outcome.failure == "bad_arguments"
        and "other" not in arguments
        and "weights" not in arguments
    ):
        assert not is_valid


def test_hidden_identities_among_the_arguments_are_counted():
    arguments = {
        "stock_ids": ["600519.SH", "SZ300750", ONE],
        "since": "2024-01-02",
        "note": "平安银行",
    }

    assert ask(arguments)[1].unmask_attempts == 4
    assert ask(arguments, BRIGHT)[1].unmask_attempts == 0
    assert ask({"stock_ids": [ONE], "weights": {"600519": 1}})[1].unmask_attempts == 1
    assert ask({"stock_ids": [ONE]})[1].unmask_attempts == 0


@pytest.mark.parametrize(
    ("offered", "attempts"),
    [
        ("1234567890", 0),  # 2009-02-13 23:31:30: a count or an id, no day
        ("1111111111", 0),
        ("1000000000", 0),
        ("1234567890123", 0),
        ("1704153600", 1),  # 2024-01-02 00:00
        ("1704153600000", 1),
        ("1704178800", 1),  # 15:00 in Shanghai
        ("20240102", 1),
    ],
)
def test_digits_count_as_a_hidden_day_where_they_are_one(offered, attempts):
    assert ask({"stock_ids": [ONE], "note": offered})[1].unmask_attempts == attempts


def test_a_tool_may_refuse_an_argument_itself():
    shown, outcome = ask("{}", which=picky)
    assert outcome.failure == "bad_arguments"
    assert shown == {
        "error": {
            "kind": "bad_arguments",
            "argument": "k",
            "expected": "a number that the data have",
        }
    }


def test_what_a_tool_gets_are_columns_of_the_snapshot():
    seen = []

    @tool
    def look(context, stock_id: AssetArg):
        """Look."""
        seen.append(stock_id)
        return {}

    for column in range(len(CODES)):
        ask({"stock_id": BLIND.asset_handle(column)}, which=look)

    assert seen == list(range(len(CODES)))


def _no_context():
    """Nothing."""


def _no_docstring(context): ...


def _no_annotation(context, k):
    """Text."""


def _star(context, *names: str):
    """Text."""


def _strange_type(context, k: bytes):
    """Text."""


def _strange_keys(context, k: dict[int, float]):
    """Text."""


def _wrong_doc(context, lookback: int):
    """Text.

    Args:
        lookbak: days.
    """


def _hidden_type(context, price: "Decimal"):
    """Text."""


def test_a_function_that_makes_no_tool_is_refused_by_name():
    functions = (
        _no_context,
        _no_docstring,
        _no_annotation,
        _star,
        _strange_type,
        _strange_keys,
        _wrong_doc,
        _hidden_type,
    )
    assert errors_of(tool, *functions) == snapshot("""\
PluginError: tool _no_context: the first parameter must be the context
PluginError: tool _no_docstring: a docstring is missing; its text is what the model reads
PluginError: tool _no_annotation: parameter k: an annotation is missing
PluginError: tool _star: parameter names: must be a named parameter
PluginError: tool _strange_type: parameter k: annotation <class 'bytes'> has no JSON Schema (it is not a type of JSON); use str, int, float, bool, Literal, AssetArg, list or dict
PluginError: tool _strange_keys: parameter k: annotation dict[int, float] has no JSON Schema (keys of a dict must be strings); use str, int, float, bool, Literal, AssetArg, list or dict
PluginError: tool _wrong_doc: its docstring describes 'lookbak', which is not a parameter; did you mean 'lookback'?
PluginError: tool _hidden_type: an annotation can't be resolved: name 'Decimal' is not defined; import it outside TYPE_CHECKING
""")


def test_json_tool_gets_the_models_object_and_may_refuse_in_its_own_words():
    order_tool = json_tool(
        "place_order", "Place an order.", JSON_TOOL, lambda context, arguments: [context, arguments]
    )
    outcome = call(order_tool, "here", '{"order": {"qty": 2}}', BRIGHT)

    assert (outcome.payload, outcome.failure) == (["here", {"order": {"qty": 2}}], None)
    assert order_tool.spec.parameters == JSON_TOOL
    assert call(order_tool, "here", "", BRIGHT).payload == ["here", {}]

    refuse = json_tool(
        "place_order",
        "Place an order.",
        JSON_TOOL,
        lambda *_: Refusal({"error": "no session"}, "bad_arguments"),
    )
    outcome = call(refuse, None, "{}", BRIGHT)

    assert (outcome.payload, outcome.failure) == ({"error": "no session"}, "bad_arguments")


@pytest.mark.parametrize(
    ("name", "description"),
    [("PMB.order.place", "Place."), ("", "Place."), ("a" * 65, "Place."), ("place", "")],
    ids=["points", "no name", "65 letters", "no description"],
)
def test_a_json_tool_that_no_provider_would_take_is_refused(name, description):
    with pytest.raises(PluginError):
        json_tool(name, description, JSON_TOOL, lambda *_: None)
