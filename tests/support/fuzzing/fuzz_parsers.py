"""Parsers of untrusted bytes, each as a function of bytes, with inputs to begin from.

A parser returns or raises a typed error; anything else is a defect. `tests/contract/
test_fuzz_covers_parsers.yaml` names the modules that parse but have no entry here, with the reason.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

from support.fuzzing.fuzz_batches import batch_parsers
from support.fuzzing.fuzz_bridge import bridge_parsers, tool_parsers
from support.fuzzing.fuzz_files import files_of_users
from support.fuzzing.fuzz_judge import judge_parsers
from support.fuzzing.fuzz_judge_readers import program_file_parsers
from support.fuzzing.fuzz_kit import Parser, in_folder, of_file, text_of
from support.fuzzing.fuzz_markets import dated_parquet, files_of_markets
from support.fuzzing.fuzz_people import people_parsers
from support.fuzzing.fuzz_programs import program_parsers
from support.fuzzing.fuzz_reasons import reason_parsers
from support.paths import REPOSITORY

PRACTICE = REPOSITORY / "leaderboards" / "practice"


def first(pattern: str) -> bytes:
    return next(iter(sorted(PRACTICE.glob(pattern)))).read_bytes()


def packed_document(name: str, path: str) -> bytes:
    """A document of the sample of its format."""
    sample = REPOSITORY / f"tests/support/formats/0.1/{name}.tar.zst"
    data = zstandard.ZstdDecompressor().decompress(sample.read_bytes(), max_output_size=10**6)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        document = archive.extractfile(path)
        assert document is not None
        return document.read()


def parsers() -> dict[str, Parser]:
    """Return all parsers by name. Imports are inside: a run needs one of them."""
    of_untrusted = {**_values(), **_records(), **_plans(), **_replies(), **_tables(), **_services()}
    of_untrusted |= {**bridge_parsers(), **tool_parsers(), **program_parsers()}
    of_untrusted |= people_parsers()
    of_untrusted |= judge_parsers(packed_document("judge", "judged/judge.json"))
    of_untrusted |= program_file_parsers()
    of_untrusted |= reason_parsers()
    return {**of_untrusted, **files_of_users(), **files_of_markets(), **batch_parsers()}


def _values() -> dict[str, Parser]:
    from ktdeval.cards.card_reading import parse_card
    from ktdeval.cards.signatures import SIGNED_CARD, check_envelope, parse_envelope
    from ktdeval.cards.signing_keys import PrivateKey, read_private_key, read_public_key
    from ktdeval.values import loads_untrusted, parse_yaml, sha256_hex
    from ktdeval.values.options.user_input import parse_assignments

    own = PrivateKey.from_seed(bytes(32))
    trusted = {own.public.id: own.public}
    envelope = _envelope(own)

    return {
        "json": Parser(
            loads_untrusted,
            (b'{"a":[1,2.5,"x",null]}',),
            ("ktdeval/values/documents/strict_json.py",),
            (ValueError,),
        ),
        "yaml": Parser(
            lambda data: parse_yaml(data, "f.yaml"),
            (b"a: &x [1, 2]\nb: *x\n<<: {c: !!str 1}\n",),
            ("ktdeval/values/documents/yamlio.py",),
        ),
        "option values": Parser(
            lambda data: parse_assignments([text_of(data)], "--args"),
            (b"seed=1", b"a=[1,2]", b'x={"y":1}'),
            ("ktdeval/values/options/user_input.py",),
        ),
        "card": Parser(
            lambda data: parse_card(text_of(data), "card"),
            (first("cards/*/*/*/" + "[0-9a-f]" * 64 + ".json"),),
            (
                "ktdeval/cards/card_reading.py",
                "ktdeval/cards/fields/base_types.py",
                "ktdeval/cards/system.py",
            ),
        ),
        "signature": Parser(
            lambda data: check_envelope(data, sha256_hex(b"x"), SIGNED_CARD, trusted, "x.sig"),
            (envelope,),
            ("ktdeval/cards/signatures.py",),
        ),
        "signature form": Parser(lambda data: parse_envelope(data, "x.sig"), (envelope,), ()),
        "public key": Parser(
            of_file(read_public_key, "key.pub"),
            (own.public.to_pem(),),
            ("ktdeval/cards/signing_keys.py",),
        ),
        "private key": Parser(
            of_file(_private(read_private_key), "key"), (own.to_pem(""), own.to_pem("x")), ()
        ),
    }


def _private(read: Callable[..., object]) -> Callable[[Path], object]:
    def load(path: Path) -> object:
        path.chmod(0o600)
        return read(path, lambda: "x")

    return load


def _envelope(key: Any) -> bytes:
    from base64 import b64encode

    from ktdeval.cards.signatures import (
        SIGNED_CARD,
        Envelope,
        envelope_bytes,
        sign,
        statement_bytes,
    )
    from ktdeval.values import sha256_hex

    sha256 = sha256_hex(b"x")
    payload = b64encode(statement_bytes(sha256, SIGNED_CARD)).decode()

    return envelope_bytes(Envelope(payload=payload, signatures=(sign(sha256, SIGNED_CARD, key),)))


def _records() -> dict[str, Parser]:
    from ktdeval.calls.records.record import DamagedError, reply_of
    from ktdeval.runner.records.fork_document import load_fork
    from ktdeval.runner.records.leaderboard_registration import load_drawn_key
    from ktdeval.runner.records.ledger_file import load_ledger
    from ktdeval.runner.records.run_manifest import ManifestFile
    from ktdeval.runner.records.transplant_document import load_transplant
    from ktdeval.values import decode_json, open_unpacked
    from ktdeval_board.checking.record_sandbox import table_problem
    from ktdeval_board.read_documents import DOCUMENTS, read_untrusted
    from ktdeval_grid.coordination.claims import ClaimRecord
    from ktdeval_grid.coordination.heartbeats import Beat
    from ktdeval_grid.coordination.shared_sums import SumEntry

    records = {
        "manifest": Parser(
            lambda data: decode_json(data, ManifestFile, "manifest.json"),
            (first("records/*/manifest.json"),),
            ("ktdeval/runner/records/run_manifest.py",),
        ),
        "claim": Parser(
            lambda data: decode_json(data, ClaimRecord, "claim"),
            (b"{}",),
            ("ktdeval/stores/typed_files.py",),
        ),
        "heartbeat": Parser(
            lambda data: decode_json(data, Beat, "beat"),
            (b"{}",),
            ("ktdeval/stores/typed_files.py",),
        ),
        "sum log": Parser(
            lambda data: decode_json(data, SumEntry, "sum"),
            (b"{}",),
            ("ktdeval/stores/typed_files.py",),
        ),
        "cached reply": Parser(
            lambda data: reply_of(data, "cache"),
            (b"{}",),
            ("ktdeval/calls/records/record.py",),
            (DamagedError,),
        ),
        "fork": Parser(
            in_folder("fork.json", load_fork),
            (packed_document("fork", "run-fork/fork.json"),),
            (
                "ktdeval/runner/records/fork_document.py",
                "ktdeval/runner/records/result_documents.py",
            ),
        ),
        "transplant": Parser(
            in_folder("transplant.json", load_transplant),
            (packed_document("transplant", "run-transplanted/transplant.json"),),
            (
                "ktdeval/runner/records/transplant_document.py",
                "ktdeval/runner/records/result_documents.py",
            ),
        ),
        "ledger": Parser(
            of_file(load_ledger, "ledger.parquet"),
            (first("records/*/episodes/*/ledger.parquet"),),
            (
                "ktdeval/runner/records/ledger_file.py",
                "ktdeval/values/disk/decompression_limits.py",
            ),
        ),
        "board table": Parser(
            of_file(lambda path: table_problem(path, 10**8, 10**6), "board.parquet"),
            (first("records/*/episodes/*/ledger.parquet"), dated_parquet()),
            (),
        ),
        "transcript": Parser(
            of_file(_unpacked(open_unpacked), "transcript.jsonl.zst"),
            (first("records/*/episodes/*/transcript.jsonl.zst"),),
            (),
        ),
        "drawn key": Parser(
            of_file(lambda path: load_drawn_key(str(path)), "key.json"),
            (first("keys/*.json"),),
            ("ktdeval/runner/records/leaderboard_registration.py",),
        ),
    }
    seeds = {"submission": "cards/*/*/*/*.submission.json", "records": "cards/*/*/*/*.records.json"}

    for name, type_ in DOCUMENTS.items():
        modules = ("ktdeval_board/read_documents.py",) if name == "submission" else ()
        seed = first(seeds[name]) if name in seeds else b'{"schema_version":1}'
        load = of_file(
            lambda path, type_=type_: read_untrusted(path, type_, 10_000_000), "doc.json"
        )
        records[f"board {name}"] = Parser(load, (seed,), modules)

    return records


def _unpacked(opened: Callable[[Path], Any]) -> Callable[[Path], object]:
    def load(path: Path) -> object:
        from ktdeval.harness.steps.step_session import TranscriptEntry
        from ktdeval.values import decode_json

        with opened(path) as stream:
            for line in stream.read(1 << 20).splitlines()[:20]:
                decode_json(line, TranscriptEntry, "transcript")

        return None

    return load


def _plans() -> dict[str, Parser]:
    from ktdeval.calls.costs.prices import read_price_table
    from ktdeval.runner.plans.config import load_config
    from ktdeval_agents.role_graph import load_team
    from ktdeval_board.rules import load_rules
    from ktdeval_grid.planning.plan import load_plan as load_grid
    from ktdeval_live.plan import load_entrant, load_plan as load_live
    from ktdeval_live.record.chain import read_chain

    return {
        "run config": Parser(
            of_file(lambda path: load_config(path, {}), "run.yaml"),
            (b"model: builtin/momentum\ntasks: [blinded_open_research]\nseeds: 2\n",),
            ("ktdeval/runner/plans/config.py",),
        ),
        "price table": Parser(
            of_file(read_price_table, "prices.yaml"),
            (
                b"as_of: 2025-01-01\nsource: x\ncurrency: USD\nmodels: [{match: a/*, input: 1, output: 2}]\n",
            ),
            ("ktdeval/calls/costs/prices.py",),
        ),
        "team": Parser(
            of_file(load_team, "team.yaml"),
            (b"roles: {a: {prompt: x}}\nstages: [{roles: [a]}]\n",),
            ("ktdeval_agents/role_graph.py",),
        ),
        "grid plan": Parser(
            of_file(load_grid, "grid.yaml"),
            (b"models: [builtin/momentum]\ntasks: [blinded_open_research]\n",),
            ("ktdeval_grid/planning/plan.py",),
        ),
        "live plan": Parser(
            of_file(load_live, "live.yaml"), (b"name: x\n",), ("ktdeval_live/plan.py",)
        ),
        "entrant": Parser(of_file(load_entrant, "entrant.yaml"), (b"model: a/b\n",), ()),
        "live chain": Parser(
            of_file(read_chain, "chain.jsonl"),
            (b'{"number":1,"before":"","event":{"kind":"gap"}}\n',),
            ("ktdeval_live/record/chain.py",),
        ),
        "board rules": Parser(
            in_folder("board.yaml", load_rules),
            ((PRACTICE / "board.yaml").read_bytes(),),
            ("ktdeval_board/rules.py",),
        ),
    }


def _replies() -> dict[str, Parser]:
    from ktdeval.calls.failures.provider_errors import read_refusal, refusal_of
    from ktdeval.harness.tools.reading import json_object
    from ktdeval.harness.tools.written_calls import read_blocks, read_envelope, split_thought
    from ktdeval.observation.state_reading import shown_state
    from ktdeval_agents.answers import read_answers
    from ktdeval_models.remote.replies.read_tool_calls import is_object, loads_reply, sent_arguments

    block = b'Text\n```tool_call\n{"name":"get_bars","arguments":{"stock_id":"asset_0001"}}\n```\n'
    envelope = b'{"content":"x","tool_calls":[{"name":"f","arguments":{"a":[1,"}"]}}]}'
    refusal = b'{"error":{"message":"too long","type":"invalid_request_error","code":"x"}}'

    return {
        "provider reply": Parser(
            loads_reply,
            (envelope,),
            ("ktdeval_models/remote/replies/read_tool_calls.py",),
            (ValueError,),
        ),
        "provider error": Parser(
            lambda data: refusal_of(400, data, {"retry-after": "1"}),
            (refusal,),
            ("ktdeval/calls/failures/http_errors.py", "ktdeval/calls/failures/provider_errors.py"),
        ),
        "provider error body": Parser(
            lambda data: read_refusal(429, _json_or_text(data)), (refusal,), ()
        ),
        "written calls": Parser(
            lambda data: read_blocks(text_of(data)),
            (block,),
            ("ktdeval/harness/tools/written_calls.py",),
        ),
        "call envelope": Parser(lambda data: read_envelope(text_of(data)), (envelope,), ()),
        "thought": Parser(lambda data: split_thought(text_of(data)), (b"<think>a</think>b",), ()),
        "tool arguments": Parser(
            lambda data: json_object(text_of(data)),
            (b'{"stock_id":"asset_0001","lookback":3}',),
            ("ktdeval/harness/tools/reading.py",),
            (ValueError,),
        ),
        "sent arguments": Parser(
            lambda data: (is_object(text_of(data)), sent_arguments(text_of(data))),
            (b'{"a":1}',),
            (),
        ),
        "recorded prompt": Parser(
            lambda data: shown_state(text_of(data)),
            (b'x\n```json\n{"account":{}}\n```\n',),
            ("ktdeval/observation/state_reading.py",),
            (ValueError,),
        ),
        "team answers": Parser(
            lambda data: read_answers([text_of(data)]),
            (b'{"answers":[{"name":"a","value":1}]}',),
            ("ktdeval_agents/answers.py",),
        ),
    }


def _json_or_text(data: bytes) -> Any:
    from ktdeval.values import loads_untrusted

    try:
        return loads_untrusted(data)
    except ValueError:
        return text_of(data)


def _tables() -> dict[str, Parser]:
    import io

    import openpyxl
    import pandas as pd

    from ktdeval_board.exchange.every_eval_ever_import import import_results
    from ktdeval_qfinzero.scoring.sample_files import read_samples
    from ktdeval_tables.document_bars import bars_as_text
    from ktdeval_tables.options import ReadingOptions
    from ktdeval_tables.table_sources import open_source
    from ktdeval_tables.text_table import open_table
    from ktdeval_tables.workbook import sheet_as_text

    table = b"date,code,open,high,low,close,volume\n2024-01-02,600519,1,2,0.5,1.5,100\n"
    book = io.BytesIO()
    sheet = openpyxl.Workbook()
    sheet.active.append(["date", "code", "close"])
    sheet.active.append(["2024-01-02", "600519", 1.5])
    sheet.save(book)
    parquet = io.BytesIO()
    pd.DataFrame({"question": ["x"], "answer": [1]}).to_parquet(parquet)
    known = ("date", "code", "close")

    return {
        "market csv": Parser(
            of_file(lambda path: open_table(path, known, ReadingOptions()).header, "bars.csv"),
            (table, "日期;代码;收盘\n2024/1/2;600519;1,5\n".encode("gb18030")),
            (
                "ktdeval_tables/text_table.py",
                "ktdeval_tables/vendor_tables.py",
            ),
            (ValueError,),  # `read_table`, which calls it, makes a DataError of it
        ),
        "market json": Parser(
            of_file(lambda path: bars_as_text(open_source(path)), "bars.json"),
            (
                b'{"symbol":"A","data":[[1735171200000,1,2,0.5,1.5,100]]}',
                b'{"Meta":{"2. Symbol":"A"},"Daily":{"2024-01-02":{"4. close":"1.5"}}}',
            ),
            (
                "ktdeval_tables/document_bars.py",
                "ktdeval_tables/json_tables.py",
                "ktdeval_tables/table_sources.py",
            ),
            (ValueError,),  # as for a market csv
        ),
        "market xlsx": Parser(
            of_file(lambda path: sheet_as_text(path, lambda _: None), "bars.xlsx"),
            (book.getvalue(),),
            ("ktdeval_tables/workbook.py",),
        ),
        "samples jsonl": Parser(
            of_file(lambda path: read_samples(str(path)), "samples.jsonl"),
            (b'{"id":"1","question":"x","answer":1}\n',),
            ("ktdeval_qfinzero/scoring/sample_files.py",),
        ),
        "every_eval_ever record": Parser(
            of_file(lambda path: import_results(path, 1_000_000), "record.json"),
            ((REPOSITORY / "tests/support/board/every_eval_ever/record.json").read_bytes(),),
            ("ktdeval_board/exchange/every_eval_ever_import.py",),
        ),
    }


def _services() -> dict[str, Parser]:
    from ktdeval.runner import load_trust
    from ktdeval.runner.records.anchor_chain import load_anchors
    from ktdeval.runner.records.time_stamps import certificate_of, verified_time
    from ktdeval_live.plan import Stamping
    from ktdeval_qfinzero.access.guarded_dispatch import check_json
    from ktdeval_qfinzero.cursors import read_cursor, write_cursor
    from ktdeval_qfinzero.errors import ServiceError
    from ktdeval_qfinzero.pmb.log import read_lines
    from ktdeval_qfinzero.timestamps import parse_moment

    cursor = write_cursor("a", 1).encode()
    root = root_certificate()
    rule = Stamping(url="http://x", certificate=root)

    return {
        "qfinzero body": Parser(
            check_json,
            (b'{"order":{"qty":1}}',),
            ("ktdeval_qfinzero/access/guarded_dispatch.py",),
            (ServiceError,),
        ),
        "qfinzero cursor": Parser(
            lambda data: read_cursor(text_of(data), (str, int)),
            (cursor,),
            ("ktdeval_qfinzero/cursors.py",),
            (ServiceError,),
        ),
        "qfinzero moment": Parser(
            lambda data: parse_moment(text_of(data), "start"),
            (b"2025-01-06T14:30:00+02:00", b"2025-01-06"),
            (),
            (ServiceError,),
        ),
        "qfinzero log": Parser(
            lambda data: read_lines(text_of(data).splitlines()),
            (b'{"seq":1,"prev":"","kind":"x"}\n',),
            ("ktdeval_qfinzero/pmb/log.py",),
        ),
        "certificate of stamps": Parser(
            lambda data: certificate_of(text_of(data)),
            (root.encode(), of_another_version(root)),
            ("ktdeval/runner/records/time_stamps.py",),
        ),
        "roots that a reader trusts": Parser(
            of_file(load_trust, "roots.pem"),
            (root.encode(), of_another_version(root)),
            ("ktdeval/runner/records/time_authorities.py",),
        ),
        "authorities that a board trusts": Parser(
            of_file(load_trust, "board.yaml"),
            (b"time_authorities: [{name: a, sha256: '%s'}]\n" % (b"0" * 64),),
            (),
        ),
        "anchors of a run": Parser(
            of_file(load_anchors, "anchors.jsonl"),
            (
                b'{"body":{"authority":null,"episodes":[],"kind":"begun"},"previous":"%s"}\n'
                % (b"0" * 64),
            ),
            ("ktdeval/runner/records/anchor_chain.py",),
        ),
        "time stamp": Parser(
            lambda data: verified_time(data, "0" * 64, rule, "stamp"),
            (b"\x30\x03\x02\x01\x00", b"\x30\x80\x06\x09*\x86H\x86\xf7\r\x01\x07\x02\x00\x00"),
            (),
        ),
    }


def root_certificate() -> str:
    """Return a certificate that signs itself, in PEM."""
    from datetime import UTC, datetime

    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    key = Ed25519PrivateKey.from_private_bytes(bytes(32))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1)
    builder = builder.not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
    made = builder.not_valid_after(datetime(2040, 1, 1, tzinfo=UTC)).sign(key, None)

    return made.public_bytes(Encoding.PEM).decode()


def of_another_version(pem: str) -> bytes:
    """Return a certificate of version 67, which there is not."""
    from base64 import b64encode

    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    der = x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.DER)
    changed = der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x42", 1)

    assert changed != der

    begin = b"-----BEGIN CERTIFICATE-----\n"
    end = b"\n-----END CERTIFICATE-----\n"

    return begin + b64encode(changed) + end
