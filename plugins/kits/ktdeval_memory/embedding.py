"""Text embeddings.

There are three kinds: a local default that needs no download and gives the same vectors on every
machine; local sentence-transformers models, which are identified for verification by the hash of
their files; and models on an OpenAI-compatible server. Calls to a server go through the session:
texts pass the leak guard, and vectors are recorded in the transcript, from which they are read
during verification without a server.
"""

from __future__ import annotations

import base64
import itertools
import logging
import os
import re
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np
from numpy.typing import NDArray

from ktdeval.calls import (
    Caller,
    RetryPolicy,
    bad_response,
    check_base_url,
    first_contacts,
    http_error,
    is_outage,
    json_reply,
    network_error,
    wait_text,
)
from ktdeval.errors import ModelError, ProviderError, UsageError
from ktdeval.harness import StepSession
from ktdeval.values import (
    content_hash,
    dumps_canonical,
    file_sha256,
    import_problem,
    install_command,
    sha256_hex,
)
from ktdeval_memory.params import MemoryParams

Vectors = NDArray[np.float32]
Embedder = Callable[[Sequence[str]], Vectors]
"""Encodes texts as unit vectors (float32), [texts, floats]; a text without words may give all
zeros.
"""

_WORD = re.compile(r"\w+")
_SIZE = 256
_CACHED = 1 << 15  #: maximum number of cached vectors
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?")
_DIGITS = 32
_READ = {".json", ".txt", ".model", ".safetensors"}  # suffixes of the files of a model
_PICKLED = {".bin", ".pt", ".pth", ".pkl", ".ckpt"}
# timeout of a request to a server
_TIMEOUT_S = 60.0
_MAX_BYTES = 16 << 20
_RETRIES = RetryPolicy(max_retries=6, max_wait_s=120.0)
_LOG = logging.getLogger(__name__)
_ENCODING = threading.Lock()  # episodes run in threads, and a tokenizer handles one text at a time


