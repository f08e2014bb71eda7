"""What the leak guard finds and lets pass, and the one spelling in which it looks."""

import json
import re
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import given, strategies as st
from inline_snapshot import snapshot

from ktdeval.errors import LeakError
from ktdeval.market import Documents, Entity, Execution, execution_words, find_execution
from ktdeval.market.rules.calendar import Window
from ktdeval.masking.hidden_spans import COMPANY, EVENT, PERSON, PLACE, PRODUCT, TERM
from ktdeval.masking.leak_guard import LeakGuard
from ktdeval.masking.lens import Lens
from ktdeval.masking.mask_config import MASK_KINDS, MaskConfig
from ktdeval.masking.names.identity_index import IdentifyingNames, IdentityIndex
from ktdeval.masking.names.ordinary_words import COMMON_WORDS
from ktdeval.masking.payload_types import AssetRef
from ktdeval.masking.text_normalisation import normalise, normalise_with_places
from ktdeval.registry import load_plugins
from ktdeval.testing import error_lines, on_each_row
from ktdeval_ktdfin import payloads
from ktdeval_markets import price_tables, shown_state
from support.masking.masking_market import (
    BASE_ROW,
    CODES,
    INDEX_CODE,
    MARKET,
    NAMES,
    fields,
    guard_of,
    lens_of,
)
from support.masking.spellings import CODE_STYLES, HARMLESS, spell
from support.paths import REPOSITORY
from support.searching import examples
from support.tables import beside

GUARDS = {kind: guard_of(kind) for kind in MASK_KINDS}
ALL_NAMES = [*chain.from_iterable(NAMES.values())]
OWN_NAMES = [name for name in ALL_NAMES if name != "unknown"]
DIGITS = [code[:6] for code in CODES]


DATES, SPELLED_NAMES = (beside(__file__)[name] for name in ("dates", "spelled_names"))


def finds(kind: str, text: str) -> bool:
    try:
        GUARDS[kind].check(text)
    except LeakError:
        return True

    return False


@pytest.mark.sampled(90)
@pytest.mark.parametrize("style", CODE_STYLES)
@pytest.mark.parametrize("code", [*CODES, INDEX_CODE])
def test_a_code_is_found_in_any_style(style, code):
    text = f"we should look at {spell(style, code)} first"
    if style == "market number" and code.endswith(("SZ", "BJ")):
        text = text.replace("1.", "0.")

    assert (finds("blinded", text), finds("stock_blind", text), finds("bright", text)) == (
        True,
        True,
        False,
    ), text


@pytest.mark.parametrize(
    "code",
    ["SH601318", "601318.SS", "sz.300059", "830001.BJ", "SZ399001", "000905.XSHG", "BJ-430047"],
)
def test_a_foreign_code_is_found_by_its_exchange(code):
    assert (finds("blinded", f"like {code}."), finds("date_blind", f"like {code}.")) == (
        True,
        False,
    ), code


@pytest.mark.parametrize("spelling", SPELLED_NAMES)
def test_a_name_is_found_in_any_case_and_width(spelling):
    text = f"we like {spelling} most"
    assert (finds("blinded", text), finds("date_blind", text)) == (True, False)


@pytest.mark.parametrize(
    "word",
    [
        "Quillmarked",
        "ocean blue",
        "Ocean Blue Breweries",
        "Grevix",
        "spirits",
        "科技",
        "平安",
        "Veskol 12",
        "700123 shy of sh",
    ],
)
def test_neither_a_part_of_a_name_nor_a_longer_word_is_found(word):
    assert not finds("blinded", f"we like {word} most")


@pytest.mark.parametrize("date", DATES)
def test_a_date_is_found_in_any_style_where_dates_are_hidden(date):
    texts = [date, f"as of {date} we hold"]
    if '"' not in date:
        texts.append(f'{{"note":"{date}"}}')

    for text in texts:
        assert [kind for kind in MASK_KINDS if finds(kind, text)] == ["date_blind", "blinded"], text


