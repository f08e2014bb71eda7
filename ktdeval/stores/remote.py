"""Stores behind a URL, through fsspec: object stores, and memory for tests.

Retries are made here, so that each driver request is a single attempt. A `create` whose response
was lost is sent again, and then finds the object that it created: a mark in each object identifies
its writer.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from ktdeval.errors import StoreError, UsageError
from ktdeval.secrets.redaction import redact_secrets
from ktdeval.stores.drivers import DRIVERS, StoreDriver, error_code, is_transient
from ktdeval.stores.store import (
    MissingKey,
    NoConditionalWrites,
    Stat,
    StoreUnavailable,
    checked_key,
    checked_prefix,
    is_key,
)
from ktdeval.values.installation import install_command
from ktdeval.values.requests.secret_free_addresses import secret_in

T = TypeVar("T")

_LINE_BREAKS = re.compile(r"\s+")
_MAX_SHOWN = 300  # maximum characters of a driver's message
_SHOWN_WAIT_S = 5.0  # longer waits are shown to the user
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class RequestRetries:
    """Attempts per request, and the seconds between them. The wait is random, up to a bound that
    doubles from `first_s` to `max_s`.
    """

    attempts: int = 8
    first_s: float = 0.25
    max_s: float = 20.0


def open_remote(
    url: str, options: Mapping[str, Any] | None = None, retries: RequestRetries | None = None
) -> FsspecStore:
    """Return the store at a URL. `options` are driver options, which supplement the options from
    fsspec's own configuration.

    No request is made. Raises UsageError if the URL contains a password, if its scheme is unknown,
    or if the driver is not installed or rejects its options.
    """
    scheme = url.partition("://")[0]
    if secret_in(url) is not None:
        raise UsageError(
            f"{scheme}://…: must not hold a user or password, nor a key; use the driver's "
            "environment variables"
        )

    make, extra = DRIVERS.get(scheme.lower(), (StoreDriver, ""))
    try:
        driver = make(url, options or {})
    except ImportError as error:
        advice = install_command(extra) if extra else "install it with pip"
        raise UsageError(f"{url}: the driver can't be imported ({error}); {advice}") from error
    except (ValueError, TypeError, AttributeError, OSError) as error:
        # OSError: some drivers connect on creation. AttributeError: a driver needs an address in
        # its options, and it is missing.
        known = ", ".join(sorted(DRIVERS))
        raise UsageError(
            f"{url}: can't be opened: {_shown_error(error)}; known schemes: {known}"
        ) from error

    return FsspecStore(url, driver, retries or RequestRetries())


class FsspecStore:
    """A store behind a URL."""

    def __init__(self, url: str, driver: StoreDriver, retries: RequestRetries) -> None:
        self.place = url
        self._driver = driver
        self._retries = retries
        self._is_proved = False  # whether conditional writes have been tested
        self._proving = threading.Lock()

    def __repr__(self) -> str:
        return f"FsspecStore({self.place!r})"

    def local_path(self, key: str) -> None:
        """Return None, since keys of this store have no path."""
        checked_key(key)

    def read(self, key: str) -> bytes:
        """Return the bytes under a key. Raises MissingKey."""
        path = self._path(key)
        try:
            return self._ask(key, lambda: self._driver.read(path))
        except (FileNotFoundError, IsADirectoryError) as error:
            self._check_bucket(key, error)
            raise MissingKey(f"{self.place}: {key}: there is no such key") from None

    def exists(self, key: str) -> bool:
        """Return whether a key exists."""
        path = self._path(key)
        return self._ask(key, lambda: self._driver.head(path)) is not None

    def create(self, key: str, data: bytes) -> bool:
        """Write a new key and return True. Returns False if the key exists.

        Raises NoConditionalWrites.
        """
        path = self._path(key)
        try:
            self._prove()
            return self._create_at(path, data)
        except FileNotFoundError as error:
            self._fail(key, error)

    def _create_at(self, path: str, data: bytes) -> bool:
        key = path.removeprefix(self._driver.path("")).lstrip("/")
        mark = uuid.uuid4().hex
        try:
            self._ask(key, lambda: self._driver.create(path, data, mark))
        except FileExistsError:
            # The object may come from an earlier attempt of this call whose response was lost.
            return self._ask(key, lambda: self._driver.head(path)) == mark

        return True

    def replace(self, key: str, data: bytes) -> None:
        """Write a key, whether it exists or not."""
        path = self._path(key)
        try:
            self._ask(key, lambda: self._driver.replace(path, data))
        except (FileNotFoundError, FileExistsError) as error:
            self._fail(key, error)

    def list(self, prefix: str = "") -> Iterator[Stat]:
        """Yield the keys below a folder in code-point order."""
        folder = checked_prefix(prefix)
        root = self._driver.path("")
        listing = self._driver.list(
            self._driver.path(folder), lambda request: self._ask(folder, request)
        )
        try:
            for found in listing:
                key = found.key.removeprefix(root).lstrip("/")
                if is_key(key):
                    yield Stat(key, found.size, found.version)
        except FileNotFoundError as error:
            self._fail(folder, error)

    def delete(self, key: str) -> None:
        """Remove a key if it exists."""
        path = self._path(key)
        try:
            self._ask(key, lambda: self._driver.delete(path))
        except FileNotFoundError as error:
            self._check_bucket(key, error)

    def _path(self, key: str) -> str:
        return self._driver.path(checked_key(key))

    def _ask(self, key: str, request: Callable[[], T]) -> T:
        """Make a request, and retry it after transient errors.

        FileNotFoundError and FileExistsError are passed on. Raises StoreUnavailable if no attempt
        got a response, and StoreError if the request is rejected.
        """
        retrying = Retrying(
            stop=stop_after_attempt(self._retries.attempts),
            wait=wait_random_exponential(self._retries.first_s, self._retries.max_s),
            retry=retry_if_exception(is_transient),
            before_sleep=lambda state: self._tell_of_wait(key, state),
            reraise=True,
        )

        def request_alone() -> T:
            with self._driver.lock:
                return request()

        try:
            return retrying(request_alone)
        except (FileNotFoundError, FileExistsError, IsADirectoryError):
            raise
        except self._driver.errors as error:
            if is_transient(error):
                raise StoreUnavailable(
                    f"{self._where(key)}: no answer after {self._retries.attempts} attempts:"
                    f" {_shown_error(error)}; run the same command again when the store answers"
                ) from error

            self._fail(key, error)

    def _tell_of_wait(self, key: str, state: RetryCallState) -> None:
        """Tell the user about a long wait, and show the store's response."""
        wait_s = state.upcoming_sleep
        if wait_s >= _SHOWN_WAIT_S and state.outcome is not None:
            _LOG.warning(
                "%s: waiting %.0f s, attempt %d of %d (%s)",
                self._where(key),
                wait_s,
                state.attempt_number,
                self._retries.attempts,
                _shown_error(state.outcome.exception()),
            )

    def _fail(self, key: str, error: Exception) -> NoReturn:
        raise StoreError(
            f"{self._where(key)}: {_shown_error(error)}; check the address, the permissions and the"
            " driver's settings"
        ) from error

    def _check_bucket(self, key: str, error: Exception) -> None:
        """Raise StoreError if the whole bucket is missing, and not just the key."""
        if error_code(error) == "NoSuchBucket":
            self._fail(key, error)

    def _where(self, key: str) -> str:
        return f"{self.place}: {key}" if key else self.place

    def _prove(self) -> None:
        """Test conditional writes once, since servers that do not support the condition ignore it.

        Raises NoConditionalWrites.
        """
        with self._proving:
            if not self._is_proved:
                self._try_conditional_writes()
                self._is_proved = True

    def _try_conditional_writes(self) -> None:
        if self._driver.refusal:
            self._refuse(self._driver.refusal)

        path = self._driver.path(f".ktdeval-probe-{uuid.uuid4().hex}")
        try:
            if not self._create_at(path, b"first"):
                self._refuse("the server reported a new object as existing")
            if self._create_at(path, b"second"):
                self._refuse("the server ignores the condition of a write and overwrites")

            mark = self._ask("", lambda: self._driver.head(path))
            if self._driver.keeps_marks and not mark:
                self._refuse("the server does not store object metadata")
        finally:
            with suppress(FileNotFoundError):
                self._ask("", lambda: self._driver.delete(path))

    def _refuse(self, reason: str) -> NoReturn:
        raise NoConditionalWrites(
            f"{self.place}: processes can't claim work through this store: {reason}; use S3, Google"
            " Cloud Storage, Azure or a folder that all processes see"
        )


def _shown_error(error: BaseException | None) -> str:
    """Return the message of a driver's error on one line, without secrets from the environment."""
    text = _LINE_BREAKS.sub(" ", str(error)).strip() or type(error).__name__
    return redact_secrets(text, os.environ)[:_MAX_SHOWN]
