"""Embeddings of texts: a local default without download and equal on every machine; local models of sentence-transformers, named by
the hash of their files for verification; and models of an OpenAI-compatible server. The last go through the session: texts pass the
leak guard, and vectors are recorded in the transcript, from which a verification takes the same vectors without a server.
"""

from __future__ import annotations

import base64
import itertools
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

from ktdeval.calls import Caller, RetryPolicy, bad_response, check_base_url, http_error, json_reply, network_error
from ktdeval.errors import ModelError, ProviderError, UsageError
from ktdeval.harness import StepSession
from ktdeval.jsonio import content_hash, dumps_canonical, file_sha256, sha256_hex
from ktdeval_investorbench.params import FinmemParams

Vectors = NDArray[np.float32]
Embedder = Callable[[Sequence[str]], Vectors]
"""Encodes texts as [texts, floats] unit vectors (float32); that of a text without words may be all 0."""

_WORD = re.compile(r"\w+")
_SIZE = 256
_CACHED = 1 << 15  #: vectors kept by text
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*)?")
_DIGITS = 32
_READ = {".json", ".txt", ".model", ".safetensors"}  # files of a model
_PICKLED = {".bin", ".pt", ".pth", ".pkl", ".ckpt"}
_TIMEOUT_S, _MOST_BYTES = 60.0, 16 << 20  # of a request to a server
_RETRIES = RetryPolicy(max_retries=6, max_wait_s=120.0)
_ENCODING = threading.Lock()  # episodes run in threads, and tokenizers take one text at a time


