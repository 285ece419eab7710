"""Serving the lab: a port that is free, a server that ends cleanly, and the browser opened when it answers."""

import errno
import ipaddress
import socket
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

import uvicorn

from regard.lab.server.app import Settings, build

PORT = 8742
TRIES = 20  # ports after the one asked for, before the system chooses
PATIENCE = 5  # seconds that the end waits for a server that is busy


class Lab:
    """A lab that is being served, until the `with` block ends; `url` opens it, with the key of this launch.

    >>> with Lab(Settings(warm=False), port=0) as lab:
    ...     lab.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, settings: Settings | None = None, *, host: str = "127.0.0.1", port: int = PORT) -> None:
        loopback = _is_loopback(host)
        self.settings = replace(settings or Settings(), loopback=loopback)
        self.app = build(self.settings)
        self.socket = _listen(host, port)
        self.host, self.port = self.socket.getsockname()[:2]
        config = uvicorn.Config(
            self.app, log_level="warning", access_log=False, server_header=False, ws="none", timeout_graceful_shutdown=1
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)

    @property
    def origin(self) -> str:
        """The address without the key."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}"

    @property
    def url(self) -> str:
        """The address to open."""
        return f"{self.origin}/?key={self.settings.token}"

    def __enter__(self) -> "Lab":
        self.thread.start()
        while not self.server.started:
            if not self.thread.is_alive():
                raise OSError(f"the lab could not be served at {self.origin}")
            threading.Event().wait(0.01)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE)
        if not self.thread.is_alive():  # else it still listens, and closes the socket itself
            self.socket.close()


def serve(
    settings: Settings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    browser: bool = True,
    told: Callable[[Lab], object] = lambda lab: None,
) -> None:
    """Serve until Ctrl-C; `told` is called with the lab when it answers."""
    with Lab(settings, host=host, port=port) as lab:
        told(lab)
        if browser:
            # A browser in the terminal would not return, and one that is missing must not matter.
            threading.Thread(target=webbrowser.open, args=[lab.url], daemon=True).start()
        try:
            while lab.thread.is_alive():
                lab.thread.join(0.5)
        except KeyboardInterrupt:
            pass


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address("127.0.0.1" if host == "localhost" else host).is_loopback
    except ValueError:
        raise ValueError(f"host must be an address such as 127.0.0.1, got {host!r}") from None


def _listen(host: str, port: int) -> socket.socket:
    """A socket at this port or, when it is taken, at one of the next."""
    if not 0 <= port <= 65535:
        raise ValueError(f"port must be from 0 to 65535 (0: any that is free), got {port}")
    host = "127.0.0.1" if host == "localhost" else host
    last = OSError()
    for candidate in [*(p for p in range(port, port + TRIES + 1) if p <= 65535), 0] if port else [0]:
        listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, candidate))
            listening.listen(512)
            return listening
        except OSError as error:
            listening.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            last = error
    raise last