ENGLISH = """You manage a portfolio of index members. Orders are decided after today's close and filled at the next open:
sells first, then buys. You may hold up to 20 names, none above 10 % of net asset value. Shares bought on a day can't be sold
that day (T+1). Lots are 100 shares, 200 on the STAR board. Costs are 5 bps a buy and 15 bps a sell, at least CNY 5. A stock may
not be bought at its upper limit. The reason must have at least 10 characters; confidence is a probability from 0 to 1."""
CHINESE = (
    "你管理一个指数成份股的投资组合。订单在收盘后决定,次日开盘成交,先卖后买。"
    "最多持有20只股票,每只不超过净值的10%。"
)


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_ordinary_text_passes(kind):
    for text in (*HARMLESS, ENGLISH * 5, CHINESE * 5):
        GUARDS[kind].check(text)
        GUARDS[kind].check(f"so: {text}")
        assert GUARDS[kind].redact(text) is text


def test_a_visible_name_that_reads_like_a_date_is_none():
    market = replace(MARKET, names=("April Foods", "二〇二四年置业", *MARKET.names[2:]))
    guard = LeakGuard(Lens(MaskConfig("date_blind"), 1, market, BASE_ROW), market)
    guard.check('{"name":"April Foods","other":"二〇二四年置业"}')

    with pytest.raises(LeakError, match="calendar date at characters 16…21"):
        guard.check("April Foods, in April 2, fell"[:21] + "?")


# --- properties

# no word of amounts: `volume 600000` is a figure
words = st.text(st.sampled_from("bghjkqvwxz ,;:()\n中的"), max_size=30)
spans = st.tuples(words, words).map(lambda pair: (f"{pair[0]} ", f" {pair[1]}"))


@pytest.mark.slow
@given(style=st.sampled_from(sorted(CODE_STYLES)), code=st.sampled_from(CODES), around=spans)
def test_a_code_is_found_in_any_style_and_position(style, code, around):
    if style != "market number":
        assert finds("blinded", spell(style, code).join(around))


@pytest.mark.slow
@given(name=st.sampled_from(OWN_NAMES), around=spans)
def test_a_name_is_found_in_any_position(name, around):
    assert finds("blinded", name.join(around))
    assert finds("blinded", name.lower().join(around))
    assert finds("blinded", name.upper().join(around))


@given(
    row=st.integers(0, len(MARKET.days) - 1),
    style=st.sampled_from(["%Y-%m-%d", "%Y%m%d", "%Y/%m/%d", "%d.%m.%Y", "%B", "%b %d", "%A"]),
)
def test_every_day_of_the_market_is_found(row, style):
    day = MARKET.days[row].astype(object)
    assert finds("date_blind", f"on {day.strftime(style)} it rose")


numbers = (
    st.floats()
    | st.integers()
    | st.integers(-(10**9), 10**9)
    | st.floats(-1e8, 1e8)
    | st.integers(1980, 2050)
)
numbers |= st.sampled_from([int(digits) for digits in DIGITS]) | st.sampled_from(
    [1e6 + int(digits) for digits in DIGITS]
)
numbers |= st.integers(19900101, 20391231) | st.integers(631152000, 2208988800)
keys = st.sampled_from(
    ["bars", "close_cny", "MOM_12_1", "stock_id", "shares", "day_+3", "asset_0042"]
)
keys |= st.builds(AssetRef, st.integers(0, len(CODES) - 1))
any_payload = st.recursive(
    fields() | numbers | st.sampled_from(["trading", "limit_up", "main", "bse"]),
    lambda part: (
        st.lists(part, max_size=5) | st.tuples(part, part) | st.dictionaries(keys, part, max_size=4)
    ),
    max_leaves=25,
)


kinds = st.sampled_from(MASK_KINDS)


@pytest.mark.slow
@examples(100, search=250)
@given(kind=kinds, rebase=st.booleans(), payload=any_payload)
def test_no_rendered_payload_holds_what_its_mask_hides(kind, rebase, payload):
    lens = lens_of(kind, rebase_prices=rebase)
    text = lens.render_text(payload)
    GUARDS[kind].check(text)

    # The same said without the guard: no code, name or ISO day is in the text.
    if lens.hides_assets:
        assert not any(re.search(rf"(?<![0-9.]){digits}(?![0-9])", text) for digits in DIGITS)
        assert not any(name in text for name in OWN_NAMES)

    if lens.hides_dates:
        assert not any(str(day) in text for day in MARKET.days)


