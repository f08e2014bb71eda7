"""Answers of a vendor: each is requested once, within the vendor's limits, and kept as received, so that a fetch can resume."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ktdeval.calls import RetryPolicy, one_line
from ktdeval.errors import DataError, ModelError
from ktdeval.jsonio import JsonValue, content_hash, dumps_canonical, loads_strict, make_folder, read_plain, write_atomic
from ktdeval_data.fetch.vendor import Answer, Request, Transport

LOG = "log.jsonl"
_RETRIES, _MOST_WAIT_S = 8, 1800.0
_REPORT_EVERY = 100  # requests


class Answers:
    """Folder of a vendor's answers, and the client for those that it lacks."""

    def __init__(
        self, vendor: str, folder: Path, connect: Callable[[], Transport], per_minute: int, tell: Callable[[str], None] = print
    ) -> None:
        """Keep answers of `vendor` in `folder`. `connect` is called at the first missing answer; `tell` reports the progress.

        Raises StoreError: the folder can't be made.
        """
        make_folder(folder)
        self._vendor, self._folder, self._connect, self._tell = vendor, folder, connect, tell
        self._transport: Transport | None = None
        self._pause_s, self._next_at = 60.0 / per_minute, 0.0
        self.asked, self.kept = 0, 0

    def ask(self, request: Request) -> Answer:
        """Return the answer to a request, from the folder if it is there. Raises DataError: the vendor refuses, does not answer
        after all attempts, or a kept answer is unreadable; UsageError: a library or key is missing; StoreError: no space.
        """
        key: JsonValue = {"vendor": self._vendor, "api": request.api, "params": dict(request.params)}
        path = self._folder / f"{self._vendor}-{request.api.replace('/', '-')}-{content_hash(key)[:20]}.json"
        if path.exists():
            self.kept += 1
            return self._read(path)
        self._transport = transport = self._transport or self._connect()
        answer = self._call(transport, request)
        text = self._hidden(dumps_canonical({**key, "columns": list(answer.columns), "rows": [list(row) for row in answer.rows]}))
        write_atomic(path, text)
        self._log(request, "answered", rows=len(answer.rows))
        self.asked += 1
        if self.asked % _REPORT_EVERY == 0:
            self._tell(f"{self._vendor}: {self.asked:,} requests answered, {self.kept:,} answers were there before")
        return self._read(path)

    def _call(self, transport: Transport, request: Request) -> Answer:
        def attempt() -> Answer:
            time.sleep(max(0.0, self._next_at - time.monotonic()))
            self._next_at = time.monotonic() + self._pause_s
            return transport.call(request)

        def notify(kind: str, wait_s: float, number: int, most: int) -> None:
            self._log(request, kind, wait_s=round(wait_s, 1), attempt=number)
            if wait_s >= 10:
                self._tell(f"{self._vendor}: {kind.replace('_', ' ')}, attempt {number} of {most}, waiting {wait_s:.0f} s")

        try:
            return RetryPolicy(_RETRIES, _MOST_WAIT_S).run(attempt, time.sleep, notify)
        except (DataError, ModelError) as error:
            self._log(request, "failed", error=str(error))
            later = "; the same command goes on from here, since answers are kept" if self.asked or self.kept else ""
            raise DataError(f"{one_line(str(error), transport.secrets)}{later}") from None

    def _read(self, path: Path) -> Answer:
        try:
            kept: Any = loads_strict(read_plain(path))
            width = len(kept["columns"])
            if any(len(row) != width for row in kept["rows"]):
                raise ValueError("rows and columns differ in length")
            return Answer([str(column) for column in kept["columns"]], kept["rows"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path}: not a kept answer ({error}); delete it to ask again") from error

    def _hidden(self, text: str) -> str:
        for secret in self._transport.secrets if self._transport else ():
            text = text.replace(secret, "[key]")
        return text

    def _log(self, request: Request, event: str, **facts: JsonValue) -> None:
        """Append a line to the log: time, request and result."""
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        line = {"time": moment, "api": request.api, "params": dict(request.params), "event": event, **facts}
        with (self._folder / LOG).open("a", encoding="utf-8") as stream:
            stream.write(self._hidden(json.dumps(line, ensure_ascii=False)) + "\n")
