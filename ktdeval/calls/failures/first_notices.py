"""Warnings about a run's first cut reply and its first call without a reply in time."""

from __future__ import annotations

import logging
import threading

from ktdeval.calls.failures.truncation import truncation_advice
from ktdeval.errors import ModelError
from ktdeval.harness.chat_messages import ModelRequest, Reply

_LOG = logging.getLogger(__name__)


class FirstNotices:
    """Warnings to the user, each given once for a model. Thread-safe."""

    def __init__(self, name: str) -> None:
        """`name`: full name of the model."""
        self._name = name
        self._lock = threading.Lock()
        self._given: set[str] = set()

    def _is_first(self, notice: str) -> bool:
        with self._lock:
            is_first = notice not in self._given
            self._given.add(notice)
            return is_first

    def tell_of_cut(self, request: ModelRequest, reply: Reply) -> None:
        """Warn about the first truncated reply, and say which limit to raise."""
        if reply.finish_reason != "length" or not self._is_first("cut"):
            return

        _LOG.warning(
            "%s: %s (shown once; cards count all such replies as truncated)",
            self._name,
            truncation_advice(request, reply),
        )

    def tell_of_timeout(self, error: ModelError) -> None:
        """Warn about the first call without a reply in time. It is tried again, and each attempt may
        be billed, so the user should know at once.
        """
        if error.kind == "timeout" and self._is_first("timeout"):
            _LOG.warning(
                "%s; each further attempt may be paid for, too: if the server is slow rather than"
                " stuck, stop with Ctrl-C and run the same command again with a longer limit"
                " (shown once)",
                error,
            )
