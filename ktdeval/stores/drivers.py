"""Differences between fsspec drivers: conditional writes, writer marks, listings and errors.

A driver is S3 (s3fs), Google Cloud Storage (gcsfs), Azure (adlfs), memory, or any other that fsspec
supports. Other drivers can be read and written, but not used for coordination: since their `create`
first checks and then writes, two processes could both succeed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import fsspec

from ktdeval.stores.store import Stat

_MARK = "ktdeval-write"  #: name of the metadata field that identifies who created an object
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_TRANSIENT_CODES = frozenset(
    {"BadDigest", "IncompleteBody", "RequestTimeout", "XAmzContentSHA256Mismatch"}
)
_CONNECTION_ERRORS = frozenset({
    *("ConnectionError", "TimeoutError"),
    *("ClientConnectionError", "ClientPayloadError"),  # aiohttp, which s3fs and gcsfs use
    *("HTTPClientError", "ResponseParserError"),  # botocore
    *("ServiceRequestError", "ServiceResponseError"),  # azure
})  # fmt: skip
_CONNECTION_TIMEOUT_S = 10
_READ_TIMEOUT_S = 60


Asking = Callable[[Callable[[], Any]], Any]
"""Makes a request, with retries after transient errors, and returns its result."""


class StoreDriver:
    """An fsspec file system, together with the driver-specific parts. Methods raise what fsspec's
    driver raises.

    `refusal` says why processes can't coordinate through the driver; empty if they can. `errors`
    are the exceptions that methods may raise; a driver that is not in `DRIVERS` adds the exceptions
    of its own libraries.
    """

    refusal = "its driver has no conditional writes"
    keeps_marks = True
    errors: tuple[type[Exception], ...] = (Exception,)
    lock: AbstractContextManager[Any] = nullcontext()  #: held during each request

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.fs: Any
        self.root: str
        self.fs, self.root = fsspec.url_to_fs(
            url, skip_instance_cache=True, use_listings_cache=False, **options
        )

    def path(self, key: str) -> str:
        """Return the path of a key in the form that the driver expects."""
        root = self.root.rstrip("/")
        return f"{root}/{key}" if key else root

    def read(self, path: str) -> bytes:
        """Return the bytes of an object in one request, since parts could come from different
        versions.
        """
        data: bytes = self.fs.cat_file(path)
        return data

    def head(self, path: str) -> str | None:
        """Return the mark of the write that created an object (empty if it has no mark); None if
        the object does not exist.
        """
        try:
            found = self.fs.info(path)
        except FileNotFoundError:
            return None
        return self.mark_in(found) if found["type"] == "file" else None

    def mark_in(self, found: Mapping[str, Any]) -> str:  # noqa: ARG002 - for others
        """Return the mark in a driver's description of an object; empty if it has no mark."""
        return ""

    def create(self, path: str, data: bytes, mark: str) -> None:
        """Write a new object with a mark. Raises FileExistsError if the object exists."""
        self.fs.pipe_file(path, data, mode="create", **self.mark_options(mark))

    def mark_options(self, mark: str) -> dict[str, Any]:  # noqa: ARG002 - for others
        """Return write options that store the mark with the object."""
        return {}

    def replace(self, path: str, data: bytes) -> None:
        """Write an object."""
        self.fs.pipe_file(path, data)

    def delete(self, path: str) -> None:
        """Remove an object. May raise FileNotFoundError."""
        self.fs.rm_file(path)

    def list(self, path: str, ask: Asking) -> Iterator[Stat]:
        """Yield the objects below a path in order, with their full paths as keys. Only one folder
        is in memory at a time. Each request is made through `ask`.
        """
        try:
            found = ask(lambda: self.fs.ls(path, detail=True))
        except FileNotFoundError:
            return

        for entry in sorted(found, key=_place_in_order):
            name = entry["name"]
            if name.rstrip("/") == path.rstrip("/"):  # some drivers list the folder itself
                continue

            if entry["type"] == "directory":
                yield from self.list(name.rstrip("/"), ask)
            else:
                yield Stat(name, int(entry["size"]), _version(entry))


class MemoryDriver(StoreDriver):
    """Memory of this process, for tests. A lock makes fsspec's look-up and write atomic."""

    refusal = ""
    keeps_marks = False  # no response gets lost
    errors = (OSError, ValueError)
    lock = threading.RLock()