class _CachingEmbedder:
    """Embeds each text separately, and caches the vectors by text."""

    def __init__(self, vector_of: Callable[[str], Vectors]) -> None:
        self._vector = lru_cache(_CACHED)(vector_of)

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return [texts, floats] unit vectors."""
        if not texts:
            return np.zeros((0, 1), np.float32)
        return np.stack([self._vector(text) for text in texts])


class HashingEmbedder(_CachingEmbedder):
    """Signed feature hashing of words and word pairs into a unit vector of 256 floats."""

    def __init__(self) -> None:
        super().__init__(_hash_words)


def _hash_words(text: str) -> Vectors:
    words = _WORD.findall(text.lower())
    pairs = [" ".join(pair) for pair in itertools.pairwise(words)]
    encoded = [gram.encode("utf-8", "replace") for gram in (*words, *pairs)]
    hashes = np.array(list(map(zlib.crc32, encoded)), np.uint32)
    signs = np.where(hashes >> np.uint32(31), np.float32(1), np.float32(-1))
    sums = np.bincount(hashes % _SIZE, signs, _SIZE)  # sums of integers are the same in any order

    return unit(np.asarray(sums, np.float64))


def unit(vector: NDArray[np.float64]) -> Vectors:
    """Return a vector scaled to unit length, as float32; a zero vector stays zero."""
    length = float(np.sqrt(np.sum(vector**2)))
    if length:
        vector = vector / length
    return vector.astype(np.float32)


class SentenceEmbedder(_CachingEmbedder):
    """A sentence-transformers model on the CPU. Each text is encoded separately, so that its vector
    does not depend on other texts.

    `name`: a folder in `$KTDEVAL_EMBEDDINGS`; nothing is downloaded. `weights`: hash of the model's
    files; if it is missing or wrong, the error shows the right hash. Raises UsageError if the
    package or the model is missing, or if the hash differs.
    """

    def __init__(self, name: str, weights: str) -> None:
        self._model = _load_model(name, weights)
        super().__init__(self._encode_text)

    def _encode_text(self, text: str) -> Vectors:
        with _ENCODING:
            encoded = self._model.encode([text], show_progress_bar=False)

        vector = np.asarray(encoded, np.float64).reshape(-1)
        if not np.isfinite(vector).all():
            raise UsageError(
                "embedding: the sentence-transformers model gives a vector that is not finite"
            )
        return unit(vector)


@lru_cache(2)  # each episode has a separate agent
def _load_model(name: str, weights: str) -> Any:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"embedding: {name[:80]!r} is not a model's name, such as"
            " sentence-transformers/all-MiniLM-L6-v2"
        )

    try:
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - an optional package
    except ImportError as error:
        problem = import_problem(error, "sentence_transformers")
        advice = install_command("sentence-transformers")
        raise UsageError(f"embedding=sentence:{name}: {problem}: {advice}") from None

    folder = Path(os.environ.get("KTDEVAL_EMBEDDINGS", ".")) / name
    if not (folder / "modules.json").is_file():
        problem = "the model is not here, and without it the agent's recall can't be repeated"
        raise UsageError(
            f"embedding=sentence:{name}: {problem}; put its files into the folder {name} of"
            " $KTDEVAL_EMBEDDINGS"
        )

    actual = weights_hash(folder)
    if weights != actual:
        requested = "the model must be named by its weights"
        if weights:
            requested = f"the run asks for weights={weights[:_DIGITS]}"

        raise UsageError(
            f"embedding=sentence:{name}: {requested}, those in {folder} are weights={actual}"
        )

    try:
        options = {"use_safetensors": True}
        return SentenceTransformer(
            str(folder),
            device="cpu",
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs=options,
        )
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, TypeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(
            f"embedding=sentence:{name}: {folder} can't be loaded: {first[:300]}"
        ) from error


def weights_hash(folder: Path) -> str:
    """Return the hash of a model's files, 32 hex digits. Raises UsageError if some weights are
    pickled, since reading them would run code.
    """
    files = []
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if not any(part.startswith(".") for part in parts):
            files.append(path)

    for path in files:
        is_pickled = path.suffix in _PICKLED
        is_of_other_runtime = path.parent.name in ("onnx", "openvino")
        has_safetensors = any(path.parent.glob("*.safetensors"))
        if is_pickled and not is_of_other_runtime and not has_safetensors:
            raise UsageError(
                f"embedding: {path}: pickled weights are not read; the folder needs them as"
                " .safetensors"
            )

    hashes: dict[str, str] = {}
    for path in files:
        if path.suffix in _READ and path.is_file():
            hashes[path.relative_to(folder).as_posix()] = file_sha256(path)

    return content_hash(hashes)[:_DIGITS]


# ---- models on a server


def _warn(*wait: Any) -> None:
    """Tell the user about a wait, because no progress bar shows it."""
    _LOG.warning("%s", wait_text(*wait))


class _NoRedirect(HTTPRedirectHandler):
    """Refuses redirects: neither the texts nor the key may be sent elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


