"""Requests of a run that have no reply yet, collected by a dry run of the steps."""

from __future__ import annotations

from ktdeval.calls.batches.batch_client import BatchClient
from ktdeval.calls.pending_call import WantedReply
from ktdeval.errors import KtdevalError
from ktdeval.harness.chat_messages import ModelRequest, Reply


class NotAsked(KtdevalError):
    """A request has no reply yet, so the step that makes it can't continue."""


class WantedRequests:
    """Requests without a reply that the steps of a run make. Equal requests are sent once."""

    def __init__(self, client: BatchClient) -> None:
        self._client = client
        self._keys: set[str] = set()
        self.found: list[WantedReply] = []

    def of(self, episode: str) -> WantingModel:
        """Return the model that collects the requests of an episode."""
        return WantingModel(self._client, self, episode)

    def add(self, wanted: WantedReply) -> None:
        """Add a request if it can be sent and is not a duplicate."""
        is_awaited = self._client.awaits(wanted.position)
        if not self._client.can_ask(wanted) or (wanted.key in self._keys and not is_awaited):
            return

        self._keys.add(wanted.key)
        self.found.append(wanted)


class WantingModel:
    """Model for one episode that returns known replies. The first request in a step that has no
    reply is added to the wanted requests. `step` is the number of the current step.
    """

    def __init__(self, client: BatchClient, requests: WantedRequests, episode: str) -> None:
        self._client = client
        self._requests = requests
        self._episode = episode
        self.step = 0

    def reply(self, request: ModelRequest) -> Reply:
        """Return the known reply to a request. Raises NotAsked if there is no reply yet."""
        wanted = self._client.make_wanted(self._episode, self.step, request)
        reply = self._client.find_reply(wanted)
        if reply is not None:
            return reply

        self._requests.add(wanted)
        raise NotAsked("a request that has no reply yet")
