"""Embeddings from a server or a local model; recorded, and refused with a one-line error if
unavailable.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import re
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from inline_snapshot import snapshot

from ktdeval import errors, evaluate
from ktdeval.errors import ConfigError, ProviderError, UsageError
from ktdeval.runner import pack_lines
from ktdeval.runner.records.episode_journal import unpack_lines
from ktdeval.testing import error_lines, on_each_row
from ktdeval.values import install_command, sha256_hex
from ktdeval_investorbench.finmem import FinmemAgent
from ktdeval_memory.embedding import (
    HashingEmbedder,
    RemoteEmbedding,
    SessionEmbedder,
    make_embedder,
    unit_vector,
    weights_hash,
)
from ktdeval_memory.params import MemoryParams
from support.providers.adapter_server import Prepared, PreparedServer, prepared
from support.runs.run_support import PLUGIN, SAME_MASK, episodes, ktdeval, records

KEY = "sk-stub-c0ffee-0123456789"


def packed(*floats: float) -> str:
    return base64.b64encode(np.array(floats, "<f4").tobytes()).decode()


def remote(url: str | None, floats: int = 0) -> RemoteEmbedding:
    return RemoteEmbedding(
        MemoryParams(embedding="openai:small", embedding_url=url, embedding_floats=floats)
    )


def answer(*rows: tuple[int, Any]) -> Prepared:
    return Prepared({"data": [{"index": index, "embedding": vector} for index, vector in rows]})


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    monkeypatch.setattr("time.sleep", lambda _: None)


def test_texts_are_sent_and_vectors_returned_in_order() -> None:
    with prepared(Prepared({}, 503), answer((1, [0, 2]), (0, [3, 4]))) as server:
        assert remote(server.address, 2).ask(["a", "é"]) == [packed(3, 4), packed(0, 2)]
        assert server.paths == ["/embeddings"] * 2  # once again after a 503
        assert server.bodies[1] == {
            "model": "small",
            "input": ["a", "é"],
            "encoding_format": "float",
            "dimensions": 2,
        }
        assert server.headers[1]["authorization"] == f"Bearer {KEY}"
        remote(f"{server.address}/").ask(["a", "b"])
        assert "dimensions" not in server.bodies[2]

    assert unit_vector(packed(3, 4)) == pytest.approx([0.6, 0.8])


@on_each_row(
    "body, status, error, kind, message",
    (
        {"data": [{"index": 0, "embedding": [1]}]},
        200,
        "ProviderError",
        None,
        "not a vector for each text",
    ),
    (
        {"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [2]}]},
        200,
        "ProviderError",
        None,
        "not a vector for each text",
    ),
    (
        {"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": ["x"]}]},
        200,
        "ProviderError",
        None,
        "not a vector for each text",
    ),
    (
        {"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": []}]},
        200,
        "ProviderError",
        None,
        "not of finite numbers",
    ),
    (
        '{"data": [{"index": 0, "embedding": [NaN]}]}',
        200,
        "ProviderError",
        None,
        "something other than a JSON object",
    ),
    ({"data": 3}, 200, "ProviderError", None, "not a vector for each text"),
    ("<html>", 200, "ProviderError", None, "an HTML page"),
    ({"error": {"message": "no key sk-stub-c0ffee-0123456789"}}, 401, "ProviderError", None, "key"),
    ({}, 302, "ProviderError", None, "302"),
    ({}, 500, "ProviderError", None, "500"),
    (
        {"error": {"message": "model small is not loaded"}},
        200,
        "ProviderError",
        None,
        "model small is not loaded; it has not replied once: check embedding_url",
    ),
)
def test_answers_that_are_none_are_typed_errors_without_the_key(
    body: Any, status: int, error: str, kind: str | None, message: str
) -> None:
    sent = Prepared(
        body.encode() if isinstance(body, str) else body,
        status,
        {"Location": "http://127.0.0.1:9/"},
    )

    with prepared(sent) as server, pytest.raises(getattr(errors, error), match=message) as caught:
        remote(server.address).ask(["a", "b"])

    assert getattr(caught.value, "kind", None) == kind
    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("first", "asked"), [(Prepared(b"<html>Log in</html>"), 1), (Prepared({"error": "no"}, 500), 3)]
)
def test_server_that_never_worked_is_given_up_soon_and_waits_are_explained(
    first: Prepared, asked: int, caplog: pytest.LogCaptureFixture
) -> None:
    with prepared(first) as server, pytest.raises(ProviderError, match="check embedding_url"):
        remote(server.address).ask(["a"])

    assert len(server.bodies) == asked
    assert len(caplog.messages) == asked - 1
    assert all("HTTP 500: no" in line for line in caplog.messages)


def test_a_server_that_has_worked_is_asked_again_after_a_page() -> None:
    page = Prepared(b"<html>Log in</html>")
    with prepared(answer((0, [1])), page, page, page, page, answer((0, [2]))) as server:
        embedding = remote(server.address)
        assert embedding.ask(["a"]) == [packed(1)]
        assert embedding.ask(["b"]) == [packed(2)]


def test_a_missing_server_and_a_missing_key_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ProviderError, match=r"can't be reached.*check embedding_url"):
        remote("http://127.0.0.1:9").ask(["a"])

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ProviderError, match="set the environment variable OPENAI_API_KEY"):
        remote(None).ask(["a"])


@on_each_row(
    "args, message",
    (
        {"embedding": "openai:x", "embedding_url": "ftp://a"},
        "embedding_url must be an http or https address",
    ),
    (
        {"embedding": "openai:x", "embedding_url": "http://u:secret@a"},
        "embedding_url holds a user, password",
    ),
    ({"embedding": "openai:"}, "give hashing"),
    ({"embedding": "openai:x", "weights": "a"}, "give hashing"),
    ({"embedding_url": "http://a"}, "give hashing"),
)
def test_parameters_that_are_not_usable_are_refused(args: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, UsageError), match=message) as caught:
        make_embedder(MemoryParams(**args))

    assert KEY not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_known_vectors_are_not_asked_for_and_lengths_must_agree() -> None:
    class Session:
        asked: list[list[str]] = []  # noqa: RUF012

        def embed(self, texts: list[str], ask: Any) -> list[str]:
            self.asked.append(texts)
            return [packed(len(text), 1) for text in texts][: 0 if "odd" in texts else None]

    session = Session()
    known = {sha256_hex("old")[:24]: packed(0, 5)}
    embed = SessionEmbedder(remote("http://a"), session, known)  # type: ignore[arg-type]
    vectors = embed(["new", "old", "new"])

    assert session.asked == [["new"]]
    assert (vectors[0] == vectors[2]).all()
    assert list(vectors[1]) == [0, 1]
    assert len(embed.used) == 2

    embed([f"text {number}" for number in range(70)])
    assert [len(texts) for texts in session.asked] == [1, 70]
    assert embed([]).shape[0] == 0

    embed._known[sha256_hex("long")[:24]] = packed(1, 2, 3)

    assert error_lines(
        lambda: embed(["odd"]),
        lambda: embed(["new", "long"]),
        lambda: unit_vector(packed(math.nan)),
    ) == snapshot("""\
