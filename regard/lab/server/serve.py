"""Serving the lab: choosing a free port, starting and stopping the server, opening the browser."""

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
from regard.lab.server.slow_connections import PunctualProtocol

PORT = 8742
PORTS_TRIED = 20  # ports after the requested one that are tried before the system chooses one
SHUTDOWN_SECONDS = 5  # time to wait for a busy server to stop


class Lab:
    """A running lab, served until the `with` block ends; `url` opens it and contains the access key.

    settings    options of the lab; the defaults of `Settings` if None
    host, port  address to listen on; port 0 chooses a free port

    >>> with Lab(Settings(warm=False), port=0) as lab:
    ...     lab.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self, settings: Settings | None = None, *, host: str = "127.0.0.1", port: int = PORT) -> None:
        self.settings = replace(settings or Settings(), loopback=_is_loopback(host))
        self.app = build(self.settings)
        self.socket = _listen(host, port)
        self.host, self.port = self.socket.getsockname()[:2]
        config = uvicorn.Config(
            self.app,
            http=PunctualProtocol,
            log_level="error",  # warnings advise to install libraries for WebSockets, which the lab does not use
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=1,
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
        """The address to open in a browser."""
        return f"{self.origin}/?key={self.settings.token}"

    def __enter__(self) -> "Lab":
        self.thread.start()
        while not self.server.started:
            if not self.thread.is_alive():
                raise OSError(f"the lab could not be served at {self.origin}; try another --port")
            threading.Event().wait(0.01)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.server.should_exit = True
        self.thread.join(SHUTDOWN_SECONDS)
        if not self.thread.is_alive():  # otherwise the server still listens and closes the socket itself
            self.socket.close()


def serve(
    settings: Settings | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    browser: bool = True,
    on_start: Callable[[Lab], object] = lambda lab: None,
) -> None:
    """Serve the lab until Ctrl-C; `on_start` is called with the lab once it accepts requests."""
    with Lab(settings, host=host, port=port) as lab:
        on_start(lab)
        if browser:
            # In a thread: a text browser blocks until it is closed.
            threading.Thread(target=webbrowser.open, args=[lab.url], daemon=True).start()
        try:
            # Not `thread.join`: if Ctrl-C interrupts it, Python 3.11 marks the thread as ended while it still runs.
            while lab.thread.is_alive():
                threading.Event().wait(0.5)
        except KeyboardInterrupt:
            pass


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address("127.0.0.1" if host == "localhost" else host).is_loopback
    except ValueError:
        raise ValueError(f"host must be an IP address such as 127.0.0.1, got {host!r}") from None


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at this port or, if the port is taken, at the next free one."""
    if not 0 <= port <= 65535:
        raise ValueError(f"port must be from 0 to 65535 (0 means any free port), got {port}")
    host = "127.0.0.1" if host == "localhost" else host
    last_error = OSError()
    for candidate in [*(p for p in range(port, port + PORTS_TRIED + 1) if p <= 65535), 0] if port else [0]:
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(512)
            return listener
        except OSError as error:
            listener.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            last_error = error
    raise last_error