identities = st.sampled_from([*CODES, *DIGITS, *DATES, *ALL_NAMES])
noise = st.text(
    st.sampled_from("0123456789 -_./年月,\"'aeJSH\\u\n\u200b６中国银行"), max_size=12
) | st.text(max_size=8)


@pytest.mark.slow
@examples(80, search=200)
@given(kind=kinds, parts=st.lists(identities | noise, max_size=8))
def test_what_was_redacted_passes_the_check_and_stays_so(kind, parts):
    guard = GUARDS[kind]
    redacted = guard.redact("".join(parts))
    guard.check(redacted)
    assert guard.redact(redacted) == redacted


jsons = st.recursive(
    identities
    | noise
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none()
    | st.sampled_from([int(digits) for digits in DIGITS])
    | st.integers(1990, 2039),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(identities | noise, part, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@examples(60, search=150)
@given(kind=kinds, value=jsons, ascii_only=st.booleans())
def test_redacted_json_is_json_and_passes_the_check(kind, value, ascii_only):
    guard = GUARDS[kind]
    redacted = guard.redact_json(json.dumps(value, ensure_ascii=ascii_only))
    guard.check(redacted)
    json.loads(redacted)


# --- redaction


@pytest.mark.parametrize("kind", ["blinded", "stock_blind"])
def test_arguments_one_character_from_scanned_ones_are_scanned_too(kind):
    guard = guard_of(kind)
    harmless = json.dumps({"stock_ids": ["asset_0001"], "note": "60900"})
    code = DIGITS[0]
    hidden = json.dumps({"stock_ids": ["asset_0001"], "note": code})

    for _ in range(3):
        assert guard.redact_json(harmless) == harmless
        assert code not in guard.redact_json(hidden)
        assert code in guard_of("bright").redact_json(hidden)


@on_each_row(
    "kind, text, sent",
    (
        "blinded",
        "Sell 600519.SH, it fell on 2024-01-02!",
        "Sell [withheld], it fell on [withheld]!",
    ),
    ("blinded", "平安银行 and Quillmark (6０0-519)", "[withheld] and [withheld] ([withheld])"),
    # A model may not be shown its guess at another stock either.
    ("blinded", "This looks like 601318 or ６00036.", "This looks like [withheld] or [withheld]."),
    ("date_blind", "like 601318", "like 601318"),
    ("bright", "600519.SH Quillmark 2024-01-02", "600519.SH Quillmark 2024-01-02"),
    ("blinded", ('{"k": 5,\n "x": 1}'), ('{"k": 5,\n "x": 1}')),
    ("blinded", '{"stock_id":"300059"}', '{"stock_id":"[withheld]"}'),
    ("blinded", '{"stock_id": "600519"}', '{"stock_id":"[withheld]"}'),
    ("blinded", '{"stock_id": 600519, "k": 5}', '{"stock_id":"[withheld]","k":5}'),
    ("blinded", '{"stock_id": "SH601318", "k": 5.5}', '{"stock_id":"[withheld]","k":5.5}'),
    ("blinded", '{"a": ["\\u0036\\u00300519"]}', '{"a":["[withheld]"]}'),
    (
        "blinded",
        '{"reason": "on 2024-01-02 it fell", "shares": 2010}',
        '{"reason":"on [withheld] it fell","shares":2010.0}',
    ),
    ("blinded", '{"600519": 1}', '{"[withheld]":1}'),
    (
        "date_blind",
        '{"day": 20251024, "k": [20240105, 5]}',
        '{"day":"[withheld]","k":["[withheld]",5]}',
    ),
    ("blinded", "not json 600519", "not json [withheld]"),
)
def test_only_the_identity_is_withheld_also_inside_json(kind, text, sent):
    assert GUARDS[kind].redact_json(text) == sent
    if not text.startswith("{"):
        assert GUARDS[kind].redact(text) == sent


@pytest.mark.parametrize(
    "text",
    [
        "601318",
        "CNY 600000",
        "600000 shares",
        "at most 300000",
        "cash: 600000",
        "123456",
        "1.601318",
    ],
)
def test_numbers_of_ours_that_could_be_a_foreign_code_are_no_leak(text):
    GUARDS["blinded"].check(text)
    assert text == "601318" or GUARDS["blinded"].redact(text) is text


def test_a_leak_names_kind_and_place_but_never_the_text():
    with pytest.raises(LeakError) as caught:
        GUARDS["blinded"].check("holding 600519.SH now", "a tool result")

    message = str(caught.value)

    assert "a tool result holds a security code at characters 8…17 of 21" in message
    assert "600519" not in message


@pytest.mark.parametrize(
    ("identity", "kind"),
    [("2024-01-02", "calendar date"), ("Quillmark", "company or industry name")],
)
def test_a_leaked_date_or_name_is_named_by_its_kind(identity, kind):
    with pytest.raises(LeakError, match=kind) as caught:
        GUARDS["blinded"].check(f"so {identity}")

    assert identity not in str(caught.value)


# -- texts in one spelling


@on_each_row(
    "text, plain",
    ("６００５１９", "600519"),
    ("𝟞𝟘𝟘𝟝𝟙𝟡", "600519"),
    ("٦٠٠٥١٩", "600519"),
    ("6️⃣0️⃣0️⃣", "600"),
    ("ＴＣＬ", "TCL"),
    ("ЅН", "SH"),
    ("é", "e"),
    ("6\u200b0\u200d0\ufeff5\xad1\u20609", "600519"),
    ("600\xa0519", "600 519"),
    ("600‑519", "600-519"),
    ("600−519", "600-519"),
    ("2024∕0１／02", "2024/01/02"),
    ("㋀", "1月"),
    ("万科Ａ", "万科A"),
    # JSON escapes become what they stand for, others as many spaces, so that no letter sticks to a word.
    ("\\u0036\\u00300519", "600519"),
    ("\\u8d35\\u5dde", "贵州"),
    ("\\ud835\\udfde", "6"),
    ("\\nJanuary\\t", "  January  "),
    ("Plain text, 12.5 % (T+1).", "Plain text, 12.5 % (T+1)."),
)
def test_characters_that_look_alike_become_one(text, plain):
    assert normalise(text) == plain


@pytest.mark.slow
@given(st.text(st.characters(codec=None), max_size=60) | st.text(r"\ud835fe0n" + "\\", max_size=40))
def test_the_places_of_a_folding_agree_with_it_and_ascend(text):
    folded, offsets = normalise_with_places(text)
    assert folded == normalise(text)
    assert len(offsets) == len(folded) + 1
    assert list(offsets) == sorted(offsets)
    assert all(0 <= offset <= len(text) for offset in offsets)


@pytest.mark.slow
@given(st.text(max_size=60))
def test_folding_twice_changes_nothing_where_there_are_no_escapes(text):
    folded = normalise(text.replace("\\", ""))
    assert normalise(folded.replace("\\", "")) == folded.replace("\\", "")


SHOWN = (
    "tasks/ktdeval_*/prompts/*.md",
    "tasks/ktdeval_markets/w*.yaml",
    "plugins/kits/ktdeval_memory/wording.yaml",
    "tasks/ktdeval_deanon/*_form.yaml",
    "tasks/ktdeval_memory_floor/*_forms.yaml",
    "plugins/ktdeval_agents/teams/*.yaml",
    "plugins/ktdeval_agents/wording.yaml",
    "ktdeval/harness/*.md",
    "ktdeval/harness/*.json",
)
"""Files of what a model is told."""


EXECUTIONS = (
    find_execution("sqrt"),
    Execution(half_spread_bps=5, max_participation=0.1, rest="carry"),
    Execution(spread="quotes"),
)
"""Executions that need all words which models are told of them."""


def test_no_ticker_or_name_that_is_a_word_of_a_prompt_stops_a_task():
    plugins = load_plugins()
    tools = plugins.tools(list(plugins.specs("tools")))
    paths = chain.from_iterable(REPOSITORY.glob(pattern) for pattern in SHOWN)
    texts = [path.read_text("utf-8") for path in paths]
    texts += [f"{tool.spec.description} {dict(tool.spec.parameters)}" for tool in tools]

    for module in (payloads, shown_state, price_tables):
        columns = [names for name, names in vars(module).items() if name.endswith("_COLUMNS")]
        texts += map(" ".join, columns)

    texts += map(execution_words, EXECUTIONS)
    texts += [COMPANY, PERSON, PRODUCT, PLACE, TERM, EVENT]
    for mask in MASK_KINDS:
        config = plugins.make_task("blinded_fixed_candidate")._config
        texts.append(
            replace(config, mask=mask).length_words(Window("", "2024-01-02", "2024-12-30"))
        )

    assert len(texts) > 40

    words = re.findall(r"(?<![A-Za-z])[A-Za-z]{3,}(?![A-Za-z])", "\n".join(texts).lower())
    assert sorted({*words} - COMMON_WORDS) == [], "add them to entity_words.csv"


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        (
            "Tonic Blue by Una Quill, and Quill again",
            "[withheld] by [withheld], and [withheld] again",
        ),
        ("飞天涨价", "[withheld]涨价"),
        ("Quill fell", "Quill fell"),
    ],
)
def test_products_and_persons_are_withheld_in_a_models_own_words(text, sent):
    entities = [
        Entity("600519.SH", "product", "飞天"),
        Entity("002304.SZ", "product", "Tonic Blue"),
        Entity("002304.SZ", "person", "Una Quill"),
    ]
    market = replace(MARKET, documents=Documents.of((), None, entities))

    assert LeakGuard(lens_of("blinded"), market).redact(text) == sent
    assert LeakGuard(lens_of("date_blind"), market).redact(text) == text