ModelError: embedding: not one vector of one length for each text
ModelError: embedding: not one vector of one length for each text
ModelError: embedding: a vector is not of finite numbers
""")


# ---- whole runs


def vectors(first: int = 0, failures: int = 0) -> Callable[[Any], Prepared]:
    """Vectors of hashed words; after the first `first` calls, `failures` get a 503."""
    embed = HashingEmbedder()
    calls = itertools.count()

    def answer(body: Any) -> Prepared:
        if first <= next(calls) < first + failures:
            return Prepared({}, 503)

        rows = [
            {"index": number, "embedding": vector.tolist()}
            for number, vector in enumerate(embed(body["input"]))
        ]
        return Prepared({"object": "list", "data": rows[::-1]})

    return answer


def texts(server: PreparedServer) -> list[str]:
    """What it was sent."""
    return list(itertools.chain.from_iterable(body["input"] for body in server.bodies))


def words(server: PreparedServer, out: Path) -> tuple[Any, ...]:
    args = f"parameters=investorbench,embedding=openai:small,embedding_url={server.address}"
    return (
        "--plugin",
        PLUGIN,
        "--model",
        "test/naming",
        "--agent",
        "finmem",
        "--agent-args",
        args,
        *SAME_MASK,
        "--limit",
        "8",
        "--tasks",
        "investorbench_msft",
        "--data",
        "synthetic_investorbench",
        "--out",
        out,
        "--quiet",
    )


def verify(run: Path) -> Any:
    return ktdeval("card", "verify", run, "--plugin", PLUGIN, cwd=run.parent)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, PreparedServer]]:
    """A run, and its server."""
    folder = tmp_path_factory.mktemp("finmem")
    with prepared(vectors()) as server:
        done = ktdeval(
            *words(server, folder / "run"),
            cwd=folder,
            environment={"OPENAI_COMPATIBLE_API_KEY": KEY},
        )
        assert done.code == 0, done
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
        yield folder / "run", server


@pytest.mark.slow
def test_a_run_resumes_and_verifies_by_the_vectors_on_record(
    whole: tuple[Path, PreparedServer], tmp_path: Path
) -> None:
    environment = {"OPENAI_COMPATIBLE_API_KEY": KEY}
    server = whole[1]
    once = texts(server)
    dying = {**environment, "RUN_PLUGIN_DIE_AFTER_STEP": "4"}

    assert (
        ktdeval(*words(server, tmp_path / "run"), cwd=tmp_path, environment=dying).code
        == -signal.SIGKILL
    )
    assert (
        ktdeval(*words(server, tmp_path / "run"), cwd=tmp_path, environment=environment).code == 0
    )
    assert records(tmp_path / "run") == records(whole[0])
    assert verify(tmp_path / "run").code == 0
    assert texts(server) == once * 2  # nothing is asked again after the resume, or to verify
    assert once
    assert len(set(once)) == len(once)

    for word in ("MSFT", "Microsoft", "2020-", "2021-"):
        assert word not in "\n".join(once)  # what the mask hides does not leave

    for path in (tmp_path / "run").rglob("*"):
        assert path.is_dir() or KEY.encode() not in path.read_bytes()


@pytest.mark.exhaustive
def test_a_plan_asks_no_server_and_lessons_before_an_outage_are_remembered(tmp_path: Path) -> None:
    with prepared(vectors(first=40, failures=7)) as server:
        planned = ktdeval("plan", *words(server, tmp_path / "run")[:-1], cwd=tmp_path)
        assert (planned.code, server.bodies) == (0, [])

        args = {"embedding": "openai:small", "embedding_url": server.address}
        play = partial(
            evaluate,
            "builtin/recall",
            "investorbench_msft",
            agent="finmem",
            agent_args=args,
            data="synthetic_investorbench",
            out=str(tmp_path / "run"),
            limit=2,
            quiet=True,
        )
        with pytest.raises(ProviderError, match="no decision was recorded for it"):
            play()
        play()

    (episode,) = episodes(tmp_path / "run")
    first, second = unpack_lines(episode / "transcript.jsonl.zst", dict[str, Any], "transcript")[:2]

    assert all("error" not in each for each in first["embedded"])
    assert "warm-up; " in second["exchanges"][0]["sent"][-1]["content"]
    assert verify(tmp_path / "run").code == 0


@pytest.mark.exhaustive
def test_other_vectors_than_those_of_the_run_are_found(
    whole: tuple[Path, PreparedServer], tmp_path: Path
) -> None:
    shutil.copytree(whole[0], tmp_path / "run")
    (episode,) = episodes(tmp_path / "run")
    path = episode / "transcript.jsonl.zst"
    lines = unpack_lines(path, dict[str, Any], "transcript")
    at = next(number for number, line in enumerate(lines) if number and line.get("embedded"))
    before = json.dumps(lines)
    lines[at]["embedded"][0]["vectors"] = [packed(*range(1, 257))] * len(
        lines[at]["embedded"][0]["texts"]
    )

    assert json.dumps(lines) != before

    path.write_bytes(pack_lines(lines))
    assert verify(tmp_path / "run").code == 1

    del lines[at]["embedded"]
    path.write_bytes(pack_lines(lines))
    done = verify(tmp_path / "run")

    assert done.code == 1
    assert (
        "the agent requests vectors more often than the transcript has them" in done.out + done.err
    )


# -- local models


class Package:
    """`sentence_transformers` as far as it is used: vectors of a text's letters, and of how many
    texts came with it.
    """

    def __init__(self, folder: str, **options: Any) -> None:
        assert options == {
            "device": "cpu",
            "trust_remote_code": False,
            "local_files_only": True,
            "model_kwargs": {"use_safetensors": True},
        }

        if "broken" in Path(folder, "model.safetensors").read_text():
            raise ValueError("not a tensor\nmore")

    def encode(self, texts: list[str], show_progress_bar: bool) -> Any:
        assert not show_progress_bar
        return np.array([[float(len(text)), text.count("a"), len(texts)] for text in texts])


def made(embedding: str, weights: str) -> Any:
    return make_embedder(MemoryParams(embedding=embedding, weights=weights))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, and the package."""
    monkeypatch.setenv("KTDEVAL_EMBEDDINGS", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setitem(
        sys.modules, "sentence_transformers", SimpleNamespace(SentenceTransformer=Package)
    )  # type: ignore[arg-type]

    for name, text in (
        ("modules.json", "[]"),
        ("model.safetensors", tmp_path.name),
        ("README.md", "x"),
        (".cache/a.json", "{}"),
    ):
        path = tmp_path / "org" / "small" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return tmp_path


def test_embeddings_have_unit_length_and_do_not_depend_on_the_batch(home: Path) -> None:
    embed = made("sentence:org/small", weights_hash(home / "org" / "small"))
    vectors = embed(["aab", "", "b"])

    assert vectors.shape == (3, 3)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-6)
    assert vectors[0] == pytest.approx(np.array([3, 2, 1]) / 14**0.5)
    assert (embed(["b"])[0] == vectors[2]).all()
    assert len(embed([])) == 0
    assert FinmemAgent(
        MemoryParams(embedding="sentence:org/small", weights=weights_hash(home / "org" / "small"))
    )