class S3Driver(StoreDriver):
    """S3 and S3-compatible storage, through s3fs, with `If-None-Match: *` and paged listings."""

    refusal = ""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        import aiohttp  # noqa: PLC0415 - brought by s3fs
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - likewise

        self.errors = (OSError, ValueError, BotoCoreError, ClientError, aiohttp.ClientError)
        settings = {
            "connect_timeout": _CONNECTION_TIMEOUT_S,
            "read_timeout": _READ_TIMEOUT_S,
            # The store makes its own retries, which the retries of botocore and s3fs would
            # multiply.
            "retries": {"total_max_attempts": 1},
        }
        own = dict(options)
        settings.update(fsspec.config.conf.get("s3", {}).get("config_kwargs", {}))
        settings.update(own.pop("config_kwargs", {}))
        # With one request at a time, an object is read whole; otherwise its parts could come from
        # two versions.
        super().__init__(url, {"max_concurrency": 1, "config_kwargs": settings, **own})
        self.fs.retries = 1

    def head(self, path: str) -> str | None:
        """Return the mark of an object in one request."""
        bucket, key, _ = self.fs.split_path(path)
        try:
            found = self.fs.call_s3("head_object", Bucket=bucket, Key=key)
        except FileNotFoundError:
            return None
        return self.mark_in(found)

    def mark_in(self, found: Mapping[str, Any]) -> str:
        """Return the mark in an object's metadata."""
        return str(found.get("Metadata", {}).get(_MARK, ""))

    def mark_options(self, mark: str) -> dict[str, Any]:
        """Return options that store a mark in the metadata."""
        return {"Metadata": {_MARK: mark}}

    def list(self, path: str, ask: Asking) -> Iterator[Stat]:
        """Yield the objects below a path, with one page of 1,000 in memory at a time."""
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
    """Google Cloud Storage, through gcsfs, with `ifGenerationMatch=0`."""

    refusal = ""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        import aiohttp  # noqa: PLC0415 - brought by gcsfs
        from gcsfs.retry import HttpError  # noqa: PLC0415 - the user's, by the extra
        from google.auth.exceptions import GoogleAuthError  # noqa: PLC0415 - likewise

        own = (HttpError, GoogleAuthError, aiohttp.ClientError)
        self.errors = (OSError, ValueError, RuntimeError, *own)
        super().__init__(url, options)

    def mark_in(self, found: Mapping[str, Any]) -> str:
        """Return the mark in an object's metadata."""
        return str((found.get("metadata") or {}).get(_MARK, ""))

    def mark_options(self, mark: str) -> dict[str, Any]:
        """Return options that store a mark in the metadata."""
        return {"metadata": {_MARK: mark}}


class AzureDriver(StoreDriver):
    """Azure blobs, through adlfs, with `If-None-Match: *`. Since adlfs sets all metadata itself,
    the mark is stored as a parameter of the content type.
    """

    refusal = ""
    _TYPE = f"application/octet-stream; {_MARK}="

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        from azure.core.exceptions import AzureError  # noqa: PLC0415 - brought by adlfs

        self.errors = (OSError, ValueError, RuntimeError, AzureError)
        super().__init__(url, options)

    def mark_in(self, found: Mapping[str, Any]) -> str:
        """Return the mark in the content type."""
        settings = found.get("content_settings") or {}
        kind: str = settings.get("content_type") or ""
        return kind.removeprefix(self._TYPE) if kind.startswith(self._TYPE) else ""

    def mark_options(self, mark: str) -> dict[str, Any]:
        """Return options that store a mark in the content type."""
        return {"content_settings": {"content_type": f"{self._TYPE}{mark}"}}

    def replace(self, path: str, data: bytes) -> None:
        """Write an object."""
        self.fs.pipe_file(path, data, overwrite=True)


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


def is_transient(error: BaseException) -> bool:
    """Return whether a request that failed with this driver error may succeed if repeated."""
    if _is_of_connection(error):
        return True

    status, code = _answer_of(error)
    if status is not None:
        return status in _TRANSIENT_STATUS or code in _TRANSIENT_CODES

    return _is_of_connection(error.__cause__)


def _is_of_connection(error: BaseException | None) -> bool:
    """Return whether an error is a connection error. The error's name is compared, so that no
    library is imported.
    """
    return any(kind.__name__ in _CONNECTION_ERRORS for kind in type(error).__mro__)


def _answer_of(error: BaseException) -> tuple[int | None, str]:
    """Return the HTTP status and error code of the response behind a driver's error; None without
    a response. Each SDK stores them in a different place.
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
    """Return the error code in the response behind a driver's error, such as `NoSuchBucket`; empty
    if it has no code.
    """
    return _answer_of(error)[1]


def _place_in_order(entry: Mapping[str, Any]) -> str:
    """Return a sort key for a folder entry that puts files in the order of their full keys."""
    name: str = entry["name"].rstrip("/")
    return f"{name}/" if entry["type"] == "directory" else name


def _version(entry: Mapping[str, Any]) -> str:
    """Return the version of an object, from the driver-specific field that changes with the
    contents.
    """
    for name in ("ETag", "etag", "generation", "mtime", "last_modified", "created"):
        if entry.get(name) is not None:
            return str(entry[name]).strip('"')

    return ""
