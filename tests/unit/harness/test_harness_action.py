import json

import jsonschema
import pytest
from hypothesis import given, strategies as st

from ktdeval.harness.agent import HarnessConfig
from ktdeval.harness.submissions.action import ActionForm, action_schema
from ktdeval.harness.submissions.submission_form import read_valid
from ktdeval.testing import on_each_row
from support.masking.masking_market import BASE_ROW, MARKET, guard_of, lens_of
from support.searching import examples

CONFIG = HarnessConfig()
BLIND = lens_of("blinded")
FORM = ActionForm(CONFIG, BLIND)
VALIDATOR = jsonschema.Draft202012Validator(action_schema(CONFIG))
ONE = BLIND.asset_handle(1)
TWO = BLIND.asset_handle(2)
REASON = "strong momentum, low risk"


def order(**changes):
    whole = {
        "stock_id": ONE,
        "side": "BUY",
        "confidence": 0.6,
        "reason": REASON,
        "target_weight": 0.05,
    } | changes
    return {name: value for name, value in whole.items() if value is not None}


def text_of(*orders, overall_reason="fine"):
    return json.dumps({"orders": orders, "overall_reason": overall_reason})


NEARLY = {
    "stock_id": st.sampled_from([ONE, "", "x" * 65, 5]),
    "side": st.sampled_from(["BUY", "SELL", "buy", True]),
    "confidence": st.sampled_from([0, 0.5, 1, 1.5, -0.1, True, "1"]),
    "reason": st.sampled_from([REASON, "short", None]),
    "target_weight": st.sampled_from([0, 0.05, 2, "0"]),
    "shares": st.sampled_from([1, 100, 0, 100.0, 0.5, 10**9, True]),
    "limit": st.sampled_from([10, 0.01, 0, "9", 1e9]),
    "price": st.just(1),
}
ORDERS = st.sets(st.sampled_from(sorted(NEARLY))).flatmap(
    lambda names: st.fixed_dictionaries({name: NEARLY[name] for name in names})
)
ACTIONS = st.fixed_dictionaries(
    {"orders": st.lists(ORDERS, max_size=2) | ORDERS},
    optional={"overall_reason": st.sampled_from(["ok", 1])},
)


FIELDS = {
    "stock_id": {"type": "string", "minLength": 1, "maxLength": 64},
    "side": {"enum": ["BUY", "SELL"]},
    "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    "reason": {"type": "string", "minLength": 10},
    "target_weight": {"type": "number", "minimum": 0, "maximum": 1},
    "shares": {"type": "integer", "minimum": 1, "maximum": 100000000},
}
RULE_OF_THE_PAPER = {
    "type": "object",
    "additionalProperties": False,
    "required": ["orders", "overall_reason"],
    "properties": {
        "orders": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["stock_id", "side", "confidence", "reason"],
                "oneOf": [{"required": ["target_weight"]}, {"required": ["shares"]}],
                "properties": FIELDS,
            },
        },
        "overall_reason": {"type": "string"},
    },
}


@pytest.mark.exhaustive
@given(ACTIONS)
def test_two_order_variants_admit_the_same_as_one_order_with_either_size(value):
    assert VALIDATOR.is_valid(value) == jsonschema.Draft202012Validator(RULE_OF_THE_PAPER).is_valid(
        value
    )


def problems(text, form=FORM):
    submission = form.read(text).submission
    assert submission.action is None

    error = json.loads(submission.feedback)["error"]
    assert error["kind"] == submission.failure

    return submission.failure, [(item["at"], item["rule"]) for item in error["problems"]]


def test_the_schema_is_a_valid_draft_2020_12_schema():
    jsonschema.Draft202012Validator.check_schema(action_schema(CONFIG))
    by_weight, by_shares = action_schema(CONFIG)["properties"]["orders"]["items"]["anyOf"]

    assert (
        by_weight["properties"]["reason"]["minLength"]
        == by_shares["properties"]["reason"]["minLength"]
        == 10
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "hold",
        "{",
        "[" * 100_000,
        '{"orders": [NaN]}',
        '{"orders": Infinity}',
        "9" * 5000,
    ],
)
def test_text_that_is_not_json_is_bad_json(text):
    assert problems(text) == (
        "bad_json",
        [("(whole)", "must be one JSON object, without NaN or Infinity")],
    )


def test_a_field_with_two_values_is_no_submission():
    text = text_of(order())
    for doubled in (
        text[:-1] + ', "orders": []}',
        text.replace('"side": "BUY"', '"side": "BUY", "side": "SELL"'),
    ):
        assert problems(doubled) == (
            "bad_json",
            [("(whole)", "must have each field once in an object")],
        )