def test_the_hash_is_that_of_the_files_that_are_read(home: Path) -> None:
    folder = home / "org" / "small"
    first = weights_hash(folder)
    (folder / "README.md").write_text("y")
    (folder / ".cache" / "a.json").write_text("[]")

    assert weights_hash(folder) == first

    (folder / "modules.json").write_text("[1]")
    assert weights_hash(folder) != first

    (folder / "pytorch_model.bin").write_text("")  # beside safe weights it is not read
    weights_hash(folder)
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "pytorch_model.bin").write_text("")

    with pytest.raises(UsageError, match=r"pytorch_model\.bin: pickled weights are not read"):
        weights_hash(folder)


@on_each_row(
    "embedding, weights, message",
    (
        "sentence:org/small",
        "",
        (
            "embedding=sentence:org/small: the model must be named by its weights, those in .* "
            "are weights=HASH"
        ),
    ),
    (
        "sentence:org/small",
        "0000000000000000000000000000000000000000",
        "the run asks for weights=0{32}, those in .* are weights=HASH",
    ),
    (
        "sentence:org/other",
        "HASH",
        "the model is not here, .* put its files into the folder org/other of .KTDEVAL_EMBEDDINGS",
    ),
    ("sentence:../small", "HASH", "'../small' is not a model's name"),
    ("sentence:/etc", "HASH", "'/etc' is not a model's name"),
    ("sentence:", "HASH", "give hashing, sentence:NAME with weights="),
    ("openai:x", "HASH", "give hashing, sentence:NAME"),
    ("hashing", "HASH", "give hashing, sentence:NAME"),
)
def test_another_model_than_the_runs_is_refused(
    home: Path, embedding: str, weights: str, message: str
) -> None:
    actual = weights_hash(home / "org" / "small")
    with pytest.raises(UsageError, match=message.replace("HASH", actual)):
        made(embedding, weights.replace("HASH", actual))


def test_a_missing_package_and_an_invalid_model_file_are_reported(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "org" / "small" / "model.safetensors").write_text("broken")
    weights = weights_hash(home / "org" / "small")
    with pytest.raises(UsageError, match=r"can't be loaded: not a tensor$"):
        made("sentence:org/small", weights)

    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(UsageError, match=re.escape(install_command("sentence-transformers"))):
        made("sentence:org/small", weights)