@pytest.mark.parametrize("reason", ["target", "Target rose", "well"])
def test_the_name_of_an_argument_stays_whatever_the_market_holds(reason):
    market = replace(MARKET, names=("Target Corporation", *MARKET.names[1:]))
    guard = LeakGuard(lens_of("blinded"), market)
    arguments = json.dumps({"orders": [{"target_weight": 0.1, "reason": reason}]})

    sent = guard.redact_json(arguments, frozenset({"orders", "target_weight", "reason"}))
    expected = {"target_weight": 0.1, "reason": "well"}
    if reason != "well":
        expected["reason"] = reason.replace("Target", "[withheld]").replace("target", "[withheld]")
    assert json.loads(sent) == {"orders": [expected]}
    assert "[withheld]" in guard.redact_json('{"target_price":1}', frozenset({"target_weight"}))


def test_a_common_word_is_an_identity_only_as_it_is_spelled():
    index = IdentityIndex(
        IdentifyingNames(("FORM", "ODD"), (), ("Target", "Form Factor", "other"), ("Technology",)),
        assets=True,
        dates=False,
    )

    assert not index.has_any(
        "a target_weight in this form, at odd times, of technology and other things"
    )
    assert all(map(index.has_any, ("FORM", "buy ODD", "Target rose", "Technology", "form factor")))


