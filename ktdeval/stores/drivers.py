"""What differs between fsspec's drivers: conditional writes, marks of writers, listings, errors.

A driver is S3 (s3fs), Google Cloud Storage (gcsfs), Azure (adlfs), memory, or any other that fsspec
knows. Others can be read and written, but not coordinated through: their `create` looks first and
writes then, so that two processes could both succeed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import fsspec

from ktdeval.stores.store import Stat

T = TypeVar("T")

_MARK = "ktdeval-write"  #: name of the metadata field that tells who made an object
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_TRANSIENT_CODES = frozenset(
    {"BadDigest", "IncompleteBody", "RequestTimeout", "XAmzContentSHA256Mismatch"}
)
_CONNECTION_TIMEOUT_S = 10
_READ_TIMEOUT_S = 60


@dataclass(frozen=True)
class ObjectHead:
    """What a store tells about an object: the mark of the write that made it, if it keeps one."""

    mark: str | None


class RetryingCall(Protocol):
    """Makes a request, again after errors that may pass, and returns its result."""

    def __call__(self, request: Callable[[], T], /) -> T:
        """Return the result of `request`."""


class StoreDriver:
    """A file system of fsspec, by its own means. Methods raise what fsspec's driver raises.

    `refusal` says why processes cannot coordinate through it; it is empty if they can.
    `errors` are what methods may raise, `connection_errors` those of a connection that failed.
    """

    refusal = "its driver has no conditional writes"
    keeps_marks = True
    errors: tuple[type[Exception], ...] = (OSError, ValueError)
    connection_errors: tuple[type[Exception], ...] = (ConnectionError, TimeoutError)

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.fs: Any
        self.root: str
        self.fs, self.root = fsspec.url_to_fs(
            url, skip_instance_cache=True, use_listings_cache=False, **options
        )

    def path(self, key: str) -> str:
        """Path of a key in the driver's form."""
        root = self.root.rstrip("/")
        return f"{root}/{key}" if key else root

    def read(self, path: str) -> bytes:
        """Bytes of an object, by one request: pieces could be of different versions."""
        data: bytes = self.fs.cat_file(path)
        return data

    def head(self, path: str) -> ObjectHead | None:
        """What is told about an object; None if there is none."""
        try:
            found = self.fs.info(path)
        except FileNotFoundError:
            return None
        return ObjectHead(self.mark_in(found)) if found["type"] == "file" else None

    def mark_in(self, found: Mapping[str, Any]) -> str | None:  # noqa: ARG002 - for others
        """Mark of the write that made an object, in what the driver tells of it."""
        return None

    def create(self, path: str, data: bytes, mark: str) -> None:
        """Write an object where there is none, with a mark. Raises FileExistsError."""
        self.fs.pipe_file(path, data, mode="create", **self.marked(mark))

    def marked(self, mark: str) -> dict[str, Any]:  # noqa: ARG002 - for others
        """Options of a write that keep its mark with the object."""
        return {}

    def replace(self, path: str, data: bytes) -> None:
        """Write an object."""
        self.fs.pipe_file(path, data)

    def delete(self, path: str) -> None:
        """Remove an object. May raise FileNotFoundError."""
        self.fs.rm_file(path)

    def list(self, path: str, ask: RetryingCall) -> Iterator[Stat]:
        """Objects below a path, with their whole paths as keys, in order; one folder in memory at a
        time. Each request is made by `ask`.
        """
        try:
            found = ask(lambda: self.fs.ls(path, detail=True))
        except FileNotFoundError:
            return

        for entry in sorted(found, key=_place_in_order):
            name = entry["name"]
            if name.rstrip("/") == path.rstrip("/"):  # some list the folder itself
                continue

            if entry["type"] == "directory":
                yield from self.list(name.rstrip("/"), ask)
            else:
                yield Stat(name, int(entry["size"]), _version(entry))