class _CachingEmbedder:
    """Embeds each text separately, with a cache of vectors by text."""

    def __init__(self, vector_of: Callable[[str], Vectors]) -> None:
        self._vector = lru_cache(_CACHED)(vector_of)

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return [texts, floats] unit vectors."""
        return np.stack([self._vector(text) for text in texts]) if texts else np.zeros((0, 1), np.float32)


class HashingEmbedder(_CachingEmbedder):
    """Signed hashing of words and pairs of words to 256 floats of unit length."""

    def __init__(self) -> None:
        super().__init__(_hashed)


def _hashed(text: str) -> Vectors:
    words = _WORD.findall(text.lower())
    grams = [*words, *(" ".join(pair) for pair in itertools.pairwise(words))]
    hashes = np.array([zlib.crc32(gram.encode("utf-8", "replace")) for gram in grams], np.uint32)
    signs = np.where(hashes >> np.uint32(31), np.float32(1), np.float32(-1))
    sums = np.bincount(hashes % _SIZE, signs, _SIZE)  # whole numbers: the same in any order
    return unit(np.asarray(sums, np.float64))


def unit(vector: NDArray[np.float64]) -> Vectors:
    """Return a vector at unit length, float32; 0 stays 0."""
    length = float(np.sqrt(np.sum(vector**2)))
    return (vector / length if length else vector).astype(np.float32)


class SentenceEmbedder(_CachingEmbedder):
    """A sentence-transformers model on the CPU. Each text is encoded alone, so that its vector does not depend on the others.

    `name`: a folder of `$KTDEVAL_EMBEDDINGS`; nothing is downloaded. `weights`: hash of its files; the error for a missing or wrong
    one shows it. Raises UsageError: the package or the model is missing, or the hash differs.
    """

    def __init__(self, name: str, weights: str) -> None:
        self._model = _loaded(name, weights)
        super().__init__(self._encoded)

    def _encoded(self, text: str) -> Vectors:
        with _ENCODING:
            vector = np.asarray(self._model.encode([text], show_progress_bar=False), np.float64).reshape(-1)
        if not np.isfinite(vector).all():
            raise UsageError("embedding: the sentence-transformers model gives a vector that is not finite")
        return unit(vector)


@lru_cache(2)  # agents are made for each episode
def _loaded(name: str, weights: str) -> Any:
    if not _NAME.fullmatch(name):
        raise UsageError(f"embedding: {name[:80]!r} is not a model's name, such as sentence-transformers/all-MiniLM-L6-v2")
    try:
        from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - an optional package
    except ImportError:
        problem = "the package sentence-transformers is not installed: pip install 'ktdeval[sentence-transformers]'"
        raise UsageError(f"embedding=sentence:{name}: {problem}") from None
    folder = Path(os.environ.get("KTDEVAL_EMBEDDINGS", ".")) / name
    if not (folder / "modules.json").is_file():
        problem = "the model is not here, and without it the agent's recall can't be repeated"
        raise UsageError(f"embedding=sentence:{name}: {problem}; put its files into the folder {name} of $KTDEVAL_EMBEDDINGS")
    actual = weights_hash(folder)
    if weights != actual:
        requested = f"the run asks for weights={weights[:_DIGITS]}" if weights else "the model must be named by its weights"
        raise UsageError(f"embedding=sentence:{name}: {requested}, those in {folder} are weights={actual}")
    try:
        options = {"use_safetensors": True}
        return SentenceTransformer(str(folder), device="cpu", trust_remote_code=False, local_files_only=True, model_kwargs=options)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, TypeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UsageError(f"embedding=sentence:{name}: {folder} can't be loaded: {first[:300]}") from error


def weights_hash(folder: Path) -> str:
    """Return the hash of a model's files, 32 hex digits. Raises UsageError: some weights are pickled; reading them runs code."""
    files = sorted(path for path in folder.rglob("*") if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    for path in files:
        if path.suffix in _PICKLED and path.parent.name not in ("onnx", "openvino") and not any(path.parent.glob("*.safetensors")):
            raise UsageError(f"embedding: {path}: pickled weights are not read; the folder needs them as .safetensors")
    read = [path for path in files if path.suffix in _READ and path.is_file()]
    return content_hash({path.relative_to(folder).as_posix(): file_sha256(path) for path in read})[:_DIGITS]


# ---- models of a server


class _NoRedirect(HTTPRedirectHandler):
    """No API has a reason to have texts and a key sent elsewhere."""

    def redirect_request(self, *_: Any) -> None:
        return None


class RemoteEmbedding:
    """A model of a server that speaks `POST /embeddings`. Raises ConfigError: the address is not usable."""

    def __init__(self, params: FinmemParams) -> None:
        self._model, self._floats = params.embedding.partition(":")[2], params.embedding_floats
        self._url = check_base_url(params.embedding_url or "https://api.openai.com/v1", "embedding_url")
        self._needs_key = not params.embedding_url
        self._variable = "OPENAI_API_KEY" if self._needs_key else "OPENAI_COMPATIBLE_API_KEY"

    def ask(self, texts: Sequence[str]) -> list[str]:
        """Return the vector of each text as base64 of little-endian float32. Raises ModelError after retries; ProviderError."""
        return _RETRIES.run(lambda: self._attempt(texts), time.sleep, lambda *_: None)

    def _attempt(self, texts: Sequence[str]) -> list[str]:
        key = os.environ.get(self._variable, "").strip()
        if not key and self._needs_key:
            raise ProviderError(f"embedding=openai:{self._model}: no API key; set the environment variable {self._variable}")
        caller = Caller("embedding", self._model, self._url, (self._variable,), (key,) if key else ())
        body: dict[str, Any] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        body |= {"dimensions": self._floats} if self._floats else {}
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        request = Request(f"{self._url}/embeddings", dumps_canonical(body).encode(), headers)  # noqa: S310 - http or https
        try:
            with build_opener(_NoRedirect).open(request, timeout=_TIMEOUT_S) as answer:
                content = answer.read(_MOST_BYTES + 1)
        except HTTPError as error:
            names = {name.lower(): value for name, value in error.headers.items()}
            raise http_error(error.code, error.read(_MOST_BYTES), names, caller, body) from None
        except (OSError, ValueError, HTTPException) as error:
            raise network_error(caller, str(error), isinstance(error, TimeoutError)) from None
        reply: dict[str, Any] = json_reply(content, caller, body)
        try:
            rows = {row["index"]: np.asarray(row["embedding"], "<f4") for row in reply["data"]}
            packed = [base64.b64encode(rows[index].tobytes()).decode() for index in range(len(texts))]
        except (KeyError, TypeError, ValueError):
            raise bad_response(caller, "the reply has not a vector for each text") from None
        list(map(unit_vector, packed))  # raises if one is invalid
        return packed


@lru_cache(_CACHED)
def unit_vector(packed: str) -> Vectors:
    """Return [floats] of unit length. Raises ModelError: they are not finite numbers."""
    try:
        vector = np.frombuffer(base64.b64decode(packed, validate=True), "<f4").astype(np.float64)
    except ValueError:
        vector = np.zeros(0)
    if not vector.size or not np.isfinite(vector).all():
        raise ModelError("bad_response", "embedding: a vector is not of finite numbers")
    return unit(vector)


class SessionEmbedder:
    """Embedder of one step: vectors in `known`, by hash of the text, are not requested again; `used` holds those in use."""

    def __init__(self, remote: RemoteEmbedding, session: StepSession, known: dict[str, str]) -> None:
        self._remote, self._session, self._known = remote, session, known
        self.used: dict[str, str] = {}

    def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return [texts, floats] unit vectors. Raises ModelError: a call failed; LeakError: a text holds a hidden identity."""
        keys = [sha256_hex(text)[:24] for text in texts]
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if missing:
            self._known |= zip(missing, self._session.embed(list(missing.values()), self._remote.ask), strict=False)
        try:
            self.used |= {key: self._known[key] for key in keys}
            return np.stack([unit_vector(self._known[key]) for key in keys]) if keys else np.zeros((0, 1), np.float32)
        except (KeyError, ValueError):
            raise ModelError("bad_response", "embedding: not one vector of one length for each text") from None