def test_prompt_with_a_common_word_of_the_market_is_refused_with_a_remedy():
    market = replace(MARKET, industries=("coins", *MARKET.industries[1:]))
    guard = LeakGuard(lens_of("blinded"), market)
    refused = error_lines(
        lambda: guard.check("the number of shares or coins", "a system message"),
        lambda: guard.check("we like Quillmark"),
        lambda: guard.check("at most 20240110 calls"),
    )
    assert refused == snapshot("""\
LeakError: leak guard: a system message holds 'coins', a code, name or industry of this market, at characters 24…29 of 29, which the mask hides; if it is only a word of a prompt, rename it in the market's source and import it again, or leave the asset out
LeakError: leak guard: text for the model holds a company or industry name at characters 8…17 of 17, which the mask hides; build it from payload field types (AssetRef, DayRef, SectorRef, …) instead of text
LeakError: leak guard: text for the model holds a calendar date at characters 8…16 of 22, which the mask hides; if it is a number in the task's config that looks like a date, choose another number; otherwise build it from payload field types (AssetRef, DayRef, SectorRef, …) instead of text
""")


@on_each_row(
    "letters, plain",
    ("\u0142\u0141", "lL"),  # with a stroke
    ("\u00f8\u00d8", "oO"),
    ("\u0131", "i"),  # without a dot
    ("\u029f\u1d00", "la"),  # small capitals
    ("\U0001f170", "A"),  # in a square
)
def test_a_variant_of_a_latin_letter_is_read_as_that_letter(letters: str, plain: str) -> None:
    assert normalise(letters) == plain