class MemoryDriver(StoreDriver):
    """Memory of this process: for tests. fsspec's look-up and write become one step by a lock."""

    refusal = ""
    keeps_marks = False  # no answer gets lost
    _lock = threading.RLock()

    def read(self, path: str) -> bytes:
        """Bytes of an object. Readers share its position, hence the lock."""
        with self._lock:
            return super().read(path)

    def create(self, path: str, data: bytes, mark: str) -> None:
        """Write an object where there is none."""
        with self._lock:
            super().create(path, data, mark)

    def replace(self, path: str, data: bytes) -> None:
        """Write an object."""
        with self._lock:
            super().replace(path, data)

    def delete(self, path: str) -> None:
        """Remove an object."""
        with self._lock:
            super().delete(path)

    def list(self, path: str, ask: RetryingCall) -> Iterator[Stat]:
        """Objects below a path, in order: all are in memory anyway."""
        with self._lock:
            found = ask(lambda: self.fs.find(path, detail=True))

        for name in sorted(found):
            if name.startswith(f"{path}/"):
                yield Stat(name, int(found[name]["size"]), _version(found[name]))


class S3Driver(StoreDriver):
    """S3 and what speaks like it, by s3fs: `If-None-Match: *`, listings page by page."""

    refusal = ""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        import aiohttp  # noqa: PLC0415 - brought by s3fs
        import s3fs  # noqa: F401, PLC0415 - the user's, by the extra
        from botocore.exceptions import (  # noqa: PLC0415 - likewise
            BotoCoreError,
            ClientError,
            HTTPClientError,
        )
        from botocore.parsers import ResponseParserError  # noqa: PLC0415 - likewise

        self.errors = (*StoreDriver.errors, BotoCoreError, ClientError, aiohttp.ClientError)
        self.connection_errors = (
            *StoreDriver.connection_errors,
            aiohttp.ClientConnectionError,
            aiohttp.ClientPayloadError,
            HTTPClientError,
            ResponseParserError,
        )
        settings = {
            "connect_timeout": _CONNECTION_TIMEOUT_S,
            "read_timeout": _READ_TIMEOUT_S,
            # Retries are the store's: those of botocore and s3fs would multiply them.
            "retries": {"total_max_attempts": 1},
        }
        own = dict(options)
        settings.update(fsspec.config.conf.get("s3", {}).get("config_kwargs", {}))
        settings.update(own.pop("config_kwargs", {}))
        # With one request at a time an object is read whole: pieces could be of two versions.
        super().__init__(url, {"max_concurrency": 1, "config_kwargs": settings, **own})
        self.fs.retries = 1

    def head(self, path: str) -> ObjectHead | None:
        """What is told about an object, by one request."""
        bucket, key, _ = self.fs.split_path(path)
        try:
            found = self.fs.call_s3("head_object", Bucket=bucket, Key=key)
        except FileNotFoundError:
            return None
        return ObjectHead(self.mark_in(found))

    def mark_in(self, found: Mapping[str, Any]) -> str | None:
        """Mark in an object's metadata."""
        mark: str | None = found.get("Metadata", {}).get(_MARK)
        return mark

    def marked(self, mark: str) -> dict[str, Any]:
        """Options that keep a mark in the metadata."""
        return {"Metadata": {_MARK: mark}}

    def list(self, path: str, ask: RetryingCall) -> Iterator[Stat]:
        """Objects below a path: a page of 1,000 in memory at a time."""
        bucket, prefix, _ = self.fs.split_path(path)
        request: dict[str, Any] = {"Bucket": bucket}
        if prefix:
            request["Prefix"] = f"{prefix}/"

        is_truncated = True
        while is_truncated:
            page = ask(lambda: self.fs.call_s3("list_objects_v2", **request))
            for entry in page.get("Contents", []):
                yield Stat(f"{bucket}/{entry['Key']}", entry["Size"], entry["ETag"].strip('"'))

            is_truncated = page.get("IsTruncated", False)
            if is_truncated:
                request["ContinuationToken"] = page["NextContinuationToken"]


class GcsDriver(StoreDriver):
    """Google Cloud Storage, by gcsfs: `ifGenerationMatch=0`."""

    refusal = ""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        import aiohttp  # noqa: PLC0415 - brought by gcsfs
        import gcsfs.retry  # noqa: PLC0415 - the user's, by the extra
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415 - likewise

        known = (gcsfs.retry.HttpError, GoogleAuthError, RuntimeError, aiohttp.ClientError)
        self.errors = (*StoreDriver.errors, *known)
        self.connection_errors = (
            *StoreDriver.connection_errors,
            aiohttp.ClientConnectionError,
            aiohttp.ClientPayloadError,
        )
        super().__init__(url, options)

    def mark_in(self, found: Mapping[str, Any]) -> str | None:
        """Mark in an object's metadata."""
        mark: str | None = (found.get("metadata") or {}).get(_MARK)
        return mark

    def marked(self, mark: str) -> dict[str, Any]:
        """Options that keep a mark in the metadata."""
        return {"metadata": {_MARK: mark}}