class RemoteEmbedding:
    """A model on a server with `POST /embeddings`. Raises ConfigError if the address can't be used."""

    def __init__(self, params: MemoryParams) -> None:
        _, _, self._model = params.embedding.partition(":")
        self._floats = params.embedding_floats
        url = params.embedding_url or "https://api.openai.com/v1"
        self._url = check_base_url(url, "embedding_url")
        self._needs_key = not params.embedding_url
        self._variable = "OPENAI_API_KEY" if self._needs_key else "OPENAI_COMPATIBLE_API_KEY"
        self._is_answered = False  # whether the server has answered in this episode

    def ask(self, texts: Sequence[str]) -> list[str]:
        """Return the vector of each text as base64 of little-endian float32. Raises ModelError
        after retries. Raises ProviderError if every call would fail, if the server has never
        worked, or in an outage.
        """
        try:
            vectors = _RETRIES.run(
                lambda: self._attempt(texts), time.sleep, _warn, lambda _: self._is_answered
            )
        except ModelError as error:
            is_known = self._is_answered or first_contacts(error) is None
            if is_known and is_outage(error):
                raise ProviderError(
                    f"{error}; no decision was recorded for it: wait, or repair the server, then"
                    " run the same command again to resume"
                ) from error
            if is_known:
                raise

            raise ProviderError(
                f"{error}; it has not replied once: check embedding_url and the model in embedding"
            ) from error

        self._is_answered = True
        return vectors

    def _attempt(self, texts: Sequence[str]) -> list[str]:
        key = os.environ.get(self._variable, "").strip()
        if not key and self._needs_key:
            raise ProviderError(
                f"embedding=openai:{self._model}: no API key; set the environment variable"
                f" {self._variable}"
            )

        keys = (key,) if key else ()
        caller = Caller("embedding", self._model, self._url, (self._variable,), keys)
        body: dict[str, Any] = {
            "model": self._model,
            "input": list(texts),
            "encoding_format": "float",
        }
        if self._floats:
            body["dimensions"] = self._floats

        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"

        request = Request(f"{self._url}/embeddings", dumps_canonical(body).encode(), headers)  # noqa: S310 - http or https

        try:
            with build_opener(_NoRedirect).open(request, timeout=_TIMEOUT_S) as answer:
                content = answer.read(_MAX_BYTES + 1)
        except HTTPError as error:
            names = {name.lower(): value for name, value in error.headers.items()}
            raise http_error(error.code, error.read(_MAX_BYTES), names, caller, body) from None
        except (OSError, ValueError, HTTPException) as error:
            raise network_error(caller, str(error), isinstance(error, TimeoutError)) from None

        reply: dict[str, Any] = json_reply(content, caller, body)
        try:
            rows = {row["index"]: np.asarray(row["embedding"], "<f4") for row in reply["data"]}
            in_order = [rows[index].tobytes() for index in range(len(texts))]
            packed = [base64.b64encode(row).decode() for row in in_order]
        except (KeyError, TypeError, ValueError):
            raise bad_response(caller, "the reply has not a vector for each text") from None

        list(map(unit_vector, packed))  # raises if any vector is invalid
        return packed


@lru_cache(_CACHED)
def unit_vector(packed: str) -> Vectors:
    """Return a [floats] vector of unit length. Raises ModelError if the numbers are not finite."""
    try:
        vector = np.frombuffer(base64.b64decode(packed, validate=True), "<f4").astype(np.float64)
    except ValueError:
        vector = np.zeros(0)

    if not vector.size or not np.isfinite(vector).all():
        raise ModelError("bad_response", "embedding: a vector is not of finite numbers")

    return unit(vector)


class SessionEmbedder:
    """Embedder for one step. Vectors in `known`, keyed by text hash, are not requested again;
    `used` holds the vectors that the step used.
    """

    def __init__(
        self, remote: RemoteEmbedding, session: StepSession, known: dict[str, str]
    ) -> None:
        self._remote = remote
        self._session = session
        self._known = known
        self.used: dict[str, str] = {}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return [texts, floats] unit vectors. Raises ModelError if a call failed. Raises LeakError
        if a text contains a hidden identity.
        """
        keys = [sha256_hex(text)[:24] for text in texts]
        missing: dict[str, str] = {}
        for key, text in zip(keys, texts, strict=True):
            if key not in self._known:
                missing[key] = text

        if missing:
            vectors = self._session.embed(list(missing.values()), self._remote.ask)
            self._known |= zip(missing, vectors, strict=False)

        if not keys:
            return np.zeros((0, 1), np.float32)

        try:
            packed = [self._known[key] for key in keys]
            self.used |= zip(keys, packed, strict=True)
            return np.stack(list(map(unit_vector, packed)))
        except (KeyError, ValueError):
            raise ModelError(
                "bad_response", "embedding: not one vector of one length for each text"
            ) from None


# ---- the embedder of an agent


def make_embedder(params: MemoryParams) -> Embedder | RemoteEmbedding:
    """Return the embedder set in the agent's arguments. For a model on a server, return the server,
    from which each step makes its embedder. Raises UsageError if the arguments don't fit together.
    Raises ConfigError if an address can't be used.
    """
    kind, _, name = params.embedding.partition(":")
    is_remote = bool(params.embedding_url or params.embedding_floats)
    if kind == "openai" and name and not params.weights:
        return RemoteEmbedding(params)
    if kind == "sentence" and name and not is_remote:
        return SentenceEmbedder(name, params.weights)

    if params.embedding != "hashing" or params.weights or is_remote:
        forms = (
            "hashing, sentence:NAME with weights=HASH, or openai:NAME with embedding_url,"
            " embedding_floats"
        )
        raise UsageError(f"embedding={params.embedding[:80]!r}: give {forms}")

    return HashingEmbedder()
