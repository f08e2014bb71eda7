"""A person at a local web page: the desk, with a server that answers one browser."""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Callable

from ktdeval.errors import ProviderError, os_reason
from ktdeval_human import PageParams
from ktdeval_human.moments import Moments
from ktdeval_human.page_server import PageServer
from ktdeval_human.person import Act, Person, check_name
from ktdeval_human.shown import ShownRequest


class PageDesk:
    """Desk of a person at a page. The address is printed once; its token admits one browser."""

    def __init__(self, port: int, tell: Callable[[str], None]) -> None:
        """Serve the page, and pass its address to `tell`.

        Raises ProviderError if the port is not available.
        """
        self.moments = Moments()
        token = secrets.token_urlsafe(24)
        try:
            self._server = PageServer(port, token, self.moments)
        except OSError as error:
            raise ProviderError(
                f"human/page: can't listen on 127.0.0.1 port {port}:"
                f" {os_reason(error, 'choose another --model-args port=N')}"
            ) from error

        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
        )
        self._thread.start()
        self.address = f"{self._server.address}/open/{token}"
        tell(f"human/page: open {self.address} in a browser of this machine (once)")

    def ask(self, moment: ShownRequest) -> Act:
        """Show a moment and wait for the person's action; see `Desk`."""
        return self.moments.ask(moment)

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def at_page(_name: str, params: PageParams) -> Person:
    """Return a person at a local web page.

    Raises ConfigError if the name is not valid.
    """
    check_name(params.who)
    return Person(lambda: open_page(params.port))


def open_page(port: int) -> PageDesk:
    """Return the desk at a page, and write its address to stderr."""
    return PageDesk(port, _tell)


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