class AzureDriver(StoreDriver):
    """Azure's blobs, by adlfs: `If-None-Match: *`. adlfs sets all metadata itself, so that the mark
    is a parameter of the content type.
    """

    refusal = ""
    _TYPE = f"application/octet-stream; {_MARK}="

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        import adlfs  # noqa: F401, PLC0415 - the user's, by the extra
        from azure.core.exceptions import (  # noqa: PLC0415 - likewise
            AzureError,
            ServiceRequestError,
            ServiceResponseError,
        )

        self.errors = (*StoreDriver.errors, AzureError, RuntimeError)
        self.connection_errors = (
            *StoreDriver.connection_errors,
            ServiceRequestError,
            ServiceResponseError,
        )
        super().__init__(url, options)

    def mark_in(self, found: Mapping[str, Any]) -> str | None:
        """Mark in the content type."""
        settings = found.get("content_settings") or {}
        kind: str = settings.get("content_type") or ""
        return kind.removeprefix(self._TYPE) if kind.startswith(self._TYPE) else None

    def marked(self, mark: str) -> dict[str, Any]:
        """Options that keep a mark in the content type."""
        return {"content_settings": {"content_type": f"{self._TYPE}{mark}"}}

    def replace(self, path: str, data: bytes) -> None:
        """Write an object."""
        self.fs.pipe_file(path, data, overwrite=True)


class OtherDriver(StoreDriver):
    """A driver of fsspec that is not in `DRIVERS`: it brings the errors of libraries of its own."""

    errors = (Exception,)


DRIVERS: dict[str, tuple[type[StoreDriver], str]] = {
    "memory": (MemoryDriver, ""),
    "s3": (S3Driver, "s3"),
    "s3a": (S3Driver, "s3"),
    "gs": (GcsDriver, "gcs"),
    "gcs": (GcsDriver, "gcs"),
    "az": (AzureDriver, "azure"),
    "abfs": (AzureDriver, "azure"),
    "abfss": (AzureDriver, "azure"),
}
"""Scheme -> driver, and the extra that installs it."""


def is_transient(error: BaseException, driver: StoreDriver) -> bool:
    """Whether the same request may succeed after a driver raised an error."""
    if isinstance(error, driver.connection_errors):
        return True

    status, code = _answer_of(error)
    if status is not None:
        return status in _TRANSIENT_STATUS or code in _TRANSIENT_CODES

    return isinstance(error.__cause__, driver.connection_errors)


def _answer_of(error: BaseException) -> tuple[int | None, str]:
    """HTTP status of the answer that a driver's error stands for, and the code in it; None if there
    was no answer. Each SDK keeps them in a place of its own.
    """
    for cause in (error, error.__cause__):
        response = getattr(cause, "response", None)
        if isinstance(response, Mapping):  # botocore
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            return status, str(response.get("Error", {}).get("Code", ""))

        for name in ("status_code", "code", "status"):  # azure, gcsfs, aiohttp
            status = getattr(cause, name, None)
            if isinstance(status, int):
                return status, ""

    return None, ""


def error_code(error: BaseException) -> str:
    """Code in the answer that a driver's error stands for, such as `NoSuchBucket`, or `""`."""
    return _answer_of(error)[1]


def _place_in_order(entry: Mapping[str, Any]) -> str:
    """Sort key of an entry of a folder that gives its files in the order of their whole keys."""
    name: str = entry["name"].rstrip("/")
    return f"{name}/" if entry["type"] == "directory" else name


def _version(entry: Mapping[str, Any]) -> str:
    """What changes with an object's content, in the driver's own field."""
    for name in ("ETag", "etag", "generation", "mtime", "last_modified", "created"):
        if entry.get(name) is not None:
            return str(entry[name]).strip('"')

    return ""
