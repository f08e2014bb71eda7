"""Embeddings of an OpenAI-compatible server. They go through the session: texts pass the leak guard, and vectors are recorded in
the transcript, from which a verification takes the same vectors without a server.
"""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Sequence
from functools import lru_cache
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import numpy as np

from ktdeval.calls import Caller, RetryPolicy, bad_response, check_base_url, http_error, json_reply, network_error
from ktdeval.errors import ModelError, ProviderError
from ktdeval.harness import StepSession
from ktdeval.jsonio import dumps_canonical, sha256_hex
from ktdeval_investorbench.embedding import CACHED, Vectors, unit
from ktdeval_investorbench.params import FinmemParams

_TIMEOUT_S, _MOST_BYTES = 60.0, 16 << 20
_RETRIES = RetryPolicy(max_retries=6, max_wait_s=120.0)


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


@lru_cache(CACHED)
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