@on_each_row(
    "value, at, rule",
    ([], "(whole)", "must be an object"),
    ({}, "(whole)", "must have orders, overall_reason"),
    ({"orders": {}, "overall_reason": ""}, "orders", "must be a list"),
    ({"orders": [], "overall_reason": 5}, "overall_reason", "must be text"),
    (
        {"orders": [], "overall_reason": "", "mood": 1},
        "(whole)",
        "must have no fields but orders, overall_reason",
    ),
    ({"orders": [5], "overall_reason": ""}, "orders[0]", "must be an object"),
    (
        {"orders": [{"side": "BUY", "shares": 5}], "overall_reason": ""},
        "orders[0]",
        "must have stock_id, confidence, reason",
    ),
)
def test_feedback_names_path_and_rule(value, at, rule):
    assert problems(json.dumps(value)) == ("schema", [(at, rule)])


@on_each_row(
    "changes, at, rule",
    ({"side": "HOLD"}, "orders[0].side", "must be one of BUY, SELL"),
    ({"confidence": 1.5}, "orders[0].confidence", "must be a number from 0 to 1"),
    ({"confidence": "high"}, "orders[0].confidence", "must be a number from 0 to 1"),
    ({"target_weight": -1}, "orders[0].target_weight", "must be a number from 0 to 1"),
    ({"reason": "short"}, "orders[0].reason", "must be text of at least 10 characters"),
    (
        {"stock_id": "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
        "orders[0].stock_id",
        "must be text of 1 to 64 characters",
    ),
    ({"stock_id": 600_519}, "orders[0].stock_id", "must be text of 1 to 64 characters"),
    ({"shares": 100}, "orders[0]", "must have exactly one of target_weight and shares"),
    ({"target_weight": None}, "orders[0]", "must have exactly one of target_weight and shares"),
    (
        {"target_weight": None, "shares": 0},
        "orders[0].shares",
        "must be a whole number from 1 to 100000000",
    ),
    (
        {"target_weight": None, "shares": 1.5},
        "orders[0].shares",
        "must be a whole number from 1 to 100000000",
    ),
    (
        {"leverage": 3},
        "orders[0]",
        "must have no fields but stock_id, side, confidence, reason, target_weight, shares",
    ),
)
def test_feedback_on_an_order_names_path_and_rule(changes, at, rule):
    assert problems(text_of(order(**changes))) == ("schema", [(at, rule)])


@on_each_row(
    "field, value, limits",
    ("confidence", "1e999", "a number from 0 to 1"),
    ("target_weight", "1e999", "a number from 0 to 1"),
    ("shares", "1e999", "a whole number from 1 to 100000000"),
    ("shares", str(10**300), "a whole number from 1 to 100000000"),
)
def test_a_number_beyond_floats_is_out_of_bounds_and_no_crash(field, value, limits):
    given = order(target_weight=None, shares=5) if field == "shares" else order()
    text = text_of(given).replace(f'"{field}": {given[field]}', f'"{field}": {value}')

    assert value in text
    assert problems(text) == ("schema", [(f"orders[0].{field}", f"must be {limits}")])


@examples(20)
@given(st.text(st.sampled_from("qxzQXZ"), min_size=6, max_size=20))
def test_feedback_never_quotes_what_the_model_wrote(secret):
    for value in (
        secret,
        {secret: 1},
        {"orders": secret, "overall_reason": ""},
        {
            "orders": [order(side=secret, confidence=secret, shares=secret, **{secret: secret})],
            "overall_reason": "",
        },
        {"orders": [order(reason=secret[:5], stock_id=secret * 20)], "overall_reason": ""},
    ):
        submission = FORM.read(json.dumps(value)).submission
        assert submission.action is None
        assert secret not in submission.feedback
        assert secret[:5] not in submission.feedback


# Under a mask a real identity is withheld and counted; a visible code is an asset in any style.
REAL = [
    "600519",
    "SH600519",
    "600519.SH",
    "sz.300750",
    "601318",
    "平安银行",
    "QUILLMARK",
    "2024-01-02",
]
MOUTAI = MARKET.codes.index("600519.SH")


@pytest.mark.parametrize(
    ("form", "named", "assets", "recorded", "unmask_attempts"),
    [
        (FORM, (ONE, "asset_9999"), [1, None], (ONE, "asset_9999"), 0),
        *((FORM, (real, ONE), [None, 1], ("[withheld]", ONE), 1) for real in REAL),
        (
            ActionForm(CONFIG, lens_of("bright")),
            ("SH600519", "601318"),
            [MOUTAI, None],
            ("SH600519", "601318"),
            0,
        ),
    ],
)
def test_unknown_stock_is_an_order_without_asset_not_a_failed_submission(
    form, named, assets, recorded, unmask_attempts
):
    reading = form.read(text_of(*(order(stock_id=stock) for stock in named)))
    assert [item.asset for item in reading.submission.action] == assets
    assert reading.submission.stock_ids == recorded
    assert (reading.unknown_assets, reading.unmask_attempts) == (1, unmask_attempts)


@pytest.mark.parametrize("side", ["buy", "Buy", " BUY ", "ＢＵＹ"])
def test_a_side_counts_in_any_case_as_a_label_does(side):
    (order_,) = FORM.read(text_of(order(side=side))).submission.action
    assert order_.side == "BUY"
    assert FORM.read(text_of(order(side="purchase"))).submission.failure == "schema"


def test_real_identities_are_counted_also_in_an_invalid_submission():
    reading = FORM.read(
        text_of(
            order(stock_id="600519", side="HOLD"),
            order(stock_id=300750),
            order(stock_id=TWO),
            order(stock_id=[1]),
        )
    )

    assert reading.submission.failure == "schema"
    assert reading.unmask_attempts == 2


def test_shares_are_converted_back_under_rebased_prices():
    lens = lens_of("blinded", rebase_prices=True)
    form = ActionForm(CONFIG, lens)
    scale = 100 / MARKET.close[BASE_ROW, 1]
    handle = lens.asset_handle(1)
    shown = 300 / scale
    parsed = form.read(
        text_of(order(stock_id=handle, target_weight=None, shares=round(shown, 5)))
    ).submission

    assert parsed.action[0].shares == 300
    assert (
        form.read(text_of(order(stock_id=handle, target_weight=None, shares=1e-9)))
        .submission.action[0]
        .shares
        == 1
    )
    assert problems(text_of(order(target_weight=None, shares=0)), form)[1] == [
        ("orders[0].shares", "must be a number above 0 and at most 100000000")
    ]


LIMITS = ActionForm(CONFIG, BLIND, limits=lambda _asset: ())


@pytest.mark.parametrize(
    ("side", "limit", "ticks"),
    [
        ("BUY", 12.34, 123_400),
        ("SELL", 12.34, 123_400),
        ("BUY", 12.34567, 123_456),  # never above what was given
        ("SELL", 12.34567, 123_457),  # nor below
        ("BUY", 0.00001, 0),
        ("SELL", 100_000_000, 10**12),
    ],
)
def test_a_limit_is_a_price_in_ticks_rounded_against_the_order(side, limit, ticks):
    (read,) = LIMITS.read(text_of(order(side=side, limit=limit))).submission.action
    assert (read.limit_ticks, read.target_weight) == (ticks, 0.05)

    (by_shares,) = LIMITS.read(
        text_of(order(side=side, limit=limit, target_weight=None, shares=100))
    ).submission.action
    assert (by_shares.limit_ticks, by_shares.shares) == (ticks, 100)


def test_a_limit_is_converted_back_under_rebased_prices():
    lens = lens_of("blinded", rebase_prices=True)
    form = ActionForm(CONFIG, lens, limits=lambda _asset: ())
    handle = lens.asset_handle(1)
    shown = 12.34 * 100 / MARKET.close[BASE_ROW, 1]
    (read,) = form.read(text_of(order(stock_id=handle, limit=shown))).submission.action
    assert read.limit_ticks == 123_400

    (unknown,) = form.read(text_of(order(stock_id="asset_9999", limit=5))).submission.action
    assert (unknown.asset, unknown.limit_ticks) == (None, None)


def test_lone_surrogates_are_replaced_so_that_a_ledger_can_be_written():
    text = (
        '{"orders":['
        + json.dumps(order(reason="REASON")).replace("REASON", r"\ud800 is no character")
        + r'],"overall_reason":"\udfff"}'
    )
    submission = FORM.read(text).submission
    (submission.action[0].reason + submission.overall_reason).encode("utf-8")


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from([ONE, "BUY", 0.5, REASON, "600519"]),
    lambda part: (
        st.lists(part, max_size=3)
        | st.dictionaries(st.sampled_from(["orders", "overall_reason", "side"]), part, max_size=3)
    ),
    max_leaves=6,
)
names = st.sampled_from(
    ["stock_id", "side", "confidence", "reason", "target_weight", "shares", "other"]
)
orders = st.lists(
    st.dictionaries(names, json_values)
    | st.builds(lambda name, value: order(**{name: value}), names, json_values),
    max_size=3,
)
actions = st.builds(lambda items: {"orders": items, "overall_reason": ""}, orders)


@pytest.mark.exhaustive
@examples(50)
@given(text=st.text(max_size=40) | json_values.map(json.dumps) | actions.map(json.dumps))
def test_no_text_makes_parsing_raise(text):
    submission = FORM.read(text).submission
    assert (submission.action is None) == (submission.failure is not None)
    guard_of("blinded").check(submission.feedback)


@pytest.mark.exhaustive
@examples(50)
@given(actions)
def test_a_submission_is_accepted_exactly_if_the_schema_accepts_it(value):
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        return

    valid = VALIDATOR.is_valid(json.loads(text))

    assert (FORM.read(text).submission.action is not None) == valid


@pytest.mark.parametrize("text", ["", " ", "null", '""'])
def test_call_without_arguments_is_an_empty_object_if_no_field_is_required(text):
    free, strict = (
        jsonschema.Draft202012Validator({"type": "object", "required": r}) for r in ([], ["a"])
    )

    assert read_valid(text, free) == ({}, None)

    value, feedback = read_valid(text, strict)
    assert (value, feedback.failure) == (None, "bad_json")
